//! The learning rate of every step: linear warm-up, then cosine decay or a constant.
//!
//! A pure function of the step, counted from 0, so that a resumed run continues on the same curve
//! with nothing to restore. Refuses a warm-up longer than the run. Cosine decay: Loshchilov and
//! Hutter, "SGDR", ICLR 2017, without restarts.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// What follows the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScheduleKind {
    /// Half a cosine wave from the peak down to `min_lr_ratio` of it.
    #[default]
    Cosine,
    /// The peak until the end.
    Constant,
}

/// The shape of the learning rate over a run. Its peak is the optimiser's `learning_rate`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScheduleConfig {
    /// What follows the warm-up.
    pub kind: ScheduleKind,
    /// Optimiser steps over which the rate rises to its peak; 0 starts at the peak.
    pub warmup_steps: usize,
    /// The last step's rate as a share of the peak, 0 to 1. A constant schedule ignores it.
    pub min_lr_ratio: f64,
}

impl Default for ScheduleConfig {
    fn default() -> Self {
        Self { kind: ScheduleKind::Cosine, warmup_steps: 100, min_lr_ratio: 0.01 }
    }
}

/// Why a schedule cannot be built.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ScheduleError {
    /// The run ends before the peak.
    #[error(
        "schedule.warmup_steps = {warmup_steps} is longer than the run of {total_steps} steps, which would end before its peak learning rate; lower it or train longer"
    )]
    WarmupTooLong {
        /// As configured.
        warmup_steps: usize,
        /// Steps of the run.
        total_steps: usize,
    },
    /// A ratio outside 0 to 1.
    #[error(
        "schedule.min_lr_ratio = {0} must lie between 0 and 1: it is the last learning rate as a share of the peak"
    )]
    RatioOutOfRange(f64),
    /// A peak that cannot train.
    #[error("optim.learning_rate = {0} must be finite and above 0")]
    PeakOutOfRange(f64),
}

/// A checked schedule for a run of known length.
#[derive(Clone, Debug, PartialEq)]
pub struct Schedule {
    config: ScheduleConfig,
    peak: f64,
    total_steps: usize,
}

impl Schedule {
    /// Checks the numbers once, so that [`Schedule::learning_rate`] cannot fail.
    ///
    /// # Errors
    /// When the warm-up outlasts the run, the ratio lies outside 0 to 1 (NaN included) or the peak
    /// is not positive.
    pub fn new(
        config: &ScheduleConfig,
        peak: f64,
        total_steps: usize,
    ) -> Result<Self, ScheduleError> {
        if !(peak.is_finite() && peak > 0.0) {
            return Err(ScheduleError::PeakOutOfRange(peak));
        }
        if !(0.0..=1.0).contains(&config.min_lr_ratio) {
            return Err(ScheduleError::RatioOutOfRange(config.min_lr_ratio));
        }
        let warmup_steps = config.warmup_steps;
        if warmup_steps > total_steps {
            return Err(ScheduleError::WarmupTooLong { warmup_steps, total_steps });
        }
        Ok(Self { config: config.clone(), peak, total_steps })
    }

    /// The learning rate of optimiser step `step`, the first being 0.
    ///
    /// Step `warmup_steps - 1` (or 0) has the peak; step `total_steps - 1` and all after it have
    /// the minimum. A run that is all warm-up ends at its peak.
    pub fn learning_rate(&self, step: usize) -> f64 {
        let ScheduleConfig { kind, warmup_steps, min_lr_ratio } = self.config;
        // The first step already learns: a rate of 0 would waste it.
        if step + 1 < warmup_steps {
            return self.peak * (step + 1) as f64 / warmup_steps as f64;
        }
        match kind {
            ScheduleKind::Constant => self.peak,
            ScheduleKind::Cosine => {
                let peak_step = warmup_steps.saturating_sub(1);
                let decay_steps = self.total_steps.saturating_sub(1 + peak_step);
                if step == peak_step {
                    return self.peak;
                }
                let done = ((step - peak_step) as f64 / decay_steps.max(1) as f64).min(1.0);
                let share = 0.5 * (1.0 + (PI * done).cos());
                self.peak * (min_lr_ratio + (1.0 - min_lr_ratio) * share)
            }
        }
    }

