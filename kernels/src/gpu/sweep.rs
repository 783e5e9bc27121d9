//! The lattice. Forward and backward are one recurrence, the second over reversed labels and
//! frames, so a cube takes its direction from its position. Both meet in the middle: a first
//! launch takes each direction through its own half and keeps its states in the lattice, one
//! word each; a second takes each through the other's half, where it replaces every kept state
//! by the occupancy that the two make.
//!
//! A lane holds neighbouring pairs of states, blank `j` and label `j`, in registers. A pair
//! depends on itself and on the one before, so groups of lanes can go on for a block of
//! steps without each other, if each starts with a copy of as many pairs of the group before:
//! one barrier a block instead of one a step.

use super::capacity::Class;
use super::exchange::{Lanes, from_left, greatest_of_left};
use super::held::{
    Ahead, Pairs, Places, Target, blank_of, label_needs, label_of, place, read_ahead, read_biases,
    renew, set_blank, set_label, state,
};
use super::layout::{MARGIN_FRAMES, SOUND, STATE_WORDS, SUMMARY_WORDS, Sizes};
use super::plan::HEADER;
use super::scaled::{
    Scaled, ZERO_EXPONENT, choose, copied, emit, one, packed, renormalized, share, sum2, sum3,
    zero, zero_unless,
};
use cubecl::prelude::*;

/// What a launch of the sweep does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Work {
    /// Goes to the middle and keeps nothing.
    Pass,
    /// Goes to the middle and keeps every state.
    Keep,
    /// Goes on from the middle and turns what the other direction kept into occupancies.
    Meet,
}

/// The part of the work that a launch does.
#[derive(CubeLaunch, CubeType, Clone, Copy)]
pub(super) struct Span {
    /// Which strip of the pairs.
    pub(super) strip: u32,
    /// Blocks of steps before this launch.
    pub(super) first_block: u32,
    /// Blocks of steps of this launch.
    pub(super) num_blocks: u32,
    /// Blocks of steps for which the buffers have room.
    pub(super) max_blocks: u32,
}

/// What came from the left, or zero for lane 0. PTX promises lane 0 its own value, of which the
/// mantissa may stay; elsewhere what it gets may be no mantissa at all.
#[cube]
fn from_left_or_zero(lane: usize, shifted: &Scaled, #[comptime] class: Class) -> Scaled {
    if comptime!(class.lanes == Lanes::Ptx) {
        zero_unless(lane > 0, shifted)
    } else {
        choose(lane > 0, shifted, &zero())
    }
}

