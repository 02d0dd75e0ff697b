use std::fmt;

use super::family::Families;
use crate::breaker::State;
use crate::policy::FailureMode;
use crate::replica::Replica;
use crate::store::{ServerReport, StoreError};

/// What Redis was asked, and what failure modes decided when it was not.
pub(super) fn encode(replica: &Replica, families: &mut Families<'_, '_>) -> fmt::Result {
    let counts = replica.engine.counts();
    let servers = replica.store_servers();
    of_servers(&servers, families)?;

    let help = "Calls to Redis that failed or were not made, by class: see docs/operations.md";
    let mut errors = families.counter("store_errors", help)?;
    for (class, count) in StoreError::KINDS.iter().zip(&counts.store_errors) {
        errors.of(&[("class", class)], count.get())?;
    }
    let mut fallback = families.counter("fallback_decisions", "Limits decided without Redis, by failure mode")?;
    for mode in FailureMode::ALL {
        fallback.of(&[("mode", mode.name())], counts.by_failure_mode(mode).get())?;
    }
    let help = "Calls to give hits back that Redis did not answer; the hits stay spent";
    families.counter("lost_refunds", help)?.only(counts.lost_refunds.get())?;
    families.gauge("replicas", "Replicas that share the limits")?.only(u64::from(replica.engine.replicas()))
}

fn of_servers(servers: &[ServerReport], families: &mut Families<'_, '_>) -> fmt::Result {
    let mut calls = families.counter("store_calls", "Calls sent to Redis, by server, script and outcome")?;
    for server in servers {
        for call in &server.calls {
            let labels = [("node", &*server.name), ("script", call.script), ("outcome", call.outcome.name())];
            calls.of(&labels, call.count)?;
        }
    }
    let mut times = families.histogram("store_call_seconds", "Time from sending a call to its answer")?;
    for server in servers {
        times.of(&[("node", &server.name)], &server.times)?;
    }
    let mut states =
        families.gauge("breaker_state", "0 if the server is asked, 1 while it is tried, 2 if it is not asked")?;
    for server in servers {
        let state = match server.breaker.state {
            State::Closed => 0_u64,
            State::HalfOpen => 1,
            State::Open => 2,
        };
        states.of(&[("node", &server.name)], state)?;
    }
    let mut transitions =
        families.counter("breaker_transitions", "How often a server's breaker has opened, and closed")?;
    for server in servers {
        for (to, count) in [("open", server.breaker.opened), ("closed", server.breaker.closed)] {
            transitions.of(&[("node", &server.name), ("to", to)], count)?;
        }
    }
    let mut seconds = families.counter("fallback_seconds", "Time in which a server was not asked")?;
    for server in servers {
        seconds.of(&[("node", &server.name)], server.breaker.time_open.as_secs_f64())?;
    }
    Ok(())
}
