//! Clients that speak something else than gRPC to the gRPC port: the log says so, and is not flooded.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;

use crate::harness::grpc::code;
use crate::harness::{Comporta, PATIENCE, wait_for};

const POLICY: &str = "{domain: d, descriptors: [{key: k, rate_limit: {unit: year, requests_per_unit: 2}}]}";

const HTTP_1: &[u8] = b"POST /json HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\n\r\n{}";

/// The start of a handshake: a record of TLS 1.0, as all clients send it first, with a
/// `ClientHello` of 512 bytes.
const TLS: &[u8] = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 and so on";

/// Says something to the gRPC port, and waits until the service hangs up.
fn say(address: SocketAddr, words: &[u8]) {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(words).unwrap();
    // However it hangs up, it has read the words.
    let _ = stream.read_to_end(&mut Vec::new());
}

/// The lines of the log that warn.
fn warnings(comporta: &Comporta) -> Vec<String> {
    comporta.log().lines().filter(|line| line.contains(" WARN ")).map(str::to_owned).collect()
}

/// Says it once, and returns the one warning that there is then.
fn warning_about(words: &[u8]) -> String {
    let (_setup, comporta) = Comporta::with_policy(POLICY);
    say(comporta.addresses.grpc, words);
    let warnings = wait_for("a warning", || Some(warnings(&comporta)).filter(|lines| !lines.is_empty()));
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    warnings[0].clone()
}

#[test]
fn http_1_is_told_with_what_to_do() {
    let warning = warning_about(HTTP_1);
    for word in ["HTTP/1", "http2_protocol_options", "--http-addr", "peer=\"127.0.0.1:"] {
        assert!(warning.contains(word), "{word} is not in: {warning}");
    }
}

#[test]
fn tls_is_told_with_what_to_do() {
    let warning = warning_about(TLS);
    for word in ["TLS", "transport_socket", "peer=\"127.0.0.1:"] {
        assert!(warning.contains(word), "{word} is not in: {warning}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_such_connections_are_told_once_for_each_mistake() {
    let (_setup, comporta) = Comporta::with_policy(POLICY);
    let lines_before = comporta.log().lines().count();
    for _ in 0..500 {
        say(comporta.addresses.grpc, HTTP_1);
        say(comporta.addresses.grpc, TLS);
    }
    assert_eq!(code(&mut comporta.client(), ["k=v"]).await, Code::Ok, "the service lives on");
    let warnings = warnings(&comporta);
    assert_eq!(comporta.log().lines().count() - lines_before, 2, "{}", comporta.log());
    for mistake in ["HTTP/1", "TLS"] {
        assert!(warnings.iter().any(|line| line.contains(mistake)), "{mistake} is not in: {warnings:?}");
    }
}
