//! The fault table: what befalls Redis and the network, and what its users notice. `scripts/faults` prints it, and
//! `docs/faults.md` explains it.
//!
//! In each row two replicas are asked by a bounded load for one limit of each failure mode. The fault comes, lasts, and
//! goes. Each row [judges](judge) the same promises, and prints one [line] of figures, which are not judged: a machine
//! may be busy.

mod judge;
mod line;
mod mode;
mod outage;
mod row;
mod scene;

use std::thread::sleep;
use std::time::Duration;

use self::row::{Reach, Row};
use self::scene::Fault;
use super::is_soak;
use crate::harness::{Redis, RedisSetup, Trouble};

/// So much longer lasts what ends by itself, so that it does not end early.
const MARGIN: Duration = Duration::from_millis(100);

/// So long a fault lasts where nothing else is said: what was borrowed before ends in two seconds.
const LASTS: Duration = Duration::from_secs(3);

const REPLICAS: u16 = 2;

/// A Redis that has what it has answered on disk.
fn that_keeps_everything() -> RedisSetup {
    RedisSetup::new().flags(["--appendonly", "yes", "--appendfsync", "always"])
}

fn killed_and_restarted<'a>() -> Fault<'a> {
    Fault::of_all(|scene| scene.redis.kill(), |scene| scene.redis.restart())
}

fn stopped_and_continued<'a>() -> Fault<'a> {
    Fault::of_all(|scene| scene.redis.pause(), |scene| scene.redis.resume())
}

/// The row does without Redis before its fault, which ends when Redis is there.
fn not_there_yet<'a>() -> Fault<'a> {
    Fault::of_all(|_| {}, |scene| scene.redis.restart())
}

fn in_networks_of(replicas: &[u16], trouble: Trouble) -> Fault<'_> {
    let suffer = |trouble| {
        move |scene: &mut scene::Scene| {
            for replica in replicas {
                scene.networks[usize::from(*replica)].suffer(trouble);
            }
        }
    };
    let fault = Fault::of_all(suffer(trouble), suffer(Trouble::None));
    match replicas {
        [replica] => fault.only_of(*replica),
        _ => fault,
    }
}

fn in_all_networks<'a>(trouble: Trouble) -> Fault<'a> {
    in_networks_of(&[0, 1], trouble)
}

