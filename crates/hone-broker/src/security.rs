//! Who may talk to the broker, in private, and what about: TLS, SASL, users, access control lists.

use std::path::Path;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustls::ServerConfig;

use hashing::{Hasher, Job};
use scram::Hash;
use session::{Mechanism, Session};
use users::Users;

use crate::settings::{Settings, SettingsError};

pub(crate) mod acl;
pub(crate) mod hashing;
pub(crate) mod plain;
pub(crate) mod random;
pub(crate) mod scram;
pub(crate) mod session;
pub(crate) mod tls;
pub(crate) mod users;

/// Complaints about clients come at most this often: they are what a stranger can make the broker write.
const COMPLAINT_PAUSE: Duration = Duration::from_secs(1);

/// What a broker knows about who may talk to it.
pub(crate) struct Security {
    pub(crate) users: Users,
    pub(crate) hasher: Hasher,
    /// `None`: clients talk in plain.
    pub(crate) tls: Option<Arc<ServerConfig>>,
    /// Whether clients must log in.
    sasl: bool,
    offered: Vec<Mechanism>,
    complaints: Mutex<Complaints>,
}

impl Security {
    /// Reads certificates and users, and gives users their passwords.
    pub(crate) fn open(
        settings: &Settings,
        data_dir: Option<&Path>,
    ) -> anyhow::Result<(Self, Receiver<Job>)> {
        let tls = settings.tls.as_ref().map(tls::server_config).transpose()?;
        let users = Users::open(data_dir)?;
        for user in &settings.users {
            users
                .set_password(&user.name, &user.password)
                .with_context(|| format!("can't set the password of user {:?}", user.name))?;
        }
        if settings.sasl && users.is_empty() {
            return Err(SettingsError::new(
                "clients must log in (--sasl), but there is no user\n  next: add --user NAME:FILE",
            )
            .into());
        }
        let mut offered: Vec<Mechanism> = Hash::ALL.map(Mechanism::Scram).to_vec();
        if tls.is_some() || settings.insecure {
            offered.push(Mechanism::Plain);
        }
        let (hasher, jobs) = Hasher::new();
        let sasl = settings.sasl;
        Ok((Self { users, hasher, tls, sasl, offered, complaints: Mutex::default() }, jobs))
    }

    /// How clients may log in.
    pub(crate) fn offered(&self) -> &[Mechanism] {
        &self.offered
    }

    /// A client that has just connected.
    pub(crate) fn session(&self) -> Session {
        Session::new(self.sasl)
    }

    /// Whether a new client has something to do before it is served.
    pub(crate) fn greets(&self) -> bool {
        self.sasl || self.tls.is_some()
    }

    /// The line to write about a client's fault, unless one was written just now.
    pub(crate) fn complaint(&self, fault: &str, now: Instant) -> Option<String> {
        self.complaints.lock().unwrap_or_else(PoisonError::into_inner).admit(fault, now)
    }
}

/// Which complaints are written.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    last: Option<Instant>,
    left_out: u64,
}

impl Complaints {
    /// The line to write, unless one was written just now.
    pub(crate) fn admit(&mut self, fault: &str, now: Instant) -> Option<String> {
        let too_soon = self.last.is_some_and(|last| now.saturating_duration_since(last) < COMPLAINT_PAUSE);
        if too_soon {
            self.left_out += 1;
            return None;
        }
        self.last = Some(now);
        Some(match std::mem::take(&mut self.left_out) {
            0 => fault.to_owned(),
            left_out => format!("{fault} (and {left_out} more client errors before)"),
        })
    }
}

/// Reads a password from a file: its text without the end of the line. An error when that is not one line of text.
pub(crate) fn read_password(path: &Path) -> anyhow::Result<String> {
    let shown = path.display();
    let text =
        std::fs::read_to_string(path).with_context(|| format!("can't read the password in {shown}"))?;
    let password = text.strip_suffix('\n').unwrap_or(&text);
    let password = password.strip_suffix('\r').unwrap_or(password);
    if password.is_empty() || password.chars().any(char::is_control) {
        bail!("{shown} must contain one password on one line");
    }
    Ok(password.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_faults_is_a_line_a_second() {
        let mut complaints = Complaints::default();
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(complaints.admit("one", at(0)).as_deref(), Some("one"));
        assert_eq!(complaints.admit("two", at(1)), None);
        assert_eq!(complaints.admit("three", at(999)), None);
        let line = complaints.admit("four", at(1000)).unwrap();
        assert!(line.starts_with("four") && line.contains("2 more"), "{line}");
        assert_eq!(complaints.admit("five", at(2001)).as_deref(), Some("five"));
    }

    #[test]
    fn a_password_is_a_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("password");
        for (text, password) in [("a b", "a b"), ("a\n", "a"), ("a\r\n", "a"), ("pä=,ss", "pä=,ss")] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(read_password(&path).unwrap(), password);
        }
        for bad in ["", "\n", "a\nb\n", "a\0b"] {
            std::fs::write(&path, bad).unwrap();
            assert!(read_password(&path).is_err(), "{bad:?}");
        }
        assert!(read_password(&folder.path().join("none")).unwrap_err().to_string().contains("none"));
    }
}
