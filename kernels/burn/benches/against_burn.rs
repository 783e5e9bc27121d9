//! CTC here and in Burn, in one process on one device: checked against the f64 reference, then
//! timed in turns. Loss and gradient with respect to the logits, log-softmax included.
//!
//! `cargo bench -p asr-ctc --features cuda -- cuda [repeats]`; devices: cpu, wgpu, vulkan, cuda.
//! Prints a JSON object a line. The last part changes the longest target in each of 100 steps.

use std::sync::Arc;
use std::time::Instant;

use asr_ctc::{Problem, ctc_loss};
use burn::tensor::activation::log_softmax;
use burn::tensor::{DType, Device, Int, Tensor, TensorData, module};

/// T, N, C, U of the table in the project's design; every utterance at full length.
const SHAPES: [[usize; 4]; 5] = [
    [500, 32, 32, 100],
    [1000, 16, 1024, 150],
    [250, 64, 1024, 50],
    [2000, 8, 128, 500],
    [1500, 32, 128, 300],
];
const SMALL: [usize; 4] = [200, 8, 32, 40];

fn main() {
    let mut args = std::env::args().skip(1).filter(|arg| !arg.starts_with("--"));
    let name = args.next().unwrap_or_else(|| "cpu".to_owned());
    let repeats: usize = args.next().map_or(20, |text| text.parse().expect("a number of repeats"));
    let device = device(&name).unwrap_or_else(|| {
        eprintln!("{name} is not in this build or not a device: cpu, wgpu, vulkan, cuda");
        std::process::exit(2)
    });
    let shapes: &[[usize; 4]] = if name == "cpu" { &[SMALL, SHAPES[0]] } else { &SHAPES };
    for shape in shapes {
        let case = Case::new(*shape, &device);
        let error = case.check();
        for dtype in [DType::F32, DType::BF16] {
            if dtype == DType::BF16 && (name == "cpu" || !device.supports_dtype(DType::BF16)) {
                continue;
            }
            let ours = times(repeats, || case.ours(dtype));
            report(&name, "ours", dtype, shape, &ours, error);
        }
        let burns = times(repeats, || case.burns());
        report(&name, "burn", DType::F32, shape, &burns, error);
    }
    let [t, n, c, _] = SHAPES[0];
    for who in ["ours", "burn"] {
        // Burn compiles for each new length; a tenth of the steps shows as much.
        let steps = if who == "ours" { 100 } else { 10 };
        let mut millis = Vec::new();
        for step in 0..steps {
            let case = Case::new([t, n, c, 60 + (step * 37) % 100], &device);
            let start = Instant::now();
            if who == "ours" {
                case.ours(DType::F32)
            } else {
                case.burns()
            };
            millis.push(start.elapsed().as_secs_f64() * 1e3);
        }
        let first = millis[0];
        let rest = sorted(millis[1..].to_vec());
        println!(
            "{}",
            serde_json::json!({
                "device": name, "work": "changing_target", "who": who, "steps": steps, "first_ms": first,
                "median_ms": rest[rest.len() / 2], "max_ms": rest[rest.len() - 1],
            })
        );
    }
}

fn device(name: &str) -> Option<Device> {
    match name {
        "cpu" => Some(Device::flex()),
        #[cfg(feature = "wgpu")]
        "wgpu" => Some(Device::wgpu(burn::tensor::DeviceKind::DefaultDevice)),
        #[cfg(feature = "vulkan")]
        "vulkan" => Some(Device::vulkan(burn::tensor::DeviceKind::DefaultDevice)),
        #[cfg(feature = "cuda")]
        "cuda" => Some(Device::cuda(0)),
        _ => None,
    }
}

struct Case {
    problem: Arc<Problem>,
    values: Vec<f32>,
    /// Without a graph, and for Burn with the blank as class 0.
    logits: Tensor<3>,
    targets: Tensor<2, Int>,
    frame_lens: Tensor<1, Int>,
    label_lens: Tensor<1, Int>,
}

