use std::sync::Arc;

use tokio::signal::unix::Signal;
use tokio::task::spawn_blocking;
use tracing::{error, info};

use super::summary;
use crate::policy;
use crate::replica::Replica;
use crate::settings::PolicySettings;

/// Reads the policy anew whenever the process is told to. One with faults is not taken, and the one in force stays.
pub(super) async fn reload_when_told(mut told: Signal, replica: Arc<Replica>, settings: PolicySettings) {
    while told.recv().await.is_some() {
        let (path, defaults) = (settings.path.clone(), settings.defaults.defaults());
        let shown = path.display().to_string();
        match spawn_blocking(move || policy::load(&path, &defaults)).await {
            Ok(Ok(loaded)) if loaded.policy.hash() == replica.engine.active().policy.hash() => {
                info!("the policy in {shown} has not changed");
                replica.engine.keep_policy();
            }
            Ok(Ok(loaded)) => {
                info!("loaded the policy in {shown} anew: {}", summary(&loaded.policy));
                replica.engine.set_policy(loaded.policy, replica.clock.now());
            }
            Ok(Err(faults)) => {
                error!("the policy in {shown} has faults, and the one in force stays until they are mended:\n{faults}");
                replica.engine.refuse_policy(&faults);
            }
            Err(error) => error!("the policy in {shown} could not be read: {error}"),
        }
    }
}
