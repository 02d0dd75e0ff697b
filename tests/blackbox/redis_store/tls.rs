//! A Redis behind TLS.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::{env, fs};

use comporta::store::StoreError;
use comporta::store::redis::{RedisSettings, RedisStore, TlsSettings};
use tempfile::TempDir;

use super::{call, call_until_it_succeeds, connected, refusal_or_absence, settings, start};
use crate::harness::{Authority, Identity, Redis, RedisSetup, free_address, run};

/// The URL of the Redis for the process that trusts it.
const URL: &str = "COMPORTA_TEST_TLS_URL";

/// A Redis with a certificate for its address from this authority.
fn start_redis(authority: &Authority, clients: Option<&Authority>) -> Redis {
    start_with(authority.issue(&host()), clients)
}

fn start_with(identity: Identity, clients: Option<&Authority>) -> Redis {
    RedisSetup::new().with_tls(identity, clients).start()
}

/// All addresses of this process have the same host.
fn host() -> String {
    free_address().ip().to_string()
}

fn trusting(authorities: PathBuf) -> TlsSettings {
    TlsSettings { authorities: Some(authorities), ..TlsSettings::default() }
}

fn showing(identity: &Identity, authority: &Authority) -> TlsSettings {
    let identity = Some((identity.certificate.clone(), identity.key.clone()));
    TlsSettings { identity, ..trusting(authority.certificate()) }
}

fn settings_for(redis: &Redis, tls: TlsSettings) -> RedisSettings {
    RedisSettings { tls, ..settings(&redis.setup().tls_url()) }
}

fn start_for(redis: &Redis, tls: TlsSettings) -> Arc<RedisStore> {
    RedisStore::start(&settings_for(redis, tls)).unwrap()
}

/// What hinders a store with these settings from connecting.
async fn hindrance(redis: &Redis, tls: TlsSettings) -> String {
    let error = refusal_or_absence(&start_for(redis, tls)).await;
    assert!(matches!(error, StoreError::Unreachable(_)), "{error:?}");
    error.to_string()
}

/// What a machine trusts is read from its environment, which a test cannot change; so this runs once more, in a process
/// of its own that trusts the server.
#[test]
fn a_server_that_the_machine_trusts_is_used() {
    if let Ok(url) = env::var(URL) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        runtime.block_on(connected(&url));
        return;
    }
    let authority = Authority::new();
    let redis = start_redis(&authority, None);
    let mut test = Command::new(env::current_exe().unwrap());
    test.args(["--exact", "redis_store::tls::a_server_that_the_machine_trusts_is_used"]);
    test.env("SSL_CERT_FILE", authority.certificate()).env(URL, redis.setup().tls_url());
    let output = test.output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
    assert_eq!(redis.command_counts()["evalsha"], 1 + 1, "one call, and one report of the replica");
}

#[tokio::test]
async fn a_server_that_the_machine_does_not_trust_is_not_used() {
    let redis = start_redis(&Authority::new(), None);
    let store = start(&redis.setup().tls_url());
    let error = refusal_or_absence(&store).await.to_string();
    assert!(error.contains("UnknownIssuer") && error.contains("--redis-tls-ca"), "{error}");
    assert_eq!(redis.command_counts().get("evalsha"), None);
}

#[tokio::test]
async fn a_server_of_a_trusted_authority_is_used_and_of_another_is_not() {
    let authority = Authority::new();
    let redis = start_redis(&authority, None);
    call_until_it_succeeds(&start_for(&redis, trusting(authority.certificate()))).await;
    let error = hindrance(&redis, trusting(Authority::new().certificate())).await;
    assert!(error.contains("name the authority that has signed it in --redis-tls-ca"), "{error}");
}

#[tokio::test]
async fn a_certificate_that_has_expired_is_told_and_a_new_one_is_taken() {
    let authority = Authority::new();
    let identity = authority.issue_expired(&host());
    let mut redis = start_with(identity.clone(), None);
    let store = start_for(&redis, trusting(authority.certificate()));
    let error = refusal_or_absence(&store).await.to_string();
    assert!(error.contains("expired") && error.contains("the server needs a new one"), "{error}");

    let renewed = authority.issue(&host());
    fs::copy(renewed.certificate, identity.certificate).unwrap();
    fs::copy(renewed.key, identity.key).unwrap();
    redis.restart();
    call_until_it_succeeds(&store).await;
}

#[tokio::test]
async fn a_certificate_for_another_name_is_told_and_that_name_can_be_given() {
    let authority = Authority::new();
    let redis = start_with(authority.issue("redis.example"), None);
    let tls = trusting(authority.certificate());
    let error = hindrance(&redis, tls.clone()).await;
    assert!(error.contains("redis.example") && error.contains("in --redis-tls-server-name"), "{error}");
    let server_name = Some("redis.example".try_into().unwrap());
    call_until_it_succeeds(&start_for(&redis, TlsSettings { server_name, ..tls })).await;
}

#[tokio::test]
async fn a_server_that_wants_a_certificate_gets_ours() {
    let (authority, clients) = (Authority::new(), Authority::new());
    let redis = start_redis(&authority, Some(&clients));
    call_until_it_succeeds(&start_for(&redis, showing(&clients.issue("us"), &authority))).await;

    let error = hindrance(&redis, trusting(authority.certificate())).await;
    assert!(error.contains("give --redis-tls-cert and --redis-tls-key"), "{error}");
    for wrong in [authority.issue("us"), clients.issue_expired("us")] {
        let error = hindrance(&redis, showing(&wrong, &authority)).await;
        assert!(error.contains("the server does not accept our certificate"), "{error}");
    }
}

