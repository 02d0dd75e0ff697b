//! What stands after the `?` of a page's address.

use super::PageError;
use crate::percent;
use crate::policy::{Visible, readable};

/// Names and values, percent-decoded. A `+` is a plus sign: it means a space in HTML forms only, and there are none.
#[derive(Debug)]
pub(super) struct Query(Vec<(String, Vec<u8>)>);

/// A key and a value.
pub(super) type Entry<'q> = (&'q [u8], &'q [u8]);

impl Query {
    pub(super) fn parse(text: &str) -> Result<Self, PageError> {
        let mut parameters = Vec::new();
        for parameter in text.split('&').filter(|parameter| !parameter.is_empty()) {
            let (name, value) = parameter.split_once('=').unwrap_or((parameter, ""));
            let decoded = percent::decode(name).and_then(|name| Ok((readable(&name), percent::decode(value)?)));
            parameters.push(decoded.map_err(|percent::BadEscape| {
                let shown = Visible(parameter);
                bad(format!("\"{shown}\" has a % without two hexadecimal digits: write %25 for the sign itself"))
            })?);
        }
        Ok(Self(parameters))
    }

    /// Whether `format` asks for JSON, if it is there.
    pub(super) fn wants_json(&self) -> Result<Option<bool>, PageError> {
        match self.one("format")? {
            None => Ok(None),
            Some(b"json") => Ok(Some(true)),
            Some(b"text") => Ok(Some(false)),
            Some(other) => Err(bad(format!("format is json or text, and not \"{}\"", Visible(&readable(other))))),
        }
    }

    /// Refuses parameters that the page does not know.
    pub(super) fn check_names(&self, known: &[&str]) -> Result<(), PageError> {
        match self.0.iter().find(|(name, _)| name != "format" && !known.contains(&&**name)) {
            None => Ok(()),
            Some((name, _)) => Err(bad(format!(
                "there is no parameter \"{}\": there are {} and format",
                Visible(name),
                known.join(", ")
            ))),
        }
    }

    /// The value of a parameter that may be given once.
    pub(super) fn one(&self, name: &str) -> Result<Option<&[u8]>, PageError> {
        let mut values = self.all(name);
        let first = values.next();
        match values.next() {
            None => Ok(first),
            Some(_) => Err(bad(format!("{name} is given twice: give it once"))),
        }
    }

    /// A number, which is lowered to `most`.
    pub(super) fn number(&self, name: &str, default: usize, most: usize) -> Result<usize, PageError> {
        let Some(value) = self.one(name)? else { return Ok(default) };
        let text = readable(value);
        // Digits only, of which any number makes sense: too many of them are the most.
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(bad(format!("{name} must be a whole number, and this is \"{}\"", Visible(&text))));
        }
        Ok(text.parse().unwrap_or(usize::MAX).min(most))
    }

    /// The entries of a descriptor: each an `entry=KEY=VALUE`, or all of them in `descriptor=KEY=VALUE,KEY=VALUE`, where
    /// values have no commas.
    pub(super) fn entries(&self) -> Result<Vec<Entry<'_>>, PageError> {
        let single = self.all("entry").map(entry).collect::<Result<Vec<_>, _>>()?;
        let Some(descriptor) = self.one("descriptor")? else {
            if single.is_empty() {
                return Err(bad("the descriptor is missing: give its entries, in order".to_owned()));
            }
            return Ok(single);
        };
        if !single.is_empty() {
            return Err(bad("entry and descriptor exclude each other: give one of them".to_owned()));
        }
        descriptor.split(|byte| *byte == b',').map(entry).collect()
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &[u8]> {
        self.0.iter().filter(move |(other, _)| other == name).map(|(_, value)| &**value)
    }
}

fn entry(text: &[u8]) -> Result<Entry<'_>, PageError> {
    let Some(at) = text.iter().position(|byte| *byte == b'=') else {
        let shown = readable(text);
        return Err(bad(format!(
            "\"{}\" is no entry: write KEY=VALUE (and values with commas each in an entry= of its own)",
            Visible(&shown)
        )));
    };
    Ok((&text[..at], &text[at + 1..]))
}

const fn bad(problem: String) -> PageError {
    PageError::BadQuestion(problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(query: &str) -> Result<Vec<(String, String)>, String> {
        let query = Query::parse(query).map_err(|error| error.to_string())?;
        let entries = query.entries().map_err(|error| error.to_string())?;
        Ok(entries.into_iter().map(|(key, value)| (readable(key), readable(value))).collect())
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn entries_come_one_by_one_or_joined_by_commas() {
        let two = pairs(&[("tenant", "acme"), ("path", "/a=b")]);
        for query in [
            "entry=tenant=acme&entry=path=/a=b",
            "descriptor=tenant=acme,path=/a=b",
            "descriptor=tenant%3Dacme%2Cpath%3D%2Fa%3Db",
        ] {
            assert_eq!(entries(query).as_ref(), Ok(&two), "{query}");
        }
        assert_eq!(entries("&entry=k=a,b+c%20%ff&"), Ok(pairs(&[("k", "a,b+c \\xff")])));
        assert_eq!(entries("entry=="), Ok(pairs(&[("", "")])));
    }

    #[test]
    fn what_is_no_descriptor_says_what_to_write() {
        for (query, beginning) in [
            ("", "the descriptor is missing"),
            ("entry=tenant", "\"tenant\" is no entry"),
            ("descriptor=a=b,c", "\"c\" is no entry"),
            ("descriptor=a=b&descriptor=c=d", "descriptor is given twice"),
            ("descriptor=a=b&entry=c=d", "entry and descriptor exclude each other"),
            ("entry=a=%zz", "\"entry=a=%zz\" has a % without"),
        ] {
            let error = entries(query).unwrap_err();
            assert!(error.starts_with(beginning), "{error}");
        }
    }

    #[test]
    fn a_number_has_a_most() {
        let number = |query: &str| Query::parse(query).and_then(|query| query.number("limit", 100, 1000)).ok();
        assert_eq!(number(""), Some(100));
        assert_eq!(number("limit=7"), Some(7));
        assert_eq!(number("limit=99999999999999999999999"), Some(1000));
        for wrong in ["limit=", "limit=-1", "limit=+1", "limit=x", "limit=1&limit=2"] {
            assert_eq!(number(wrong), None, "{wrong}");
        }
    }
}
