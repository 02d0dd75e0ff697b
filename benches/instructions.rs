//! How many instructions a decision takes, from memory and from a lease: `scripts/instructions` runs it in valgrind.
//!
//!     cargo bench --bench instructions -- memory|lease DECISIONS

#![expect(clippy::expect_used, clippy::panic, reason = "a benchmark stops when it cannot run")]

#[path = "fixture/policy.rs"]
mod policy;
#[path = "fixture/replica.rs"]
mod replica;
#[path = "fixture/request.rs"]
mod request;

use std::hint::black_box;

use comporta::engine::Answer;

use policy::policy;
use replica::Replica;
use request::request;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let [mode, decisions] = &arguments[..] else { panic!("give `memory` or `lease`, and how many decisions") };
    let decisions: u64 = decisions.parse().expect("the number of decisions is a number");

    let policy = policy("[{key: user, rate_limit: {requests_per_unit: 4000000000, unit: minute}}]");
    let mut replica = Replica::new(policy, mode == "lease");
    let request = request([("user".into(), "user-0000001".into())]);
    let mut waited = 0_u64;
    for _ in 0..decisions {
        let answer = replica.decide(black_box(&request));
        waited += u64::from(matches!(black_box(answer), Answer::Waiting(_)));
    }
    eprintln!("{decisions} decisions, {waited} of them had to wait");
}
