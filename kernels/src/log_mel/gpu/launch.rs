//! Plans, checks, allocates and launches.

use super::error::LogMelError;
use super::frames::{FrameClass, ROW_WORDS, ShapeLaunch, log_mels};
use super::normalize::{BANDS, normalize};
use super::signal::Reading;
use crate::log_mel::{Normalize, PreemphasisOver, Settings, Waveforms};
use cubecl::ir::{ElemType, FloatKind};
use cubecl::prelude::*;
use cubecl::server::Handle;
use std::f64::consts::TAU;

/// Units that a cube has at least, in frames of short transforms.
const LEAST_UNITS: usize = 64;
/// Units of the cube that normalises, at most.
const NORMALIZE_UNITS: usize = 512;
/// Loop iterations that one unit of one launch may make: Mesa's llvmpipe ends a shader silently after
/// 65,535.
const MAX_ITERATIONS: usize = 60_000;

/// What signal, transform and the sums of the normalisation are computed in. Logarithms are f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// f32, as toolkits' own features on a GPU. Beside a loud tone a silent band's logarithm is off
    /// by up to 1e-3 or so.
    Single,
    /// f64, where the device has it: what the host computes.
    Double,
}

impl Precision {
    /// The best that a device has.
    pub fn of(client: &Client) -> Precision {
        if Precision::Double.is_supported(client) { Precision::Double } else { Precision::Single }
    }

    /// Whether a device computes in it.
    pub fn is_supported(self, client: &Client) -> bool {
        client.properties().supports_type(self.elem())
    }

    fn elem(self) -> ElemType {
        ElemType::Float(match self {
            Precision::Single => FloatKind::F32,
            Precision::Double => FloatKind::F64,
        })
    }

    fn bytes(self) -> usize {
        match self {
            Precision::Single => 4,
            Precision::Double => 8,
        }
    }

    fn upload(self, client: &Client, values: &[f64]) -> Handle {
        match self {
            Precision::Single => {
                let rounded: Vec<f32> = values.iter().map(|x| *x as f32).collect();
                client.create_from_slice(f32::as_bytes(&rounded))
            }
            Precision::Double => client.create_from_slice(f64::as_bytes(values)),
        }
    }
}

/// A log-mel on one device: its tables are uploaded once.
pub struct LogMel {
    client: Client,
    settings: Settings,
    precision: Precision,
    class: FrameClass,
    groups: usize,
    tables: Handle,
    num_tables: usize,
    bands: Handle,
    num_bands: usize,
    weights: Handle,
    num_weights: usize,
}

/// A buffer of so many elements.
fn buffer(handle: &Handle, len: usize) -> BufferArg {
    // SAFETY: every caller passes the length that the buffer was allocated with.
    unsafe { BufferArg::from_raw_parts(handle.clone(), len) }
}

impl LogMel {
    /// Plans features on a device.
    ///
    /// # Errors
    /// When settings have no meaning or the device cannot take them.
    pub fn new(
        client: &Client,
        settings: &Settings,
        precision: Precision,
    ) -> Result<LogMel, LogMelError> {
        settings.validate()?;
        if !precision.is_supported(client) {
            return Err(LogMelError::UnsupportedPrecision { precision });
        }
        let over = settings.preemphasis_over;
        let is_filtered = settings.preemphasis != 0.0;
        let class = FrameClass {
            fft_len: settings.fft_len,
            frames: 1,
            reading: Reading {
                edges: settings.edges,
                is_emphasised: is_filtered && over == PreemphasisOver::Signal,
            },
            remove_dc: settings.remove_dc,
            filters_frames: is_filtered && over == PreemphasisOver::Frame,
        };
        let class = FrameClass { frames: (LEAST_UNITS / class.lanes()).max(1), ..class };
        check_class(client, class, precision)?;
        check_bands(settings, class)?;

        let tables = tables(settings);
        let (bands, weights) = packed_bands(settings);
        Ok(LogMel {
            client: client.clone(),
            settings: settings.clone(),
            precision,
            class,
            groups: 1 << (max_units(client).min(NORMALIZE_UNITS) / BANDS).max(1).ilog2(),
            num_tables: tables.len(),
            tables: precision.upload(client, &tables),
            num_bands: bands.len(),
            bands: client.create_from_slice(u32::as_bytes(&bands)),
            num_weights: weights.len(),
            weights: client.create_from_slice(f32::as_bytes(&weights)),
        })
    }