#[cube(launch_unchecked)]
// A comptime condition may not be joined to one of run time.
#[allow(clippy::too_many_arguments, clippy::collapsible_if)]
pub(super) fn sweep(
    plan: &[u32],
    symbols: &[Vector<u32, Const<2>>],
    summary: &[u32],
    lattice: &mut [u32],
    biases: &mut [u32],
    states: &mut [u32],
    columns: &mut [Vector<u32, Const<2>>],
    sizes: Sizes,
    span: Span,
    #[comptime] class: Class,
    #[comptime] work: Work,
) {
    let group = comptime!(class.group);
    let held = comptime!(class.held);
    let block = comptime!(class.block);
    let ahead = comptime!(class.ahead);
    let meets = comptime!(work == Work::Meet);
    let keeps = comptime!(work == Work::Keep);
    let in_strips = comptime!(class.in_strips);
    let is_shared = comptime!(class.lanes.is_shared());

    let lane = UNIT_POS_X as usize % group;
    let which_group = UNIT_POS_X as usize / group;
    let local_row = CUBE_POS_X as usize;
    let is_forward = CUBE_POS_Y == 0;
    let direction = CUBE_POS_Y as usize;
    let row = sizes.first_row as usize + local_row;
    let num_frames = sizes.num_frames as usize;
    let max_labels = sizes.max_labels as usize;
    let pairs_of_row = max_labels + 1;
    let plan_at = row * (HEADER + 2 * max_labels + 1);
    let frame_len = select(plan[plan_at + 2] == 1u32, plan[plan_at] as usize, 0usize);
    let num_labels = plan[plan_at + 1] as usize;
    let target = Target {
        labels_at: plan_at + HEADER,
        repeats_at: plan_at + HEADER + max_labels,
        num_labels,
        last_label: max(num_labels, 1usize) - 1,
        pairs_of_row,
    };

    // Virtual steps: in the other's half they are shifted so that its blocks are whole.
    let half = frame_len / 2;
    let own = select(is_forward, half, frame_len - half);
    let mut pad = 0usize;
    let mut begin = 0usize;
    let mut end = own;
    if comptime!(meets) {
        pad = (block - frame_len % block) % block;
        begin = own + pad;
        end = frame_len + pad;
        if summary[local_row * SUMMARY_WORDS] != SOUND {
            end = begin;
        }
    }
    let start = (begin / block + span.first_block as usize) * block;
    let stop = min(start + span.num_blocks as usize * block, end);

    let strip_at = span.strip as usize * comptime!(class.pairs());
    let group_at = strip_at + which_group * comptime!(class.stride());
    let lane_at = group_at + lane * held;
    let is_active = group_at <= num_labels;
    let is_copy = which_group > 0 && lane * held < block;

    let mut places = Places {
        symbol: Array::new(held),
        may_skip: Array::new(held),
        blank_cell: Array::new(held),
        label_cell: Array::new(held),
        owns_blank: Array::new(held),
        owns_label: Array::new(held),
        blank_needs: Array::new(held),
        label_needs: Array::new(held),
    };
    let mut pairs = Pairs {
        blank_m: Array::new(held),
        blank_e: Array::new(held),
        label_m: Array::new(held),
        label_e: Array::new(held),
    };
    let states_at = (local_row * 2 + direction) * pairs_of_row;
    let starts_here = comptime!(!meets) && span.first_block == 0;
    #[unroll]
    for p in 0..held {
        let j = lane_at + p;
        place(&mut places, p, j, is_copy, is_forward, plan, &target, work);
        if starts_here {
            // Before the first frame a path is certainly in the first blank.
            set_blank(&mut pairs, p, &choose(j == 0, &one(), &zero()));
            set_label(&mut pairs, p, &zero());
        } else {
            let at = (states_at + min(j, max_labels)) * STATE_WORDS;
            pairs.blank_m[p] = f32::reinterpret(states[at]);
            pairs.blank_e[p] = i32::reinterpret(states[at + 1]);
            pairs.label_m[p] = f32::reinterpret(states[at + 2]);
            pairs.label_e[p] = i32::reinterpret(states[at + 3]);
        }
    }

    let mut scratch = Shared::<[u32]>::new_slice(comptime!(class.shared_words()));
    if start < stop {
        let lanes_of_row = max_labels / held + 1;
        let biases_at = (local_row * 2 + direction) * span.max_blocks as usize * lanes_of_row;
        let other_biases_at =
            (local_row * 2 + 1 - direction) * span.max_blocks as usize * lanes_of_row;
        let mut inverse = 0.0f32;
        let mut total_e = 0i32;
        if comptime!(meets) {
            inverse = f32::reinterpret(summary[local_row * SUMMARY_WORDS + 1]);
            total_e = i32::reinterpret(summary[local_row * SUMMARY_WORDS + 2]);
        }
        // The column of the strip before, and this one's for the strip after.
        let columns_of_strip = sizes.num_rows as usize * 2 * num_frames;
        let column_at = (local_row * 2 + direction) * num_frames;
        let odd = span.strip as usize % 2;
        let left_column_at = column_at + (1 - odd) * columns_of_strip;
        let right_column_at = column_at + odd * columns_of_strip;
        let has_left = span.strip > 0;

        let mut next = Ahead {
            blank_m: Array::new(ahead),
            blank_e: Array::new(ahead),
            label_m: Array::new(comptime!(ahead * held)),
            label_e: Array::new(comptime!(ahead * held)),
            blank_cell: Array::new(comptime!(ahead * held)),
            label_cell: Array::new(comptime!(ahead * held)),
            column_m: Array::new(ahead),
            column_e: Array::new(ahead),
        };
        // Frames lie as steps come, or the other way round; the margins hold what is read
        // before the first and after the last.
        let frame_0 = MARGIN_FRAMES + local_row * num_frames;
        let first_frame =
            select(is_forward, frame_0 + start - pad, frame_0 + frame_len - 1 + pad - start);
        let stride = select(is_forward, pairs_of_row, 0usize - pairs_of_row);
        let mut coming_at = first_frame * pairs_of_row;
        let mut cells_at = 2 * coming_at;
        #[unroll]
        for i in 0..ahead {
            read_ahead(&mut next, i, coming_at, symbols, &*lattice, &places, class, work);
            coming_at += stride;
            if comptime!(in_strips) {
                let step = min(max(start + i, pad) - pad, frame_len - 1);
                let column = state(columns[left_column_at + step]);
                next.column_m[i] = column.m;
                next.column_e[i] = column.e;
            }
        }
        let mut bias = 0i32;
        let mut blank_shift = Array::<i32>::new(held);
        let mut label_shift = Array::<i32>::new(held);
        let mut next_blank_bias = Array::<i32>::new(held);
        let mut next_label_bias = Array::<i32>::new(held);
        if comptime!(meets) {
            let at = other_biases_at + ((frame_len + pad - start) / block - 1) * lanes_of_row;
            read_biases(
                &mut next_blank_bias,
                &mut next_label_bias,
                &*biases,
                at,
                &places,
                &target,
                is_forward,
                held,
            );
        }

        let mut now = start;
        while now < stop {
            if comptime!(class.groups > 1) {
                if now > start {
                    renew(&mut pairs, &mut scratch, (now / block) % 2, lane, which_group, class);
                }
            }
            if comptime!(keeps) {
                // What cannot end in time would only stand in the light of what can: it may
                // exceed it by more than the cells can tell apart.
                let left = (frame_len - now) as u32;
                let mut top = ZERO_EXPONENT.runtime();
                #[unroll]
                for p in 0..held {
                    pairs.blank_e[p] =
                        select(places.blank_needs[p] <= left, pairs.blank_e[p], ZERO_EXPONENT);
                    pairs.label_e[p] =
                        select(places.label_needs[p] <= left, pairs.label_e[p], ZERO_EXPONENT);
                    top = max(top, max(pairs.blank_e[p], pairs.label_e[p]));
                }
                let reach = comptime!(block / held);
                if comptime!(in_strips) {
                    if has_left && which_group == 0 {
                        let needs = label_needs(strip_at - 1, is_forward, plan, &target);
                        let mut inflow = ZERO_EXPONENT.runtime();
                        for i in 0..block {
                            // What the strip before has written, and no further.
                            let step = min(now + i, stop - 1);
                            let e = state(columns[left_column_at + step]).e;
                            let ends = needs <= (frame_len - step) as u32;
                            inflow = max(inflow, select(ends, e, ZERO_EXPONENT));
                        }
                        top = select(lane <= reach, max(top, inflow), top);
                    }
                }
                // Each step adds three states at most, so none rises by more than two bits, and
                // mantissas are at most 2^23.
                top = greatest_of_left(top, &mut scratch, lane, reach, class.lanes)
                    + comptime!(2 * block as i32 + 25);
                bias = 65_532i32 - top;
                if !is_copy && lane_at <= num_labels {
                    biases[biases_at + now / block * lanes_of_row + lane_at / held] =
                        u32::reinterpret(bias);
                }
            }
            if comptime!(meets) {
                #[unroll]
                for p in 0..held {
                    blank_shift[p] = total_e + next_blank_bias[p];
                    label_shift[p] = total_e + next_label_bias[p];
                }
                // The block after this one is the one before it in the other's order.
                let which = max((frame_len + pad - now) / block, 2usize) - 2;
                read_biases(
                    &mut next_blank_bias,
                    &mut next_label_bias,
                    &*biases,
                    other_biases_at + which * lanes_of_row,
                    &places,
                    &target,
                    is_forward,
                    held,
                );
            }
            if is_active {
                let mut inner = 0usize;
                while inner < block {
                    #[unroll]
                    for i in 0..ahead {
                        let at = now + inner + i;
                        if at >= begin && at < stop {
                            let last = label_of(&pairs, comptime!(held - 1));
                            let shifted = from_left(
                                &last,
                                &mut scratch,
                                lane,
                                comptime!(i % 2),
                                group,
                                class.lanes,
                            );
                            let left = if comptime!(in_strips) {
                                let step = at - pad;
                                if which_group == comptime!(class.groups - 1)
                                    && lane == comptime!(group - 1)
                                {
                                    let mut out = Vector::<u32, Const<2>>::empty();
                                    out.insert(0usize, u32::reinterpret(last.m));
                                    out.insert(1usize, u32::reinterpret(last.e));
                                    columns[right_column_at + step] = out;
                                }
                                let column = Scaled { m: next.column_m[i], e: next.column_e[i] };
                                let border = choose(has_left && which_group == 0, &column, &zero());
                                choose(lane == 0, &border, &shifted)
                            } else {
                                from_left_or_zero(lane, &shifted, class)
                            };
                            let blank_emission = Scaled { m: next.blank_m[i], e: next.blank_e[i] };
                            #[unroll]
                            for back in 0..held {
                                let p = comptime!(held - 1 - back);
                                let before = comptime!(if p == 0 { 0 } else { p - 1 });
                                let slot = comptime!(i * held + p);
                                let from = if comptime!(p == 0) {
                                    copied(&left)
                                } else {
                                    label_of(&pairs, before)
                                };
                                let blank = blank_of(&pairs, p);
                                let skipped = zero_unless(places.may_skip[p], &from);
                                let to_label = sum3(&label_of(&pairs, p), &blank, &skipped);
                                let to_blank = sum2(&blank, &from);
                                let label_emission =
                                    Scaled { m: next.label_m[slot], e: next.label_e[slot] };
                                let at_label = emit(&to_label, &label_emission);
                                let at_blank = emit(&to_blank, &blank_emission);
                                let blank_at = cells_at + places.blank_cell[p] as usize;
                                let label_at = cells_at + places.label_cell[p] as usize;
                                if comptime!(keeps) {
                                    let blank_word = packed(&at_blank, bias);
                                    let label_word = packed(&at_label, bias);
                                    if places.owns_blank[p] {
                                        lattice[blank_at] = blank_word;
                                    }
                                    if places.owns_label[p] {
                                        lattice[label_at] = label_word;
                                    }
                                }
                                if comptime!(meets) {
                                    let blank_share = share(
                                        &to_blank,
                                        next.blank_cell[slot],
                                        blank_shift[p],
                                        inverse,
                                    );
                                    let label_share = share(
                                        &to_label,
                                        next.label_cell[slot],
                                        label_shift[p],
                                        inverse,
                                    );
                                    if places.owns_blank[p] {
                                        lattice[blank_at] = u32::reinterpret(blank_share);
                                    }
                                    if places.owns_label[p] {
                                        lattice[label_at] = u32::reinterpret(label_share);
                                    }
                                }
                                // Four steps at most multiply a mantissa by 6^4.
                                if comptime!(i + 1 == ahead) {
                                    set_blank(&mut pairs, p, &renormalized(&at_blank));
                                    set_label(&mut pairs, p, &renormalized(&at_label));
                                } else {
                                    set_blank(&mut pairs, p, &at_blank);
                                    set_label(&mut pairs, p, &at_label);
                                }
                            }
                        }
                        read_ahead(
                            &mut next, i, coming_at, symbols, &*lattice, &places, class, work,
                        );
                        coming_at += stride;
                        cells_at += 2 * stride;
                        if comptime!(in_strips) {
                            let step = min(max(at + ahead, pad) - pad, frame_len - 1);
                            let column = state(columns[left_column_at + step]);
                            next.column_m[i] = column.m;
                            next.column_e[i] = column.e;
                        }
                    }
                    inner += ahead;
                }
            }
            now += block;
        }
        if comptime!(is_shared) {
            sync_cube();
        }
    }

    if starts_here || start < stop {
        #[unroll]
        for p in 0..held {
            let j = lane_at + p;
            if !is_copy && j < pairs_of_row {
                let at = (states_at + j) * STATE_WORDS;
                states[at] = u32::reinterpret(pairs.blank_m[p]);
                states[at + 1] = u32::reinterpret(pairs.blank_e[p]);
                states[at + 2] = u32::reinterpret(pairs.label_m[p]);
                states[at + 3] = u32::reinterpret(pairs.label_e[p]);
            }
        }
    }
}
