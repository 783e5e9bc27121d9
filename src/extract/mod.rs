//! Features on the device that the model is on (`data.features_on = "device"`): samples go there instead of
//! features, and the kernels of [`asr_kernels::log_mel`] and the masks follow. In f64 where the device has
//! it, which is what the host computes; else in f32.
//!
//! Refused, by key: features that the device does not compute ([`settings()`]), before anything is read.

mod masks;
mod ops;
mod settings;

use std::fmt;
use std::sync::Arc;

use asr_kernels::log_mel::Waveforms;
use burn::backend::Dispatch;
use burn::tensor::{Device, Shape, Tensor, TensorData};
use rayon::prelude::*;
use thiserror::Error;

use crate::features::{FeatureError, LogMel, LogMelConfig};

pub use masks::mask;
pub use settings::settings;

use ops::LogMelOps;

/// Why a device does not compute features.
#[derive(Debug, Error)]
pub enum ExtractError {
    /// No device does.
    #[error(transparent)]
    Features(#[from] FeatureError),
    /// This one does not.
    #[error(
        "data.features_on = \"device\": {0}; compute the features with data.features_on = \"host\""
    )]
    Device(String),
}

/// The extractor of one device, its tables there once.
pub struct Extractor {
    host: LogMel,
    #[cfg(feature = "gpu")]
    on_device: Option<asr_kernels::log_mel::gpu::LogMel>,
    precision: &'static str,
}

impl fmt::Debug for Extractor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extractor").field("config", self.host.config()).finish_non_exhaustive()
    }
}

impl Extractor {
    /// Plans features on `device`; on a CPU they are the host's.
    ///
    /// # Errors
    /// [`ExtractError`], naming key and value.
    pub fn new(config: &LogMelConfig, device: &Device) -> Result<Extractor, ExtractError> {
        let settings = settings(config)?;
        let host = LogMel::new(config)?;
        #[cfg(feature = "gpu")]
        {
            use asr_kernels::log_mel::gpu::{LogMel, Precision};
            use burn::backend::DispatchDevice;

            let on_device = match device.clone().inner().as_dispatch() {
                DispatchDevice::Cube(cube) => {
                    let client = cube.client();
                    let precision = Precision::of(&client);
                    let plan = LogMel::new(&client, &settings, precision)
                        .map_err(|error| ExtractError::Device(error.to_string()))?;
                    Some((plan, precision))
                }
                _ => None,
            };
            let precision = match on_device {
                Some((_, Precision::Single)) => "f32",
                Some((_, Precision::Double)) | None => "f64",
            };
            Ok(Extractor { host, on_device: on_device.map(|(plan, _)| plan), precision })
        }
        #[cfg(not(feature = "gpu"))]
        {
            let _ = (device, settings);
            Ok(Extractor { host, precision: "f64" })
        }
    }

    /// What transforms and sums are computed in: `"f32"` or `"f64"`.
    pub fn precision(&self) -> &'static str {
        self.precision
    }

    /// The features `[B, T, F]` of rows of `num_samples` samples, `sample_lens` of them valid, on the
    /// device of this extractor or its autodiff twin; 0 behind each utterance's frames. On a GPU the work
    /// is queued.
    ///
    /// # Panics
    /// If `samples` is not `[B, num_samples]`, if a row is longer than that, or if a batch is beyond what
    /// 32-bit indices reach, which no model's activations are.
    pub fn features(
        self: &Arc<Self>,
        samples: Vec<f32>,
        num_samples: usize,
        sample_lens: Vec<usize>,
        num_frames: usize,
        device: &Device,
    ) -> Tensor<3> {
        assert_eq!(samples.len(), sample_lens.len() * num_samples, "one row an utterance");
        let frame_lens =
            sample_lens.iter().map(|len| self.host.config().num_frames(*len)).collect();
        let waveforms = Waveforms::padded(num_samples, sample_lens, frame_lens)
            .and_then(|waveforms| waveforms.with_num_frames(num_frames))
            .unwrap_or_else(|error| panic!("log-mel of a batch: {error}"));
        let job = Arc::new(Job { extractor: Arc::clone(self), waveforms });
        let len = samples.len();
        let samples = Tensor::<1>::from_data(TensorData::new(samples, [len]), device);
        Tensor::from_dispatch(Dispatch::log_mel(samples.into_dispatch(), job))
    }
}

/// One batch for one extractor.
#[derive(Debug)]
pub struct Job {
    extractor: Arc<Extractor>,
    waveforms: Waveforms,
}

impl Job {
    fn num_mels(&self) -> usize {
        self.extractor.host.config().num_mels
    }

    fn shape(&self) -> Shape {
        let waveforms = &self.waveforms;
        Shape::from([waveforms.batch_size(), waveforms.num_frames(), self.num_mels()])
    }

    fn on_host(&self, samples: &[f32]) -> Vec<f32> {
        let (waveforms, host) = (&self.waveforms, &self.extractor.host);
        let row_len = waveforms.num_frames() * self.num_mels();
        let mut values = vec![0.0; waveforms.batch_size() * row_len];
        let rows = waveforms.starts().par_iter().zip(waveforms.sample_lens());
        values.par_chunks_exact_mut(row_len.max(1)).zip(rows).for_each_init(
            || host.scratch(),
            |scratch, (row, (start, len))| {
                let made = host.compute(scratch, &samples[*start..*start + *len]);
                row[..made.data.len()].copy_from_slice(&made.data);
            },
        );
        values
    }

    #[cfg(feature = "gpu")]
    fn on_device(
        &self,
        samples: &burn_cubecl::cubecl::server::Handle,
    ) -> Result<burn_cubecl::cubecl::server::Handle, asr_kernels::log_mel::gpu::LogMelError> {
        let plan = self.extractor.on_device.as_ref();
        plan.expect("an extractor is used on the device that it was made for")
            .compute(samples, &self.waveforms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_a_cpu_features_are_the_hosts_with_and_without_autodiff() {
        let config = LogMelConfig::default();
        let device = Device::flex();
        let extractor = Arc::new(Extractor::new(&config, &device).unwrap());
        let (lens, num_frames) = (vec![4_000, 0, 2_345], 30);
        let num_samples = config.most_samples(num_frames);
        let mut samples = vec![0.0; 3 * num_samples];
        for (row, len) in lens.iter().enumerate() {
            for (i, x) in samples[row * num_samples..][..*len].iter_mut().enumerate() {
                *x = (i as f32 * 0.3).sin() * (i as f32 * 0.0007).cos();
            }
        }
        let host = LogMel::new(&config).unwrap();
        for device in [device.clone(), device.autodiff()] {
            let made =
                extractor.features(samples.clone(), num_samples, lens.clone(), num_frames, &device);
            assert_eq!(made.dims(), [3, 30, 80]);
            let made: Vec<f32> = made.to_data().try_to_vec().unwrap();
            for (row, len) in lens.iter().enumerate() {
                let of_row = &samples[row * num_samples..][..*len];
                let want = host.compute(&mut host.scratch(), of_row).data;
                let (valid, padding) = made[row * 30 * 80..][..30 * 80].split_at(want.len());
                assert_eq!(valid, want);
                assert!(padding.iter().all(|x| *x == 0.0));
            }
        }
    }
}
