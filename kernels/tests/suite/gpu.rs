//! The kernels under the laws, on whichever runtime a feature names. Instantiated by a
//! macro so that every runtime is put to all of them.

use crate::laws::Engine;
use asr_kernels::Problem;
use asr_kernels::gpu::{Capacity, CtcError, ctc};
use cubecl::prelude::*;

/// The kernels on one device.
pub struct Gpu {
    client: Client,
    capacity: Capacity,
}

impl Gpu {
    pub fn new(device: cubecl::Device) -> Self {
        let client = device.client();
        let capacity = Capacity::of(&client);
        assert!(
            capacity.max_shared_labels >= 254,
            "the classes below are meant to be tried: {capacity:?}"
        );
        Self { client, capacity }
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

    pub fn capacity(&self) -> Capacity {
        self.capacity
    }

    pub fn refuses_what_does_not_fit(&self) {
        let problem = Problem::new(300, 5, 0, vec![300], &[vec![1, 2]]).unwrap();
        let refusal = |elements: usize, capacity: &Capacity| {
            let logits = self.client.empty(elements * size_of::<f32>());
            ctc(&self.client, &logits, &problem, true, capacity).unwrap_err()
        };
        let CtcError::LogitsSize { want: 1500, .. } = refusal(100, &self.capacity) else {
            panic!("logits too short")
        };
        let small = Capacity { max_buffer_bytes: 10_000, ..self.capacity };
        let CtcError::TooLarge { words: 3600, limit: 2500, .. } = refusal(1500, &small) else {
            panic!("a lattice larger than a buffer")
        };
        let few = Capacity { max_cubes: (10, 10), ..self.capacity };
        let CtcError::TooManyCubes { frames: 300, .. } = refusal(1500, &few) else {
            panic!("more frames than cubes")
        };
        let short = Capacity { max_iterations: 300, ..self.capacity };
        let CtcError::FrameTooWide { labels: 2, .. } = refusal(1500, &short) else {
            panic!("loops shorter than a segment")
        };
    }

    fn floats(&self, handle: cubecl::server::Handle, len: usize) -> Vec<f32> {
        let bytes = self.client.read_one(handle).expect("the kernels ran");
        f32::from_bytes(&bytes)[..len].to_vec()
    }
}

impl Engine for Gpu {
    const LOSS: f64 = 5e-6;
    const GRAD: f64 = 2e-5;

    fn nll(&self, logits: &[f32], problem: &Problem) -> Vec<f32> {
        let padded = if logits.is_empty() { &[0.0] } else { logits };
        let logits = self.client.create_from_slice(f32::as_bytes(padded));
        let outputs = ctc(&self.client, &logits, problem, false, &self.capacity).expect("it fits");
        assert!(outputs.grad.is_none());
        self.floats(outputs.nll, problem.batch_size())
    }

    fn nll_and_grad(&self, logits: &[f32], problem: &Problem) -> (Vec<f32>, Vec<f32>) {
        let padded = if logits.is_empty() { &[0.0] } else { logits };
        let device_logits = self.client.create_from_slice(f32::as_bytes(padded));
        let outputs =
            ctc(&self.client, &device_logits, problem, true, &self.capacity).expect("it fits");
        let grad = outputs.grad.expect("it was wanted");
        (self.floats(outputs.nll, problem.batch_size()), self.floats(grad, logits.len()))
    }
}

/// Puts a device to every law; one that is not there fails.
macro_rules! put_to_the_laws {
    ($device:expr) => {
        use crate::gpu::Gpu;
        use crate::laws;

        fn device() -> Gpu {
            Gpu::new($device.expect("a device to test"))
        }

        #[test]
        fn random_small_batches_match_the_reference() {
            laws::random_small_batches(&device(), 150);
        }

        #[test]
        fn large_shapes_match_the_reference() {
            laws::large_shapes(&device());
        }

        #[test]
        fn targets_on_both_sides_of_every_class_match_the_reference() {
            let device = device();
            for labels in [62, 63, 254, 255, device.capacity().max_shared_labels] {
                laws::a_target_of(&device, labels);
            }
        }

        #[test]
        fn targets_beyond_shared_memory_match_the_reference() {
            let device = device();
            laws::a_target_of(&device, device.capacity().max_shared_labels + 1);
            let small = device.with_shared_memory(0);
            laws::a_target_of(&small, 70);
            laws::random_small_batches(&small, 40);
            laws::repeats_and_batching_change_no_bit(&small);
        }

        #[test]
        fn frames_that_outgrow_a_loop_go_in_segments() {
            let device = device().with_iterations(1000);
            laws::random_batches_of(&device, 20, 700);
            laws::repeats_and_batching_change_no_bit(&device);
        }

        #[test]
        fn rows_that_outgrow_a_buffer_go_in_groups() {
            laws::random_small_batches(&device().with_buffers_of(40_000), 40);
        }

        #[test]
        fn exactly_feasible_rows_have_one_path_and_tighter_ones_none() {
            laws::exactly_feasible(&device());
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
        }

        #[test]
        fn pytorchs_cases_are_met() {
            crate::goldens::are_met_by(&device());
        }
    };
}
pub(crate) use put_to_the_laws;
