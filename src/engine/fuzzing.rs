#![expect(clippy::expect_used, clippy::panic, reason = "a finding is a panic")]

use std::collections::HashMap;

use bytes::Bytes;
use redis::Value;

use super::{Answer, Call, Code, Decision, Engine, EngineSettings, Waiting};
use crate::fuzzing::Input;
use crate::limit::{Micros, Now};
use crate::policy::{Defaults, load_texts};
use crate::request::{Descriptor, Entry, RateLimitRequest};
use crate::store::{Operation, StoreError, scripts};

/// Limits that pass nothing without the store, and last one that charges whatever the store says.
const POLICY: &str = "\
domain: d
descriptors:
  - {key: second, rate_limit: {requests_per_unit: 100, unit: second, failure_mode: closed}}
  - {key: window, rate_limit: {requests_per_unit: 50, unit: minute, algorithm: fixed_window, failure_mode: closed}}
  - {key: largest, rate_limit: {requests_per_unit: 4294967295, unit: second, failure_mode: closed}}
  - {key: slow, rate_limit: {requests_per_unit: 10, unit: year, failure_mode: closed}}
  - {key: budget, rate_limit: {requests_per_unit: 10, unit: minute, overdraft: true, failure_mode: local}}
";

/// The keys of limits whose hits must all have been granted.
const LENT: [&str; 4] = ["second", "window", "largest", "slow"];

const KEYS: [&str; 5] = ["second", "window", "largest", "slow", "budget"];

/// Lets requests, answers of a store that may say anything, and time come in any order. No more may be admitted than the
/// store has granted to those who asked.
pub fn store_answers(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let mut trial = Trial::begin();
    while !input.is_empty() {
        trial.step(&mut input);
    }
    trial.end();
}

struct Trial {
    engine: Engine,
    now: Now,
    calls: Vec<Call>,
    waiting: Vec<(RateLimitRequest, Waiting)>,
    granted: HashMap<&'static str, u128>,
    admitted: HashMap<&'static str, u128>,
}