    /// The same with so many frames in a cube, for measuring.
    ///
    /// # Errors
    /// When a cube does not hold them.
    pub fn with_frames_per_cube(mut self, frames: usize) -> Result<LogMel, LogMelError> {
        self.class.frames = frames.max(1);
        check_class(&self.client, self.class, self.precision)?;
        Ok(self)
    }

    /// Frames in a cube.
    pub fn frames_per_cube(&self) -> usize {
        self.class.frames
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The features `[B, T, F]` of `samples` in f32, T being [`Waveforms::num_frames`]; what lies past a
    /// row's frames is 0. Queues the work and returns; what the device later reports surfaces where
    /// the result is read. A sample that is not finite counts as 0.
    ///
    /// # Errors
    /// When the buffer is not of the batch's size or sizes exceed what the device takes.
    pub fn compute(&self, samples: &Handle, waveforms: &Waveforms) -> Result<Handle, LogMelError> {
        self.check(samples, waveforms)?;
        let num_values = self.num_values(waveforms);
        let out = self.client.empty(4 * num_values.max(1));
        if num_values == 0 {
            return Ok(out);
        }
        let rows = self.client.create_from_slice(u32::as_bytes(&packed_rows(waveforms)));
        let num_frames = waveforms.num_frames();
        let hardware = &self.client.properties().hardware;
        let (max_x, max_y) =
            (hardware.max_cube_count.0 as usize, hardware.max_cube_count.1 as usize);
        for first_row in (0..waveforms.batch_size()).step_by(max_y) {
            let num_rows = (waveforms.batch_size() - first_row).min(max_y) as u32;
            let cubes = num_frames.div_ceil(self.class.frames);
            for first_cube in (0..cubes).step_by(max_x) {
                let first_frame = first_cube * self.class.frames;
                let num_cubes = (cubes - first_cube).min(max_x) as u32;
                // SAFETY: for this and the launch below, every index that a kernel forms is within
                // the buffers: of samples by `Waveforms`, of the rest by their sizes here.
                unsafe {
                    log_mels::launch_unchecked(
                        &self.client,
                        CubeCount::Static(num_cubes, num_rows, 1),
                        CubeDim::new_1d(self.class.units() as u32),
                        buffer(samples, waveforms.buffer_len().max(1)),
                        buffer(&rows, waveforms.batch_size() * ROW_WORDS),
                        buffer(&self.tables, self.num_tables),
                        buffer(&self.bands, self.num_bands),
                        buffer(&self.weights, self.num_weights),
                        buffer(&out, num_values),
                        self.shape(first_row, first_frame, num_frames),
                        self.class,
                        self.precision.elem(),
                    );
                }
            }
            if self.settings.normalize != Normalize::None {
                let num_cubes = self.settings.num_mels().div_ceil(BANDS) as u32;
                unsafe {
                    normalize::launch_unchecked(
                        &self.client,
                        CubeCount::Static(num_cubes, num_rows, 1),
                        CubeDim::new_1d((self.groups * BANDS) as u32),
                        buffer(&rows, waveforms.batch_size() * ROW_WORDS),
                        buffer(&out, num_values),
                        self.shape(first_row, 0, num_frames),
                        self.groups,
                        self.settings.normalize == Normalize::PerFeature,
                        self.precision.elem(),
                    );
                }
            }
        }
        Ok(out)
    }

    fn num_values(&self, waveforms: &Waveforms) -> usize {
        waveforms.batch_size() * waveforms.num_frames() * self.settings.num_mels()
    }

    fn shape(&self, first_row: usize, first_frame: usize, num_frames: usize) -> ShapeLaunch {
        let settings = &self.settings;
        ShapeLaunch::new(
            first_row as u32,
            first_frame as u32,
            num_frames as u32,
            settings.num_mels() as u32,
            settings.window.len() as u32,
            settings.hop_len as u32,
            settings.first_sample,
            settings.log_guard as f32,
            settings.log_floor as f32,
            settings.log_factor as f32,
        )
    }

    fn check(&self, samples: &Handle, waveforms: &Waveforms) -> Result<(), LogMelError> {
        let want = 4 * waveforms.buffer_len().max(1);
        if samples.size_in_used() < want as u64 {
            return Err(LogMelError::SamplesSize { want, got: samples.size_in_used() });
        }
        // Indices count values in 31 bits, here as in the signal that frames lie on.
        let page = usize::try_from(self.client.properties().memory.max_page_size);
        let limit = page.unwrap_or(usize::MAX).min(4 * i32::MAX as usize);
        let num_frames = waveforms.num_frames();
        let reach = (num_frames + 1).saturating_mul(self.settings.hop_len).saturating_add(1 << 21);
        for (what, values) in [
            ("the features of a batch", self.num_values(waveforms)),
            ("the signal under a row's frames", reach),
        ] {
            let bytes = values.saturating_mul(4);
            let limit = if values == reach { 4 * i32::MAX as usize } else { limit };
            if bytes > limit {
                return Err(LogMelError::TooLarge { what, bytes, limit });
            }
        }
        let iterations = num_frames.div_ceil(self.groups);
        let is_normalised = self.settings.normalize != Normalize::None;
        if is_normalised && iterations > MAX_ITERATIONS {
            let (what, limit) = ("normalising the longest utterance", MAX_ITERATIONS);
            return Err(LogMelError::TooManyIterations { what, iterations, limit });
        }
        Ok(())
    }
}

/// Units of a cube.
fn max_units(client: &Client) -> usize {
    let hardware = &client.properties().hardware;
    hardware.max_units_per_cube.min(hardware.max_cube_dim.0) as usize
}

/// Whether a cube of the device holds a class.
fn check_class(
    client: &Client,
    class: FrameClass,
    precision: Precision,
) -> Result<(), LogMelError> {
    let (max_units, units) = (max_units(client), class.units());
    let max_bytes = client.properties().hardware.max_shared_memory_size;
    let bytes = class.shared_bytes(precision.bytes());
    if units > max_units || bytes > max_bytes {
        let fft_len = class.fft_len;
        return Err(LogMelError::TransformTooLong { fft_len, units, bytes, max_units, max_bytes });
    }
    Ok(())
}

/// A lane's loops over its bands and their bins, the longest.
fn check_bands(settings: &Settings, class: FrameClass) -> Result<(), LogMelError> {
    let of_lane = |lane: usize| -> usize {
        let own = settings.bands.iter().skip(lane).step_by(class.lanes());
        own.map(|band| 1 + band.weights.len()).sum()
    };
    let iterations = (0..class.lanes()).map(of_lane).max().unwrap_or(0);
    if iterations > MAX_ITERATIONS {
        let (what, limit) = ("a frame's mel bands", MAX_ITERATIONS);
        return Err(LogMelError::TooManyIterations { what, iterations, limit });
    }
    Ok(())
}

/// The filter's coefficient, the window, cosine and negative sine of every turn.
fn tables(settings: &Settings) -> Vec<f64> {
    let fft_len = settings.fft_len;
    let mut tables = vec![settings.preemphasis];
    tables.extend(&settings.window);
    tables.resize(1 + fft_len, 0.0);
    let angle = |turn: usize| TAU * turn as f64 / fft_len as f64;
    tables.extend((0..fft_len).map(|turn| angle(turn).cos()));
    tables.extend((0..fft_len).map(|turn| -angle(turn).sin()));
    tables
}

/// First bin, bins and first weight of each band, and all weights; at least one of those.
fn packed_bands(settings: &Settings) -> (Vec<u32>, Vec<f32>) {
    let (mut bands, mut weights) = (Vec::new(), Vec::new());
    for band in &settings.bands {
        bands.extend([band.first_bin, band.weights.len(), weights.len()].map(|x| x as u32));
        weights.extend(band.weights.iter().map(|w| *w as f32));
    }
    weights.resize(weights.len().max(1), 0.0);
    (bands, weights)
}

/// First sample, samples and frames of each row.
fn packed_rows(waveforms: &Waveforms) -> Vec<u32> {
    let lens = waveforms.sample_lens().iter().zip(waveforms.frame_lens());
    let rows = waveforms.starts().iter().zip(lens);
    rows.flat_map(|(start, (samples, frames))| [*start, *samples, *frames].map(|x| x as u32))
        .collect()
}
