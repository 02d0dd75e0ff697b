//! What was admitted, held against what may be.

use crate::limit::{Algorithm, Limit, TOKEN};

/// Hits that were admitted: at some instant between the time at which the request came (`from`) and that at which it was
/// answered (`to`). Hits that were given back are negative, and came back at one instant.
#[derive(Clone, Copy, Debug)]
struct Admission {
    from: u64,
    to: u64,
    /// Millionths of a hit.
    millionths: i128,
}

/// All that was admitted of one bucket.
#[derive(Debug)]
pub(super) struct Record {
    limit: Limit,
    /// The largest limit that any replica had counts.
    most_amount: u64,
    most_capacity: u64,
    admissions: Vec<Admission>,
    /// When the store first spoke of a window, and which.
    windows: Vec<(u64, u64)>,
}

impl Record {
    pub(super) fn new(limit: Limit) -> Self {
        let (most_amount, most_capacity) = (limit.amount().into(), limit.capacity().into());
        Self { limit, most_amount, most_capacity, admissions: Vec::new(), windows: vec![(0, 0)] }
    }

    /// Another limit counts, somewhere.
    pub(super) fn allow(&mut self, limit: &Limit) {
        self.most_amount = self.most_amount.max(limit.amount().into());
        self.most_capacity = self.most_capacity.max(limit.capacity().into());
    }

    pub(super) fn admit(&mut self, from: u64, to: u64, hits: u64) {
        self.admissions.push(Admission { from, to, millionths: i128::from(hits) * i128::from(TOKEN) });
    }

    /// The store has given back so many millionths of a hit.
    pub(super) fn give_back(&mut self, now: u64, millionths: u64) {
        self.admissions.push(Admission { from: now, to: now, millionths: -i128::from(millionths) });
    }

    /// The store counts in this window.
    pub(super) fn see_window(&mut self, now: u64, window: u64) {
        if self.windows.last().is_none_or(|(_, last)| *last != window) {
            self.windows.push((now, window));
        }
    }

    /// The most hits by which any interval exceeds the limit; negative if none does. A request may count at any instant
    /// between its arrival and its answer, so an interval has all that came after its begin and was answered before its
    /// end.
    pub(super) fn excess(&self) -> f64 {
        match self.limit.algorithm() {
            Algorithm::TokenBucket => self.excess_of_intervals(),
            Algorithm::FixedWindow => self.excess_of_windows(),
        }
    }

    fn excess_of_intervals(&self) -> f64 {
        let mut begins: Vec<u64> = self.admissions.iter().map(|admission| admission.from).collect();
        begins.sort_unstable();
        begins.dedup();
        // What comes back at an instant is there for what is admitted in it.
        let mut in_order: Vec<&Admission> = self.admissions.iter().collect();
        in_order.sort_by_key(|admission| (admission.to, admission.millionths));
        let (amount, period) = (i128::from(self.most_amount), i128::from(self.limit.period().0));
        let million = i128::from(TOKEN);
        // In millionths of a hit, times the period: so all is exact.
        let mut intervals = Intervals::new(begins.len());
        let mut worst = -i128::from(self.most_capacity) * million * period;
        let mut begun = 0;
        for admission in in_order {
            let end = admission.to;
            while begun < begins.len() && begins[begun] <= end {
                intervals.begin(begun, amount * i128::from(begins[begun]) * million);
                begun += 1;
            }
            let index = begins.partition_point(|begin| *begin < admission.from);
            intervals.add(index, admission.millionths * period);
            let allowed = (amount * i128::from(end) + i128::from(self.most_capacity) * period) * million;
            worst = worst.max(intervals.best() - allowed);
        }
        quotient(worst, period * million)
    }

    fn excess_of_windows(&self) -> f64 {
        let window_at = |time: u64| self.windows.partition_point(|(seen, _)| *seen <= time) - 1;
        let mut worst = i128::MIN;
        for first in 0..self.windows.len() {
            // By the last window in which it can count, of all that can count in no window before the first.
            let mut by_last = vec![0_i128; self.windows.len()];
            for admission in self.admissions.iter().filter(|admission| window_at(admission.from) >= first) {
                by_last[window_at(admission.to)] += admission.millionths;
            }
            let mut total = 0;
            for (last, millionths) in by_last.iter().enumerate().skip(first) {
                total += millionths;
                let allowed = i128::from(self.most_amount) * i128::from(TOKEN) * (last - first + 1) as i128;
                worst = worst.max(total - allowed);
            }
        }
        quotient(worst, i128::from(TOKEN))
    }
}

/// All intervals that end now, by their begins; the value of one is what was admitted in it, and what must not be
/// counted as allowed because it flowed before it began.
///
/// A tree of sums: a node knows the total of its part, and the best value of an interval that begins in it, of what
/// is in its part.
struct Intervals {
    size: usize,
    nodes: Vec<(i128, i128)>,
}

impl Intervals {
    const NOT_BEGUN: i128 = i128::MIN / 4;

    fn new(begins: usize) -> Self {
        let size = begins.next_power_of_two();
        Self { size, nodes: vec![(0, Self::NOT_BEGUN); 2 * size] }
    }

