//! Batches to try: random and spiked, ragged, tight, repeated, empty, infeasible.

use asr_kernels::{Problem, required_frames};
use fastrand::Rng;

/// Logits with the problem they belong to. `NaN` fills the padding: nobody may read it.
pub struct Case {
    pub name: String,
    pub logits: Vec<f32>,
    pub problem: Problem,
}

/// How to draw a case.
#[derive(Clone, Copy)]
pub struct Draw {
    pub batch: usize,
    pub frames: usize,
    pub classes: usize,
    pub labels: usize,
    /// Logits lie in `-scale..scale`; one in 50 is pushed to the end of it.
    pub scale: f32,
}

/// Labels of which a third repeat their neighbour, as many as fit `frames`.
pub fn random_labels(
    rng: &mut Rng,
    len: usize,
    classes: usize,
    blank: u32,
    frames: usize,
) -> Vec<u32> {
    let mut labels: Vec<u32> = Vec::new();
    while labels.len() < len && classes > 1 {
        let label = match labels.last() {
            Some(&last) if rng.u32(..3) == 0 => last,
            _ => (blank + rng.u32(1..classes as u32)) % classes as u32,
        };
        labels.push(label);
        if required_frames(&labels) > frames {
            labels.pop();
            break;
        }
    }
    labels
}

pub fn random_logits(rng: &mut Rng, len: usize, scale: f32) -> Vec<f32> {
    (0..len)
        .map(|_| match rng.u32(..100) {
            0 => scale,
            1 => -scale,
            _ => scale * (2.0 * rng.f32() - 1.0),
        })
        .collect()
}

pub fn draw(seed: u64, draw: Draw) -> Case {
    let mut rng = Rng::with_seed(seed);
    let Draw { batch, frames, classes, labels, scale } = draw;
    let blank = rng.u32(..classes as u32);
    let mut frame_lens = Vec::new();
    let mut targets = Vec::new();
    for row in 0..batch {
        // The first row is full; the others end anywhere.
        let len = if row == 0 { frames } else { rng.usize(0..=frames) };
        let wanted = if row == 0 { labels } else { rng.usize(0..=labels) };
        targets.push(random_labels(&mut rng, wanted, classes, blank, len));
        frame_lens.push(len);
    }
    let problem = Problem::new(frames, classes, blank, frame_lens, &targets).unwrap();
    case(
        format!("seed {seed}: B{batch} T{frames} C{classes} S{labels} +-{scale}"),
        &mut rng,
        scale,
        problem,
    )
}

/// Draws logits for `problem`, NaN in the padding.
pub fn case(name: String, rng: &mut Rng, scale: f32, problem: Problem) -> Case {
    let mut logits = random_logits(rng, problem.num_logits(), scale);
    let stride = problem.num_frames() * problem.num_classes();
    for (row, &len) in problem.frame_lens().iter().enumerate() {
        logits[row * stride + len * problem.num_classes()..(row + 1) * stride].fill(f32::NAN);
    }
    Case { name, logits, problem }
}
