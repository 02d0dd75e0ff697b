//! A row as it is printed.
#![expect(clippy::cast_precision_loss, reason = "figures to be read")]

use super::super::figures::answer_times;
use super::super::history::{Answer, Asked};
use super::super::timeline::micros;
use super::mode::Mode;
use super::row::{Outcome, TIMEOUT};

/// Its columns and their widths.
const COLUMNS: [(&str, usize); 10] = [
    ("fault", 31),
    ("requests", 8),
    ("errors", 6),
    ("waited", 6),
    ("p50, p99 before", 15),
    ("p50, p99 during", 15),
    ("memory, store, fallback", 23),
    ("local, open, closed, unavailable", 32),
    ("healed", 7),
    ("verdict", 7),
];

/// Prints the row beneath the names of its columns.
pub(super) fn print(outcome: &Outcome, broken: &[String]) {
    let verdict = if broken.is_empty() { "ok".to_owned() } else { format!("FAILED: {}", broken.join("; ")) };
    let cells = [
        outcome.row.name.to_owned(),
        outcome.asked().count().to_string(),
        errors(outcome).to_string(),
        during(outcome).filter(|asked| waited(asked)).count().to_string(),
        times(outcome.asked().filter(|asked| outcome.is_before(asked))),
        times(during(outcome).filter(|asked| !waited(asked))),
        sources(outcome),
        Mode::ALL.map(|mode| as_the_mode_says(outcome, mode)).join(", "),
        format!("{:.2} s", healed_after(outcome) as f64 / 1e6),
        verdict,
    ];
    let names = COLUMNS.map(|(name, _)| name.to_owned());
    let rule = COLUMNS.map(|(_, width)| "-".repeat(width));
    eprintln!("{}\n{}\n{}", line(&names), line(&rule), line(&cells));
}

fn line(cells: &[String]) -> String {
    let padded = cells.iter().zip(COLUMNS).map(|(cell, (_, width))| format!("{cell:width$}"));
    format!("| {} |", padded.collect::<Vec<_>>().join(" | "))
}

fn during(outcome: &Outcome) -> impl Iterator<Item = &Asked> {
    outcome.asked().filter(|asked| outcome.is_in_outage(asked))
}

/// It has waited for Redis in vain, or nearly.
fn waited(asked: &Asked) -> bool {
    asked.answered - asked.sent >= micros(TIMEOUT) - 1000
}

/// The longest of all outages.
fn healed_after(outcome: &Outcome) -> u64 {
    outcome.outages.iter().map(|outage| outage.healed_after).max().unwrap_or_default()
}

fn errors(outcome: &Outcome) -> usize {
    let failed = outcome.asked().filter(|asked| asked.answer == Answer::Failed).count();
    let others = [Mode::Local, Mode::Open, Mode::Closed];
    failed + others.map(|mode| outcome.history(mode).count(Answer::Unavailable)).iter().sum::<usize>()
}

/// In ms.
fn times<'a>(asked: impl Iterator<Item = &'a Asked>) -> String {
    let [median, high] = answer_times(asked);
    if high == 0.0 { "-".to_owned() } else { format!("{median:.2}, {high:.2} ms") }
}

/// Decisions in the outages by who made them.
fn sources(outcome: &Outcome) -> String {
    let by = |source| outcome.outages.iter().filter_map(|outage| outage.decisions.get(source)).sum::<u64>();
    format!("{}, {}, {}", by("local") + by("denied_cache"), by("store"), by("fallback"))
}

/// What part of the requests in outages was admitted; of the last mode, what part was not answered.
fn as_the_mode_says(outcome: &Outcome, mode: Mode) -> String {
    let part = outcome.history(mode).part(|asked| outcome.is_in_outage(asked));
    let answer = if mode == Mode::Unavailable { Answer::Unavailable } else { Answer::Admitted };
    format!("{} %", part.count(answer) * 100 / part.asked.len().max(1))
}
