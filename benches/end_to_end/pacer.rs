//! Says when requests are due.

use std::thread::sleep;
use std::time::Duration;

use comporta::clock::Clock;
use comporta::limit::Micros;
use tokio::sync::mpsc::UnboundedSender;

/// Tells of `count` requests, `rate` a second, each at the moment when it is due. It is for a thread of its own: a runtime's
/// timers know whole milliseconds only.
pub(crate) fn pace(clock: &Clock, rate: u64, count: u64, due: &UnboundedSender<Micros>) {
    let start = clock.now().monotonic;
    for n in 0..count {
        let at = start + Micros(n * 1_000_000 / rate);
        let pause = at - clock.now().monotonic;
        if pause > Micros(0) {
            sleep(Duration::from_micros(pause.0));
        }
        if due.send(at).is_err() {
            return;
        }
    }
}
