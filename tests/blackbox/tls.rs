//! TLS on our own ports: whom the service serves, and what happens when certificates change while it does.

use std::fs;
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint};

use crate::harness::grpc::{Client, ask, code, request};
use crate::harness::{Authority, Comporta, Envoy, Identity, PATIENCE, Setup, TlsStream, command, fill_in};
use crate::harness::{free_address, http, project_path, wait_for};

const POLICY: &str = "{domain: d, descriptors: [{key: k, rate_limit: {unit: year, requests_per_unit: 1000000}}]}";

const QUESTION: &str = r#"{"domain": "d", "descriptors": [{"entries": [{"key": "k", "value": "v"}]}]}"#;

/// A service with these files, and whom it trusts.
struct Secured {
    authority: Authority,
    identity: Identity,
    setup: Setup,
}

impl Secured {
    /// One whose gRPC or HTTP port (`grpc`, `http`) speaks TLS, with these flags besides.
    fn new(port: &str, flags: impl IntoIterator<Item = String>) -> Self {
        Self::of(Authority::new(), port, flags)
    }

    fn of(authority: Authority, port: &str, flags: impl IntoIterator<Item = String>) -> Self {
        let setup = Setup::new(POLICY);
        let identity = authority.issue(&setup.addresses().grpc.ip().to_string());
        let own = [
            format!("--{port}-tls-cert={}", identity.certificate.display()),
            format!("--{port}-tls-key={}", identity.key.display()),
        ];
        let setup = setup.flags(own.into_iter().chain(flags));
        Self { authority, identity, setup }
    }

    /// One that wants clients of its own authority, with one of these names if there are any.
    fn mutual(port: &str, names: &str) -> Self {
        let authority = Authority::new();
        let mut flags = vec![format!("--{port}-tls-client-ca={}", authority.certificate().display())];
        if !names.is_empty() {
            flags.push(format!("--{port}-tls-client-san={names}"));
        }
        Self::of(authority, port, flags)
    }

    fn connect(&self, address: SocketAddr, identity: Option<&Identity>) -> io::Result<TlsStream> {
        TlsStream::connect(address, &self.authority.certificate(), identity)
    }

    fn client(&self, comporta: &Comporta, identity: Option<&Identity>) -> Client {
        Client::new(channel(comporta.addresses.grpc, &self.authority.certificate(), identity))
    }
}

