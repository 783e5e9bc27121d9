//! How lanes that share a frame or a row pass values on: plane operations where the device has
//! them and its planes are of one size, shared memory and barriers elsewhere.

use super::scaled::Scaled;
use cubecl::prelude::*;

/// How lanes exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lanes {
    /// Plane operations of so many lanes.
    Plane(usize),
    /// The same on CUDA, with shuffles written in PTX: cubecl's ask for the mask of active lanes
    /// each time, which a sweep would pay for in every step.
    Ptx,
    /// Shared memory and barriers.
    Shared,
}

impl Lanes {
    /// Lanes of a group; `wanted` where the device prescribes nothing.
    pub(super) fn count(self, wanted: usize) -> usize {
        match self {
            Self::Plane(lanes) => lanes,
            Self::Ptx => 32,
            Self::Shared => wanted,
        }
    }

    pub(super) fn is_shared(self) -> bool {
        self == Self::Shared
    }
}

#[cube]
fn ptx_shuffle_up(value: u32, #[comptime] delta: u32) -> u32 {
    let out: u32;
    gpu_asm!(
        "shfl.sync.up.b32 {}, {}, {delta}, 0, 0xffffffff;",
        out(_) out,
        in(_) value,
        delta = const delta,
        options(nomem),
    );
    out
}

#[cube]
fn ptx_shuffle_xor(value: u32, #[comptime] mask: u32) -> u32 {
    let out: u32;
    gpu_asm!(
        "shfl.sync.bfly.b32 {}, {}, {mask}, 31, 0xffffffff;",
        out(_) out,
        in(_) value,
        mask = const mask,
        options(nomem),
    );
    out
}

/// The value of the lane `delta` further left in the plane; what lanes further left than that
/// get is not defined. Every lane of the plane must come along.
#[cube]
pub(super) fn shuffle_up(value: u32, #[comptime] delta: u32, #[comptime] lanes: Lanes) -> u32 {
    if comptime!(lanes == Lanes::Ptx) {
        ptx_shuffle_up(value, delta)
    } else {
        plane_shuffle_up(value, delta)
    }
}

/// What the lane to the left holds; lane 0 gets anything. In shared memory `parity` must
/// alternate between calls, which then need one barrier each.
#[cube]
pub(super) fn from_left(
    own: &Scaled,
    scratch: &mut [u32],
    lane: usize,
    #[comptime] parity: usize,
    #[comptime] group: usize,
    #[comptime] lanes: Lanes,
) -> Scaled {
    if comptime!(lanes.is_shared()) {
        let at = comptime!(parity * 2 * group) + lane;
        scratch[at] = u32::reinterpret(own.m);
        scratch[at + group] = u32::reinterpret(own.e);
        sync_cube();
        let from = max(at, 1usize) - 1;
        Scaled { m: f32::reinterpret(scratch[from]), e: i32::reinterpret(scratch[from + group]) }
    } else {
        Scaled {
            m: f32::reinterpret(shuffle_up(u32::reinterpret(own.m), 1u32, lanes)),
            e: i32::reinterpret(shuffle_up(u32::reinterpret(own.e), 1u32, lanes)),
        }
    }
}

/// The greatest value of `count` neighbouring lanes, a power of two, for all of them; on CUDA.
#[cube]
pub(super) fn greatest_of_block(value: i32, #[comptime] count: usize) -> i32 {
    let mut greatest = value;
    #[unroll]
    for level in 0..comptime!(count.ilog2() as usize) {
        let distance = comptime!(1u32 << level);
        let other = ptx_shuffle_xor(u32::reinterpret(greatest), distance);
        greatest = max(greatest, i32::reinterpret(other));
    }
    greatest
}

/// The greatest value of this lane and of at least `reach` lanes to its left.
#[cube]
pub(super) fn greatest_of_left(
    value: i32,
    scratch: &mut [u32],
    lane: usize,
    #[comptime] reach: usize,
    #[comptime] lanes: Lanes,
) -> i32 {
    let mut greatest = value;
    #[unroll]
    for level in 0..comptime!((reach + 1).next_power_of_two().ilog2() as usize) {
        let delta = comptime!(1usize << level);
        let own = u32::reinterpret(greatest);
        let other = if comptime!(lanes.is_shared()) {
            sync_cube();
            scratch[lane] = own;
            sync_cube();
            i32::reinterpret(scratch[max(lane, delta) - delta])
        } else {
            i32::reinterpret(shuffle_up(own, comptime!(delta as u32), lanes))
        };
        greatest = select(lane >= delta, max(greatest, other), greatest);
    }
    if comptime!(lanes.is_shared()) {
        sync_cube();
    }
    greatest
}

/// The greatest of the values of a group of lanes, for all of them.
#[cube]
pub(super) fn group_max(
    value: f32,
    scratch: &mut [f32],
    slot: usize,
    #[comptime] group: usize,
    #[comptime] lanes: Lanes,
) -> f32 {
    let mut greatest = value;
    #[unroll]
    for level in 0..comptime!(group.ilog2() as usize) {
        let distance = comptime!(1u32 << level);
        greatest = max(greatest, from_partner(greatest, scratch, slot, distance, lanes));
    }
    greatest
}

/// The sum of the values of a group of lanes, the same bits for all of them: each level adds
/// two values that both partners know.
#[cube]
pub(super) fn group_sum(
    value: f32,
    scratch: &mut [f32],
    slot: usize,
    #[comptime] group: usize,
    #[comptime] lanes: Lanes,
) -> f32 {
    let mut sum = value;
    #[unroll]
    for level in 0..comptime!(group.ilog2() as usize) {
        let distance = comptime!(1u32 << level);
        sum += from_partner(sum, scratch, slot, distance, lanes);
    }
    sum
}

/// The value of the lane at this lane's place but for one bit. Slots of a group are neighbours
/// from a multiple of its size.
#[cube]
fn from_partner(
    value: f32,
    scratch: &mut [f32],
    slot: usize,
    #[comptime] distance: u32,
    #[comptime] lanes: Lanes,
) -> f32 {
    if comptime!(lanes.is_shared()) {
        sync_cube();
        scratch[slot] = value;
        sync_cube();
        scratch[slot ^ comptime!(distance as usize)]
    } else if comptime!(lanes == Lanes::Ptx) {
        f32::reinterpret(ptx_shuffle_xor(u32::reinterpret(value), distance))
    } else {
        plane_shuffle_xor(value, distance)
    }
}
