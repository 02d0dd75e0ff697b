use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::{passed_over, print_page, summary};
use crate::policy::PolicyFiles;
use crate::settings::DefaultSettings;

#[derive(Args, Debug)]
pub(super) struct CheckSettings {
    /// Policy file, or folder that is searched for .yaml and .yml files
    path: PathBuf,

    #[command(flatten)]
    defaults: DefaultSettings,
}

pub(super) fn run(settings: &CheckSettings) -> ExitCode {
    let files = PolicyFiles::read(&settings.path);
    let mut lines = passed_over(&files);
    let code = match files.load(&settings.defaults.defaults()) {
        Ok(loaded) => {
            lines.extend(loaded.notes.iter().map(ToString::to_string));
            lines.push(format!("{}: {}, no fault", settings.path.display(), summary(&loaded.policy)));
            ExitCode::SUCCESS
        }
        Err(faults) => {
            lines.push(faults.to_string());
            ExitCode::FAILURE
        }
    };
    print_page(&format!("{}\n", lines.join("\n")));
    code
}
