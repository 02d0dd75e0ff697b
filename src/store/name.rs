use std::fmt::Write;

use sha2::{Digest, Sha256};

/// A bucket's name that is longer is shortened. Replica and store keep it as long as the bucket lives, so long
/// values must not cost memory there.
pub(super) const LONGEST_NAME: usize = 200;

/// Bytes of the hash of a shortened name; 128 bits, of which no two names ever share all.
const HASH_BYTES: usize = 16;

/// The name itself if it is short enough. Else it keeps the beginning of what is in the braces, for people, and what follows them. Between them stands `%#`, which is
/// in no other name because a `%` there is always followed by two hexadecimal digits, and a hash of the whole name. So a
/// shortened name is like no other, shortened or not.
pub(crate) fn shortened(name: String) -> String {
    if name.len() <= LONGEST_NAME {
        return name;
    }
    let inside = name.strip_prefix('{').unwrap_or(&name);
    let (inside, suffix) = inside.split_once('}').unwrap_or((inside, ""));
    let mut hash = String::with_capacity(2 * HASH_BYTES);
    for byte in &Sha256::digest(&name)[..HASH_BYTES] {
        // Writing to a string does not fail.
        let _ = write!(hash, "{byte:02x}");
    }
    let around = "{%#}".len() + hash.len() + suffix.len();
    let kept = beginning(inside, LONGEST_NAME.saturating_sub(around));
    format!("{{{kept}%#{hash}}}{suffix}")
}

/// At most so many bytes, and no half of an escape at the end.
fn beginning(text: &str, most: usize) -> &str {
    let mut end = most.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let kept = &text[..end];
    match kept.rfind('%') {
        Some(escape) if escape + 3 > end => &kept[..escape],
        _ => kept,
    }
}
