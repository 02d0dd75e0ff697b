//! The command line.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use rustix::process::Signal;
use tempfile::TempDir;

use crate::harness::{
    Addresses, Comporta, RedisSetup, Setup, command, free_address, grpc, http, project_path, run, wait_for, write_file,
};

const ONE_A_DAY: &str = "{domain: d, descriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1, burst: 1}}]}";

/// Everything that a run has printed.
fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), output.stderr.as_slice()].concat()).into_owned()
}

/// Runs the binary in an empty directory, where no `config/` is found.
fn run_anywhere<'a>(arguments: impl IntoIterator<Item = &'a str>) -> Output {
    run(TempDir::new().unwrap().path(), arguments)
}

/// Whether some line begins with the file, a line and a column, and a colon each.
fn has_fault_at(text: &str, file: &str, line: u32) -> bool {
    let fault = regex::Regex::new(&format!(r"(?m)^\S*{}:{line}:\d+: \S", regex::escape(file))).unwrap();
    fault.is_match(text)
}

#[test]
fn help_answers_for_the_binary_and_for_each_subcommand() {
    let binary = run_anywhere(["--help"]);
    assert!(binary.status.success());
    for subcommand in ["serve", "check"] {
        assert!(printed(&binary).contains(subcommand), "{}", printed(&binary));
    }
    let serve = run_anywhere(["serve", "--help"]);
    assert!(serve.status.success());
    let flags = ["policy", "grpc-addr", "http-addr", "admin-addr", "shadow-mode", "default-algorithm", "overdraft"];
    for flag in flags.into_iter().chain(["max-buckets", "threads", "drain-timeout"]) {
        let variable = format!("COMPORTA_{}", flag.replace('-', "_").to_uppercase());
        for word in [format!("--{flag}"), variable] {
            assert!(printed(&serve).contains(&word), "{word} is not in\n{}", printed(&serve));
        }
    }
    let check = run_anywhere(["check", "--help"]);
    assert!(check.status.success());
    assert!(printed(&check).contains("PATH"), "{}", printed(&check));
}

#[test]
fn a_misspelled_flag_is_refused_with_the_one_that_was_meant() {
    let output = run_anywhere(["serve", "--polcy", "x"]);
    assert_eq!(output.status.code(), Some(2), "{}", printed(&output));
    assert!(printed(&output).contains("--policy"), "{}", printed(&output));
}

#[test]
fn a_value_that_a_flag_cannot_have_is_refused_with_the_name_of_the_flag() {
    for (flag, value) in [
        ("--grpc-addr", "nowhere"),
        ("--default-algorithm", "leaky_bucket"),
        ("--drain-timeout", "soon"),
        ("--max-buckets", "-1"),
    ] {
        let output = run_anywhere(["serve", &format!("{flag}={value}")]);
        assert_eq!(output.status.code(), Some(2), "{flag}: {}", printed(&output));
        assert!(printed(&output).contains(flag) && printed(&output).contains(value), "{}", printed(&output));
    }
}

#[test]
fn a_value_that_comes_from_a_variable_is_refused_with_its_name() {
    let refused = |variable: &str, value: &str, flags: &[&str]| {
        let output = command().arg("serve").args(flags).env(variable, value).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        printed(&output)
    };
    for (variable, value) in [
        ("COMPORTA_DRAIN_TIMEOUT", "soon"),
        ("COMPORTA_SHADOW_MODE", "maybe"),
        ("COMPORTA_FAILURE_MODE", "shut"),
        // Whose value is not shown.
        ("COMPORTA_REDIS_URL", "http://secret"),
    ] {
        let told = refused(variable, value, &[]);
        assert!(told.contains(&format!("The value is that of the environment variable {variable}.")), "{told}");
        assert!(!told.contains("secret"), "{told}");
    }
    let told = refused("COMPORTA_DRAIN_TIMEOUT", "5s", &["--drain-timeout=soon"]);
    assert!(told.contains("--drain-timeout") && !told.contains("variable"), "{told}");
}

