//! The checker itself: histories whose verdict is known, and random ones against all intervals, one by one.

use fastrand::Rng;

use super::checker::{Admission, Allowance, Worst, worst_interval};

/// Five hits at once, and one more each 100 µs.
const ALLOWANCE: Allowance = Allowance { burst: 5, amount: 10, period: 1000 };

fn admission((from, until, hits): (u64, u64, u64)) -> Admission {
    Admission { from, until, hits }
}

fn worst(admissions: &[(u64, u64, u64)]) -> Worst {
    let admissions: Vec<_> = admissions.iter().copied().map(admission).collect();
    worst_interval(&admissions, ALLOWANCE).expect("something was admitted")
}

/// What the verdict must be, by its definition.
fn largest_of_all_intervals(admissions: &[Admission], Allowance { burst, amount, period }: Allowance) -> Option<i128> {
    let over = |(from, until)| {
        let within = admissions.iter().filter(|admission| from <= admission.from && admission.until <= until);
        let hits: u64 = within.map(|admission| admission.hits).sum();
        (hits > 0).then(|| i128::from(hits * period) - i128::from(burst * period + amount * (until - from)))
    };
    let intervals = admissions.iter().flat_map(|first| admissions.iter().map(|last| (first.from, last.until)));
    intervals.filter_map(over).max()
}

#[test]
fn nothing_admitted_is_no_excess() {
    assert_eq!(worst_interval(&[], ALLOWANCE), None);
}

#[test]
fn exactly_the_limit_is_no_excess() {
    assert_eq!(worst(&[(0, 0, 5)]).over, 0);
    // The burst at once, then each token in the microsecond in which it comes to be.
    let mut admissions = vec![(7, 7, 5)];
    admissions.extend((1..=1000).map(|token| (7 + 100 * token, 7 + 100 * token, 1)));
    assert_eq!(worst(&admissions).over, 0);
    // Or in one piece, after a pause in which the bucket filled again.
    admissions.push((7 + 100 * 1005, 7 + 100 * 1005, 5));
    assert_eq!(worst(&admissions).over, 0);
}

#[test]
fn one_hit_too_many_in_one_interval_only_is_found_with_its_interval() {
    let mut admissions: Vec<_> = (0..1000).map(|token| (200 * token, 200 * token, 1)).collect();
    assert!(!worst(&admissions).is_excess());
    admissions.push((50_010, 50_020, 5));
    let found = worst(&admissions);
    assert_eq!(found.over, 800, "six hits in 20 µs, in which 5.2 are allowed");
    assert_eq!((found.from, found.until), (50_000, 50_020));
}

#[test]
fn a_microsecond_too_early_is_an_excess() {
    assert_eq!(worst(&[(0, 0, 5), (100, 100, 1)]).over, 0);
    let early = worst(&[(0, 0, 5), (99, 99, 1)]);
    assert_eq!((early.is_excess(), early.over), (true, 10), "a hundredth of a hit, times the period");
}

#[test]
fn what_may_have_been_decided_outside_of_an_interval_does_not_count_in_it() {
    assert!(worst(&[(0, 10, 5), (5, 15, 1)]).is_excess());
    assert!(!worst(&[(0, 10, 5), (5, 105, 1)]).is_excess());
    assert!(!worst(&[(0, 10, 5), (100, 110, 1)]).is_excess());
}

#[test]
fn windows_are_counted_from_the_first_to_the_last_included() {
    let amount = Allowance { burst: 3, amount: 3, period: 1 };
    let over = |admissions: &[(u64, u64, u64)]| {
        let admissions: Vec<_> = admissions.iter().copied().map(admission).collect();
        worst_interval(&admissions, amount).expect("something was admitted").over
    };
    assert_eq!(over(&[(7, 7, 3), (8, 8, 3), (9, 9, 3)]), 0);
    assert_eq!(over(&[(7, 7, 3), (8, 8, 4), (9, 9, 2)]), 1);
    assert_eq!(over(&[(7, 7, 3), (7, 8, 3), (8, 8, 1)]), 1, "what lies between two windows is of one of them");
    assert_eq!(over(&[(7, 7, 3), (7, 8, 3)]), 0);
}

#[test]
fn random_histories_are_judged_as_by_their_definition() {
    let mut random = Rng::with_seed(1);
    let mut excesses = 0;
    for round in 0..3000 {
        let span = random.u64(1..=2000);
        let admissions: Vec<_> = (0..random.u64(0..=24))
            .map(|_| {
                let from = random.u64(0..=span);
                // Many begin or end at the same time.
                let from = if round % 3 == 0 { from / 100 * 100 } else { from };
                admission((from, from + random.u64(0..=200) / (1 + round % 4), random.u64(1..=3)))
            })
            .collect();
        let allowance =
            Allowance { burst: random.u64(1..=8), amount: random.u64(1..=20), period: random.u64(1..=2000) };
        let found = worst_interval(&admissions, allowance);
        assert_eq!(
            found.map(|worst| worst.over),
            largest_of_all_intervals(&admissions, allowance),
            "{admissions:?} with {allowance:?}"
        );
        if let Some(Worst { over, from, until, .. }) = found {
            let within: Vec<_> = admissions.iter().filter(|one| from <= one.from && one.until <= until).collect();
            let hits: u64 = within.iter().map(|one| one.hits).sum();
            let allowed = allowance.burst * allowance.period + allowance.amount * (until - from);
            assert_eq!(
                i128::from(hits * allowance.period) - i128::from(allowed),
                over,
                "the interval is the right one"
            );
        }
        excesses += u32::from(found.is_some_and(|worst| worst.is_excess()));
    }
    assert!((500..2500).contains(&excesses), "{excesses} of 3000 are exceeded: both verdicts are tested");
}
