//! An utterance's samples as its frames see them: emphasised where the filter runs over the signal,
//! and going on behind both ends.

use crate::gpu::is_finite;
use crate::log_mel::Edges;
use cubecl::prelude::*;

/// Where a row's samples lie.
#[derive(CubeType, Clone, Copy)]
pub(super) struct Row {
    pub(super) start: usize,
    pub(super) len: i32,
}

/// How samples are read, known when a kernel is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Reading {
    pub(super) edges: Edges,
    /// Whether the filter runs over the signal.
    pub(super) is_emphasised: bool,
}

/// The sample of a signal of `len` that stands at `at`; below 0 where none does. Signals shorter
/// than what is missing are reflected again and again.
#[cube]
fn source(at: i32, len: i32, #[comptime] edges: Edges) -> i32 {
    if comptime!(edges == Edges::Zeros) {
        select(at < len, at, -1i32)
    } else if comptime!(edges == Edges::Reflect) {
        let last = len - 1i32;
        let period = max(2i32 * last, 1i32);
        let folded = (at % period + period) % period;
        min(folded, 2i32 * last - folded)
    } else {
        let period = max(2i32 * len, 1i32);
        let folded = (at % period + period) % period;
        min(folded, 2i32 * len - 1i32 - folded)
    }
}

/// A sample as it counts: one that is not finite is silence, for it must not reach other frames
/// through a mean, and an absurd one is cut to what its square leaves in range.
#[cube]
fn heard<F: Float>(x: f32) -> F {
    F::cast_from(select(is_finite(x), min(max(x, -1.0e9f32), 1.0e9f32), 0.0f32))
}

/// What stands at `at` of a row; `c` is the filter's coefficient.
#[cube]
// A comptime condition may not be joined to one of run time.
#[allow(clippy::collapsible_if)]
pub(super) fn sample<F: Float>(
    samples: &[f32],
    row: &Row,
    at: i32,
    c: F,
    #[comptime] reading: Reading,
) -> F {
    let from = source(at, row.len, reading.edges);
    let mut value = F::new(0.0);
    if from >= 0i32 {
        let place = row.start + usize::cast_from(from);
        value = heard::<F>(samples[place]);
        if comptime!(reading.is_emphasised) {
            if from > 0i32 {
                value -= c * heard::<F>(samples[place - 1]);
            }
        }
    }
    value
}
