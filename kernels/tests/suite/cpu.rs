//! The CPU twin under the laws, and two of its own.

use crate::cases::{Case, Draw, draw};
use crate::laws::{self, Engine};
use asr_kernels::{Problem, cpu, reference};

pub struct Cpu;

impl Engine for Cpu {
    const LOSS: f64 = 2e-7;
    const GRAD: f64 = 1e-6;

    fn nll(&self, logits: &[f32], problem: &Problem) -> Vec<f32> {
        cpu::nll(logits, problem)
    }

    fn nll_and_grad(&self, logits: &[f32], problem: &Problem) -> (Vec<f32>, Vec<f32>) {
        cpu::nll_and_grad(logits, problem)
    }
}

#[test]
fn random_small_batches_match_the_reference() {
    laws::random_small_batches(&Cpu, 400);
}

#[test]
fn large_shapes_match_the_reference() {
    laws::large_shapes(&Cpu);
    laws::a_target_of(&Cpu, 1500);
}

#[test]
fn exactly_feasible_rows_have_one_path_and_tighter_ones_none() {
    laws::exactly_feasible(&Cpu);
}

#[test]
fn extreme_logits_match_the_reference_at_length() {
    laws::extreme_logits_at_length(&Cpu, 900);
}

#[test]
fn empty_and_single_frames_are_legal() {
    laws::empty_and_single(&Cpu);
}

#[test]
fn a_needed_path_may_lie_any_distance_below_the_likeliest() {
    laws::a_needed_path_far_below_the_likeliest(&Cpu);
}

#[test]
fn precision_does_not_decay_with_length() {
    for frames in [800, 20_000] {
        laws::precision_holds_for(&Cpu, frames);
    }
}

#[test]
fn a_nan_stays_in_its_row() {
    laws::nan_stays_in_its_row(&Cpu);
}

#[test]
fn repeats_and_batching_change_no_bit() {
    laws::repeats_and_batching_change_no_bit(&Cpu);
}

#[test]
fn the_number_of_threads_changes_no_bit() {
    for shape in [(1, 900, 40, 90), (3, 700, 300, 60), (9, 50, 20, 9)] {
        let (batch, frames, classes, labels) = shape;
        let Case { logits, problem, .. } =
            draw(21, Draw { batch, frames, classes, labels, scale: 5.0 });
        let run = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| cpu::nll_and_grad(&logits, &problem))
        };
        let one = run(1);
        for threads in [2, 3, 7] {
            assert_eq!(run(threads), one, "{threads} threads, {shape:?}");
        }
    }
}

#[test]
fn a_masked_class_is_impossible_and_nothing_more() {
    let mut masked = draw(4, Draw { batch: 1, frames: 30, classes: 6, labels: 8, scale: 4.0 });
    let unused =
        (0..6).find(|c| *c != masked.problem.blank() && !masked.problem.labels(0).contains(c));
    let used = masked.problem.labels(0)[3];
    if let Some(class) = unused {
        masked
            .logits
            .iter_mut()
            .skip(class as usize)
            .step_by(6)
            .for_each(|x| *x = f32::NEG_INFINITY);
        laws::check(&Cpu, &masked);
    }
    // For the first frames only, the target can still be spelt.
    masked
        .logits
        .iter_mut()
        .skip(used as usize)
        .step_by(6)
        .take(5)
        .for_each(|x| *x = f32::NEG_INFINITY);
    laws::check(&Cpu, &masked);
    masked.logits.iter_mut().skip(used as usize).step_by(6).for_each(|x| *x = f32::NEG_INFINITY);
    let (losses, grad) = cpu::nll_and_grad(&masked.logits, &masked.problem);
    assert_eq!(reference::batch(&masked.logits, &masked.problem).0, [f64::INFINITY]);
    assert_eq!(losses, [f32::INFINITY]);
    assert!(grad.iter().all(|&g| g == 0.0));
}

#[test]
fn pytorchs_cases_are_met() {
    crate::goldens::are_met_by(&Cpu);
}
