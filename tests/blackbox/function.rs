//! The example that asks over HTTP, tested with Node against the real binary.

use std::process::Command;

use crate::harness::project_path;

#[test]
fn the_function_example_passes_its_own_tests() {
    let output = Command::new("node")
        .args(["--test", "examples/function/handler.test.mjs"])
        .current_dir(project_path(""))
        .env("COMPORTA_BIN", env!("CARGO_BIN_EXE_comporta"))
        .output()
        .unwrap_or_else(|error| panic!("node cannot be started ({error}): run ./scripts/test, which installs it"));
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}\n{err}");
    assert!(out.contains("pass 7"), "not all seven tests ran:\n{out}");
}
