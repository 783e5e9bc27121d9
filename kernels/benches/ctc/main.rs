//! Checks the CTC paths against the f64 reference, then times them; one JSON line a measurement.
//!
//!     cargo bench -p asr-kernels [--features cuda,vulkan] -- [cpu|cuda|vulkan|wgpu] [REPEATS]
//!         [only=table,types,ragged,sweeps,changing,long] [lanes=plane,shared]
//!         [shapes=0,3] [json=FILE]
//!
//! `scripts/bench_ctc.py` sets the CPU's figures beside PyTorch's. The binary that
//! `cargo bench --no-run` builds runs by itself on another machine.

mod draw;
#[cfg(feature = "gpu")]
mod gpu;
mod report;

use asr_kernels::cpu;
use draw::{Batch, Shape, TABLE, draw};
use report::{Times, Type, errors};
use std::hint::black_box;
use std::time::Instant;

/// Of a small training step, which a CPU is timed on besides the table.
const SMALL: Shape = Shape::full(8, 200, 32, 40);

/// Milliseconds of `repeats` runs, after a few to warm up.
fn time<R>(repeats: usize, mut run: impl FnMut() -> R) -> Times {
    for _ in 0..repeats.div_ceil(10) {
        black_box(run());
    }
    let timed = |_| {
        let start = Instant::now();
        black_box(run());
        start.elapsed().as_secs_f64() * 1e3
    };
    Times::of((0..repeats).map(timed).collect())
}

fn bench_cpu(repeats: usize) {
    for shape in std::iter::once(SMALL).chain(TABLE) {
        let batch = draw(shape, Type::F32, 7);
        let Batch { logits, problem } = &batch;
        let (losses, grad) = cpu::nll_and_grad(logits, problem);
        let (loss_error, grad_error) = errors(&batch, &losses, &grad);
        assert!(
            loss_error < 2e-7 && grad_error < 2e-6,
            "wrong: {loss_error} {grad_error}; not timed"
        );
        for (work, times) in [
            ("nll", time(repeats, || cpu::nll(black_box(logits), problem))),
            ("nll_and_grad", time(repeats, || cpu::nll_and_grad(black_box(logits), problem))),
        ] {
            println!(
                "{{\"work\":\"{work}\",\"b\":{},\"t\":{},\"c\":{},\"u\":{},\
                 \"threads\":{},\"repeats\":{repeats},\"median_ms\":{:.4},\"p10_ms\":{:.4},\"p90_ms\":{:.4},\
                 \"loss_error\":{loss_error:.2e},\"grad_error\":{grad_error:.2e}}}",
                shape.batch,
                shape.frames,
                shape.classes,
                shape.labels,
                rayon::current_num_threads(),
                times.at(0.5),
                times.at(0.1),
                times.at(0.9),
            );
        }
    }
}

fn main() {
    // Cargo adds `--bench`.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    let repeats = args.iter().find_map(|arg| arg.parse().ok()).unwrap_or(100);
    let is_device = |arg: &&String| ["cpu", "cuda", "vulkan", "wgpu"].contains(&arg.as_str());
    match args.iter().find(is_device).map_or("cpu", String::as_str) {
        "cpu" => bench_cpu(repeats),
        #[cfg(feature = "gpu")]
        device => {
            let only = args.iter().find_map(|arg| arg.strip_prefix("only="));
            let lanes = args.iter().find_map(|arg| arg.strip_prefix("lanes="));
            let shapes = args.iter().find_map(|arg| arg.strip_prefix("shapes="));
            let json = args.iter().find_map(|arg| arg.strip_prefix("json="));
            gpu::bench(device, repeats, only, lanes, shapes, json);
        }
        #[cfg(not(feature = "gpu"))]
        device => {
            eprintln!("{device} needs a build with --features {device}");
            std::process::exit(2);
        }
    }
}
