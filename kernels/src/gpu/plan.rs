//! The integers of a batch, packed for two uploads: what the sweeps need, and what only the
//! gradient does, whose sorting a host does while the sweeps run.

use crate::Problem;

/// Words before a row's labels in the plan: frames, labels, feasible.
pub(super) const HEADER: usize = 3;
/// Words before a row's classes in the runs: frames, labels, distinct classes.
pub(super) const RUNS_HEADER: usize = 3;

/// Words of a row of the plan: header, labels `[S]`, and repeats `[S + 1]`, how many of the labels
/// before a place equal the one before them.
pub(super) fn row_words(max_label_len: usize) -> usize {
    HEADER + 2 * max_label_len + 1
}

/// Words of a row of the runs: header, classes `[S]`, sorted positions `[S]`, starts `[S + 1]`.
pub(super) fn runs_row_words(max_label_len: usize) -> usize {
    RUNS_HEADER + 3 * max_label_len + 1
}

/// The plan's rows.
pub(super) fn pack(problem: &Problem) -> Vec<u32> {
    let max_len = problem.max_label_len();
    let words = row_words(max_len);
    let mut plan = vec![0; words * problem.batch_size()];
    for (row, packed) in plan.chunks_exact_mut(words).enumerate() {
        let labels = problem.labels(row);
        packed[0] = problem.frame_lens()[row] as u32;
        packed[1] = labels.len() as u32;
        packed[2] = problem.is_feasible(row).into();
        packed[HEADER..][..labels.len()].copy_from_slice(labels);
        let repeats = &mut packed[HEADER + max_len..];
        for i in 1..labels.len() {
            repeats[i + 1] = repeats[i] + u32::from(labels[i] == labels[i - 1]);
        }
    }
    plan
}

/// Each row's label positions sorted by class, so that a class sums its states in one order.
/// Run `k`, `starts[k]..starts[k + 1]`, holds the positions of class `classes[k]`, rising.
pub(super) fn pack_runs(problem: &Problem) -> Vec<u32> {
    let max_len = problem.max_label_len();
    let words = runs_row_words(max_len);
    let mut runs = vec![0; words * problem.batch_size()];
    let mut counts = Counts::new(problem.num_classes());
    for (row, packed) in runs.chunks_exact_mut(words).enumerate() {
        let labels = problem.labels(row);
        let (header, rest) = packed.split_at_mut(RUNS_HEADER);
        let (classes, rest) = rest.split_at_mut(max_len);
        let (positions, starts) = rest.split_at_mut(max_len);
        let num_runs = counts.runs(labels, classes, positions, starts);
        header[0] = problem.frame_lens()[row] as u32;
        header[1] = labels.len() as u32;
        header[2] = num_runs as u32;
    }
    runs
}

/// Sorts by counting, in time and memory that grow with labels and classes, no faster.
struct Counts {
    /// Labels of a class; then the place of the next of them among the positions.
    of_class: Vec<u32>,
}

impl Counts {
    fn new(num_classes: usize) -> Self {
        Self { of_class: vec![0; num_classes] }
    }

    /// Fills in one row and returns its number of runs.
    fn runs(
        &mut self,
        labels: &[u32],
        classes: &mut [u32],
        positions: &mut [u32],
        starts: &mut [u32],
    ) -> usize {
        let mut num_runs = 0;
        for &label in labels {
            let count = &mut self.of_class[label as usize];
            if *count == 0 {
                classes[num_runs] = label;
                num_runs += 1;
            }
            *count += 1;
        }
        classes[..num_runs].sort_unstable();
        let mut at = 0;
        for (&class, start) in classes[..num_runs].iter().zip(starts.iter_mut()) {
            *start = at;
            at += std::mem::replace(&mut self.of_class[class as usize], at);
        }
        starts[num_runs] = at;
        for (&label, place) in labels.iter().zip(0..) {
            let next = &mut self.of_class[label as usize];
            positions[*next as usize] = place;
            *next += 1;
        }
        for &class in &classes[..num_runs] {
            self.of_class[class as usize] = 0;
        }
        num_runs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem() -> Problem {
        Problem::new(9, 9, 0, vec![9, 1], &[vec![5, 3, 5, 3, 1], vec![2, 2]]).expect("it is good")
    }

    #[test]
    fn positions_are_sorted_by_class_and_then_by_place() {
        let runs = pack_runs(&problem());
        let (first, second) = runs.split_at(runs_row_words(5));
        assert_eq!(first[..6], [9, 5, 3, 1, 3, 5]);
        assert_eq!(first[8..13], [4, 1, 3, 0, 2]);
        assert_eq!(first[13..17], [0, 1, 3, 5]);
        assert_eq!(second[..4], [1, 2, 1, 2]);
        assert_eq!(second[8..10], [0, 1]);
        assert_eq!(second[13..15], [0, 2]);
    }

    #[test]
    fn repeats_are_counted_and_feasibility_told() {
        let plan = pack(&problem());
        let (first, second) = plan.split_at(row_words(5));
        assert_eq!(first[..8], [9, 5, 1, 5, 3, 5, 3, 1]);
        assert_eq!(first[8..], [0; 6]);
        assert_eq!(second[..5], [1, 2, 0, 2, 2]);
        assert_eq!(second[8..11], [0, 0, 1]);
    }
}
