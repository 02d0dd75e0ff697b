//! A real Prometheus.

use std::fmt::Write;
use std::net::SocketAddr;
use std::process::Command;

use tempfile::TempDir;

use super::process::Process;
use super::{free_address, http, project_path, tool, wait_for, write_file};

/// A running Prometheus that scrapes replicas of Comporta every second, as the job that the rules of `deploy/prometheus`
/// are for.
#[derive(Debug)]
pub(crate) struct Prometheus {
    address: SocketAddr,
    _process: Process,
    _folder: TempDir,
}

impl Prometheus {
    /// Starts one that scrapes these admin addresses, and waits until it is ready.
    pub(crate) fn start(replicas: &[SocketAddr]) -> Self {
        let folder = TempDir::new().unwrap();
        let configuration = folder.path().join("prometheus.yml");
        let rules = project_path("deploy/prometheus/rules");
        let text = format!(
            "global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: ['{}/*.yml']
scrape_configs:
- job_name: comporta
  static_configs: [{{targets: {:?}}}]
",
            rules.display(),
            replicas.iter().map(ToString::to_string).collect::<Vec<_>>(),
        );
        write_file(&configuration, &text);
        let address = free_address();
        let mut command = Command::new(tool("prometheus"));
        command.arg("--config.file").arg(&configuration);
        command.arg("--storage.tsdb.path").arg(folder.path().join("data"));
        command.arg("--web.listen-address").arg(address.to_string());
        let mut process = Process::start("prometheus", &mut command, folder.path().join("log"));
        wait_for("prometheus to be ready", || {
            let exit = process.has_exited();
            assert!(exit.is_none(), "prometheus ended before it was ready: {}", exit.unwrap());
            http::get(address, "/-/ready").is_ok_and(|response| response.status == 200).then_some(())
        });
        Self { address, _process: process, _folder: folder }
    }

    /// How many series an expression finds now, or why it is none.
    pub(crate) fn count(&self, expression: &str) -> Result<u64, String> {
        let path = format!("/api/v1/query?query={}", percent_encode(&format!("count({expression})")));
        let answer = http::get(self.address, &path).unwrap().json();
        if answer["status"] != "success" {
            return Err(answer["error"].to_string());
        }
        // The count of nothing is no sample.
        let count = answer["data"]["result"][0]["value"][1].as_str().unwrap_or("0");
        count.parse().map_err(|_| format!("the count is {count}"))
    }
}

fn percent_encode(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        write!(encoded, "%{byte:02X}").unwrap();
        encoded
    })
}
