//! The words and figures of progress: what is shown of a step and of a validation, and how short.
//!
//! The bar's text leaves room for the bar in 80 columns whatever the numbers. Transcripts are data,
//! so their control characters never reach the terminal.

use std::time::Duration;

/// One optimiser step, as shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReport {
    /// Steps done, this one included.
    pub step: usize,
    /// Epoch, from 0.
    pub epoch: usize,
    /// Mean loss per label, in nats.
    pub loss: f64,
    /// Learning rate.
    pub learning_rate: f64,
    /// Seconds of audio processed per second.
    pub audio_s_per_s: f64,
}

/// One validation, as shown. Rates are fractions; `None` when there was nothing to divide by.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ValidationReport {
    /// Name of the set.
    pub set: String,
    /// Steps done.
    pub step: usize,
    /// Mean loss per label, in nats.
    pub loss: Option<f64>,
    /// Word error rate.
    pub wer: Option<f64>,
    /// Character error rate.
    pub cer: Option<f64>,
    /// Share of valid frames whose best class is blank.
    pub blank_rate: Option<f64>,
    /// A few references with their hypotheses.
    pub examples: Vec<(String, String)>,
}

/// Time left at the mean pace so far; `None` before there is a pace.
pub(super) fn time_left(
    steps_done: usize,
    elapsed: Duration,
    steps_left: usize,
) -> Option<Duration> {
    (steps_done > 0)
        .then(|| {
            Duration::try_from_secs_f64(
                elapsed.as_secs_f64() / steps_done as f64 * steps_left as f64,
            )
            .ok()
        })
        .flatten()
}

/// `59s`, `12m05s`, `3h07m`, `4d02h`: never more than six characters for a run under a hundred
/// days.
fn short_time(time: Option<Duration>) -> String {
    let Some(time) = time else {
        return "--".to_owned();
    };
    let s = time.as_secs();
    match s {
        0..60 => format!("{s}s"),
        60..3_600 => format!("{}m{:02}s", s / 60, s % 60),
        3_600..86_400 => format!("{}h{:02}m", s / 3_600, s / 60 % 60),
        86_400..8_640_000 => format!("{}d{:02}h", s / 86_400, s / 3_600 % 24),
        _ => "long".to_owned(),
    }
}

/// A number in at most six characters, so that the bar keeps its place.
fn short_number(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => value.to_string(),
        size if size >= 99_999.5 => format!("{value:.0e}"),
        size if size >= 999.5 => format!("{value:.0}"),
        size if size >= 9.9995 => format!("{value:.1}"),
        size if size >= 0.00095 || size == 0.0 => format!("{value:.3}"),
        _ => format!("{value:.0e}"),
    }
}

pub(super) fn bar_text(report: &StepReport, total_steps: usize, eta: Option<Duration>) -> String {
    format!(
        "{}/{total_steps} loss {} lr {:.1e} {} audio s/s ETA {}",
        report.step,
        short_number(report.loss),
        report.learning_rate,
        short_number(report.audio_s_per_s),
        short_time(eta)
    )
}

pub(super) fn step_line(report: &StepReport, total_steps: usize, eta: Option<Duration>) -> String {
    format!(
        "step {}/{total_steps}  epoch {}  loss {}  lr {:.2e}  {} audio s/s  ETA {}",
        report.step,
        report.epoch,
        short_number(report.loss),
        report.learning_rate,
        short_number(report.audio_s_per_s),
        short_time(eta)
    )
}

fn percent(rate: Option<f64>) -> String {
    rate.map_or_else(|| "n/a".to_owned(), |rate| format!("{:.2} %", 100.0 * rate))
}

pub(super) fn validation_lines(report: &ValidationReport) -> String {
    let mut text = format!(
        "{} at step {}: WER {}  CER {}  blank {}  loss {}",
        report.set,
        report.step,
        percent(report.wer),
        percent(report.cer),
        percent(report.blank_rate),
        report.loss.map_or_else(|| "n/a".to_owned(), short_number)
    );
    for (reference, hypothesis) in &report.examples {
        text.push_str(&format!(
            "\n  REF {}\n  HYP {}",
            printable(reference),
            printable(hypothesis)
        ));
    }
    text
}

/// Transcripts are data: one that holds control characters must not drive the terminal.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(step: usize) -> StepReport {
        StepReport { step, epoch: 2, loss: 0.5678, learning_rate: 3e-4, audio_s_per_s: 41.23 }
    }

    #[test]
    fn a_plain_line_says_all_there_is() {
        let eta = Some(Duration::from_secs(192));
        assert_eq!(
            step_line(&report(100), 4000, eta),
            "step 100/4000  epoch 2  loss 0.568  lr 3.00e-4  41.2 audio s/s  ETA 3m12s"
        );
        assert_eq!(
            bar_text(&report(100), 4000, None),
            "100/4000 loss 0.568 lr 3.0e-4 41.2 audio s/s ETA --"
        );
    }

    #[test]
    fn the_bar_fits_80_columns_with_any_numbers() {
        for value in [
            0.0,
            1e-9,
            0.00094,
            9.9999,
            99.95,
            999.96,
            99_999.4,
            1e5,
            1e300,
            -1e-300,
            f64::INFINITY,
            f64::NAN,
        ] {
            let report = StepReport {
                step: 9_999_999,
                epoch: 0,
                loss: value,
                learning_rate: 1e-10,
                audio_s_per_s: value,
            };
            let text = bar_text(&report, 9_999_999, Some(Duration::from_secs(8_000_000)));
            assert!(text.len() + "[=> ] ".len() <= 80, "{} {text}", text.len());
        }
    }

    #[test]
    fn times_are_short() {
        for (seconds, want) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m00s"),
            (3_599, "59m59s"),
            (3_600, "1h00m"),
            (90_000, "1d01h"),
            (u64::MAX, "long"),
        ] {
            assert_eq!(short_time(Some(Duration::from_secs(seconds))), want);
        }
    }

    #[test]
    fn time_left_follows_the_mean_pace_and_needs_one() {
        assert_eq!(time_left(0, Duration::from_secs(100), 10), None);
        assert_eq!(time_left(4, Duration::from_secs(8), 10), Some(Duration::from_secs(20)));
        assert_eq!(time_left(4, Duration::from_secs(8), 0), Some(Duration::ZERO));
        assert_eq!(time_left(1, Duration::MAX, usize::MAX), None);
    }

    #[test]
    fn a_validation_shows_rates_and_pairs_and_says_what_is_absent() {
        let report = ValidationReport {
            set: "dev".to_owned(),
            step: 400,
            loss: Some(0.5321),
            wer: Some(0.12345),
            cer: Some(0.05),
            blank_rate: None,
            examples: vec![("three oh".to_owned(), "three\u{1b}[2J".to_owned())],
        };
        assert_eq!(
            validation_lines(&report),
            "dev at step 400: WER 12.35 %  CER 5.00 %  blank n/a  loss 0.532\n  REF three oh\n  HYP three\u{fffd}[2J"
        );
    }
}
