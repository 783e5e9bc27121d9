//! A turn of steps: the recurrence itself, all that a sweep repeats for every frame.

use super::arrivals::{
    Ahead, Copies, Given, STAGES, Seat, ask, await_copies, biases_of_copies, column_of_slot,
    fetched, of_copies, of_slot, pass, pass_on, read, to_column,
};
use super::capacity::Class;
use super::exchange::{Lanes, from_left};
use super::held::{Pairs, Places, blank_of, label_of, set_blank, set_label};
use super::scaled::{
    Scaled, choose, copied, emit, packed, penalized, renormalized, share, sum2, sum3, zero,
};
use super::sweep::Work;
use cubecl::prelude::*;

/// Steps after which mantissas are normalised, of which one multiplies them by 6 at most.
const STEPS_TO_NORMAL: usize = 4;

/// What holds for a block of steps.
#[derive(CubeType)]
pub(super) struct Block {
    /// Under which the lane packs its states.
    pub(super) bias: i32,
    /// The total's exponent and the bias of the cells that the lane reads.
    pub(super) blank_shift: Array<i32>,
    pub(super) label_shift: Array<i32>,
}

/// A lane's place among its neighbours, those of the strips before and after included.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Border {
    pub(super) left_column_at: usize,
    pub(super) right_column_at: usize,
    /// Whether the lane's left neighbour is in the strip before.
    pub(super) is_first: bool,
    /// Whether its right neighbour, or that of a lane of its group, is in the strip after.
    pub(super) is_last: bool,
    pub(super) is_last_group: bool,
    /// Whether anything is to the left, and what makes a zero of what comes from there if not.
    pub(super) has_left: bool,
    pub(super) left_penalty: i32,
    pub(super) lane: usize,
    /// Emissions from a step's to the next one's.
    pub(super) symbol_stride: u32,
    /// The last step of all.
    pub(super) last_step: usize,
    /// The other direction's biases, and how many make a block.
    pub(super) other_biases_at: usize,
    pub(super) lanes_of_row: usize,
    pub(super) total_e: i32,
}

#[cube]
impl Border {
    /// Where the other direction keeps the biases of the block in which it came through the step; some
    /// block's for a step past the last.
    pub(super) fn other_biases_of(&self, step: usize, #[comptime] block: usize) -> usize {
        let left = self.last_step + 1 - min(step, self.last_step);
        self.other_biases_at + (left.div_ceil(block) - 1) * self.lanes_of_row
    }
}

/// Goes `2 class.ahead` steps from `first_step`. The emissions and cells of the first half have been read;
/// each half begins with reading for the other, so that a load has half a turn to arrive, and
/// the second reads for the turn after.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(super) fn turn(
    pairs: &mut Pairs,
    next: &mut Ahead,
    first_step: usize,
    symbols: &[Vector<u32, Const<2>>],
    lattice: &mut [u32],
    columns: &mut [Atomic<u32>],
    scratch: &mut [u32],
    places: &mut Places,
    block: &Block,
    border: &Border,
    #[comptime] class: Class,
    #[comptime] work: Work,
) {
    let ahead = comptime!(class.ahead);
    #[unroll]
    for half in 0..2usize {
        let slots = comptime!((1 - half) * ahead);
        let distance = comptime!((half + 1) * ahead);
        #[unroll]
        for i in 0..ahead {
            let (slot, steps) = comptime!((slots + i, distance + i));
            let steps = steps.runtime();
            read(
                next, slot, first_step, steps, symbols, &*lattice, &*columns, &*places, border,
                class, work,
            );
        }
        #[unroll]
        for i in 0..ahead {
            let slot = comptime!(half * ahead + i);
            leave(&*pairs, columns, first_step + slot, border, class);
            let is_normal =
                comptime!((slot + 1).is_multiple_of(STEPS_TO_NORMAL) || slot + 1 == 2 * ahead);
            step(
                pairs,
                &of_slot(&*next, slot, class, work),
                &column_of_slot(&*next, slot),
                slot,
                is_normal,
                lattice,
                scratch,
                &*places,
                block,
                border,
                class,
                work,
            );
        }
    }
    advance(places, comptime!(2 * ahead as u32), border, class, work);
}