impl Trial {
    fn begin() -> Self {
        let policy = load_texts(&[("d.yaml", POLICY)], &Defaults::default()).expect("the policy has no faults").policy;
        let settings = EngineSettings {
            // Fewer than there are keys, so that some have to go.
            max_buckets: 4,
            store_timeout: Some(Micros(10_000)),
            ..EngineSettings::default()
        };
        let now = Now { monotonic: Micros(60_000_000), utc: Micros(1_700_000_000_000_000) };
        Self {
            engine: Engine::new(policy, settings, now),
            now,
            calls: Vec::new(),
            waiting: Vec::new(),
            granted: HashMap::new(),
            admitted: HashMap::new(),
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.below(12) {
            0..=3 => self.ask(input),
            4..=6 => self.answer(input),
            7 => {
                let time = Micros(input.number(&[1, 1_000, 10_000, 100_000, 1_000_000, 30_000_000, u64::MAX / 4]));
                self.now = Now { monotonic: self.now.monotonic + time, utc: self.now.utc + time };
            }
            8 if !self.calls.is_empty() => {
                let call = &self.calls[input.below(self.calls.len().min(256))];
                let calls = self.engine.call_is_overdue(call, self.now);
                self.calls.extend(calls);
            }
            9 if !self.waiting.is_empty() => {
                let (request, waiting) = self.waiting.swap_remove(input.below(self.waiting.len().min(256)));
                if input.below(2) == 0 {
                    self.give_up(&request, &waiting);
                } else {
                    self.calls.extend(self.engine.abandon(&waiting, self.now));
                }
            }
            10 => self.calls.extend(self.engine.look_after_leases(self.now)),
            _ => match input.below(4) {
                0 => self.calls.extend(self.engine.return_leases(self.now)),
                1 => self.engine.sweep(self.now, 1),
                2 => self.calls.extend(self.engine.repay_debts(self.now)),
                _ => self.engine.set_replicas(u32::try_from(input.number(&[0, 1, 2, 64])).unwrap_or(u32::MAX)),
            },
        }
        self.hear();
    }

    fn ask(&mut self, input: &mut Input<'_>) {
        let descriptors = (0..=input.below(2)).map(|_| {
            let key = Bytes::from_static(KEYS[input.below(KEYS.len())].as_bytes());
            let hits_addend = Some(input.number(&[0, 1, 2, 10, 50, 100, 1_000, u32::MAX.into(), u64::MAX]));
            let entries = vec![Entry { key, value: Bytes::from_static(b"v") }];
            Descriptor { entries, limit: None, hits_addend, is_negative_hits: input.below(8) == 7 }
        });
        let request =
            RateLimitRequest { domain: Bytes::from_static(b"d"), descriptors: descriptors.collect(), hits_addend: 0 };
        let ruling = self.engine.decide(&request, self.now).expect("Envoy could have sent it");
        self.calls.extend(ruling.calls);
        match ruling.answer {
            Answer::Decided(decision) => self.note(&request, &decision),
            Answer::Waiting(waiting) => self.waiting.push((request, waiting)),
        }
    }

    fn answer(&mut self, input: &mut Input<'_>) {
        if self.calls.is_empty() {
            return;
        }
        let call = self.calls.swap_remove(input.below(self.calls.len().min(256)));
        let cause = || "as the fuzzer wants it".to_owned();
        let answer = match input.below(8) {
            0 => Err(StoreError::Unreachable(cause())),
            1 => Err(StoreError::Lost(cause())),
            2 => Err(StoreError::Malformed(cause())),
            _ => scripts::reply(&numbers(&call, input), call.request.operation.most_extra()),
        };
        if let (Ok(reply), Operation::Acquire { needed, want, .. }) = (&answer, &call.request.operation) {
            let key = KEYS
                .into_iter()
                .find(|key| call.request.bucket.contains(&format!("|{key}=")))
                .expect("it is a bucket of ours");
            let granted = reply.extra.min(*want) + if reply.granted { *needed } else { 0 };
            *self.granted.entry(key).or_default() += u128::from(granted);
        }
        let calls = self.engine.take_answer(call, &answer, self.now);
        self.calls.extend(calls);
    }

    /// Takes note of requests that are decided by now.
    fn hear(&mut self) {
        for (request, mut waiting) in std::mem::take(&mut self.waiting) {
            match waiting.decision.try_recv() {
                Ok(Ok(decision)) => self.note(&request, &decision),
                Ok(Err(_)) => panic!("no limit is unavailable"),
                Err(_) => self.waiting.push((request, waiting)),
            }
        }
    }

    fn give_up(&mut self, request: &RateLimitRequest, waiting: &Waiting) {
        let given_up = self.engine.give_up(waiting, self.now);
        self.calls.extend(given_up.calls);
        let decision = given_up.decision.expect("it has not been decided, and so it is now");
        self.note(request, &decision.expect("no limit is unavailable"));
    }

    fn note(&mut self, request: &RateLimitRequest, decision: &Decision) {
        assert_eq!(decision.statuses.len(), request.descriptors.len());
        if decision.code == Code::OverLimit {
            return;
        }
        for descriptor in request.descriptors.iter().filter(|descriptor| !descriptor.is_negative_hits) {
            let key = KEYS.into_iter().find(|key| descriptor.entries[0].key == key.as_bytes()).expect("we have asked");
            *self.admitted.entry(key).or_default() += u128::from(descriptor.hits_addend.unwrap_or(1));
        }
        for key in LENT {
            let [granted, admitted] = [&self.granted, &self.admitted].map(|hits| hits.get(key).copied().unwrap_or(0));
            assert!(admitted <= granted, "{admitted} hits of {key} were admitted, and {granted} granted");
        }
    }

    /// Whatever has happened, nobody waits for ever.
    fn end(mut self) {
        self.hear();
        for (request, waiting) in std::mem::take(&mut self.waiting) {
            self.give_up(&request, &waiting);
        }
    }
}

/// Seven numbers, as our scripts answer, and perhaps none that they would.
fn numbers(call: &Call, input: &mut Input<'_>) -> Value {
    let (needed, want) = match call.request.operation {
        Operation::Acquire { needed, want, .. } => (needed, want),
        Operation::Refund { hits } | Operation::Debit { hits } => (hits, 0),
    };
    let largest = i64::MAX.unsigned_abs();
    let telling = [0, 1, want, needed, want.saturating_add(1), 1_000_000, 60_000_000, 1 << 53, largest];
    let mut number = || Value::Int(i64::try_from(input.number(&telling)).unwrap_or(i64::MAX));
    let mut numbers: Vec<Value> = (0..6).map(|_| number()).collect();
    numbers.insert(0, Value::Int(i64::from(input.below(2) == 1)));
    Value::Array(numbers)
}
