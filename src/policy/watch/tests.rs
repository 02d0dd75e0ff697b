use std::path::Path;

use tempfile::TempDir;

use super::*;

/// Far longer than a hint takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(10);

fn policy() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("policy")).unwrap();
    write(&directory.path().join("policy/a.yaml"), "domain: d\n");
    directory
}

fn write(path: &Path, text: &str) {
    fs::write(path, text).unwrap();
}

/// A policy that is watched, in a directory of its own.
fn watched() -> (TempDir, PathBuf, Watch, Hints) {
    let directory = policy();
    let root = directory.path().join("policy");
    let (mut watch, hints) = Watch::new();
    watch.read(&root);
    (directory, root, watch, hints)
}

async fn hinted(hints: &Hints) -> bool {
    timeout(PATIENCE, hints.settled()).await.is_ok()
}

async fn is_quiet(hints: &Hints) -> bool {
    timeout(Duration::from_millis(400), hints.0.notified()).await.is_err()
}

#[tokio::test]
async fn what_changes_the_policy_is_a_hint_and_reading_it_is_none() {
    let (_kept, root, mut watch, hints) = watched();
    assert!(watch.trouble().is_none(), "{:?}", watch.trouble());
    write(&root.join("a.yaml"), "domain: e\n");
    assert!(hinted(&hints).await);
    watch.read(&root);
    assert!(is_quiet(&hints).await, "our own reading is no hint");
}

#[tokio::test]
async fn what_happens_beside_the_policy_is_no_hint() {
    let (directory, root, _watch, hints) = watched();
    write(&directory.path().join("other"), "");
    assert!(is_quiet(&hints).await);
    fs::rename(&root, directory.path().join("away")).unwrap();
    assert!(hinted(&hints).await, "the directory itself has gone");
}

#[tokio::test]
async fn a_directory_that_is_made_again_is_watched_again() {
    let (_kept, root, mut watch, hints) = watched();
    for text in ["domain: e\n", "domain: f\n", "domain: g\n"] {
        fs::remove_dir_all(&root).unwrap();
        assert!(hinted(&hints).await);
        watch.read(&root);
        fs::create_dir(&root).unwrap();
        assert!(hinted(&hints).await);
        let before = watch.read(&root).fingerprint();
        write(&root.join("a.yaml"), text);
        assert!(hinted(&hints).await, "it is watched under its old name");
        assert_ne!(watch.read(&root).fingerprint(), before);
    }
}

#[tokio::test]
async fn what_is_not_read_any_more_is_not_watched_any_more() {
    let (_kept, root, mut watch, _hints) = watched();
    fs::create_dir(root.join("below")).unwrap();
    watch.read(&root);
    let paths = |watch: &Watch| watch.watched.iter().map(|watched| watched.path.clone()).collect::<Vec<_>>();
    assert_eq!(paths(&watch).len(), 3, "{:?}", paths(&watch));
    fs::remove_dir(root.join("below")).unwrap();
    watch.read(&root);
    assert_eq!(paths(&watch).len(), 2, "{:?}", paths(&watch));
}

#[tokio::test(start_paused = true)]
async fn one_looks_when_it_is_quiet_and_does_not_wait_for_ever() {
    let hints = Hints::default();
    let start = tokio::time::Instant::now();
    hints.0.notify_one();
    hints.settled().await;
    assert_eq!(start.elapsed(), QUIET);

    let start = tokio::time::Instant::now();
    let writer = hints.clone();
    let writing = tokio::spawn(async move {
        loop {
            writer.0.notify_one();
            sleep(QUIET / 2).await;
        }
    });
    hints.settled().await;
    writing.abort();
    assert_eq!(start.elapsed(), LONGEST_DISQUIET);
}

#[test]
fn where_nothing_can_be_watched_one_looks_more_often() {
    let directory = policy();
    let (mut watch, _hints) = Watch::new();
    assert_eq!(watch.look_after(), LOOK_EVERY);
    watch.trouble = Some(WatchError::TooMany);
    assert_eq!(watch.look_after(), LOOK_UNWATCHED_EVERY);
    watch.read(directory.path());
    assert_eq!(watch.look_after(), LOOK_EVERY, "it is tried again each time");
}
