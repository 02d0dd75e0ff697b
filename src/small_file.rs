//! Small files that somebody else may exchange at any time.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// No certificate and no login is larger, in bytes.
const LARGEST: u64 = 1024 * 1024;

/// Reads a file. One that has no end, or waits for somebody, is none.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    File::open(path)?.take(LARGEST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > LARGEST {
        return Err(io::Error::other("it is larger than 1 MiB"));
    }
    Ok(bytes)
}
