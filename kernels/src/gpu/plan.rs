//! The integers of a batch, packed for one upload: lengths, labels, and for the gradient
//! each row's label positions sorted by class, so that a class sums its states in one order.

use crate::Problem;

/// Words before a row's labels: frames, labels, distinct classes, feasible.
pub(super) const HEADER: usize = 4;

/// Words a row takes: header, labels `[S]`, sorted positions `[S]`, starts `[S + 1]`, and
/// repeats `[S + 1]`, how many of the labels before a place equal the one before them.
pub(super) fn row_words(max_label_len: usize) -> usize {
    HEADER + 4 * max_label_len + 2
}

/// The packed rows. Run `k` of a row's sorted positions, `starts[k]..starts[k + 1]`, holds
/// the positions of its `k`-th distinct class in rising order.
pub(super) fn pack(problem: &Problem) -> Vec<u32> {
    let max_len = problem.max_label_len();
    let words = row_words(max_len);
    let mut plan = vec![0; words * problem.batch_size()];
    for (row, packed) in plan.chunks_exact_mut(words).enumerate() {
        let labels = problem.labels(row);
        // Class and place in one key: a launch waits for this sort.
        let mut keys: Vec<u64> = labels
            .iter()
            .zip(0..)
            .map(|(&label, j): (_, u64)| u64::from(label) << 32 | j)
            .collect();
        keys.sort_unstable();
        let class = |i: usize| keys[i] >> 32;
        let positions = keys.iter().map(|key| *key as u32);
        let starts: Vec<u32> = (0..keys.len())
            .filter(|&i| i == 0 || class(i) != class(i - 1))
            .chain([keys.len()])
            .map(|i| i as u32)
            .collect();
        packed[0] = problem.frame_lens()[row] as u32;
        packed[1] = labels.len() as u32;
        packed[2] = starts.len() as u32 - 1;
        packed[3] = problem.is_feasible(row).into();
        packed[HEADER..][..labels.len()].copy_from_slice(labels);
        for (word, position) in packed[HEADER + max_len..].iter_mut().zip(positions) {
            *word = position;
        }
        packed[HEADER + 2 * max_len..][..starts.len()].copy_from_slice(&starts);
        for i in 1..labels.len() {
            let repeats = &mut packed[HEADER + 3 * max_len + 1..];
            repeats[i + 1] = repeats[i] + u32::from(labels[i] == labels[i - 1]);
        }
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
        assert_eq!(plan[20..26], [0; 6], "no label equals the one before");
        assert_eq!(plan[26..30], [1, 2, 1, 0]);
        assert_eq!(plan[40..42], [0, 2]);
        assert_eq!(plan[46..49], [0, 0, 1]);
    }
}
