//! The kernels on a device. Times are the host's, from the call until the device is idle
//! (`sync_ms`), a call's share of many queued at once (`queued_ms`), and the device's own (`device_ms`).

use crate::draw::{Batch, Shape, TABLE, draw};
use crate::report::{Times, Type, errors};
use asr_kernels::gpu::{Capacity, Gradient, Lanes, LogitsType, Outputs, ctc};
use cubecl::MemoryScope;
use cubecl::prelude::*;
use cubecl::server::Handle;
use half::{bf16, f16};
use std::fs::File;
use std::io::Write;
use std::time::{Instant, SystemTime};

/// Calls queued before the device is waited for.
const QUEUED: usize = 20;
/// What the floor assumes: memory's speed, and a step of the chain.
const FLOOR_BYTES_PER_MS: f64 = 4.3e9;
const FLOOR_STEP_MS: f64 = 1e-4;

struct Device {
    runtime: String,
    name: String,
    file: Option<File>,
    client: Client,
    capacity: Capacity,
}

fn logits_type(dtype: Type) -> LogitsType {
    match dtype {
        Type::F32 => LogitsType::F32,
        Type::F16 => LogitsType::F16,
        Type::Bf16 => LogitsType::Bf16,
    }
}

impl Device {
    fn open(name: &str) -> Result<Self, String> {
        let device = match name {
            "cuda" => cubecl::Device::cuda(0),
            "vulkan" => cubecl::Device::vulkan(Default::default()),
            _ => cubecl::Device::wgpu(Default::default()),
        }
        .map_err(|err| err.to_string())?;
        let client = device.client();
        let capacity = Capacity::of(&client);
        let runtime = client.name().to_owned();
        let name = client.properties().identity.name.to_string();
        Ok(Self { runtime, name, file: None, client, capacity })
    }

    /// Prints a line, and adds it to the file at once: a run cut short keeps what it has.
    fn report(&self, line: String) {
        println!("{line}");
        if let Some(mut file) = self.file.as_ref()
            && let Err(err) = writeln!(file, "{line}")
        {
            eprintln!("the measurement is not in the file: {err}");
        }
    }

    /// Reports to a file of JSON lines too, the first of which says what and where.
    fn write_to(&mut self, path: &str) {
        match File::create(path) {
            Ok(file) => self.file = Some(file),
            Err(err) => eprintln!("{path}: {err}"),
        }
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        self.report(format!(
            "{{\"made_by\":\"cargo bench -p asr-kernels --bench ctc\",\"runtime\":\"{}\",\"device\":\"{}\",\"unix_time\":{}}}",
            self.runtime,
            self.name,
            since.map_or(0, |since| since.as_secs()),
        ));
    }

    fn sync(&self) {
        cubecl::future::block_on(self.client.sync()).expect("the device is well");
    }

    fn upload(&self, logits: &[f32], dtype: Type) -> Handle {
        match dtype {
            Type::F32 => self.client.create_from_slice(f32::as_bytes(logits)),
            Type::F16 => {
                let halves: Vec<f16> = logits.iter().map(|x| f16::from_f32(*x)).collect();
                self.client.create_from_slice(f16::as_bytes(&halves))
            }
            Type::Bf16 => {
                let halves: Vec<bf16> = logits.iter().map(|x| bf16::from_f32(*x)).collect();
                self.client.create_from_slice(bf16::as_bytes(&halves))
            }
        }
    }

    fn download(&self, handle: Handle, dtype: Type, len: usize) -> Vec<f32> {
        let bytes = self.client.read_one(handle).expect("the kernels ran");
        match dtype {
            Type::F32 => f32::from_bytes(&bytes)[..len].to_vec(),
            Type::F16 => f16::from_bytes(&bytes)[..len].iter().map(|x| x.to_f32()).collect(),
            Type::Bf16 => bf16::from_bytes(&bytes)[..len].iter().map(|x| x.to_f32()).collect(),
        }
    }

    fn run(&self, logits: &Handle, dtype: Type, batch: &Batch, gradient: Gradient) -> Outputs {
        ctc(&self.client, logits, logits_type(dtype), &batch.problem, gradient, &self.capacity)
            .expect("it fits")
    }

