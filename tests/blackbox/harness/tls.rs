//! A client that speaks TLS, one connection at a time, and looks at whom it speaks to.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, HandshakeKind, RootCertStore, StreamOwned, crypto};

use super::{Identity, PATIENCE};

/// A connection on which the handshake has been made.
pub(crate) struct TlsStream(StreamOwned<ClientConnection, TcpStream>);

impl TlsStream {
    /// Connects to a server of this authority whose certificate is for its address, and shows who we are if asked.
    pub(crate) fn connect(address: SocketAddr, authority: &Path, identity: Option<&Identity>) -> io::Result<Self> {
        Self::connect_with(address, &Self::config(authority, identity))
    }

    /// Whom we trust, and who we are. Sessions are kept with it.
    pub(crate) fn config(authority: &Path, identity: Option<&Identity>) -> Arc<ClientConfig> {
        let mut authorities = RootCertStore::empty();
        authorities.add(CertificateDer::from_pem_file(authority).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(authorities);
        let config = match identity {
            None => config.with_no_client_auth(),
            Some(identity) => {
                let chain = vec![CertificateDer::from_pem_file(&identity.certificate).unwrap()];
                config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_file(&identity.key).unwrap()).unwrap()
            }
        };
        Arc::new(config)
    }

    pub(crate) fn connect_with(address: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let session = ClientConnection::new(Arc::clone(config), ServerName::from(address.ip())).unwrap();
        let mut stream = StreamOwned::new(session, stream);
        stream.conn.complete_io(&mut stream.sock)?;
        Ok(Self(stream))
    }

    pub(crate) fn say(&mut self, words: &[u8]) {
        self.0.write_all(words).unwrap();
    }

    /// Begins to speak HTTP/2, and hears what the server says first.
    pub(crate) fn greet_in_http_2(&mut self) {
        self.say(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
        self.0.read_exact(&mut [0; 9]).unwrap();
    }

    /// Whether it goes on with an earlier session.
    pub(crate) fn is_resumed(&self) -> bool {
        self.0.conn.handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// What the server has shown.
    pub(crate) fn certificate(&self) -> CertificateDer<'static> {
        self.0.conn.peer_certificates().unwrap()[0].clone().into_owned()
    }

    /// Reads one byte. In TLS 1.3 the server looks at our certificate when we take the handshake for done; whether it
    /// accepts it is heard with what it says next.
    pub(crate) fn first_byte(&mut self) -> io::Result<u8> {
        let mut byte = [0];
        self.0.read_exact(&mut byte)?;
        Ok(byte[0])
    }

    /// Sends an HTTP/1 request, and returns the status of its answer.
    pub(crate) fn status_of(mut self, head: &str, body: &str) -> u16 {
        let length = body.len();
        write!(self.0, "{head} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}")
            .unwrap();
        let mut answer = Vec::new();
        self.0.read_to_end(&mut answer).unwrap();
        let answer = String::from_utf8_lossy(&answer);
        answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{answer:?}"))
    }
}
