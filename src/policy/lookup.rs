use std::collections::HashMap;

/// Up to so many keys are compared one by one. That takes 2 to 8 ns, and hashing a key of 4 to 32 bytes 12 to 22 ns; with
/// 16 keys there is nothing between them.
const FEW: usize = 8;

/// A map by bytes that never changes.
#[derive(Debug)]
pub(super) enum Lookup<T> {
    Few(Box<[(Box<[u8]>, T)]>),
    Many(HashMap<Box<[u8]>, T>),
}

impl<T> Lookup<T> {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Few(entries) => entries.len(),
            Self::Many(entries) => entries.len(),
        }
    }

    /// All entries, in no order that means anything.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &T)> {
        let (few, many) = match self {
            Self::Few(entries) => (Some(entries.iter()), None),
            Self::Many(entries) => (None, Some(entries.iter())),
        };
        let few = few.into_iter().flatten().map(|(key, value)| (&**key, value));
        few.chain(many.into_iter().flatten().map(|(key, value)| (&**key, value)))
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<&T> {
        match self {
            Self::Few(entries) => entries.iter().find(|(other, _)| **other == *key).map(|(_, value)| value),
            Self::Many(entries) => entries.get(key),
        }
    }
}

/// Of entries with the same key only one is kept; the policy has told of the others.
impl<T> FromIterator<(Box<[u8]>, T)> for Lookup<T> {
    fn from_iter<I: IntoIterator<Item = (Box<[u8]>, T)>>(entries: I) -> Self {
        let entries: Vec<(Box<[u8]>, T)> = entries.into_iter().collect();
        if entries.len() <= FEW { Self::Few(entries.into()) } else { Self::Many(entries.into_iter().collect()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_keys_are_found_alike() {
        for count in [0_u32, 1, 8, 9, 1000] {
            let lookup: Lookup<u32> = (0..count).map(|n| (n.to_string().into_bytes().into(), n)).collect();
            for n in 0..count {
                assert_eq!(lookup.get(n.to_string().as_bytes()), Some(&n));
            }
            assert_eq!(lookup.get(count.to_string().as_bytes()), None);
            assert_eq!(lookup.iter().map(|(_, n)| n).sum::<u32>(), (0..count).sum::<u32>());
        }
    }
}
