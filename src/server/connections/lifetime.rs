use std::time::Duration;

use tokio::time::Instant;

use crate::random::between;
use crate::settings::ConnectionSettings;

/// How much earlier or later than its age a connection may end, as a part of it: so that many which began together do not
/// end together.
const JITTER: f64 = 0.1;

/// In so many looks at an idle connection its time runs out.
const LOOKS: u32 = 4;

/// Where there is nothing to look at.
const FAR: Duration = Duration::from_secs(24 * 3600);

/// When a connection should end.
#[derive(Debug)]
pub(super) struct Lifetime {
    ends: Option<Instant>,
    grace: Duration,
    idle_timeout: Option<Duration>,
    /// Requests that had begun at the last look, and since when there are no more.
    begun: u64,
    idle_since: Instant,
    /// The client has been told to go.
    is_going: bool,
    next_look: Instant,
}

/// What is to be done about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    /// The client is asked to send no more requests, and those under way finish.
    GoAway,
    /// It ends at once.
    Cut,
}

impl Lifetime {
    pub(super) fn new(settings: &ConnectionSettings, now: Instant) -> Self {
        let age = Some(settings.max_connection_age).filter(|age| !age.is_zero());
        let ends = age.map(|age| now + between(age.mul_f64(1.0 - JITTER), age.mul_f64(1.0 + JITTER)));
        let mut lifetime = Self {
            ends,
            grace: settings.max_connection_age_grace,
            idle_timeout: Some(settings.idle_timeout).filter(|timeout| !timeout.is_zero()),
            begun: 0,
            idle_since: now,
            is_going: false,
            next_look: now,
        };
        lifetime.plan(now);
        lifetime
    }

    pub(super) const fn next_look(&self) -> Instant {
        self.next_look
    }

    /// Looks at a connection on which so many requests have begun.
    pub(super) fn look(&mut self, begun: u64, now: Instant) -> Due {
        if self.is_going {
            return Due::Cut;
        }
        if begun != self.begun {
            (self.begun, self.idle_since) = (begun, now);
        }
        let is_idle = self.idle_timeout.is_some_and(|timeout| now >= self.idle_since + timeout);
        if is_idle || self.ends.is_some_and(|ends| now >= ends) {
            self.is_going = true;
            self.next_look = now + self.grace;
            return Due::GoAway;
        }
        self.plan(now);
        Due::Nothing
    }

    fn plan(&mut self, now: Instant) {
        let idle_look = self.idle_timeout.map(|timeout| now + timeout / LOOKS);
        self.next_look = [self.ends, idle_look].into_iter().flatten().min().unwrap_or(now + FAR);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(age: u64, idle: u64) -> ConnectionSettings {
        ConnectionSettings {
            max_connection_age: Duration::from_secs(age),
            max_connection_age_grace: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(idle),
            keepalive_interval: Duration::ZERO,
            keepalive_timeout: Duration::ZERO,
            max_connections: 1,
            max_concurrent_streams: 1,
            max_requests: 1,
            max_request_bytes: 1,
        }
    }

    /// Looks when it is time to, until something is due; how long that took.
    fn live(mut lifetime: Lifetime, start: Instant, begun: impl Fn(Duration) -> u64) -> (Duration, Lifetime) {
        loop {
            let now = lifetime.next_look();
            match lifetime.look(begun(now - start), now) {
                Due::Nothing => {}
                Due::GoAway => return (now - start, lifetime),
                Due::Cut => panic!("cut before it was told to go"),
            }
        }
    }

    #[test]
    fn a_busy_connection_ends_of_age_give_or_take_a_tenth() {
        let start = Instant::now();
        let ages: Vec<_> = (0..100)
            .map(|_| live(Lifetime::new(&settings(1000, 60), start), start, |time| time.as_secs()).0.as_secs())
            .collect();
        let (shortest, longest) = (ages.iter().min().unwrap(), ages.iter().max().unwrap());
        assert!((900..950).contains(shortest) && (1050..=1100).contains(longest), "{ages:?}");
    }

    #[test]
    fn an_idle_connection_ends_when_nothing_has_come_for_the_timeout() {
        let start = Instant::now();
        let (idle, _) = live(Lifetime::new(&settings(0, 60), start), start, |_| 0);
        assert_eq!(idle.as_secs(), 60);
        // The last request comes after 100 s.
        let (idle, _) = live(Lifetime::new(&settings(0, 60), start), start, |time| time.as_secs().min(100));
        assert!((160..=180).contains(&idle.as_secs()), "{idle:?}");
    }

    #[test]
    fn it_is_cut_after_the_grace() {
        let start = Instant::now();
        let (age, mut lifetime) = live(Lifetime::new(&settings(1000, 0), start), start, |_| 0);
        assert_eq!(lifetime.next_look(), start + age + Duration::from_secs(10));
        assert_eq!(lifetime.look(0, lifetime.next_look()), Due::Cut);
    }

    #[test]
    fn without_either_it_lives_on() {
        let start = Instant::now();
        let mut lifetime = Lifetime::new(&settings(0, 0), start);
        for _ in 0..100 {
            assert_eq!(lifetime.look(0, lifetime.next_look()), Due::Nothing);
        }
    }
}
