mod ending;
mod explain;
mod fallback;
mod lease;
mod queue;
mod simulation;
mod table;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::limit::Micros;
use crate::request::{Descriptor, Entry, LimitOverride};

const START: Now = Now { monotonic: Micros(1_000_000), utc: Micros(1_700_000_000_000_000) };

fn settings() -> EngineSettings {
    EngineSettings { max_buckets: 100_000, ..EngineSettings::default() }
}

fn policy(text: &str) -> Policy {
    crate::policy::load_texts(&[("policy.yaml", text)], &Defaults::default()).unwrap().policy
}

fn engine(text: &str) -> Engine {
    Engine::new(policy(text), settings(), START)
}

/// A descriptor from `key=value key=value`.
fn descriptor(entries: &str) -> Descriptor {
    let entry = |text: &str| {
        let (key, value) = text.split_once('=').unwrap();
        Entry { key: Bytes::copy_from_slice(key.as_bytes()), value: Bytes::copy_from_slice(value.as_bytes()) }
    };
    Descriptor { entries: entries.split(' ').map(entry).collect(), ..Descriptor::default() }
}

fn request(descriptors: &[Descriptor]) -> RateLimitRequest {
    RateLimitRequest { domain: "d".into(), descriptors: descriptors.to_vec(), hits_addend: 0 }
}

fn costing(entries: &str, hits: u64) -> Descriptor {
    Descriptor { hits_addend: Some(hits), ..descriptor(entries) }
}

fn giving_back(entries: &str, hits: u64) -> Descriptor {
    Descriptor { is_negative_hits: true, ..costing(entries, hits) }
}

impl Engine {
    /// Decides a request that need not wait.
    fn decide_now(&self, request: &RateLimitRequest, now: Now) -> Result<Decision, InvalidRequest> {
        let Ruling { answer, calls } = self.decide(request, now)?;
        assert!(calls.is_empty(), "without a store there is nobody to call");
        match answer {
            Answer::Decided(decision) => Ok(decision),
            Answer::Waiting(_) => panic!("without a store there is nothing to wait for"),
        }
    }

    fn ask(&self, descriptors: &[Descriptor]) -> Decision {
        self.decide_now(&request(descriptors), START).unwrap()
    }

    fn passes(&self, descriptors: &[Descriptor]) -> bool {
        self.ask(descriptors).code == Code::Ok
    }

    fn remaining(&self, entries: &str) -> u32 {
        self.ask(&[costing(entries, 0)]).statuses[0].remaining
    }
}

/// The refusals of a rule of domain d that were prevented.
fn prevented(engine: &Engine, wanted: &str) -> Vec<(&'static str, u64)> {
    let active = engine.active();
    let mut found = Vec::new();
    active.policy.domain(b"d").unwrap().for_each_rule(|path, rule, _| {
        if path == wanted {
            found.extend(active.tallies.rule(rule).prevented().map(|(reason, count)| (reason.name(), count)));
        }
    });
    found
}

const WIDE_AND_NARROW: &str = "
domain: d
descriptors:
  - {key: wide, rate_limit: {requests_per_unit: 10, unit: day}}
  - {key: narrow, rate_limit: {requests_per_unit: 1, unit: day}}
  - {key: debt, rate_limit: {requests_per_unit: 10, unit: day, overdraft: true}}
  - {key: shadow, shadow_mode: true, rate_limit: {requests_per_unit: 1, unit: day}}
  - {key: quota, quota_mode: true, rate_limit: {requests_per_unit: 1, unit: day}}
  - {key: free, quota_mode: true, rate_limit: {unlimited: true}}
  - {key: both, rate_limit: [{requests_per_unit: 5, unit: hour}, {requests_per_unit: 3, unit: day}]}
  - {key: blocked, rate_limit: {requests_per_unit: 0, unit: minute, unit_multiplier: 5}}
";

#[test]
fn a_refused_request_takes_nothing_and_gives_nothing_back() {
    let engine = engine(WIDE_AND_NARROW);
    assert!(engine.passes(&[costing("wide=a", 4), descriptor("narrow=a")]));
    let refused = engine.ask(&[giving_back("wide=a", 3), costing("wide=b", 2), descriptor("narrow=a")]);
    assert_eq!(refused.code, Code::OverLimit);
    assert_eq!(
        refused.statuses.iter().map(|status| status.code).collect::<Vec<_>>(),
        [Code::Ok, Code::Ok, Code::OverLimit]
    );
    assert_eq!(refused.statuses[0].remaining, 6);
    assert_eq!((engine.remaining("wide=a"), engine.remaining("wide=b")), (6, 10));
}

