//! The kernels under the laws, on whichever runtime a feature names. Instantiated by a
//! macro so that every runtime is put to all of them.

use crate::laws::Engine;
use asr_kernels::Problem;
use asr_kernels::gpu::{
    Capacity, CtcError, Gradient, Lanes, LogitsType, LongTargets, Outputs, check, ctc,
};
use cubecl::prelude::*;
use cubecl::server::Handle;
use half::{bf16, f16};

/// The kernels on one device.
pub struct Gpu {
    client: Client,
    capacity: Capacity,
    dtype: LogitsType,
}

impl Gpu {
    pub fn new(device: cubecl::Device) -> Self {
        let client = device.client();
        let capacity = Capacity::of(&client);
        assert!(
            capacity.max_shared_labels >= 254,
            "the classes below are meant to be tried: {capacity:?}"
        );
        Self { client, capacity, dtype: LogitsType::F32 }
    }

    /// As if the device had so many bytes of shared memory.
    pub fn with_shared_memory(self, bytes: usize) -> Self {
        Self { capacity: self.capacity.with_shared_memory(bytes), ..self }
    }

    /// As if no buffer could be larger.
    pub fn with_buffers_of(mut self, bytes: u64) -> Self {
        self.capacity.max_buffer_bytes = bytes;
        self
    }

    /// As if a launch could loop no more often.
    pub fn with_iterations(mut self, iterations: usize) -> Self {
        self.capacity.max_iterations = iterations;
        self
    }

    /// The other ways in which lanes can exchange on this device. Planes are tried wherever
    /// they are of one size, whether or not the runtime recommends them.
    pub fn other_lanes(self) -> Vec<Self> {
        let hardware = &self.client.properties().hardware;
        let mut ways = vec![Lanes::Shared];
        if hardware.plane_size_min == hardware.plane_size_max {
            ways.push(Lanes::Plane(hardware.plane_size_min as usize));
        }
        ways.retain(|lanes| *lanes != self.capacity.lanes);
        let with = |lanes| Self {
            client: self.client.clone(),
            capacity: self.capacity.with_lanes(lanes),
            dtype: self.dtype,
        };
        ways.into_iter().map(with).collect()
    }

    /// The same device with logits of every 16-bit type that it computes with.
    pub fn half_types(self) -> Vec<Self> {
        [LogitsType::F16, LogitsType::Bf16]
            .into_iter()
            .filter(|dtype| dtype.is_supported(&self.client))
            .map(|dtype| Self { client: self.client.clone(), capacity: self.capacity, dtype })
            .collect()
    }

    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    /// What does not fit, or is not there, is a typed error before anything is launched.
    pub fn refuses_what_does_not_fit(&self) {
        let problem = Problem::new(300, 5, 0, vec![300], &[vec![1, 2]]).unwrap();
        let refusal = |elements: usize, capacity: &Capacity| {
            let logits = self.client.empty(elements * size_of::<f32>());
            let refusal =
                ctc(&self.client, &logits, LogitsType::F32, &problem, Gradient::Plain, capacity)
                    .unwrap_err();
            let foretold = check(&self.client, LogitsType::F32, &problem, true, capacity);
            assert!(
                matches!(refusal, CtcError::LogitsSize { .. })
                    || foretold.is_err_and(|err| err == refusal)
            );
            refusal
        };
        let CtcError::LogitsSize { want: 6000, .. } = refusal(100, &self.capacity) else {
            panic!("logits too short")
        };
        let small = Capacity { max_buffer_bytes: 6_400, ..self.capacity };
        let CtcError::TooLarge { words: 2184, limit: 1600, .. } = refusal(1500, &small) else {
            panic!("a lattice larger than a buffer")
        };
        let few = Capacity { max_cubes: (10, 10), ..self.capacity };
        let CtcError::TooManyCubes { frames: 300, .. } = refusal(1500, &few) else {
            panic!("more frames than cubes")
        };
        let short = Capacity { max_iterations: 5, ..self.capacity };
        let CtcError::FrameTooWide { labels: 2, .. } = refusal(1500, &short) else {
            panic!("loops shorter than a frame")
        };
        for dtype in [LogitsType::F16, LogitsType::Bf16] {
            let logits = self.client.empty(3000);
            let done = ctc(&self.client, &logits, dtype, &problem, Gradient::None, &self.capacity);
            let refused = CtcError::UnsupportedType { dtype };
            assert!(done.is_ok() || done.is_err_and(|err| err == refused), "{dtype:?}");
        }
    }

