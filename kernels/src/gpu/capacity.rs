//! What a device offers the lattice, and how rows of a given length are spread over a cube.

use super::arrivals::STAGES;
use super::exchange::Lanes;
use cubecl::ir::features::Plane;
use cubecl::prelude::*;

/// Planes of a cube and pairs of states a lane: a handful of kernels serve every target
/// length, so no batch waits for a compiler because its longest target is new.
const PLANE_CLASSES: [(usize, usize); 7] =
    [(1, 1), (2, 1), (4, 1), (8, 1), (16, 1), (16, 2), (16, 4)];
/// The same on CUDA, where longer rows go in strips side by side.
const CUDA_CLASSES: [(usize, usize); 4] = [(1, 1), (2, 1), (4, 1), (8, 1)];
/// Planes of a strip there: one for each of a multiprocessor's four schedulers.
const PLANES_OF_STRIP: usize = 4;
/// Units of a cube and pairs of states a unit, where planes cannot be used.
const SHARED_CLASSES: [(usize, usize); 5] = [(64, 2), (128, 2), (256, 2), (256, 4), (256, 8)];

/// How the pairs of a row are spread over a cube, known when a kernel is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Class {
    pub(super) lanes: Lanes,
    /// Lanes that pass values on directly.
    pub(super) group: usize,
    /// Groups of a cube. Each begins with a copy of the end of the one before.
    pub(super) groups: usize,
    /// Neighbouring pairs that a lane holds.
    pub(super) held: usize,
    /// Steps between two renewals of the copies, and pairs copied.
    pub(super) block: usize,
    /// Steps for which emissions are read at a time, half a turn; turns divide `block`.
    pub(super) ahead: usize,
    /// Whether what a turn needs comes by asynchronous copies to shared memory, a turn ahead.
    pub(super) by_copies: bool,
    /// Whether the row is longer than the cube holds and goes in strips.
    pub(super) strips: Strips,
}

/// How a row that is longer than a cube holds goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Strips {
    /// It is not.
    One,
    /// Strip after strip, a launch each.
    InTurn,
    /// All strips in one launch, a cube each, which waits for the column of the one before where
    /// that has not been written. A device must start cubes in the order of their numbers for
    /// that: NVIDIA's do, and CUB's scans rely on it (Merrill and Garland, "Single-pass parallel
    /// prefix scan with decoupled look-back", 2016).
    InWaves,
}

impl Class {
    fn of_planes(lanes: Lanes, groups: usize, held: usize) -> Self {
        let group = lanes.count(0);
        let block = (group * held / 4).clamp(2, 16);
        let ahead = (4 / held).max(1).min(block / 2);
        let by_copies = lanes == Lanes::Ptx;
        Self { lanes, group, groups, held, block, ahead, by_copies, strips: Strips::One }
    }

    fn of_shared(units: usize, held: usize) -> Self {
        let ahead = (4 / held).max(1);
        let lanes = Lanes::Shared;
        Self {
            lanes,
            group: units,
            groups: 1,
            held,
            block: 16,
            ahead,
            by_copies: false,
            strips: Strips::One,
        }
    }

    pub(super) fn units(&self) -> usize {
        self.group * self.groups
    }

    /// Pairs by which the next group starts further on.
    pub(super) fn stride(&self) -> usize {
        self.group * self.held - self.block
    }

    /// Pairs that a cube holds.
    pub(super) fn pairs(&self) -> usize {
        self.group * self.held + (self.groups - 1) * self.stride()
    }

    /// Steps of a turn.
    pub(super) fn turn(&self) -> usize {
        2 * self.ahead
    }

    /// Emissions of labels that copies bring, of all stages.
    pub(super) fn copied_labels(&self) -> usize {
        STAGES * self.turn() * self.held * self.units()
    }

    /// The same of blanks.
    pub(super) fn copied_blanks(&self) -> usize {
        STAGES * self.turn() * self.groups
    }

    /// Biases that they bring, one for a block, which is a turn where copies are used.
    pub(super) fn copied_biases(&self) -> usize {
        STAGES * 2 * self.held * self.units()
    }

    /// Words of shared memory through which lanes and groups exchange: two alternating parts.
    pub(super) fn exchange_words(&self) -> usize {
        if self.lanes.is_shared() { 4 * self.units() } else { 8 * self.groups * self.block }
    }

    /// Words of shared memory in all, on the way back, which needs the kept states too.
    fn shared_words(&self) -> usize {
        let columns = 2 * (self.block + self.turn());
        let copied =
            4 * self.copied_labels() + 2 * self.copied_blanks() + self.copied_biases() + columns;
        self.exchange_words() + if self.by_copies { copied } else { 0 }
    }

    /// Whether a row goes in strips.
    pub(super) fn in_strips(&self) -> bool {
        self.strips != Strips::One
    }

