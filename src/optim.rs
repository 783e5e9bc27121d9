//! The optimiser: AdamW with a global-norm clip.
//!
//! Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019). Burn's own clipping
//! works on each tensor by itself; what the field means by clipping bounds the norm of all
//! gradients together (Pascanu et al., 2013), which is done here.

use burn::module::{Module, ModuleMapper, ModuleVisitor, Param, ParamGroup, ParamId};
use burn::optim::{AdamWConfig, GradientsParams, ModuleOptimizer};
use burn::tensor::Tensor;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Optimiser settings; `learning_rate` is the peak of the schedule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OptimConfig {
    /// Peak learning rate.
    pub learning_rate: f64,
    /// Decay of the gradient's running mean.
    pub beta1: f32,
    /// Decay of the squared gradient's running mean.
    pub beta2: f32,
    /// Added to the root of the second moment.
    pub epsilon: f32,
    /// Decoupled weight decay of matrices and convolutions.
    pub weight_decay: f32,
    /// Largest global gradient norm; larger ones are scaled down to it. 0 turns clipping off.
    pub max_grad_norm: f64,
    /// Batches whose gradients make one step, weighted by their labels.
    pub accumulate: usize,
    /// Steps with a non-finite loss or gradient in a row that end the run as diverged; each
    /// such step is skipped and counted.
    pub max_nonfinite_steps: usize,
}

impl Default for OptimConfig {
    fn default() -> Self {
        Self {
            learning_rate: 1e-3,
            beta1: 0.9,
            beta2: 0.98,
            epsilon: 1e-8,
            weight_decay: 1e-3,
            max_grad_norm: 1.0,
            accumulate: 1,
            max_nonfinite_steps: 20,
        }
    }
}

/// An optimiser setting out of its range.
#[derive(Debug, Error, PartialEq)]
#[error("optim.{key} = {value} must be {range}")]
pub struct OptimConfigError {
    key: &'static str,
    value: f64,
    range: &'static str,
}

impl OptimConfig {
    /// Refuses settings under which AdamW is undefined.
    ///
    /// # Errors
    ///
    /// The first setting out of range, with the range.
    pub fn validate(&self) -> Result<(), OptimConfigError> {
        let below_one = "at least 0 and below 1";
        let checks = [
            ("learning_rate", self.learning_rate, self.learning_rate > 0.0, "above 0"),
            ("beta1", self.beta1.into(), (0.0..1.0).contains(&self.beta1), below_one),
            ("beta2", self.beta2.into(), (0.0..1.0).contains(&self.beta2), below_one),
            ("epsilon", self.epsilon.into(), self.epsilon > 0.0, "above 0"),
            ("weight_decay", self.weight_decay.into(), self.weight_decay >= 0.0, "at least 0"),
            ("max_grad_norm", self.max_grad_norm, self.max_grad_norm >= 0.0, "at least 0"),
            ("accumulate", self.accumulate as f64, self.accumulate > 0, "at least 1"),
            (
                "max_nonfinite_steps",
                self.max_nonfinite_steps as f64,
                self.max_nonfinite_steps > 0,
                "at least 1",
            ),
        ];
        for (key, value, is_good, range) in checks {
            if !(is_good && value.is_finite()) {
                return Err(OptimConfigError { key, value, range });
            }
        }
        Ok(())
    }

    /// AdamW; biases and the scales of norms are in a group of their own without decay.
    pub fn init(&self) -> ModuleOptimizer {
        let config = AdamWConfig::new()
            .with_beta_1(self.beta1)
            .with_beta_2(self.beta2)
            .with_epsilon(self.epsilon)
            .with_weight_decay(self.weight_decay);
        config.init().with_group(
            ParamGroup::from_any_predicates(vec!["bias", "gamma", "beta"]),
            config.with_weight_decay(0.0).build(),
            None,
        )
    }
}

/// Numbers the parameters in the order of the module, so that an optimiser's state finds its
/// parameters again in another process (Burn's ids are random).
pub fn with_stable_ids<M: Module>(module: M) -> M {
    module.map(&mut Numbering(0))
}

struct Numbering(u64);

impl ModuleMapper for Numbering {
    fn map_float<const D: usize>(&mut self, param: Param<Tensor<D>>) -> Param<Tensor<D>> {
        self.0 += 1;
        let (_, tensor, mapper) = param.consume();
        Param::from_mapped_value(ParamId::from(self.0), tensor, mapper)
    }
}

