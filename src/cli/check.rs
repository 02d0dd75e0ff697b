use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{print_page, summary};
use crate::policy;
use crate::settings::DefaultSettings;

#[derive(Args, Debug)]
pub(super) struct CheckSettings {
    /// Policy file, or folder that is searched for .yaml and .yml files
    path: PathBuf,

    #[command(flatten)]
    defaults: DefaultSettings,
}

pub(super) fn run(settings: &CheckSettings) -> ExitCode {
    let (page, code) = match policy::load(&settings.path, &settings.defaults.defaults()) {
        Ok(loaded) => {
            let mut lines: Vec<String> = loaded.notes.iter().map(ToString::to_string).collect();
            lines.push(format!("{}: {}, no fault\n", settings.path.display(), summary(&loaded.policy)));
            (lines.join("\n"), ExitCode::SUCCESS)
        }
        Err(faults) => (format!("{faults}\n"), ExitCode::FAILURE),
    };
    print_page(&page);
    code
}
