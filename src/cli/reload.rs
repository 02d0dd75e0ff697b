use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::select;
use tokio::signal::unix::Signal;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::{error, info, warn};

use super::{passed_over, summary};
use crate::engine::ActivePolicy;
use crate::policy::watch::{Hints, Watch};
use crate::policy::{Defaults, Fingerprint, PolicyFiles};
use crate::replica::Replica;
use crate::settings::PolicySettings;

/// After a look that came to nothing the next one is due so much later.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(1);

/// How often one looks whether a policy that was replaced is still used.
const RETIREMENT_CHECK: Duration = Duration::from_millis(10);

/// Reads the policy anew when its files change, or when the process is told to. One with faults is not taken, and the one in
/// force stays. There is one of it, so that no two policies are loaded at a time.
pub(super) struct Reloader {
    replica: Arc<Replica>,
    path: PathBuf,
    defaults: Defaults,
    files: Mutex<Files>,
    hints: Hints,
}

/// What is known of the policy's files.
struct Files {
    watch: Watch,
    /// Those of the policy in force.
    in_force: Fingerprint,
    /// Those that were looked at last.
    seen: Fingerprint,
    /// Why they are not watched, as it was told.
    trouble: Option<String>,
    /// What was told of files that are passed over.
    passed_over: Vec<String>,
}

/// What came of a look at the files.
struct Look {
    /// The policy that has been replaced.
    replaced: Option<Arc<ActivePolicy>>,
    /// When to look again, if nothing happens.
    next: Duration,
}

impl Reloader {
    /// Of a policy that was loaded from these files.
    pub(super) fn new(replica: Arc<Replica>, settings: &PolicySettings, loaded: &PolicyFiles) -> Self {
        let (watch, hints) = Watch::new();
        let in_force = loaded.fingerprint();
        let passed_over = passed_over(loaded);
        Self {
            replica,
            path: settings.path.clone(),
            defaults: settings.defaults.defaults(),
            files: Mutex::new(Files { watch, in_force, seen: in_force, trouble: None, passed_over }),
            hints,
        }
    }

    /// Does so until the process ends, which `told` never does.
    pub(super) async fn run(self, mut told: Signal) {
        let reloader = Arc::new(self);
        let mut is_told = false;
        loop {
            // Reading and compiling take their time, and so does it to free what was replaced: on threads that decide nothing.
            let looking = Arc::clone(&reloader);
            let next = match spawn_blocking(move || looking.look(is_told)).await {
                Ok(Look { replaced, next }) => {
                    drop(replaced.map(|replaced| spawn_blocking(move || retire(&replaced))));
                    next
                }
                Err(error) => {
                    error!("the policy in {} could not be looked at: {error}", reloader.path.display());
                    PAUSE_AFTER_FAILURE
                }
            };
            is_told = select! {
                Some(()) = told.recv() => true,
                () = reloader.hints.settled() => false,
                () = sleep(next) => false,
            };
        }
    }

    /// Looks at the files, and takes the policy if it is another one. Whoever `is_told` to do so says what comes of it even if
    /// that is nothing new.
    fn look(&self, is_told: bool) -> Look {
        let mut files = self.files.lock();
        let read = files.watch.read(&self.path);
        files.tell_of_trouble(&self.path.display().to_string());
        files.tell_of_passed_over(passed_over(&read));
        let (seen, shown) = (read.fingerprint(), self.path.display());
        let is_new = seen != files.seen;
        let mut replaced = None;
        if seen == files.in_force {
            if is_new {
                info!("the policy in {shown} is again the one in force");
                self.replica.engine.keep_policy();
            } else if is_told {
                info!("the policy in {shown} has not changed");
                self.replica.engine.keep_policy();
            }
        } else if is_new || is_told {
            match read.load(&self.defaults) {
                Ok(loaded) => {
                    let summary = summary(&loaded.policy);
                    replaced = Some(self.replica.engine.set_policy(loaded.policy, self.replica.clock.now()));
                    files.in_force = seen;
                    info!("loaded the policy in {shown} anew: {summary}");
                }
                Err(faults) => {
                    self.replica.engine.refuse_policy(&faults);
                    error!(
                        "the policy in {shown} has faults, and the one in force stays until they are mended:\n{faults}"
                    );
                }
            }
        }
        // Not before it has come to something.
        files.seen = seen;
        Look { replaced, next: files.watch.look_after() }
    }
}

impl Files {
    /// Says once why changes may be seen late, and once that they will not be any more.
    fn tell_of_trouble(&mut self, path: &str) {
        let trouble = self.watch.trouble().map(ToString::to_string);
        if trouble != self.trouble {
            let every = self.watch.look_after();
            if let Some(trouble) = &trouble {
                warn!("the policy in {path} is not watched, but looked at every {every:?}: {trouble}");
            } else {
                info!("the policy in {path} is watched again");
            }
            self.trouble = trouble;
        }
    }

    /// Says once of each file that it is passed over.
    fn tell_of_passed_over(&mut self, passed_over: Vec<String>) {
        for told in passed_over.iter().filter(|told| !self.passed_over.contains(told)) {
            warn!("{told}");
        }
        self.passed_over = passed_over;
    }
}

/// Waits until nobody else uses a policy. Whoever uses it last frees it, and that should not be between two decisions.
fn retire(replaced: &Arc<ActivePolicy>) {
    while Arc::strong_count(replaced) > 1 {
        thread::sleep(RETIREMENT_CHECK);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tokio::signal::unix::{SignalKind, signal};
    use tokio::time::Instant;

    use super::*;
    use crate::clock::Clock;
    use crate::engine::{Engine, EngineSettings};
    use crate::limit::Algorithm;
    use crate::settings::DefaultSettings;

    #[tokio::test(start_paused = true)]
    async fn a_change_that_nobody_tells_of_is_found_all_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("policy.yaml");
        fs::write(&path, "domain: one\n").unwrap();
        let defaults = DefaultSettings { default_algorithm: Algorithm::TokenBucket, overdraft: false };
        let settings = PolicySettings { path: path.clone(), defaults };
        let files = PolicyFiles::read(&path);
        let clock = Arc::new(Clock::start());
        let policy = files.load(&settings.defaults.defaults()).unwrap().policy;
        let engine = Engine::new(policy, EngineSettings::default(), clock.now());
        let replica = Replica::new(engine, clock, None, None);

        let mut reloader = Reloader::new(Arc::clone(&replica), &settings, &files);
        reloader.hints = Hints::default();
        let reloading = tokio::spawn(reloader.run(signal(SignalKind::user_defined2()).unwrap()));
        sleep(Duration::from_secs(1)).await;
        fs::write(&path, "domain: two\n").unwrap();
        let start = Instant::now();
        while replica.engine.active().policy.domain(b"two").is_none() {
            assert!(start.elapsed() < Duration::from_secs(11), "nobody has looked");
            sleep(Duration::from_millis(100)).await;
        }
        assert!(start.elapsed() > Duration::from_secs(8), "there was a hint");
        reloading.abort();
    }
}
