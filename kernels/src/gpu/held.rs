//! What a lane of the sweep holds in registers, and how it is read and renewed.

use super::capacity::Class;
use super::scaled::{Scaled, ZERO_EXPONENT};
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

/// What a lane knows of its pairs for good, and where it reads and writes.
#[derive(CubeType)]
pub(super) struct Places {
    /// What takes the skip from the pair before, or leaves it.
    pub(super) skip_penalty: Array<i32>,
    /// Where the emissions of the turn's first step are, of the blank (one for all) and the labels.
    pub(super) blank_symbol_at: Array<u32>,
    pub(super) symbol_at: Array<u32>,
    /// Where that step's cells are, and how far it is from one step's to the next. A copy, or what
    /// is past the target, stays in a place of the margins that nobody reads: a store for all lanes
    /// is cheaper than a branch.
    pub(super) blank_at: Array<u32>,
    pub(super) label_at: Array<u32>,
    pub(super) blank_stride: Array<u32>,
    pub(super) label_stride: Array<u32>,
    /// Where the other direction, whose pairs are numbered from the other end, keeps their biases.
    pub(super) other_blank: Array<u32>,
    pub(super) other_label: Array<u32>,
    /// Frames that must follow before a path from the state can end.
    pub(super) blank_needs: Array<u32>,
    pub(super) label_needs: Array<u32>,
}

/// Where the plan keeps a row's target, and how long it is.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Target {
    pub(super) labels_at: usize,
    pub(super) repeats_at: usize,
    pub(super) num_labels: usize,
    /// `num_labels - 1`, or 0.
    pub(super) last_label: usize,
    /// Pairs for which the row's buffers have room.
    pub(super) pairs_of_row: usize,
}

/// Frames that no utterance has: a state past the last label never ends.
const NEVER: u32 = u32::MAX;

/// The label of pair `j`, in the target's order; some label past the last.
#[cube]
fn label_at(j: usize, is_forward: bool, target: &Target) -> usize {
    let near = min(j, target.last_label);
    select(is_forward, near, target.last_label - near)
}

/// The blank of pair `j`, in the target's order; some blank past the last.
#[cube]
fn blank_at(j: usize, is_forward: bool, target: &Target) -> usize {
    let near = min(j, target.num_labels);
    select(is_forward, near, target.num_labels - near)
}

/// Repeats among the labels before place `at`.
#[cube]
fn repeats_before(at: usize, plan: &[u32], target: &Target) -> u32 {
    plan[target.repeats_at + min(at, target.num_labels)]
}

/// Frames that must follow the label of pair `j` before a path can end: one for each label to
/// come, and one for each repeat among them.
#[cube]
pub(super) fn label_needs(j: usize, is_forward: bool, plan: &[u32], target: &Target) -> u32 {
    let label = label_at(j, is_forward, target);
    let so_far = repeats_before(label + 1, plan, target);
    let all = repeats_before(target.num_labels, plan, target);
    let needs = select(
        is_forward,
        (target.last_label - label) as u32 + all - so_far,
        label as u32 + so_far,
    );
    select(j < target.num_labels, needs, NEVER)
}

/// The same of the blank; none of it repeats the label on its other side.
#[cube]
fn blank_needs(j: usize, is_forward: bool, plan: &[u32], target: &Target) -> u32 {
    let blank = blank_at(j, is_forward, target);
    let all = repeats_before(target.num_labels, plan, target);
    let needs = select(
        is_forward,
        (target.num_labels - blank) as u32 + all - repeats_before(blank + 1, plan, target),
        blank as u32 + repeats_before(blank, plan, target),
    );
    select(j <= target.num_labels, needs, NEVER)
}

/// How a lane walks through the frames.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Path {
    pub(super) is_forward: bool,
    /// The first step's frame, margins included.
    pub(super) first_frame: u32,
    /// From a step's frame to the next one's: 1, or -1 as it wraps.
    pub(super) direction: u32,
    /// A cell in the margins.
    pub(super) nowhere: u32,
}

/// Fills in what there is to know of pair `j`, the lane's `p`-th.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(super) fn place(
    places: &mut Places,
    #[comptime] p: usize,
    j: usize,
    is_copy: bool,
    path: &Path,
    plan: &[u32],
    target: &Target,
    #[comptime] held: usize,
    #[comptime] work: Work,
) {
    let num_labels = target.num_labels;
    let is_forward = path.is_forward;
    // Past the last label a lane works on what is nobody's: nothing flows back.
    let label = label_at(j, is_forward, target);
    let blank = blank_at(j, is_forward, target);
    let before = select(is_forward, max(label, 1usize) - 1, min(label + 1, target.last_label));
    let may_skip = j > 0
        && j < num_labels
        && plan[target.labels_at + label] != plan[target.labels_at + before];
    places.skip_penalty[p] = select(may_skip, 0i32, ZERO_EXPONENT);
    let pitch = target.pairs_of_row as u32;
    let symbol = select(is_forward, min(j + 1, num_labels), num_labels - min(j, num_labels));
    places.symbol_at[p] = path.first_frame * pitch + symbol as u32;
    if comptime!(work != Work::Pass) {
        let stride = path.direction * 2u32 * pitch;
        let cells = path.first_frame * 2u32 * pitch;
        let owns_blank = !is_copy && j <= num_labels;
        let owns_label = !is_copy && j < num_labels;
        places.blank_at[p] = select(owns_blank, cells + blank as u32, path.nowhere);
        places.label_at[p] = select(owns_label, cells + pitch + label as u32, path.nowhere);
        places.blank_stride[p] = select(owns_blank, stride, 0u32);
        places.label_stride[p] = select(owns_label, stride, 0u32);
    }
    if comptime!(work == Work::Meet) {
        let other_blank = select(is_forward, num_labels - blank, blank);
        let other_label = select(is_forward, target.last_label - label, label);
        places.other_blank[p] = (other_blank / held) as u32;
        places.other_label[p] = (other_label / held) as u32;
    }
    if comptime!(work == Work::Keep) {
        places.blank_needs[p] = blank_needs(j, is_forward, plan, target);
        places.label_needs[p] = label_needs(j, is_forward, plan, target);
    }
}

/// Under which the other direction packed the cells of a lane's pairs.
#[derive(CubeType)]
pub(super) struct Biases {
    pub(super) blank: Array<i32>,
    pub(super) label: Array<i32>,
}

/// Reads them.
#[cube]
pub(super) fn read_biases(
    into: &mut Biases,
    biases: &[u32],
    at: usize,
    places: &Places,
    #[comptime] held: usize,
) {
    #[unroll]
    for p in 0..held {
        into.blank[p] = i32::reinterpret(biases[at + places.other_blank[p] as usize]);
        into.label[p] = i32::reinterpret(biases[at + places.other_label[p] as usize]);
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
