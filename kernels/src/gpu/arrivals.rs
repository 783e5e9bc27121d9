//! What the steps to come need from memory, on its way: emissions, the states that the other direction
//! kept, and what the strip before left.
//!
//! It comes into registers, half a turn ahead ([`Ahead`]), or by asynchronous copies into shared memory, a
//! turn ahead ([`Copies`]). A warp of an NVIDIA GPU waits for loads by one of six scoreboards, so waiting for
//! old loads is often waiting for those just issued as well; it waits for copies by groups, oldest first.

use super::capacity::Class;
use super::held::{Places, state};
use super::scaled::Scaled;
use super::step::Border;
use super::sweep::Work;
use cubecl::prelude::barrier::copy_async;
use cubecl::prelude::*;

/// What one step needs, for every pair of a lane.
#[derive(CubeType)]
pub(super) struct Given {
    pub(super) blank: Scaled,
    pub(super) label_m: Array<f32>,
    pub(super) label_e: Array<i32>,
    pub(super) blank_cell: Array<u32>,
    pub(super) label_cell: Array<u32>,
    pub(super) column: Scaled,
}

/// What a lane has read of the steps to come, a slot each.
#[derive(CubeType)]
pub(super) struct Ahead {
    blank_m: Array<f32>,
    blank_e: Array<i32>,
    label_m: Array<f32>,
    label_e: Array<i32>,
    blank_cell: Array<u32>,
    label_cell: Array<u32>,
    column_m: Array<f32>,
    column_e: Array<i32>,
}

#[cube]
impl Ahead {
    pub(super) fn new(#[comptime] class: Class) -> Ahead {
        let slots = comptime!(class.turn());
        let of_pairs = comptime!(class.turn() * class.held);
        Ahead {
            blank_m: Array::new(slots),
            blank_e: Array::new(slots),
            label_m: Array::new(of_pairs),
            label_e: Array::new(of_pairs),
            blank_cell: Array::new(of_pairs),
            label_cell: Array::new(of_pairs),
            column_m: Array::new(slots),
            column_e: Array::new(slots),
        }
    }
}

/// Reads into a slot what the step so many after the turn's first needs.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(super) fn read(
    ahead: &mut Ahead,
    #[comptime] slot: usize,
    first_step: usize,
    steps: usize,
    symbols: &[Vector<u32, Const<2>>],
    lattice: &[u32],
    columns: &[Vector<u32, Const<2>>],
    places: &Places,
    border: &Border,
    #[comptime] class: Class,
    #[comptime] work: Work,
) {
    let by_symbols = steps as u32 * border.symbol_stride;
    let blank = state(symbols[(places.blank_symbol_at[0] + by_symbols) as usize]);
    ahead.blank_m[slot] = blank.m;
    ahead.blank_e[slot] = blank.e;
    #[unroll]
    for p in 0..comptime!(class.held) {
        let of_pair = comptime!(slot * class.held + p);
        let label = state(symbols[(places.symbol_at[p] + by_symbols) as usize]);
        ahead.label_m[of_pair] = label.m;
        ahead.label_e[of_pair] = label.e;
        if comptime!(work == Work::Meet) {
            ahead.blank_cell[of_pair] =
                lattice[(places.blank_at[p] + steps as u32 * places.blank_stride[p]) as usize];
            ahead.label_cell[of_pair] =
                lattice[(places.label_at[p] + steps as u32 * places.label_stride[p]) as usize];
        }
    }
    if comptime!(class.in_strips) {
        let of_strip = min(first_step + steps, border.last_step);
        let column = state(columns[border.left_column_at + of_strip]);
        ahead.column_m[slot] = column.m;
        ahead.column_e[slot] = column.e;
    }
}

/// What a slot holds.
#[cube]
pub(super) fn of_slot(
    ahead: &Ahead,
    #[comptime] slot: usize,
    #[comptime] class: Class,
    #[comptime] work: Work,
) -> Given {
    let held = comptime!(class.held);
    let mut given = Given {
        blank: Scaled { m: ahead.blank_m[slot], e: ahead.blank_e[slot] },
        label_m: Array::new(held),
        label_e: Array::new(held),
        blank_cell: Array::new(held),
        label_cell: Array::new(held),
        column: Scaled { m: ahead.column_m[slot], e: ahead.column_e[slot] },
    };
    #[unroll]
    for p in 0..held {
        let of_pair = comptime!(slot * held + p);
        given.label_m[p] = ahead.label_m[of_pair];
        given.label_e[p] = ahead.label_e[of_pair];
        if comptime!(work == Work::Meet) {
            given.blank_cell[p] = ahead.blank_cell[of_pair];
            given.label_cell[p] = ahead.label_cell[of_pair];
        }
    }
    given
}

