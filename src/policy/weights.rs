//! Weights to bytes and back, every tensor accounted for.

use burn::module::Module;
use burn::store::{ModuleSnapshot, SafetensorsStore};

use super::CheckpointError;

/// All parameters and running statistics as one safetensors buffer.
///
/// # Errors
///
/// [`CheckpointError::Weights`] if the device cannot be read.
pub fn weights_to_bytes<M: Module>(model: &M) -> Result<Vec<u8>, CheckpointError> {
    // One entry of our own: Burn's default ones come in the random order of a hash map, and equal
    // weights should be equal bytes.
    let mut store = SafetensorsStore::from_bytes(None).clear_metadata().metadata("format", "burn");
    let failed = |error: &dyn std::fmt::Display| CheckpointError::Weights(error.to_string());
    model.save_into(&mut store).map_err(|error| failed(&error))?;
    store.get_bytes().map_err(|error| failed(&error))
}

/// `model` with the weights of `bytes`; refuses a load that would leave any tensor out.
///
/// # Errors
///
/// [`CheckpointError::Weights`] naming what is missing, unexpected or of another shape.
pub fn load_weights<M: Module>(mut model: M, bytes: Vec<u8>) -> Result<M, CheckpointError> {
    let mut store = SafetensorsStore::from_bytes(Some(bytes)).allow_partial(true).validate(false);
    let result =
        model.load_from(&mut store).map_err(|error| CheckpointError::Weights(error.to_string()))?;
    let missing: Vec<&str> = result.missing.iter().map(|(path, _)| path.as_str()).collect();
    let problems = [
        ("missing", missing.join(", ")),
        ("unexpected", result.unused.join(", ")),
        (
            "unfit",
            result.errors.iter().map(|error| format!("{error}")).collect::<Vec<_>>().join("; "),
        ),
    ];
    let report: Vec<String> = problems
        .iter()
        .filter(|(_, names)| !names.is_empty())
        .map(|(kind, names)| format!("{kind}: {names}"))
        .collect();
    if report.is_empty() { Ok(model) } else { Err(CheckpointError::Weights(report.join("; "))) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{ModelConfig, Pass};
    use burn::tensor::{Device, Distribution, Tensor};

    fn config(num_layers: usize) -> ModelConfig {
        ModelConfig {
            hidden_size: 16,
            num_layers,
            num_heads: 2,
            subsampling_channels: 4,
            subsampling_factor: 4,
            ..Default::default()
        }
    }

    #[test]
    fn loaded_weights_give_the_same_logits_to_the_bit() {
        let device = Device::flex();
        let model = config(2).init(20, 7, &device);
        let other = config(2).init(20, 7, &device);
        let x = Tensor::<3>::random([2, 30, 20], Distribution::Normal(0.0, 1.0), &device);
        let logits = |m: &crate::model::AcousticModel| {
            m.forward(x.clone(), &[30, 25], &mut Pass::inference()).0.to_data()
        };
        assert_ne!(logits(&model), logits(&other));
        let loaded = load_weights(other, weights_to_bytes(&model).unwrap()).unwrap();
        assert_eq!(logits(&model), logits(&loaded));
    }

    #[test]
    fn equal_weights_are_equal_bytes() {
        let model = config(2).init(20, 7, &Device::flex());
        let first = weights_to_bytes(&model).unwrap();
        assert!((0..20).all(|_| weights_to_bytes(&model).unwrap() == first));
    }

    #[test]
    fn a_load_that_does_not_fit_is_refused_and_says_where() {
        let device = Device::flex();
        let bytes = weights_to_bytes(&config(2).init(20, 7, &device)).unwrap();
        for (model, words) in [
            (config(1).init(20, 7, &device), "unexpected"),
            (config(3).init(20, 7, &device), "missing"),
            (config(2).init(20, 9, &device), "ctc_head"),
        ] {
            let error = load_weights(model, bytes.clone()).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        }
        let error = load_weights(config(2).init(20, 7, &device), bytes[..99].to_vec());
        assert!(error.is_err());
    }
}
