/// Why the store did not answer a call. Callers decide by kind; the text is for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// There was no connection in time. Nothing was sent.
    #[error("the store cannot be reached: {0}")]
    Unreachable(String),
    /// The call was sent and no answer came. Whether it was done is unknown, so it must never be sent again.
    #[error("the store did not answer: {0}")]
    Lost(String),
    /// Another server is responsible, and this one did nothing.
    #[error("the store's server has changed: {0}")]
    Misrouted(String),
    /// The server understood and did nothing: it is loading, out of memory, or forbids it.
    #[error("the store refuses: {0}")]
    Refused(String),
    /// The bucket or the answer is not what our script makes.
    #[error("the script failed: {0}")]
    Malformed(String),
}

impl StoreError {
    /// The names of all kinds, for telemetry.
    pub const KINDS: [&str; 5] = ["unreachable", "lost", "misrouted", "refused", "malformed"];

    /// The name of its kind.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        Self::KINDS[self.kind_index()]
    }

    /// Its place among [`KINDS`](Self::KINDS).
    #[must_use]
    pub const fn kind_index(&self) -> usize {
        match self {
            Self::Unreachable(_) => 0,
            Self::Lost(_) => 1,
            Self::Misrouted(_) => 2,
            Self::Refused(_) => 3,
            Self::Malformed(_) => 4,
        }
    }

    /// Whether it is certain that the call did nothing. Its facts may be told again then.
    #[must_use]
    pub const fn nothing_ran(&self) -> bool {
        matches!(self, Self::Unreachable(_) | Self::Misrouted(_) | Self::Refused(_))
    }

    /// The cause alone.
    #[must_use]
    pub fn cause(&self) -> &str {
        match self {
            Self::Unreachable(cause)
            | Self::Lost(cause)
            | Self::Misrouted(cause)
            | Self::Refused(cause)
            | Self::Malformed(cause) => cause,
        }
    }

    /// Whether another call may succeed at once.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Lost(_))
    }
}
