//! The targets of a run against what its device sweeps at once, before anything is launched.
//!
//! A cube of the GPU kernel holds a row of the lattice, two states a label, in registers and shared
//! memory; how many fit is what the device reports. Longer targets go through global memory in
//! strips, as right and slower. A CPU has no such limit.

use burn::tensor::Device;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::VIEWS;

/// Too long utterances listed by name.
const SHOWN: usize = 5;

/// Settings of the CTC loss.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CtcConfig {
    /// Weight of the consistency between two differently masked views of each utterance (CR-CTC;
    /// the paper's is 0.2); 0 trains on one view. Two views cost twice the time and memory.
    pub consistency: f64,
    /// Targets longer than the device sweeps at once.
    pub long_targets: LongTargets,
}

impl CtcConfig {
    /// Checks every setting.
    ///
    /// # Errors
    /// Names the first without a meaning.
    pub fn validate(&self) -> Result<(), CtcConfigError> {
        if (0.0..=10.0).contains(&self.consistency) {
            return Ok(());
        }
        Err(CtcConfigError(self.consistency))
    }

    /// Rows of an utterance in a training batch.
    pub fn views(&self) -> usize {
        if self.consistency > 0.0 { VIEWS } else { 1 }
    }
}

/// A weight without a meaning.
#[derive(Clone, Copy, Debug, Error, PartialEq)]
#[error("ctc.consistency = {0}: expected a weight, 0 to 10 (0.2 is usual; 0 trains on one view)")]
pub struct CtcConfigError(f64);

/// What to do about targets longer than the device sweeps at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LongTargets {
    /// Sweep them in strips, through global memory.
    #[default]
    Global,
    /// Stop before training.
    Error,
}

/// The targets of batches with one padded length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketTargets<'a> {
    /// Feature frames of the batches.
    pub num_frames: usize,
    /// Labels and id of each utterance.
    pub targets: Vec<(usize, &'a str)>,
}

impl BucketTargets<'_> {
    fn longest(&self) -> (usize, &str) {
        self.targets.iter().copied().max_by_key(|(labels, _)| *labels).unwrap_or((0, "none"))
    }
}

/// Targets that the loss cannot or may not take on a device.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TargetsError {
    /// `ctc.long_targets = "error"` refuses them.
    #[error(
        "{count} target(s) are longer than the {capacity} labels that {device} sweeps at once with {shared_memory_bytes} B of shared memory; the longest has {longest}; utterances: {ids}; set ctc.long_targets = \"global\" to sweep them through global memory, or leave them out"
    )]
    TooLong {
        /// How many.
        count: usize,
        /// Labels that fit.
        capacity: usize,
        /// The device's name.
        device: String,
        /// Its shared memory.
        shared_memory_bytes: usize,
        /// Labels of the longest.
        longest: usize,
        /// The first of their ids.
        ids: String,
    },
    /// The device has no room for a batch.
    #[error(
        "CTC on {device} does not take batches of {num_frames} frames with the target of {id}: {reason}; lower data.batch_s or data.max_duration_s"
    )]
    Refused {
        /// The device's name.
        device: String,
        /// Feature frames of the batches.
        num_frames: usize,
        /// The utterance with the longest target.
        id: String,
        /// What is too large.
        reason: String,
    },
}