#[test]
fn a_bucket_that_only_a_refused_request_named_is_not_kept() {
    let engine = engine(WIDE_AND_NARROW);
    assert!(engine.passes(&[descriptor("narrow=a")]));
    for name in 0..100 {
        assert!(!engine.passes(&[descriptor(&format!("wide={name}")), descriptor("narrow=a")]));
    }
    assert_eq!(engine.table().len(), 1);
}

#[test]
fn an_overdraft_is_charged_even_if_another_limit_refuses() {
    let engine = engine(WIDE_AND_NARROW);
    assert!(engine.passes(&[descriptor("narrow=a"), costing("debt=a", 4)]));
    assert!(!engine.passes(&[descriptor("narrow=a"), costing("debt=a", 4)]));
    assert_eq!(engine.remaining("debt=a"), 2);
    assert!(!engine.passes(&[costing("debt=a", 4)]));
    assert_eq!(engine.remaining("debt=a"), 0);
}

#[test]
fn a_refused_request_gives_nothing_back_even_to_an_overdraft() {
    let engine = engine(WIDE_AND_NARROW);
    assert!(engine.passes(&[descriptor("narrow=a"), costing("debt=a", 8)]));
    assert!(!engine.passes(&[descriptor("narrow=a"), giving_back("debt=a", 5)]));
    assert_eq!(engine.remaining("debt=a"), 2);
}

#[test]
fn an_overdraft_in_shadow_mode_is_charged_and_lets_pass() {
    let engine = engine(
        "domain: d
descriptors: [{key: k, shadow_mode: true,
         rate_limit: {requests_per_unit: 10, unit: day, overdraft: true}}]",
    );
    assert!(engine.passes(&[costing("k=a", 7)]) && engine.passes(&[costing("k=a", 7)]));
    let status = engine.ask(&[costing("k=a", 0)]).statuses[0].clone();
    assert_eq!((status.code, status.is_over, status.seconds_until_reset), (Code::Ok, true, Some(5 * 8_640)));
}

#[test]
fn a_limit_that_is_over_refuses_only_if_the_request_is_refused_for_it() {
    let engine = engine(WIDE_AND_NARROW);
    let refusing = |decision: Decision| {
        decision.statuses.iter().map(|status| (status.is_over, status.refuses())).collect::<Vec<_>>()
    };
    engine.ask(&[descriptor("quota=a"), descriptor("narrow=a")]);
    let one_quota_left = [descriptor("quota=a"), descriptor("quota=b")];
    assert_eq!(refusing(engine.ask(&one_quota_left)), [(true, false), (false, false)]);
    assert_eq!(refusing(engine.ask(&one_quota_left)), [(true, true), (true, true)]);
    let another_limit_refuses = [descriptor("quota=a"), descriptor("quota=c"), descriptor("narrow=a")];
    assert_eq!(refusing(engine.ask(&another_limit_refuses)), [(true, false), (false, false), (true, true)]);
}

#[test]
fn one_bucket_named_twice_is_taken_twice_or_not_at_all() {
    let engine = engine(WIDE_AND_NARROW);
    assert!(!engine.passes(&[costing("wide=a", 6), costing("wide=a", 6)]));
    assert_eq!(engine.remaining("wide=a"), 10);
    assert!(engine.passes(&[costing("wide=a", 5), costing("wide=a", 5)]));
    assert_eq!(engine.remaining("wide=a"), 0);
}

#[test]
fn of_several_limits_the_status_shows_the_one_with_least_left_or_the_longest_wait() {
    let engine = engine(WIDE_AND_NARROW);
    let shown = |decision: &Decision| {
        let status = &decision.statuses[0];
        let limit = status.current_limit.clone().unwrap();
        (status.code, limit.amount, status.remaining, status.seconds_until_reset.unwrap())
    };
    assert_eq!(shown(&engine.ask(&[descriptor("both=a")])), (Code::Ok, 3, 2, 28_800));
    // Both refuse a cost of 4 of 5 (a fifth of an hour) and of 3 (never, so: until full).
    assert!(engine.passes(&[costing("both=a", 1)]));
    assert_eq!(shown(&engine.ask(&[costing("both=a", 4)])), (Code::OverLimit, 3, 0, 57_600));
}

