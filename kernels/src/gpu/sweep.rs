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

use super::arrivals::{
    Ahead, Copies, STAGES, Seat, ask, await_copies, fetch_column, fetched, forget, of_column, read,
};
use super::capacity::Class;
use super::exchange::{greatest_of_block, greatest_of_left};
use super::held::{
    Biases, Pairs, Path, Places, Target, label_needs, place, read_biases, renew, set_blank,
    set_label,
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
    /// The strip of the pairs that the first cubes go through.
    pub(super) first_strip: u32,
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
    columns: &mut [Atomic<u32>],
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
    let is_shared = comptime!(class.lanes.is_shared());

    let strip = span.first_strip as usize + CUBE_POS_Z as usize;
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

    let strip_at = strip * comptime!(class.pairs());
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
        other_blank: Array::new(held),
        other_label: Array::new(held),
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
        place(&mut places, p, j, is_copy, &path, plan, &target, held, work);
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
        let is_first = strip > 0 && which_group == 0 && lane == 0;
        let has_left = lane > 0 || is_first;

        let border = Border {
            left_column_at: column_at + max(strip, 1usize) * columns_of_strip - columns_of_strip,
            right_column_at: column_at + strip * columns_of_strip,
            is_first,
            is_last: which_group == comptime!(class.groups - 1) && lane == comptime!(group - 1),
            is_last_group: which_group == comptime!(class.groups - 1),
            has_left,
            left_penalty: select(has_left, 0i32, ZERO_EXPONENT),
            lane,
            symbol_stride: path.direction * pairs_of_row as u32,
            last_step: frame_len - 1,
            other_biases_at,
            lanes_of_row,
            total_e,
        };

        let mut next = Ahead::new(class);
        let mut copies = Copies::new(class, work);
        forget(&mut copies);
        // Which stage the next turn is in, if it has been asked for.
        let mut stage = 0usize;
        let mut is_asked = false;
        let seat = Seat { unit: UNIT_POS_X as usize, lane, which_group };
        let mut block_of =
            Block { bias: 0i32, blank_shift: Array::new(held), label_shift: Array::new(held) };
        let mut next_biases = Biases { blank: Array::new(held), label: Array::new(held) };
        if comptime!(meets && !class.by_copies) {
            let at = border.other_biases_of(start, block);
            read_biases(&mut next_biases, &*biases, at, &places, held);
        }

        let mut now = start;
        while now < stop {
            let number = (now + pad) / block;
            let until = min((number + 1) * block - pad, stop);
            if comptime!(class.in_waves()) {
                if is_active && strip > 0 && which_group == 0 {
                    fetch_column(&mut copies, &*columns, now, until, stop, &border, class);
                }
            }
            if comptime!(class.by_copies) {
                if is_active && !is_asked && now + turn_len <= until {
                    // What was asked for before a step alone is not what is needed after it.
                    await_copies(0u32);
                    #[unroll]
                    for turns in 0..comptime!(STAGES - 1) {
                        let steps = comptime!(turns * class.turn()).runtime();
                        ask(
                            &mut copies,
                            (stage + turns) % STAGES,
                            now,
                            steps,
                            symbols,
                            &*lattice,
                            &*biases,
                            &places,
                            &border,
                            &seat,
                            class,
                            work,
                        );
                    }
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
                if comptime!(class.in_strips()) {
                    if is_active && strip > 0 && which_group == 0 {
                        let needs = label_needs(strip_at - 1, is_forward, plan, &target);
                        let mut inflow = ZERO_EXPONENT.runtime();
                        if comptime!(class.in_waves()) {
                            let of_block = min(lane, until - now - 1);
                            let ends = needs <= (frame_len - now - of_block) as u32;
                            let e = fetched(&copies, of_block).e;
                            inflow = greatest_of_block(select(ends, e, ZERO_EXPONENT), block);
                        } else {
                            for i in 0..block {
                                // What the strip before has written, and no further.
                                let step = min(now + i, until - 1);
                                let e = of_column(&*columns, border.left_column_at + step).e;
                                let ends = needs <= (frame_len - step) as u32;
                                inflow = max(inflow, select(ends, e, ZERO_EXPONENT));
                            }
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
                if comptime!(class.by_copies) {
                    if now + turn_len > until {
                        let at = border.other_biases_of(now, block);
                        read_biases(&mut next_biases, &*biases, at, &places, held);
                    }
                }
                #[unroll]
                for p in 0..held {
                    block_of.blank_shift[p] = total_e + next_biases.blank[p];
                    block_of.label_shift[p] = total_e + next_biases.label[p];
                }
                if comptime!(!class.by_copies) {
                    let at = border.other_biases_of(now + block, block);
                    read_biases(&mut next_biases, &*biases, at, &places, held);
                }
            }
            if is_active {
                let mut at = now;
                while at + turn_len <= until {
                    if comptime!(class.by_copies) {
                        turn_of_copies(
                            &mut pairs,
                            &mut copies,
                            stage,
                            at,
                            at - now,
                            symbols,
                            lattice,
                            &*biases,
                            columns,
                            &mut scratch,
                            &mut places,
                            &mut block_of,
                            &border,
                            &seat,
                            class,
                            work,
                        );
                        stage = (stage + 1) % STAGES;
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
                        &copies,
                        at,
                        at - now,
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
