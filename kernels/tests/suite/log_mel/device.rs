//! The kernels on whichever runtime a feature names, in every precision that it has.

use super::conventions::{Convention, espnet, kaldi, lhotse, nemo};
use super::signals::{extremes, noise};
use asr_kernels::log_mel::gpu::{LogMel, LogMelError, Precision};
use asr_kernels::log_mel::{Band, Edges, Normalize, Settings, Waveforms, reference};
use cubecl::prelude::*;

/// What is behind a row and must never be read.
const POISON: f32 = 1e6;

/// The amplitude of f32's rounding noise, as a share of a frame's loudest band.
const F32_LEVEL: f64 = 5e-7;

/// Features of one device.
pub struct Extractor {
    client: Client,
    precision: Precision,
}

/// One row's features.
type Frames = Vec<Vec<f32>>;

impl Extractor {
    /// One for each precision that the device has.
    pub fn all(device: cubecl::Device) -> Vec<Extractor> {
        let client = device.client();
        [Precision::Single, Precision::Double]
            .into_iter()
            .filter(|precision| precision.is_supported(&client))
            .map(|precision| Extractor { client: client.clone(), precision })
            .collect()
    }

    fn plan(&self, settings: &Settings) -> LogMel {
        LogMel::new(&self.client, settings, self.precision).unwrap()
    }

    fn run(&self, plan: &LogMel, samples: &[f32], waveforms: &Waveforms) -> Vec<Frames> {
        let given = if samples.is_empty() { &[0.0] } else { samples };
        let handle = self.client.create_from_slice(f32::as_bytes(given));
        let out = plan.compute(&handle, waveforms).unwrap();
        let bytes = self.client.read_one(out).unwrap();
        let num_mels = plan.settings().num_mels();
        let num_frames = waveforms.num_frames();
        let values = &f32::from_bytes(&bytes)[..waveforms.batch_size() * num_frames * num_mels];
        let row = |row: usize| {
            let frames = values[row * num_frames * num_mels..].chunks(num_mels);
            let frames: Frames = frames.take(num_frames).map(<[f32]>::to_vec).collect();
            let (valid, padding) = frames.split_at(waveforms.frame_lens()[row]);
            assert!(padding.iter().flatten().all(|x| x.to_bits() == 0), "padding is 0");
            valid.to_vec()
        };
        (0..waveforms.batch_size()).map(row).collect()
    }

    /// Features of signals in one batch, padded with what would show.
    fn batch(&self, convention: &Convention, signals: &[Vec<f32>]) -> Vec<Frames> {
        let plan = self.plan(&convention.settings);
        let longest = signals.iter().map(Vec::len).max().unwrap_or(0) + 3;
        let mut samples = vec![POISON; longest * signals.len()];
        for (row, signal) in samples.chunks_mut(longest).zip(signals) {
            row[..signal.len()].copy_from_slice(signal);
        }
        let lens: Vec<usize> = signals.iter().map(Vec::len).collect();
        let frame_lens = lens.iter().map(|len| convention.num_frames(*len)).collect();
        self.run(&plan, &samples, &Waveforms::padded(longest, lens, frame_lens).unwrap())
    }

    /// The largest distance of each signal's features to the reference, in units of what the precision is
    /// good for: the host's promise of 1e-4 in f64; in f32 as much, plus what rounding at the level of
    /// the frame's loudest band makes of a silent one. (Toolkits' own f32 is no better: the goldens'
    /// `f32_error` for a chirp is 7e-4 of NeMo's, whose guard hides most of it, and 0.035 of WeNet's.)
    fn distances(&self, convention: &Convention, signals: &[Vec<f32>]) -> Vec<f64> {
        let got = self.batch(convention, signals);
        let settings = &convention.settings;
        let of_frame = |(got, want): (&Vec<f32>, &Vec<f64>)| {
            let loudest = want.iter().copied().fold(f64::MIN, f64::max);
            let pairs = got.iter().zip(want);
            // A NaN must not pass for the lesser of two.
            pairs.fold(0.0, |worst: f64, (got, want)| {
                let distance = (f64::from(*got) - want).abs();
                let below = match (self.precision, settings.normalize) {
                    (Precision::Single, Normalize::None) => ((loudest - want) / 2.0).exp(),
                    _ => 0.0,
                };
                let distance = distance / (1e-4 + F32_LEVEL * below);
                if distance.is_nan() { f64::INFINITY } else { worst.max(distance) }
            })
        };
        let of_signal = |(got, signal): (&Frames, &Vec<f32>)| {
            let num_frames = convention.num_frames(signal.len());
            let want = reference::log_mel(settings, signal, num_frames);
            assert_eq!(got.len(), want.len());
            got.iter().zip(&want).map(of_frame).fold(0.0, f64::max)
        };
        got.iter().zip(signals).map(of_signal).collect()
    }

