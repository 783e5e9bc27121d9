//! The laws, for any engine. Each is a function so that every runtime's file can name the
//! ones it is put to, with the tolerance its arithmetic deserves.

use crate::cases::{Case, Draw, case, draw, random_labels};
use asr_kernels::{Problem, reference, required_frames};
use fastrand::Rng;

/// A way to compute CTC.
pub trait Engine {
    /// Greatest relative error of a loss.
    const LOSS: f64;
    /// Greatest absolute error of a gradient element.
    const GRAD: f64;
    fn nll(&self, logits: &[f32], problem: &Problem) -> Vec<f32>;
    fn nll_and_grad(&self, logits: &[f32], problem: &Problem) -> (Vec<f32>, Vec<f32>);
    /// A logit in the engine's own type.
    fn rounded(&self, x: f32) -> f32 {
        x
    }
    /// What rounding the gradient to that type adds to its error.
    fn gradient_rounding(&self) -> f64 {
        0.0
    }
}

/// Compares loss and gradient, padding included, to the reference.
pub fn check<E: Engine>(engine: &E, case: &Case) {
    let Case { name, logits, problem } = case;
    let logits: &[f32] = &logits.iter().map(|x| engine.rounded(*x)).collect::<Vec<f32>>();
    let tolerance = E::GRAD + engine.gradient_rounding();
    let (want, want_grad) = reference::batch(logits, problem);
    let (got, got_grad) = engine.nll_and_grad(logits, problem);
    assert_eq!(engine.nll(logits, problem), got, "{name}: the loss alone is the same loss");
    for (row, (&got, &want)) in got.iter().zip(&want).enumerate() {
        let same = f64::from(got) == want;
        assert!(
            same || (f64::from(got) - want).abs() <= E::LOSS * (1.0 + want.abs()),
            "{name}: row {row}: loss {got}, reference {want}"
        );
        assert_eq!(got == f32::INFINITY, !problem.is_feasible(row), "{name}: row {row}");
    }
    let stride = problem.num_frames() * problem.num_classes();
    for (i, (&got, &want)) in got_grad.iter().zip(&want_grad).enumerate() {
        let (row, t, c) =
            (i / stride, i % stride / problem.num_classes(), i % problem.num_classes());
        let padding = t >= problem.frame_lens()[row] || !problem.is_feasible(row);
        assert!(
            if padding { got == 0.0 } else { (f64::from(got) - want).abs() <= tolerance },
            "{name}: gradient of row {row}, frame {t}, class {c}: {got}, reference {want}"
        );
    }
}

/// Small shapes of every proportion.
pub fn random_small_batches<E: Engine>(engine: &E, count: u64) {
    random_batches_of(engine, count, 40);
}

/// Shapes of every proportion, shorter than `frames`.
pub fn random_batches_of<E: Engine>(engine: &E, count: u64, frames: usize) {
    for seed in 0..count {
        let mut rng = Rng::with_seed(1000 + seed);
        let scale = [1.0, 5.0, 30.0, 300.0][rng.usize(..4)];
        let shape = Draw {
            batch: rng.usize(1..6),
            frames: rng.usize(1..frames),
            classes: rng.usize(1..40),
            labels: rng.usize(0..30),
            scale,
        };
        check(engine, &draw(seed, shape));
    }
}

/// Long targets, wide vocabularies, many frames.
pub fn large_shapes<E: Engine>(engine: &E) {
    for (seed, (batch, frames, classes, labels)) in [
        (3, 400, 7, 130),
        (2, 3000, 5, 40),
        (1, 1200, 50, 600),
        (1, 2000, 30, 1500),
        (2, 60, 10_000, 20),
        (2, 40, 1025, 12),
        (2, 300, 3, 99),
    ]
    .into_iter()
    .enumerate()
    {
        check(engine, &draw(seed as u64, Draw { batch, frames, classes, labels, scale: 4.0 }));
    }
}

/// A target of `labels` labels in half as many frames again.
pub fn a_target_of<E: Engine>(engine: &E, labels: usize) {
    let shape = Draw { batch: 2, frames: labels * 3 / 2, classes: 6, labels, scale: 3.0 };
    check(engine, &draw(labels as u64, shape));
}

/// Exactly one path, or one fewer than needed.
pub fn exactly_feasible<E: Engine>(engine: &E) {
    for seed in 0..20 {
        let mut rng = Rng::with_seed(seed);
        let labels = random_labels(&mut rng, 1 + seed as usize * 3, 5, 0, usize::MAX);
        let frames = required_frames(&labels);
        let lens = vec![frames, frames - 1, frames];
        let problem = Problem::new(frames, 5, 0, lens, &[labels.clone(), labels, vec![]]).unwrap();
        check(engine, &case(format!("tight {seed}"), &mut rng, 300.0, problem));
    }
}

/// Logits of +-300 over many frames: with room, nearly without, and with exactly one path.
pub fn extreme_logits_at_length<E: Engine>(engine: &E, frames: usize) {
    let mut rng = Rng::with_seed(frames as u64);
    let labels = random_labels(&mut rng, frames, 9, 0, frames);
    let needed = required_frames(&labels);
    let targets = [labels[..frames / 8].to_vec(), labels[..frames / 2].to_vec(), labels];
    let problem = Problem::new(frames, 9, 0, vec![frames, frames * 3 / 4, needed], &targets);
    check(engine, &case(format!("+-300 over {frames}"), &mut rng, 300.0, problem.unwrap()));
}

