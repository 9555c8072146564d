//! Progress bars, on stderr.

use clap::ValueEnum;
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle, TermLike};
use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// When a bar is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// When stderr is a terminal
    #[default]
    Auto,
    /// Always; a line a second where stderr is no terminal
    Always,
    /// Never
    Never,
}

/// What a bar counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Bytes,
    Records,
    Segments,
}

/// A bar that knows its end, or a spinner that counts when `total` is unknown. Dropping it clears it from the screen.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    pub(crate) fn start(when: When, unit: Unit, doing: &'static str, total: Option<u64>) -> Self {
        let bar = ProgressBar::with_draw_target(total, draw_target(when));
        if let Ok(style) = ProgressStyle::with_template(&template(unit, total.is_some())) {
            bar.set_style(style.progress_chars("=> ").with_key("rate", write_rate));
        }
        bar.set_prefix(doing);
        if when != When::Never && io::stderr().is_terminal() {
            bar.enable_steady_tick(Duration::from_millis(200));
        }
        Self(bar)
    }

    pub(crate) fn set(&self, position: u64) {
        self.0.set_position(position);
    }

    pub(crate) fn advance(&self, by: u64) {
        self.0.inc(by);
    }

    pub(crate) fn set_total(&self, total: u64) {
        if self.0.length() != Some(total) {
            self.0.set_length(total);
        }
    }

    /// Shows a short message after the bar.
    pub(crate) fn say(&self, message: impl Into<Cow<'static, str>>) {
        self.0.set_message(message);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

fn template(unit: Unit, known_total: bool) -> String {
    let (count, total, rate) = match unit {
        Unit::Bytes => ("{bytes}", "{total_bytes}", "{binary_bytes_per_sec}"),
        Unit::Records => ("{human_pos}", "{human_len} records", "{rate}"),
        Unit::Segments => ("{human_pos}", "{human_len} segments", "{rate}"),
    };
    if known_total {
        format!("{{prefix}} [{{wide_bar}}] {{percent:>3}} % {count} of {total}, {rate}, {{eta}} left {{msg}}")
    } else {
        format!("{{prefix}} {{spinner}} {count}, {rate}, {{elapsed}} {{msg}}")
    }
}

/// Writes a whole number per second: fractions of a record would only flicker.
fn write_rate(state: &ProgressState, out: &mut dyn fmt::Write) {
    let rate = state.per_sec().clamp(0.0, 1e15).round() as u64;
    let _ = write!(out, "{}/s", HumanCount(rate));
}

fn draw_target(when: When) -> ProgressDrawTarget {
    match when {
        When::Never => ProgressDrawTarget::hidden(),
        When::Always if !io::stderr().is_terminal() => ProgressDrawTarget::term_like_with_hz(Box::new(Lines), 1),
        // indicatif draws nothing by itself where stderr is no terminal.
        When::Auto | When::Always => ProgressDrawTarget::stderr_with_hz(10),
    }
}

/// For a log file or a pipe instead of a terminal: prints every state of the bar on a separate line.
#[derive(Debug)]
struct Lines;

impl TermLike for Lines {
    fn width(&self) -> u16 {
        120
    }

    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn write_line(&self, line: &str) -> io::Result<()> {
        self.write_str(line)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        let text = text.trim();
        if text.is_empty() { Ok(()) } else { writeln!(io::stderr(), "{text}") }
    }

    fn clear_line(&self) -> io::Result<()> {
        Ok(())
    }

    fn flush(&self) -> io::Result<()> {
        io::stderr().flush()
    }
}
