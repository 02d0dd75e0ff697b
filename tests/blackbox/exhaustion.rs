//! What the service does when the machine has no more to give.

use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::Duration;

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use tempfile::TempDir;

use crate::harness::grpc::code;
use crate::harness::{Addresses, Comporta, command, wait_for, write_file};

const POLICY: &str = "{domain: d, descriptors: [{key: k, rate_limit: {unit: year, requests_per_unit: 2}}]}";

#[tokio::test(flavor = "multi_thread")]
async fn without_file_descriptors_it_says_so_rests_and_goes_on_when_there_are_some() {
    const MOST_FILES: u64 = 40;
    let (_setup, comporta) = Comporta::with_policy(POLICY);
    comporta.limit_open_files(MOST_FILES);
    let crowd: Vec<_> = (0..MOST_FILES + 20).map(|_| TcpStream::connect(comporta.addresses.grpc).unwrap()).collect();
    let complaints = || comporta.log().matches("cannot accept connections on the gRPC port").count();
    wait_for("the log to say so", || (complaints() > 0).then_some(()));

    let before = comporta.cpu_time();
    thread::sleep(Duration::from_secs(1));
    let spent = comporta.cpu_time().checked_sub(before).unwrap();
    assert!(spent < Duration::from_millis(500), "{spent:?} of CPU in a second of waiting");
    assert_eq!(complaints(), 1, "{}", comporta.log());

    drop(crowd);
    assert_eq!(code(&mut comporta.client(), ["k=v"]).await, Code::Ok);
}

#[test]
fn it_takes_as_many_files_as_it_may_have() {
    let (addresses, folder) = (Addresses::free(), TempDir::new().unwrap());
    let policy = folder.path().join("policy.yaml");
    write_file(&policy, POLICY);
    let binary = command();
    let mut limited = Command::new("sh");
    limited.args(["-c", r#"ulimit -Sn 64 && exec "$0" serve "$@""#]).arg(binary.get_program());
    limited.arg("--policy").arg(policy).arg(format!("--grpc-addr={}", addresses.grpc));
    limited.arg(format!("--http-addr={}", addresses.http)).arg(format!("--admin-addr={}", addresses.admin));
    let comporta = Comporta::start(&mut limited, addresses, folder.path().join("log"));
    let crowd: Vec<_> = (0..100).map(|_| TcpStream::connect(addresses.grpc).unwrap()).collect();
    wait_for("all to be taken", || (comporta.metric("comporta_connections{port=\"grpc\"}")? == 100).then_some(()));
    assert!(comporta.metric("process_max_fds").is_some_and(|most| most > 64));
    drop(crowd);
}
