use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;

use super::key::BucketKey;
use crate::limit::Micros;

/// Buckets that hold leases, by when they are to be looked after.
///
/// A wheel: what is due in the same span of time lies in one place, so that putting in costs nothing and looking after
/// costs only what is due, however many buckets there are.
#[derive(Debug)]
pub(super) struct Agenda {
    places: Box<[Mutex<Vec<BucketKey>>]>,
    /// The number of the first span that has not been looked after, counted from time 0.
    next: AtomicU64,
    len: AtomicUsize,
}

impl Agenda {
    /// The span of one place.
    const SPAN: u64 = 20_000;
    /// 20 s in all, more than a quarter of the longest epoch.
    const PLACES: u64 = 1_000;

    pub(super) fn new(now: Micros) -> Self {
        Self {
            places: (0..Self::PLACES).map(|_| Mutex::default()).collect(),
            next: AtomicU64::new(now.0 / Self::SPAN),
            len: AtomicUsize::new(0),
        }
    }

    /// Puts in a bucket that is due at a time, or as late as the agenda reaches.
    pub(super) fn put(&self, key: BucketKey, due: Micros) {
        let next = self.next.load(Ordering::Relaxed);
        let span = (due.0 / Self::SPAN).clamp(next, next + Self::PLACES - 1);
        self.len.fetch_add(1, Ordering::Relaxed);
        self.place(span).lock().push(key);
    }

    /// Takes out everything that is due.
    pub(super) fn take_due(&self, now: Micros) -> Vec<BucketKey> {
        let end = now.0 / Self::SPAN;
        let begin = self.next.fetch_max(end, Ordering::Relaxed);
        // After a long sleep everything is due, once.
        let spans = begin..end.min(begin + Self::PLACES);
        let due: Vec<_> = spans.flat_map(|span| std::mem::take(&mut *self.place(span).lock())).collect();
        self.len.fetch_sub(due.len(), Ordering::Relaxed);
        due
    }

    /// How many are in it.
    pub(super) fn len(&self) -> usize {
        self.len.load(Ordering::Relaxed)
    }

    fn place(&self, span: u64) -> &Mutex<Vec<BucketKey>> {
        &self.places[(span % Self::PLACES) as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(low: u64) -> BucketKey {
        BucketKey { high: 0, low }
    }

    #[test]
    fn a_bucket_comes_out_once_when_its_time_has_passed() {
        let agenda = Agenda::new(Micros::from_seconds(5));
        agenda.put(key(1), Micros::from_seconds(6));
        agenda.put(key(2), Micros::from_seconds(7));
        agenda.put(key(3), Micros(0));
        assert_eq!(agenda.take_due(Micros(5_000_000 + Agenda::SPAN)), [key(3)]);
        assert_eq!(agenda.take_due(Micros::from_seconds(6)), []);
        assert_eq!(agenda.take_due(Micros(6_000_000 + Agenda::SPAN)), [key(1)]);
        assert_eq!(agenda.take_due(Micros::from_seconds(1_000)), [key(2)]);
        assert_eq!(agenda.take_due(Micros::from_seconds(2_000)), []);
    }

    #[test]
    fn what_is_due_beyond_the_agenda_comes_out_at_its_end() {
        let agenda = Agenda::new(Micros(0));
        agenda.put(key(1), Micros::from_seconds(1_000));
        assert_eq!(agenda.take_due(Micros(Agenda::SPAN * (Agenda::PLACES - 1))), []);
        assert_eq!(agenda.take_due(Micros(Agenda::SPAN * Agenda::PLACES)), [key(1)]);
    }
}