/// Two turns in shared memory: the one that is being gone, and the one that is on its way.
#[derive(CubeType)]
pub(super) struct Copies {
    /// `[2, steps, held, units]`
    labels: Shared<[Vector<u32, Const<2>>]>,
    /// `[2, steps, groups]`
    blanks: Shared<[Vector<u32, Const<2>>]>,
    /// `[2, steps, held, 2, units]`: blanks, then labels
    cells: Shared<[u32]>,
}

#[cube]
impl Copies {
    pub(super) fn new(#[comptime] class: Class, #[comptime] work: Work) -> Copies {
        let of_labels = comptime!(if class.by_copies { class.copied_labels() } else { 1 });
        let of_blanks = comptime!(if class.by_copies { class.copied_blanks() } else { 1 });
        let of_cells =
            comptime!(if class.by_copies && work == Work::Meet { 2 * of_labels } else { 1 });
        Copies {
            labels: Shared::new_slice(of_labels),
            blanks: Shared::new_slice(of_blanks),
            cells: Shared::new_slice(of_cells),
        }
    }
}

/// Where in its cube a lane is.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Seat {
    pub(super) unit: usize,
    pub(super) lane: usize,
    pub(super) which_group: usize,
}

/// Sets the copies of a turn going, so many steps after the one that `places` are at, into one half.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(super) fn ask(
    copies: &mut Copies,
    half: usize,
    steps: usize,
    symbols: &[Vector<u32, Const<2>>],
    lattice: &[u32],
    places: &Places,
    border: &Border,
    seat: &Seat,
    #[comptime] class: Class,
    #[comptime] work: Work,
) {
    let (turn, held, units) = comptime!((class.turn(), class.held, class.units()));
    #[unroll]
    for i in 0..turn {
        let step = (steps + i) as u32;
        #[unroll]
        for p in 0..held {
            let from = (places.symbol_at[p] + step * border.symbol_stride) as usize;
            let to = ((half * turn + i) * held + p) * units + seat.unit;
            copy_async(&symbols[from..from + 1], &mut copies.labels[to..to + 1], 2u32);
            if comptime!(work == Work::Meet) {
                let cells = ((half * turn + i) * held + p) * 2 * units + seat.unit;
                let from = (places.blank_at[p] + step * places.blank_stride[p]) as usize;
                copy_async(&lattice[from..from + 1], &mut copies.cells[cells..cells + 1], 1u32);
                let from = (places.label_at[p] + step * places.label_stride[p]) as usize;
                let to = cells + units;
                copy_async(&lattice[from..from + 1], &mut copies.cells[to..to + 1], 1u32);
            }
        }
    }
    if seat.lane < turn {
        let step = (steps + seat.lane) as u32;
        let from = (places.blank_symbol_at[0] + step * border.symbol_stride) as usize;
        let to = (half * turn + seat.lane) * comptime!(class.groups) + seat.which_group;
        copy_async(&symbols[from..from + 1], &mut copies.blanks[to..to + 1], 2u32);
    }
    gpu_asm!("cp.async.commit_group;");
}

/// Waits until no more than so many of the turns that were asked for are still on their way.
#[cube]
pub(super) fn await_copies(#[comptime] turns: u32) {
    gpu_asm!("cp.async.wait_group {turns};", turns = const turns);
    sync_plane();
}

/// What has arrived for a step of the turn in one half.
#[cube]
pub(super) fn of_copies(
    copies: &Copies,
    half: usize,
    #[comptime] step: usize,
    seat: &Seat,
    #[comptime] class: Class,
    #[comptime] work: Work,
) -> Given {
    let (turn, held, units) = comptime!((class.turn(), class.held, class.units()));
    let blank = state(copies.blanks[(half * turn + step) * comptime!(class.groups) + seat.which_group]);
    let mut given = Given {
        blank,
        label_m: Array::new(held),
        label_e: Array::new(held),
        blank_cell: Array::new(held),
        label_cell: Array::new(held),
        // Strips read theirs into registers.
        column: Scaled { m: 1.0f32, e: 0i32 },
    };
    #[unroll]
    for p in 0..held {
        let label = state(copies.labels[((half * turn + step) * held + p) * units + seat.unit]);
        given.label_m[p] = label.m;
        given.label_e[p] = label.e;
        if comptime!(work == Work::Meet) {
            let cells = ((half * turn + step) * held + p) * 2 * units + seat.unit;
            given.blank_cell[p] = copies.cells[cells];
            given.label_cell[p] = copies.cells[cells + units];
        }
    }
    given
}
