//! The first words on a connection. They are exchanged before the client has it, because it would not tell why a server
//! hangs up: that it wants another certificate, or that it has too many clients.

use std::io;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::stream::Stream;

/// `PING`, as [the protocol](https://redis.io/docs/latest/develop/reference/protocol-spec/) has it.
const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

/// No first line of a Redis is longer than this, in bytes: the longest tells of its protected mode.
const LONGEST: usize = 2048;

/// The first line that a server says.
#[derive(Debug)]
pub(super) struct Greeting(String);

/// Says `PING`, and hears what the server says to it.
pub(super) async fn exchange(stream: &mut Stream) -> io::Result<Greeting> {
    stream.write_all(PING).await?;
    stream.flush().await?;
    let mut line = Vec::new();
    // Nothing was asked for that could follow it, so this is not slow for long.
    loop {
        match stream.read_u8().await? {
            b'\n' => break,
            _ if line.len() == LONGEST => return Err(no_redis()),
            byte => line.push(byte),
        }
    }
    let line = String::from_utf8(line).map_err(|_| no_redis())?;
    if line.starts_with(['+', '-']) { Ok(Greeting(line)) } else { Err(no_redis()) }
}

fn no_redis() -> io::Error {
    io::Error::other("it does not answer as a Redis does")
}

impl Greeting {
    /// Why the server will not have us. It may want a login first, or be loading; that is no refusal.
    pub(super) fn refusal(&self) -> Option<&str> {
        let words = self.0.strip_prefix('-')?;
        let is_refusal = words.starts_with("ERR max number of clients") || words.starts_with("DENIED");
        is_refusal.then(|| words.trim_end())
    }
}