    fn begin(&mut self, index: usize, flowed_before: i128) {
        let total = self.nodes[self.size + index].0;
        self.set(index, (total, flowed_before + total));
    }

    /// Adds to all intervals that begin with this one or earlier.
    fn add(&mut self, index: usize, admitted: i128) {
        let (total, best) = self.nodes[self.size + index];
        self.set(index, (total + admitted, best + admitted));
    }

    fn set(&mut self, index: usize, value: (i128, i128)) {
        let mut node = self.size + index;
        self.nodes[node] = value;
        while node > 1 {
            node /= 2;
            let (earlier, later) = (self.nodes[2 * node], self.nodes[2 * node + 1]);
            self.nodes[node] = (earlier.0 + later.0, later.1.max(earlier.1 + later.0));
        }
    }

    fn best(&self) -> i128 {
        self.nodes[1].1
    }
}

#[expect(clippy::cast_precision_loss, reason = "its sign is exact, and only the sign must be")]
fn quotient(dividend: i128, divisor: i128) -> f64 {
    dividend as f64 / divisor as f64
}

/// One bucket for each limit that everybody asks, without any delay.
#[derive(Debug)]
pub(super) struct Central {
    buckets: Vec<(Limit, crate::limit::Bucket)>,
    /// The cost of all that it has admitted.
    pub(super) passed: u64,
}

impl Central {
    pub(super) fn new(limits: &[Limit], now: crate::limit::Now) -> Self {
        let buckets = limits.iter().map(|limit| (*limit, crate::limit::Bucket::unused(limit, now))).collect();
        Self { buckets, passed: 0 }
    }

    /// A request that has to pass all limits.
    pub(super) fn ask(&mut self, cost: u64, now: crate::limit::Now) {
        for (limit, bucket) in &mut self.buckets {
            bucket.settle(limit, now);
        }
        if self.buckets.iter().all(|(limit, bucket)| cost <= bucket.free(limit)) {
            self.buckets.iter_mut().for_each(|(_, bucket)| bucket.charge(cost));
            self.passed += cost;
        }
    }
}

mod tests {
    use super::*;
    use crate::limit::Unit;

    /// 10 a second, at most 10 at once.
    fn record(admissions: &[(u64, u64, u64)]) -> Record {
        let mut record = Record::new(Limit::per(10, Unit::Second, Algorithm::TokenBucket));
        for (from, to, hits) in admissions {
            record.admit(*from, *to, *hits);
        }
        record
    }

    fn excess(admissions: &[(u64, u64, u64)]) -> f64 {
        record(admissions).excess()
    }

    #[test]
    fn the_burst_and_what_flows_are_no_excess_and_more_is() {
        assert!((excess(&[]) + 10.0).abs() < 1e-9);
        assert!(excess(&[(0, 0, 10), (100_000, 100_000, 1), (500_000, 500_000, 4)]).abs() < 1e-9);
        assert!((excess(&[(0, 0, 10), (99_999, 99_999, 1)]) - 0.000_01).abs() < 1e-9);
        assert!((excess(&[(0, 0, 1), (9_000_000, 9_000_000, 12)]) - 2.0).abs() < 1e-9);
    }

    #[test]
    fn a_request_counts_at_the_best_instant_between_arrival_and_answer() {
        assert!(excess(&[(0, 0, 10), (0, 100_000, 1)]).abs() < 1e-9);
        assert!(excess(&[(0, 100_000, 1), (100_000, 100_000, 10)]).abs() < 1e-9);
        assert!(excess(&[(0, 100_000, 1), (0, 0, 5), (100_000, 100_000, 5)]) < 0.0 + 1e-9);
        assert!((excess(&[(0, 50_000, 6), (50_000, 100_000, 6)]) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_came_back_may_be_admitted_again_but_not_before() {
        let mut before = record(&[(0, 0, 10), (5, 5, 3)]);
        before.give_back(5, 3 * TOKEN);
        assert!(before.excess() < 0.0 + 1e-9);
        let mut after = record(&[(0, 0, 10), (5, 5, 3)]);
        after.give_back(6, 3 * TOKEN);
        assert!(after.excess() > 2.0);
    }

    #[test]
    fn a_window_admits_its_amount_and_a_request_between_two_counts_in_either() {
        let windows = |admissions: &[(u64, u64, u64)]| {
            let mut record = Record::new(Limit::per(10, Unit::Second, Algorithm::FixedWindow));
            for (from, to, hits) in admissions {
                record.admit(*from, *to, *hits);
            }
            record.see_window(5, 17);
            record.see_window(100, 18);
            record.see_window(200, 19);
            record.excess()
        };
        assert!(windows(&[(5, 5, 10), (99, 100, 3), (150, 150, 7), (200, 200, 10)]).abs() < 1e-9);
        assert!((windows(&[(5, 5, 10), (99, 100, 3), (150, 150, 8)]) - 1.0).abs() < 1e-9);
        assert!((windows(&[(5, 99, 8), (5, 99, 3)]) - 1.0).abs() < 1e-9);
    }
}
