use super::{Outcome, extra_hits};
use crate::limit::{Limit, Micros, TOKEN};
use crate::store::{Facts, Operation, Reply, epoch_length, scarce_hits};

/// The largest number that a script in Redis, which counts in doubles, tells from all others.
const MOST_EXACT: u64 = (1 << 53) - 1;

/// What all replicas together have used of a token bucket, leases included.
///
/// Time is cut into *epochs*. A lease granted in one ends with the next, so that what is out is known from two numbers,
/// however many replicas there are. At every instant `used` is at least what is out, and what is out is at least what
/// replicas may still spend; so what is free and what is held never exceed the burst together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedTokenBucket {
    /// Millionths of a token taken and not yet refilled, leases included.
    pub used: u64,
    /// The time up to which refill is settled.
    pub at: Micros,
    /// `amount` · µs that have passed and not yet yielded a millionth; less than a tick.
    pub carry: u64,
    /// When the current epoch began, and its name.
    pub epoch: Micros,
    /// Tokens leased in this epoch that are not known to be spent.
    pub out: u64,
    /// The same of the epoch before.
    pub out_before: u64,
    /// Millionths of a token refilled in this epoch, refunds included.
    pub refilled: u64,
}

impl SharedTokenBucket {
    /// A bucket that nobody has touched. Its first epoch begins now.
    #[must_use]
    pub const fn full(now: Micros) -> Self {
        Self { used: 0, at: now, carry: 0, epoch: now, out: 0, out_before: 0, refilled: 0 }
    }