fn milliseconds(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn late_by(time: u64) -> Trouble {
    Trouble::Late(milliseconds(time), Duration::ZERO)
}

#[test]
fn redis_is_killed_and_restarted_with_its_data() {
    Row::new("killed, restarted with its data").on(that_keeps_everything()).run(&[killed_and_restarted()]);
}

#[test]
fn redis_is_killed_and_comes_back_empty() {
    Row::new("killed, restarted empty").that_forgets().run(&[killed_and_restarted()]);
}

#[test]
fn redis_is_stopped_and_continued() {
    Row::new("SIGSTOP, SIGCONT").run(&[stopped_and_continued()]);
}

#[test]
fn redis_is_not_there_yet() {
    Row::new("started before Redis").that_starts_without_redis().run(&[not_there_yet()]);
}

#[test]
fn replies_are_a_little_late() {
    let row = Row::new("replies 5 ms late").through_networks();
    row.reach(Reach::Decides).run(&[in_all_networks(late_by(5))]);
}

#[test]
fn replies_take_half_the_time_that_requests_wait() {
    let row = Row::new("replies 50 ms late").through_networks();
    row.reach(Reach::Decides).run(&[in_all_networks(late_by(50))]);
}

#[test]
fn replies_are_half_a_second_late() {
    let row = Row::new("replies 500 ms late").through_networks();
    row.reach(Reach::Lends).run(&[in_all_networks(late_by(500))]);
}

#[test]
fn replies_are_late_now_and_then() {
    let row = Row::new("replies 0 to 200 ms late").through_networks();
    row.reach(Reach::Decides).run(&[in_all_networks(Trouble::Late(Duration::ZERO, milliseconds(200)))]);
}

#[test]
fn half_of_all_packets_are_lost() {
    let row = Row::new("half of all packets lost").through_networks();
    row.reach(Reach::Decides).run(&[in_all_networks(Trouble::HalfLost)]);
}

#[test]
fn connections_are_cut() {
    Row::new("connections cut").through_networks().run(&[in_all_networks(Trouble::Cut)]);
}

#[test]
fn replies_are_truncated() {
    Row::new("replies truncated").through_networks().run(&[in_all_networks(Trouble::Truncated)]);
}

#[test]
fn replies_are_garbled() {
    Row::new("replies garbled").through_networks().run(&[in_all_networks(Trouble::Garbled)]);
}

#[test]
fn replicas_are_partitioned_one_at_a_time() {
    let of_one = |replica| in_networks_of(replica, Trouble::Partitioned);
    Row::new("partitioned one at a time").through_networks().run(&[of_one(&[0]), of_one(&[1])]);
}

#[test]
fn clients_are_paused() {
    let pause = (LASTS + MARGIN).as_millis().to_string();
    Row::new("CLIENT PAUSE")
        .run(&[Fault::of_all(|scene| scene.command(&["CLIENT", "PAUSE", &pause, "ALL"]), |_| sleep(2 * MARGIN))]);
}

#[test]
fn redis_is_busy_with_something_else() {
    let time = (LASTS + MARGIN).as_secs_f64().to_string();
    let mut sleep = redis::cmd("DEBUG");
    sleep.arg("SLEEP").arg(time);
    Row::new("DEBUG SLEEP").on(RedisSetup::new().flags(["--enable-debug-command", "yes"])).run(&[Fault::of_all(
        |scene| scene.console.send_packed_command(&sleep.get_packed_command()).unwrap(),
        |scene| assert_eq!(scene.console.recv_response().unwrap(), redis::Value::Okay),
    )]);
}

#[test]
fn redis_is_full() {
    let allow = |memory| move |scene: &mut scene::Scene| scene.command(&["CONFIG", "SET", "maxmemory", memory]);
    Row::new("maxmemory full").run(&[Fault::of_all(allow("1"), allow("0"))]);
}

#[test]
fn scripts_are_forbidden() {
    let allow = |rights| move |scene: &mut scene::Scene| scene.command(&["ACL", "SETUSER", "default", rights]);
    Row::new("scripts forbidden (NOPERM)").run(&[Fault::of_all(allow("-@scripting"), allow("+@scripting"))]);
}

#[test]
fn the_password_is_wrong() {
    Row::new("wrong password").run(&[Fault::of_all(
        |scene| {
            scene.command(&["CONFIG", "SET", "requirepass", "another"]);
            scene.command(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
        },
        |scene| scene.command(&["CONFIG", "SET", "requirepass", ""]),
    )]);
}

#[test]
fn redis_is_killed_for_long() {
    if is_soak() {
        Row::new("killed for 60 s").that_forgets().lasts(60).run(&[killed_and_restarted()]);
    }
}

#[test]
fn redis_is_stopped_for_long() {
    if is_soak() {
        Row::new("SIGSTOP for 30 s").lasts(30).run(&[stopped_and_continued()]);
    }
}

#[test]
fn redis_is_not_there_for_long() {
    if is_soak() {
        Row::new("started 20 s before Redis").that_starts_without_redis().lasts(20).run(&[not_there_yet()]);
    }
}

#[test]
fn replicas_are_partitioned_for_long() {
    if is_soak() {
        let row = Row::new("partitioned for 20 s").through_networks().lasts(20);
        row.run(&[in_all_networks(Trouble::Partitioned)]);
    }
}

#[test]
fn redis_is_stopped_under_load() {
    if is_soak() {
        Row::new("SIGSTOP, 2,000 requests/s").asked_per_second(2000).run(&[stopped_and_continued()]);
    }
}