    pub fn extremes_match_the_reference(&self) {
        let (names, signals): (Vec<String>, Vec<Vec<f32>>) = extremes().into_iter().unzip();
        for convention in [nemo(80), nemo(128), kaldi(23), kaldi(80), lhotse(), espnet()] {
            let raw = convention.without_normalisation();
            let distances = self.distances(&raw, &signals);
            for (name, distance) in names.iter().zip(distances) {
                println!("{:?} {} {name}: {distance:.3}", self.precision, raw.name);
                assert!(distance < 1.0, "{} {name}: {distance}", raw.name);
            }
        }
    }

    pub fn normalised_features_match_the_reference(&self) {
        let signals: Vec<Vec<f32>> =
            (0..9).map(|seed| noise(seed, 1_000 + 2_500 * seed as usize, 0.5)).collect();
        for normalize in [Normalize::PerFeature, Normalize::Mean] {
            // Bands that fill no cube, and more than one.
            for num_mels in [1, 31, 80] {
                let mut convention = nemo(num_mels);
                convention.settings.normalize = normalize;
                for distance in self.distances(&convention, &signals) {
                    assert!(distance < 1.0, "{:?} {normalize:?}: {distance}", self.precision);
                }
            }
        }
        let silence = [vec![0.0; 16_000], vec![0.0; 160], vec![], vec![0.25; 160]];
        for frame in self.batch(&nemo(80), &silence).iter().flatten() {
            assert!(frame.iter().all(|x| *x == 0.0), "a constant band is 0: {frame:?}");
        }
    }

    /// Every length of a transform that fits, every edge, with signals shorter than a window.
    pub fn transforms_of_every_length_match_the_reference(&self) {
        let signals: Vec<Vec<f32>> =
            [0, 1, 2, 3, 17, 90, 700, 4_100].map(|len| noise(len as u64, len, 0.5)).into();
        let mut fitted = 0;
        for fft_len in [16, 32, 64, 128, 256, 512, 1024, 2048, 4096] {
            for edges in [Edges::Zeros, Edges::Reflect, Edges::Mirror] {
                let mut convention = if edges == Edges::Zeros { nemo(3) } else { kaldi(3) };
                let settings = &mut convention.settings;
                settings.window = noise(1, fft_len - 3, 1.0).into_iter().map(f64::from).collect();
                settings.fft_len = fft_len;
                settings.hop_len = fft_len / 3;
                settings.first_sample = -(fft_len as i32) / 2;
                settings.edges = edges;
                let all = noise(2, fft_len / 2 + 1, 1.0).into_iter().map(|x| f64::from(x.abs()));
                settings.bands = vec![
                    Band { first_bin: 0, weights: all.collect() },
                    Band { first_bin: fft_len / 2, weights: vec![1.0] },
                    Band { first_bin: 5, weights: vec![] },
                ];
                settings.normalize = Normalize::None;
                match LogMel::new(&self.client, &convention.settings, self.precision) {
                    Ok(_) => fitted += 1,
                    Err(LogMelError::TransformTooLong { .. }) if fft_len > 1024 => continue,
                    Err(err) => panic!("{err}"),
                }
                for distance in self.distances(&convention, &signals) {
                    assert!(distance < 1.0, "{fft_len} {edges:?}: {distance}");
                }
            }
        }
        assert!(fitted >= 21, "{fitted}");
    }

