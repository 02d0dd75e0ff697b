//! Tells when the files of a policy may have changed.
//!
//! Directories are watched and never files: who watches a file loses it when another takes its name, as most editors, and
//! Kubernetes, replace files. Whatever happens in a directory is a mere hint that it is time to look, so nothing hangs on
//! what kind of event a system makes of it. Some hints never come (a network file system has none for what others write), so
//! one must look now and then without any.

mod places;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fs;
use std::mem::{self, ManuallyDrop};
use std::os::unix::fs::MetadataExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{ErrorKind, Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use parking_lot::Mutex;
use thiserror::Error;
use tokio::pin;
use tokio::select;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use self::places::Places;
use super::{Fingerprint, PolicyFiles};

/// After a hint nothing must happen for so long before it is time to look: who writes a file, or several, has finished then.
const QUIET: Duration = Duration::from_millis(100);

/// Who goes on writing holds up nobody for longer than this.
const LONGEST_DISQUIET: Duration = Duration::from_millis(500);

/// So often one should look without a hint: hints may be missing, or else they will not come.
const LOOK_EVERY: Duration = Duration::from_secs(10);
const LOOK_UNWATCHED_EVERY: Duration = Duration::from_secs(1);

/// While files change so often between two readings, the last one counts; there will be a hint.
const MOST_READINGS: usize = 5;

/// Hints that files of a policy may have changed. They come from a [`Watch`].
#[derive(Clone, Debug, Default)]
pub struct Hints(Arc<Notify>);

/// Watches the files of a policy. It reads them, and asks the system for watches, so it is for a thread that may wait.
#[derive(Debug)]
pub struct Watch {
    hints: Hints,
    places: Arc<Mutex<Places>>,
    /// `None` until it can be had. It has a thread of its own; if that has ended, to drop it panics. It is not needed for less
    /// long than the process.
    watcher: Option<ManuallyDrop<RecommendedWatcher>>,
    watched: BTreeSet<Watched>,
    last_read: Option<Fingerprint>,
    /// Why not everything is watched.
    trouble: Option<WatchError>,
}

/// A directory that is watched. If another takes its name, that is not.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Watched {
    path: PathBuf,
    device: u64,
    inode: u64,
}

/// Why a policy is not watched.
#[derive(Debug, Error)]
pub enum WatchError {
    #[error("nothing can be watched ({0}): raise fs.inotify.max_user_instances, or let the process open more files")]
    NoWatcher(notify::Error),
    #[error("no more directories can be watched: raise fs.inotify.max_user_watches")]
    TooMany,
    #[error("the directory {} cannot be watched ({error}): let the user that runs this read it", path.display())]
    Directory { path: PathBuf, error: notify::Error },
    #[error("the thread that watches has ended")]
    Ended,
}

impl Hints {
    /// Waits for a hint, and then until it is time to look.
    pub async fn settled(&self) {
        self.0.notified().await;
        let longest = sleep(LONGEST_DISQUIET);
        pin!(longest);
        loop {
            select! {
                biased;
                () = &mut longest => return,
                more = timeout(QUIET, self.0.notified()) => if more.is_err() {
                    return;
                },
            }
        }
    }
}

impl Watch {
    /// Watches nothing yet.
    #[must_use]
    pub fn new() -> (Self, Hints) {
        let hints = Hints::default();
        let watch = Self {
            hints: hints.clone(),
            places: Arc::default(),
            watcher: None,
            watched: BTreeSet::new(),
            last_read: None,
            trouble: None,
        };
        (watch, hints)
    }

    /// Reads the policy at `path`. From then on a hint follows every change, as far as the system lets us watch.
    pub fn read(&mut self, path: &Path) -> PolicyFiles {
        let mut readings = 0;
        loop {
            let files = PolicyFiles::read(path);
            readings += 1;
            // What has changed while it was read, or before it was watched, another reading sees.
            let is_same = self.last_read.replace(files.fingerprint()) == Some(files.fingerprint());
            let was_watched = self.follow(&files);
            if (is_same && was_watched) || readings == MOST_READINGS {
                return files;
            }
        }
    }

    /// Why hints are missing, if they are.
    #[must_use]
    pub const fn trouble(&self) -> Option<&WatchError> {
        self.trouble.as_ref()
    }

    /// After how long one should look without a hint.
    #[must_use]
    pub const fn look_after(&self) -> Duration {
        if self.trouble.is_none() { LOOK_EVERY } else { LOOK_UNWATCHED_EVERY }
    }

    /// Watches where a change of these files would show, and nothing else. Returns whether all of that was watched before.
    fn follow(&mut self, files: &PolicyFiles) -> bool {
        let places = Places::of(files);
        let directories: BTreeSet<PathBuf> = places.directories().map(Path::to_owned).collect();
        *self.places.lock() = places;
        let before = mem::take(&mut self.watched);
        for gone in before.iter().filter(|watched| !directories.contains(&watched.path)) {
            // Whatever is gone need not be given up.
            drop(self.ask(|watcher| watcher.unwatch(&gone.path)));
        }
        self.trouble = None;
        for path in directories {
            match self.watch(path) {
                Ok(watched) => self.watched.extend(watched),
                Err(error) => self.trouble = self.trouble.take().or(Some(error)),
            }
        }
        self.watched == before
    }

    /// Watches a directory, even if it is watched already: it may be another one with the same name. `None` if there is none.
    fn watch(&mut self, path: PathBuf) -> Result<Option<Watched>, WatchError> {
        let Ok(metadata) = fs::metadata(&path) else { return Ok(None) };
        match self.ask(|watcher| watcher.watch(&path, RecursiveMode::NonRecursive))? {
            Ok(()) => Ok(Some(Watched { path, device: metadata.dev(), inode: metadata.ino() })),
            Err(notify::Error { kind: ErrorKind::PathNotFound, .. }) => Ok(None),
            Err(notify::Error { kind: ErrorKind::MaxFilesWatch, .. }) => Err(WatchError::TooMany),
            Err(notify::Error { kind, .. }) => Err(WatchError::Directory { path, error: notify::Error::new(kind) }),
        }
    }

    /// Asks something of the watcher, which is made if there is none.
    fn ask<T>(&mut self, question: impl FnOnce(&mut RecommendedWatcher) -> T) -> Result<T, WatchError> {
        let mut watcher = match self.watcher.take() {
            Some(watcher) => watcher,
            None => ManuallyDrop::new(self.start().map_err(WatchError::NoWatcher)?),
        };
        // It panics when its thread has ended.
        let answer = catch_unwind(AssertUnwindSafe(|| question(&mut watcher))).map_err(|_| WatchError::Ended)?;
        self.watcher = Some(watcher);
        Ok(answer)
    }

    fn start(&self) -> notify::Result<RecommendedWatcher> {
        let (hints, places) = (self.hints.clone(), Arc::clone(&self.places));
        notify::recommended_watcher(move |event: notify::Result<Event>| {
            if event.is_ok_and(|event| is_hint(&event, &places.lock())) {
                hints.0.notify_one();
            }
        })
    }
}

/// Whether something may have changed, and not only been read: we read, too.
fn is_hint(event: &Event, places: &Places) -> bool {
    let may_change = match event.kind {
        EventKind::Access(access) => access == AccessKind::Close(AccessMode::Write),
        EventKind::Any | EventKind::Create(_) | EventKind::Modify(_) | EventKind::Remove(_) | EventKind::Other => true,
    };
    may_change && (event.paths.is_empty() || event.paths.iter().any(|path| places.concern(path)))
}
