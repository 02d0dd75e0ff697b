//! What one bucket for all replicas would have admitted: the measure of what many of them admit together.

use super::history::{Answer, Asked, History};
use super::limit::Limit;

/// Hits that one bucket of each limit for each key would have admitted, asked the same. When each request came to it is
/// known only to lie between being sent and being answered; it is given the time at which it admits less in all.
pub(super) fn admitted_by_one_bucket(history: &History, limits: &[Limit]) -> u64 {
    let (sent, answered) = (|asked: &Asked| asked.sent, |asked: &Asked| asked.answered);
    admitted_at(history, limits, sent).min(admitted_at(history, limits, answered))
}

fn admitted_at(history: &History, limits: &[Limit], time: impl Fn(&Asked) -> u64) -> u64 {
    let of_key = |mut asked: Vec<Asked>| {
        asked.sort_by_key(&time);
        let mut buckets: Vec<_> = limits.iter().map(|limit| Bucket::full(*limit, history)).collect();
        let mut admitted = 0;
        // What nobody answered has probably not arrived.
        for asked in asked.iter().filter(|asked| !asked.answer.is_failure()) {
            if buckets.iter_mut().all(|bucket| bucket.has(asked.hits, time(asked))) {
                for bucket in &mut buckets {
                    bucket.take(asked.hits);
                }
                admitted += u64::from(asked.hits);
            }
        }
        admitted
    };
    history.by_key().into_values().map(of_key).sum()
}

/// Both kinds count in hits times the period, which are whole numbers.
struct Bucket {
    limit: Limit,
    /// UTC at the start of the run, in µs.
    utc: u64,
    at: u64,
    left: u64,
}

impl Bucket {
    fn full(limit: Limit, history: &History) -> Self {
        Self { limit, utc: history.timeline.utc_not_after(0), at: 0, left: limit.burst * limit.period() }
    }

    fn has(&mut self, hits: u32, now: u64) -> bool {
        let (limit, before) = (&self.limit, self.at);
        self.at = now;
        let full = limit.burst * limit.period();
        if !limit.is_window {
            self.left = full.min(self.left + limit.amount * (now - before));
        } else if (self.utc + now) / limit.period() > (self.utc + before) / limit.period() {
            self.left = full;
        }
        u64::from(hits) * limit.period() <= self.left
    }

    fn take(&mut self, hits: u32) {
        self.left -= u64::from(hits) * self.limit.period();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replicas::timeline::Timeline;

    fn admitted(limits: &[Limit], asked: &[(u32, u64, u32)]) -> u64 {
        let asked = asked.iter().map(|&(key, sent, hits)| Asked {
            key,
            hits,
            replica: 0,
            sent,
            answered: sent,
            answer: Answer::Refused,
        });
        admitted_by_one_bucket(&History::new(Timeline::begin(), asked.collect()), limits)
    }

    #[test]
    fn a_token_bucket_begins_full_and_refills_to_the_microsecond() {
        let limits = [Limit::tokens(10, 1).burst(5)];
        assert_eq!(admitted(&limits, &[(1, 0, 5), (1, 99_999, 1), (1, 100_000, 1)]), 6);
        assert_eq!(admitted(&limits, &[(1, 0, 5), (1, 9_000_000, 6), (1, 9_000_000, 5)]), 10);
        assert_eq!(admitted(&limits, &[(1, 0, 5), (2, 0, 5)]), 10, "each key has its own");
    }

    #[test]
    fn a_window_gives_everything_back_when_it_ends() {
        let second = 1_000_000;
        let asked: Vec<_> = (0..4).map(|time| (1, time * second, 7)).collect();
        assert_eq!(admitted(&[Limit::window(7, 1)], &asked), 28);
        assert_eq!(admitted(&[Limit::window(7, 1)], &[(1, 0, 7), (1, 1, 7), (1, 2 * second, 7)]), 14);
    }

    #[test]
    fn of_two_limits_both_must_have_enough_and_a_refusal_takes_nothing() {
        let limits = [Limit::tokens(10, 1000), Limit::tokens(4, 1000)];
        assert_eq!(admitted(&limits, &[(1, 0, 5), (1, 0, 4), (1, 0, 1)]), 4);
    }
}
