//! What was measured, as text for people and as JSON.

use std::fmt;

use serde::{Deserialize, Serialize};

/// All runs of all cases.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Report {
    pub(crate) baseline: String,
    pub(crate) measured: String,
    pub(crate) processors: usize,
    /// Of each server.
    pub(crate) threads: usize,
    /// Of each measured part of a run.
    pub(crate) seconds: u64,
    /// Requests a second where latencies are measured.
    pub(crate) rate: u64,
    pub(crate) cases: Vec<CaseReport>,
}

/// The runs of both servers, pair by pair.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct CaseReport {
    pub(crate) name: String,
    pub(crate) baseline: Vec<Figures>,
    pub(crate) measured: Vec<Figures>,
}

/// One run.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Figures {
    pub(crate) requests_per_second: f64,
    /// Seconds of a processor for a million requests, when the server has always something to do.
    pub(crate) processor_seconds: f64,
    /// The same at the fixed rate, when it is idle between requests.
    pub(crate) processor_seconds_at_rate: f64,
    /// Latencies at the fixed rate, in microseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
    /// In MB.
    pub(crate) peak_memory: f64,
    /// Seconds of a processor that Redis takes for a million requests, if there is one.
    pub(crate) store_seconds: Option<f64>,
    /// Processors that had other things to do, on average.
    pub(crate) others: f64,
}

/// A figure that both servers have.
pub(crate) type Figure = (&'static str, fn(&Figures) -> f64);

pub(crate) const FIGURES: [Figure; 7] = [
    ("requests a second", |figures| figures.requests_per_second),
    ("CPU s a million", |figures| figures.processor_seconds),
    ("CPU s a million at rate", |figures| figures.processor_seconds_at_rate),
    ("p50 at rate, µs", |figures| figures.p50),
    ("p99 at rate, µs", |figures| figures.p99),
    ("p99.9 at rate, µs", |figures| figures.p999),
    ("peak memory, MB", |figures| figures.peak_memory),
];

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { baseline, measured, processors, threads, rate, .. } = self;
        writeln!(f, "baseline: {baseline}\nmeasured: {measured}")?;
        writeln!(f, "{threads} threads each, {processors} processors, rate: {rate}/s; medians, ratios pair by pair")
    }
}

impl fmt::Display for CaseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\n{:<28} {:>10} {:>10} {:>7}  least to most", self.name, "baseline", "measured", "ratio")?;
        for (name, figure) in FIGURES {
            let (baseline, measured) = (values(&self.baseline, figure), values(&self.measured, figure));
            let ratios = sorted(self.ratios(figure));
            writeln!(
                f,
                "{name:<28} {:>10} {:>10} {:>7.3}  {:.3} to {:.3}",
                rounded(median(baseline)),
                rounded(median(measured)),
                median(ratios.clone()),
                ratios.first().unwrap_or(&f64::NAN),
                ratios.last().unwrap_or(&f64::NAN)
            )?;
        }
        let others = |runs| rounded(median(values(runs, |figures| figures.others)));
        let (during_baseline, during_measured) = (others(&self.baseline), others(&self.measured));
        writeln!(f, "{:<28} {during_baseline:>10} {during_measured:>10}", "others, processors")?;
        let store: Vec<f64> = self.measured.iter().filter_map(|figures| figures.store_seconds).collect();
        if !store.is_empty() {
            writeln!(f, "{:<28} {:>21}", "Redis: CPU s a million", rounded(median(store)))?;
        }
        Ok(())
    }
}

impl CaseReport {
    /// Of each pair of runs, the measured server's figure in parts of the baseline's.
    pub(crate) fn ratios(&self, figure: fn(&Figures) -> f64) -> Vec<f64> {
        self.measured
            .iter()
            .zip(&self.baseline)
            .map(|(measured, baseline)| figure(measured) / figure(baseline))
            .collect()
    }
}

pub(crate) fn values(runs: &[Figures], figure: fn(&Figures) -> f64) -> Vec<f64> {
    runs.iter().map(figure).collect()
}

pub(crate) fn median(values: Vec<f64>) -> f64 {
    let values = sorted(values);
    let Some(last) = values.len().checked_sub(1) else { return f64::NAN };
    f64::midpoint(values[last / 2], values[last.div_ceil(2)])
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

/// Three digits at least.
pub(crate) fn rounded(value: f64) -> String {
    if value < 100.0 { format!("{value:.2}") } else { format!("{value:.0}") }
}