#[test]
fn zero_requests_refuse_for_one_period_and_keep_no_bucket() {
    let engine = engine(WIDE_AND_NARROW);
    let status = engine.ask(&[descriptor("blocked=a")]).statuses[0].clone();
    assert_eq!((status.code, status.seconds_until_reset), (Code::OverLimit, Some(300)));
    assert!(engine.passes(&[giving_back("blocked=a", 1)]));
    assert_eq!(engine.table().len(), 0);
}

#[test]
fn a_shadowed_limit_that_is_over_takes_nothing_and_is_counted() {
    let engine = engine(WIDE_AND_NARROW);
    for _ in 0..3 {
        let decision = engine.ask(&[descriptor("shadow=a"), descriptor("wide=a")]);
        assert_eq!((decision.code, decision.statuses[0].code), (Code::Ok, Code::Ok));
    }
    assert_eq!(prevented(&engine, "shadow"), [("shadow_mode", 2)]);
    assert_eq!(engine.remaining("wide=a"), 7);
}

#[test]
fn a_quota_refuses_when_all_quotas_are_used_up_and_one_without_limit_never_is() {
    let engine = engine(WIDE_AND_NARROW);
    assert!(engine.passes(&[descriptor("quota=a")]));
    assert!(engine.passes(&[descriptor("quota=a"), descriptor("quota=b")]));
    assert_eq!(prevented(&engine, "quota"), [("quota_mode", 1)]);
    assert!(!engine.passes(&[descriptor("quota=a"), descriptor("quota=b")]));
    assert!(engine.passes(&[descriptor("quota=a"), descriptor("free=a")]));
}

#[test]
fn in_service_shadow_mode_everything_passes_and_takes_what_it_can() {
    let engine = Engine::new(policy(WIDE_AND_NARROW), EngineSettings { shadow_mode: true, ..settings() }, START);
    engine.ask(&[descriptor("narrow=a")]);
    let decision = engine.ask(&[descriptor("narrow=a"), costing("wide=a", 3)]);
    assert_eq!((decision.code, decision.statuses[0].code), (Code::Ok, Code::OverLimit));
    assert_eq!(engine.remaining("wide=a"), 7);
    assert_eq!(prevented(&engine, "narrow"), [("service_shadow_mode", 1)]);
}

#[test]
fn what_is_no_request_takes_nothing() {
    let engine = engine(WIDE_AND_NARROW);
    let limit = Some(LimitOverride { requests_per_unit: 1, unit: 8 });
    let unknown_unit = request(&[descriptor("wide=a"), Descriptor { limit, ..descriptor("k=v") }]);
    assert_eq!(engine.decide_now(&unknown_unit, START), Err(InvalidRequest::UnknownUnit { descriptor: 1, unit: 8 }));
    assert_eq!(engine.decide_now(&request(&[]), START), Err(InvalidRequest::NoDescriptors));
    let nowhere = RateLimitRequest { domain: "".into(), ..request(&[descriptor("wide=a")]) };
    assert_eq!(engine.decide_now(&nowhere, START), Err(InvalidRequest::NoDomain));
    assert_eq!(engine.table().len(), 0);
}

#[test]
fn a_lower_limit_of_a_request_does_not_hold_back_what_flows_to_the_rules_bucket() {
    let engine = engine("domain: d\ndescriptors: [{key: k, rate_limit: {requests_per_unit: 1000, unit: minute}}]");
    let at = |millis: u64| Now { monotonic: START.monotonic + Micros(millis * 1000), ..START };
    let own_limit = |hits, amount| Descriptor {
        limit: Some(LimitOverride { requests_per_unit: amount, unit: 2 }),
        ..costing("k=a", hits)
    };
    assert!(engine.passes(&[costing("k=a", 1000)]));
    for millis in (0..6_000).step_by(8) {
        engine.decide_now(&request(&[own_limit(0, 0)]), at(millis)).unwrap();
        let refused = engine.decide_now(&request(&[own_limit(1, 1)]), at(millis)).unwrap();
        assert_eq!(refused.code, Code::OverLimit);
    }
    let status = engine.decide_now(&request(&[costing("k=a", 0)]), at(6_000)).unwrap().statuses[0].clone();
    assert_eq!(status.remaining, 100);
}