    /// Under the strict policy a target longer than a cube holds is named with its row.
    pub fn refuses_long_targets_if_asked(&self) {
        let capacity = self.capacity.with_shared_memory(0).with_long_targets(LongTargets::Error);
        let fits = capacity.max_shared_labels;
        let labels = [vec![1], vec![2; fits + 1], vec![3; fits]];
        let problem = Problem::new(3, 5, 0, vec![3; 3], &labels).unwrap();
        let logits = self.client.empty(3 * 3 * 5 * size_of::<f32>());
        let refusal =
            ctc(&self.client, &logits, LogitsType::F32, &problem, Gradient::Plain, &capacity)
                .unwrap_err();
        assert_eq!(refusal, CtcError::LongTarget { row: 1, labels: fits + 1, capacity: fits });
    }

    /// A row's factor multiplies its gradient, and nothing else.
    pub fn factors_scale_rows(&self) {
        let shape = crate::cases::Draw { batch: 3, frames: 30, classes: 9, labels: 5, scale: 3.0 };
        let case = crate::cases::draw(2, shape);
        let (nll, grad) = self.nll_and_grad(&case.logits, &case.problem);
        let factors = [2.0, -0.5, 0.0];
        let handle = self.client.create_from_slice(f32::as_bytes(&factors));
        let outputs = self.run(&case.logits, &case.problem, Gradient::Times(&handle));
        let scaled = self.logits_of(outputs.grad.expect("it was wanted"), grad.len());
        assert_eq!(self.floats(outputs.nll, 3), nll);
        for (i, (got, plain)) in scaled.iter().zip(&grad).enumerate() {
            assert_eq!(*got, plain * factors[i / (30 * 9)]);
        }
    }

    fn run(&self, logits: &[f32], problem: &Problem, gradient: Gradient) -> Outputs {
        let padded = if logits.is_empty() { &[0.0] } else { logits };
        let logits = match self.dtype {
            LogitsType::F32 => self.client.create_from_slice(f32::as_bytes(padded)),
            LogitsType::F16 => {
                let halves: Vec<f16> = padded.iter().map(|x| f16::from_f32(*x)).collect();
                self.client.create_from_slice(f16::as_bytes(&halves))
            }
            LogitsType::Bf16 => {
                let halves: Vec<bf16> = padded.iter().map(|x| bf16::from_f32(*x)).collect();
                self.client.create_from_slice(bf16::as_bytes(&halves))
            }
        };
        ctc(&self.client, &logits, self.dtype, problem, gradient, &self.capacity).expect("it fits")
    }

    fn floats(&self, handle: Handle, len: usize) -> Vec<f32> {
        let bytes = self.client.read_one(handle).expect("the kernels ran");
        f32::from_bytes(&bytes)[..len].to_vec()
    }

    fn logits_of(&self, handle: Handle, len: usize) -> Vec<f32> {
        if self.dtype == LogitsType::F32 {
            return self.floats(handle, len);
        }
        let bytes = self.client.read_one(handle).expect("the kernels ran");
        if self.dtype == LogitsType::F16 {
            f16::from_bytes(&bytes)[..len].iter().map(|x| x.to_f32()).collect()
        } else {
            bf16::from_bytes(&bytes)[..len].iter().map(|x| x.to_f32()).collect()
        }
    }
}

impl Engine for Gpu {
    const LOSS: f64 = 1e-5;
    const GRAD: f64 = 2e-5;

    fn nll(&self, logits: &[f32], problem: &Problem) -> Vec<f32> {
        let outputs = self.run(logits, problem, Gradient::None);
        assert!(outputs.grad.is_none());
        self.floats(outputs.nll, problem.batch_size())
    }

    fn nll_and_grad(&self, logits: &[f32], problem: &Problem) -> (Vec<f32>, Vec<f32>) {
        let outputs = self.run(logits, problem, Gradient::Plain);
        let grad = outputs.grad.expect("it was wanted");
        (self.floats(outputs.nll, problem.batch_size()), self.logits_of(grad, logits.len()))
    }

    fn rounded(&self, x: f32) -> f32 {
        match self.dtype {
            LogitsType::F32 => x,
            LogitsType::F16 => f16::from_f32(x).to_f32(),
            LogitsType::Bf16 => bf16::from_f32(x).to_f32(),
        }
    }

    fn gradient_rounding(&self) -> f64 {
        match self.dtype {
            LogitsType::F32 => 0.0,
            LogitsType::F16 => 2.5e-4,
            LogitsType::Bf16 => 2e-3,
        }
    }
}

/// Whether the sizes that only a real GPU does in reasonable time are wanted.
pub fn wants_large() -> bool {
    std::env::var_os("ASR_KERNELS_LARGE").is_some()
}

