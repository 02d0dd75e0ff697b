use tracing::{Level, debug, enabled, info};

use crate::cause::Cause;
use crate::engine::{Code, Decision, Engine, Status, Unavailable};
use crate::limit::{Micros, Now};
use crate::percent::in_name;
use crate::request::{Descriptor, RateLimitRequest, Shown};
use crate::throttle::Throttle;

/// The name by which the filter of the log knows these lines: `--log-level info,comporta::decisions=debug`.
const TARGET: &str = "comporta::decisions";

/// One request that does not pass is told in so long.
const SAMPLED_EVERY: Micros = Micros::from_seconds(1);

/// Longer texts are cut, in bytes: clients choose them.
const LONGEST_TEXT: usize = 256;

/// Tells of decisions in the log: of all at debug, of a sample of those that do not pass at info.
#[derive(Debug)]
pub(super) struct DecisionLog {
    not_passed: Throttle,
}

impl DecisionLog {
    pub(super) const fn new() -> Self {
        Self { not_passed: Throttle::new(SAMPLED_EVERY) }
    }

    /// Tells of a decision, if anybody wants to know. `cause` is the request, if it is traced.
    pub(super) fn tell(
        &self,
        decision: Result<&Decision, Unavailable>,
        request: &RateLimitRequest,
        engine: &Engine,
        cause: Option<&Cause>,
        now: Now,
    ) {
        let trace_id = || cause.map(|cause| format!("{:032x}", cause.trace_id));
        match decision {
            Ok(decision) if enabled!(target: TARGET, Level::DEBUG) => {
                let outcome = if decision.code == Code::Ok { "passes" } else { "refused" };
                for (status, descriptor) in decision.statuses.iter().zip(&request.descriptors) {
                    debug!(
                        target: TARGET,
                        domain = domain(request),
                        descriptor = text(descriptor),
                        rule = rule(descriptor, request, engine),
                        code = status.code.name(),
                        source = status.source.name(),
                        remaining = status.remaining,
                        trace_id = trace_id(),
                        "{outcome}",
                    );
                }
            }
            Ok(decision) if decision.code == Code::OverLimit && enabled!(target: TARGET, Level::INFO) => {
                let statuses = decision.statuses.iter().zip(&request.descriptors);
                if let Some((status, descriptor)) = statuses.into_iter().find(|(status, _)| Status::refuses(status))
                    && let Some(passed_over) = self.not_passed.admit(now)
                {
                    info!(
                        target: TARGET,
                        domain = domain(request),
                        descriptor = text(descriptor),
                        rule = rule(descriptor, request, engine),
                        source = status.source.name(),
                        retry_after = status.seconds_until_reset,
                        trace_id = trace_id(),
                        passed_over,
                        "refused",
                    );
                }
            }
            Err(unavailable) if enabled!(target: TARGET, Level::INFO) => {
                if let Some(passed_over) = self.not_passed.admit(now) {
                    let descriptor = request.descriptors.first().map(text);
                    let trace_id = trace_id();
                    info!(target: TARGET, domain = domain(request), descriptor, trace_id, passed_over, "{unavailable}");
                }
            }
            Ok(_) | Err(_) => {}
        }
    }
}

fn domain(request: &RateLimitRequest) -> String {
    in_name(&request.domain[..request.domain.len().min(LONGEST_TEXT)]).to_string()
}

/// `tenant=acme|path=/export`.
fn text(descriptor: &Descriptor) -> String {
    descriptor.text(|_| Shown::WithValue, LONGEST_TEXT)
}

/// Where the rule stands that a descriptor finds, if it finds one.
fn rule(descriptor: &Descriptor, request: &RateLimitRequest, engine: &Engine) -> Option<String> {
    if descriptor.limit.is_some() {
        return None;
    }
    let active = engine.active();
    let entries = descriptor.entries.iter().map(|entry| (&*entry.key, &*entry.value));
    let found = active.policy.domain(&request.domain)?.find(entries, |_| ())?;
    Some(format!("{}:{}", found.rule.file, found.rule.line))
}