fn channel(address: SocketAddr, authority: &Path, identity: Option<&Identity>) -> Channel {
    let read = |path: &Path| fs::read_to_string(path).unwrap();
    let mut tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(authority)));
    if let Some(identity) = identity {
        tls = tls.identity(tonic::transport::Identity::from_pem(read(&identity.certificate), read(&identity.key)));
    }
    Endpoint::new(format!("https://{address}")).unwrap().tls_config(tls).unwrap().connect_lazy()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_trusts_the_certificate_is_answered_and_plaintext_is_told() {
    let secured = Secured::new("grpc", []);
    let comporta = secured.setup.start();
    assert_eq!(code(&mut secured.client(&comporta, None), ["k=v"]).await, Code::Ok);
    assert!(ask(&mut comporta.client(), request("d", ["k=v"])).await.is_err());
    wait_for("the log to tell", || {
        comporta.log().contains("plaintext to the gRPC port, which wants TLS").then_some(())
    });
    let refused = comporta.metric(r#"comporta_connections_refused_total{port="grpc",reason="protocol"}"#);
    assert_eq!(refused, Some(1));
    let ends = comporta.metric(r#"comporta_tls_certificate_expiry_timestamp_seconds{port="grpc"}"#).unwrap();
    assert!(ends > 2_000_000_000, "{ends}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_clients_of_the_named_authority_are_served() {
    let secured = Secured::mutual("grpc", "");
    let comporta = secured.setup.start();
    let known = secured.authority.issue("anybody.example");
    assert_eq!(code(&mut secured.client(&comporta, Some(&known)), ["k=v"]).await, Code::Ok);
    let others = Authority::new();
    let stranger = others.issue("anybody.example");
    for identity in [None, Some(&stranger), Some(&secured.authority.issue_expired("anybody.example"))] {
        let answer = ask(&mut secured.client(&comporta, identity), request("d", ["k=v"])).await;
        assert!(answer.is_err(), "{identity:?} was served");
    }
    let refused = comporta.metric(r#"comporta_connections_refused_total{port="grpc",reason="tls"}"#).unwrap();
    assert!(refused >= 3, "{refused}");
    let log = comporta.log();
    assert!(log.contains("do not agree on TLS") && log.contains("an authority in --grpc-tls-client-ca"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_clients_with_one_of_the_named_names_are_served() {
    const URI: &str = "spiffe://cluster.local/ns/edge/sa/envoy";
    let secured = Secured::mutual("grpc", &format!("Envoy.Example,{URI}"));
    let comporta = secured.setup.start();
    for identity in [secured.authority.issue("envoy.example"), secured.authority.issue_for_uri(URI)] {
        assert_eq!(code(&mut secured.client(&comporta, Some(&identity)), ["k=v"]).await, Code::Ok);
    }
    for identity in [
        secured.authority.issue("other.example"),
        secured.authority.issue("sub.envoy.example"),
        secured.authority.issue_for_uri(&format!("{URI}2")),
        secured.authority.issue("127.0.0.1"),
    ] {
        let answer = ask(&mut secured.client(&comporta, Some(&identity)), request("d", ["k=v"])).await;
        assert!(answer.is_err(), "{identity:?} was served");
    }
    let log = comporta.log();
    assert!(log.contains("other.example, and none of that is in --grpc-tls-client-san"), "{log}");
}

#[test]
fn probes_need_no_certificate_and_questions_do() {
    let secured = Secured::mutual("http", "envoy.example");
    let comporta = secured.setup.start_until_open();
    let address = comporta.addresses.http;
    let status = |identity: Option<&Identity>, head, body| {
        secured.connect(address, identity).map(|stream| stream.status_of(head, body))
    };
    wait_for("readiness", || (status(None, "GET /readyz", "").unwrap() == 200).then_some(()));
    assert_eq!(status(None, "GET /livez", "").unwrap(), 200);
    assert_eq!(status(None, "POST /json", QUESTION).unwrap(), 403);
    let known = secured.authority.issue("envoy.example");
    assert_eq!(status(Some(&known), "POST /json", QUESTION).unwrap(), 200);
    let other = secured.authority.issue("other.example");
    let refused = secured.connect(address, Some(&other)).and_then(|mut stream| stream.first_byte());
    assert!(refused.is_err(), "a certificate for another name is worse than none");
    assert!(http::get(address, "/readyz").is_err(), "plaintext is not answered");

    let mut healthcheck = command();
    healthcheck.arg("healthcheck").arg("--http-addr").arg(address.to_string());
    assert!(!healthcheck.output().unwrap().status.success(), "it speaks plaintext if it is not told");
    healthcheck.arg("--http-tls-cert").arg(&secured.identity.certificate);
    let output = healthcheck.arg("--http-tls-key").arg(&secured.identity.key).output().unwrap();
    assert!(output.status.success() && output.stdout.starts_with(b"ok"), "{output:?}");
}

#[test]
fn files_that_make_no_sense_are_told_and_nothing_is_served() {
    let secured = Secured::new("grpc", []);
    let key = secured.identity.key.clone();
    fs::write(&key, "no key").unwrap();
    let mut comporta = secured.setup.launch();
    assert_eq!(comporta.wait_for_exit().code(), Some(1));
    let told = format!("error: --grpc-tls-key: {}: it holds no private key in the PEM format", key.display());
    assert!(comporta.log().contains(&told), "{}", comporta.log());
}

#[test]
fn a_certificate_of_ours_that_is_not_good_is_told_once_each_time() {
    let secured = Secured::new("grpc", []);
    let good = fs::read(&secured.identity.certificate).unwrap();
    let good_key = fs::read(&secured.identity.key).unwrap();
    let expired = secured.authority.issue_expired("localhost");
    let expire = || {
        fs::copy(&expired.key, &secured.identity.key).unwrap();
        fs::copy(&expired.certificate, &secured.identity.certificate).unwrap();
    };
    expire();
    let comporta = secured.setup.start();
    let certificate = secured.identity.certificate.display();
    let told = format!("--grpc-tls-cert: {certificate}: it ended on 2021-01-01 00:00 UTC, and clients refuse it");
    let times = || comporta.log().lines().filter(|line| line.contains(" WARN ") && line.contains(&told)).count();
    assert_eq!(times(), 1, "{}", comporta.log());
    let loads = || comporta.metric(r#"comporta_tls_loads_total{port="grpc",outcome="ok"}"#);
    fs::write(&secured.identity.key, good_key).unwrap();
    fs::write(&secured.identity.certificate, good).unwrap();
    wait_for("the good one to be taken", || (loads() == Some(2)).then_some(()));
    assert!(secured.connect(comporta.addresses.grpc, None).is_ok());
    expire();
    wait_for("the other to be told again", || (times() == 2).then_some(()));
}

#[test]
fn healthcheck_looks_at_the_files_that_it_is_given_when_nobody_answers() {
    let healthcheck = |certificate: &Path, key: &Path| {
        let mut healthcheck = command();
        healthcheck.arg("healthcheck").arg(format!("--http-addr={}", free_address()));
        let output =
            healthcheck.arg("--http-tls-cert").arg(certificate).arg("--http-tls-key").arg(key).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    let authority = Authority::new();
    let identity = authority.issue("localhost");
    let told = healthcheck(Path::new("/nowhere/tls.crt"), &identity.key);
    assert!(told.contains("error: --http-tls-cert: /nowhere/tls.crt: No such file"), "{told}");
    let told = healthcheck(&identity.certificate, &identity.key);
    assert!(told.starts_with("error: nobody answers on"), "{told}");
}

/// Certificates are exchanged a few times, each file by itself, while clients of all kinds ask.
#[tokio::test(flavor = "multi_thread")]
async fn certificates_change_under_load_and_no_request_fails() {
    const ROTATIONS: u64 = 4;
    let secured = Secured::mutual("grpc", "");
    let comporta = secured.setup.start();
    let address = comporta.addresses.grpc;
    let ours = secured.authority.issue("envoy.example");
    let (is_over, answered) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU32::new(0)));
    let lasting = secured.client(&comporta, Some(&ours));
    let clients: Vec<_> = (0..4)
        .map(|_| (Some(lasting.clone()), secured.authority.certificate(), ours.clone()))
        // These connect anew for each request.
        .chain((0..2).map(|_| (None, secured.authority.certificate(), ours.clone())))
        .map(|(lasting, authority, ours)| {
            let (is_over, answered) = (Arc::clone(&is_over), Arc::clone(&answered));
            tokio::spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    let new = || Client::new(channel(address, &authority, Some(&ours)));
                    let mut client = lasting.clone().unwrap_or_else(new);
                    ask(&mut client, request("d", ["k=v"])).await.expect("an answer");
                    answered.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            })
        })
        .collect();

    let rotate = || {
        for _ in 0..ROTATIONS {
            let next = secured.authority.issue(&address.ip().to_string());
            fs::copy(&next.certificate, &secured.identity.certificate).unwrap();
            // Longer than it takes until somebody looks.
            std::thread::sleep(Duration::from_millis(2500));
            fs::copy(&next.key, &secured.identity.key).unwrap();
            let expected = CertificateDer::from_pem_file(&next.certificate).unwrap();
            wait_for("the new certificate to be shown", || {
                let stream = secured.connect(address, Some(&ours)).unwrap();
                (stream.certificate() == expected).then_some(())
            });
        }
    };
    tokio::task::block_in_place(rotate);
    is_over.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    let answered = answered.load(Ordering::Relaxed);
    assert!(answered > 1000, "{answered} answers");
    let loads = |outcome| comporta.metric(&format!(r#"comporta_tls_loads_total{{port="grpc",outcome="{outcome}"}}"#));
    assert_eq!(loads("ok"), Some(1 + ROTATIONS));
    assert_eq!(loads("error"), Some(ROTATIONS), "half of a pair is told once");
}

/// A session that is resumed shows no certificate, so one that has ended or is accepted no more would be good for ever.
#[test]
fn where_clients_show_certificates_no_session_is_resumed() {
    for (secured, resumes) in [(Secured::new("grpc", []), true), (Secured::mutual("grpc", ""), false)] {
        let comporta = secured.setup.start();
        let ours = secured.authority.issue("envoy.example");
        let config = TlsStream::config(&secured.authority.certificate(), Some(&ours));
        let kinds = [(); 2].map(|()| {
            let mut stream = TlsStream::connect_with(comporta.addresses.grpc, &config).unwrap();
            stream.greet_in_http_2();
            stream.is_resumed()
        });
        assert_eq!(kinds, [false, resumes]);
    }
}

/// Whoever connects to a port with TLS and says nothing is let go, and so is who agrees on TLS and says nothing then.
#[test]
fn a_client_that_never_shakes_hands_or_asks_nothing_then_is_let_go() {
    let secured = Secured::new("grpc", []);
    let comporta = secured.setup.start();
    let mut silent = TcpStream::connect(comporta.addresses.grpc).unwrap();
    silent.set_read_timeout(Some(PATIENCE)).unwrap();
    // The beginning of a handshake, and no more.
    io::Write::write_all(&mut silent, &[0x16, 0x03, 0x01]).unwrap();
    let mut agreed = secured.connect(comporta.addresses.grpc, None).unwrap();
    assert!(matches!(io::Read::read(&mut silent, &mut [0]), Ok(0) | Err(_)), "it is cut");
    let end = agreed.first_byte().expect_err("nothing is said to it");
    assert!(!matches!(end.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut), "it is cut: {end}");
    let refused = comporta.metric(r#"comporta_connections_refused_total{port="grpc",reason="silent"}"#);
    assert_eq!(refused, Some(2));
}

#[test]
fn http_1_within_tls_is_told_as_it_is_without() {
    let secured = Secured::new("grpc", []);
    let comporta = secured.setup.start();
    let mut mistaken = secured.connect(comporta.addresses.grpc, None).unwrap();
    mistaken.say(b"POST /json HTTP/1.1\r\nhost: x\r\n\r\n");
    assert!(mistaken.first_byte().is_err(), "it is not answered");
    wait_for("the log to tell", || comporta.log().contains("speaks HTTP/1 to the gRPC port").then_some(()));
    let refused = comporta.metric(r#"comporta_connections_refused_total{port="grpc",reason="protocol"}"#);
    assert_eq!(refused, Some(1));
}

/// As docs/envoy.md has it.
const ENVOY_TLS: &str = "
    transport_socket:
      name: envoy.transport_sockets.tls
      typed_config:
        \"@type\": type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext
        common_tls_context:
          tls_certificates:
          - certificate_chain: {filename: OUR_CERTIFICATE}
            private_key: {filename: OUR_KEY}
          validation_context:
            trusted_ca: {filename: THE_AUTHORITY}
            match_typed_subject_alt_names:
            - {san_type: IP_ADDRESS, matcher: {exact: OUR_ADDRESS}}
";

#[test]
fn a_real_envoy_shows_its_certificate_and_is_answered() {
    let secured = Secured::mutual("grpc", "envoy.example");
    let comporta = secured.setup.start();
    let ours = secured.authority.issue("envoy.example");
    let (public, service, admin) = (free_address(), free_address(), free_address());
    let at = |address: SocketAddr| format!("address: {}, port_value: {}}}", address.ip(), address.port());
    let tls = fill_in(
        ENVOY_TLS,
        &[
            ("OUR_CERTIFICATE", ours.certificate.display().to_string()),
            ("OUR_KEY", ours.key.display().to_string()),
            ("OUR_ADDRESS", comporta.addresses.grpc.ip().to_string()),
            ("THE_AUTHORITY", secured.authority.certificate().display().to_string()),
        ],
    );
    let example = fs::read_to_string(project_path("examples/envoy/envoy.yaml")).unwrap();
    let config = fill_in(
        &example,
        &[
            ("address: 127.0.0.1, port_value: 10000}", at(public)),
            ("address: 127.0.0.1, port_value: 10001}", at(service)),
            ("address: 127.0.0.1, port_value: 9901}", at(admin)),
            ("address: 127.0.0.1, port_value: 8081}", at(comporta.addresses.grpc)),
            ("timeout: 0.1s", "timeout: 10s".to_owned()),
            ("domain: api  ", "domain: d  ".to_owned()),
            ("descriptor_key: tenant", "descriptor_key: k".to_owned()),
            ("failure_mode_deny: false", "failure_mode_deny: true".to_owned()),
            ("connect_timeout: 0.25s", format!("connect_timeout: 10s{tls}")),
        ],
    );
    let _envoy = Envoy::start(&config, admin);
    let response = http::get_with(public, "/", &[("x-tenant", b"acme")]).unwrap();
    assert_eq!((response.status, response.header("x-ratelimit-limit").is_some()), (200, true), "{response:?}");
}
