//! Batches to time: drawn with outliers, since uniform noise would be too easy, and rounded to
//! the type they will have, so that every engine is judged by the numbers it was given.

use crate::report::Type;
use asr_kernels::Problem;
use fastrand::Rng;

/// Sizes of a batch.
#[derive(Clone, Copy)]
pub struct Shape {
    pub batch: usize,
    pub frames: usize,
    pub classes: usize,
    pub labels: usize,
    /// Whether rows after the first are shorter.
    pub is_ragged: bool,
}

impl Shape {
    pub const fn full(batch: usize, frames: usize, classes: usize, labels: usize) -> Self {
        Self { batch, frames, classes, labels, is_ragged: false }
    }

    #[cfg(feature = "gpu")]
    pub const fn ragged(self) -> Self {
        Self { is_ragged: true, ..self }
    }
}

/// The shapes of the project's table.
pub const TABLE: [Shape; 5] = [
    Shape::full(32, 500, 32, 100),
    Shape::full(16, 1000, 1024, 150),
    Shape::full(64, 250, 1024, 50),
    Shape::full(8, 2000, 128, 500),
    Shape::full(32, 1500, 128, 300),
];

/// Logits that are exact in their type, and their problem.
pub struct Batch {
    pub logits: Vec<f32>,
    pub problem: Problem,
}

pub fn draw(shape: Shape, dtype: Type, seed: u64) -> Batch {
    let mut rng = Rng::with_seed(seed);
    let Shape { batch, frames, classes, labels, is_ragged } = shape;
    let mut frame_lens = Vec::new();
    let mut targets = Vec::new();
    for row in 0..batch {
        // Lengths fall evenly to two fifths of the longest, targets with them.
        let share = if is_ragged { 1.0 - 0.6 * row as f64 / batch as f64 } else { 1.0 };
        frame_lens.push((frames as f64 * share) as usize);
        let len = (labels as f64 * share) as usize;
        targets.push((0..len).map(|_| rng.u32(1..classes as u32)).collect::<Vec<u32>>());
    }
    let logits = (0..batch * frames * classes)
        .map(|_| if rng.u32(..100) == 0 { 30.0 * rng.f32() } else { 6.0 * rng.f32() - 3.0 })
        .map(|x| dtype.rounded(x))
        .collect();
    let problem = Problem::new(frames, classes, 0, frame_lens, &targets)
        .expect("the drawn targets are within the drawn sizes");
    Batch { logits, problem }
}