#[test]
fn a_larger_limit_of_a_request_does_not_make_the_rules_bucket_forgotten() {
    let engine = engine("domain: d\ndescriptors: [{key: k, rate_limit: {requests_per_unit: 10, unit: day}}]");
    assert!(engine.passes(&[costing("k=a", 10)]));
    let larger =
        Descriptor { limit: Some(LimitOverride { requests_per_unit: 1_000_000, unit: 4 }), ..descriptor("k=a") };
    assert!(engine.passes(&[larger]));
    let later = Now { monotonic: START.monotonic + Micros::from_seconds(3_600), ..START };
    engine.sweep(later, 1);
    let peek = engine.decide_now(&request(&[costing("k=a", 0)]), later).unwrap();
    assert_eq!(peek.code, Code::OverLimit);
}

#[test]
fn a_quota_that_only_the_services_shadow_mode_lets_pass_is_counted_so() {
    let engine = Engine::new(policy(WIDE_AND_NARROW), EngineSettings { shadow_mode: true, ..settings() }, START);
    for _ in 0..3 {
        assert!(engine.passes(&[descriptor("quota=a")]));
    }
    assert_eq!(prevented(&engine, "quota"), [("service_shadow_mode", 2)]);
}

#[test]
fn each_rule_counts_what_it_decides() {
    let engine = engine(
        "domain: d
descriptors:
  - {key: a, rate_limit: {requests_per_unit: 1, unit: day},
     descriptors: [{key: b, value: x*, share_threshold: true, rate_limit: {unlimited: true}}]}
",
    );
    let own_limit = Descriptor { limit: Some(LimitOverride { requests_per_unit: 9, unit: 1 }), ..descriptor("z=1") };
    for _ in 0..3 {
        engine.ask(&[descriptor("a=1"), descriptor("a=1 b=xy"), descriptor("nothing=1"), own_limit.clone()]);
    }
    engine.decide_now(&RateLimitRequest { domain: "other".into(), ..request(&[descriptor("a=1")]) }, START).unwrap();
    let active = engine.active();
    let counted = |tally: &Tally| -> Vec<_> {
        tally.decisions().map(|(source, code, count, _)| (source.name(), code.name(), count)).collect()
    };
    let domain = active.policy.domain(b"d").unwrap();
    let mut rules = Vec::new();
    domain.for_each_rule(|path, rule, _| rules.push((path.to_owned(), counted(active.tallies.rule(rule)))));
    assert_eq!(
        rules,
        [
            ("a".to_owned(), vec![("local", "ok", 1), ("local", "over_limit", 2)]),
            ("a|b~x*".to_owned(), vec![("unlimited", "ok", 3)]),
        ]
    );
    let of_domain = active.tallies.domain(domain);
    assert_eq!(counted(&of_domain.no_limit), [("unlimited", "ok", 3)]);
    assert_eq!(counted(&of_domain.own_limit), [("local", "ok", 3)]);
    assert_eq!(counted(&active.tallies.unknown_domain), [("unlimited", "ok", 1)]);
}

#[test]
fn rules_that_stay_go_on_counting_when_the_policy_changes() {
    let stay = "{key: a, detailed_metric: true, rate_limit: {requests_per_unit: AMOUNT, unit: day}}";
    let with = |amount: &str, more: &str| {
        policy(&format!("domain: d\ndescriptors: [{}{more}]", stay.replace("AMOUNT", amount)))
    };
    let engine = Engine::new(
        with("9", ", {key: b, shadow_mode: true, rate_limit: {requests_per_unit: 9, unit: day}}"),
        settings(),
        START,
    );
    let ask = || engine.ask(&[descriptor("a=1"), descriptor("b=1"), descriptor("c=1")]);
    ask();
    let seen = || {
        let active = engine.active();
        let domain = active.policy.domain(b"d").unwrap();
        let count = |tally: &Tally| tally.decisions().map(|(_, _, count, _)| count).sum::<u64>();
        let mut seen = Vec::new();
        domain.for_each_rule(|path, rule, _| {
            let tally = active.tallies.rule(rule);
            let mut values = Vec::new();
            let note = |value: &str, _, count| {
                values.push((value.to_owned(), count));
                Ok::<_, ()>(())
            };
            tally.values().for_each(note).unwrap();
            seen.push((path.to_owned(), count(tally), values));
        });
        seen.sort();
        (seen, count(&active.tallies.domain(domain).no_limit))
    };
    let a = |count| ("a".to_owned(), count, vec![("a=1".to_owned(), count)]);
    let b = |count| ("b".to_owned(), count, Vec::new());
    assert_eq!(seen(), (vec![a(1), b(1)], 1));

    // Another rule goes before it, so its place among the rules is another one; and `b` refuses now, which is another series.
    let before = engine.set_policy(
        with("5", ", {key: b, rate_limit: {requests_per_unit: 9, unit: day}}, {key: Z, rate_limit: {unlimited: true}}"),
        START,
    );
    ask();
    assert_eq!(seen(), (vec![("Z".to_owned(), 0, Vec::new()), a(2), b(1)], 2));

    // A request that came before the change may be decided after it.
    before.policy.domain(b"d").unwrap().for_each_rule(|path, rule, _| {
        if path == "a" {
            before.tallies.rule(rule).count(&Status::NO_LIMIT, 1);
        }
    });
    assert_eq!(seen().0[1].1, 3);

    engine.set_policy(with("5", ""), START);
    ask();
    assert_eq!(seen().0[0].1, 4, "and what went has gone");
    assert_eq!(seen().1, 4, "a=1 is limited; b and c are not: one more each than before");
}

