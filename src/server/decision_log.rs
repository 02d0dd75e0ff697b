use std::fmt;

use tracing::{Level, debug, enabled, info};

use crate::cause::Cause;
use crate::engine::{Code, Decision, Engine, Status};
use crate::limit::{Micros, Now};
use crate::percent::in_name;
use crate::request::{Descriptor, RateLimitRequest};
use crate::throttle::Throttle;

/// The name by which the filter of the log knows these lines: `--log-level info,comporta::decisions=debug`.
const TARGET: &str = "comporta::decisions";

/// One refusal in so long is told.
const SAMPLED_EVERY: Micros = Micros::from_seconds(1);

/// Longer texts are cut: clients choose them.
const LONGEST_TEXT: usize = 256;

/// Tells of decisions in the log: of all at debug, of a sample of refusals at info.
#[derive(Debug)]
pub(super) struct DecisionLog {
    refusals: Throttle,
}

/// What a line tells.
struct Line<'a> {
    request: &'a RateLimitRequest,
    /// The index of the descriptor that it is about.
    descriptor: usize,
    engine: &'a Engine,
}

impl DecisionLog {
    pub(super) const fn new() -> Self {
        Self { refusals: Throttle::new(SAMPLED_EVERY) }
    }

    /// Tells of a decision, if anybody wants to know. `cause` is the request, if it is traced.
    pub(super) fn tell(
        &self,
        decision: &Decision,
        request: &RateLimitRequest,
        engine: &Engine,
        cause: Option<&Cause>,
        now: Now,
    ) {
        let line = |descriptor| Line { request, descriptor, engine };
        let trace_id = cause.map(|cause| format!("{:032x}", cause.trace_id));
        if enabled!(target: TARGET, Level::DEBUG) {
            for line in (0..request.descriptors.len()).map(line) {
                let status = &decision.statuses[line.descriptor];
                debug!(
                    target: TARGET,
                    domain = %in_name(&request.domain),
                    descriptor = %line.path(),
                    rule = line.rule(),
                    code = status.code.name(),
                    source = status.source.name(),
                    remaining = status.remaining,
                    trace_id,
                    "{}",
                    if decision.code == Code::Ok { "passes" } else { "refused" },
                );
            }
        } else if decision.code == Code::OverLimit
            && enabled!(target: TARGET, Level::INFO)
            && let Some(passed_over) = self.refusals.admit(now)
            && let Some(line) = decision.statuses.iter().position(Status::refuses).map(line)
        {
            let status = &decision.statuses[line.descriptor];
            info!(
                target: TARGET,
                domain = %in_name(&request.domain),
                descriptor = %line.path(),
                rule = line.rule(),
                source = status.source.name(),
                retry_after = status.seconds_until_reset,
                trace_id,
                passed_over,
                "refused",
            );
        }
    }
}

impl Line<'_> {
    fn descriptor(&self) -> &Descriptor {
        &self.request.descriptors[self.descriptor]
    }

    /// `tenant=acme|path=/export`.
    fn path(&self) -> String {
        let mut path = String::new();
        for entry in &self.descriptor().entries {
            if path.len() > LONGEST_TEXT {
                break;
            }
            let separator = if path.is_empty() { "" } else { "|" };
            // Writing to a string does not fail.
            let _ = fmt::write(&mut path, format_args!("{separator}{}={}", in_name(&entry.key), in_name(&entry.value)));
        }
        // All of it is ASCII.
        path.truncate(LONGEST_TEXT);
        path
    }

    /// Where the rule stands that has decided it, if one has.
    fn rule(&self) -> Option<String> {
        let descriptor = self.descriptor();
        if descriptor.limit.is_some() {
            return None;
        }
        let active = self.engine.active();
        let entries = descriptor.entries.iter().map(|entry| (&*entry.key, &*entry.value));
        let found = active.policy.domain(&self.request.domain)?.find(entries, |_| ())?;
        Some(format!("{}:{}", found.rule.file, found.rule.line))
    }
}