/// The same where what a turn needs comes by copies: those of the next are set going first.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(super) fn turn_of_copies(
    pairs: &mut Pairs,
    copies: &mut Copies,
    stage: usize,
    first_step: usize,
    of_block: usize,
    symbols: &[Vector<u32, Const<2>>],
    lattice: &mut [u32],
    biases: &[u32],
    columns: &mut [Atomic<u32>],
    scratch: &mut [u32],
    places: &mut Places,
    block: &mut Block,
    border: &Border,
    seat: &Seat,
    #[comptime] class: Class,
    #[comptime] work: Work,
) {
    let turn = comptime!(class.turn());
    // Every lane has read the blanks that the next copies replace.
    sync_plane();
    let last = comptime!(STAGES - 1);
    ask(
        copies,
        (stage + last) % STAGES,
        first_step,
        comptime!(last * turn),
        symbols,
        &*lattice,
        biases,
        &*places,
        border,
        seat,
        class,
        work,
    );
    await_copies(comptime!(last as u32));
    if comptime!(work == Work::Meet) {
        #[unroll]
        for p in 0..comptime!(class.held) {
            let (blank, label) = biases_of_copies(&*copies, stage, p, seat, class);
            block.blank_shift[p] = border.total_e + blank;
            block.label_shift[p] = border.total_e + label;
        }
    }
    #[unroll]
    for i in 0..turn {
        let is_normal = comptime!((i + 1).is_multiple_of(STEPS_TO_NORMAL) || i + 1 == turn);
        let given = of_copies(&*copies, stage, i, seat, class, work);
        let column = fetched(&*copies, select(comptime!(class.in_waves()), of_block + i, 0usize));
        if comptime!(class.in_waves()) {
            if border.is_last {
                pass(copies, i, &label_of(&*pairs, comptime!(class.held - 1)));
            }
        }
        step(
            pairs, &given, &column, i, is_normal, lattice, scratch, &*places, &*block, border,
            class, work,
        );
    }
    if comptime!(class.in_waves()) {
        if border.is_last_group {
            pass_on(&*copies, columns, first_step, border, class);
        }
    }
    advance(places, comptime!(turn as u32), border, class, work);
}

/// Goes one step, and waits for what it reads: what remains of a block where an utterance's half ends.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(super) fn lone_step(
    pairs: &mut Pairs,
    next: &mut Ahead,
    copies: &Copies,
    at: usize,
    of_block: usize,
    symbols: &[Vector<u32, Const<2>>],
    lattice: &mut [u32],
    columns: &mut [Atomic<u32>],
    scratch: &mut [u32],
    places: &mut Places,
    block: &Block,
    border: &Border,
    #[comptime] class: Class,
    #[comptime] work: Work,
) {
    let here = 0usize.runtime();
    read(next, 0usize, at, here, symbols, &*lattice, &*columns, &*places, border, class, work);
    if comptime!(class.lanes.is_shared()) {
        // Slots alternate between two parts of the scratch; this one is always the first.
        sync_cube();
    }
    let column = if comptime!(class.in_waves()) {
        fetched(copies, of_block)
    } else {
        column_of_slot(&*next, 0usize)
    };
    leave(&*pairs, columns, at, border, class);
    step(
        pairs,
        &of_slot(&*next, 0usize, class, work),
        &column,
        0usize,
        true,
        lattice,
        scratch,
        &*places,
        block,
        border,
        class,
        work,
    );
    advance(places, 1u32, border, class, work);
}