    /// Whether they go side by side.
    pub(super) fn in_waves(&self) -> bool {
        self.strips == Strips::InWaves
    }
}

/// Where the rows of the lattice go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// One cube holds a row in its registers.
    Cube,
    /// A row is spread over so many cubes, which pass on their borders; all rest on the device at once.
    Cubes(usize),
    /// A row goes through its cube in so many strips, one after the other, whose borders
    /// meet in global memory: slower, of any length.
    Global {
        /// How many.
        strips: usize,
    },
}

/// What to do about targets that no cube holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LongTargets {
    /// Sweep them in strips, through global memory.
    #[default]
    Global,
    /// Refuse the batch before anything is launched.
    Error,
}

/// What a device reports, and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Shared memory of one cube.
    pub shared_memory_bytes: usize,
    /// The longest target whose row the device holds in registers and shared memory all at once: in one
    /// cube or, on CUDA, spread over half of its multiprocessors (the other half goes backwards).
    pub max_shared_labels: usize,
    /// How lanes exchange.
    pub lanes: Lanes,
    /// Multiprocessors over which cubes are spread.
    pub num_multiprocessors: usize,
    /// Units of one cube.
    pub max_units: u32,
    /// Cubes along x and y.
    pub max_cubes: (u32, u32),
    /// The largest single allocation.
    pub max_buffer_bytes: u64,
    /// Loop iterations that one unit of one launch may make, those of inner loops included.
    /// Mesa's llvmpipe ends a shader silently after 65,535; other drivers have watchdogs.
    pub max_iterations: usize,
    /// What to do about targets longer than `max_shared_labels`.
    pub long_targets: LongTargets,
}

impl Capacity {
    /// The capacity of a client's device.
    pub fn of(client: &Client) -> Self {
        let properties = client.properties();
        let hardware = &properties.hardware;
        let plane = hardware.plane_size_min;
        let lanes = if client.name().starts_with("cuda") && client.features().copy_async {
            Lanes::Ptx
        } else if client.features().plane.contains(Plane::Ops)
            && plane == hardware.plane_size_max
            && (4..=64).contains(&plane)
        {
            Lanes::Plane(plane as usize)
        } else {
            Lanes::Shared
        };
        Self {
            shared_memory_bytes: hardware.max_shared_memory_size,
            max_shared_labels: 0,
            lanes,
            num_multiprocessors: hardware.num_streaming_multiprocessors.unwrap_or(1) as usize,
            max_units: hardware.max_units_per_cube.min(hardware.max_cube_dim.0),
            max_cubes: (hardware.max_cube_count.0, hardware.max_cube_count.1),
            max_buffer_bytes: properties.memory.max_page_size,
            max_iterations: 60_000,
            long_targets: LongTargets::Global,
        }
        .settled()
    }

    /// The same device with less shared memory, as another kernel might leave it. The smallest
    /// class needs a few kilobytes and is used whatever is said here.
    pub fn with_shared_memory(self, bytes: usize) -> Self {
        Self { shared_memory_bytes: bytes, ..self }.settled()
    }

    /// The same device, its lanes exchanging in another way.
    pub fn with_lanes(self, lanes: Lanes) -> Self {
        Self { lanes, ..self }.settled()
    }

    /// The same device under another policy.
    pub fn with_long_targets(self, long_targets: LongTargets) -> Self {
        Self { long_targets, ..self }
    }

    fn settled(self) -> Self {
        // A pair for the last blank.
        let strip = self.strip();
        let largest = self.classes().iter().map(Class::pairs).fold(0, usize::max);
        let pairs = largest.max(strip.pairs() * self.resident(&strip));
        Self { max_shared_labels: pairs - 1, ..self }
    }

    /// Cubes over which one direction of a row can be spread at once.
    fn resident(&self, class: &Class) -> usize {
        let of_multiprocessor = self.shared_memory_bytes / (4 * class.shared_words());
        if class.by_copies { (self.num_multiprocessors * of_multiprocessor / 2).max(1) } else { 1 }
    }

    /// The classes that fit the device, in rising order; at least one.
    pub(super) fn classes(&self) -> Vec<Class> {
        let all: Vec<Class> = if self.lanes.is_shared() {
            SHARED_CLASSES.into_iter().map(|(units, held)| Class::of_shared(units, held)).collect()
        } else {
            let of = |&(groups, held): &(usize, usize)| Class::of_planes(self.lanes, groups, held);
            let is_cuda = self.lanes == Lanes::Ptx;
            let classes: &[_] = if is_cuda { &CUDA_CLASSES } else { &PLANE_CLASSES };
            classes.iter().map(of).collect()
        };
        let fits = |class: &Class| {
            class.units() <= self.max_units as usize
                && 4 * class.shared_words() <= self.shared_memory_bytes
        };
        let smallest = all[0];
        let fitting: Vec<Class> = all.into_iter().filter(fits).collect();
        if fitting.is_empty() { vec![smallest] } else { fitting }
    }

