//! What the pages say.

use std::fmt;

use serde::Serialize;

use super::query::{Entry, Query};
use super::{Page, PageError};
use crate::engine::{BucketName, BucketReport, ExplainedLimit, Explanation, NameError, Outcome, Presence};
use crate::limit::Now;
use crate::policy::{RulePage, Visible};
use crate::replica::Replica;

pub(super) const INDEX: &str = "\
/policy    the rules as they were loaded        /policy?offset=100&limit=50
/explain   why a descriptor is limited          /explain?domain=api&entry=tenant=acme&entry=path=/export
                                                /explain?descriptor=tenant=acme,path=/export
/buckets   what a descriptor has used           /buckets?domain=api&entry=tenant=acme
           the same, by the name of a bucket    /buckets?key={api|tenant=acme}:minute
/metrics   for Prometheus

All but the metrics are also there in JSON: add format=json, or send Accept: application/json. Values are
percent-encoded, as always in a URL. Only where the policy has several domains must one be named.
";

pub(super) static POLICY: Page<PolicyReport> = Page { make: policy, examples: "/policy?offset=100&limit=50" };

pub(super) static EXPLAIN: Page<Explanation> =
    Page { make: explain, examples: "/explain?domain=api&entry=tenant=acme&entry=path=/export" };

pub(super) static BUCKETS: Page<BucketReports> = Page {
    make: buckets,
    examples: "/buckets?domain=api&entry=tenant=acme
or by name: curl -G ADDRESS/buckets --data-urlencode 'key={api|tenant=acme}:minute'",
};

/// Rules on a page of `/policy` if nobody says otherwise, and at most.
const USUAL_RULES: usize = 100;
const MOST_RULES: usize = 1_000;

/// Files that are named.
const MOST_FILES: usize = 100;

/// The policy that is served.
#[derive(Debug, Serialize)]
pub(super) struct PolicyReport {
    hash: String,
    age_seconds: u64,
    /// What keeps a newer policy from being served.
    last_fault: Option<String>,
    file_count: usize,
    /// The first of them.
    files: Vec<String>,
    domain_count: usize,
    #[serde(flatten)]
    page: RulePage,
}

pub(super) fn policy(replica: &Replica, query: &Query, now: Now) -> Result<PolicyReport, PageError> {
    query.check_names(&["offset", "limit"])?;
    let offset = query.number("offset", 0, usize::MAX)?;
    let limit = query.number("limit", USUAL_RULES, MOST_RULES)?;
    let active = replica.engine.active();
    let policy = &active.policy;
    Ok(PolicyReport {
        hash: policy.hash().to_string(),
        age_seconds: (now.monotonic - active.since).0 / 1_000_000,
        last_fault: replica.engine.loads().last_fault().map(|fault| fault.text.clone()),
        file_count: policy.files().len(),
        files: policy.files().iter().take(MOST_FILES).map(ToString::to_string).collect(),
        domain_count: policy.domain_count(),
        page: policy.rule_page(offset, limit),
    })
}

pub(super) fn explain(replica: &Replica, query: &Query, now: Now) -> Result<Explanation, PageError> {
    let (domain, entries) = descriptor(replica, query, &["domain", "entry", "descriptor"])?;
    Ok(look_up(replica, replica.engine.explain(&domain, &entries, now)))
}

/// Adds what the store says.
fn look_up(replica: &Replica, mut explanation: Explanation) -> Explanation {
    explanation.limits.iter_mut().filter_map(|limit| limit.state.as_mut()).for_each(|state| replica.look_up(state));
    explanation
}

/// Buckets by name or by descriptor.
#[derive(Debug, Serialize)]
pub(super) struct BucketReports {
    buckets: Vec<BucketReport>,
}

