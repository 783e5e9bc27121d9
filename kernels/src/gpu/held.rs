//! What a lane of the sweep holds in registers, and how it is read and renewed.

use super::capacity::Class;
use super::scaled::Scaled;
use super::sweep::Work;
use cubecl::prelude::*;

/// A lane's pairs.
#[derive(CubeType)]
pub(super) struct Pairs {
    pub(super) blank_m: Array<f32>,
    pub(super) blank_e: Array<i32>,
    pub(super) label_m: Array<f32>,
    pub(super) label_e: Array<i32>,
}

#[cube]
pub(super) fn blank_of(pairs: &Pairs, #[comptime] p: usize) -> Scaled {
    Scaled { m: pairs.blank_m[p], e: pairs.blank_e[p] }
}

#[cube]
pub(super) fn label_of(pairs: &Pairs, #[comptime] p: usize) -> Scaled {
    Scaled { m: pairs.label_m[p], e: pairs.label_e[p] }
}

#[cube]
pub(super) fn set_blank(pairs: &mut Pairs, #[comptime] p: usize, value: &Scaled) {
    pairs.blank_m[p] = value.m;
    pairs.blank_e[p] = value.e;
}

#[cube]
pub(super) fn set_label(pairs: &mut Pairs, #[comptime] p: usize, value: &Scaled) {
    pairs.label_m[p] = value.m;
    pairs.label_e[p] = value.e;
}

#[cube]
pub(super) fn state(word_pair: Vector<u32, Const<2>>) -> Scaled {
    Scaled {
        m: f32::reinterpret(word_pair.extract(0usize)),
        e: i32::reinterpret(word_pair.extract(1usize)),
    }
}

/// What a lane knows of its pairs for good.
#[derive(CubeType)]
pub(super) struct Places {
    /// Places of the labels in a frame's symbols.
    pub(super) symbol: Array<u32>,
    pub(super) may_skip: Array<bool>,
    /// Places in a frame's lattice cells, which are the target's order in both directions.
    pub(super) blank_cell: Array<u32>,
    pub(super) label_cell: Array<u32>,
    /// Whether this lane, and no copy, answers for the state.
    pub(super) owns_blank: Array<bool>,
    pub(super) owns_label: Array<bool>,
}

/// What a lane has read of the steps to come.
#[derive(CubeType)]
pub(super) struct Ahead {
    pub(super) blank_m: Array<f32>,
    pub(super) blank_e: Array<i32>,
    pub(super) label_m: Array<f32>,
    pub(super) label_e: Array<i32>,
    pub(super) blank_cell: Array<u32>,
    pub(super) label_cell: Array<u32>,
    pub(super) column_m: Array<f32>,
    pub(super) column_e: Array<i32>,
}

/// Reads slot `i` of the steps to come: the emissions of a frame, and the states that the
/// other direction kept there.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(super) fn read_ahead(
    next: &mut Ahead,
    #[comptime] i: usize,
    frame: usize,
    pairs_of_row: usize,
    symbols: &[Vector<u32, Const<2>>],
    lattice: &[u32],
    places: &Places,
    #[comptime] class: Class,
    #[comptime] work: Work,
) {
    let symbols_at = frame * pairs_of_row;
    let blank = state(symbols[symbols_at]);
    next.blank_m[i] = blank.m;
    next.blank_e[i] = blank.e;
    #[unroll]
    for p in 0..comptime!(class.held) {
        let slot = comptime!(i * class.held + p);
        let label = state(symbols[symbols_at + places.symbol[p] as usize]);
        next.label_m[slot] = label.m;
        next.label_e[slot] = label.e;
        if comptime!(work == Work::Meet) {
            next.blank_cell[slot] = lattice[2 * symbols_at + places.blank_cell[p] as usize];
            next.label_cell[slot] = lattice[2 * symbols_at + places.label_cell[p] as usize];
        }
    }
}

/// Reads the biases under which the other direction packed the lane's cells; its pairs are
/// numbered from the other end.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(super) fn read_biases(
    blank_bias: &mut Array<i32>,
    label_bias: &mut Array<i32>,
    biases: &[u32],
    at: usize,
    places: &Places,
    pairs_of_row: usize,
    num_labels: usize,
    is_forward: bool,
    #[comptime] held: usize,
) {
    #[unroll]
    for p in 0..held {
        let blank = places.blank_cell[p] as usize;
        let label = places.label_cell[p] as usize - pairs_of_row;
        let last_label = max(num_labels, 1usize) - 1;
        let other_blank = select(is_forward, num_labels - blank, blank);
        let other_label = select(is_forward, last_label - label, label);
        blank_bias[p] = i32::reinterpret(biases[at + other_blank / held]);
        label_bias[p] = i32::reinterpret(biases[at + other_label / held]);
    }
}

/// Copies the end of every group to the beginning of the next.
#[cube]
pub(super) fn renew(
    pairs: &mut Pairs,
    scratch: &mut [u32],
    parity: usize,
    lane: usize,
    which_group: usize,
    #[comptime] class: Class,
) {
    let held = comptime!(class.held);
    let copied = comptime!(class.block / class.held);
    let first_copied = comptime!(class.group - copied);
    let words = comptime!(4 * class.block);
    let base = parity * comptime!(words * class.groups) + which_group * words;
    if lane >= first_copied {
        #[unroll]
        for p in 0..held {
            let at = base + (lane - first_copied) * comptime!(4 * held) + comptime!(4 * p);
            scratch[at] = u32::reinterpret(pairs.blank_m[p]);
            scratch[at + 1] = u32::reinterpret(pairs.blank_e[p]);
            scratch[at + 2] = u32::reinterpret(pairs.label_m[p]);
            scratch[at + 3] = u32::reinterpret(pairs.label_e[p]);
        }
    }
    sync_cube();
    if which_group > 0 && lane < copied {
        #[unroll]
        for p in 0..held {
            let at = base - words + lane * comptime!(4 * held) + comptime!(4 * p);
            pairs.blank_m[p] = f32::reinterpret(scratch[at]);
            pairs.blank_e[p] = i32::reinterpret(scratch[at + 1]);
            pairs.label_m[p] = f32::reinterpret(scratch[at + 2]);
            pairs.label_e[p] = i32::reinterpret(scratch[at + 3]);
        }
    }
}
