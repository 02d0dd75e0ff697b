use super::{Limit, Micros};

/// A token, in the unit in which buckets count: millionths.
pub const TOKEN: u64 = 1_000_000;

/// What one key has used of a token-bucket limit.
///
/// Imagine a bucket that holds `burst` tokens and starts full. Every hit takes one out, and tokens flow back evenly,
/// `amount` in each period, until the bucket is full. So a quiet client may send `burst` at once, and in any interval
/// of length T nobody is let through more than burst + rate · T times.
///
/// The bucket remembers what was *used* and has not flowed back, not what is left: when the limit is raised the new
/// tokens are there at once, and what was spent stays spent. A *tick*, a millionth of the period, yields exactly
/// `amount` millionths of a token, and what is left of a tick is carried, so nothing ever drifts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    /// Millionths of a token taken and not yet refilled: 0 is a full bucket, above the burst an overdrawn one.
    used: u64,
    /// The time up to which refill is settled.
    at: Micros,
    /// `amount` · µs that have passed and not yet yielded a millionth; less than a tick.
    carry: u32,
}

impl TokenBucket {
    /// A bucket from which nothing has been taken.
    #[must_use]
    pub const fn full(now: Micros) -> Self {
        Self { used: 0, at: now, carry: 0 }
    }

    /// A bucket of which so many millionths of a token are used.
    #[must_use]
    pub const fn with_used(used: u64, now: Micros) -> Self {
        Self { used, at: now, carry: 0 }
    }

    #[must_use]
    pub const fn is_full(&self) -> bool {
        self.used == 0
    }

    /// Lets the tokens flow back that belong to the time until `now`. A time before the last one changes nothing:
    /// of two readers of one clock the later one may come first.
    pub fn settle(&mut self, limit: &Limit, now: Micros) {
        if now <= self.at {
            return;
        }
        let elapsed = (now - self.at).0;
        self.at = now;
        // Below 2^61: the amount is below 2^32, the rest of a tick and the carry are below 2^29.
        let (amount, tick) = (u64::from(limit.amount()), limit.tick());
        debug_assert!(u64::from(self.carry) < tick, "a whole tick is not carried");
        let part = amount * (elapsed % tick) + u64::from(self.carry);
        let gain = amount.saturating_mul(elapsed / tick).saturating_add(part / tick);
        if gain < self.used {
            self.used -= gain;
            #[expect(clippy::cast_possible_truncation, reason = "a remainder of tick, which is below 2^29")]
            {
                self.carry = (part % tick) as u32;
            }
        } else {
            (self.used, self.carry) = (0, 0);
        }
    }

    /// The time until which tokens have flowed back.
    #[must_use]
    pub const fn settled_until(&self) -> Micros {
        self.at
    }

    /// Whole tokens taken and not yet refilled, rounded up: more than the burst if the bucket is overdrawn.
    #[must_use]
    pub const fn used(&self) -> u64 {
        self.used.div_ceil(TOKEN)
    }

    /// Whole tokens that can be taken now, 0 to the burst.
    #[must_use]
    pub fn free(&self, limit: &Limit) -> u64 {
        (u64::from(limit.capacity()) * TOKEN).saturating_sub(self.used) / TOKEN
    }

    /// Takes `hits` tokens, which must be free.
    pub fn take(&mut self, limit: &Limit, hits: u64) {
        debug_assert!(hits <= self.free(limit), "{hits} hits are not free");
        self.used += hits * TOKEN;
    }

    /// Takes `hits` tokens even if they are not free; the balance goes below zero by one burst at most.
    pub fn overdraw(&mut self, limit: &Limit, hits: u64) {
        let most = 2 * u64::from(limit.capacity()) * TOKEN;
        let used = self.used.saturating_add(hits.saturating_mul(TOKEN)).min(most);
        self.used = self.used.max(used);
    }

    /// Takes `hits` tokens, whether or not they are free.
    pub const fn charge(&mut self, hits: u64) {
        self.used = self.used.saturating_add(hits.saturating_mul(TOKEN));
    }

    /// Puts `hits` tokens back, as far as they have been taken.
    pub fn give_back(&mut self, hits: u64) {
        self.used = self.used.saturating_sub(hits.saturating_mul(TOKEN));
        if self.used == 0 {
            self.carry = 0;
        }
    }

    /// When the bucket is full again if nobody touches it.
    #[must_use]
    pub fn full_at(&self, limit: &Limit) -> Micros {
        self.at + self.wait(limit, u64::from(limit.capacity()))
    }

    /// How long after the last [`settle`](Self::settle) `hits` tokens, at most the burst, are free: 0 if they are now,
    /// and ten years at most. With a limit of 0 they never are, and the answer is one period.
    #[must_use]
    pub fn wait(&self, limit: &Limit, hits: u64) -> Micros {
        let usable = u64::from(limit.capacity()).saturating_sub(hits) * TOKEN;
        let missing = self.used.saturating_sub(usable);
        if missing == 0 {
            return Micros(0);
        }
        let (amount, tick, carry) = (u64::from(limit.amount()), limit.tick(), u64::from(self.carry));
        if amount == 0 {
            return limit.period();
        }
        // The first t at which amount · t + carry >= missing · tick. The product nearly always fits 64 bits, in which
        // the division is many times faster.
        let wait = if let Some(product) = missing.checked_mul(tick) {
            (product - carry).div_ceil(amount)
        } else {
            let product = u128::from(missing) * u128::from(tick);
            u64::try_from((product - u128::from(carry)).div_ceil(amount.into())).unwrap_or(u64::MAX)
        };
        Micros(wait).min(Limit::LONGEST_PERIOD)
    }
}
