//! The scenes that are played, by what they are to show.

use comporta::engine::LeaseSettings;
use comporta::limit::{Algorithm, Limit, Micros, Unit};
use comporta::server::BoxError;

use super::fleet::Scene;
use super::table::count;
use super::traffic::Spread;

/// Scenes that are compared with each other.
pub(crate) struct Group {
    /// One word, by which it is chosen.
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) scenes: Vec<(String, Scene)>,
    /// The part of the traffic, and of the keys, that is played. Labels tell of the whole.
    pub(crate) played: f64,
}

const REPLICAS: [usize; 3] = [1, 4, 16];

/// A limit that is far from used up has room for so many times the traffic.
const FAR: f64 = 10.0;

pub(crate) fn groups() -> Result<Vec<Group>, BoxError> {
    Ok(vec![traffic()?, keys()?, usage()?, units()?, little()?, settings()?, million()?])
}

fn traffic() -> Result<Group, BoxError> {
    let mut scenes = Vec::new();
    for (what, room) in [("a tenth is used", FAR), ("used up, half is refused", 0.5)] {
        for rate in [100.0, 1_000.0, 10_000.0] {
            let scene = scene(rate, 1, room, Unit::Minute)?;
            scenes.push((what.to_owned(), Scene { begins_used_up: room < 1.0, ..scene }));
        }
    }
    let title = "Traffic and replicas: one key, a limit by the minute";
    Ok(Group { name: "traffic", title, scenes: on_all(scenes), played: 1.0 })
}

fn keys() -> Result<Group, BoxError> {
    let mut scenes = Vec::new();
    for keys in [1, 100, 10_000, 100_000] {
        scenes.push((label(keys, "asked alike"), scene(10_000.0, keys, FAR, Unit::Minute)?));
    }
    for (what, room) in [("skewed, far below their limits", 100_000.0), ("skewed, the busiest far above", 2.0)] {
        let scene = scene(10_000.0, 10_000, room, Unit::Minute)?;
        scenes.push((label(10_000, what), Scene { spread: Spread::Skewed, ..scene }));
    }
    let title = "Keys and replicas: 10,000 decisions a second, limits by the minute";
    Ok(Group { name: "keys", title, scenes: on_all(scenes), played: 1.0 })
}

fn usage() -> Result<Group, BoxError> {
    let mut scenes = Vec::new();
    for (what, room) in [
        ("a tenth is used", 10.0),
        ("half is used", 2.0),
        ("at the edge", 1.0),
        ("used up, half is refused", 0.5),
        ("used up, 99 % are refused", 0.01),
    ] {
        let scene = scene(1_000.0, 1, room, Unit::Minute)?;
        scenes.push((what.to_owned(), Scene { begins_used_up: room <= 1.0, ..scene }));
    }
    let title = "How much of the limit is used: 1,000 decisions a second on one key, a limit by the minute";
    Ok(Group { name: "usage", title, scenes: on_all(scenes), played: 1.0 })
}

fn units() -> Result<Group, BoxError> {
    let mut scenes = Vec::new();
    for (room, what) in [(2.0, "half is used"), (0.5, "used up")] {
        for unit in [Unit::Second, Unit::Minute, Unit::Hour, Unit::Day] {
            let scene = scene(1_000.0, 1, room, unit)?;
            scenes.push((format!("by the {}, {what}", unit.name()), Scene { begins_used_up: room < 1.0, ..scene }));
        }
        let mut window = scene(1_000.0, 1, room, Unit::Minute)?;
        window.limit = Limit::per(window.limit.amount(), Unit::Minute, Algorithm::FixedWindow);
        scenes.push((format!("a fixed window of a minute, {what}"), window));
    }
    let title = "Units: 1,000 decisions a second on one key";
    Ok(Group { name: "units", title, scenes: on(&REPLICAS[1..], scenes), played: 1.0 })
}

fn little() -> Result<Group, BoxError> {
    let mut scenes = Vec::new();
    for (what, amount, unit, rate, keys) in [
        ("1 a second, half is asked for", 1, Unit::Second, 0.5, 1),
        ("1 a second, ten times is asked for", 1, Unit::Second, 10.0, 1),
        ("1 a second, a thousand times is asked for", 1, Unit::Second, 1_000.0, 1),
        ("10 a second, half is asked for", 10, Unit::Second, 5.0, 1),
        ("10 a second, ten times is asked for", 10, Unit::Second, 100.0, 1),
        ("100 a second, half is asked for", 100, Unit::Second, 50.0, 1),
        ("10,000 keys, 60 a minute, 6 are asked for", 60, Unit::Minute, 1_000.0, 10_000),
        ("10,000 keys, 60 an hour, 6 are asked for", 60, Unit::Hour, 16.7, 10_000),
    ] {
        let limit = Limit::per(amount, unit, Algorithm::TokenBucket);
        scenes.push((what.to_owned(), Scene { limit, ..scene(rate, keys, FAR, unit)? }));
    }
    let title = "Small limits, for which leases do little";
    Ok(Group { name: "little", title, scenes: on_all(scenes), played: 1.0 })
}

