//! Who we are to a server.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, future, io};

use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::{info, warn};

use crate::small_file;

/// How often a file is read to see whether it has changed.
const READ_EVERY: Duration = Duration::from_secs(1);

/// A user and a password. `Debug` shows neither.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// `None` is the default user.
    pub(super) user: Option<String>,
    pub(super) password: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginError {
    #[error("it is empty: give PASSWORD, USER:PASSWORD, or :PASSWORD for one with a colon in it")]
    Empty,
    #[error("it has more than one line, or other control characters: give one line, USER:PASSWORD or PASSWORD")]
    Control,
}

impl Login {
    /// Reads `PASSWORD`, `USER:PASSWORD` or `:PASSWORD`. An end of line is no part of it.
    pub fn parse(text: &str) -> Result<Self, LoginError> {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        if text.contains(char::is_control) {
            return Err(LoginError::Control);
        }
        let (user, password) = text.split_once(':').unwrap_or(("", text));
        if password.is_empty() {
            return Err(LoginError::Empty);
        }
        Ok(Self { user: (!user.is_empty()).then(|| user.to_owned()), password: password.to_owned() })
    }

    fn read(file: &Path) -> io::Result<Self> {
        let text = String::from_utf8(small_file::read(file)?).map_err(|_| io::Error::other("it is not UTF-8"))?;
        // Some editors begin a file with a mark of its encoding.
        Self::parse(text.strip_prefix('\u{feff}').unwrap_or(&text)).map_err(io::Error::other)
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login(…)")
    }
}

/// Where a login is to be found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Credentials {
    /// The server lets everybody in.
    #[default]
    None,
    Given {
        login: Login,
        /// The setting that it was given in.
        setting: &'static str,
    },
    /// In a file, which is read again and again.
    File { path: PathBuf, setting: &'static str },
}

impl Credentials {
    /// The setting that they were given in.
    #[must_use]
    pub const fn setting(&self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Given { setting, .. } | Self::File { setting, .. } => Some(setting),
        }
    }

    /// Reads them for the first time. `Err` is a text for people.
    pub(super) fn read(&self) -> Result<Option<Login>, String> {
        match self {
            Self::None => Ok(None),
            Self::Given { login, .. } => Ok(Some(login.clone())),
            Self::File { path, setting } => {
                let login = Login::read(path).map_err(|error| format!("{setting}: {}: {error}", path.display()))?;
                Ok(Some(login))
            }
        }
    }
}

/// The login that counts at the moment.
#[derive(Clone, Debug)]
pub(super) struct CurrentLogin {
    pub(super) setting: &'static str,
    current: watch::Receiver<Option<Arc<Login>>>,
}

impl CurrentLogin {
    /// Reads credentials; the setting is where to give some if there are none. What is returned besides follows a file for
    /// ever, if there is one.
    pub(super) fn of(
        credentials: &Credentials,
        setting: &'static str,
    ) -> Result<(Self, impl Future<Output = ()> + Send + use<>), String> {
        let (known, current) = watch::channel(credentials.read()?.map(Arc::new));
        let setting = credentials.setting().unwrap_or(setting);
        let file = match credentials {
            Credentials::None | Credentials::Given { .. } => None,
            Credentials::File { path, .. } => Some(path.clone()),
        };
        let following = async move {
            if let Some(file) = file {
                follow(&file, &known).await;
            }
        };
        Ok((Self { setting, current }, following))
    }

    pub(super) fn get(&mut self) -> Option<Arc<Login>> {
        self.current.borrow_and_update().clone()
    }

    /// Whether a text tells the password.
    pub(super) fn password_is_in(&self, text: &str) -> bool {
        self.current.borrow().as_ref().is_some_and(|login| text.contains(&login.password))
    }

    /// Whether it is another one than [`get`](Self::get) returned last.
    pub(super) fn has_changed(&self) -> bool {
        self.current.has_changed().unwrap_or(false)
    }

    /// Waits until it is another one than [`get`](Self::get) returned last.
    pub(super) async fn changed(&mut self) {
        if self.current.changed().await.is_err() {
            // It was given once and for all.
            future::pending::<()>().await;
        }
    }
}

async fn follow(file: &Path, known: &watch::Sender<Option<Arc<Login>>>) {
    let mut has_told = false;
    loop {
        sleep(READ_EVERY).await;
        let path = file.to_owned();
        let read = spawn_blocking(move || Login::read(&path)).await.map_err(io::Error::other).flatten();
        match read {
            Ok(login) => {
                has_told = false;
                if known.borrow().as_deref() != Some(&login) {
                    info!("{} has changed, and counts from now on", file.display());
                    known.send_replace(Some(Arc::new(login)));
                }
            }
            Err(error) if !has_told => {
                warn!("{}: {error}; what it said before still counts", file.display());
                has_told = true;
            }
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_is_a_password_or_a_user_with_one() {
        for (text, user, password) in [
            ("secret", None, "secret"),
            ("secret\n", None, "secret"),
            ("secret\r\n", None, "secret"),
            ("me:secret", Some("me"), "secret"),
            (":sec:ret", None, "sec:ret"),
            ("me:sec:ret", Some("me"), "sec:ret"),
            (" me : secret ", Some(" me "), " secret "),
        ] {
            let login = Login::parse(text).unwrap();
            assert_eq!((login.user.as_deref(), login.password.as_str()), (user, password), "{text:?}");
            assert_eq!(format!("{login:?}"), "Login(…)");
        }
        for (text, error) in [
            ("", LoginError::Empty),
            ("\n", LoginError::Empty),
            ("me:", LoginError::Empty),
            (":", LoginError::Empty),
            ("me:secret\nme:secret", LoginError::Control),
            ("secret\n\n", LoginError::Control),
        ] {
            assert_eq!(Login::parse(text), Err(error), "{text:?}");
        }
    }
}
