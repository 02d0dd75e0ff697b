//! What became better or worse from one report to another.

use comporta::server::BoxError;

use super::figures::{FIGURES, Report, median, rounded, values};

/// Prints the measured server's figures in both, and their ratios to the baseline. The latter survive a machine that was
/// faster at one time than at the other.
pub(crate) fn print(old: &Report, new: &Report) -> Result<(), BoxError> {
    let conditions = |report: &Report| (report.processors, report.threads, report.seconds, report.rate);
    if conditions(old) != conditions(new) {
        return Err("the two were not measured alike: processors, threads, seconds or rate differ".into());
    }
    println!("old: {} against {}\nnew: {} against {}", old.measured, old.baseline, new.measured, new.baseline);
    for new in &new.cases {
        let Some(old) = old.cases.iter().find(|old| old.name == new.name) else { continue };
        println!(
            "\n{:<28} {:>9} {:>9} {:>8} {:>10} {:>10}",
            new.name, "old", "new", "new/old", "old ratio", "new ratio"
        );
        for (name, figure) in FIGURES {
            let (before, now) = (median(values(&old.measured, figure)), median(values(&new.measured, figure)));
            let (ratio_before, ratio_now) = (median(old.ratios(figure)), median(new.ratios(figure)));
            println!(
                "{name:<28} {:>9} {:>9} {:>8.3} {ratio_before:>10.3} {ratio_now:>10.3}",
                rounded(before),
                rounded(now),
                now / before
            );
        }
    }
    Ok(())
}
