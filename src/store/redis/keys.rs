use crate::store::shortened;

/// What all keys of one installation begin with.
///
/// It has no braces, so the first `{` of a key is that of the bucket's name, and a Cluster takes the whole identity of
/// the bucket, and nothing else, to find its slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPrefix(String);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("give 1 to {longest} printable ASCII characters without space, {{ and }}, such as comporta:", longest = KeyPrefix::LONGEST)]
pub struct PrefixError;

impl KeyPrefix {
    const LONGEST: usize = 64;

    pub fn new(text: &str) -> Result<Self, PrefixError> {
        let is_allowed = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'{' | b'}');
        let is_prefix = (1..=Self::LONGEST).contains(&text.len()) && text.bytes().all(is_allowed);
        if is_prefix { Ok(Self(text.to_owned())) } else { Err(PrefixError) }
    }

    /// The key of a bucket, given its name, such as `{api|tenant=acme}:minute`.
    pub(super) fn bucket(&self, name: &str) -> String {
        format!("{}{}", self.0, shortened(name.to_owned()))
    }

    /// The key of something that is there once. No bucket's key is like it, because those go on with a brace.
    pub(super) fn single(&self, name: &str) -> String {
        format!("{}{name}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::percent::in_name;
    use crate::store::name::LONGEST_NAME;

    fn prefix() -> KeyPrefix {
        KeyPrefix::new("comporta:").unwrap()
    }

    /// The part of a key that a Cluster hashes to find the slot.
    fn hash_tag(key: &str) -> &str {
        let (_, rest) = key.split_once('{').unwrap();
        rest.split_once('}').unwrap().0
    }

    #[test]
    fn a_key_is_the_name_with_a_prefix() {
        assert_eq!(prefix().bucket("{api|tenant=acme}:minute"), "comporta:{api|tenant=acme}:minute");
        assert_eq!(prefix().single("replicas"), "comporta:replicas");
    }

    #[test]
    fn a_long_name_keeps_its_beginning_and_its_unit() {
        let name = format!("{{api|path={}}}:5minute:fixed_window", "x".repeat(1000));
        let key = prefix().bucket(&name);
        assert_eq!(key.len(), "comporta:".len() + LONGEST_NAME);
        assert!(key.starts_with("comporta:{api|path=xxx"), "{key}");
        assert!(key.ends_with("}:5minute:fixed_window"), "{key}");
        let hash = hash_tag(&key).rsplit_once("x%#").unwrap().1;
        assert!(hash.len() == 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{key}");

        let escaped = prefix().bucket(&format!("{{api|path={}}}:minute", "%2F".repeat(100)));
        assert!(hash_tag(&escaped).contains("%2F%#"), "{escaped}");
    }

    #[test]
    fn a_prefix_cannot_change_the_slot() {
        for wrong in ["", "a{b", "a}", "a b", "a\n", "é", &"x".repeat(65)] {
            assert_eq!(KeyPrefix::new(wrong), Err(PrefixError), "{wrong:?}");
        }
        assert!(KeyPrefix::new(&"x".repeat(64)).is_ok());
    }

    /// Names that differ in one byte, of lengths around the longest that is left alone.
    fn name() -> impl Strategy<Value = String> {
        let value = (
            prop_oneof![0..30_usize, 180..210_usize],
            prop::collection::vec(prop_oneof![Just(b'%'), Just(b'}'), any::<u8>()], 0..4),
        );
        let suffix = prop::sample::select(&[":minute", ":second", ":5minute:fixed_window"][..]);
        (value, suffix).prop_map(|((length, end), suffix)| {
            let value = [vec![b'x'; length], end].concat();
            format!("{{api|path={}}}{suffix}", in_name(&value))
        })
    }

    proptest! {
        #[test]
        fn two_names_never_have_one_key(one in name(), other in name()) {
            prop_assert_eq!(one == other, prefix().bucket(&one) == prefix().bucket(&other));
        }

        #[test]
        fn the_slot_follows_from_the_identity_alone(name in name()) {
            let key = prefix().bucket(&name);
            let inside = hash_tag(&key);
            prop_assert!(key.len() <= "comporta:".len() + LONGEST_NAME);
            prop_assert!(!inside.is_empty());
            if name.len() <= LONGEST_NAME {
                prop_assert_eq!(inside, hash_tag(&name));
            } else {
                // The hash is of the whole name.
                prop_assert!(inside.contains("%#"));
            }
            prop_assert_eq!(key.find('{'), Some("comporta:".len()));
            prop_assert_eq!(key.rsplit_once('}').unwrap().1, name.rsplit_once('}').unwrap().1);
        }
    }
}
