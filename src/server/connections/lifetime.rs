use std::time::Duration;

use tokio::time::Instant;

use super::traffic::Seen;
use crate::random::between;
use crate::settings::ConnectionSettings;

/// How much earlier or later than its age a connection may end, as a part of it: so that many which began together do not
/// end together.
const JITTER: f64 = 0.1;

/// In so many looks at an idle connection its time runs out.
const LOOKS: u32 = 4;

/// When the process stops, a connection on which nothing has been under way for so long, and nothing was sent, is cut: its
/// client does not answer to being told to go. So long, because answers are on their way for a while after they are made.
const QUIET: Duration = Duration::from_secs(1);

/// Where there is nothing to look at.
const FAR: Duration = Duration::from_secs(24 * 3600);

/// When a connection should end.
#[derive(Debug)]
pub(super) struct Lifetime {
    ends: Option<Instant>,
    grace: Duration,
    idle_timeout: Option<Duration>,
    /// What had happened at the last look, and since when no request has come.
    seen: Seen,
    idle_since: Instant,
    /// The client has been told to go, and this is when it must have gone.
    cut_at: Option<Instant>,
    /// The process stops, and nothing has been under way since then.
    quiet_since: Option<Instant>,
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
            seen: Seen::default(),
            idle_since: now,
            cut_at: None,
            quiet_since: None,
            next_look: now,
        };
        lifetime.plan(now);
        lifetime
    }

    pub(super) const fn next_look(&self) -> Instant {
        self.next_look
    }

    /// The process stops, and the client has been told to go.
    pub(super) fn stop(&mut self, now: Instant) {
        self.quiet_since = Some(now);
        self.plan(now);
    }

    /// Looks at a connection on which so much has happened.
    pub(super) fn look(&mut self, seen: Seen, now: Instant) -> Due {
        if seen.is_under_way() || seen != self.seen {
            self.quiet_since = self.quiet_since.map(|_| now);
        }
        if seen.begun != self.seen.begun {
            self.idle_since = now;
        }
        self.seen = seen;
        let is_quiet = self.quiet_since.is_some_and(|since| now >= since + QUIET);
        if is_quiet || self.cut_at.is_some_and(|cut_at| now >= cut_at) {
            return Due::Cut;
        }
        let is_told = self.cut_at.is_some() || self.quiet_since.is_some();
        let is_idle = self.idle_timeout.is_some_and(|timeout| now >= self.idle_since + timeout);
        let is_over = is_idle || self.ends.is_some_and(|ends| now >= ends);
        let due = if is_over && !is_told { Due::GoAway } else { Due::Nothing };
        if due == Due::GoAway {
            self.cut_at = Some(now + self.grace);
        }
        self.plan(now);
        due
    }

    fn plan(&mut self, now: Instant) {
        let idle_look = self.idle_timeout.map(|timeout| now + timeout / LOOKS);
        let looks = match (self.quiet_since, self.cut_at) {
            (Some(_), cut_at) => [Some(now + QUIET / LOOKS), cut_at],
            (None, Some(cut_at)) => [Some(cut_at), None],
            (None, None) => [self.ends, idle_look],
        };
        self.next_look = looks.into_iter().flatten().min().unwrap_or(now + FAR);
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

    /// So many requests have come, and have been answered.
    fn answered(requests: u64) -> Seen {
        Seen { begun: requests, ended: requests, writes: requests, is_stuck: false }
    }

    /// Looks when it is time to, until something is due; how long that took.
    fn live(mut lifetime: Lifetime, start: Instant, begun: impl Fn(Duration) -> u64) -> (Duration, Lifetime) {
        loop {
            let now = lifetime.next_look();
            match lifetime.look(answered(begun(now - start)), now) {
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
        assert_eq!(lifetime.look(answered(0), lifetime.next_look()), Due::Cut);
    }

    #[test]
    fn without_either_it_lives_on() {
        let start = Instant::now();
        let mut lifetime = Lifetime::new(&settings(0, 0), start);
        for _ in 0..100 {
            assert_eq!(lifetime.look(answered(0), lifetime.next_look()), Due::Nothing);
        }
    }

    /// Looks at a connection of a process that stops until it is cut; how long after the stop that is.
    fn stop(mut lifetime: Lifetime, start: Instant, seen: impl Fn(Duration) -> Seen) -> Duration {
        lifetime.stop(start);
        loop {
            let now = lifetime.next_look();
            match lifetime.look(seen(now - start), now) {
                Due::Nothing => assert!(now < start + FAR, "it is never cut"),
                Due::GoAway => panic!("it has been told already"),
                Due::Cut => return now - start,
            }
        }
    }

    #[test]
    fn when_the_process_stops_it_is_cut_once_nothing_has_been_under_way_for_a_second() {
        let start = Instant::now();
        let lifetime = || Lifetime::new(&settings(1000, 60), start);
        let quiet = |time: Duration| time.as_millis();
        assert_eq!(quiet(stop(lifetime(), start, |_| answered(0))), 1000);
        // The answer is made after three seconds, and has been sent after five.
        let slow = stop(lifetime(), start, |time| Seen {
            begun: 1,
            ended: (time.as_secs() >= 3).into(),
            writes: time.as_secs().min(5),
            is_stuck: false,
        });
        assert!((6000..=6250).contains(&quiet(slow)), "{slow:?}");
        // One that lasts has all the time that is left.
        let under_way = stop(Lifetime::new(&settings(0, 0), start), start, |time| Seen {
            begun: 1,
            ended: (time.as_secs() >= 1000).into(),
            ..Seen::default()
        });
        assert!(under_way.as_secs() > 1000, "{under_way:?}");
        // So has one whose client does not take what is sent.
        let stuck = stop(Lifetime::new(&settings(0, 0), start), start, |time| Seen {
            is_stuck: time.as_secs() < 1000,
            ..Seen::default()
        });
        assert!(stuck.as_secs() > 1000, "{stuck:?}");
    }

    #[test]
    fn one_that_is_of_age_when_the_process_stops_has_no_more_time_than_before() {
        let start = Instant::now();
        let (age, mut lifetime) = live(Lifetime::new(&settings(1000, 0), start), start, |_| 0);
        let told = start + age;
        lifetime.stop(told + Duration::from_secs(9));
        let under_way = Seen { begun: 1, ..Seen::default() };
        assert_eq!(lifetime.look(under_way, told + Duration::from_millis(9900)), Due::Nothing);
        assert_eq!(lifetime.next_look(), told + Duration::from_secs(10));
        assert_eq!(lifetime.look(under_way, lifetime.next_look()), Due::Cut);
    }
}
