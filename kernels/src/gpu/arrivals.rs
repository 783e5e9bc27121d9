//! What the steps to come need from memory, on its way: emissions, the states that the other direction
//! kept, and what the strip before left.
//!
//! It comes into registers, half a turn ahead ([`Ahead`]), or by asynchronous copies into shared memory, a
//! turn ahead ([`Copies`]). A warp of an NVIDIA GPU waits for loads by one of six scoreboards, so waiting for
//! old loads is often waiting for those just issued as well; it waits for copies by groups, oldest first.

use super::capacity::{Class, Strips};
use super::held::{Places, state};
use super::scaled::{Scaled, ZERO_EXPONENT};
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
}

#[cube]
impl Given {
    /// The emission of the blank, and room for what belongs to pairs.
    fn of_blank(blank: Scaled, #[comptime] held: usize) -> Given {
        Given {
            blank,
            label_m: Array::new(held),
            label_e: Array::new(held),
            blank_cell: Array::new(held),
            label_cell: Array::new(held),
        }
    }
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
    columns: &[Atomic<u32>],
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
    if comptime!(class.strips == Strips::InTurn) {
        let of_strip = min(first_step + steps, border.last_step);
        let column = of_column(columns, border.left_column_at + of_strip);
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
    let blank = Scaled { m: ahead.blank_m[slot], e: ahead.blank_e[slot] };
    let mut given = Given::of_blank(blank, held);
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

/// What a slot holds of the strip before.
#[cube]
pub(super) fn column_of_slot(ahead: &Ahead, #[comptime] slot: usize) -> Scaled {
    Scaled { m: ahead.column_m[slot], e: ahead.column_e[slot] }
}

/// No exponent is this, so no word of a column that has been written is 0: a mantissa is at least 1.
const NO_EXPONENT: u32 = 1 << 31;

/// A state in a column that has been written.
#[cube]
pub(super) fn of_column(columns: &[Atomic<u32>], at: usize) -> Scaled {
    let (m, e) = (columns[2 * at].load(), columns[2 * at + 1].load());
    Scaled { m: f32::reinterpret(m), e: i32::reinterpret(e ^ NO_EXPONENT) }
}

/// Writes a state into a column, each word at once.
#[cube]
pub(super) fn to_column(columns: &mut [Atomic<u32>], at: usize, state: &Scaled) {
    columns[2 * at].store(u32::reinterpret(state.m));
    columns[2 * at + 1].store(u32::reinterpret(state.e) ^ NO_EXPONENT);
}

/// Turns in shared memory: the one that is being gone, and the one that is on its way. A third was no faster.
pub(super) const STAGES: usize = 2;

/// What comes by copies, and what passes between strips.
#[derive(CubeType)]
pub(super) struct Copies {
    /// `[STAGES, steps, held, units]`
    labels: Shared<[Vector<u32, Const<2>>]>,
    /// `[STAGES, steps, groups]`
    blanks: Shared<[Vector<u32, Const<2>>]>,
    /// `[STAGES, steps, held, 2, units]`: blanks, then labels
    cells: Shared<[u32]>,
    /// `[STAGES, held, 2, units]`: under which the cells were packed.
    biases: Shared<[u32]>,
    /// `[steps of a block]`, from the strip before.
    column: Shared<[Vector<u32, Const<2>>]>,
    /// `[steps of a turn]`, for the strip after.
    passed: Shared<[Vector<u32, Const<2>>]>,
    /// What a lane has found of the strip before's next block; words of 0 if it was not there yet.
    found: Array<u32>,
}

#[cube]
impl Copies {
    pub(super) fn new(#[comptime] class: Class, #[comptime] work: Work) -> Copies {
        let of_labels = comptime!(if class.by_copies { class.copied_labels() } else { 1 });
        let of_blanks = comptime!(if class.by_copies { class.copied_blanks() } else { 1 });
        let of_cells =
            comptime!(if class.by_copies && work == Work::Meet { 2 * of_labels } else { 1 });
        let of_biases = comptime!(if class.by_copies && work == Work::Meet {
            class.copied_biases()
        } else {
            1
        });
        Copies {
            labels: Shared::new_slice(of_labels),
            blanks: Shared::new_slice(of_blanks),
            cells: Shared::new_slice(of_cells),
            biases: Shared::new_slice(of_biases),
            column: Shared::new_slice(comptime!(if class.in_waves() { class.block } else { 1 })),
            passed: Shared::new_slice(comptime!(if class.in_waves() { class.turn() } else { 1 })),
            found: Array::new(2usize),
        }
    }
}

/// Fetches what the strip before leaves for the steps from `now` to before `until`, waiting where it is not
/// there yet: its words are 0 until they are written. Then looks for the block after, to find it there
/// without waiting. One plane does that for itself.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(super) fn fetch_column(
    copies: &mut Copies,
    columns: &[Atomic<u32>],
    now: usize,
    until: usize,
    stop: usize,
    border: &Border,
    #[comptime] class: Class,
) {
    // All have read what was fetched last.
    sync_plane();
    if border.lane < comptime!(class.block) {
        let mut m = 1u32;
        let mut e = u32::reinterpret(ZERO_EXPONENT.runtime()) ^ NO_EXPONENT;
        if now + border.lane < until {
            let at = 2 * (border.left_column_at + now + border.lane);
            m = copies.found[0];
            e = copies.found[1];
            while m == 0 {
                m = columns[at].load();
            }
            while e == 0 {
                e = columns[at + 1].load();
            }
        }
        let mut out = Vector::<u32, Const<2>>::empty();
        out.insert(0usize, m);
        out.insert(1usize, e ^ NO_EXPONENT);
        copies.column[border.lane] = out;
        let next = 2 * (border.left_column_at + min(until + border.lane, stop - 1));
        copies.found[0] = columns[next].load();
        copies.found[1] = columns[next + 1].load();
    }
    sync_plane();
}

/// Nothing has been found yet.
#[cube]
pub(super) fn forget(copies: &mut Copies) {
    copies.found[0] = 0u32;
    copies.found[1] = 0u32;
}

/// Leaves the label that the strip after needs at a step of the turn.
#[cube]
pub(super) fn pass(copies: &mut Copies, of_turn: usize, state: &Scaled) {
    let mut out = Vector::<u32, Const<2>>::empty();
    out.insert(0usize, u32::reinterpret(state.m));
    out.insert(1usize, u32::reinterpret(state.e));
    copies.passed[of_turn] = out;
}

/// Writes a turn's labels for the strip after. One plane does that for itself.
#[cube]
pub(super) fn pass_on(
    copies: &Copies,
    columns: &mut [Atomic<u32>],
    first_step: usize,
    border: &Border,
    #[comptime] class: Class,
) {
    sync_plane();
    if border.lane < comptime!(class.turn()) {
        let at = border.right_column_at + first_step + border.lane;
        to_column(columns, at, &state(copies.passed[border.lane]));
    }
}

/// What [`fetch_column`] fetched for a step of the block.
#[cube]
pub(super) fn fetched(copies: &Copies, of_block: usize) -> Scaled {
    state(copies.column[of_block])
}

/// Where in its cube a lane is.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Seat {
    pub(super) unit: usize,
    pub(super) lane: usize,
    pub(super) which_group: usize,
}

