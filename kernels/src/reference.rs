//! The slow, obvious CTC in f64: the forward and backward variables of Graves et al.,
//! "Connectionist Temporal Classification" (ICML 2006), equations 6, 10 and 16, in logs.
//! It judges every fast path and is itself judged by enumeration of all paths.

use crate::Problem;

/// `ln(e^a + e^b)`.
fn log_add(a: f64, b: f64) -> f64 {
    let max = a.max(b);
    if max == f64::NEG_INFINITY { max } else { max + ((a - max).exp() + (b - max).exp()).ln() }
}

/// The class of each state: a blank before, between and after the labels.
fn state_classes(labels: &[u32], blank: u32) -> Vec<usize> {
    (0..=2 * labels.len())
        .map(|s| if s % 2 == 1 { labels[s / 2] as usize } else { blank as usize })
        .collect()
}

/// Whether a path may go from `s - 2` to `s`, past the blank between.
fn may_skip(classes: &[usize], s: usize) -> bool {
    s >= 2 && s % 2 == 1 && classes[s] != classes[s - 2]
}

/// `alpha[t][s]`: log-probability of all path prefixes that are in `s` at `t`, frame `t` included.
fn forward(log_probs: &[Vec<f64>], classes: &[usize]) -> Vec<Vec<f64>> {
    let mut alpha = vec![vec![f64::NEG_INFINITY; classes.len()]; log_probs.len()];
    for (t, row) in log_probs.iter().enumerate() {
        for (s, &class) in classes.iter().enumerate() {
            let arriving = if t == 0 {
                if s < 2 { 0.0 } else { f64::NEG_INFINITY }
            } else {
                let before = &alpha[t - 1];
                let mut sum = before[s];
                if s >= 1 {
                    sum = log_add(sum, before[s - 1]);
                }
                if may_skip(classes, s) {
                    sum = log_add(sum, before[s - 2]);
                }
                sum
            };
            alpha[t][s] = arriving + row[class];
        }
    }
    alpha
}

/// `beta[t][s]`: log-probability of all path suffixes after `t`, given `s` at `t`.
fn backward(log_probs: &[Vec<f64>], classes: &[usize]) -> Vec<Vec<f64>> {
    let (num_frames, num_states) = (log_probs.len(), classes.len());
    let mut beta = vec![vec![f64::NEG_INFINITY; num_states]; num_frames];
    for t in (0..num_frames).rev() {
        for s in 0..num_states {
            if t + 1 == num_frames {
                beta[t][s] = if s + 2 >= num_states { 0.0 } else { f64::NEG_INFINITY };
                continue;
            }
            let through = |next: usize| beta[t + 1][next] + log_probs[t + 1][classes[next]];
            let mut sum = through(s);
            if s + 1 < num_states {
                sum = log_add(sum, through(s + 1));
            }
            if s + 2 < num_states && may_skip(classes, s + 2) {
                sum = log_add(sum, through(s + 2));
            }
            beta[t][s] = sum;
        }
    }
    beta
}

fn total(alpha: &[Vec<f64>]) -> f64 {
    let last = alpha.last().expect("a lattice has frames");
    match last.len() {
        1 => last[0],
        n => log_add(last[n - 1], last[n - 2]),
    }
}

/// `-ln p(labels | log_probs)` for `log_probs` of `[T][C]`, in nats.
/// No frames spell only the empty target, and that surely.
pub fn nll(log_probs: &[Vec<f64>], labels: &[u32], blank: u32) -> f64 {
    if log_probs.is_empty() {
        return if labels.is_empty() { 0.0 } else { f64::INFINITY };
    }
    -total(&forward(log_probs, &state_classes(labels, blank)))
}

/// Logits of one frame to log-probabilities.
pub fn log_softmax(logits: &[f64]) -> Vec<f64> {
    let max = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let lse = max + logits.iter().map(|x| (x - max).exp()).sum::<f64>().ln();
    logits.iter().map(|x| x - lse).collect()
}

/// Loss and its gradient with respect to `logits` of `[T][C]`: softmax minus occupancy.
/// Where no path exists the loss is infinite and the gradient 0.
pub fn nll_and_grad(logits: &[Vec<f64>], labels: &[u32], blank: u32) -> (f64, Vec<Vec<f64>>) {
    let log_probs: Vec<Vec<f64>> = logits.iter().map(|row| log_softmax(row)).collect();
    let loss = nll(&log_probs, labels, blank);
    let mut grad: Vec<Vec<f64>> = logits.iter().map(|row| vec![0.0; row.len()]).collect();
    if loss == f64::INFINITY || logits.is_empty() {
        return (loss, grad);
    }
    let classes = state_classes(labels, blank);
    let alpha = forward(&log_probs, &classes);
    let beta = backward(&log_probs, &classes);
    for (t, row) in grad.iter_mut().enumerate() {
        for (g, log_prob) in row.iter_mut().zip(&log_probs[t]) {
            *g = log_prob.exp();
        }
        for (s, &class) in classes.iter().enumerate() {
            row[class] -= (alpha[t][s] + beta[t][s] + loss).exp();
        }
    }
    (loss, grad)
}