fn settings() -> Result<Group, BoxError> {
    let mut scenes = Vec::new();
    for seconds in [60, 15, 5, 1] {
        let lease = LeaseSettings { horizon: Micros::from_seconds(seconds), ..LeaseSettings::default() };
        let scene = scene(1_000.0, 1, 2.0, Unit::Hour)?;
        scenes.push((format!("`--lease-horizon {seconds}s`, by the hour"), Scene { lease, ..scene }));
    }
    for percent in [10, 25, 50, 75] {
        let lease = LeaseSettings { renew_at_percent: percent, ..LeaseSettings::default() };
        let scene = scene(1_000.0, 1, 2.0, Unit::Second)?;
        scenes.push((format!("`--lease-renew-at {percent}`, by the second"), Scene { lease, ..scene }));
    }
    for (what, amount, unit) in
        [("120,000 a minute", 120_000, Unit::Minute), ("7,200,000 an hour, `burst: 120000`", 7_200_000, Unit::Hour)]
    {
        let limit = Limit::new(amount, unit, 1, Some(120_000), Algorithm::TokenBucket)?;
        scenes.push((what.to_owned(), Scene { limit, ..scene(1_000.0, 1, 2.0, unit)? }));
    }
    let title = "Lease settings: 1,000 decisions a second on one key, half of the limit";
    Ok(Group { name: "settings", title, scenes: on(&[4], scenes), played: 1.0 })
}

/// Keys know nothing of each other, so a hundred times as many keys make a hundred times as many calls.
fn million() -> Result<Group, BoxError> {
    let mut scenes = Vec::new();
    for (keys, unit, room) in [
        (1_000, Unit::Second, 2.0),
        (1_000, Unit::Minute, 2.0),
        (100_000, Unit::Second, 2.0),
        (100_000, Unit::Minute, 2.0),
        (100_000, Unit::Hour, 2.0),
        (100_000, Unit::Minute, 0.5),
        (1_000_000, Unit::Minute, 2.0),
        (1_000_000, Unit::Hour, 2.0),
    ] {
        let is_used_up = room < 1.0;
        let what = if is_used_up { "all used up, half is refused" } else { "half is used" };
        let label = format!("{} keys, by the {}, {what}", count(keys), unit.name());
        let scene = scene(10_000.0, keys / 100, room, unit)?;
        scenes.push((label, Scene { begins_used_up: is_used_up, ..scene }));
    }
    let title = "A million decisions a second: a hundredth was played, with a hundredth of the keys, and multiplied";
    Ok(Group { name: "million", title, scenes: on(&[4, 8, 16], scenes), played: 0.01 })
}

/// With so many keys that are asked alike, and limits with room for so many times what each is asked for.
fn scene(rate: f64, keys: usize, room: f64, unit: Unit) -> Result<Scene, BoxError> {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let amount = (rate * room * unit.seconds() as f64 / keys as f64).round().max(1.0);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as far as it reaches")]
    let limit = Limit::new(amount as u32, unit, 1, None, Algorithm::TokenBucket)?;
    let (spread, lease) = (Spread::Even, LeaseSettings::default());
    Ok(Scene { replicas: 1, rate, keys, spread, limit, begins_used_up: false, lease })
}

fn label(keys: usize, what: &str) -> String {
    match keys {
        1 => "1 key".to_owned(),
        _ => format!("{} keys, {what}", count(keys)),
    }
}

fn on_all(scenes: Vec<(String, Scene)>) -> Vec<(String, Scene)> {
    on(&REPLICAS, scenes)
}

/// Each scene with each number of replicas.
fn on(replicas: &[usize], scenes: Vec<(String, Scene)>) -> Vec<(String, Scene)> {
    let with = |(label, scene): (String, Scene)| {
        replicas.iter().map(move |&replicas| (label.clone(), Scene { replicas, ..scene.clone() })).collect::<Vec<_>>()
    };
    scenes.into_iter().flat_map(with).collect()
}
