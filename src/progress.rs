//! What a person sees while a model trains: a bar on a terminal, plain lines elsewhere, nothing
//! with `--quiet`.
//!
//! Everything goes to stderr; results own stdout. Log lines of `tracing` pass through
//! [`Screen::log_writer`], so that they land above the bar and never through it. A closed stderr is
//! not a reason to stop training: what cannot be shown is dropped. Colour only where NO_COLOR
//! (no-color.org) is unset.

pub mod metrics;
mod text;

use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use tracing_subscriber::fmt::MakeWriter;

pub use metrics::{MetricsError, MetricsLog, MetricsRecord};
pub use text::{StepReport, ValidationReport};
use text::{bar_text, step_line, time_left, validation_lines};

/// Time between lines of a count, where no bar can be shown.
const COUNT_EVERY: Duration = Duration::from_secs(5);

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Display {
    /// One line that is redrawn, for terminals.
    Bar,
    /// A line now and then, for files and CI.
    Lines,
    /// Nothing.
    Silent,
}

impl Display {
    /// What suits this process: `--quiet` wins, then whether stderr is a terminal that can redraw.
    pub fn detect(is_quiet: bool) -> Self {
        let can_redraw = io::stderr().is_terminal()
            && std::env::var_os("TERM").is_none_or(|term| term != "dumb");
        match (is_quiet, can_redraw) {
            (true, _) => Self::Silent,
            (false, true) => Self::Bar,
            (false, false) => Self::Lines,
        }
    }
}

/// Whether colour is welcome: a terminal, and NO_COLOR unset or empty.
pub fn is_colour_welcome() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The process's stderr, shared by the bar and the log. Make one when the program starts.
#[derive(Clone, Debug)]
pub struct Screen {
    display: Display,
    bars: MultiProgress,
}