impl Case {
    fn new([t, n, c, u]: [usize; 4], device: &Device) -> Self {
        let mut rng = fastrand::Rng::with_seed((t + n + c + u) as u64);
        let labels: Vec<Vec<u32>> =
            (0..n).map(|_| (0..u).map(|_| rng.u32(1..c as u32)).collect()).collect();
        let values: Vec<f32> = (0..n * t * c).map(|_| rng.f32() * 6.0 - 3.0).collect();
        let device = device.clone().autodiff();
        let ints = |values: Vec<i32>| Tensor::<1, Int>::from_data(values.as_slice(), &device);
        let targets = labels.iter().flatten().map(|label| *label as i32).collect();
        Self {
            problem: Arc::new(Problem::new(t, c, 0, vec![t; n], &labels).expect("a valid batch")),
            logits: Tensor::from_data(TensorData::new(values.clone(), [n, t, c]), &device),
            values,
            targets: ints(targets).reshape([n, u]),
            frame_lens: ints(vec![t as i32; n]),
            label_lens: ints(vec![u as i32; n]),
        }
    }

    /// The sum of the losses and the gradient, both on the host for a wait.
    fn ours(&self, dtype: DType) -> (f64, Tensor<3>) {
        let logits = self.logits.clone().inner();
        let logits = Tensor::from_inner(logits.cast(dtype)).require_grad();
        finish(ctc_loss(logits.clone(), self.problem.clone()), logits)
    }

    fn burns(&self) -> (f64, Tensor<3>) {
        let logits = self.logits.clone().require_grad();
        let log_probs = log_softmax(logits.clone(), 2).swap_dims(0, 1);
        let (targets, frames) = (self.targets.clone(), self.frame_lens.clone());
        finish(module::ctc_loss(log_probs, targets, frames, self.label_lens.clone(), 0), logits)
    }

    /// The worst of our errors against f64: of losses relatively, of gradients absolutely.
    fn check(&self) -> f64 {
        let (nll, grad) = self.ours(DType::F32);
        let (want_nll, want_grad) = asr_kernels::reference::batch(&self.values, &self.problem);
        let want: f64 = want_nll.iter().sum();
        let mut worst = (nll - want).abs() / want;
        let grad: Vec<f32> = grad.into_data().iter::<f32>().collect();
        for (got, want) in grad.iter().zip(&want_grad) {
            worst = worst.max((f64::from(*got) - want).abs());
        }
        assert!(worst < 1e-4, "ours is off by {worst:e}");
        let (burns, _) = self.burns();
        assert!((burns - want).abs() / want < 1e-2, "Burn has {burns} for {want}");
        worst
    }
}

fn finish(nll: Tensor<1>, logits: Tensor<3>) -> (f64, Tensor<3>) {
    let sum = nll.sum();
    let grads = sum.clone().backward();
    let grad = logits.grad(&grads).expect("the loss depends on the logits");
    grad.device().sync().expect("the device works");
    (f64::from(sum.into_scalar::<f32>()), grad)
}

fn times<R>(repeats: usize, mut run: impl FnMut() -> R) -> Vec<f64> {
    for _ in 0..3 {
        run();
    }
    let mut millis = Vec::new();
    for _ in 0..repeats {
        let start = Instant::now();
        run();
        millis.push(start.elapsed().as_secs_f64() * 1e3);
    }
    sorted(millis)
}

fn sorted(mut millis: Vec<f64>) -> Vec<f64> {
    millis.sort_by(f64::total_cmp);
    millis
}

fn report(
    device: &str,
    who: &str,
    dtype: DType,
    [t, n, c, u]: &[usize; 4],
    millis: &[f64],
    error: f64,
) {
    let at = |share: f64| millis[((millis.len() - 1) as f64 * share) as usize];
    println!(
        "{}",
        serde_json::json!({
            "device": device, "work": "nll_and_grad", "who": who, "dtype": format!("{dtype:?}"),
            "t": t, "n": n, "c": c, "u": u, "repeats": millis.len(), "median_ms": at(0.5),
            "p10_ms": at(0.1), "p90_ms": at(0.9), "worst_error_of_ours": error,
        })
    );
}
