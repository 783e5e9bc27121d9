//! Which states of the CTC lattice can matter, decided in integers so that no float has
//! to mean "impossible".
//!
//! For `S` labels there are `2 S + 1` states: even ones are blanks, state `2 j + 1` is
//! label `j`. A state is live at a frame when some complete path passes through it there.

use std::ops::Range;

/// The fewest frames that can spell `labels`: one each, and a blank between equal neighbours.
pub fn required_frames(labels: &[u32]) -> usize {
    labels.len() + labels.windows(2).filter(|pair| pair[0] == pair[1]).count()
}

/// The earliest frame at which each of the `2 S + 1` states can be entered.
pub fn first_frames(labels: &[u32]) -> Vec<usize> {
    let mut first = Vec::with_capacity(2 * labels.len() + 1);
    first.push(0);
    let mut frame = 0;
    for (i, label) in labels.iter().enumerate() {
        if i > 0 {
            frame += 1 + usize::from(labels[i - 1] == *label);
        }
        first.extend([frame, frame + 1]);
    }
    first
}

/// The fewest frames that must follow each state before a path can end.
pub fn frames_left(labels: &[u32]) -> Vec<usize> {
    let reversed: Vec<u32> = labels.iter().rev().copied().collect();
    let mut left = first_frames(&reversed);
    left.reverse();
    left
}

/// The live states of every frame: one contiguous run each, empty throughout when
/// `labels` cannot be spelt in `num_frames`.
pub fn live_states(labels: &[u32], num_frames: usize) -> Vec<Range<usize>> {
    let first = first_frames(labels);
    let left = frames_left(labels);
    if num_frames < required_frames(labels) {
        return vec![0..0; num_frames];
    }
    let (mut start, mut end) = (0, 0);
    (0..num_frames)
        .map(|t| {
            // Both bounds only grow with t: `first` rises from blank to blank and `left` falls.
            while end < first.len() && first[end] <= t {
                end += 1;
            }
            while t + left[start] >= num_frames {
                start += 1;
            }
            start..end
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn label_strings() -> Vec<Vec<u32>> {
        let mut all = vec![vec![]];
        for len in 1..=5 {
            all.extend((0..1 << len).map(|bits| (0..len).map(|i| 1 + (bits >> i & 1)).collect()));
        }
        all
    }

    /// Liveness by walking the graph forwards and backwards.
    fn searched(labels: &[u32], num_frames: usize) -> Vec<Vec<bool>> {
        let states = 2 * labels.len() + 1;
        let edge = |from: usize, to: usize| {
            to == from
                || to == from + 1
                || (to == from + 2 && to % 2 == 1 && labels[to / 2] != labels[from / 2])
        };
        let mut ahead = vec![vec![false; states]; num_frames];
        let mut back = ahead.clone();
        for t in 0..num_frames {
            for s in 0..states {
                ahead[t][s] =
                    if t == 0 { s < 2 } else { (0..=s).any(|r| ahead[t - 1][r] && edge(r, s)) };
            }
        }
        for t in (0..num_frames).rev() {
            for s in 0..states {
                back[t][s] = if t + 1 == num_frames {
                    s + 2 >= states
                } else {
                    (s..states).any(|r| back[t + 1][r] && edge(s, r))
                };
            }
        }
        (0..num_frames).map(|t| (0..states).map(|s| ahead[t][s] && back[t][s]).collect()).collect()
    }

    #[test]
    fn live_states_are_those_a_graph_search_finds() {
        for labels in label_strings() {
            for num_frames in 1..=12 {
                let want = searched(&labels, num_frames);
                for (t, live) in live_states(&labels, num_frames).into_iter().enumerate() {
                    let got: Vec<bool> = (0..want[t].len()).map(|s| live.contains(&s)).collect();
                    assert_eq!(got, want[t], "{labels:?} in {num_frames} frames, frame {t}");
                }
            }
        }
    }

    #[test]
    fn equal_neighbours_cost_a_frame_more() {
        assert_eq!(required_frames(&[]), 0);
        assert_eq!(required_frames(&[3, 4, 3]), 3);
        assert_eq!(required_frames(&[3, 3, 3]), 5);
        for labels in label_strings().iter().filter(|labels| !labels.is_empty()) {
            let last_label = first_frames(labels)[2 * labels.len() - 1];
            assert_eq!(required_frames(labels), last_label + 1);
        }
    }
}