    /// What the device has given to this process's pools, which keep it.
    fn bytes_reserved(&self) -> u64 {
        let report = self.client.memory_report(MemoryScope::Device);
        report.streams.iter().map(|stream| stream.pools.usage().bytes_reserved).sum()
    }

    /// Checks a shape, then times it.
    fn measure(&self, section: &str, shape: Shape, dtype: Type, repeats: usize) {
        let batch = draw(shape, dtype, 7);
        let num_logits = batch.problem.num_logits();
        let logits = self.upload(&batch.logits, dtype);
        self.sync();
        let before = self.bytes_reserved();
        let first = Instant::now();
        let outputs = self.run(&logits, dtype, &batch, Gradient::Plain);
        self.sync();
        let first_ms = first.elapsed().as_secs_f64() * 1e3;
        let taken = self.bytes_reserved() - before;
        let losses = self.download(outputs.nll, Type::F32, shape.batch);
        let grad = self.download(outputs.grad.expect("it was wanted"), dtype, num_logits);
        let (loss_error, grad_error) = errors(&batch, &losses, &grad);
        let is_right = loss_error < 1e-5 && grad_error < 1e-4 + dtype.rounding();

        let sync_ms = crate::time(repeats, || {
            self.run(&logits, dtype, &batch, Gradient::Plain);
            self.sync();
        });
        let queued: Vec<f64> = (0..repeats.div_ceil(10))
            .map(|_| {
                let start = Instant::now();
                for _ in 0..QUEUED {
                    self.run(&logits, dtype, &batch, Gradient::Plain);
                }
                self.sync();
                start.elapsed().as_secs_f64() * 1e3 / QUEUED as f64
            })
            .collect();
        let nll_ms = crate::time(repeats, || {
            self.run(&logits, dtype, &batch, Gradient::None);
            self.sync();
        });
        let device: Vec<f64> = (0..repeats)
            .filter_map(|_| {
                let work = || self.run(&logits, dtype, &batch, Gradient::Plain);
                let (_, ticks) = self.client.profile(work, "ctc").ok()?;
                let ticks = cubecl::future::block_on(ticks.into_future())?;
                Some(ticks.duration().as_secs_f64() * 1e3)
            })
            .collect();
        let passes = 3.0 * (num_logits * logits_type(dtype).bytes()) as f64;
        let floor_ms = passes / FLOOR_BYTES_PER_MS + shape.frames as f64 * FLOOR_STEP_MS;
        let pairs = shape.labels + 1;
        let lattice = shape.batch * shape.frames * (2 * shape.labels + 1) * 4;
        let emissions = shape.batch * shape.frames * pairs * 8;
        self.report(format!(
            "{{\"section\":\"{section}\",\"device\":\"{}\",\"class\":\"{}\",\"dtype\":\"{dtype:?}\",\"b\":{},\"t\":{},\"c\":{},\"u\":{},\"ragged\":{},\
             \"sync_ms\":{:.4},\"sync_p10_ms\":{:.4},\"sync_p90_ms\":{:.4},\"queued_ms\":{:.4},\"device_ms\":{},\"nll_only_ms\":{:.4},\
             \"first_ms\":{first_ms:.1},\"floor_ms\":{floor_ms:.4},\"taken_bytes\":{taken},\"lattice_bytes\":{lattice},\"emission_bytes\":{emissions},\
             \"loss_error\":{loss_error:.2e},\"grad_error\":{grad_error:.2e},\"right\":{is_right}}}",
            self.name,
            self.capacity.class_name(batch.problem.max_label_len()),
            shape.batch,
            shape.frames,
            shape.classes,
            shape.labels,
            shape.is_ragged,
            sync_ms.at(0.5),
            sync_ms.at(0.1),
            sync_ms.at(0.9),
            Times::of(queued).at(0.5),
            if device.is_empty() { "null".into() } else { format!("{:.4}", Times::of(device).at(0.5)) },
            nll_ms.at(0.5),
        ));
    }