    /// Steps of the run.
    pub fn total_steps(&self) -> usize {
        self.total_steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(kind: ScheduleKind, warmup_steps: usize, total_steps: usize) -> Schedule {
        let config = ScheduleConfig { kind, warmup_steps, min_lr_ratio: 0.1 };
        Schedule::new(&config, 2e-3, total_steps).unwrap()
    }

    #[test]
    fn the_rate_rises_evenly_to_its_peak_then_falls_to_the_minimum() {
        let cosine = schedule(ScheduleKind::Cosine, 4, 11);
        let rates: Vec<f64> = (0..11).map(|step| cosine.learning_rate(step)).collect();
        assert_eq!(rates[..4], [0.5e-3, 1e-3, 1.5e-3, 2e-3]);
        assert!(rates[3..].windows(2).all(|pair| pair[1] < pair[0]));
        assert!((rates[10] - 2e-4).abs() < 1e-18);
        assert_eq!(cosine.learning_rate(11), rates[10]);
        assert_eq!(cosine.learning_rate(1_000_000), rates[10]);
    }

    #[test]
    fn half_way_down_lies_midway_between_peak_and_minimum() {
        let cosine = schedule(ScheduleKind::Cosine, 1, 101);
        assert!((cosine.learning_rate(50) - (2e-3 + 2e-4) / 2.0).abs() < 1e-15);
    }

    #[test]
    fn a_constant_schedule_keeps_its_peak() {
        let constant = schedule(ScheduleKind::Constant, 2, 10);
        assert_eq!(constant.learning_rate(0), 1e-3);
        assert!((1..20).all(|step| constant.learning_rate(step) == 2e-3));
    }

    #[test]
    fn every_legal_shape_stays_between_zero_and_the_peak_and_reaches_it() {
        for kind in [ScheduleKind::Cosine, ScheduleKind::Constant] {
            for total_steps in 1..20 {
                for warmup_steps in 0..=total_steps {
                    let schedule = schedule(kind, warmup_steps, total_steps);
                    let rates: Vec<f64> =
                        (0..total_steps).map(|step| schedule.learning_rate(step)).collect();
                    assert!(rates.iter().all(|rate| *rate > 0.0 && *rate <= 2e-3), "{rates:?}");
                    assert_eq!(rates[warmup_steps.saturating_sub(1)], 2e-3);
                    let ends_low =
                        kind == ScheduleKind::Cosine && total_steps > warmup_steps.max(1);
                    let want = if ends_low { 2e-4 } else { 2e-3 };
                    assert!(
                        (rates[total_steps - 1] - want).abs() < 1e-18,
                        "{warmup_steps}/{total_steps}"
                    );
                }
            }
        }
    }

    #[test]
    fn impossible_numbers_are_refused_with_the_key() {
        let config = ScheduleConfig { warmup_steps: 500, ..ScheduleConfig::default() };
        let error = Schedule::new(&config, 1e-3, 400).unwrap_err();
        assert_eq!(
            error.to_string(),
            "schedule.warmup_steps = 500 is longer than the run of 400 steps, which would end before its peak learning rate; lower it or train longer"
        );
        for ratio in [-0.1, 1.5, f64::NAN] {
            let config = ScheduleConfig { min_lr_ratio: ratio, ..ScheduleConfig::default() };
            assert!(matches!(
                Schedule::new(&config, 1e-3, 400),
                Err(ScheduleError::RatioOutOfRange(_))
            ));
        }
        for peak in [0.0, -1e-3, f64::INFINITY, f64::NAN] {
            let made = Schedule::new(&ScheduleConfig::default(), peak, 400);
            assert!(matches!(made, Err(ScheduleError::PeakOutOfRange(_))));
        }
    }
}
