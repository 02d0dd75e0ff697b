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
    let (page, code) = match files.load(&settings.defaults.defaults()) {
        Ok(loaded) => {
            let mut lines = passed_over(&files);
            lines.extend(loaded.notes.iter().map(ToString::to_string));
            lines.push(format!("{}: {}, no fault\n", settings.path.display(), summary(&loaded.policy)));
            (lines.join("\n"), ExitCode::SUCCESS)
        }
        Err(faults) => (format!("{faults}\n"), ExitCode::FAILURE),
    };
    print_page(&page);
    code
}