/// Puts a device to every law; one that is not there fails.
macro_rules! put_to_the_laws {
    ($device:expr) => {
        use crate::gpu::{Gpu, wants_large};
        use crate::laws;

        fn device() -> Gpu {
            Gpu::new($device.expect("a device to test"))
        }

        #[test]
        fn random_small_batches_match_the_reference() {
            laws::random_small_batches(&device(), 100);
        }

        #[test]
        fn large_shapes_match_the_reference() {
            laws::large_shapes(&device());
        }

        #[test]
        fn targets_on_both_sides_of_every_class_match_the_reference() {
            let device = device();
            for labels in device.capacity().class_limits() {
                if labels < 600 || wants_large() {
                    laws::a_target_of(&device, labels);
                    laws::a_target_of(&device, labels + 1);
                }
            }
        }

        #[test]
        fn targets_beyond_a_cube_match_the_reference() {
            let device = device();
            // Where rows are spread over a whole device no test holds the reference of one beyond.
            let beyond = (device.capacity().max_shared_labels + 1).min(2_500);
            if beyond < 2_100 || wants_large() {
                laws::a_target_of(&device, beyond);
            }
            let small = device.with_shared_memory(0);
            laws::a_target_of(&small, small.capacity().max_shared_labels * 5 / 2);
            laws::random_small_batches(&small, 20);
            laws::extreme_logits_at_length(&small, 300);
            laws::repeats_and_batching_change_no_bit(&small);
        }

        #[test]
        fn lanes_may_exchange_in_any_way() {
            for device in device().other_lanes() {
                laws::random_small_batches(&device, 30);
                laws::a_target_of(&device, 300);
                laws::exactly_feasible(&device);
                laws::nan_stays_in_its_row(&device);
                laws::repeats_and_batching_change_no_bit(&device);
                laws::extreme_logits_at_length(&device, 300);
                let small = device.with_shared_memory(0);
                laws::a_target_of(&small, small.capacity().max_shared_labels * 5 / 2);
                laws::extreme_logits_at_length(&small, 200);
            }
        }

        #[test]
        fn frames_that_outgrow_a_loop_go_in_segments() {
            let device = device().with_iterations(200);
            laws::random_batches_of(&device, 12, 700);
            laws::repeats_and_batching_change_no_bit(&device);
            // Two strips, each of them in two segments.
            let small = device.with_iterations(300).with_shared_memory(0);
            let shape =
                crate::cases::Draw { batch: 2, frames: 900, classes: 6, labels: 180, scale: 3.0 };
            laws::check(&small, &crate::cases::draw(1, shape));
        }

        #[test]
        fn rows_that_outgrow_a_buffer_go_in_groups() {
            laws::random_small_batches(&device().with_buffers_of(40_000), 40);
        }

        #[test]
        fn logits_may_be_of_16_bits() {
            for device in device().half_types() {
                laws::random_small_batches(&device, 40);
                laws::exactly_feasible(&device);
                laws::nan_stays_in_its_row(&device);
                laws::repeats_and_batching_change_no_bit(&device);
            }
        }

        #[test]
        fn factors_scale_rows_and_nothing_else() {
            device().factors_scale_rows();
        }

        #[test]
        fn exactly_feasible_rows_have_one_path_and_tighter_ones_none() {
            laws::exactly_feasible(&device());
        }

        #[test]
        fn extreme_logits_match_the_reference_at_length() {
            laws::extreme_logits_at_length(&device(), if wants_large() { 3000 } else { 900 });
        }

        #[test]
        fn empty_and_single_frames_are_legal() {
            laws::empty_and_single(&device());
        }

        #[test]
        fn a_needed_path_may_lie_any_distance_below_the_likeliest() {
            laws::a_needed_path_far_below_the_likeliest(&device());
        }

        #[test]
        fn precision_does_not_decay_with_length() {
            laws::precision_holds_for(&device(), 800);
            laws::precision_holds_for(&device(), 20_000);
        }

        #[test]
        fn a_nan_stays_in_its_row() {
            laws::nan_stays_in_its_row(&device());
        }

        #[test]
        fn repeats_and_batching_change_no_bit() {
            laws::repeats_and_batching_change_no_bit(&device());
        }

        #[test]
        fn what_does_not_fit_is_refused_by_name() {
            device().refuses_what_does_not_fit();
            device().refuses_long_targets_if_asked();
        }

        #[test]
        fn pytorchs_cases_are_met() {
            crate::goldens::are_met_by(&device());
        }
    };
}
pub(crate) use put_to_the_laws;
