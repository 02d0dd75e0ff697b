//! What is asked, and of which policy.

use bytes::Bytes;
use comporta::request::{Descriptor, Entry, RateLimitRequest};
use prost::Message;

/// More than anybody can ask for.
const ENOUGH: &str = "{requests_per_unit: 4000000000, unit: minute}";

/// The first request of a key passes, and no other does.
const NEARLY_NOTHING: &str = "{requests_per_unit: 1, unit: year}";

/// So many different values there are at most for each key.
const KEY_COUNTS: [usize; 2] = [1, 64];

/// One kind of request.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) policy: String,
    /// Sent in turn.
    pub(crate) requests: Vec<Bytes>,
    /// Hits are borrowed from Redis.
    pub(crate) has_store: bool,
    pub(crate) is_refused: bool,
}

impl Case {
    pub(crate) fn all() -> Vec<Self> {
        let kinds = [
            ("memory", ENOUGH, 1, false),
            ("lease", ENOUGH, 1, true),
            ("refused", NEARLY_NOTHING, 1, false),
            ("ten descriptors", ENOUGH, 10, false),
        ];
        let mut cases = Vec::new();
        for (name, limit, descriptors, has_store) in kinds {
            for keys in KEY_COUNTS {
                cases.push(Self {
                    name: format!("{name}, {keys} hot key{}", if keys == 1 { "" } else { "s" }),
                    policy: policy(limit, descriptors),
                    requests: (0..keys).map(|key| request(key, descriptors)).collect(),
                    has_store,
                    is_refused: limit == NEARLY_NOTHING,
                });
            }
        }
        cases
    }

    /// Whether its name has one of these in it; it has if there are none.
    pub(crate) fn is_among(&self, parts: &[String]) -> bool {
        parts.is_empty() || parts.iter().any(|part| self.name.contains(part))
    }
}

fn policy(limit: &str, descriptors: usize) -> String {
    let rules = (0..descriptors).map(|n| format!("  - {{key: user-{n}, rate_limit: {limit}}}\n"));
    format!("domain: bench\ndescriptors:\n{}", rules.collect::<Vec<_>>().concat())
}

fn request(key: usize, descriptors: usize) -> Bytes {
    let descriptor = |n| {
        let entry = Entry { key: format!("user-{n}").into(), value: format!("value-{key:04}").into() };
        Descriptor { entries: vec![entry], ..Descriptor::default() }
    };
    let descriptors = (0..descriptors).map(descriptor).collect();
    RateLimitRequest { domain: "bench".into(), descriptors, hits_addend: 0 }.encode_to_vec().into()
}
