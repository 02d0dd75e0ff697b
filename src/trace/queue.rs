use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanExporter as _};
use tokio::select;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::TracerSettings;
use super::export::{ExportError, exporter};
use crate::clock::Clock;
use crate::limit::Micros;
use crate::throttle::Throttle;

/// So many spans wait to be sent; more are lost. They take some 10 MB.
const CAPACITY: usize = 8192;

/// So many are sent at once.
const BATCH: usize = 512;

/// Spans wait so long for others to be sent with.
const PAUSE: Duration = Duration::from_secs(1);

/// Spans on their way to the thread that sends them.
#[derive(Debug)]
pub(super) struct Queue {
    spans: mpsc::Sender<SpanData>,
    batch_is_full: Arc<Notify>,
    /// Spans for which there was no room.
    lost: Arc<AtomicU64>,
    is_ending: watch::Sender<bool>,
    /// Nobody can change it any more when all is sent.
    sending: watch::Receiver<()>,
}

impl Queue {
    pub(super) fn start(
        settings: &TracerSettings,
        resource: &Resource,
        clock: Arc<Clock>,
    ) -> Result<Self, ExportError> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ExportError::Thread)?;
        let mut exporter = {
            let _inside = runtime.enter();
            exporter(settings)?
        };
        exporter.set_resource(resource);
        let (spans, waiting) = mpsc::channel(CAPACITY);
        let (is_ending, ending) = watch::channel(false);
        let (has_ended, sending) = watch::channel(());
        let (batch_is_full, lost) = (Arc::<Notify>::default(), Arc::<AtomicU64>::default());
        let sender = Sender {
            exporter,
            endpoint: settings.endpoint.to_string(),
            waiting,
            batch_is_full: Arc::clone(&batch_is_full),
            lost: Arc::clone(&lost),
            ending,
            clock,
            failures: Throttle::new(Micros::from_seconds(60)),
            losses: Throttle::new(Micros::from_seconds(60)),
            has_failed: false,
            _has_ended: has_ended,
        };
        thread::Builder::new()
            .name("traces".to_owned())
            .spawn(move || runtime.block_on(sender.run()))
            .map_err(ExportError::Thread)?;
        Ok(Self { spans, batch_is_full, lost, is_ending, sending })
    }

    /// Puts a span in the queue if there is room. Never waits.
    pub(super) fn send(&self, span: SpanData) {
        if self.spans.try_send(span).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        } else if self.spans.max_capacity() - self.spans.capacity() >= BATCH {
            self.batch_is_full.notify_one();
        }
    }

    pub(super) async fn end(&self, patience: Duration) {
        self.is_ending.send_replace(true);
        let mut sending = self.sending.clone();
        if timeout(patience, sending.changed()).await.is_err() {
            warn!("the last traces were not taken within {patience:?}, and are lost");
        }
    }
}

/// Sends spans, batch after batch.
struct Sender {
    exporter: SpanExporter,
    endpoint: String,
    waiting: mpsc::Receiver<SpanData>,
    batch_is_full: Arc<Notify>,
    lost: Arc<AtomicU64>,
    ending: watch::Receiver<bool>,
    clock: Arc<Clock>,
    failures: Throttle,
    losses: Throttle,
    has_failed: bool,
    _has_ended: watch::Sender<()>,
}

impl Sender {
    async fn run(mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        let mut is_ending = false;
        loop {
            select! {
                count = self.waiting.recv_many(&mut batch, BATCH) => if count == 0 {
                    break;
                },
                _ = self.ending.wait_for(|is_ending| *is_ending), if !is_ending => {
                    // What is in the queue stays there to be sent.
                    self.waiting.close();
                    is_ending = true;
                    continue;
                }
            }
            if !is_ending && batch.len() < BATCH {
                select! {
                    () = sleep(PAUSE) => {}
                    () = self.batch_is_full.notified() => {}
                    _ = self.ending.wait_for(|is_ending| *is_ending) => {}
                }
            }
            while batch.len() < BATCH
                && let Ok(span) = self.waiting.try_recv()
            {
                batch.push(span);
            }
            self.export(mem::replace(&mut batch, Vec::with_capacity(BATCH))).await;
        }
        self.tell_losses();
    }

    async fn export(&mut self, batch: Vec<SpanData>) {
        let count = batch.len();
        let sent = self.exporter.export(batch).await;
        let now = self.clock.now();
        match sent {
            Ok(()) if mem::replace(&mut self.has_failed, false) => info!("traces are sent to {} again", self.endpoint),
            Ok(()) => {}
            Err(error) => {
                self.has_failed = true;
                if let Some(passed_over) = self.failures.admit(now) {
                    warn!(passed_over, "{count} spans are lost, because {} does not take them: {error}", self.endpoint);
                }
            }
        }
        if self.lost.load(Ordering::Relaxed) > 0 && self.losses.admit(now).is_some() {
            self.tell_losses();
        }
    }

    /// Tells of spans for which there was no room, if there are any that have not been told of.
    fn tell_losses(&self) {
        let lost = self.lost.swap(0, Ordering::Relaxed);
        if lost > 0 {
            warn!("{lost} spans are lost, because there are more than {} takes: trace less", self.endpoint);
        }
    }
}
