//! HTTP/1.1 as curl would speak it, one connection a request. Header values are bytes, because Envoy takes any.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::PATIENCE;

/// An answer.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Response {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// How often a header is there.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.headers.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name)).count()
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error} in the body {:?}", self.body))
    }
}

pub(crate) fn get(address: SocketAddr, path: &str) -> io::Result<Response> {
    request(address, "GET", path, &[], b"")
}

pub(crate) fn get_with(address: SocketAddr, path: &str, headers: &[(&str, &[u8])]) -> io::Result<Response> {
    request(address, "GET", path, headers, b"")
}

pub(crate) fn post_json(address: SocketAddr, path: &str, body: &str) -> io::Result<Response> {
    request(address, "POST", path, &[("content-type", b"application/json")], body.as_bytes())
}

/// Sends a request and reads the whole answer. An error is one of the connection; any status is an answer.
pub(crate) fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &[u8])],
    body: &[u8],
) -> io::Result<Response> {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n").into_bytes();
    for (name, value) in headers {
        head.extend([name.as_bytes(), b": ", value, b"\r\n"].concat());
    }
    head.extend(format!("content-length: {}\r\n\r\n", body.len()).into_bytes());

    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&head)?;
    stream.write_all(body)?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    parse(&String::from_utf8_lossy(&answer)).ok_or_else(|| io::Error::other("the answer is not HTTP"))
}

fn parse(answer: &str) -> Option<Response> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let mut lines = head.split("\r\n");
    let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers = lines.filter_map(|line| line.split_once(": ")).map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
    Some(Response { status, headers, body: body.to_owned() })
}
