//! Learns to spell one word from noise: the whole of a CTC training, in a dozen lines.
//!
//! `cargo run --release -p asr-ctc --example toy`

use std::sync::Arc;

use asr_ctc::{Problem, ctc_loss};
use burn::tensor::{Device, Distribution, Tensor};

fn main() {
    let device = Device::flex().autodiff();
    // 12 frames, 5 classes of which the last is the blank, and the word 1 2 2 3.
    let problem = Problem::new(12, 5, 4, vec![12], &[vec![1, 2, 2, 3]]);
    let problem = Arc::new(problem.expect("the word fits the frames"));
    let mut logits = Tensor::<3>::random([1, 12, 5], Distribution::Normal(0.0, 1.0), &device);
    for step in 0..200 {
        logits = logits.require_grad();
        let nll = ctc_loss(logits.clone(), problem.clone());
        let grads = nll.clone().backward();
        let slope = logits.grad(&grads).expect("the loss depends on the logits");
        logits = Tensor::from_inner(logits.inner() - slope);
        if step % 40 == 0 {
            println!("step {step:3}  loss {:.4} nats", nll.into_scalar::<f32>());
        }
    }
    println!("best path {}", logits.argmax(2).into_data());
}
