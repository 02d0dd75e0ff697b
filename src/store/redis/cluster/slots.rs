//! What servers tell of their Cluster.

use std::ops::RangeInclusive;

use redis::Value;

use super::super::address::Server;

/// The slots of every Cluster.
pub(super) const SLOTS: u16 = 16_384;

/// The slot of a key.
pub(super) fn of(key: &str) -> u16 {
    // https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#key-distribution-model
    let tag = key.split_once('{').and_then(|(_, rest)| Some(rest.split_once('}')?.0)).filter(|tag| !tag.is_empty());
    crc16::State::<crc16::XMODEM>::calculate(tag.unwrap_or(key).as_bytes()) % SLOTS
}

/// Slots that belong to one primary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assignment {
    pub(super) slots: RangeInclusive<u16>,
    /// `None` if the server that tells does not know where it is.
    pub(super) primary: Option<Server>,
}

/// Reads the answer to `CLUSTER SLOTS` of this server. `None` if it is none.
pub(super) fn assignments(answer: &Value, answering: &Server) -> Option<Vec<Assignment>> {
    let Value::Array(ranges) = answer else { return None };
    let assignments: Vec<_> = ranges.iter().map(|range| assignment(range, answering)).collect::<Option<_>>()?;
    // No slot is anybody's twice, so there is no more of this than there are slots.
    let assigned: usize = assignments.iter().map(|assigned| assigned.slots.len()).sum();
    (assigned <= usize::from(SLOTS)).then_some(assignments)
}

fn assignment(range: &Value, answering: &Server) -> Option<Assignment> {
    let Value::Array(parts) = range else { return None };
    let [Value::Int(first), Value::Int(last), Value::Array(primary), ..] = &parts[..] else { return None };
    let slot = |number: i64| u16::try_from(number).ok().filter(|slot| *slot < SLOTS);
    let slots = slot(*first)?..=slot(*last)?;
    let [host, Value::Int(port), ..] = &primary[..] else { return None };
    let port = u16::try_from(*port).ok()?;
    let host = match host {
        // A server that was told no name of its own: it is where we have found it.
        Value::Nil => answering.host(),
        Value::BulkString(name) if name.is_empty() => answering.host(),
        Value::BulkString(name) => str::from_utf8(name).ok()?,
        _ => return None,
    };
    // A server that knows no name for it says `?`.
    Some(Assignment { slots, primary: answering.elsewhere(host, port) })
}

/// What `CLUSTER INFO` tells: whether the server is in touch with most of the others, and the newest configuration that it
/// has heard of.
pub(super) fn standing(info: &Value) -> Standing {
    let text = match info {
        Value::BulkString(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        Value::VerbatimString { text, .. } => text.clone(),
        // A user may be forbidden to ask.
        _ => return Standing { is_ok: true, epoch: 0 },
    };
    let field = |name: &str| text.lines().find_map(|line| line.trim_end().strip_prefix(name)?.strip_prefix(':'));
    Standing {
        is_ok: field("cluster_state") != Some("fail"),
        epoch: field("cluster_current_epoch").and_then(|epoch| epoch.parse().ok()).unwrap_or(0),
    }
}

/// How much a server's word counts. The greatest counts most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Standing {
    pub(super) is_ok: bool,
    pub(super) epoch: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::BulkString(text.as_bytes().to_vec())
    }

    fn answering() -> Server {
        Server::Tcp { host: "seed".to_owned(), port: 7000, is_tls: true }
    }

    fn range(first: i64, last: i64, host: Value, port: i64) -> Value {
        let server = |host, port| Value::Array(vec![host, Value::Int(port), text("id"), Value::Array(Vec::new())]);
        let replica = server(text("replica"), 1);
        Value::Array(vec![Value::Int(first), Value::Int(last), server(host, port), replica])
    }

    #[test]
    fn the_slot_of_a_key_is_that_of_its_tag() {
        // As CLUSTER KEYSLOT answers.
        for (key, slot) in
            [("123456789", 12_739), ("comporta:replicas", 3639), ("a{123456789}b", 12_739), ("{}x", 10_595)]
        {
            assert_eq!(of(key), slot, "{key}");
        }
    }

    #[test]
    fn assignments_name_primaries() {
        let answer = Value::Array(vec![
            range(0, 5460, text("10.0.0.1"), 7001),
            range(5461, 5461, Value::Nil, 7002),
            range(5462, 9999, text(""), 7003),
            range(10_000, 10_001, text("?"), 7004),
            range(10_002, 10_002, text("a\nb"), 7004),
            range(10_003, 16_383, text("::1"), 7005),
        ]);
        let assignment = |slots, host, port| Assignment { slots, primary: answering().elsewhere(host, port) };
        let expected = vec![
            assignment(0..=5460, "10.0.0.1", 7001),
            assignment(5461..=5461, "seed", 7002),
            assignment(5462..=9999, "seed", 7003),
            Assignment { slots: 10_000..=10_001, primary: None },
            Assignment { slots: 10_002..=10_002, primary: None },
            assignment(10_003..=16_383, "::1", 7005),
        ];
        assert_eq!(assignments(&answer, &answering()), Some(expected));
        assert_eq!(assignments(&Value::Array(Vec::new()), &answering()), Some(Vec::new()));
    }

    #[test]
    fn what_is_no_assignment_is_none() {
        for strange in [
            Value::Nil,
            text("x"),
            Value::Array(vec![Value::Int(1)]),
            Value::Array(vec![Value::Array(vec![Value::Int(0), Value::Int(1)])]),
            Value::Array(vec![range(0, 16_384, text("a"), 1)]),
            Value::Array(vec![range(-1, 5, text("a"), 1)]),
            Value::Array(vec![range(0, 5, text("a"), 65_536)]),
            Value::Array(vec![range(0, 5, Value::Int(3), 1)]),
            Value::Array(vec![range(0, 16_383, text("a"), 1), range(0, 0, text("b"), 1)]),
            Value::Array(vec![range(0, 5, Value::BulkString(vec![0xff]), 1)]),
        ] {
            assert_eq!(assignments(&strange, &answering()), None, "{strange:?}");
        }
    }

    #[test]
    fn who_is_in_touch_with_most_of_the_others_counts_more() {
        let standing = |info: &str| standing(&text(info));
        let well =
            standing("cluster_enabled:1\r\ncluster_state:ok\r\ncluster_current_epoch:7\r\ncluster_my_epoch:3\r\n");
        assert_eq!(well, Standing { is_ok: true, epoch: 7 });
        assert!(well > standing("cluster_state:ok\r\ncluster_current_epoch:6\r\n"));
        assert!(well > standing("cluster_state:fail\r\ncluster_current_epoch:9\r\n"));
        assert_eq!(standing(""), Standing { is_ok: true, epoch: 0 });
        assert_eq!(super::standing(&Value::Nil), Standing { is_ok: true, epoch: 0 });
    }
}
