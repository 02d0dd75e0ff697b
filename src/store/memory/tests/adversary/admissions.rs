use crate::limit::{Limit, Micros};

const TOKEN: i128 = 1_000_000;

/// What was admitted, and when.
#[derive(Debug, Default)]
pub(super) struct Admissions {
    /// Millionths of a token; below zero for what was refunded.
    millionths: Vec<(Micros, i128)>,
}

impl Admissions {
    pub(super) fn add(&mut self, at: Micros, hits: u64) {
        self.add_millionths(at, i128::from(hits) * TOKEN);
    }

    pub(super) fn add_millionths(&mut self, at: Micros, millionths: i128) {
        self.millionths.push((at, millionths));
    }

    /// By how many millionths of a token more than the burst and what flows back was admitted in the worst of all
    /// intervals, rounded up. Of several limits the largest amount and the largest burst count.
    pub(super) fn excess(mut self, limits: &[Limit]) -> i128 {
        let period = i128::from(limits[0].period().0);
        let amount = limits.iter().map(|limit| i128::from(limit.amount())).max().unwrap_or(0) * TOKEN;
        let burst = limits.iter().map(|limit| i128::from(limit.capacity())).max().unwrap_or(0) * TOKEN;
        self.millionths.sort_by_key(|&(at, _)| at);
        // In millionths · µs: what was admitted until now beyond what has flowed back since 1970.
        let (mut balance, mut lowest, mut worst) = (0, i128::MAX, -burst * period);
        for (at, millionths) in self.millionths {
            let flowed_back = amount * i128::from(at.0);
            lowest = lowest.min(balance - flowed_back);
            balance += millionths * period;
            worst = worst.max(balance - flowed_back - lowest - burst * period);
        }
        -(-worst).div_euclid(period)
    }
}

#[test]
fn the_worst_interval_counts() {
    let limit = Limit::per(10, crate::limit::Unit::Second, crate::limit::Algorithm::TokenBucket);
    let mut admissions = Admissions::default();
    for (second, hits) in [(0, 10), (1, 10), (10, 10), (11, 12), (12, 9), (20, 3)] {
        admissions.add(Micros::from_seconds(second), hits);
    }
    assert_eq!(admissions.excess(&[limit]), 2_000_000, "from 10 to 11, and from 10 to 12 less");
}