    pub fn repeats_batching_and_packing_change_no_bit(&self) {
        let lens = [12_345, 400, 0, 16_000, 161];
        let signals: Vec<Vec<f32>> = lens.map(|len| noise(len as u64, len, 0.3)).into();
        for convention in [nemo(80), lhotse()] {
            let together = self.batch(&convention, &signals);
            assert_eq!(together, self.batch(&convention, &signals));
            let frame_lens = lens.map(|len| convention.num_frames(len)).to_vec();
            let packed = Waveforms::packed(lens.to_vec(), frame_lens).unwrap();
            let plan = self.plan(&convention.settings);
            assert_eq!(together, self.run(&plan, &signals.concat(), &packed));
            let of_bucket = packed.with_num_frames(130).unwrap();
            assert_eq!(together, self.run(&plan, &signals.concat(), &of_bucket));
            for (signal, row) in signals.iter().zip(&together) {
                let alone = self.batch(&convention, std::slice::from_ref(signal));
                assert_eq!(&alone[0], row, "{} samples", signal.len());
            }
        }
        assert!(self.batch(&nemo(80), &[]).is_empty());
    }

    /// What is not finite counts as silence, what is absurd stays in range, and neither reaches
    /// another row.
    pub fn no_sample_makes_a_nan(&self) {
        let sound = noise(1, 2_000, 0.5);
        let mut broken = sound.clone();
        (broken[700], broken[900], broken[901]) = (f32::NAN, f32::INFINITY, f32::NEG_INFINITY);
        let absurd = noise(2, 2_000, f32::MAX);
        let mut silenced = broken.clone();
        silenced.iter_mut().filter(|x| !x.is_finite()).for_each(|x| *x = 0.0);
        for convention in [nemo(80), kaldi(80)] {
            let got = self.batch(
                &convention,
                &[broken.clone(), absurd.clone(), sound.clone(), silenced.clone()],
            );
            assert!(got.iter().flatten().flatten().all(|x| x.is_finite()));
            assert_eq!(got[0], got[3]);
            assert_eq!(got[2], self.batch(&convention, std::slice::from_ref(&sound))[0]);
        }
    }

    pub fn what_does_not_fit_is_refused_by_name(&self) {
        let plan = self.plan(&nemo(80).settings);
        let few = self.client.empty(4 * 100);
        let waveforms = Waveforms::packed(vec![50, 51], vec![0, 0]).unwrap();
        let refused = plan.compute(&few, &waveforms).unwrap_err();
        assert_eq!(refused, LogMelError::SamplesSize { want: 404, got: 400 });
        let long = Waveforms::packed(vec![100], vec![1 << 24]).unwrap();
        let refused = plan.compute(&few, &long).unwrap_err();
        assert!(matches!(refused, LogMelError::TooLarge { .. }), "{refused}");
        let many = Waveforms::packed(vec![100], vec![3_000_000]).unwrap();
        let narrow = self.plan(&nemo(1).settings);
        let refused = narrow.compute(&few, &many).unwrap_err();
        assert!(matches!(refused, LogMelError::TooManyIterations { .. }), "{refused}");
        let mut without = nemo(80).settings;
        without.fft_len = 400;
        let refused = LogMel::new(&self.client, &without, self.precision).err().unwrap();
        assert!(matches!(refused, LogMelError::Settings(_)), "{refused}");
    }
}

/// Puts a device to every law.
macro_rules! put_features_to_the_laws {
    ($device:expr) => {
        mod features {
            use crate::log_mel::device::Extractor;

            fn all() -> Vec<Extractor> {
                let all = Extractor::all($device.expect("a device to test"));
                assert!(!all.is_empty());
                all
            }

            #[test]
            fn extremes_match_the_reference() {
                all().iter().for_each(Extractor::extremes_match_the_reference);
            }

            #[test]
            fn normalised_features_match_the_reference() {
                all().iter().for_each(Extractor::normalised_features_match_the_reference);
            }

            #[test]
            fn transforms_of_every_length_match_the_reference() {
                all().iter().for_each(Extractor::transforms_of_every_length_match_the_reference);
            }

            #[test]
            fn repeats_batching_and_packing_change_no_bit() {
                all().iter().for_each(Extractor::repeats_batching_and_packing_change_no_bit);
            }

            #[test]
            fn no_sample_makes_a_nan() {
                all().iter().for_each(Extractor::no_sample_makes_a_nan);
            }

            #[test]
            fn what_does_not_fit_is_refused_by_name() {
                all().iter().for_each(Extractor::what_does_not_fit_is_refused_by_name);
            }
        }
    };
}
pub(crate) use put_features_to_the_laws;
