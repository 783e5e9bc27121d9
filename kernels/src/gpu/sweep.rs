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

use super::arrivals::{Ahead, Copies, Seat, ask, await_copies, read};
use super::capacity::Class;
use super::exchange::greatest_of_left;
use super::held::{
    Pairs, Path, Places, Target, label_needs, place, read_biases, renew, set_blank,
    set_label, state,
};
use super::layout::{MARGIN_FRAMES, SOUND, STATE_WORDS, SUMMARY_WORDS, Sizes};
use super::plan::HEADER;
use super::scaled::{ZERO_EXPONENT, choose, one, zero};
use super::step::{Block, Border, lone_step, turn, turn_of_copies};
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
    let turn_len = comptime!(class.turn());
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

    // Blocks are counted from the middle, where both directions' ends of blocks meet: the short
    // one is each direction's first, and the last of what it goes on through.
    let half = frame_len / 2;
    let own = select(is_forward, half, frame_len - half);
    let pad = (block - own % block) % block;
    let blocks_before = span.first_block as usize * block;
    let mut start = max(blocks_before, pad) - pad;
    let mut end = own;
    if comptime!(meets) {
        start = own + blocks_before;
        end = select(summary[local_row * SUMMARY_WORDS] == SOUND, frame_len, own);
    }
    let blocks_after = blocks_before + span.num_blocks as usize * block;
    let stop = min(select(comptime!(meets), own + blocks_after, blocks_after - pad), end);

    let strip_at = span.strip as usize * comptime!(class.pairs());
    let group_at = strip_at + which_group * comptime!(class.stride());
    let lane_at = group_at + lane * held;
    let is_active = group_at <= num_labels;
    let is_copy = which_group > 0 && lane * held < block;

    // Frames lie as steps come, or the other way round; the margins hold what is read before the
    // first and after the last.
    let frame_0 = MARGIN_FRAMES + local_row * num_frames;
    let first_frame = select(is_forward, frame_0 + start, frame_0 + frame_len - 1 - start) as u32;
    let which_unit = (local_row * 2 + direction) * comptime!(class.units()) + UNIT_POS_X as usize;
    let path = Path {
        is_forward,
        first_frame,
        direction: select(is_forward, 1u32, u32::MAX),
        nowhere: (which_unit % (MARGIN_FRAMES * 2 * pairs_of_row)) as u32,
    };
    let mut places = Places {
        skip_penalty: Array::new(held),
        blank: Array::new(held),
        label: Array::new(held),
        blank_symbol_at: Array::new(1usize),
        symbol_at: Array::new(held),
        blank_at: Array::new(held),
        label_at: Array::new(held),
        blank_stride: Array::new(held),
        label_stride: Array::new(held),
        blank_needs: Array::new(held),
        label_needs: Array::new(held),
    };
    let mut pairs = Pairs {
        blank_m: Array::new(held),
        blank_e: Array::new(held),
        label_m: Array::new(held),
        label_e: Array::new(held),
    };
    places.blank_symbol_at[0] = first_frame * pairs_of_row as u32;
    let states_at = (local_row * 2 + direction) * pairs_of_row;
    let starts_here = comptime!(!meets) && span.first_block == 0;
    #[unroll]
    for p in 0..held {
        let j = lane_at + p;
        place(&mut places, p, j, is_copy, &path, plan, &target, work);
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

    let mut scratch = Shared::<[u32]>::new_slice(comptime!(class.exchange_words()));
    if start < stop {
        let lanes_of_row = max_labels / held + 1;
        let biases_at = (local_row * 2 + direction) * span.max_blocks as usize * lanes_of_row;
        let other_biases_at =
            (local_row * 2 + 1 - direction) * span.max_blocks as usize * lanes_of_row;
        let mut total_e = 0i32;
        if comptime!(meets) {
            total_e = i32::reinterpret(summary[local_row * SUMMARY_WORDS + 2]);
        }
        // The column of the strip before, and this one's for the strip after.
        let columns_of_strip = sizes.num_rows as usize * 2 * num_frames;
        let column_at = (local_row * 2 + direction) * num_frames;
        let odd = span.strip as usize % 2;
        let left_column_at = column_at + (1 - odd) * columns_of_strip;
        let right_column_at = column_at + odd * columns_of_strip;
        let has_left = span.strip > 0;

        let border = Border {
            left_column_at,
            right_column_at,
            is_first: has_left && which_group == 0 && lane == 0,
            is_last: which_group == comptime!(class.groups - 1) && lane == comptime!(group - 1),
            left_penalty: select(lane > 0, 0i32, ZERO_EXPONENT),
            lane,
            symbol_stride: path.direction * pairs_of_row as u32,
            last_step: frame_len - 1,
        };

        let mut next = Ahead::new(class);
        let mut copies = Copies::new(class, work);
        // Which half the next turn is in, if it has been asked for.
        let mut half = 0usize;
        let mut is_asked = false;
        let seat = Seat { unit: UNIT_POS_X as usize, lane, which_group };
        let mut block_of =
            Block { bias: 0i32, blank_shift: Array::new(held), label_shift: Array::new(held) };
        let mut next_blank_bias = Array::<i32>::new(held);
        let mut next_label_bias = Array::<i32>::new(held);
        if comptime!(meets) {
            let which = (frame_len - start).div_ceil(block) - 1;
            let at = other_biases_at + which * lanes_of_row;
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
            let number = (now + pad) / block;
            let until = min((number + 1) * block - pad, stop);
            if comptime!(class.by_copies) {
                if is_active && !is_asked && now + turn_len <= until {
                    // What was asked for before a step alone is not what is needed after it.
                    await_copies(0u32);
                    let here = 0usize.runtime();
                    ask(
                        &mut copies,
                        half,
                        here,
                        symbols,
                        &*lattice,
                        &places,
                        &border,
                        &seat,
                        class,
                        work,
                    );
                    is_asked = true;
                }
            } else {
                // Most of it has been read at the end of the block before, and is near.
                #[unroll]
                for i in 0..ahead {
                    read(
                        &mut next,
                        i,
                        now,
                        i.runtime(),
                        symbols,
                        &*lattice,
                        &*columns,
                        &places,
                        &border,
                        class,
                        work,
                    );
                }
            }
            if comptime!(class.groups > 1) {
                if now > start {
                    renew(&mut pairs, &mut scratch, number % 2, lane, which_group, class);
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
                            let step = min(now + i, until - 1);
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
                block_of.bias = 65_532i32 - top;
                if !is_copy && lane_at <= num_labels {
                    biases[biases_at + number * lanes_of_row + lane_at / held] =
                        u32::reinterpret(block_of.bias);
                }
            }
            if comptime!(meets) {
                #[unroll]
                for p in 0..held {
                    block_of.blank_shift[p] = total_e + next_blank_bias[p];
                    block_of.label_shift[p] = total_e + next_label_bias[p];
                }
                // The block after this one is the one before it in the other's order.
                let which = max((frame_len - now).div_ceil(block), 2usize) - 2;
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
                let mut at = now;
                while at + turn_len <= until {
                    if comptime!(class.by_copies) {
                        turn_of_copies(
                            &mut pairs,
                            &mut copies,
                            half,
                            at,
                            symbols,
                            lattice,
                            columns,
                            &mut scratch,
                            &mut places,
                            &block_of,
                            &border,
                            &seat,
                            class,
                            work,
                        );
                        half = 1 - half;
                    } else {
                        turn(
                            &mut pairs,
                            &mut next,
                            at,
                            symbols,
                            lattice,
                            columns,
                            &mut scratch,
                            &mut places,
                            &block_of,
                            &border,
                            class,
                            work,
                        );
                    }
                    at += turn_len;
                }
                while at < until {
                    lone_step(
                        &mut pairs,
                        &mut next,
                        at,
                        symbols,
                        lattice,
                        columns,
                        &mut scratch,
                        &mut places,
                        &block_of,
                        &border,
                        class,
                        work,
                    );
                    is_asked = false;
                    at += 1;
                }
            }
            now = until;
        }
        if comptime!(class.by_copies) {
            await_copies(0u32);
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