#[tokio::test]
async fn files_are_read_again_for_each_connection() {
    let (authority, other) = (Authority::new(), Authority::new());
    let redis = start_redis(&authority, None);
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("authorities.pem");
    fs::copy(other.certificate(), &file).unwrap();
    let store = start_for(&redis, trusting(file.clone()));
    let error = refusal_or_absence(&store).await;
    assert!(error.to_string().contains("--redis-tls-ca"), "{error}");
    fs::write(&file, "nothing yet").unwrap();
    while !call(&store).await.unwrap_err().to_string().contains("it holds no certificate") {}
    let both = fs::read_to_string(other.certificate()).unwrap() + &fs::read_to_string(authority.certificate()).unwrap();
    fs::write(&file, both).unwrap();
    call_until_it_succeeds(&store).await;
}

#[tokio::test]
async fn tls_and_no_tls_are_told_apart() {
    let authority = Authority::new();
    let redis = start_redis(&authority, None);
    let url = format!("rediss://{}", redis.address());
    let plain = RedisStore::start(&RedisSettings { tls: trusting(authority.certificate()), ..settings(&url) }).unwrap();
    let error = refusal_or_absence(&plain).await.to_string();
    assert!(error.contains("or does not speak TLS"), "{error}");

    let url = redis.setup().tls_url().replace("rediss", "redis");
    let error = refusal_or_absence(&start(&url)).await.to_string();
    assert!(error.contains("give rediss in place of redis then"), "{error}");
}

#[test]
fn a_file_that_cannot_be_used_stops_the_start() {
    let authority = Authority::new();
    let (one, other) = (authority.issue("one"), authority.issue("other"));
    let folder = TempDir::new().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (empty, broken) = (file("empty", ""), file("broken", "-----BEGIN CERTIFICATE-----\nAAAA\n"));
    let no_certificate = file("none", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let path = |path: &PathBuf| path.to_str().unwrap().to_owned();
    let (certificate, key) = (path(&one.certificate), path(&one.key));
    let ca = |file: &str| vec!["--redis-tls-ca".to_owned(), file.to_owned()];
    let identity = |certificate: &str, key: &str| {
        ["--redis-tls-cert", certificate, "--redis-tls-key", key].map(str::to_owned).to_vec()
    };
    for (flags, told) in [
        (ca("/nowhere/ca.pem"), "--redis-tls-ca: /nowhere/ca.pem: No such file"),
        (ca(&empty), "it holds no certificate in the PEM format"),
        (ca(&broken), "--redis-tls-ca: "),
        (ca(&no_certificate), "--redis-tls-ca: "),
        (ca(&key), "it holds no certificate in the PEM format"),
        (identity("/nowhere/crt", &key), "--redis-tls-cert: /nowhere/crt: No such file"),
        (identity(&certificate, "/nowhere/key"), "--redis-tls-key: /nowhere/key: No such file"),
        (identity(&certificate, &certificate), "it holds no private key in the PEM format"),
        (identity(&certificate, &path(&other.key)), "is not the key of"),
    ] {
        let policy = file("policy.yaml", "domain: d\n");
        let addresses = ["--grpc-addr", "--http-addr", "--admin-addr"]
            .map(|flag| [flag.to_owned(), free_address().to_string()])
            .concat();
        let mut arguments = vec!["serve".to_owned(), "--policy".to_owned(), policy];
        arguments.extend(addresses.into_iter().chain(["--redis-url".to_owned(), "rediss://127.0.0.1:1".to_owned()]));
        arguments.extend(flags);
        let output = run(folder.path(), arguments.iter().map(String::as_str));
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(error.contains("error: --redis-tls-") && error.contains(told), "{error}\nis not {told}");
    }
}

/// A server tells an address of its own at which TLS is spoken, too.
#[tokio::test]
async fn a_cluster_is_spoken_to_in_tls() {
    let authority = Authority::new();
    let setup = RedisSetup::new().with_tls(authority.issue(&host()), Some(&authority));
    let redis = setup.flags(["--cluster-enabled", "yes", "--tls-cluster", "yes"]).start();
    redis.command::<()>(&["CLUSTER", "ADDSLOTSRANGE", "0", "16383"]);
    let url = redis.setup().tls_url().replace("rediss", "rediss-cluster");
    let tls = showing(&authority.issue("us"), &authority);
    let store = RedisStore::start(&RedisSettings { tls, ..settings(&url) }).unwrap();
    call_until_it_succeeds(&store).await;
}

/// Both the Sentinel and the server that it names.
#[tokio::test]
async fn a_sentinel_and_its_primary_are_spoken_to_in_tls() {
    let authority = Authority::new();
    let with_tls = |setup: RedisSetup| setup.with_tls(authority.issue(&host()), Some(&authority));
    let redis = with_tls(RedisSetup::new()).start();
    let place = redis.setup().tls_url().replace("rediss://", "").replace(':', " ");
    let watching = with_tls(RedisSetup::new()).flags(["--tls-replication", "yes"]);
    let sentinel = watching.sentinel(&format!("sentinel monitor main {place} 1\n")).start();
    let url = format!("{}/main", sentinel.setup().tls_url().replace("rediss", "rediss-sentinel"));
    let tls = showing(&authority.issue("us"), &authority);
    let store = RedisStore::start(&RedisSettings { tls, ..settings(&url) }).unwrap();
    call_until_it_succeeds(&store).await;
    assert!(redis.command_counts().contains_key("evalsha"));
}
