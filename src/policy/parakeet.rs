//! The names and layouts of Hugging Face's `ParakeetForCTC` (transformers 5), for each tensor of ours.
//!
//! Activations are channels-last here and channels-first there, so every weight of ours is the transpose
//! of theirs: `[inputs..., outputs]` against `[outputs, ...]`. Values keep their bits.

use super::tensors::StoredTensor;

/// What a tensor of ours is called and looks like there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Counterpart {
    pub name: String,
    pub shape: Vec<usize>,
    is_transposed: bool,
}

impl Counterpart {
    /// Of the tensor `ours`; `None` for a name that no `ParakeetForCTC` has.
    pub fn of(ours: &str, shape: &[usize]) -> Option<Self> {
        let same = |name: String| Some(Self::same(&name, shape));
        let (&outputs, inputs) = shape.split_last()?;
        let transposed = |name: String, shape: &[usize]| {
            Some(Self { name, shape: shape.to_vec(), is_transposed: true })
        };
        let parts: Vec<&str> = ours.split('.').collect();
        match parts[..] {
            ["subsampling", "first", "weight"] => {
                transposed(subsampling(0, "weight"), &[outputs, 1, 3, 3])
            }
            ["subsampling", "first", "bias"] => same(subsampling(0, "bias")),
            ["subsampling", "halvings", number, ref rest @ ..] => {
                // After the first convolution and its ReLU: depth-wise, pointwise, ReLU.
                let at = 2 + 3 * number.parse::<usize>().ok()?;
                match rest {
                    ["taps"] => {
                        let [kernel_t, kernel_f] = *inputs else { return None };
                        let shape = [outputs, 1, kernel_t, kernel_f];
                        transposed(subsampling(at, "weight"), &shape)
                    }
                    ["bias"] => same(subsampling(at, "bias")),
                    ["pointwise", "weight"] => {
                        let shape = [outputs, inputs[0], 1, 1];
                        transposed(subsampling(at + 1, "weight"), &shape)
                    }
                    ["pointwise", "bias"] => same(subsampling(at + 1, "bias")),
                    _ => None,
                }
            }
            ["subsampling", "projection", "weight"] => {
                transposed("encoder.subsampling.linear.weight".to_owned(), &[outputs, inputs[0]])
            }
            ["subsampling", "projection", "bias"] => {
                same("encoder.subsampling.linear.bias".to_owned())
            }
            ["ctc_head", "weight"] => {
                transposed("ctc_head.weight".to_owned(), &[outputs, inputs[0], 1])
            }
            ["ctc_head", "bias"] => same("ctc_head.bias".to_owned()),
            ["layers", layer, ref rest @ ..] => {
                let name = |rest: &str| format!("encoder.layers.{layer}.{rest}");
                match rest {
                    ["conv", "depthwise_taps"] => {
                        transposed(name("conv.depthwise_conv.weight"), &[outputs, 1, inputs[0]])
                    }
                    ["conv", "depthwise_bias"] => same(name("conv.depthwise_conv.bias")),
                    ["conv", "norm", kind] => same(name(&format!("conv.norm.{}", norm(kind)))),
                    ["conv", pointwise, "weight"] => transposed(
                        name(&format!("conv.{pointwise}.weight")),
                        &[outputs, inputs[0], 1],
                    ),
                    ["self_attn", bias @ ("bias_u" | "bias_v")] => {
                        same(name(&format!("self_attn.{bias}")))
                    }
                    [module, linear, "weight"] => transposed(
                        name(&format!("{module}.{linear}.weight")),
                        &[outputs, inputs[0]],
                    ),
                    [module, layer, "bias"] => same(name(&format!("{module}.{layer}.bias"))),
                    [layer_norm, kind @ ("gamma" | "beta")] => {
                        same(name(&format!("{layer_norm}.{}", norm(kind))))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// The same name and layout.
    pub fn same(name: &str, shape: &[usize]) -> Self {
        Self { name: name.to_owned(), shape: shape.to_vec(), is_transposed: false }
    }

    /// Theirs from ours.
    pub fn export(&self, ours: &StoredTensor) -> StoredTensor {
        let values = if self.is_transposed {
            let columns = self.shape[0];
            transpose(&ours.values, columns)
        } else {
            ours.values.clone()
        };
        StoredTensor { shape: self.shape.clone(), values }
    }

    /// Ours, of `shape`, from theirs.
    pub fn import(&self, theirs: StoredTensor, shape: &[usize]) -> StoredTensor {
        let values = if self.is_transposed {
            let columns = theirs.values.len().checked_div(self.shape[0]).unwrap_or(0);
            transpose(&theirs.values, columns)
        } else {
            theirs.values
        };
        StoredTensor { shape: shape.to_vec(), values }
    }
}

fn subsampling(at: usize, kind: &str) -> String {
    format!("encoder.subsampling.layers.{at}.{kind}")
}

fn norm(kind: &str) -> &str {
    match kind {
        "gamma" => "weight",
        "beta" => "bias",
        statistic => statistic,
    }
}

/// The transpose of a matrix of so many columns.
fn transpose(values: &[f32], columns: usize) -> Vec<f32> {
    let column = |c: usize| values.iter().skip(c).step_by(columns.max(1)).copied();
    (0..columns).flat_map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(shape: &[usize]) -> StoredTensor {
        let len: usize = shape.iter().product();
        StoredTensor { shape: shape.to_vec(), values: (0..len).map(|i| i as f32).collect() }
    }

    #[test]
    fn a_tap_and_a_weight_lie_where_pytorch_looks_for_them() {
        // [taps, 1, channels] to [channels, 1, taps].
        let ours = tensor(&[3, 1, 2]);
        let there = Counterpart::of("layers.7.conv.depthwise_taps", &ours.shape).unwrap();
        assert_eq!(there.name, "encoder.layers.7.conv.depthwise_conv.weight");
        let theirs = there.export(&ours);
        assert_eq!(theirs.shape, [2, 1, 3]);
        assert_eq!(theirs.values, [0.0, 2.0, 4.0, 1.0, 3.0, 5.0]);
        assert_eq!(there.import(theirs, &ours.shape), ours);
    }

    #[test]
    fn exporting_and_importing_gives_the_same_back() {
        for (name, shape) in [
            ("subsampling.first.weight", &[9, 4][..]),
            ("subsampling.halvings.1.taps", &[3, 3, 4]),
            ("subsampling.halvings.0.pointwise.weight", &[4, 4]),
            ("subsampling.projection.weight", &[8, 6]),
            ("layers.0.self_attn.relative_k_proj.weight", &[6, 6]),
            ("layers.0.self_attn.bias_u", &[2, 3]),
            ("layers.0.feed_forward1.linear2.weight", &[24, 6]),
            ("layers.0.feed_forward1.linear2.bias", &[6]),
            ("layers.0.conv.pointwise_conv1.weight", &[6, 12]),
            ("layers.0.conv.norm.running_var", &[6]),
            ("layers.0.norm_out.gamma", &[6]),
            ("ctc_head.weight", &[6, 5]),
            ("ctc_head.bias", &[5]),
        ] {
            let ours = tensor(shape);
            let there = Counterpart::of(name, shape).unwrap_or_else(|| panic!("{name}"));
            assert_eq!(there.import(there.export(&ours), shape), ours, "{name}");
        }
        for name in ["", "decoder.weight", "layers.0", "subsampling.halvings.x.taps"] {
            assert_eq!(Counterpart::of(name, &[2, 2, 2]), None, "{name}");
        }
    }
}
