//! A Redis behind TLS.

use std::env;
use std::process::Command;

use comporta::store::StoreError;

use super::{call, connected, start};
use crate::harness::RedisSetup;

/// The URL of the Redis for the process that trusts it.
const URL: &str = "COMPORTA_TEST_TLS_URL";

/// What a machine trusts is read from its environment, which a test cannot change; so this runs once more, in a process
/// of its own that trusts the server.
#[test]
fn a_server_that_the_machine_trusts_is_used() {
    if let Ok(url) = env::var(URL) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(connected(&url));
        return;
    }
    let redis = RedisSetup::new().with_tls().start();
    let mut test = Command::new(env::current_exe().unwrap());
    test.args(["--exact", "redis_store::tls::a_server_that_the_machine_trusts_is_used"]);
    test.env("SSL_CERT_FILE", redis.setup().certificate()).env(URL, redis.setup().tls_url());
    let output = test.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
    assert_eq!(redis.command_counts()["evalsha"], 1 + 1, "one call, and one report of the replica");
}

#[tokio::test]
async fn a_server_that_the_machine_does_not_trust_is_not_used() {
    let redis = RedisSetup::new().with_tls().start();
    let store = start(&redis.setup().tls_url());
    let mut error = call(&store).await.unwrap_err();
    while error.to_string().contains("not connected yet") {
        error = call(&store).await.unwrap_err();
    }
    assert!(matches!(error, StoreError::Unreachable(_)), "{error:?}");
    assert!(error.to_string().contains("certificate"), "{error}");
    assert_eq!(redis.command_counts().get("evalsha"), None);
}
