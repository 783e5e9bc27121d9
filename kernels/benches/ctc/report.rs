//! Types of logits, errors against the references, order statistics.

use crate::draw::Batch;
use asr_kernels::{Problem, cpu, reference};
use half::{bf16, f16};

/// What logits are rounded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    F32,
    #[cfg_attr(not(feature = "gpu"), allow(dead_code))]
    F16,
    #[cfg_attr(not(feature = "gpu"), allow(dead_code))]
    Bf16,
}

impl Type {
    pub fn rounded(self, x: f32) -> f32 {
        match self {
            Self::F32 => x,
            Self::F16 => f16::from_f32(x).to_f32(),
            Self::Bf16 => bf16::from_f32(x).to_f32(),
        }
    }

    /// Greatest error that rounding a gradient of at most 1 adds.
    #[cfg(feature = "gpu")]
    pub fn rounding(self) -> f64 {
        match self {
            Self::F32 => 0.0,
            Self::F16 => 2.5e-4,
            Self::Bf16 => 2.0e-3,
        }
    }
}

/// Equal infinities are no error.
fn relative(got: f64, want: f64) -> f64 {
    if got == want { 0.0 } else { (got - want).abs() / want.abs() }
}

/// Greatest relative error of the losses and greatest error of the gradient relative to its
/// row's greatest element. The f64 reference judges two rows, and the CPU path, which the suite
/// holds to the reference, the others.
pub fn errors(batch: &Batch, losses: &[f32], grad: &[f32]) -> (f64, f64) {
    let Batch { logits, problem } = batch;
    let stride = problem.num_frames() * problem.num_classes();
    let (cpu_losses, cpu_grad) = cpu::nll_and_grad(logits, problem);
    let mut want: Vec<f64> = cpu_losses.into_iter().map(f64::from).collect();
    let mut want_grad: Vec<f64> = cpu_grad.into_iter().map(f64::from).collect();
    let rows = problem.batch_size();
    for row in [0, rows - 1] {
        let alone = Problem::new(
            problem.num_frames(),
            problem.num_classes(),
            problem.blank(),
            vec![problem.frame_lens()[row]],
            &[problem.labels(row).to_vec()],
        )
        .expect("a row of a problem is a problem");
        let (loss, row_grad) = reference::batch(&logits[row * stride..][..stride], &alone);
        want[row] = loss[0];
        want_grad[row * stride..][..stride].copy_from_slice(&row_grad);
    }
    let loss = losses.iter().zip(&want).map(|(a, b)| relative(f64::from(*a), *b));
    let by_row = grad.chunks(stride).zip(want_grad.chunks(stride)).map(|(got, want)| {
        let greatest = want.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
        let error = got.iter().zip(want).fold(0.0, |worst: f64, (a, b)| {
            // A NaN must not pass for the lesser of two.
            let error = (f64::from(*a) - b).abs();
            if error.is_nan() { f64::INFINITY } else { worst.max(error) }
        });
        if greatest > 0.0 { error / greatest } else { error }
    });
    let worst = |a: f64, b: f64| if b.is_nan() { f64::INFINITY } else { a.max(b) };
    (loss.fold(0.0, worst), by_row.fold(0.0, worst))
}

/// Order statistics of some times in milliseconds.
pub struct Times {
    sorted: Vec<f64>,
}

impl Times {
    pub fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        Self { sorted: times }
    }

    pub fn at(&self, share: f64) -> f64 {
        self.sorted[((self.sorted.len() - 1) as f64 * share) as usize]
    }
}
