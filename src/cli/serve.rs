use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::time::timeout;
use tracing::{info, warn};

use super::reload::Reloader;
use super::{passed_over, summary};
use crate::clock::Clock;
use crate::engine::Engine;
use crate::policy::PolicyFiles;
use crate::replica::{Lender, Replica};
use crate::server::{self, BoxError, Listeners, PortTls, StopSignals};
use crate::settings::ServeSettings;
use crate::store::Store;
use crate::store::redis::{RedisSettings, RedisStore};
use crate::telemetry;
use crate::trace::{Tracer, TracerSettings};

/// So long after the start the service is ready even if nobody knows yet whether Redis is there.
const LONGEST_START: Duration = Duration::from_secs(2);

/// `warnings` are about the settings themselves.
pub(super) fn run(settings: &ServeSettings, warnings: &[String]) -> ExitCode {
    let settled = settings.check().and_then(|()| Ok((settings.store.redis()?, settings.traces.tracer()?)));
    let (redis, tracer) = match settled {
        Ok(settled) => settled,
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::from(2);
        }
    };
    // Until the end of the process.
    let _log = telemetry::log::init(settings.log_level.clone(), settings.log_format);
    if let Some(tracer) = &tracer {
        info!("sending traces to {}, {}", tracer.endpoint, tracer.protocol.name());
    }
    if let Some(flag) = settings.store.readable_secret() {
        warn!("{flag} has a password that everybody on this machine can read: give it in the environment or in a file");
    }
    for warning in warnings {
        warn!("{warning}");
    }
    match serve(settings, redis.as_ref(), tracer.as_ref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Not a line of the log: a filter must not hide why the process ends.
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn serve(
    settings: &ServeSettings,
    redis: Option<&RedisSettings>,
    tracer: Option<&TracerSettings>,
) -> Result<(), BoxError> {
    allow_many_connections();
    let clock = Arc::new(Clock::start());
    let tls = PortTls::load(settings, &clock)?;
    let path = &settings.policy.path;
    let files = PolicyFiles::read(path);
    for warning in passed_over(&files) {
        warn!("{warning}");
    }
    let loaded = files.load(&settings.policy.defaults.defaults()).map_err(|faults| {
        format!("the policy in {} cannot be served; mend it, or name another with --policy\n{faults}", path.display())
    })?;
    info!("loaded the policy in {}: {}", path.display(), summary(&loaded.policy));
    let tracer = tracer.map(|tracer| Tracer::start(tracer, &clock)).transpose()?;
    let engine = Engine::new(loaded.policy, settings.engine(), clock.now());

    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    if let Some(threads) = settings.threads {
        runtime.worker_threads(threads.into());
    }
    let runtime = runtime.enable_all().build()?;
    let ended = runtime.block_on(async {
        let signals = StopSignals::new()?;
        let hangup = signal(SignalKind::hangup())?;
        let listeners = Listeners::bind(settings)?;
        let redis = redis.map(RedisStore::start).transpose()?;
        let lender = redis.as_ref().map(|redis| Lender {
            store: Arc::clone(redis) as Arc<dyn Store>,
            timeout: settings.store.redis_timeout,
            replicas: settings.store.replicas.map_or_else(|| redis.replicas(), |count| watch::channel(count).1),
        });
        let replica = Replica::new(engine, clock, lender, tracer);
        let prepared = {
            let (redis, must_be_reached) = (redis.clone(), settings.store.ready_requires_redis);
            async move {
                match redis {
                    None => {}
                    Some(redis) if must_be_reached => redis.connected().await,
                    Some(redis) => drop(timeout(LONGEST_START, redis.tried()).await),
                }
            }
        };
        let leave_store = async {
            if let Some(redis) = redis {
                redis.stop().await;
            }
        };
        let reloader = Reloader::new(Arc::clone(&replica), &settings.policy, &files);
        drop(files);
        let reloading = tokio::spawn(reloader.run(hangup));
        server::serve(listeners, tls, replica, settings, prepared, leave_store, signals).await?;
        reloading.abort();
        Ok(())
    });
    // A name that is being looked up, or a file that hangs, must not hold up the end.
    runtime.shutdown_background();
    ended
}

/// Each connection is an open file, and most systems give a process 1,024 of them until it asks for what it may have. If that
/// cannot be had, the log tells when connections cannot be accepted.
fn allow_many_connections() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}
