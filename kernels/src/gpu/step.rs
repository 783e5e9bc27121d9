//! A turn of steps: the recurrence itself, all that a sweep repeats for every frame.

use super::capacity::Class;
use super::exchange::{Lanes, from_left};
use super::held::{Ahead, Pairs, Places, blank_of, label_of, set_blank, set_label, state};
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
    /// Whether its right neighbour is in the strip after.
    pub(super) is_last: bool,
    /// What makes a zero of what comes from the left where nothing is.
    pub(super) left_penalty: i32,
    pub(super) lane: usize,
    /// Steps by which the sweep counts too many, and the last that is one.
    pub(super) pad: usize,
    pub(super) last_step: usize,
}

/// Reads what the strip before left at the turn of steps from `first_step` on into slots from `first` on.
#[cube]
pub(super) fn read_columns(
    next: &mut Ahead,
    #[comptime] first: usize,
    first_step: usize,
    columns: &[Vector<u32, Const<2>>],
    border: &Border,
    #[comptime] ahead: usize,
) {
    #[unroll]
    for i in 0..ahead {
        let step = min(max(first_step + i, border.pad) - border.pad, border.last_step);
        let column = state(columns[border.left_column_at + step]);
        next.column_m[comptime!(first + i)] = column.m;
        next.column_e[comptime!(first + i)] = column.e;
    }
}

/// Goes `class.ahead` steps from `first_step` with what was read for them; with `is_checked`, those of
/// them that are in `begin..stop`.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(super) fn turn(
    pairs: &mut Pairs,
    read: &Ahead,
    #[comptime] half: usize,
    first_step: usize,
    begin: usize,
    stop: usize,
    lattice: &mut [u32],
    columns: &mut [Vector<u32, Const<2>>],
    scratch: &mut [u32],
    places: &Places,
    block: &Block,
    border: &Border,
    #[comptime] class: Class,
    #[comptime] work: Work,
    #[comptime] is_checked: bool,
) {
    #[unroll]
    for i in 0..comptime!(class.ahead) {
        if comptime!(is_checked) {
            let at = first_step + i;
            if at >= begin && at < stop {
                step(
                    pairs, read, half, i, at, lattice, columns, scratch, places, block, border,
                    class, work,
                );
            }
        } else {
            step(
                pairs,
                read,
                half,
                i,
                first_step + i,
                lattice,
                columns,
                scratch,
                places,
                block,
                border,
                class,
                work,
            );
        }
    }
}

/// One step of all pairs of a lane.
#[cube]
#[allow(clippy::too_many_arguments)]
fn step(
    pairs: &mut Pairs,
    read: &Ahead,
    #[comptime] half: usize,
    #[comptime] i: usize,
    at: usize,
    lattice: &mut [u32],
    columns: &mut [Vector<u32, Const<2>>],
    scratch: &mut [u32],
    places: &Places,
    block: &Block,
    border: &Border,
    #[comptime] class: Class,
    #[comptime] work: Work,
) {
    let held = comptime!(class.held);
    let of_turn = comptime!(half * class.ahead + i);
    let to_normal = comptime!(STEPS_TO_NORMAL.min(2 * class.ahead));
    let last = label_of(&*pairs, comptime!(held - 1));
    let shifted = from_left(
        &last,
        scratch,
        border.lane,
        comptime!(of_turn % 2),
        comptime!(class.group),
        comptime!(class.lanes),
    );
    let left = if comptime!(class.in_strips) {
        if border.is_last {
            let mut out = Vector::<u32, Const<2>>::empty();
            out.insert(0usize, u32::reinterpret(last.m));
            out.insert(1usize, u32::reinterpret(last.e));
            columns[border.right_column_at + at - border.pad] = out;
        }
        let column = Scaled { m: read.column_m[of_turn], e: read.column_e[of_turn] };
        let outside = choose(border.is_first, &column, &zero());
        choose(border.lane == 0, &outside, &shifted)
    } else if comptime!(class.lanes == Lanes::Ptx) {
        // PTX promises lane 0 its own value, whose mantissa may stay; elsewhere what it gets may
        // be no mantissa at all.
        penalized(&shifted, border.left_penalty)
    } else {
        choose(border.lane > 0, &shifted, &zero())
    };
    let blank_emission = Scaled { m: read.blank_m[of_turn], e: read.blank_e[of_turn] };
    #[unroll]
    for back in 0..held {
        let p = comptime!(held - 1 - back);
        let before = comptime!(if p == 0 { 0 } else { p - 1 });
        let slot = comptime!(of_turn * held + p);
        let from = if comptime!(p == 0) { copied(&left) } else { label_of(&*pairs, before) };
        let blank = blank_of(&*pairs, p);
        let skipped = penalized(&from, places.skip_penalty[p]);
        let to_label = sum3(&label_of(&*pairs, p), &blank, &skipped);
        let to_blank = sum2(&blank, &from);
        let label_emission = Scaled { m: read.label_m[slot], e: read.label_e[slot] };
        let at_label = emit(&to_label, &label_emission);
        let at_blank = emit(&to_blank, &blank_emission);
        if comptime!(work != Work::Pass) {
            let steps = comptime!(i as u32);
            let blank_at = (places.blank_at[p] + steps * places.blank_stride[p]) as usize;
            let label_at = (places.label_at[p] + steps * places.label_stride[p]) as usize;
            if comptime!(work == Work::Keep) {
                lattice[blank_at] = packed(&at_blank, block.bias);
                lattice[label_at] = packed(&at_label, block.bias);
            } else {
                let of_blank = share(&to_blank, read.blank_cell[slot], block.blank_shift[p]);
                let of_label = share(&to_label, read.label_cell[slot], block.label_shift[p]);
                lattice[blank_at] = u32::reinterpret(of_blank);
                lattice[label_at] = u32::reinterpret(of_label);
            }
        }
        if comptime!((of_turn + 1).is_multiple_of(to_normal)) {
            set_blank(pairs, p, &renormalized(&at_blank));
            set_label(pairs, p, &renormalized(&at_label));
        } else {
            set_blank(pairs, p, &at_blank);
            set_label(pairs, p, &at_label);
        }
    }
}
