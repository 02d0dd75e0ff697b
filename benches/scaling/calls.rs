//! The first part: how calls to the store grow.

use comporta::server::BoxError;

use super::fleet::{ROUND_TRIP, Scene, Tally, run};
use super::scenes::{Group, groups};
use super::table::{print_head, print_row, short, whole};

const COLUMNS: [&str; 10] = [
    "",
    "replicas",
    "decisions a second",
    "calls a second",
    "calls for 1,000 decisions",
    "to ask",
    "to renew",
    "to tell",
    "waited, of 1,000",
    "admitted, of one bucket's",
];

/// Plays the scenes of the groups that are wanted, with so many seconds to warm up and as many that are measured.
pub(crate) fn print(is_wanted: impl Fn(&str) -> bool, seconds: u64) -> Result<(), BoxError> {
    let groups: Vec<_> = groups()?.into_iter().filter(|group| is_wanted(group.name)).collect();
    if groups.is_empty() {
        return Ok(());
    }
    println!("# Calls to the store");
    println!("\nThe real engine in virtual time; {ROUND_TRIP} µs to the store and back; {seconds} s are measured.");
    for Group { title, scenes, .. } in groups {
        print_head(&format!("## {title}"), &COLUMNS);
        let mut most_afterwards: f64 = 0.0;
        for (label, scene) in scenes {
            let tally = run(&scene, seconds, 1)?;
            print_row(&row(&label, &scene, &tally, seconds));
            most_afterwards = most_afterwards.max(per(tally.afterwards, scene.keys * scene.replicas));
        }
        println!(
            "\nNo interval admitted more than its limit. When nobody asked any more, at most {} calls followed for each key \
             and replica, and then none.",
            short(most_afterwards)
        );
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn row(label: &str, scene: &Scene, tally: &Tally, seconds: u64) -> [String; 10] {
    let of_thousand = |count: u64| short(1_000.0 * count as f64 / tally.decisions.max(1) as f64);
    [
        label.to_owned(),
        scene.replicas.to_string(),
        if scene.rate < 1.0 { short(scene.rate) } else { whole(scene.rate) },
        short(tally.calls() as f64 / seconds as f64),
        of_thousand(tally.calls()),
        of_thousand(tally.asked),
        of_thousand(tally.renewed),
        of_thousand(tally.told),
        of_thousand(tally.waited),
        format!("{:.1} %", 100.0 * tally.admitted as f64 / tally.admitted_by_one.max(1) as f64),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn per(count: u64, of: usize) -> f64 {
    count as f64 / of as f64
}
