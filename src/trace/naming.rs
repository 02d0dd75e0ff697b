//! What spans say of descriptors and buckets. Values are what clients send, and may be secrets; keys are what the
//! operator has written.

use crate::percent::in_name;
use crate::request::{Descriptor, RateLimitRequest, Shown};

/// Longer texts are cut.
const LONGEST_TEXT: usize = 256;

/// Of more descriptors than these nothing is said.
pub(super) const MOST_DESCRIPTORS: usize = 16;

pub(super) fn domain(request: &RateLimitRequest) -> String {
    let mut domain = in_name(&request.domain[..request.domain.len().min(LONGEST_TEXT)]).to_string();
    // All of it is ASCII.
    domain.truncate(LONGEST_TEXT);
    domain
}

/// A descriptor as `tenant|path`, or with values as `tenant=acme|path=/export`.
pub(super) fn descriptor(descriptor: &Descriptor, with_values: bool) -> String {
    descriptor.text(|_| if with_values { Shown::WithValue } else { Shown::KeyAlone }, LONGEST_TEXT)
}

/// The name of a bucket without the values in it: `{api|tenant}:minute` of `{api|tenant=acme}:minute`. A pattern that all
/// its values share is the policy's, and stays.
pub(super) fn bucket_without_values(name: &str) -> String {
    let Some((path, suffix)) = name.strip_prefix('{').and_then(|name| name.split_once('}')) else {
        return String::new();
    };
    // What a long name was cut to may end within a value, and then has a hash of all.
    let path = path.split_once("%#").map_or(path, |(kept, _)| kept);
    let keys: Vec<&str> = path.split('|').map(|part| part.split_once('=').map_or(part, |(key, _)| key)).collect();
    format!("{{{}}}{suffix}", keys.join("|"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Entry;
    use crate::store::shortened;

    fn entries(pairs: &[(&'static str, &'static [u8])]) -> Descriptor {
        let entry = |&(key, value): &(&'static str, &'static [u8])| Entry { key: key.into(), value: value.into() };
        Descriptor { entries: pairs.iter().map(entry).collect(), ..Descriptor::default() }
    }

    #[test]
    fn a_descriptor_is_its_keys_and_values_only_if_they_are_wanted() {
        let acme = entries(&[("tenant", b"acme"), ("path", b"/a|b\xff")]);
        assert_eq!(descriptor(&acme, false), "tenant|path");
        assert_eq!(descriptor(&acme, true), "tenant=acme|path=/a%7Cb%FF");
        assert_eq!(descriptor(&entries(&[]), true), "");
    }

    #[test]
    fn long_texts_are_cut() {
        let long: &'static [u8] = Box::leak(vec![0xff; 1_000_000].into_boxed_slice());
        assert_eq!(descriptor(&entries(&[("k", long), ("l", b"v")]), true).len(), LONGEST_TEXT);
    }

    #[test]
    fn a_bucket_without_values_has_its_keys_and_patterns() {
        assert_eq!(
            bucket_without_values("{api|tenant=acme|path~/export*}:minute"),
            "{api|tenant|path~/export*}:minute"
        );
        assert_eq!(bucket_without_values("{api}:5minute:fixed_window"), "{api}:5minute:fixed_window");
        let long = shortened(format!("{{api|tenant={}}}:day", "x".repeat(500)));
        assert_eq!(bucket_without_values(&long), "{api|tenant}:day");
        let long_key = shortened(format!("{{api|{}=secret}}:day", "k".repeat(500)));
        assert!(!bucket_without_values(&long_key).contains('#'), "{long_key}");
    }
}
