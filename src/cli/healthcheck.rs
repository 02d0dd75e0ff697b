use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

use super::print_page;
use crate::settings::HttpAddress;

/// How long connecting may take, and each part of the answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// No answer is longer.
const LONGEST_ANSWER: u64 = 64 * 1024;

/// Asks the service on this machine whether it is ready, and prints what it says.
pub(super) fn run(address: &HttpAddress) -> ExitCode {
    match ask(address.http_addr) {
        Ok(answer) => {
            print_page(&format!("{}\n", answer.body.trim_end()));
            if answer.is_ready { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            let cause = match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => format!("no answer within {PATIENCE:?}"),
                io::ErrorKind::InvalidData => "what answers is no Comporta".to_owned(),
                _ => error.to_string(),
            };
            eprintln!("error: nobody answers on {}: {cause}; give --http-addr as to serve", address.http_addr);
            ExitCode::FAILURE
        }
    }
}

struct HealthAnswer {
    is_ready: bool,
    body: String,
}

fn ask(address: SocketAddr) -> io::Result<HealthAnswer> {
    let mut connection = connect(address)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    connection.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = Vec::new();
    connection.take(LONGEST_ANSWER).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::InvalidData)?;
    Ok(HealthAnswer { is_ready: head.starts_with("HTTP/1.1 200 "), body: body.to_owned() })
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