/// Sets the copies of a turn going, so many steps after the one that `places` are at, into a stage.
#[cube]
#[allow(clippy::too_many_arguments)]
pub(super) fn ask(
    copies: &mut Copies,
    stage: usize,
    first_step: usize,
    steps: usize,
    symbols: &[Vector<u32, Const<2>>],
    lattice: &[u32],
    biases: &[u32],
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
            let to = ((stage * turn + i) * held + p) * units + seat.unit;
            copy_async(&symbols[from..from + 1], &mut copies.labels[to..to + 1], 2u32);
            if comptime!(work == Work::Meet) {
                let cells = ((stage * turn + i) * held + p) * 2 * units + seat.unit;
                let from = (places.blank_at[p] + step * places.blank_stride[p]) as usize;
                copy_async(&lattice[from..from + 1], &mut copies.cells[cells..cells + 1], 1u32);
                let from = (places.label_at[p] + step * places.label_stride[p]) as usize;
                let to = cells + units;
                copy_async(&lattice[from..from + 1], &mut copies.cells[to..to + 1], 1u32);
            }
        }
    }
    if comptime!(work == Work::Meet) {
        let at = border.other_biases_of(first_step + steps, class.block);
        #[unroll]
        for p in 0..held {
            let to = (stage * held + p) * 2 * units + seat.unit;
            let from = at + places.other_blank[p] as usize;
            copy_async(&biases[from..from + 1], &mut copies.biases[to..to + 1], 1u32);
            let from = at + places.other_label[p] as usize;
            let to = to + units;
            copy_async(&biases[from..from + 1], &mut copies.biases[to..to + 1], 1u32);
        }
    }
    if seat.lane < turn {
        let step = (steps + seat.lane) as u32;
        let from = (places.blank_symbol_at[0] + step * border.symbol_stride) as usize;
        let to = (stage * turn + seat.lane) * comptime!(class.groups) + seat.which_group;
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

/// The biases that have arrived with a stage, of the blank and the label of a lane's pair.
#[cube]
pub(super) fn biases_of_copies(
    copies: &Copies,
    stage: usize,
    #[comptime] p: usize,
    seat: &Seat,
    #[comptime] class: Class,
) -> (i32, i32) {
    let (held, units) = comptime!((class.held, class.units()));
    let at = (stage * held + p) * 2 * units + seat.unit;
    (i32::reinterpret(copies.biases[at]), i32::reinterpret(copies.biases[at + units]))
}

/// What has arrived for a step of the turn in a stage.
#[cube]
pub(super) fn of_copies(
    copies: &Copies,
    stage: usize,
    #[comptime] step: usize,
    seat: &Seat,
    #[comptime] class: Class,
    #[comptime] work: Work,
) -> Given {
    let (turn, held, units) = comptime!((class.turn(), class.held, class.units()));
    let blank =
        state(copies.blanks[(stage * turn + step) * comptime!(class.groups) + seat.which_group]);
    let mut given = Given::of_blank(blank, held);
    #[unroll]
    for p in 0..held {
        let label = state(copies.labels[((stage * turn + step) * held + p) * units + seat.unit]);
        given.label_m[p] = label.m;
        given.label_e[p] = label.e;
        if comptime!(work == Work::Meet) {
            let cells = ((stage * turn + step) * held + p) * 2 * units + seat.unit;
            given.blank_cell[p] = copies.cells[cells];
            given.label_cell[p] = copies.cells[cells + units];
        }
    }
    given
}
