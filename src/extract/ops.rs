//! The backend extension behind [`Extractor::features`](super::Extractor::features). Nothing is learnt
//! before the features, so there is no gradient.

use std::sync::Arc;

use burn::backend::autodiff::{Autodiff, checkpoint::strategy::CheckpointStrategy};
use burn::backend::tensor::FloatTensor;
use burn::backend::{AutodiffBackend, Backend, Flex, backend_extension};

use super::Job;
use crate::host::{contiguous, elements, tensor};

/// Log-mel features of a batch of waveforms.
#[backend_extension(Autodiff, Flex, Cube: cfg(feature = "gpu"), Fusion: cfg(feature = "gpu"))]
pub trait LogMelOps: Backend {
    /// `[B, T, F]` of samples in one row; 0 behind each utterance's frames.
    #[fusion(dtype = burn::tensor::DType::F32, shape = job.shape())]
    fn log_mel(samples: FloatTensor<Self>, job: Arc<Job>) -> FloatTensor<Self>;
}

impl LogMelOps for Flex {
    fn log_mel(samples: FloatTensor<Self>, job: Arc<Job>) -> FloatTensor<Self> {
        let samples = contiguous(samples);
        tensor(job.on_host(elements(&samples)), job.shape())
    }
}

#[cfg(feature = "gpu")]
impl LogMelOps for burn_cubecl::CubeBackend {
    fn log_mel(samples: FloatTensor<Self>, job: Arc<Job>) -> FloatTensor<Self> {
        use burn_cubecl::{kernel::into_contiguous, tensor::CubeTensor};

        let samples = into_contiguous(samples);
        let (client, device) = (samples.client.clone(), samples.device.clone());
        let features = job
            .on_device(&samples.handle)
            .unwrap_or_else(|error| panic!("log-mel of a batch: {error}"));
        let dtype = burn::tensor::DType::F32;
        CubeTensor::new_contiguous(client, device, job.shape(), features, dtype)
    }
}

impl<B: LogMelOps, S: CheckpointStrategy> LogMelOps for Autodiff<B, S> {
    fn log_mel(samples: FloatTensor<Self>, job: Arc<Job>) -> FloatTensor<Self> {
        Self::from_inner(B::log_mel(samples.into_primitive(), job))
    }
}
