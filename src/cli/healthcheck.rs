use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

use super::print_page;
use crate::settings::HttpSettings;

/// How long connecting may take, and each part of the answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// No answer is longer.
const LONGEST_ANSWER: u64 = 64 * 1024;

/// Asks the service on this machine whether it is ready, and prints what it says.
pub(super) fn run(settings: &HttpSettings) -> ExitCode {
    let address = settings.address.http_addr;
    match ask(address, settings.http_tls_cert.is_some()) {
        Ok(answer) => {
            print_page(&format!("{}\n", answer.body.trim_end()));
            if answer.is_ready { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            let cause = match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => format!("no answer within {PATIENCE:?}"),
                io::ErrorKind::InvalidData => {
                    "what answers is no Comporta, or one with other --http-tls-cert".to_owned()
                }
                _ => error.to_string(),
            };
            if let Some(fault) = settings.files().and_then(|files| files.check().err()) {
                eprintln!("error: {fault}");
            }
            eprintln!("error: nobody answers on {address}: {cause}; give --http-addr and --http-tls-cert as to serve");
            ExitCode::FAILURE
        }
    }
}

struct HealthAnswer {
    is_ready: bool,
    body: String,
}

fn ask(address: SocketAddr, has_tls: bool) -> io::Result<HealthAnswer> {
    let connection = connect(address)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    let answer = if has_tls {
        let session = ClientConnection::new(Arc::new(of_anybody()?), ServerName::IpAddress(address.ip().into()));
        exchange(StreamOwned::new(session.map_err(io::Error::other)?, connection))?
    } else {
        exchange(connection)?
    };
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::InvalidData)?;
    Ok(HealthAnswer { is_ready: head.starts_with("HTTP/1.1 200 "), body: body.to_owned() })
}

fn exchange(mut connection: impl Read + Write) -> io::Result<String> {
    connection.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    match connection.take(LONGEST_ANSWER).read_to_end(&mut answer) {
        // Not everybody says farewell in TLS.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
        read => drop(read?),
    }
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// TLS with whoever answers: we ask ourselves, on this machine, and the certificate is for the name that others know.
fn of_anybody() -> io::Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions();
    let anybody = Arc::new(Anybody(provider));
    Ok(config.map_err(io::Error::other)?.dangerous().with_custom_certificate_verifier(anybody).with_no_client_auth())
}

#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Who listens on all addresses is found on loopback, of IPv4 too if the machine has no IPv6.
fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let to = |ip: IpAddr| TcpStream::connect_timeout(&SocketAddr::new(ip, address.port()), PATIENCE);
    match address.ip() {
        IpAddr::V6(ip) if ip.is_unspecified() => {
            to(Ipv6Addr::LOCALHOST.into()).or_else(|_| to(Ipv4Addr::LOCALHOST.into()))
        }
        IpAddr::V4(ip) if ip.is_unspecified() => to(Ipv4Addr::LOCALHOST.into()),
        ip => to(ip),
    }
}
