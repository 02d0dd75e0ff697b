//! Runs the cases of `tests/conformance/`, whose README describes their format, against the real binary: once without
//! Redis, and once more with one.

mod case;
mod compare;

use std::collections::BTreeSet;
use std::fs;
use std::thread;
use std::time::Duration;

use self::case::{Case, Outcome, Step, Wanted};
use crate::harness::{Comporta, Redis, Setup, grpc, project_path, run};

/// Cases under way at once, each with a process of its own, in each file's test.
const PARALLEL: usize = 4;

/// A test for each file, and the list of them.
macro_rules! case_files {
    ($($file:ident)*) => {
        const FILES: &[&str] = &[$(stringify!($file)),*];
        $(
            #[test]
            fn $file() {
                every_case_holds(stringify!($file), None);
            }
        )*

        mod with_redis {
            $(
                #[test]
                fn $file() {
                    super::every_case_holds(stringify!($file), Some(&crate::harness::Redis::start()));
                }
            )*
        }
    };
}

case_files! {
    counting
    headers
    matching
    overrides_and_replaces
    policy_errors
    reference_accepts
    reference_refuses
    several_descriptors
    shadow_and_quota
    tenants
    wildcards
}

#[test]
fn every_case_file_is_run() {
    let names = fs::read_dir(project_path("tests/conformance")).unwrap().map(|entry| entry.unwrap().file_name());
    let in_folder: BTreeSet<_> =
        names.filter_map(|name| name.to_str().unwrap().strip_suffix(".yaml").map(str::to_owned)).collect();
    assert_eq!(in_folder, FILES.iter().map(|&file| file.to_owned()).collect());
}

fn every_case_holds(file: &str, redis: Option<&Redis>) {
    let text = fs::read_to_string(project_path(&format!("tests/conformance/{file}.yaml"))).unwrap();
    let cases: Vec<Case> = serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{file}.yaml: {error}"));
    assert!(!cases.is_empty(), "{file}.yaml has no case");

    let mut failures = Vec::new();
    for some in cases.chunks(PARALLEL) {
        thread::scope(|scope| {
            let running: Vec<_> = some.iter().map(|case| (case, scope.spawn(|| hold(case, redis)))).collect();
            for (case, thread) in running {
                let outcome = thread.join().unwrap_or_else(|_| Err("panicked, as printed above".to_owned()));
                failures.extend(outcome.err().map(|why| format!("{file}: {}\n    {why}", case.name)));
            }
        });
    }
    assert!(failures.is_empty(), "{} of {} cases fail:\n{}", failures.len(), cases.len(), failures.join("\n"));
}

/// Whether one case holds; if not, why.
fn hold(case: &Case, redis: Option<&Redis>) -> Outcome {
    let mut flags = case.flags.clone();
    if let Some(redis) = redis {
        flags.extend(redis_flags(redis, &case.name));
    }
    let setup = Setup::with_files(case.policy_files()?).flags(flags);
    if let Some(wanted) = &case.check_error {
        check(&setup, &wanted.patterns())?;
    }
    if case.steps.is_empty() {
        return if case.check_error.is_some() { Ok(()) } else { Err("the case has nothing to hold".to_owned()) };
    }
    let mut comporta = setup.start();
    let outcome = take_steps(&comporta, &case.steps);
    let outcome = outcome.and_then(|()| comporta.is_running().then_some(()).ok_or("the service ended".to_owned()));
    outcome.map_err(|why| format!("{why}\n    what it printed:\n{}", comporta.log()))
}

/// The same Redis for all cases of a file, in which each has keys of its own.
fn redis_flags(redis: &Redis, case: &str) -> [String; 6] {
    let prefix: String = case.chars().filter(char::is_ascii_alphanumeric).take(60).collect();
    // A busy machine must not be taken for a failure of Redis.
    let words = ["--redis-url", &redis.url(), "--redis-timeout", "2s", "--redis-key-prefix", &format!("{prefix}:")];
    words.map(str::to_owned)
}

/// What `comporta check` says of the policy: no pattern, no fault.
fn check(setup: &Setup, patterns: &[&str]) -> Outcome {
    let path = setup.policy_path();
    let output = run(path, ["check", path.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    if patterns.is_empty() {
        return output.status.success().then_some(()).ok_or(format!("check refuses the policy: {said}"));
    }
    if output.status.code() != Some(1) {
        return Err(format!("check exits with {} instead of 1: {said}", output.status));
    }
    for pattern in patterns {
        let found = regex::Regex::new(&format!("(?i){pattern}")).map_err(|error| error.to_string())?.is_match(&said);
        if !found {
            return Err(format!("check does not print /{pattern}/ but: {said}"));
        }
    }
    Ok(())
}

fn take_steps(comporta: &Comporta, steps: &[Step]) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut client = comporta.client();
        for (number, step) in (1..).zip(steps) {
            match step.wanted()? {
                Wanted::Pause(seconds) => tokio::time::sleep(Duration::from_secs_f64(seconds)).await,
                Wanted::Answers { request, times, expect } => {
                    for time in 1..=times {
                        let answer = grpc::ask(&mut client, request.build()?).await;
                        compare::answer(answer, expect)
                            .map_err(|why| format!("step {number} ({time} of {times}): {why}"))?;
                    }
                }
            }
        }
        Ok(())
    })
}
