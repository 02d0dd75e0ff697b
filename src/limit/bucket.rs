use super::{Algorithm, FixedWindow, Limit, Micros, Now, TokenBucket};

/// What a request does to a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hits {
    /// Takes so many, at least 1, if they are free.
    Take(u64),
    /// Takes nothing, and passes if one could be taken.
    Look,
    /// Puts so many back, and always passes.
    GiveBack(u64),
}

impl Hits {
    /// How many must be free for this to pass.
    #[must_use]
    pub const fn needed(self) -> u64 {
        match self {
            Self::Take(hits) => hits,
            Self::Look => 1,
            Self::GiveBack(_) => 0,
        }
    }
}

/// The state of one limit for one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bucket {
    Token(TokenBucket),
    Window(FixedWindow),
}

impl Bucket {
    /// The bucket of a key that has used nothing of `limit`.
    #[must_use]
    pub fn unused(limit: &Limit, now: Now) -> Self {
        match limit.algorithm() {
            Algorithm::TokenBucket => Self::Token(TokenBucket::full(now.monotonic)),
            Algorithm::FixedWindow => {
                let mut window = FixedWindow::UNUSED;
                window.settle(limit, now.utc);
                Self::Window(window)
            }
        }
    }

    /// A bucket of which the store says that so much is used: millionths of a token, or hits of a window that ends in
    /// `ends_in`.
    #[must_use]
    pub const fn known(limit: &Limit, used: u64, ends_in: Micros, now: Now) -> Self {
        match limit.algorithm() {
            Algorithm::TokenBucket => Self::Token(TokenBucket::with_used(used, now.monotonic)),
            Algorithm::FixedWindow => {
                Self::Window(FixedWindow::with_used(used, Micros(now.utc.0.saturating_add(ends_in.0))))
            }
        }
    }

    /// Brings the bucket to the present.
    pub fn settle(&mut self, limit: &Limit, now: Now) {
        match self {
            Self::Token(bucket) => bucket.settle(limit, now.monotonic),
            Self::Window(window) => window.settle(limit, now.utc),
        }
    }

    /// Does what `hits` says, if it can be done, and tells whether it passes. With `overdraft`, hits that are not
    /// free do not pass and are taken all the same. The bucket must be settled.
    pub fn apply(&mut self, limit: &Limit, hits: Hits, overdraft: bool) -> bool {
        let passes = hits.needed() <= self.free(limit);
        match (self, hits) {
            (Self::Token(bucket), Hits::Take(n)) if passes => bucket.take(limit, n),
            (Self::Window(window), Hits::Take(n)) if passes => window.take(limit, n),
            (Self::Token(bucket), Hits::Take(n)) if overdraft => bucket.overdraw(limit, n),
            (Self::Window(window), Hits::Take(n)) if overdraft => window.overdraw(limit, n),
            (bucket, Hits::GiveBack(n)) => bucket.give_back(n),
            (_, Hits::Take(_) | Hits::Look) => {}
        }
        passes
    }

    /// Takes `hits`, whether or not they are free: somebody who knows better has granted them.
    pub fn charge(&mut self, hits: u64) {
        match self {
            Self::Token(bucket) => bucket.charge(hits),
            Self::Window(window) => window.charge(hits),
        }
    }

    /// Puts `hits` back, as far as they have been taken.
    pub fn give_back(&mut self, hits: u64) {
        match self {
            Self::Token(bucket) => bucket.give_back(hits),
            Self::Window(window) => window.give_back(hits),
        }
    }

    /// Whether the bucket is as if it had never been touched.
    #[must_use]
    pub const fn is_unused(&self) -> bool {
        match self {
            Self::Token(bucket) => bucket.is_full(),
            Self::Window(window) => window.is_unused(),
        }
    }

    /// Whole hits used, rounded up: more than the capacity if the bucket is overdrawn.
    #[must_use]
    pub const fn used(&self) -> u64 {
        match self {
            Self::Token(bucket) => bucket.used(),
            Self::Window(window) => window.used(),
        }
    }

    /// Whole hits that can be taken now, 0 to the capacity.
    #[must_use]
    pub fn free(&self, limit: &Limit) -> u64 {
        match self {
            Self::Token(bucket) => bucket.free(limit),
            Self::Window(window) => window.free(limit),
        }
    }

    /// When nothing is used any more, if nobody touches the bucket: by the clock that it goes by, monotonic for tokens
    /// and UTC for windows.
    #[must_use]
    pub fn full_at(&self, limit: &Limit) -> Micros {
        match self {
            Self::Token(bucket) => bucket.full_at(limit),
            Self::Window(window) => window.ends(),
        }
    }

    /// How long it is until a time by the clock that the bucket goes by.
    #[must_use]
    pub fn until(&self, time: Micros, now: Now) -> Micros {
        match self {
            // Another thread may have read the clock later and come first.
            Self::Token(bucket) => time - now.monotonic.max(bucket.settled_until()),
            Self::Window(_) => time - now.utc,
        }
    }

    /// How long until nothing is used any more.
    #[must_use]
    pub fn until_full(&self, limit: &Limit, now: Now) -> Micros {
        self.until(self.full_at(limit), now)
    }

    /// How long until `hits` pass that do not pass now. Hits above the capacity never pass; for them it is the time
    /// until the bucket is full.
    #[must_use]
    pub fn until_free(&self, limit: &Limit, hits: Hits, now: Now) -> Micros {
        match self {
            Self::Token(bucket) if hits.needed() <= u64::from(limit.capacity()) => bucket.wait(limit, hits.needed()),
            _ => self.until_full(limit, now),
        }
    }
}