    /// The class that sweeps targets up to `max_label_len` labels.
    pub(super) fn class_for(&self, max_label_len: usize) -> Class {
        self.classes()
            .into_iter()
            .find(|class| max_label_len < class.pairs())
            .unwrap_or_else(|| self.strip())
    }

    /// The class of the strips in which longer rows go: side by side in cubes that leave room for others,
    /// or one after the other in cubes as large as they come.
    fn strip(&self) -> Class {
        let in_waves = self.lanes == Lanes::Ptx;
        let (most, strips) = if in_waves {
            (PLANES_OF_STRIP, Strips::InWaves)
        } else {
            (usize::MAX, Strips::InTurn)
        };
        let classes = self.classes();
        let class = classes.iter().rfind(|class| class.groups <= most).unwrap_or(&classes[0]);
        Class { strips, ..*class }
    }

    /// The longest target of every class of kernels, in rising order.
    pub fn class_limits(&self) -> Vec<usize> {
        self.classes().iter().map(|class| class.pairs() - 1).collect()
    }

    /// The kernels that sweep targets up to `max_label_len` labels, in words; those of one name
    /// are compiled once.
    pub fn class_name(&self, max_label_len: usize) -> String {
        let Class { group, groups, held, strips, .. } = self.class_for(max_label_len);
        let strips = match strips {
            Strips::One => "",
            Strips::InTurn => ", in strips",
            Strips::InWaves => ", over several cubes",
        };
        format!("{groups} x {group} lanes x {held} pairs{strips}")
    }

    /// Where the rows of targets up to `max_label_len` labels will go.
    pub fn path_for(&self, max_label_len: usize) -> Path {
        let class = self.class_for(max_label_len);
        let strips = (max_label_len + 1).div_ceil(class.pairs());
        match class.strips {
            Strips::One => Path::Cube,
            Strips::InWaves if strips <= self.resident(&class) => Path::Cubes(strips),
            Strips::InTurn | Strips::InWaves => Path::Global { strips },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(lanes: Lanes) -> Capacity {
        Capacity {
            shared_memory_bytes: 0,
            max_shared_labels: 0,
            lanes,
            num_multiprocessors: 132,
            max_units: 1024,
            max_cubes: (65_535, 65_535),
            max_buffer_bytes: 1 << 30,
            max_iterations: 60_000,
            long_targets: LongTargets::Global,
        }
        .with_shared_memory(32 << 10)
    }

    #[test]
    fn rows_go_in_strips_only_when_they_must() {
        let planes = device(Lanes::Plane(32));
        assert_eq!(planes.max_shared_labels, 128 + 15 * 112 - 1);
        assert_eq!(planes.path_for(planes.max_shared_labels), Path::Cube);
        assert_eq!(planes.path_for(planes.max_shared_labels + 1), Path::Global { strips: 2 });
        assert_eq!(planes.with_shared_memory(0).path_for(31), Path::Cube);
        assert_eq!(planes.with_shared_memory(0).path_for(64), Path::Global { strips: 3 });
        let shared = device(Lanes::Shared);
        assert_eq!(shared.max_shared_labels, 2047);
        assert_eq!(shared.path_for(2048), Path::Global { strips: 2 });
    }

    #[test]
    fn on_cuda_a_row_is_spread_over_cubes_as_far_as_the_device_holds_them_at_once() {
        let h200 = device(Lanes::Ptx).with_shared_memory(232_448);
        assert_eq!(h200.path_for(199), Path::Cube);
        assert_eq!(h200.path_for(200), Path::Cubes(2));
        assert_eq!(h200.path_for(5_000), Path::Cubes(49));
        let fits = h200.max_shared_labels;
        assert!((5_000..50_000).contains(&fits), "{fits}");
        assert!(matches!(h200.path_for(fits), Path::Cubes(_)));
        assert!(matches!(h200.path_for(fits + 1), Path::Global { .. }));
        assert_eq!(h200.path_for(50_000), Path::Global { strips: 481 });
        assert_eq!(h200.with_shared_memory(0).path_for(63), Path::Global { strips: 2 });
    }

    #[test]
    fn classes_rise_and_read_ahead_within_a_block() {
        for lanes in [Lanes::Plane(4), Lanes::Plane(8), Lanes::Plane(64), Lanes::Ptx, Lanes::Shared]
        {
            let classes = device(lanes).classes();
            assert!(classes.is_sorted_by_key(Class::pairs), "{classes:?}");
            for class in classes {
                assert!(class.block.is_multiple_of(2 * class.ahead), "{class:?}");
                assert!(class.block.is_multiple_of(class.held), "{class:?}");
                assert!(!class.by_copies || class.block == class.turn(), "{class:?}");
                assert!(class.stride() > 0);
            }
        }
    }
}
