use memchr::memmem;

/// Whether a value of a rule, or a tenant's name, stands for many.
pub(super) fn is_wildcard(text: &str) -> bool {
    text.contains('*')
}

/// A text in which every `*` stands for any run of bytes, an empty one too.
#[derive(Debug)]
pub(super) struct Pattern {
    text: Box<[u8]>,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.as_bytes().into() }
    }

    /// The pattern as it was written.
    pub(super) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Whether the whole of `value` matches.
    ///
    /// The parts between stars are sought from the left, each as early as it comes: if the rest of the pattern matches
    /// after a later place, it also matches after an earlier one. So nothing is ever tried again, and no pattern takes
    /// longer than in proportion to the value: it was written by the operator, and the value by anybody.
    pub(super) fn matches(&self, value: &[u8]) -> bool {
        let mut parts = self.text.split(|byte| *byte == b'*');
        let start = parts.next().unwrap_or_default();
        let end = parts.next_back().unwrap_or_default();
        let Some(middle) = value.strip_prefix(start).and_then(|rest| rest.strip_suffix(end)) else {
            return false;
        };
        let mut rest = middle;
        parts.all(|part| match memmem::find(rest, part) {
            Some(at) => {
                rest = &rest[at + part.len()..];
                true
            }
            None => false,
        })
    }
}

/// Of patterns that match the same values, one form: `a**b` is `a*b`.
pub(super) fn canonical(pattern: &str) -> String {
    let mut canonical = String::with_capacity(pattern.len());
    for character in pattern.chars() {
        if !(character == '*' && canonical.ends_with('*')) {
            canonical.push(character);
        }
    }
    canonical
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::policy::tests::within;

    fn matches(pattern: &str, value: &str) -> bool {
        Pattern::new(pattern).matches(value.as_bytes())
    }

    /// The meaning of a pattern, tried in every way.
    fn oracle(pattern: &[u8], value: &[u8]) -> bool {
        match pattern.split_first() {
            None => value.is_empty(),
            Some((b'*', rest)) => (0..=value.len()).any(|from| oracle(rest, &value[from..])),
            Some((first, rest)) => {
                value.split_first().is_some_and(|(byte, value)| byte == first && oracle(rest, value))
            }
        }
    }

    #[test]
    fn a_star_stands_for_any_run_anywhere() {
        assert!(matches("*", ""));
        assert!(matches("files/*", "files/"));
        assert!(matches("foo*bar*baz", "foobarbarbaz"));
        assert!(matches("*.example.com", "a.b.example.com"));
        assert!(!matches("bar*b", "bar"));
        assert!(!matches("a*a", "a"));
        assert!(!matches("files/*", "file"));
    }

    #[test]
    fn bytes_that_are_not_text_match_too() {
        assert!(Pattern::new("a*").matches(b"a\xff\x00"));
    }

    #[test]
    fn a_pattern_made_to_be_slow_is_not() {
        let value = "a".repeat(1 << 21);
        assert!(!within(1, || matches(&("*a".repeat(100) + "*b"), &value)));
        // Compared anew at each place of the value, these would be 2⁴⁰ bytes.
        assert!(!within(1, || matches(&format!("*{}b*", "a".repeat(1 << 20)), &value)));
    }

    proptest! {
        #[test]
        fn patterns_mean_what_they_say(pattern in "[ab*]{0,6}[*][ab*]{0,6}", value in "[ab]{0,12}") {
            let expected = oracle(pattern.as_bytes(), value.as_bytes());
            prop_assert_eq!(matches(&pattern, &value), expected);
            prop_assert_eq!(matches(&canonical(&pattern), &value), expected);
        }
    }
}
