//! What a device offers the lattice, and where rows of a given length will live.

use cubecl::prelude::*;

/// Slots for pairs of states that the sweep is compiled for: a handful of kernels serve
/// every target length, so no batch waits for a compiler because its longest target is new.
const CLASSES: [usize; 5] = [64, 256, 1024, 2048, 4096];

/// Bytes of shared memory that a slot takes: two rows of two states of `(m, e)`.
const SLOT_BYTES: usize = 2 * 2 * 8;

/// Where the rows of the lattice live.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// In the cube's shared memory, of that many slots.
    Shared {
        /// Slots for pairs of states, one more than pairs.
        slots: usize,
    },
    /// In global memory: slower, of any length.
    Global,
}

/// What a device reports, and what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Shared memory of one cube.
    pub shared_memory_bytes: usize,
    /// The longest target whose rows fit it.
    pub max_shared_labels: usize,
    /// Units of one cube.
    pub max_units: u32,
    /// Cubes along x and y.
    pub max_cubes: (u32, u32),
    /// The largest single allocation.
    pub max_buffer_bytes: u64,
    /// Loop iterations that one unit of one launch may make, those of inner loops included.
    /// Mesa's llvmpipe ends a shader silently after 65,535; other drivers have watchdogs.
    pub max_iterations: usize,
}

impl Capacity {
    /// The capacity of a client's device.
    pub fn of(client: &Client) -> Self {
        let properties = client.properties();
        let hardware = &properties.hardware;
        let capacity = Self {
            shared_memory_bytes: hardware.max_shared_memory_size,
            max_shared_labels: 0,
            max_units: hardware.max_units_per_cube.min(hardware.max_cube_dim.0),
            max_cubes: (hardware.max_cube_count.0, hardware.max_cube_count.1),
            max_buffer_bytes: properties.memory.max_page_size,
            max_iterations: 60_000,
        };
        capacity.with_shared_memory(hardware.max_shared_memory_size)
    }

    /// The same device with less shared memory, as another kernel might leave it.
    pub fn with_shared_memory(self, bytes: usize) -> Self {
        let slots = CLASSES.into_iter().rfind(|slots| slots * SLOT_BYTES <= bytes).unwrap_or(0);
        // A slot for the zero before the first pair, and a pair for the last blank.
        Self { shared_memory_bytes: bytes, max_shared_labels: slots.saturating_sub(2), ..self }
    }

    /// Where the rows of targets up to `max_label_len` labels will live.
    pub fn path_for(&self, max_label_len: usize) -> Path {
        CLASSES
            .into_iter()
            .find(|slots| {
                slots * SLOT_BYTES <= self.shared_memory_bytes && max_label_len + 2 <= *slots
            })
            .map_or(Path::Global, |slots| Path::Shared { slots })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_go_to_global_memory_only_when_they_must() {
        let device = Capacity {
            shared_memory_bytes: 0,
            max_shared_labels: 0,
            max_units: 256,
            max_cubes: (65_535, 65_535),
            max_buffer_bytes: 1 << 30,
            max_iterations: 60_000,
        };
        let capacity = device.with_shared_memory(32 << 10);
        assert_eq!(capacity.max_shared_labels, 1022);
        assert_eq!(capacity.path_for(0), Path::Shared { slots: 64 });
        assert_eq!(capacity.path_for(62), Path::Shared { slots: 64 });
        assert_eq!(capacity.path_for(63), Path::Shared { slots: 256 });
        assert_eq!(capacity.path_for(1022), Path::Shared { slots: 1024 });
        assert_eq!(capacity.path_for(1023), Path::Global);
        assert_eq!(device.with_shared_memory(100).path_for(0), Path::Global);
        assert_eq!(device.with_shared_memory(100).max_shared_labels, 0);
    }
}
