#![expect(clippy::missing_panics_doc, reason = "a finding is a panic")]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

use clap::Parser;
use serde_json::Value;

use super::explain::{ExplainSettings, answer};
use crate::fuzzing::{POLICY, assert_printable};
use crate::policy::{Defaults, load_texts};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    settings: ExplainSettings,
}

/// Explains what stands on a command line, its arguments ended by zeros as a shell hands them over.
pub fn explain(bytes: &[u8]) {
    let arguments = bytes.split(|byte| *byte == 0).map(|argument| OsString::from_vec(argument.to_owned()));
    let Ok(Line { settings }) = Line::try_parse_from([OsString::from("explain")].into_iter().chain(arguments)) else {
        return;
    };
    let texts = [("api.yaml", POLICY), ("other.yaml", "domain: other")];
    match answer(&settings, || load_texts(&texts, &Defaults::default())) {
        Ok(text) if settings.json => assert!(text.parse::<Value>().is_ok(), "this is no JSON: {text}"),
        Ok(text) => assert_printable(&text),
        Err(error) => assert_printable(&error.to_string()),
    }
}