#[test]
fn what_has_no_effect_is_told_at_the_start() {
    let setup = Setup::new(ONE_A_DAY).flags(["--replicas=3"]);
    let setup = setup.environment([("COMPORTA_REDIS_URI", "redis://secret"), ("COMPORTA_SERVICE_HOST", "10.0.0.1")]);
    let comporta = setup.start();
    let log = comporta.log();
    let warnings: Vec<_> = log.lines().filter(|line| line.contains(" WARN ")).collect();
    assert_eq!(warnings.len(), 2, "{log}");
    assert!(warnings[0].contains("without --redis-url these have no effect: --replicas"), "{log}");
    assert!(warnings[1].contains("COMPORTA_REDIS_URI (is COMPORTA_REDIS_URL meant?)"), "{log}");
    assert!(!log.contains("secret"), "{log}");
}

/// It may have no end, and nothing may ever come from it.
#[test]
fn a_pipe_among_the_policies_is_passed_over_and_told_once() {
    let setup = Setup::with_files([("policy.yaml", ONE_A_DAY), ("other.txt", "")]);
    let make_pipe = |name: &str| {
        let pipe = setup.policy_path().join(name);
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        pipe.display().to_string()
    };
    let pipe = make_pipe("pipe.yaml");
    make_pipe("pipe.txt");
    let told = format!("{pipe} is no regular file, and is passed over");
    let check = run_anywhere(["check", setup.policy_path().to_str().unwrap()]);
    assert!(check.status.success() && printed(&check).contains(&told), "{}", printed(&check));
    assert!(!printed(&check).contains("pipe.txt"), "{}", printed(&check));

    let comporta = setup.start();
    assert!(comporta.log().contains(&told), "{}", comporta.log());
    let later = format!("{} is no regular file, and is passed over", make_pipe("later.yaml"));
    wait_for("the new one to be told", || comporta.log().contains(&later).then_some(()));
    comporta.signal(Signal::HUP);
    wait_for("another look", || comporta.log().contains("has not changed").then_some(()));
    assert_eq!((comporta.log().matches(&told).count(), comporta.log().matches(&later).count()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_variable_does_what_its_flag_does() {
    let folder = TempDir::new().unwrap();
    let policy = folder.path().join("policy.yaml");
    write_file(&policy, ONE_A_DAY);
    let addresses = Addresses::free();
    let mut command = command();
    command.current_dir(folder.path());
    command.env("COMPORTA_POLICY", &policy).env("COMPORTA_SHADOW_MODE", "true");
    command.env("COMPORTA_GRPC_ADDR", addresses.grpc.to_string());
    command.env("COMPORTA_HTTP_ADDR", addresses.http.to_string());
    command.env("COMPORTA_ADMIN_ADDR", addresses.admin.to_string());
    let comporta = Comporta::start(&mut command, addresses, folder.path().join("log"));

    let mut client = comporta.client();
    for wanted in [Code::Ok, Code::OverLimit] {
        let answer = grpc::ask(&mut client, grpc::request("d", ["k=v"])).await.unwrap();
        assert_eq!(answer.overall_code(), Code::Ok, "shadow mode refuses nothing");
        assert_eq!(answer.statuses[0].code(), wanted);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flag_wins_over_its_environment_variable() {
    let setup = Setup::new(ONE_A_DAY);
    let addresses = Addresses::free();
    let mut command = command();
    command.env("COMPORTA_GRPC_ADDR", free_address().to_string()).env("COMPORTA_POLICY", "/nowhere");
    command.arg("serve").arg("--policy").arg(setup.policy_path());
    command.arg("--grpc-addr").arg(addresses.grpc.to_string());
    command.arg("--http-addr").arg(addresses.http.to_string());
    command.arg("--admin-addr").arg(addresses.admin.to_string());
    let folder = TempDir::new().unwrap();
    let comporta = Comporta::start(&mut command, addresses, folder.path().join("log"));
    assert_eq!(grpc::code(&mut comporta.client(), ["k=v"]).await, Code::Ok);
}

#[test]
fn a_port_in_use_is_refused_with_the_name_of_its_flag() {
    let setup = Setup::new(ONE_A_DAY);
    let taken = TcpListener::bind(free_address()).unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for flag in ["--grpc-addr", "--http-addr", "--admin-addr"] {
        let mut arguments = vec!["serve".to_owned(), "--policy".to_owned()];
        arguments.push(setup.policy_path().to_str().unwrap().to_owned());
        for other in ["--grpc-addr", "--http-addr", "--admin-addr"] {
            let address = if other == flag { address.clone() } else { free_address().to_string() };
            arguments.extend([other.to_owned(), address]);
        }
        let output = run_anywhere(arguments.iter().map(String::as_str));
        assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
        assert!(printed(&output).contains(flag), "{flag} is not in: {}", printed(&output));
        assert!(printed(&output).contains(&address), "{address} is not in: {}", printed(&output));
    }
}

#[test]
fn serve_says_what_it_loaded_and_where_it_listens() {
    let (_setup, comporta) = Comporta::with_policy(ONE_A_DAY);
    let Addresses { grpc, http, admin } = comporta.addresses;
    for address in [grpc, http, admin] {
        assert!(comporta.log().contains(&address.to_string()), "{address} is not in: {}", comporta.log());
    }
    assert!(comporta.log().contains("policy"), "{}", comporta.log());
}

#[test]
fn metrics_are_served_on_the_admin_address() {
    let (_setup, comporta) = Comporta::with_policy(ONE_A_DAY);
    let metrics = http::get(comporta.addresses.admin, "/metrics").unwrap();
    assert_eq!(metrics.status, 200);
    assert!(metrics.body.contains("# TYPE comporta_"), "{}", metrics.body);
}

#[test]
fn check_accepts_a_good_policy() {
    let setup = Setup::new(ONE_A_DAY);
    let output = run_anywhere(["check", setup.policy_path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
}

#[test]
fn check_accepts_the_policy_that_is_shipped() {
    let output = run(Path::new(env!("CARGO_MANIFEST_DIR")), ["check", "config"]);
    assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
    assert!(!printed(&output).contains("note"), "an example to learn from needs no note: {}", printed(&output));
}

#[test]
fn check_prints_every_fault_of_every_file_with_its_line_and_column() {
    let setup = Setup::with_files([
        ("one.yaml", "domain: d\ndescriptors:\n  - key: a\n    ratelimit: 3\n  - value: b\n"),
        ("sub/two.yaml", "domain: d\ndescriptors:\n  - key: c\n    plan: gold\n"),
    ]);
    let output = run_anywhere(["check", setup.policy_path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    for (file, line) in [("one.yaml", 4), ("one.yaml", 5), ("sub/two.yaml", 4)] {
        assert!(has_fault_at(&printed(&output), file, line), "{file}:{line} is not in: {}", printed(&output));
    }
}

#[test]
fn check_notes_a_long_bucket_that_may_admit_twice_its_amount_and_accepts_it() {
    let setup =
        Setup::new("domain: d\ndescriptors:\n  - key: k\n    rate_limit: {unit: day, requests_per_unit: 1000}\n");
    let output = run_anywhere(["check", setup.policy_path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
    assert!(printed(&output).contains("policy.yaml:4:"), "{}", printed(&output));
    assert!(printed(&output).contains("fixed_window"), "{}", printed(&output));
}

#[test]
fn check_of_a_path_that_does_not_exist_names_it() {
    let output = run_anywhere(["check", "no/such/policy.yaml"]);
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    assert!(printed(&output).contains("no/such/policy.yaml"), "{}", printed(&output));
}

/// A Kubernetes volume shows each file twice: behind `..data`, and as a link to there.
#[test]
fn a_file_that_links_show_twice_is_read_once() {
    let folder = TempDir::new().unwrap();
    write_file(&folder.path().join("..2026_11_30/policy.yaml"), ONE_A_DAY);
    symlink("..2026_11_30", folder.path().join("..data")).unwrap();
    symlink("..data/policy.yaml", folder.path().join("policy.yaml")).unwrap();
    symlink("..data/policy.yaml", folder.path().join("again.yaml")).unwrap();
    let output = run_anywhere(["check", folder.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", printed(&output));
}

#[test]
fn serve_refuses_a_bad_policy_with_every_fault() {
    let setup = Setup::new("domain: d\ndescriptors:\n  - key: a\n    rate_limit: {unit: fortnight}\n  - value: b\n");
    let output = run_anywhere(["serve", "--policy", setup.policy_path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    for line in [4, 5] {
        assert!(has_fault_at(&printed(&output), "policy.yaml", line), "line {line}: {}", printed(&output));
    }
}

#[test]
fn without_arguments_and_without_a_config_it_says_what_to_do() {
    let output = run_anywhere([]);
    assert_eq!(output.status.code(), Some(1), "{}", printed(&output));
    assert!(printed(&output).contains("config"), "{}", printed(&output));
    assert!(printed(&output).contains("--policy"), "{}", printed(&output));
}

#[test]
fn without_arguments_it_serves_the_config_of_its_directory() {
    let addresses = Addresses::free();
    let mut command = command();
    command.current_dir(project_path(""));
    command.env("COMPORTA_GRPC_ADDR", addresses.grpc.to_string());
    command.env("COMPORTA_HTTP_ADDR", addresses.http.to_string());
    command.env("COMPORTA_ADMIN_ADDR", addresses.admin.to_string());
    let folder = TempDir::new().unwrap();
    let comporta = Comporta::start(&mut command, addresses, folder.path().join("log"));
    assert!(comporta.log().contains("config"), "{}", comporta.log());
}

#[test]
fn a_log_level_that_would_silence_everything_by_mistake_is_refused() {
    for level in ["inof", "", "comporta", "info,debgu"] {
        let output = run_anywhere(["serve", "--log-level", level]);
        assert_eq!(output.status.code(), Some(2), "{level:?}");
        let text = printed(&output);
        assert!(text.contains("--log-level") && text.contains("give error, warn, info"), "{text}");
    }
}

#[test]
fn why_it_cannot_start_is_told_whatever_is_logged() {
    let output = run_anywhere(["serve", "--policy", "nowhere.yaml", "--log-level", "off"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(printed(&output).contains("nowhere.yaml"), "{}", printed(&output));
}

#[test]
fn a_reader_that_has_seen_enough_of_check_is_no_fault() {
    let folder = TempDir::new().unwrap();
    let rules = "  - {kee: a}\n".repeat(5_000);
    write_file(&folder.path().join("policy.yaml"), &format!("domain: d\ndescriptors:\n{rules}"));
    let mut check =
        command().arg("check").arg(folder.path()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(check.stdout.take());
    let output = check.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[test]
fn sizes_that_no_machine_has_are_refused() {
    for (flag, value) in [
        ("--max-buckets", "18446744073709551615"),
        ("--max-buckets", "0"),
        ("--threads", "100000"),
        ("--drain-timeout", "1e30"),
    ] {
        let output = run_anywhere(["serve", flag, value]);
        assert_eq!(output.status.code(), Some(2), "{flag} {value}");
        assert!(printed(&output).contains(flag), "{}", printed(&output));
    }
}

#[test]
fn headers_that_cannot_be_told_apart_or_frame_a_message_are_refused() {
    for (flags, reason) in [
        (["--limit-header", "x-a", "--reset-header", "X-A"], "--limit-header and --reset-header have the same name"),
        (["--limit-header", "x-a", "--reset-header", "content-length"], "content-length belongs to HTTP itself"),
        (["--limit-header", "x-a", "--reset-header", "not a name"], "give the name of a header"),
    ] {
        let output = run_anywhere([&["serve"], &flags[..]].concat());
        assert_eq!(output.status.code(), Some(2), "{flags:?}");
        assert!(printed(&output).contains(reason), "{}", printed(&output));
    }
}

#[test]
fn healthcheck_says_what_readyz_says() {
    let healthcheck = |address: SocketAddr| run_anywhere(["healthcheck", "--http-addr", &address.to_string()]);
    let (_setup, comporta) = Comporta::with_policy("domain: d");
    let output = healthcheck(comporta.addresses.http);
    assert_eq!((output.status.code(), &*output.stdout), (Some(0), &b"ok\n"[..]), "{output:?}");

    let redis = RedisSetup::new();
    let setup =
        Setup::new("domain: d").flags([format!("--redis-url={}", redis.url()), "--ready-requires-redis".to_owned()]);
    let waiting = setup.launch();
    let output = wait_for("an answer", || {
        let output = healthcheck(waiting.addresses.http);
        (!output.stdout.is_empty()).then_some(output)
    });
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(output.stdout.starts_with(b"starting\nredis: not asked: "), "{output:?}");

    let output = healthcheck(free_address());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("nobody answers on 127."), "{output:?}");
}