/// The Euclidean norm of all gradients together, `[1]`, without waiting for the device.
pub fn global_norm<M: Module>(grads: &GradientsParams, model: &M) -> Option<Tensor<1>> {
    let mut squares = Squares { grads, sums: Vec::new() };
    model.visit(&mut squares);
    if squares.sums.is_empty() {
        return None;
    }
    Some(Tensor::cat(squares.sums, 0).sum().sqrt())
}

struct Squares<'a> {
    grads: &'a GradientsParams,
    sums: Vec<Tensor<1>>,
}

impl ModuleVisitor for Squares<'_> {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(grad) = self.grads.get::<D>(param.id) {
            self.sums.push(grad.square().sum());
        }
    }
}

/// Scales the gradients so that their global norm is at most `max_norm` (0: no limit).
pub fn clip<M: Module>(
    grads: GradientsParams,
    model: &M,
    norm: f64,
    max_norm: f64,
) -> GradientsParams {
    if max_norm == 0.0 || norm <= max_norm {
        return grads;
    }
    let mut scaled = Scaled { grads, factor: max_norm / norm };
    model.visit(&mut scaled);
    scaled.grads
}

struct Scaled {
    grads: GradientsParams,
    factor: f64,
}

impl ModuleVisitor for Scaled {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if let Some(grad) = self.grads.remove::<D>(param.id) {
            self.grads.register(param.id, grad * self.factor);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use burn::nn::{Linear, LinearConfig};
    use burn::tensor::{Device, Tolerance};

    fn model() -> Linear {
        with_stable_ids(LinearConfig::new(3, 2).init(&Device::flex().autodiff()))
    }

    fn grads(model: &Linear, scale: f64) -> GradientsParams {
        let x = Tensor::<2>::from_floats([[1.0, -2.0, 3.0]], &Device::flex().autodiff());
        let loss = (model.forward(x) * scale).sum();
        GradientsParams::from_grads(loss.backward(), model)
    }

    #[test]
    fn the_norm_is_taken_over_all_tensors_together() {
        let model = model();
        // d/dW is the input in both columns, d/db is 1 in both entries.
        let want = (2.0_f64 * (1.0 + 4.0 + 9.0) + 2.0).sqrt();
        let norm: f32 = global_norm(&grads(&model, 1.0), &model).unwrap().into_scalar();
        assert!((f64::from(norm) - want).abs() < 1e-5);
    }

    #[test]
    fn clipping_keeps_the_direction_and_reaches_exactly_the_limit() {
        let model = model();
        let wild = grads(&model, 100.0);
        let norm: f32 = global_norm(&wild, &model).unwrap().into_scalar();
        let before = wild.get::<2>(model.weight.id).unwrap();
        let clipped = clip(wild, &model, norm.into(), 0.5);
        let after: f32 = global_norm(&clipped, &model).unwrap().into_scalar();
        assert!((after - 0.5).abs() < 1e-6);
        let want = before * (0.5 / f64::from(norm));
        let got = clipped.get::<2>(model.weight.id).unwrap();
        got.to_data().assert_approx_eq::<f32>(&want.to_data(), Tolerance::rel_abs(1e-5, 1e-7));
    }

    #[test]
    fn small_gradients_and_a_limit_of_zero_change_nothing() {
        let model = model();
        for max_norm in [0.0, 1e9] {
            let before = grads(&model, 1.0).get::<2>(model.weight.id).unwrap().to_data();
            let kept = clip(grads(&model, 1.0), &model, 5.0, max_norm);
            assert_eq!(kept.get::<2>(model.weight.id).unwrap().to_data(), before);
        }
    }

    #[test]
    fn ids_are_the_same_in_every_process() {
        let (a, b) = (model(), model());
        assert_eq!(a.weight.id, b.weight.id);
        assert_ne!(a.weight.id, a.bias.unwrap().id);
    }

    #[test]
    fn settings_out_of_range_are_named() {
        let config = OptimConfig { beta2: 1.0, ..Default::default() };
        let message = config.validate().unwrap_err().to_string();
        assert_eq!(message, "optim.beta2 = 1 must be at least 0 and below 1");
    }
}
