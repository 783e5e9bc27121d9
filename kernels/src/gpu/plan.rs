//! The integers of a batch, packed for one upload: lengths, labels, and for the gradient
//! each row's label positions sorted by class, so that a class sums its states in one order.

use crate::Problem;

/// Words before a row's labels: frames, labels, distinct classes, feasible.
pub(super) const HEADER: usize = 4;

/// Words a row takes: header, labels `[S]`, sorted positions `[S]`, starts `[S + 1]`.
pub(super) fn row_words(max_label_len: usize) -> usize {
    HEADER + 3 * max_label_len + 1
}

/// The packed rows. Run `k` of a row's sorted positions, `starts[k]..starts[k + 1]`, holds
/// the positions of its `k`-th distinct class in rising order.
pub(super) fn pack(problem: &Problem) -> Vec<u32> {
    let max_len = problem.max_label_len();
    let words = row_words(max_len);
    let mut plan = vec![0; words * problem.batch_size()];
    for (row, packed) in plan.chunks_exact_mut(words).enumerate() {
        let labels = problem.labels(row);
        let mut positions: Vec<u32> = (0..labels.len() as u32).collect();
        positions.sort_by_key(|&j| labels[j as usize]);
        let mut starts: Vec<u32> = (0..labels.len() as u32)
            .filter(|&i| {
                let class = |i: u32| labels[positions[i as usize] as usize];
                i == 0 || class(i) != class(i - 1)
            })
            .collect();
        packed[0] = problem.frame_lens()[row] as u32;
        packed[1] = labels.len() as u32;
        packed[2] = starts.len() as u32;
        packed[3] = problem.is_feasible(row).into();
        starts.push(labels.len() as u32);
        packed[HEADER..][..labels.len()].copy_from_slice(labels);
        packed[HEADER + max_len..][..labels.len()].copy_from_slice(&positions);
        packed[HEADER + 2 * max_len..][..starts.len()].copy_from_slice(&starts);
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_sorted_by_class_and_then_by_place() {
        let problem = Problem::new(9, 9, 0, vec![9, 1], &[vec![5, 3, 5, 3, 1], vec![2, 2]])
            .expect("it is good");
        let plan = pack(&problem);
        assert_eq!(plan[..4], [9, 5, 3, 1]);
        assert_eq!(plan[4..9], [5, 3, 5, 3, 1]);
        assert_eq!(plan[9..14], [4, 1, 3, 0, 2]);
        assert_eq!(plan[14..18], [0, 1, 3, 5]);
        assert_eq!(plan[20..24], [1, 2, 1, 0]);
        assert_eq!(plan[34..36], [0, 2]);
    }
}
