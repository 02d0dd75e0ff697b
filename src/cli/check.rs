use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;

use super::summary;
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
    match policy::load(&settings.path, &settings.defaults.defaults()) {
        Ok(loaded) => {
            for note in &loaded.notes {
                println!("{note}");
            }
            println!("{}: {}, no fault", settings.path.display(), summary(&loaded.policy));
            ExitCode::SUCCESS
        }
        Err(faults) => {
            println!("{faults}");
            ExitCode::FAILURE
        }
    }
}