/// Rows without frames, without labels, without either, and single frames.
pub fn empty_and_single<E: Engine>(engine: &E) {
    let mut rng = Rng::with_seed(5);
    let targets = [vec![], vec![1], vec![], vec![1], vec![2, 2]];
    let problem = Problem::new(2, 3, 0, vec![0, 0, 1, 1, 2], &targets).unwrap();
    check(engine, &case("empty and single".into(), &mut rng, 9.0, problem));
    let blank_only = Problem::new(4, 1, 0, vec![4], &[vec![]]).unwrap();
    check(engine, &case("nothing but blank".into(), &mut rng, 9.0, blank_only));
    let no_rows = Problem::new(4, 3, 0, vec![], &[]).unwrap();
    assert_eq!(engine.nll_and_grad(&[], &no_rows), (vec![], vec![]));
    let no_frames = Problem::new(0, 3, 0, vec![0, 0], &[vec![], vec![1]]).unwrap();
    assert_eq!(engine.nll_and_grad(&[], &no_frames), (vec![0.0, f32::INFINITY], vec![]));
}

/// A path must be taken whose every prefix is hopeless beside a sibling: what a linear
/// domain with one scale a frame loses, whichever float it uses.
pub fn a_needed_path_far_below_the_likeliest<E: Engine>(engine: &E) {
    let (frames, labels) = (120, 30);
    for strength in [20.0, 300.0] {
        // Blank is near certain until the last frames, where labels are.
        let targets = [(0..labels).map(|j| 1 + j % 3).collect::<Vec<u32>>()];
        let problem = Problem::new(frames, 4, 0, vec![frames], &targets).unwrap();
        let logits = (0..frames * 4)
            .map(|i| {
                let likely = if i / 4 < frames - 5 { 0 } else { 1 + i / 4 % 3 };
                if i % 4 == likely { strength } else { -0.1 * (i % 7) as f32 }
            })
            .collect();
        check(engine, &Case { name: format!("late labels at {strength}"), logits, problem });
    }
}

/// Uniform and confident frames by the thousand: nothing may drift.
pub fn precision_holds_for<E: Engine>(engine: &E, frames: usize) {
    let labels: Vec<u32> = (0..400).map(|j| 1 + j * 7 % 31).collect();
    let problem = Problem::new(frames, 32, 0, vec![frames], std::slice::from_ref(&labels)).unwrap();
    let uniform = vec![0.0; frames * 32];
    check(
        engine,
        &Case { name: format!("uniform, T {frames}"), logits: uniform, problem: problem.clone() },
    );
    let spoken = |t: usize| {
        if t.is_multiple_of(frames / 400) { labels.get(t / (frames / 400)) } else { None }
    };
    let confident = (0..frames * 32)
        .map(|i| {
            if i % 32 == spoken(i / 32).map_or(0, |&l| l as usize) {
                12.0
            } else {
                (i % 5) as f32 * 0.3
            }
        })
        .collect();
    check(engine, &Case { name: format!("confident, T {frames}"), logits: confident, problem });
}

/// A row's NaN is its own.
pub fn nan_stays_in_its_row<E: Engine>(engine: &E) {
    let clean = draw(8, Draw { batch: 4, frames: 12, classes: 5, labels: 4, scale: 3.0 });
    let (want, want_grad) = engine.nll_and_grad(&clean.logits, &clean.problem);
    let stride = 12 * 5;
    for poison in [f32::NAN, f32::INFINITY] {
        let mut logits = clean.logits.clone();
        logits[3] = poison;
        let (got, got_grad) = engine.nll_and_grad(&logits, &clean.problem);
        assert!(got[0].is_nan() && got_grad[..stride].iter().all(|g| g.is_nan()));
        assert_eq!(got[1..], want[1..]);
        assert_eq!(got_grad[stride..], want_grad[stride..]);
    }
}

/// The same bits every time, and a row's bits do not depend on its company.
pub fn repeats_and_batching_change_no_bit<E: Engine>(engine: &E) {
    let batch = draw(11, Draw { batch: 5, frames: 90, classes: 33, labels: 25, scale: 6.0 });
    let (want, want_grad) = engine.nll_and_grad(&batch.logits, &batch.problem);
    for _ in 0..3 {
        assert_eq!(
            engine.nll_and_grad(&batch.logits, &batch.problem),
            (want.clone(), want_grad.clone())
        );
    }
    let (problem, stride) = (&batch.problem, 90 * 33);
    for row in 0..5 {
        let lens = vec![problem.frame_lens()[row]];
        let alone =
            Problem::new(90, 33, problem.blank(), lens, &[problem.labels(row).to_vec()]).unwrap();
        let logits = &batch.logits[row * stride..][..stride];
        let (loss, grad) = engine.nll_and_grad(logits, &alone);
        assert_eq!(loss[0], want[row]);
        assert_eq!(grad, want_grad[row * stride..][..stride]);
    }
}
