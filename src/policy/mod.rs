//! Policies: which limits there are and which of them a request's descriptors find.
//!
//! The way of a policy: `source` finds and reads the files, `yaml` makes nodes of a text, `file` reads
//! what a file says, `compile` makes one [`Policy`] of all files, `matcher` answers requests. None of
//! them stops at the first [`Fault`]: an author learns of all at once. `explain` says why a request finds
//! what it finds, and `listing` what there is to be found. [`watch`] tells when files may have changed.

mod candidates;
mod compile;
mod describe;
mod excerpt;
mod explain;
mod fault;
mod file;
mod files;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod hash;
mod known;
mod limits;
mod listing;
mod lookup;
mod matcher;
mod metadata;
mod number;
mod pattern;
mod reader;
mod rule;
mod source;
mod visible;
pub mod watch;
mod yaml;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

pub use candidates::Candidates;
pub use describe::{LimitDescription, QuotaDescription, RuleDescription};
pub use explain::{End, Level, Matched, MatchedBy, RulesTried, TenantsTried, Walk, WildcardsTried};
pub use fault::{Fault, Faults};
pub use files::PolicyFiles;
pub use hash::{ContentHash, Fingerprint};
pub(crate) use known::nearest;
pub use listing::{ListedRule, PathStep, RulePage};
pub use matcher::{Domain, Match, PathPart};
pub use rule::{Defaults, FailureMode, Metadata, Quota, Rule, RuleLimit, Scope};
pub(crate) use visible::{Visible, readable};

use fault::{FaultSink, FileFaults, Place, Source};
use lookup::Lookup;
use reader::Reader;

/// The JSON Schema (draft 7) of a policy file, for editors. It rejects nothing that [`load`] accepts.
pub const SCHEMA: &str = include_str!("policy.schema.json");

/// All policy files, compiled. It never changes: a reload makes a new one.
#[derive(Debug)]
pub struct Policy {
    domains: Lookup<Domain>,
    files: Box<[Arc<str>]>,
    rule_count: usize,
    hash: ContentHash,
}

/// A policy without faults.
#[derive(Debug)]
pub struct Loaded {
    pub policy: Policy,
    /// What is correct and still worth a second look, in the order of its places.
    pub notes: Vec<Fault>,
}

/// Loads the policy file at `path`, or all `.yaml` and `.yml` files in the directory at `path` and below it.
///
/// # Errors
///
/// All faults of all files.
pub fn load(path: &Path, defaults: &Defaults) -> Result<Loaded, Faults> {
    PolicyFiles::read(path).load(defaults)
}

/// Loads policies that are in memory, a name and a text each, as [`load`] would load such files.
///
/// # Errors
///
/// All faults of all texts.
pub fn load_texts(texts: &[(&str, &str)], defaults: &Defaults) -> Result<Loaded, Faults> {
    let sources: Vec<Source> =
        texts.iter().map(|(name, text)| Source { name: (*name).into(), text: (*text).into(), problem: None }).collect();
    load_sources(&sources, *defaults)
}

fn load_sources(sources: &[Source], defaults: Defaults) -> Result<Loaded, Faults> {
    let mut sink = FaultSink::new(sources);
    let (mut files, mut are_complete) = (Vec::with_capacity(sources.len()), true);
    for (source, file) in sources.iter().zip(0_u32..) {
        let spec = if let Some((position, problem)) = &source.problem {
            sink.fault(Place { file, position: *position }, format_args!("{problem}"));
            None
        } else {
            let mut faults = FileFaults { file, sink: &mut sink };
            let root = yaml::compose(&source.text, &mut faults);
            root.map(|root| file::read_file(&mut Reader { faults, defaults }, &root))
        };
        are_complete &= spec.as_ref().is_some_and(|spec| spec.domain.is_some());
        files.extend(spec);
    }
    let compiled = compile::compile(files, are_complete, &mut sink);
    let notes = sink.finish()?;
    let files = sources.iter().map(|source| Arc::clone(&source.name)).collect();
    Ok(Loaded {
        policy: Policy {
            domains: compiled.domains.into_iter().collect(),
            files,
            rule_count: compiled.rule_count as usize,
            hash: ContentHash::of(sources),
        },
        notes,
    })
}

impl Policy {
    /// The domain of this name.
    #[must_use]
    pub fn domain(&self, name: &[u8]) -> Option<&Domain> {
        self.domains.get(name)
    }

    pub fn domains(&self) -> impl Iterator<Item = &Domain> {
        self.domains.iter().map(|(_, domain)| domain)
    }

    /// The domains whose names look most like this one, and how many there are.
    #[must_use]
    pub fn domains_like(&self, name: &[u8]) -> Candidates {
        Candidates::nearest_to(name, self.domains.iter().map(|(name, _)| name))
    }

    /// The name of the domain, if there is only one.
    #[must_use]
    pub fn only_domain(&self) -> Option<&str> {
        let mut domains = self.domains.iter();
        let (_, domain) = domains.next()?;
        domains.next().is_none().then(|| domain.name())
    }

    /// What its files say, as a number.
    #[must_use]
    pub const fn hash(&self) -> ContentHash {
        self.hash
    }

    /// The paths of the files that it was loaded from, in order.
    #[must_use]
    pub fn files(&self) -> &[Arc<str>] {
        &self.files
    }

    #[must_use]
    pub fn domain_count(&self) -> usize {
        self.domains.len()
    }

    /// How many descriptors its files have, at all levels.
    #[must_use]
    pub const fn rule_count(&self) -> usize {
        self.rule_count
    }
}
