use std::cell::{Cell, RefCell};

use proptest::prop_assert_eq;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseResult, TestRunner};
use redis::Connection;

use super::server::{Kind, Server};
use super::step_count;
use super::steps::{BUCKET, MEAN_STEPS, Schedule, World, any_schedule};
use super::watched::{Scripts, Seen, numbers};

#[test]
fn the_scripts_do_what_the_model_does_on_redis() {
    take_random_steps(Kind::Redis);
}

#[test]
fn the_scripts_do_what_the_model_does_on_valkey() {
    take_random_steps(Kind::Valkey);
}

fn take_random_steps(kind: Kind) {
    let server = Server::start(kind);
    let mut connection = server.connect();
    let scripts = Scripts::load(&mut connection);
    let config = Config {
        cases: step_count() / MEAN_STEPS,
        // ChaCha takes most of the time, and this needs no good random numbers.
        rng_algorithm: RngAlgorithm::XorShift,
        ..Config::with_source_file(file!())
    };
    let (connection, taken) = (RefCell::new(connection), Cell::new(0));
    let result = TestRunner::new(config).run(&any_schedule(), |schedule| {
        taken.set(taken.get() + schedule.steps.len());
        compare(&schedule, &scripts, &mut connection.borrow_mut())
    });
    result.unwrap_or_else(|failure| panic!("{kind:?}: {failure}"));
    println!("{kind:?}: {} random steps equal to the model", taken.get());
}

/// Takes the steps in the model first, and then all at once on the server.
fn compare(schedule: &Schedule, scripts: &Scripts, connection: &mut Connection) -> TestCaseResult {
    let mut world = World::new();
    let mut pipeline = redis::pipe();
    pipeline.del(BUCKET).ignore();
    let mut expected = Vec::new();
    for step in &schedule.steps {
        let call = world.next_call(step, &schedule.limits);
        let kept_before = world.kept_until_millis();
        if kept_before.is_none() {
            pipeline.del(BUCKET).ignore();
        }
        pipeline.add_command(scripts.command(&call, world.now));
        let reply = numbers(&world.serve(&call));
        let kept = world.kept_until_millis();
        let lifetime_millis = kept.map(|until| until - world.now.0 / 1000);
        expected.push((call, kept != kept_before, Seen { reply, fields: world.fields(), lifetime_millis }));
    }
    let answers: Vec<String> = pipeline.query(connection).unwrap();
    prop_assert_eq!(answers.len(), expected.len());
    for (answer, (call, is_kept_anew, mut expected)) in answers.iter().zip(expected) {
        let seen = Seen::parse(answer);
        // A bucket that is kept until the same time as before may have been written or not.
        if !is_kept_anew && seen.lifetime_millis.is_none() {
            expected.lifetime_millis = None;
        }
        prop_assert_eq!(seen, expected, "{:?}", call);
    }
    Ok(())
}
