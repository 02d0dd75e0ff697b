use parking_lot::Mutex;
use tokio::task::JoinHandle;

/// A task that ends when this is dropped.
#[derive(Debug)]
pub(super) struct BackgroundTask(Mutex<Option<JoinHandle<()>>>);

impl BackgroundTask {
    pub(super) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> Self {
        Self(Mutex::new(Some(tokio::spawn(task))))
    }

    /// Returns when it does nothing any more.
    pub(super) async fn end(&self) {
        let task = self.0.lock().take();
        if let Some(task) = task {
            task.abort();
            // That it was aborted is no news.
            let _ = task.await;
        }
    }
}

impl Drop for BackgroundTask {
    fn drop(&mut self) {
        if let Some(task) = self.0.get_mut().take() {
            task.abort();
        }
    }
}
