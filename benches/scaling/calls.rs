//! The first part: how calls to the store grow.

use comporta::server::BoxError;

use super::fleet::{ROUND_TRIP, Scene, Tally, run};
use super::scenes::{Group, groups};
use super::table::{count, print_head, print_row, short, whole};

const COLUMNS: [&str; 10] = [
    "",
    "replicas",
    "decisions a second",
    "calls a second",
    "calls for 1,000 decisions",
    "to ask, for 1,000",
    "to renew, for 1,000",
    "to tell, for 1,000",
    "waited, of 1,000",
    "admitted, of one bucket's",
];

/// Where little is asked it takes long until so many decisions are measured, of which a thousandth is something.
const LEAST_DECISIONS: usize = 3_000;

/// Plays the scenes of the groups that are wanted, with so many seconds to warm up and as many that are measured.
pub(crate) fn print(is_wanted: impl Fn(&str) -> bool, seconds: u64) -> Result<(), BoxError> {
    let groups: Vec<_> = groups()?.into_iter().filter(|group| is_wanted(group.name)).collect();
    if groups.is_empty() {
        return Ok(());
    }
    println!("# Calls to the store");
    println!(
        "\nThe real engine in virtual time; {ROUND_TRIP} µs to the store and back. After {seconds} s to warm up, as many are \
         measured, or as many as {} decisions take. All columns are of the measured part: a bucket's burst may have been taken \
         before it.",
        count(LEAST_DECISIONS)
    );
    for Group { title, scenes, played, .. } in groups {
        print_head(&format!("## {title}"), &COLUMNS);
        let mut most_afterwards: f64 = 0.0;
        for (label, scene) in scenes {
            let measured = measured_seconds(&scene, seconds);
            let tally = run(&scene, seconds, measured, 1)?;
            print_row(&row(&label, &scene, &tally, measured, played));
            most_afterwards = most_afterwards.max(per(tally.afterwards, scene.keys * scene.replicas));
        }
        println!(
            "\nNo interval admitted more than its limit. When nobody asked any more, calls followed, in no row more than {} \
             for each key and replica on average, and then none.",
            short(most_afterwards)
        );
    }
    Ok(())
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "some hours at most"
)]
fn measured_seconds(scene: &Scene, seconds: u64) -> u64 {
    seconds.max((LEAST_DECISIONS as f64 / scene.rate).ceil() as u64)
}

/// What the whole comes to of which this part was played.
#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn row(label: &str, scene: &Scene, tally: &Tally, seconds: u64, played: f64) -> [String; 10] {
    let rate = scene.rate / played;
    let of_thousand = |count: u64| short(1_000.0 * count as f64 / tally.decisions.max(1) as f64);
    [
        label.to_owned(),
        scene.replicas.to_string(),
        if rate < 1.0 { short(rate) } else { whole(rate) },
        short(tally.calls() as f64 / seconds as f64 / played),
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