/// The whole batch from f32 logits `[B, T, C]`, in the layout of the fast paths:
/// losses `[B]`, gradient `[B, T, C]`, 0 in padding.
///
/// # Panics
/// When `logits` are not of the problem's size.
pub fn batch(logits: &[f32], problem: &Problem) -> (Vec<f64>, Vec<f64>) {
    assert_eq!(logits.len(), problem.num_logits(), "logits must be [B, T, C] of the problem");
    let (num_frames, num_classes) = (problem.num_frames(), problem.num_classes());
    let mut grad = vec![0.0; logits.len()];
    let losses = (0..problem.batch_size())
        .map(|row| {
            let start = row * num_frames * num_classes;
            let valid = start..start + problem.frame_lens()[row] * num_classes;
            let frames: Vec<Vec<f64>> = logits[valid.clone()]
                .chunks(num_classes)
                .map(|frame| frame.iter().map(|&x| f64::from(x)).collect())
                .collect();
            let (loss, rows) = nll_and_grad(&frames, problem.labels(row), problem.blank());
            grad[valid].copy_from_slice(&rows.concat());
            loss
        })
        .collect();
    (losses, grad)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random_logits(rng: &mut fastrand::Rng, frames: usize, classes: usize) -> Vec<Vec<f64>> {
        (0..frames).map(|_| (0..classes).map(|_| 6.0 * rng.f64() - 3.0).collect()).collect()
    }

    fn collapse(path: &[u32], blank: u32) -> Vec<u32> {
        let mut out = Vec::new();
        for (t, &class) in path.iter().enumerate() {
            if class != blank && (t == 0 || path[t - 1] != class) {
                out.push(class);
            }
        }
        out
    }

    /// Sums the probability of every one of the `C^T` paths that spells `labels`.
    fn enumerated(log_probs: &[Vec<f64>], labels: &[u32], blank: u32) -> f64 {
        let (frames, classes) = (log_probs.len(), log_probs[0].len());
        let mut total = 0.0;
        for mut code in 0..classes.pow(frames as u32) {
            let mut path = Vec::with_capacity(frames);
            for _ in 0..frames {
                path.push((code % classes) as u32);
                code /= classes;
            }
            if collapse(&path, blank) == labels {
                let log: f64 = path.iter().zip(log_probs).map(|(&c, row)| row[c as usize]).sum();
                total += log.exp();
            }
        }
        -total.ln()
    }

    #[test]
    fn three_uniform_frames_spell_ab_five_ways() {
        // 5 of the 3^3 paths collapse to "ab": aab abb ab_ a_b _ab.
        let frames = vec![vec![(1.0_f64 / 3.0).ln(); 3]; 3];
        let want = -(5.0_f64 / 27.0).ln();
        assert!((nll(&frames, &[1, 2], 0) - want).abs() < 1e-12);
    }

    #[test]
    fn the_loss_is_the_sum_over_all_paths() {
        let mut rng = fastrand::Rng::with_seed(1);
        let targets: [&[u32]; 8] =
            [&[], &[1], &[1, 1], &[1, 2], &[2, 1, 2], &[1, 1, 1], &[2, 2, 1], &[1, 2, 1, 2]];
        for frames in 1..=6 {
            for blank in [0, 2] {
                // Swap the names of 0 and `blank` so that every target avoids the blank.
                let rename = |label: &u32| if *label == blank { 0 } else { *label };
                for labels in targets.map(|t| t.iter().map(rename).collect::<Vec<u32>>()) {
                    let logits = random_logits(&mut rng, frames, 4);
                    let log_probs: Vec<_> = logits.iter().map(|row| log_softmax(row)).collect();
                    let (got, want) =
                        (nll(&log_probs, &labels, blank), enumerated(&log_probs, &labels, blank));
                    assert!(got == want || (got - want).abs() < 1e-10, "{labels:?}: {got} {want}");
                    assert_eq!(got == f64::INFINITY, frames < crate::required_frames(&labels));
                }
            }
        }
    }

    #[test]
    fn the_gradient_is_the_difference_quotient() {
        let mut rng = fastrand::Rng::with_seed(2);
        let targets: [&[u32]; 5] = [&[], &[1], &[1, 1], &[1, 2, 1], &[3, 3, 2]];
        for labels in targets {
            let mut logits = random_logits(&mut rng, 6, 4);
            let (_, grad) = nll_and_grad(&logits, labels, 0);
            for t in 0..6 {
                assert!(grad[t].iter().sum::<f64>().abs() < 1e-12, "a frame's gradient sums to 0");
                for c in 0..4 {
                    let at = logits[t][c];
                    let mut loss_at = |x| {
                        logits[t][c] = x;
                        nll_and_grad(&logits, labels, 0).0
                    };
                    let quotient = (loss_at(at + 1e-5) - loss_at(at - 1e-5)) / 2e-5;
                    loss_at(at);
                    assert!((quotient - grad[t][c]).abs() < 1e-8, "{quotient} {}", grad[t][c]);
                }
            }
        }
    }

    #[test]
    fn no_frames_spell_only_the_empty_target() {
        assert_eq!(nll_and_grad(&[], &[], 0).0, 0.0);
        assert_eq!(nll_and_grad(&[], &[1], 0).0, f64::INFINITY);
    }
}
