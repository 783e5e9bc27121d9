//! Our layers with PyTorch's weights against PyTorch's own, see scripts/make_recurrent_goldens.py for how
//! its answers were made.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use burn::module::{Param, ParamId};
use burn::tensor::{Device, Tensor, TensorData};
use safetensors::SafeTensors;

use super::{Cell, Recurrent};
use crate::model::mask::Mask;

type Goldens = BTreeMap<String, (Vec<usize>, Vec<f32>)>;

fn goldens(name: &str) -> Goldens {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/recurrent");
    let bytes = fs::read(root.join(name)).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let tensors = file.tensors().into_iter().map(|(name, view)| {
        let values = view.data().chunks_exact(4);
        let values = values.map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect();
        (name, (view.shape().to_vec(), values))
    });
    tensors.collect()
}

/// PyTorch's `NAME_lN` and `NAME_lN_reverse`, `[G H, inputs]` or `[G H]`, side by side as ours are: each
/// transposed to `[inputs, G H]`.
fn both(goldens: &Goldens, prefix: &str, name: &str, layer: usize) -> [(usize, Vec<f32>); 2] {
    ["", "_reverse"].map(|reverse| {
        let (shape, values) = &goldens[&format!("{prefix}{name}_l{layer}{reverse}")];
        let inputs = shape.get(1).copied().unwrap_or(1);
        let column = |i: usize| values.iter().skip(i).step_by(inputs).copied();
        (shape[0], (0..inputs).flat_map(column).collect())
    })
}

/// The parameters, or the gradients, of a layer in our layout: input weight and bias, state weight and bias.
fn layout(goldens: &Goldens, prefix: &str, layer: usize) -> [Vec<f32>; 4] {
    let [(width, forward), (_, backward)] = both(goldens, prefix, "weight_ih", layer);
    let rows = forward.chunks_exact(width).zip(backward.chunks_exact(width));
    let input = rows.flat_map(|(a, b)| [a, b].concat()).collect();
    let joined = |name: &str| both(goldens, prefix, name, layer).map(|(_, values)| values).concat();
    [input, joined("bias_ih"), joined("weight_hh"), joined("bias_hh")]
}

fn with_parameters(layer: Recurrent, values: [Vec<f32>; 4], device: &Device) -> Recurrent {
    fn load<const D: usize>(
        old: &Param<Tensor<D>>,
        values: Vec<f32>,
        device: &Device,
    ) -> Param<Tensor<D>> {
        let tensor = Tensor::from_data(TensorData::new(values, old.dims()), device).require_grad();
        Param::initialized(ParamId::new(), tensor)
    }
    let [weight, bias, state_weight, state_bias] = values;
    let mut layer = layer;
    layer.input.weight = load(&layer.input.weight, weight, device);
    layer.input.bias = layer.input.bias.map(|old| load(&old, bias, device));
    layer.state_weight = load(&layer.state_weight, state_weight, device);
    layer.state_bias = load(&layer.state_bias, state_bias, device);
    layer
}

fn values<const D: usize>(tensor: Tensor<D>) -> Vec<f32> {
    tensor.into_data().try_to_vec().unwrap()
}

fn assert_close(got: &[f32], want: &[f32], allowed: f32, what: &str) {
    assert_eq!(got.len(), want.len(), "{what}");
    let size = want.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
    assert!(size > 0.1, "{what}: values of {size} would hide a fault");
    for (got, want) in got.iter().zip(want) {
        assert!((got - want).abs() < allowed * (1.0 + size), "{what}: {got} {want}");
    }
}

#[test]
fn two_layers_give_pytorchs_states_and_gradients_for_a_padded_batch() {
    let device = Device::flex().autodiff();
    for (name, cell) in [("lstm.safetensors", Cell::Lstm), ("gru.safetensors", Cell::Gru)] {
        let goldens = goldens(name);
        let tensor = |name: &str| {
            let (shape, values) = goldens[name].clone();
            Tensor::<3>::from_data(TensorData::new(values, shape), &device)
        };
        let lens: Vec<usize> = goldens["lens"].1.iter().map(|len| *len as usize).collect();
        let input = tensor("input").require_grad();
        let [_, t, d] = input.dims();
        let mask = Mask::new(&lens, t, &device);
        let layers: Vec<Recurrent> = (0..2)
            .map(|layer| {
                let fresh = Recurrent::new(cell, d, &device);
                with_parameters(fresh, layout(&goldens, "", layer), &device)
            })
            .collect();
        let output =
            layers.iter().fold(input.clone(), |hidden, layer| layer.forward(hidden, &mask));
        assert_close(&values(output.clone()), &goldens["output"].1, 1e-6, name);
        let grads = (output * tensor("weights")).sum().backward();
        let of_input = values(input.grad(&grads).unwrap());
        assert_close(&of_input, &goldens["grad.input"].1, 1e-5, name);
        for (number, layer) in layers.iter().enumerate() {
            let got = [
                values(layer.input.weight.grad(&grads).unwrap()),
                values(layer.input.bias.as_ref().unwrap().grad(&grads).unwrap()),
                values(layer.state_weight.grad(&grads).unwrap()),
                values(layer.state_bias.grad(&grads).unwrap()),
            ];
            for (part, (got, want)) in got.iter().zip(layout(&goldens, "grad.", number)).enumerate()
            {
                assert_close(got, &want, 1e-5, &format!("{name} layer {number} part {part}"));
            }
        }
    }
}
