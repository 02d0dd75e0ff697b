//! Finds and reads the files of a policy.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::fault::{Position, Source};
use super::visible::push_visible;

/// The largest policy file, in bytes.
const LARGEST_FILE: u64 = 64 << 20;

/// What was read, and where it was looked for.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// At least one: what cannot be read is a source with a problem.
    pub(super) sources: Vec<Source>,
    /// Paths of files, also of those that cannot be read or were found before.
    pub(super) files: Vec<PathBuf>,
    /// Paths of the directories that were looked into.
    pub(super) directories: Vec<PathBuf>,
    /// Paths of what has the name of a policy and is neither a file nor a directory.
    pub(super) passed_over: Vec<PathBuf>,
}

/// Reads the file at `path`, or all policies in the directory at `path` and below, in byte order of their paths.
///
/// In a directory a policy is what ends in `.yaml` or `.yml`; what begins with a dot is skipped. Links are followed,
/// and a file that is found by several paths is read by the first of them: a mounted Kubernetes `ConfigMap` shows each
/// file twice.
pub(super) fn read(path: &Path) -> Reading {
    let only = |source| Reading { sources: vec![source], files: vec![path.to_owned()], ..Reading::default() };
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => read_directory(path),
        Ok(_) => only(read_file(path)),
        Err(error) => only(unreadable(path, &error)),
    }
}

fn read_directory(root: &Path) -> Reading {
    let mut reading = find_files(root);
    if reading.files.is_empty() && reading.sources.is_empty() {
        let problem = "no policy in this directory: put a file into it whose name ends in .yaml or .yml";
        reading.sources.push(with_problem(root, problem.to_owned()));
    }
    let mut seen = HashSet::new();
    for file in &reading.files {
        let is_new = fs::canonicalize(file).map_or(true, |real| seen.insert(real));
        if is_new {
            reading.sources.push(read_file(file));
        }
    }
    reading
}

/// The policies in a directory and below, in order. Only directories that cannot be looked into are sources already.
fn find_files(root: &Path) -> Reading {
    let mut reading = Reading::default();
    let mut seen = HashSet::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        // Links can make a directory lie inside itself.
        let is_new = fs::canonicalize(&directory).map_or(true, |real| seen.insert(real));
        if !is_new {
            continue;
        }
        match visible_entries(&directory) {
            Ok(paths) => {
                // The last is taken first, so that the first of several paths to one directory is the one that counts.
                for path in paths.into_iter().rev() {
                    match fs::metadata(&path) {
                        Ok(metadata) if metadata.is_dir() => directories.push(path),
                        Ok(metadata) if !metadata.is_file() && is_policy(&path) => reading.passed_over.push(path),
                        Ok(metadata) if !metadata.is_file() => {}
                        // Why it cannot be read is told where it is tried.
                        Ok(_) | Err(_) if is_policy(&path) => reading.files.push(path),
                        Ok(_) | Err(_) => {}
                    }
                }
            }
            Err(error) => reading.sources.push(unreadable(&directory, &error)),
        }
        reading.directories.push(directory);
    }
    reading.files.sort_unstable_by(|one, other| bytes(one).cmp(bytes(other)));
    reading
}

fn visible_entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            paths.push(entry.path());
        }
    }
    paths.sort_unstable_by(|one, other| bytes(one).cmp(bytes(other)));
    Ok(paths)
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

fn is_policy(path: &Path) -> bool {
    path.extension().is_some_and(|end| end.eq_ignore_ascii_case("yaml") || end.eq_ignore_ascii_case("yml"))
}

fn read_file(path: &Path) -> Source {
    let mut content = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LARGEST_FILE + 1).read_to_end(&mut content));
    match read {
        Err(error) => unreadable(path, &error),
        Ok(length) if length as u64 > LARGEST_FILE => {
            let megabytes = LARGEST_FILE >> 20;
            with_problem(path, format!("the file is larger than {megabytes} MiB: split it into several"))
        }
        Ok(_) => decode(path, content),
    }
}

pub(super) fn decode(path: &Path, content: Vec<u8>) -> Source {
    match String::from_utf8(content) {
        Ok(text) => Source { name: name(path), text: without_byte_order_mark(text), problem: None },
        Err(error) => {
            let valid = String::from_utf8_lossy(&error.as_bytes()[..error.utf8_error().valid_up_to()]);
            let problem = (end_of(&valid), "this is not UTF-8: save the file as UTF-8".to_owned());
            let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
            Source { name: name(path), text, problem: Some(problem) }
        }
    }
}

/// Some editors put such a mark first.
fn without_byte_order_mark(mut text: String) -> String {
    if text.starts_with('\u{feff}') {
        text.drain(..'\u{feff}'.len_utf8());
    }
    text
}

/// The position after the last character.
fn end_of(text: &str) -> Position {
    let breaks = text.matches(['\n', '\r']).count() - text.matches("\r\n").count();
    let last_line = text.rsplit(['\n', '\r']).next().unwrap_or_default();
    let number = |from_zero: usize| u32::try_from(from_zero).unwrap_or(u32::MAX - 1) + 1;
    Position { line: number(breaks), column: number(last_line.chars().count()) }
}

fn unreadable(path: &Path, error: &io::Error) -> Source {
    let advice = match error.kind() {
        io::ErrorKind::NotFound => "give the path of a policy file, or of a directory of them",
        io::ErrorKind::PermissionDenied => "let the user that runs this read it",
        _ => "make it readable, or give another path",
    };
    with_problem(path, format!("this cannot be read ({error}): {advice}"))
}

fn with_problem(path: &Path, problem: String) -> Source {
    Source { name: name(path), text: String::new(), problem: Some((Position::WHOLE_FILE, problem)) }
}

fn name(path: &Path) -> Arc<str> {
    let mut name = String::new();
    push_visible(&path.to_string_lossy(), &mut name);
    name.into()
}
