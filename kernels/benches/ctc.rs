//! Checks the CPU path against the f64 reference, then times it; one JSON line a shape.
//! `cargo bench -p asr-kernels [-- REPEATS]`. `scripts/bench_ctc.py` sets it beside PyTorch.

use asr_kernels::{Problem, cpu, reference};
use fastrand::Rng;
use std::hint::black_box;
use std::time::Instant;

/// B, T, C and labels of the shapes in the project's tables.
const SHAPES: [(usize, usize, usize, usize); 3] =
    [(8, 200, 32, 40), (8, 500, 32, 100), (4, 1000, 1024, 150)];

fn draw(batch: usize, frames: usize, classes: usize, labels: usize) -> (Vec<f32>, Problem) {
    let mut rng = Rng::with_seed(7);
    let targets: Vec<Vec<u32>> =
        (0..batch).map(|_| (0..labels).map(|_| rng.u32(1..classes as u32)).collect()).collect();
    // One logit in 100 is an outlier: uniform noise would be too easy.
    let logits = (0..batch * frames * classes)
        .map(|_| if rng.u32(..100) == 0 { 60.0 * rng.f32() } else { 6.0 * rng.f32() - 3.0 })
        .collect();
    let problem = Problem::new(frames, classes, 0, vec![frames; batch], &targets)
        .expect("the drawn targets are within the drawn sizes");
    (logits, problem)
}

/// Greatest relative error of the losses, greatest absolute error of the gradient.
fn errors(logits: &[f32], problem: &Problem) -> (f64, f64) {
    let (losses, grad) = cpu::nll_and_grad(logits, problem);
    let (want, want_grad) = reference::batch(logits, problem);
    let loss = losses.iter().zip(&want).map(|(a, b)| (f64::from(*a) - b).abs() / b.abs());
    let grad = grad.iter().zip(&want_grad).map(|(a, b)| (f64::from(*a) - b).abs());
    (loss.fold(0.0, f64::max), grad.fold(0.0, f64::max))
}

/// Sorted milliseconds of `repeats` runs, after a few to warm up.
fn time<R>(repeats: usize, mut run: impl FnMut() -> R) -> Vec<f64> {
    for _ in 0..repeats.div_ceil(10) {
        black_box(run());
    }
    let mut times: Vec<f64> = (0..repeats)
        .map(|_| {
            let start = Instant::now();
            black_box(run());
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times
}

fn main() {
    let repeats = std::env::args().find_map(|arg| arg.parse().ok()).unwrap_or(100);
    for (batch, frames, classes, labels) in SHAPES {
        let (logits, problem) = draw(batch, frames, classes, labels);
        let (loss_error, grad_error) = errors(&logits, &problem);
        assert!(
            loss_error < 2e-7 && grad_error < 2e-6,
            "wrong: {loss_error} {grad_error}; not timed"
        );
        for (work, times) in [
            ("nll", time(repeats, || cpu::nll(black_box(&logits), &problem))),
            ("nll_and_grad", time(repeats, || cpu::nll_and_grad(black_box(&logits), &problem))),
        ] {
            let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
            println!(
                "{{\"work\":\"{work}\",\"b\":{batch},\"t\":{frames},\"c\":{classes},\"u\":{labels},\
                 \"threads\":{},\"repeats\":{repeats},\"median_ms\":{:.4},\"p10_ms\":{:.4},\"p90_ms\":{:.4},\
                 \"loss_error\":{loss_error:.2e},\"grad_error\":{grad_error:.2e}}}",
                rayon::current_num_threads(),
                at(0.5),
                at(0.1),
                at(0.9),
            );
        }
    }
}