/// Says, for `device`, its capacity, the longest target and which path each bucket takes.
///
/// # Errors
///
/// [`TargetsError::TooLong`] if the policy refuses targets beyond the capacity, and there are some.
pub fn look_at_targets(
    device: &Device,
    device_name: &str,
    buckets: &[BucketTargets<'_>],
    config: &CtcConfig,
) -> Result<String, TargetsError> {
    #[cfg(feature = "gpu")]
    if let Some(capacity) = asr_ctc::capacity(device) {
        return on_gpu(&capacity, device_name, buckets, config);
    }
    let _ = (device, config);
    let (labels, id) = longest(buckets);
    Ok(format!(
        "ctc   {device_name} takes targets of any length; the longest has {labels} labels ({id})"
    ))
}

fn longest<'a>(buckets: &'a [BucketTargets<'_>]) -> (usize, &'a str) {
    buckets
        .iter()
        .map(BucketTargets::longest)
        .max_by_key(|(labels, _)| *labels)
        .unwrap_or((0, "none"))
}

#[cfg_attr(not(feature = "gpu"), allow(dead_code))]
fn refuse(
    buckets: &[BucketTargets<'_>],
    capacity: usize,
    shared_memory_bytes: usize,
    device_name: &str,
) -> Result<(), TargetsError> {
    let too_long = || {
        let targets = buckets.iter().flat_map(|bucket| &bucket.targets);
        targets.filter(|(labels, _)| *labels > capacity)
    };
    let count = too_long().count();
    if count == 0 {
        return Ok(());
    }
    let mut ids: Vec<&str> = too_long().take(SHOWN).map(|(_, id)| *id).collect();
    if count > SHOWN {
        ids.push("...");
    }
    Err(TargetsError::TooLong {
        count,
        capacity,
        device: device_name.to_owned(),
        shared_memory_bytes,
        longest: longest(buckets).0,
        ids: ids.join(", "),
    })
}

#[cfg(feature = "gpu")]
fn on_gpu(
    capacity: &asr_kernels::gpu::Capacity,
    device_name: &str,
    buckets: &[BucketTargets<'_>],
    config: &CtcConfig,
) -> Result<String, TargetsError> {
    use asr_kernels::gpu::Path;

    let (fits, bytes) = (capacity.max_shared_labels, capacity.shared_memory_bytes);
    if config.long_targets == LongTargets::Error {
        refuse(buckets, fits, bytes, device_name)?;
    }
    let (labels, id) = longest(buckets);
    let mut text = format!(
        "ctc   {device_name} sweeps targets of up to {fits} labels at once ({bytes} B of shared memory); the longest has {labels} ({id})"
    );
    for bucket in buckets {
        let (frames, labels) = (bucket.num_frames, bucket.longest().0);
        let class = capacity.class_name(labels);
        let path = match capacity.path_for(labels) {
            Path::Cube => "one cube a row".to_owned(),
            Path::Cubes(count) => format!("{count} cubes a row"),
            Path::Global { strips } => format!("{strips} strips a row, through global memory"),
        };
        text.push_str(&format!(
            "\n      batches of {frames} frames: up to {labels} labels, {path} ({class})"
        ));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets() -> Vec<BucketTargets<'static>> {
        [(100, 10, "short"), (20_000, 5_000, "long"), (200_000, 50_000, "longer")]
            .map(|(num_frames, labels, id)| BucketTargets {
                num_frames,
                targets: vec![(labels, id)],
            })
            .into()
    }

    #[test]
    fn the_cpu_takes_any_target() {
        let config = CtcConfig { long_targets: LongTargets::Error, ..CtcConfig::default() };
        let text = look_at_targets(&Device::flex(), "cpu", &buckets(), &config).unwrap();
        assert!(text.contains("any length") && text.contains("50000 labels (longer)"), "{text}");
    }

    #[test]
    fn refused_targets_are_counted_and_named_with_the_capacity() {
        let message = refuse(&buckets(), 4094, 232_448, "cuda:0").unwrap_err().to_string();
        for part in
            ["2 target(s)", "4094 labels", "232448 B", "50000", "long, longer", "ctc.long_targets"]
        {
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(refuse(&buckets(), 50_000, 232_448, "cuda:0"), Ok(()));
    }

    #[cfg(feature = "gpu")]
    #[test]
    fn a_gpu_tells_the_path_of_every_bucket() {
        use asr_kernels::gpu::{Capacity, Lanes, LongTargets as KernelPolicy};

        let h200 = Capacity {
            shared_memory_bytes: 0,
            max_shared_labels: 0,
            lanes: Lanes::Ptx,
            num_multiprocessors: 132,
            max_units: 1024,
            max_cubes: (1 << 30, 65_535),
            max_buffer_bytes: 1 << 35,
            max_iterations: 60_000,
            long_targets: KernelPolicy::Global,
        }
        .with_shared_memory(232_448);
        let text = on_gpu(&h200, "cuda:0", &buckets(), &CtcConfig::default()).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains(&format!("up to {} labels", h200.max_shared_labels)), "{text}");
        assert!(lines[1].contains("100 frames: up to 10 labels, one cube a row"), "{text}");
        assert!(lines[2].contains("5000 labels, 49 cubes a row"), "{text}");
        assert!(lines[3].contains("50000 labels, 481 strips a row, through global"), "{text}");
        let config = CtcConfig { long_targets: LongTargets::Error, ..CtcConfig::default() };
        assert!(on_gpu(&h200, "cuda:0", &buckets(), &config).is_err());
    }
}
