//! Settings against what the manifests claim of the recordings, before any is read: hours of decoding should
//! not end in a batch that was too short from the start. Claims are rounded, so only what no rounding
//! explains is refused here.

use super::PrepareError;
use crate::config::RunConfig;
use crate::data::survey::least_duration_s;
use crate::data::{DurationMismatch, Padding, Sampler, Utterance};
use crate::schedule::Schedule;

/// Refuses settings that cannot fit the training set, going by what its manifests claim: a batch that is
/// too short for an utterance, a warm-up longer than the run. What they do not claim is judged when the
/// recordings are known.
///
/// # Errors
///
/// [`crate::data::DataError::LongerThanBatch`] or [`PrepareError::Schedule`].
pub fn refuse_hopeless(config: &RunConfig, train: &[Utterance]) -> Result<(), PrepareError> {
    let (data, rate_hz) = (&config.data, f64::from(config.features.sample_rate_hz));
    let mut claimed: Vec<(f64, &Utterance)> = Vec::with_capacity(train.len());
    let mut is_all_claimed = true;
    for utterance in train {
        match utterance.duration_s() {
            Some(duration_s)
                if (data.min_duration_s..=data.max_duration_s).contains(&duration_s) =>
            {
                claimed.push((duration_s, utterance));
            }
            Some(_) => {}
            None => is_all_claimed = false,
        }
    }
    let sampler = |duration_s: fn(f64) -> f64| {
        Sampler::of_lengths(
            claimed.iter().map(|(s, _)| (duration_s(*s) * rate_hz) as u32).collect(),
            data,
            &config.features,
            data.speeds.clone(),
            config.train.seed,
            Padding::Bucket,
            |index| claimed[index].1.id().to_owned(),
        )
    };
    let mut batches = train.len();
    if !claimed.is_empty() {
        let is_binding = data.duration_mismatch == DurationMismatch::Error;
        match sampler(std::convert::identity) {
            Ok(sampler) if is_all_claimed && is_binding => {
                batches = sampler.batches_per_epoch().min(batches)
            }
            Ok(_) => {}
            // Claims are rounded: what is too long by a little may fit.
            Err(error) if is_binding && sampler(least_duration_s).is_err() => {
                return Err(error.into());
            }
            Err(_) => {}
        }
    }
    let bound = batches + batches / 10 + data.num_buckets;
    let peak = config.optim.learning_rate;
    if Schedule::new(&config.schedule, peak, config.total_steps(bound)).is_err() {
        // The message counts the steps as they are expected.
        Schedule::new(&config.schedule, peak, config.total_steps(batches))?;
    }
    Ok(())
}