    /// The fields of the hash in Redis, by name.
    #[must_use]
    pub const fn fields(&self) -> [(&'static str, u64); 7] {
        [
            ("used", self.used),
            ("at", self.at.0),
            ("carry", self.carry),
            ("epoch", self.epoch.0),
            ("out", self.out),
            ("out_before", self.out_before),
            ("refilled", self.refilled),
        ]
    }

    /// Brings the bucket to the present: epochs end, leases with them, and tokens flow back.
    ///
    /// It goes piece by piece, because refill stops at what is out and so depends on when leases end. After the ends of
    /// two epochs nothing is out any more, and however many more there were, they are one piece.
    pub(super) fn settle(&mut self, limit: &Limit, now: Micros) {
        let length = epoch_length(limit);
        if now < self.at {
            self.follow_clock_back(now, length);
        }
        for _ in 0..2 {
            if now >= self.epoch + length {
                self.begin_epoch(limit, self.epoch + length);
            }
        }
        if now >= self.epoch + length {
            let since_epoch_began = (now - self.epoch).0 % length.0;
            self.begin_epoch(limit, now - Micros(since_epoch_began));
        }
        self.refill(limit, now);
    }

    /// The clock has gone back. All that is out is taken over by a new epoch, whose name must never have been used:
    /// facts about the old ones must not touch it. Names are a whole number of epochs apart, so one that is out of
    /// step with them is new.
    fn follow_clock_back(&mut self, now: Micros, length: Micros) {
        let in_step = self.epoch.0.abs_diff(now.0).is_multiple_of(length.0);
        self.epoch = if in_step { now - Micros(1) } else { now };
        self.at = now;
        (self.out, self.out_before, self.refilled) = (self.out + self.out_before, 0, 0);
    }

    fn begin_epoch(&mut self, limit: &Limit, epoch: Micros) {
        self.refill(limit, epoch.max(self.at));
        self.epoch = epoch;
        (self.out, self.out_before, self.refilled) = (0, self.out, 0);
    }

    /// Lets tokens flow back until `until`, but never those that are out: they may still be spent. Time during which
    /// nothing else is used is never counted later.
    fn refill(&mut self, limit: &Limit, until: Micros) {
        let (amount, tick) = (u128::from(limit.amount()), u128::from(limit.tick()));
        let product = u128::from((until - self.at).0) * amount + u128::from(self.carry);
        self.at = until;
        let refillable = self.used - self.millionths_out();
        let gain = u64::try_from(product / tick).unwrap_or(u64::MAX).min(refillable);
        self.used -= gain;
        self.count_refilled(gain);
        #[expect(clippy::cast_possible_truncation, reason = "a remainder of tick, which is below 2^29")]
        {
            self.carry = if gain == refillable { 0 } else { (product % tick) as u64 };
        }
    }

    /// It can only reach the end of what is exact when the largest of bursts is refunded again and again in one epoch.
    fn count_refilled(&mut self, gain: u64) {
        self.refilled = (self.refilled + gain).min(MOST_EXACT);
    }

    const fn millionths_out(&self) -> u64 {
        (self.out + self.out_before) * TOKEN
    }

    /// Does what is asked. The bucket must be settled.
    pub(super) fn apply(&mut self, limit: &Limit, operation: &Operation) -> Outcome {
        match *operation {
            Operation::Acquire { needed, want, ref facts } => {
                let learned = self.learn(limit, facts);
                if needed > self.free(limit) {
                    let retry_after = self.wait(limit, needed);
                    return Outcome { granted: false, extra: 0, retry_after, moved: learned };
                }
                let extra = self.grant(limit, needed, want);
                Outcome { granted: true, extra, retry_after: Micros(0), moved: learned || needed + extra > 0 }
            }
            Operation::Refund { hits } => {
                let millionths = self.give_back(hits.saturating_mul(TOKEN));
                Outcome { granted: true, extra: millionths / TOKEN, retry_after: Micros(0), moved: millionths > 0 }
            }
            Operation::Debit { hits } => {
                let granted = hits <= self.free(limit);
                let moved = self.overdraw(limit, hits);
                Outcome { granted, extra: 0, retry_after: Micros(0), moved }
            }
        }
    }

    pub(super) fn reply(&self, limit: &Limit, outcome: Outcome, now: Micros) -> Reply {
        Reply {
            granted: outcome.granted,
            extra: outcome.extra,
            epoch: self.epoch.0,
            lease_time: self.leases_end(limit) - now,
            retry_after: outcome.retry_after,
            used: self.used,
            mark: self.refilled,
        }
    }

    /// When a lease that is granted in this epoch ends.
    fn leases_end(&self, limit: &Limit) -> Micros {
        self.epoch + epoch_length(limit) + epoch_length(limit)
    }

    /// Whole tokens that can be taken now.
    fn free(&self, limit: &Limit) -> u64 {
        (u64::from(limit.capacity()) * TOKEN).saturating_sub(self.used) / TOKEN
    }

    /// Takes what is needed, which must be free, and lends what is wanted, as far as it goes. Returns what is lent.
    fn grant(&mut self, limit: &Limit, needed: u64, want: u64) -> u64 {
        let extra = extra_hits(self.free(limit) - needed, scarce_hits(limit), want);
        self.used += (needed + extra) * TOKEN;
        self.out += extra;
        extra
    }

    /// How long until `needed` tokens are free, in whole ticks, if nothing is out: ten years at most.
    fn wait(&self, limit: &Limit, needed: u64) -> Micros {
        let missing = u128::from(needed) * u128::from(TOKEN) + u128::from(self.used)
            - u128::from(limit.capacity()) * u128::from(TOKEN);
        let ticks = missing.div_ceil(u128::from(limit.amount()));
        let wait = u64::try_from(ticks * u128::from(limit.tick())).unwrap_or(u64::MAX);
        Micros(wait).min(Limit::LONGEST_PERIOD)
    }

    /// Takes in what became of hits that were granted earlier. Returns whether anything has changed.
    pub(super) fn learn(&mut self, limit: &Limit, facts: &Facts) -> bool {
        let mut changed = false;
        for fact in &facts.leased {
            let spent = self.leave(limit, fact.epoch, fact.spent);
            let returned = self.leave(limit, fact.epoch, fact.returned);
            self.used -= returned * TOKEN;
            changed |= spent + returned > 0;
        }
        for fact in &facts.unused {
            if fact.epoch == self.epoch.0 {
                self.take_back_unused(fact.hits, fact.mark);
                changed = true;
            }
        }
        changed
    }

    /// At most `hits` leased in this epoch are no longer out. Of leases that are over nothing is out. Returns how many.
    fn leave(&mut self, limit: &Limit, epoch: u64, hits: u64) -> u64 {
        let out = if epoch == self.epoch.0 {
            &mut self.out
        } else if Micros(epoch) + epoch_length(limit) == self.epoch {
            &mut self.out_before
        } else {
            return 0;
        };
        let left = hits.min(*out);
        *out -= left;
        left
    }

    /// Hits were taken at `mark` and never spent. What has been refilled since then has given them back already.
    fn take_back_unused(&mut self, hits: u64, mark: u64) {
        // Nobody knows any more what has been refilled, so it may have been all of them.
        if self.refilled < MOST_EXACT {
            let refilled_since = self.refilled.saturating_sub(mark);
            let not_yet_refilled = hits.saturating_mul(TOKEN).saturating_sub(refilled_since);
            self.used -= not_yet_refilled.min(self.used - self.millionths_out());
        }
        self.carry = 0;
    }

    /// Puts so many millionths back, but not those of what is out. Returns how many.
    fn give_back(&mut self, millionths: u64) -> u64 {
        let given = millionths.min(self.used - self.millionths_out());
        if given > 0 {
            self.used -= given;
            self.count_refilled(given);
            self.carry = 0;
        }
        given
    }

    /// Takes hits even if they are not free; the balance goes below zero by one burst at most. Returns whether any
    /// were taken.
    fn overdraw(&mut self, limit: &Limit, hits: u64) -> bool {
        let most = 2 * u64::from(limit.capacity()) * TOKEN;
        let used = self.used.saturating_add(hits.saturating_mul(TOKEN)).min(most);
        let takes = used > self.used;
        self.used = self.used.max(used);
        takes
    }

    /// How long the store keeps the bucket: until all leases are over, and then for as long as it takes to be full.
    /// In milliseconds, rounded up; ten years at most.
    pub(super) fn lifetime_millis(&self, limit: &Limit, now: Micros) -> u64 {
        let ticks_to_full = self.used.div_ceil(u64::from(limit.amount()));
        let lifetime = (self.leases_end(limit) - now) + Micros(ticks_to_full.saturating_mul(limit.tick()));
        lifetime.0.div_ceil(1000).min(Limit::LONGEST_PERIOD.0 / 1000)
    }
}