pub(super) fn buckets(replica: &Replica, query: &Query, now: Now) -> Result<BucketReports, PageError> {
    let buckets = match query.one("key")? {
        Some(key) => vec![by_name(replica, query, key, now)?],
        None => by_descriptor(replica, query, now)?,
    };
    // A bucket that is not there is full, which is an answer; a name that no limit has is none.
    match &buckets[..] {
        [BucketReport { bucket, limit: None, state }] if state.presence == Presence::Absent => {
            let problem = format!("there is no bucket {bucket}, and no limit of this name: /explain shows the names");
            Err(PageError::NotFound(problem))
        }
        _ => Ok(BucketReports { buckets }),
    }
}

fn by_name(replica: &Replica, query: &Query, key: &[u8], now: Now) -> Result<BucketReport, PageError> {
    query.check_names(&["key"])?;
    let bad = |error: &dyn fmt::Display| {
        PageError::BadQuestion(format!("{}; in a URL, write the % of a name as %25", Visible(&error.to_string())))
    };
    let text = str::from_utf8(key).map_err(|_| bad(&"a bucket's name is ASCII"))?;
    let name: BucketName = text.parse().map_err(|error: NameError| bad(&error))?;
    let mut report = replica.engine.bucket(&name, now);
    replica.look_up(&mut report.state);
    Ok(report)
}

fn by_descriptor(replica: &Replica, query: &Query, now: Now) -> Result<Vec<BucketReport>, PageError> {
    let (domain, entries) = descriptor(replica, query, &["key", "domain", "entry", "descriptor"])?;
    let explanation = look_up(replica, replica.engine.explain(&domain, &entries, now));
    if explanation.outcome != Outcome::Limited {
        let problem = "no limit counts for this descriptor, so it has no bucket: /explain says why";
        return Err(PageError::NotFound(problem.to_owned()));
    }
    let report = |explained: ExplainedLimit| {
        let (bucket, state) = (explained.bucket?, explained.state?);
        Some(BucketReport { bucket, limit: Some(explained.limit), state })
    };
    Ok(explanation.limits.into_iter().filter_map(report).collect())
}

/// The domain and the entries that are asked for.
fn descriptor<'q>(replica: &Replica, query: &'q Query, known: &[&str]) -> Result<(Vec<u8>, Vec<Entry<'q>>), PageError> {
    query.check_names(known)?;
    let entries = query.entries()?;
    if let Some(domain) = query.one("domain")? {
        return Ok((domain.to_owned(), entries));
    }
    let active = replica.engine.active();
    let policy = &active.policy;
    let domain = policy.only_domain().ok_or_else(|| {
        let domains = policy.domains_like(b"");
        let problem = match domains.count {
            0 => "the policy has no domains: there is nothing to ask for".to_owned(),
            _ => format!("the domain is missing: there are {domains}"),
        };
        PageError::BadQuestion(problem)
    })?;
    Ok((domain.as_bytes().to_owned(), entries))
}

impl fmt::Display for PolicyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "hash: {}", self.hash)?;
        writeln!(f, "loaded: {} s ago", self.age_seconds)?;
        writeln!(f, "last fault: {}", self.last_fault.as_deref().unwrap_or("none"))?;
        writeln!(f, "domains: {}", self.domain_count)?;
        writeln!(f, "files: {}", self.file_count)?;
        for file in &self.files {
            writeln!(f, "    {}", Visible(file))?;
        }
        if self.file_count > self.files.len() {
            writeln!(f, "    and {} more", self.file_count - self.files.len())?;
        }
        let RulePage { rule_count: count, offset, rules } = &self.page;
        let next = offset.saturating_add(rules.len());
        match rules.len() {
            0 => writeln!(f, "rules: {count}, none of them from offset {offset} on")?,
            shown if shown == *count => writeln!(f, "rules: {count}")?,
            _ => writeln!(f, "rules: {count}, here those from {} to {next}", offset + 1)?,
        }
        writeln!(f)?;
        for rule in rules {
            write!(f, "{rule}")?;
        }
        if !rules.is_empty() && next < *count {
            writeln!(f, "\nmore: /policy?offset={next}")?;
        }
        Ok(())
    }
}

impl fmt::Display for BucketReports {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.buckets.iter().try_for_each(|bucket| bucket.fmt(f))
    }
}
