//! What the service does when the machine has no more to give.

use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;

use crate::harness::grpc::code;
use crate::harness::{Comporta, wait_for};

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