impl Screen {
    /// A screen on stderr.
    pub fn new(display: Display) -> Self {
        let target = if display == Display::Bar {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        Self { display, bars: MultiProgress::with_draw_target(target) }
    }

    /// A writer for `tracing_subscriber::fmt().with_writer(..)` that prints above the bar.
    pub fn log_writer(&self) -> LogWriter {
        LogWriter { bars: self.bars.clone() }
    }

    /// Prints lines on stderr, above the bar if there is one; nothing when silent.
    pub fn print(&self, text: &str) {
        if self.display != Display::Silent {
            print_above(&self.bars, format!("{text}\n").as_bytes());
        }
    }

    /// Starts to show a training run that continues at `start_step` of `total_steps`. Without a
    /// terminal a line is printed every `line_every` steps, the first and the last included.
    pub fn training(&self, start_step: usize, total_steps: usize, line_every: usize) -> Progress {
        let bar = self.bars.add(ProgressBar::new(total_steps as u64));
        bar.set_style(bar_style(is_colour_welcome()));
        bar.set_position(start_step as u64);
        Progress {
            screen: self.clone(),
            bar,
            pace: None,
            first_step: start_step + 1,
            total_steps,
            line_every,
        }
    }

    /// Starts to count `total` things that are done before training: a bar on a terminal, else a line
    /// every few seconds.
    pub fn counting(&self, what: &'static str, total: u64) -> Count {
        let bar = self.bars.add(ProgressBar::new(total));
        let style = ProgressStyle::with_template("{msg} {pos}/{len} {eta}");
        bar.set_style(style.expect("the counter's template is well formed"));
        bar.set_message(what);
        Count { screen: self.clone(), bar, what, said: Mutex::new(Instant::now()) }
    }
}

/// A count on the screen; its bar is gone when dropped. May be advanced from any thread.
#[derive(Debug)]
pub struct Count {
    screen: Screen,
    bar: ProgressBar,
    what: &'static str,
    /// When the last line was printed.
    said: Mutex<Instant>,
}

impl Count {
    /// One more is done.
    pub fn advance(&self) {
        self.bar.inc(1);
        if self.screen.display != Display::Lines {
            return;
        }
        // Whoever finds another thread at it has nothing to say.
        let Ok(mut said) = self.said.try_lock() else { return };
        if said.elapsed() >= COUNT_EVERY {
            *said = Instant::now();
            let (done, total) = (self.bar.position(), self.bar.length().unwrap_or_default());
            self.screen.print(&format!("{} {done}/{total}", self.what));
        }
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

fn print_above(bars: &MultiProgress, bytes: &[u8]) {
    bars.suspend(|| {
        let mut stderr = io::stderr().lock();
        // stderr is where a failure would be reported, so there is nowhere to report its own.
        let _ = stderr.write_all(bytes).and_then(|()| stderr.flush());
    });
}

fn bar_style(has_colour: bool) -> ProgressStyle {
    let template = if has_colour { "[{wide_bar:.cyan/dim}] {msg}" } else { "[{wide_bar}] {msg}" };
    ProgressStyle::with_template(template)
        .expect("the bar's template is well formed")
        .progress_chars("=> ")
}

/// Writes log lines to stderr with the bar out of the way.
#[derive(Clone, Debug)]
pub struct LogWriter {
    bars: MultiProgress,
}

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        print_above(&self.bars, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// A training run on the screen.
#[derive(Debug)]
pub struct Progress {
    screen: Screen,
    bar: ProgressBar,
    /// The first step seen and when it ended. The pace counts from there: the first step compiles
    /// kernels.
    pace: Option<(usize, Instant)>,
    first_step: usize,
    total_steps: usize,
    line_every: usize,
}

impl Progress {
    /// Shows a finished step.
    pub fn step(&mut self, report: &StepReport) {
        if self.screen.display == Display::Silent {
            return;
        }
        let (first, since) = *self.pace.get_or_insert_with(|| (report.step, Instant::now()));
        let eta = time_left(
            report.step.saturating_sub(first),
            since.elapsed(),
            self.total_steps.saturating_sub(report.step),
        );
        if self.screen.display == Display::Bar {
            self.bar.set_message(bar_text(report, self.total_steps, eta));
            self.bar.set_position(report.step as u64);
        } else if self.is_line_due(report.step) {
            self.screen.print(&step_line(report, self.total_steps, eta));
        }
    }

    fn is_line_due(&self, step: usize) -> bool {
        step == self.first_step
            || step == self.total_steps
            || step.is_multiple_of(self.line_every.max(1))
    }

    /// Shows a validation, above the bar.
    pub fn validation(&self, report: &ValidationReport) {
        self.screen.print(&validation_lines(report));
    }

    /// Shows a remark, above the bar.
    pub fn note(&self, text: &str) {
        self.screen.print(text);
    }

    /// Takes the bar away. Dropping does the same.
    pub fn finish(self) {
        drop(self);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
        self.screen.bars.remove(&self.bar);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(step: usize) -> StepReport {
        StepReport { step, epoch: 2, loss: 0.5678, learning_rate: 3e-4, audio_s_per_s: 41.23 }
    }

    #[test]
    fn the_templates_of_both_bars_are_well_formed() {
        for has_colour in [true, false] {
            bar_style(has_colour); // a malformed template would panic
        }
    }

    #[test]
    fn lines_are_due_at_the_first_the_last_and_every_nth_step() {
        let progress = Screen::new(Display::Silent).training(100, 230, 50);
        let due: Vec<usize> = (101..=230).filter(|step| progress.is_line_due(*step)).collect();
        assert_eq!(due, [101, 150, 200, 230]);
        let never_zero = Screen::new(Display::Silent).training(0, 3, 0);
        assert!((1..=3).all(|step| never_zero.is_line_due(step)));
    }

    #[test]
    fn every_display_survives_a_run() {
        for display in [Display::Bar, Display::Lines, Display::Silent] {
            let screen = Screen::new(display);
            let mut progress = screen.training(0, 2, 1);
            progress.step(&report(1));
            progress.validation(&ValidationReport::default());
            screen.log_writer().write_all(b"a log line\n").unwrap();
            progress.step(&report(2));
            progress.finish();
        }
    }
}
