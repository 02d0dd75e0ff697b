//! How calls travel to the store and back.

use super::plan::MILLISECOND;
use super::random::Random;
use crate::store::StoreError;

/// The way to the store and back, without faults.
const ROUND_TRIP: u64 = MILLISECOND;

/// What goes wrong on the way. Probabilities are from 0 to 1, times in µs.
#[derive(Clone, Debug, Default)]
pub(super) struct Network {
    pub(super) lost_request: f64,
    pub(super) lost_reply: f64,
    pub(super) late_request: f64,
    pub(super) late_reply: f64,
    /// How much is late, on average.
    pub(super) late: f64,
    /// A replica is cut off, from a time to another.
    pub(super) cut: Vec<(usize, u64, u64)>,
}

/// How a call fares.
#[derive(Clone, Debug)]
pub(super) enum Way {
    /// It reaches the store then.
    To { arrival: u64 },
    /// It never does, and its replica hears so then.
    Nowhere { error: StoreError, heard: u64 },
}

impl Network {
    pub(super) fn there(&self, replica: usize, now: u64, random: &mut Random) -> Way {
        let arrival = now + ROUND_TRIP / 2 + self.delay(self.late_request, random);
        if self.cut.iter().any(|(cut, from, to)| *cut == replica && (*from..*to).contains(&now)) {
            // Some connections are refused at once; others are found dead much later.
            return if random.chance(0.5) {
                Way::Nowhere { error: StoreError::Unreachable("cut off".to_owned()), heard: now + ROUND_TRIP }
            } else {
                Self::lost(now, random)
            };
        }
        if random.chance(self.lost_request) { Self::lost(now, random) } else { Way::To { arrival } }
    }

    /// The way of a reply: to the replica, at a time.
    pub(super) fn back(&self, now: u64, random: &mut Random) -> Way {
        let arrival = now + ROUND_TRIP / 2 + self.delay(self.late_reply, random);
        if random.chance(self.lost_reply) { Self::lost(now, random) } else { Way::To { arrival } }
    }

    fn lost(now: u64, random: &mut Random) -> Way {
        let heard = now + random.between(MILLISECOND, 100 * MILLISECOND);
        Way::Nowhere { error: StoreError::Lost("nothing came back".to_owned()), heard }
    }

    fn delay(&self, probability: f64, random: &mut Random) -> u64 {
        if random.chance(probability) { random.wait(self.late) } else { 0 }
    }
}
