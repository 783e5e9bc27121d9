//! What logits are made of.

use cubecl::ir::{ElemType, FloatKind};
use cubecl::prelude::*;

/// What the logits are made of; so is their gradient. States and losses are f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogitsType {
    /// 32 bits.
    F32,
    /// 16 bits, 5 of exponent.
    F16,
    /// 16 bits, 8 of exponent.
    Bf16,
}

impl LogitsType {
    /// Bytes of one logit.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    pub(super) fn elem(self) -> ElemType {
        ElemType::Float(match self {
            Self::F32 => FloatKind::F32,
            Self::F16 => FloatKind::F16,
            Self::Bf16 => FloatKind::BF16,
        })
    }

    /// Whether kernels of this device can compute with it.
    pub fn is_supported(self, client: &Client) -> bool {
        client.properties().supports_type(self.elem())
    }
}
