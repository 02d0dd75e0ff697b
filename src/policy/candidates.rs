//! A few of many names: what was there to be found, for somebody who did not find it.

use std::cmp::Reverse;
use std::fmt;

use serde::Serialize;

use super::fault::Quoted;
use super::visible::{Visible, cropped};

/// How many names are told.
const FEW: usize = 5;

/// Bytes of a name by which it is compared: names may be as long as a file.
const COMPARED: usize = 64;

/// How many names there are, and a few of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Candidates {
    pub count: usize,
    /// The nearest or the first. Very long ones are cropped.
    pub names: Vec<String>,
}

impl Candidates {
    /// The names that look most like `wanted`: with the longest beginning and end in common. Their order depends on the
    /// names alone. One pass, however many there are.
    pub(super) fn nearest_to<'n>(wanted: &[u8], names: impl Iterator<Item = &'n [u8]>) -> Self {
        let (mut count, mut nearest) = (0, Vec::with_capacity(FEW + 1));
        for name in names {
            count += 1;
            let candidate = (Reverse(likeness(wanted, name)), name.len().abs_diff(wanted.len()), name);
            let place = nearest.partition_point(|other| *other < candidate);
            if place < FEW {
                nearest.insert(place, candidate);
                nearest.truncate(FEW);
            }
        }
        Self { count, names: nearest.into_iter().map(|(_, _, name)| cropped(name)).collect() }
    }

    /// The first names by byte order. One pass, however many there are.
    pub(super) fn lowest<'n>(names: impl Iterator<Item = &'n [u8]>) -> Self {
        let (mut count, mut lowest) = (0, Vec::with_capacity(FEW + 1));
        for name in names {
            count += 1;
            let place = lowest.partition_point(|other| *other < name);
            if place < FEW {
                lowest.insert(place, name);
                lowest.truncate(FEW);
            }
        }
        Self { count, names: lowest.into_iter().map(cropped).collect() }
    }

    /// Adds others after these.
    pub(super) fn append(&mut self, others: Self) {
        self.count += others.count;
        self.names.extend(others.names);
        self.names.truncate(FEW);
    }

    /// The first names in their own order.
    pub(super) fn first<'n>(names: impl ExactSizeIterator<Item = &'n [u8]>) -> Self {
        Self { count: names.len(), names: names.take(FEW).map(cropped).collect() }
    }
}

/// `"a", "b"`, and how many more.
impl fmt::Display for Candidates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, name) in self.names.iter().enumerate() {
            let separator = if index > 0 { ", " } else { "" };
            write!(f, "{separator}{}", Visible(&Quoted(name).to_string()))?;
        }
        match self.count - self.names.len() {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// How many bytes two names have in common at their beginnings and ends.
fn likeness(one: &[u8], other: &[u8]) -> usize {
    let common = |(one, other): &(&u8, &u8)| one.eq_ignore_ascii_case(other);
    let prefix = one.iter().zip(other).take(COMPARED).take_while(common).count();
    let rests = one[prefix..].iter().rev().zip(other[prefix..].iter().rev());
    prefix + rests.take(COMPARED).take_while(common).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nearest(wanted: &str, names: &[&str]) -> String {
        Candidates::nearest_to(wanted.as_bytes(), names.iter().map(|name| name.as_bytes())).to_string()
    }

    #[test]
    fn the_most_alike_come_first_and_the_rest_is_counted() {
        assert_eq!(nearest("acme", &["globex", "ACNE", "acme-2"]), r#""acme-2", "ACNE", "globex""#);
        assert_eq!(
            nearest("tenant-77", &["x", "tenant-1", "tenant-7", "tenant-78", "y", "tenant-770", "z"]),
            r#""tenant-770", "tenant-78", "tenant-7", "tenant-1", "x" and 2 more"#
        );
        assert_eq!(nearest("acme", &[]), "");
    }

    #[test]
    fn the_order_of_the_names_does_not_matter() {
        assert_eq!(nearest("b", &["c", "a", "d"]), nearest("b", &["d", "c", "a"]));
    }

    #[test]
    fn a_name_as_long_as_a_file_is_cropped() {
        let long = "é".repeat(1 << 20);
        let candidates = Candidates::nearest_to(b"x", [long.as_bytes()].into_iter());
        assert_eq!(candidates.names[0].chars().count(), 101);
    }
}
