//! Tables as the documentation has them: what is printed can be put there as it is.

use std::fmt::Write as _;

/// Prints a table's head.
pub(crate) fn print_head(title: &str, columns: &[&str]) {
    println!("\n{title}\n");
    print_row(columns);
    println!("|{}", "---|".repeat(columns.len()));
}

pub(crate) fn print_row(cells: &[impl AsRef<str>]) {
    let mut line = String::from("|");
    for cell in cells {
        // A text takes whatever is written into it.
        let _ = write!(line, " {} |", cell.as_ref());
    }
    println!("{line}");
}

/// A count as people write it: 1,234,567.
pub(crate) fn count(count: usize) -> String {
    with_commas(&count.to_string())
}

/// The same of what is measured, rounded.
pub(crate) fn whole(number: f64) -> String {
    with_commas(&format!("{number:.0}"))
}

/// Of digits.
fn with_commas(digits: &str) -> String {
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three digits, or all of those before the point.
pub(crate) fn short(number: f64) -> String {
    match number {
        0.0 => "0".to_owned(),
        ..10.0 => format!("{number:.2}"),
        ..100.0 => format!("{number:.1}"),
        _ => whole(number),
    }
}
