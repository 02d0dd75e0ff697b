#![expect(clippy::expect_used, clippy::missing_panics_doc, clippy::panic, reason = "a finding is a panic")]

use std::path::Path;

use bytes::Bytes;

use super::fault::{Fault, Source};
use super::{Defaults, Loaded, Policy, load_sources, source};
use crate::engine::{Answer, Engine, EngineSettings, Explanation, Outcome};
use crate::fuzzing::assert_printable;
use crate::limit::{Micros, Now};
use crate::request::{Descriptor, Entry, RateLimitRequest};

const NOW: Now = Now { monotonic: Micros(60_000_000), utc: Micros(1_700_000_000_000_000) };

/// Loads files of a policy, between which a byte stands that is in no text, and asks for the rules that they have.
pub fn policy(bytes: &[u8]) {
    let sources: Vec<Source> = bytes
        .split(|byte| *byte == 0xff)
        .zip(0_u8..4)
        .map(|(file, index)| source::decode(Path::new(&format!("{index}.yaml")), file.to_owned()))
        .collect();
    let load = || load_sources(&sources, Defaults::default());
    match (load(), load()) {
        (Ok(loaded), Ok(again)) => {
            assert_eq!(loaded.policy.hash(), again.policy.hash());
            assert_eq!(loaded.notes, again.notes);
            check_faults(&loaded.notes, &sources);
            check_rules(loaded);
        }
        (Err(faults), Err(again)) => {
            assert!(faults.count() > 0, "a policy was refused without a fault");
            check_faults(&faults.faults, &sources);
            assert_eq!(faults, again);
        }
        _ => panic!("the same files were once a policy and once none"),
    }
}

/// Faults are in the files, and can be shown.
fn check_faults(faults: &[Fault], sources: &[Source]) {
    for fault in faults {
        assert_printable(&fault.to_string());
        let source = sources.iter().find(|source| source.name == fault.file).expect("a fault is in a file");
        assert_eq!(fault.line == 0, fault.column == 0, "{fault}");
        if fault.line == 0 {
            continue;
        }
        let text = source.text.replace("\r\n", "\n").replace('\r', "\n");
        let line = text.split('\n').nth(fault.line as usize - 1);
        let length = line.unwrap_or_else(|| panic!("no such line: {fault}")).chars().count();
        assert!(fault.column as usize <= length + 1, "no such column: {fault}");
    }
}

/// Every rule can be listed, explained and asked for, and what is explained is what is decided.
fn check_rules(Loaded { policy, .. }: Loaded) {
    const MOST: usize = 20;
    let page = policy.rule_page(0, usize::MAX);
    assert_eq!(page.rules.len(), policy.rule_count());
    let questions: Vec<RateLimitRequest> = page
        .rules
        .iter()
        .take(MOST)
        .map(|rule| {
            assert_printable(&rule.to_string());
            let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
            let entries = rule
                .path
                .iter()
                .map(|step| Entry { key: bytes(&step.key), value: bytes(step.value.as_deref().unwrap_or("any")) });
            let descriptor = Descriptor { entries: entries.collect(), ..Descriptor::default() };
            RateLimitRequest { domain: bytes(&rule.domain), descriptors: vec![descriptor], hits_addend: 1 }
        })
        .collect();
    let outcomes: Vec<Outcome> = questions.iter().map(|question| explained(&policy, question)).collect();
    let engine = Engine::new(policy, EngineSettings { max_buckets: MOST, ..EngineSettings::default() }, NOW);
    for (question, outcome) in questions.iter().zip(outcomes) {
        let Ok(ruling) = engine.decide(question, NOW) else { continue };
        let Answer::Decided(decision) = ruling.answer else { panic!("there is no store to wait for") };
        assert_eq!(decision.statuses.len(), 1);
        if outcome != Outcome::Limited {
            assert_eq!(decision.statuses[0].current_limit, None, "explained as {outcome:?}: {question:?}");
        }
    }
}

fn explained(policy: &Policy, question: &RateLimitRequest) -> Outcome {
    let entries = question.descriptors[0].entries.iter();
    let entries: Vec<(&[u8], &[u8])> = entries.map(|entry| (&*entry.key, &*entry.value)).collect();
    let explanation = Explanation::of(policy, &question.domain, &entries);
    assert_printable(&explanation.to_string());
    explanation.outcome
}
