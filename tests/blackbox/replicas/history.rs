//! What was asked, and what came of it.

use std::collections::BTreeMap;

use super::checker::{Admission, Worst, worst_interval};
use super::limit::Limit;
use super::timeline::Timeline;

/// One request and its answer. Times are in µs of the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    pub(super) key: u32,
    pub(super) hits: u32,
    pub(super) replica: u16,
    /// Not later than it was sent.
    pub(super) sent: u64,
    /// Not earlier than it was answered.
    pub(super) answered: u64,
    pub(super) answer: Answer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    Admitted,
    Refused,
    /// The service said that it cannot say: a limit was without its store, and is
    /// [unavailable](super::limit::Limit::or_unavailable) then.
    Unavailable,
    /// None came: there was no connection, or it broke.
    Failed,
}

impl Answer {
    /// Nobody said whether the request may pass.
    pub(super) fn is_failure(self) -> bool {
        matches!(self, Self::Unavailable | Self::Failed)
    }
}

impl Asked {
    pub(super) fn is_admitted(&self) -> bool {
        self.answer == Answer::Admitted
    }
}

/// All that was asked in a run.
#[derive(Debug)]
pub(super) struct History {
    pub(super) timeline: Timeline,
    /// In the order in which it was sent.
    pub(super) asked: Vec<Asked>,
}

impl History {
    pub(super) fn new(timeline: Timeline, mut asked: Vec<Asked>) -> Self {
        asked.sort_by_key(|asked| asked.sent);
        Self { timeline, asked }
    }

    /// What several loads of one run asked.
    pub(super) fn of_all(histories: impl IntoIterator<Item = Self>) -> Self {
        let mut histories = histories.into_iter();
        let Self { timeline, mut asked } = histories.next().expect("a history");
        asked.extend(histories.flat_map(|history| history.asked));
        Self::new(timeline, asked)
    }

    /// What was asked of it that is like this.
    pub(super) fn part(&self, which: impl Fn(&Asked) -> bool) -> Self {
        let asked = self.asked.iter().copied().filter(which).collect();
        Self { timeline: self.timeline, asked }
    }

    pub(super) fn count(&self, answer: Answer) -> usize {
        self.asked.iter().filter(|asked| asked.answer == answer).count()
    }

    /// How often nobody said whether a request may pass.
    pub(super) fn failures(&self) -> usize {
        self.count(Answer::Unavailable) + self.count(Answer::Failed)
    }

    /// Hits that were admitted to requests like these.
    pub(super) fn admitted(&self, which: impl Fn(&Asked) -> bool) -> u64 {
        self.asked.iter().filter(|asked| asked.is_admitted() && which(asked)).map(|asked| u64::from(asked.hits)).sum()
    }

    /// Each key with what was asked of it.
    pub(super) fn by_key(&self) -> BTreeMap<u32, Vec<Asked>> {
        let mut by_key = BTreeMap::<_, Vec<_>>::new();
        for asked in &self.asked {
            by_key.entry(asked.key).or_default().push(*asked);
        }
        by_key
    }

    /// The key and the interval in which a limit comes nearest to being exceeded, or exceeds it most. `None` if nothing
    /// was admitted at all.
    pub(super) fn worst(&self, limit: &Limit) -> Option<(u32, Worst)> {
        let of_keys = self.by_key().into_iter().filter_map(|(key, asked)| {
            let admitted = asked.iter().filter(|asked| asked.is_admitted());
            let admissions: Vec<_> = admitted.map(|asked| self.admission(asked, limit)).collect();
            Some((key, worst_interval(&admissions, limit.allowance())?))
        });
        of_keys.max_by_key(|(_, worst)| worst.over)
    }

    /// A token bucket's admissions lie between times, a fixed window's between windows of UTC.
    fn admission(&self, asked: &Asked, limit: &Limit) -> Admission {
        let hits = u64::from(asked.hits);
        if !limit.is_window {
            return Admission { from: asked.sent, until: asked.answered, hits };
        }
        let from = self.timeline.utc_not_after(asked.sent) / limit.period();
        let until = self.timeline.utc_not_before(asked.answered) / limit.period();
        Admission { from, until, hits }
    }
}