/// Leaves the label that the strip after needs at a step.
#[cube]
fn leave(
    pairs: &Pairs,
    columns: &mut [Atomic<u32>],
    step: usize,
    border: &Border,
    #[comptime] class: Class,
) {
    if comptime!(class.in_strips()) {
        if border.is_last {
            let last = label_of(pairs, comptime!(class.held - 1));
            to_column(columns, border.right_column_at + step, &last);
        }
    }
}

/// Moves all places on by so many steps.
#[cube]
fn advance(
    places: &mut Places,
    #[comptime] steps: u32,
    border: &Border,
    #[comptime] class: Class,
    #[comptime] work: Work,
) {
    places.blank_symbol_at[0] += steps * border.symbol_stride;
    #[unroll]
    for p in 0..comptime!(class.held) {
        places.symbol_at[p] += steps * border.symbol_stride;
        if comptime!(work != Work::Pass) {
            places.blank_at[p] += steps * places.blank_stride[p];
            places.label_at[p] += steps * places.label_stride[p];
        }
    }
}

/// One step of all pairs of a lane, so many after the turn's first.
#[cube]
#[allow(clippy::too_many_arguments)]
fn step(
    pairs: &mut Pairs,
    given: &Given,
    column: &Scaled,
    #[comptime] of_turn: usize,
    #[comptime] is_normal: bool,
    lattice: &mut [u32],
    scratch: &mut [u32],
    places: &Places,
    block: &Block,
    border: &Border,
    #[comptime] class: Class,
    #[comptime] work: Work,
) {
    let held = comptime!(class.held);
    let steps = of_turn.runtime();
    let last = label_of(&*pairs, comptime!(held - 1));
    let shifted = from_left(
        &last,
        scratch,
        border.lane,
        comptime!(of_turn % 2),
        comptime!(class.group),
        comptime!(class.lanes),
    );
    let from_outside = if comptime!(class.in_strips()) {
        choose(border.is_first, column, &shifted)
    } else {
        shifted
    };
    let left = if comptime!(class.lanes == Lanes::Ptx) {
        // PTX promises lane 0 its own value, whose mantissa may stay; elsewhere what it gets may
        // be no mantissa at all.
        penalized(&from_outside, border.left_penalty)
    } else {
        choose(border.has_left, &from_outside, &zero())
    };
    #[unroll]
    for back in 0..held {
        let p = comptime!(held - 1 - back);
        let before = comptime!(if p == 0 { 0 } else { p - 1 });
        let from = if comptime!(p == 0) { copied(&left) } else { label_of(&*pairs, before) };
        let blank = blank_of(&*pairs, p);
        let skipped = penalized(&from, places.skip_penalty[p]);
        let to_label = sum3(&label_of(&*pairs, p), &blank, &skipped);
        let to_blank = sum2(&blank, &from);
        let label_emission = Scaled { m: given.label_m[p], e: given.label_e[p] };
        let at_label = emit(&to_label, &label_emission);
        let at_blank = emit(&to_blank, &given.blank);
        if comptime!(work != Work::Pass) {
            let blank_at = (places.blank_at[p] + steps as u32 * places.blank_stride[p]) as usize;
            let label_at = (places.label_at[p] + steps as u32 * places.label_stride[p]) as usize;
            if comptime!(work == Work::Keep) {
                lattice[blank_at] = packed(&at_blank, block.bias);
                lattice[label_at] = packed(&at_label, block.bias);
            } else {
                let of_blank = share(&to_blank, given.blank_cell[p], block.blank_shift[p]);
                let of_label = share(&to_label, given.label_cell[p], block.label_shift[p]);
                lattice[blank_at] = u32::reinterpret(of_blank);
                lattice[label_at] = u32::reinterpret(of_label);
            }
        }
        if comptime!(is_normal) {
            set_blank(pairs, p, &renormalized(&at_blank));
            set_label(pairs, p, &renormalized(&at_label));
        } else {
            set_blank(pairs, p, &at_blank);
            set_label(pairs, p, &at_label);
        }
    }
}
