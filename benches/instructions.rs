//! How many instructions a decision takes, from memory and from a lease: `scripts/instructions` runs it in valgrind.
//!
//!     cargo bench --bench instructions -- memory|lease DECISIONS

#![expect(clippy::expect_used, clippy::panic, reason = "a benchmark stops when it cannot run")]

use std::hint::black_box;

use comporta::engine::{Answer, Call, Engine, EngineSettings, Ruling};
use comporta::limit::{Micros, Now};
use comporta::policy::{Defaults, load_texts};
use comporta::request::{Descriptor, Entry, RateLimitRequest};
use comporta::store::memory::MemoryStore;

/// The time from one request to the next, in microseconds: 100,000 a second.
const PAUSE: u64 = 10;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [mode, decisions] = &arguments[..] else { panic!("give `memory` or `lease`, and how many decisions") };
    let store_timeout = (mode == "lease").then_some(Micros(10_000));
    let decisions: u64 = decisions.parse().expect("the number of decisions is a number");

    let text = "domain: bench\ndescriptors: [{key: user, rate_limit: {requests_per_unit: 4000000000, unit: minute}}]";
    let policy = load_texts(&[("bench.yaml", text)], &Defaults::default()).expect("the policy is good").policy;
    let mut now = Now { monotonic: Micros(1_000_000), utc: Micros(1_700_000_000_000_000) };
    let engine = Engine::new(policy, EngineSettings { store_timeout, ..EngineSettings::default() }, now);
    let mut store = MemoryStore::default();
    let request = RateLimitRequest {
        domain: "bench".into(),
        descriptors: vec![Descriptor {
            entries: vec![Entry { key: "user".into(), value: "user-0000001".into() }],
            ..Descriptor::default()
        }],
        hits_addend: 0,
    };
    let mut waited = 0_u64;
    for _ in 0..decisions {
        now = Now { monotonic: now.monotonic + Micros(PAUSE), utc: now.utc + Micros(PAUSE) };
        let Ruling { answer, calls } = engine.decide(black_box(&request), now).expect("the request is good");
        waited += u64::from(matches!(black_box(answer), Answer::Waiting(_)));
        serve(&engine, &mut store, calls, now);
    }
    eprintln!("{decisions} decisions, {waited} of them had to wait");
}

/// Brings every call the store's answer.
fn serve(engine: &Engine, store: &mut MemoryStore, calls: Vec<Call>, now: Now) {
    for call in calls {
        let reply = store.serve(&call.request, now.utc);
        serve(engine, store, engine.take_answer(call, &Ok(reply), now), now);
    }
}
