use proptest::prop_assert_eq;
use proptest::test_runner::TestCaseResult;
use redis::Connection;

use super::steps::{BUCKET, Schedule, World, any_schedule, run_schedules};
use super::watched::{Scripts, Seen, numbers};
use super::{start, step_count};
use crate::harness::Flavour;

#[test]
fn the_scripts_do_what_the_model_does_on_redis() {
    take_random_steps(Flavour::Redis);
}

#[test]
fn the_scripts_do_what_the_model_does_on_valkey() {
    take_random_steps(Flavour::Valkey);
}

#[test]
fn the_scripts_do_what_the_model_does_on_an_old_redis() {
    take_random_steps(Flavour::OldRedis);
}

fn take_random_steps(flavour: Flavour) {
    let server = start(flavour);
    let mut connection = server.connect();
    let scripts = Scripts::load(&mut connection);
    let taken = run_schedules(file!(), step_count(), any_schedule(), |schedule| {
        compare(&schedule, &scripts, &mut connection)?;
        Ok(schedule.steps.len())
    });
    eprintln!("{flavour:?}: {taken} random steps equal to the model");
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