    /// A run whose longest target changes every step: nothing may be compiled again within a class.
    fn changing(&self) {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut firsts: Vec<(String, f64)> = Vec::new();
        let mut others = Vec::new();
        for _ in 0..100 {
            let labels = rng.usize(20..400);
            let batch = draw(Shape::full(16, 800, 64, labels), Type::F32, labels as u64);
            let logits = self.upload(&batch.logits, Type::F32);
            self.sync();
            let start = Instant::now();
            self.run(&logits, Type::F32, &batch, Gradient::Plain);
            self.sync();
            let ms = start.elapsed().as_secs_f64() * 1e3;
            let class = self.capacity.class_name(labels);
            if firsts.iter().any(|(name, _)| *name == class) {
                others.push(ms);
            } else {
                firsts.push((class, ms));
            }
        }
        let firsts: Vec<String> =
            firsts.iter().map(|(class, ms)| format!("\"{class}\":{ms:.1}")).collect();
        let times = Times::of(others);
        self.report(format!(
            "{{\"section\":\"changing\",\"device\":\"{}\",\"steps\":100,\"first_of_class_ms\":{{{}}},\"median_ms\":{:.4},\"max_ms\":{:.4}}}",
            self.name,
            firsts.join(","),
            times.at(0.5),
            times.at(1.0),
        ));
    }
}

/// Runs the sections that `only` names, or all.
pub fn bench(
    device: &str,
    repeats: usize,
    only: Option<&str>,
    lanes: Option<&str>,
    shapes: Option<&str>,
    json: Option<&str>,
) {
    let mut device = match Device::open(device) {
        Ok(device) => device,
        Err(err) => {
            eprintln!("{device}: {err}");
            std::process::exit(2);
        }
    };
    let plane = device.client.properties().hardware.plane_size_max as usize;
    match lanes {
        Some("plane") => device.capacity = device.capacity.with_lanes(Lanes::Plane(plane)),
        Some("shared") => device.capacity = device.capacity.with_lanes(Lanes::Shared),
        _ => {}
    }
    if let Some(path) = json {
        device.write_to(path);
    }
    eprintln!("{:?}", device.capacity);
    let wants = |section: &str| only.is_none_or(|only| only.split(',').any(|one| one == section));
    if wants("table") {
        for (i, shape) in TABLE.into_iter().enumerate() {
            if shapes.is_none_or(|shapes| shapes.split(',').any(|one| one == i.to_string())) {
                device.measure("table", shape, Type::F32, repeats);
            }
        }
    }
    if wants("types") {
        for dtype in [Type::Bf16, Type::F16] {
            if logits_type(dtype).is_supported(&device.client) {
                for shape in TABLE {
                    device.measure("types", shape, dtype, repeats);
                }
            } else {
                eprintln!("{dtype:?} is not supported here");
            }
        }
    }
    if wants("ragged") {
        for shape in TABLE {
            device.measure("ragged", shape.ragged(), Type::F32, repeats);
        }
    }
    if wants("changing") {
        device.changing();
    }
    if wants("sweeps") {
        let few = repeats.div_ceil(4);
        for frames in [125, 250, 500, 1000, 2000, 4000] {
            device.measure("sweep_t", Shape::full(16, frames, 64, 60), Type::F32, few);
        }
        for labels in [10, 50, 100, 200, 400, 800, 1600, 3200] {
            device.measure("sweep_s", Shape::full(4, 4000, 64, labels), Type::F32, few);
        }
        for classes in [32, 100, 1024, 1025, 4096, 10_000] {
            device.measure("sweep_c", Shape::full(8, 500, classes, 60), Type::F32, few);
        }
        for batch in [1, 8, 64, 256] {
            device.measure("sweep_b", Shape::full(batch, 500, 64, 60), Type::F32, few);
        }
    }
    if wants("long") {
        device.measure("long", Shape::full(1, 20_000, 32, 3000), Type::F32, 5);
        device.measure("long", Shape::full(1, 14_000, 32, 12_000), Type::F32, 5);
        // The bar's own shape cannot be spelt: 12,000 labels in 4,000 frames.
        device.measure("long", Shape::full(1, 4000, 32, 12_000), Type::F32, 5);
    }
}