#[test]
fn a_new_policy_keeps_what_was_spent() {
    let limit = |amount| {
        policy(&format!("domain: d\ndescriptors: [{{key: k, rate_limit: {{requests_per_unit: {amount}, unit: day}}}}]"))
    };
    let engine = Engine::new(limit(10), settings(), START);
    assert!(engine.passes(&[costing("k=a", 10)]));
    engine.set_policy(limit(15), START);
    assert_eq!(engine.remaining("k=a"), 5);
}

#[test]
fn tasks_that_compete_for_one_bucket_get_exactly_what_is_in_it() {
    let engine = engine("domain: d\ndescriptors: [{key: k, rate_limit: {requests_per_unit: 10000, unit: year}}]");
    let admitted: usize = std::thread::scope(|scope| {
        let task = || (0..500).filter(|_| engine.passes(&[descriptor("k=hot")])).count();
        let tasks: Vec<_> = (0..64).map(|_| scope.spawn(task)).collect();
        tasks.into_iter().map(|task| task.join().unwrap()).sum()
    });
    assert_eq!(admitted, 10_000);
}

#[test]
fn all_or_nothing_under_contention_loses_no_token() {
    // Each request wants one token of each of two buckets, in either order; one runs dry long before the other.
    let engine = engine(
        "domain: d\ndescriptors: [{key: a, rate_limit: {requests_per_unit: 50000, unit: year}},
         {key: b, rate_limit: {requests_per_unit: 3000, unit: year}}]",
    );
    let admitted: usize = std::thread::scope(|scope| {
        let tasks: Vec<_> = (0..32)
            .map(|task| {
                let engine = &engine;
                scope.spawn(move || {
                    let both = [descriptor("a=x"), descriptor("b=x")];
                    let other_way = [descriptor("b=x"), descriptor("a=x")];
                    (0..300).filter(|_| engine.passes(if task % 2 == 0 { &both } else { &other_way })).count()
                })
            })
            .collect();
        tasks.into_iter().map(|task| task.join().unwrap()).sum()
    });
    assert_eq!(admitted, 3_000);
    assert_eq!((engine.remaining("a=x"), engine.remaining("b=x")), (47_000, 0));
}

proptest! {
    #[test]
    fn a_refused_request_leaves_every_bucket_as_it_was(
        requests in prop::collection::vec(
            prop::collection::vec((0..4_usize, 0..3_u8, 0..8_u64, prop::bool::weighted(0.15)), 1..6),
            1..40,
        ),
    ) {
        const KEYS: [&str; 4] = ["wide", "narrow", "both", "quota"];
        // Overdrafts are left out: they are charged even then.
        let engine = engine(WIDE_AND_NARROW);
        let state = |engine: &Engine| -> Vec<Decision> {
            KEYS.iter().flat_map(|key| (0..3).map(move |value| format!("{key}={value}")))
                .map(|entries| engine.ask(&[costing(&entries, 0)])).collect()
        };
        for descriptors in requests {
            let descriptors: Vec<_> = descriptors
                .into_iter()
                .map(|(key, value, hits, gives_back)| {
                    let entries = format!("{}={value}", KEYS[key]);
                    if gives_back { giving_back(&entries, hits) } else { costing(&entries, hits) }
                })
                .collect();
            let before = state(&engine);
            if !engine.passes(&descriptors) {
                prop_assert_eq!(state(&engine), before);
            }
        }
    }
}
