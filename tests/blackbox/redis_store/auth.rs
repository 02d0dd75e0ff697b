//! Users and passwords, and who may do what.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use comporta::store::redis::{Credentials, RedisSettings, RedisStore};
use comporta::store::{Store, StoreError};
use tempfile::TempDir;

use super::{call, call_until_it_succeeds, refusal_or_absence, settings, start, take};
use crate::harness::{Comporta, PATIENCE, Redis, RedisSetup, Setup, http, wait_for};

/// A file with a login that can be changed.
struct LoginFile {
    folder: TempDir,
}

impl LoginFile {
    fn new(text: &str) -> Self {
        let file = Self { folder: TempDir::new().unwrap() };
        file.write(text);
        file
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("login")
    }

    /// Changes it as Kubernetes does: another file takes its place.
    fn write(&self, text: &str) {
        let new = self.folder.path().join("new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.path()).unwrap();
    }

    fn settings(&self, redis: &Redis) -> RedisSettings {
        let credentials = Credentials::File { path: self.path(), setting: "--redis-auth-file" };
        RedisSettings { credentials, ..settings(&format!("redis://{}", redis.address())) }
    }
}

/// Gives a user all rights on our keys, under this password alone.
fn set_user(redis: &Redis, user: &str, password: &str) {
    redis.command::<()>(&["ACL", "SETUSER", user, "reset", "on", &format!(">{password}"), "~*", "+@all"]);
}

#[tokio::test]
async fn a_password_that_was_wrong_in_its_file_is_read_again() {
    let redis = RedisSetup::new().password("secret").start();
    let file = LoginFile::new("hunter2\n");
    let store = RedisStore::start(&file.settings(&redis)).unwrap();
    let error = refusal_or_absence(&store).await;
    assert!(matches!(error, StoreError::Refused(_)), "{error:?}");
    assert!(error.to_string().contains("wrong; correct them in --redis-auth-file"), "{error}");
    file.write("secret\n");
    call_until_it_succeeds(&store).await;
}

#[tokio::test]
async fn a_password_that_was_wrong_at_the_server_is_tried_again() {
    let redis = Redis::start();
    set_user(&redis, "me", "other");
    let store = start(&format!("redis://me:secret@{}", redis.address()));
    let error = refusal_or_absence(&store).await;
    assert!(error.to_string().contains("correct them in --redis-url"), "{error}");
    set_user(&redis, "me", "secret");
    call_until_it_succeeds(&store).await;
}

#[tokio::test]
async fn an_open_connection_logs_in_anew_when_the_file_changes() {
    let redis = Redis::start();
    set_user(&redis, "old", "secret");
    set_user(&redis, "new", "hunter2");
    let file = LoginFile::new("old:secret");
    let store = RedisStore::start(&file.settings(&redis)).unwrap();
    call_until_it_succeeds(&store).await;
    assert_eq!(users(&redis), ["old"]);
    // What makes no sense changes nothing.
    file.write("");
    fs::remove_file(file.path()).unwrap();
    file.write("new:hunter2");
    let begun = Instant::now();
    while users(&redis) != ["new"] {
        call(&store).await.unwrap();
        assert!(begun.elapsed() < PATIENCE, "still {:?}", users(&redis));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // That closes the connections of the user.
    redis.command::<()>(&["ACL", "DELUSER", "old"]);
    call(&store).await.unwrap();
    redis.kill_clients();
    call_until_it_succeeds(&store).await;
    assert_eq!(users(&redis), ["new"]);
}

/// The users that the connections of stores belong to.
fn users(redis: &Redis) -> Vec<String> {
    let clients: String = redis.command(&["CLIENT", "LIST"]);
    let of_store = clients.lines().filter(|client| client.contains(" cmd=") && !client.contains(" cmd=client"));
    of_store.filter_map(|client| Some(client.split_once(" user=")?.1.split(' ').next()?.to_owned())).collect()
}

#[tokio::test]
async fn a_new_login_that_is_refused_leaves_the_old_one() {
    let redis = Redis::start();
    set_user(&redis, "old", "secret");
    let file = LoginFile::new("old:secret");
    let store = RedisStore::start(&file.settings(&redis)).unwrap();
    call_until_it_succeeds(&store).await;
    file.write("new:hunter2");
    let refused = || redis.command::<Vec<redis::Value>>(&["ACL", "LOG"]).len() == 1;
    let begun = Instant::now();
    while !refused() {
        assert!(begun.elapsed() < PATIENCE, "the new login was never tried");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for _ in 0..10 {
        call(&store).await.unwrap();
    }
    assert_eq!(users(&redis), ["old"]);
    // The server is told of it only now.
    set_user(&redis, "new", "hunter2");
    let begun = Instant::now();
    while users(&redis) != ["new"] {
        call(&store).await.unwrap();
        assert!(begun.elapsed() < PATIENCE, "still {:?}", users(&redis));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_user_who_may_not_run_scripts_is_refused_until_he_may() {
    let redis = Redis::start();
    set_user(&redis, "me", "secret");
    redis.command::<()>(&["ACL", "SETUSER", "me", "-evalsha", "-eval"]);
    let store = start(&format!("redis://me:secret@{}", redis.address()));
    let error = refusal_or_absence(&store).await;
    assert!(matches!(&error, StoreError::Refused(text) if text.contains("evalsha")), "{error:?}");
    redis.command::<()>(&["ACL", "SETUSER", "me", "+evalsha", "+eval"]);
    call(&store).await.unwrap();
}

#[tokio::test]
async fn a_user_who_may_not_use_our_keys_is_refused() {
    let redis = Redis::start();
    redis.command::<()>(&["ACL", "SETUSER", "me", "on", ">secret", "~other:*", "+@all"]);
    let store = start(&format!("redis://me:secret@{}", redis.address()));
    let error = refusal_or_absence(&store).await;
    assert!(matches!(&error, StoreError::Refused(text) if text.contains("NOPERM")), "{error:?}");
    redis.command::<()>(&["ACL", "SETUSER", "me", "~test:*"]);
    assert_eq!(store.call(&take("b", 3)).await.unwrap().used, 3);
}

/// Starts the service with a wrong or right password in its environment, and looks at all that it tells.
#[test]
fn no_page_and_no_line_tells_a_password() {
    let redis = RedisSetup::new().password("hunter2").start();
    let setup = Setup::new("domain: d\ndescriptors: [{key: k, rate_limit: {requests_per_unit: 1, unit: hour}}]\n")
        .flags(["--redis-url".to_owned(), redis.address().to_string(), "--log-level=trace".to_owned()])
        .environment([("COMPORTA_REDIS_AUTH", "hunter2")]);
    let comporta = setup.start();
    wait_for("the connection", || comporta.log().contains("connected to").then_some(()));
    let ask = |comporta: &Comporta| {
        let body = r#"{"domain": "d", "descriptors": [{"entries": [{"key": "k", "value": "x"}]}]}"#;
        http::post_json(comporta.addresses.http, "/json", body).unwrap().status
    };
    assert_eq!([ask(&comporta), ask(&comporta)], [200, 429]);
    for page in ["/policy", "/metrics", "/buckets", "/"] {
        let page = http::get(comporta.addresses.admin, page).unwrap().body;
        assert!(!page.contains("hunter2"), "{page}");
    }
    assert!(!comporta.command_line().contains("hunter2"), "{}", comporta.command_line());
    assert!(!comporta.log().contains("hunter2"), "{}", comporta.log());
}
