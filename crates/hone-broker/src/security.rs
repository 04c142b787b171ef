//! Who may talk to the broker, in private, and what about: TLS, SASL, users, access control lists.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::rand::{SecureRandom, SystemRandom};
use rustls::ServerConfig;

use acl::Acls;
use hashing::{Hasher, Job};
use scram::Hash;
use session::{ANONYMOUS, Mechanism, Session};
use users::Users;

use crate::settings::{Settings, SettingsError};

pub(crate) mod acl;
pub(crate) mod hashing;
pub(crate) mod login;
pub(crate) mod plain;
pub(crate) mod scram;
pub(crate) mod session;
pub(crate) mod tls;
pub(crate) mod users;

/// Random bytes of the broker's part of a nonce.
const NONCE_BYTES: usize = 24;
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
                .with_context(|| format!("can't give user {:?} a password", user.name))?;
        }
        if settings.sasl && users.is_empty() {
            return Err(SettingsError::new(
                "clients must log in (--sasl), and there is no user; give one with --user NAME:FILE",
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
            left_out => format!("{fault} (and {left_out} more such faults of clients before)"),
        })
    }
}

/// Refuses settings under which strangers could come in unasked or listen in, unless they say so, and those under which
/// nobody could come in.
pub(crate) fn check(settings: &Settings) -> Result<(), SettingsError> {
    let refused = |text: &str| Err(SettingsError::new(text));
    if !settings.users.is_empty() && !settings.sasl {
        return refused(
            "users have passwords (--user), and nobody would be asked for one; add --sasl, or leave --user out",
        );
    }
    if let Some(user) = settings.super_users.iter().find(|user| !user.contains(':')) {
        return Err(SettingsError::new(format!("--superuser {user} has no type; wanted User:{user}")));
    }
    if settings.authorize && settings.super_users.is_empty() {
        return refused(
            "--authorize needs a --superuser, such as User:admin, or nobody could ever be allowed anything",
        );
    }
    if !settings.authorize && !settings.super_users.is_empty() {
        return refused(
            "--superuser means nothing while everyone may do everything; add --authorize, or leave it out",
        );
    }
    check_listener(settings)?;
    check_metrics(settings)
}

/// Whether every client must say who it is.
fn asks_for_names(settings: &Settings) -> bool {
    settings.sasl || settings.tls.as_ref().is_some_and(|tls| tls.client_authorities.is_some())
}

/// Whether clients come from this machine only, or come in private and say who they are.
fn guards_clients(settings: &Settings) -> bool {
    is_local(settings.listen) || settings.tls.is_some() && asks_for_names(settings)
}

fn check_listener(settings: &Settings) -> Result<(), SettingsError> {
    if guards_clients(settings) || settings.insecure {
        return Ok(());
    }
    Err(SettingsError::new(format!(
        "--listen {} can be reached from other machines, so TLS (--tls-cert FILE --tls-key FILE) and a login (--sasl --user \
         NAME:FILE, or --tls-client-ca FILE) are needed there; --insecure goes without",
        settings.listen
    )))
}

/// Where other machines can read the metrics, which name topics and groups and answer whoever asks.
fn open_metrics(settings: &Settings) -> Option<SocketAddr> {
    settings.metrics_listen.filter(|address| !is_local(*address))
}

fn check_metrics(settings: &Settings) -> Result<(), SettingsError> {
    match open_metrics(settings) {
        Some(address) if !(settings.open_metrics || settings.insecure) => Err(SettingsError::new(format!(
            "--metrics {address} can be reached from other machines, and metrics know neither TLS nor a login; keep them on \
             127.0.0.1, or add --open-metrics to let everybody read them"
        ))),
        _ => Ok(()),
    }
}

/// Says what strangers can do under settings that have passed the check.
pub(crate) fn warn(settings: &Settings) {
    if !guards_clients(settings) {
        let mut risks = Vec::new();
        if settings.tls.is_none() {
            risks.push("anybody can listen in");
        }
        if !asks_for_names(settings) {
            risks.push("nobody is asked who they are");
        }
        let (listen, risks) = (settings.listen, risks.join(" and "));
        settings.notices.say(&format!("{listen} can be reached from other machines: {risks}"));
    }
    if let Some(address) = open_metrics(settings) {
        settings.notices.say(&format!(
            "metrics on {address} can be reached from other machines: nobody is asked who they are"
        ));
    }
}

/// Refuses lists that could never let anybody do anything, and warns of a super user who can't log in.
pub(crate) fn check_lists(settings: &Settings, acls: &Acls, users: &Users) -> Result<(), SettingsError> {
    if !settings.authorize {
        return Ok(());
    }
    if !asks_for_names(settings) && !acls.may_allow(ANONYMOUS) {
        return Err(SettingsError::new(format!(
            "--authorize knows clients by their login or their certificate, and asks for neither: everybody would be {ANONYMOUS} \
             and be refused; add --sasl --user NAME:FILE (or --tls-client-ca FILE), or --superuser {ANONYMOUS} to let \
             everybody in",
        )));
    }
    let by_password =
        settings.sasl && settings.tls.as_ref().is_none_or(|tls| tls.client_authorities.is_none());
    let unknown =
        |user: &&String| user.strip_prefix("User:").is_none_or(|name| users.describe(name).is_none());
    if by_password && settings.super_users.iter().all(|user| unknown(&user)) {
        let named = settings.super_users.join(", ");
        settings.notices.say(&format!(
            "nobody can log in as a super user: there is no password for {named}; give one with --user NAME:FILE"
        ));
    }
    Ok(())
}

fn is_local(address: SocketAddr) -> bool {
    match address.ip() {
        IpAddr::V4(ip) => ip.is_loopback(),
        IpAddr::V6(ip) => ip.is_loopback() || ip.to_ipv4_mapped().is_some_and(|ip| ip.is_loopback()),
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
        bail!("{shown} should hold one password, on one line");
    }
    Ok(password.to_owned())
}

fn random_bytes<const N: usize>() -> anyhow::Result<[u8; N]> {
    let mut bytes = [0; N];
    match SystemRandom::new().fill(&mut bytes) {
        Ok(()) => Ok(bytes),
        Err(_) => bail!("the system gives no random bytes"),
    }
}

/// The broker's part of a new exchange's nonce.
fn nonce() -> anyhow::Result<String> {
    Ok(BASE64.encode(random_bytes::<NONCE_BYTES>()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{NewUser, Notices};

    fn tls(client_authorities: Option<&str>) -> Option<tls::TlsFiles> {
        let client_authorities = client_authorities.map(Into::into);
        Some(tls::TlsFiles { certificate: "c".into(), key: "k".into(), client_authorities })
    }

    #[test]
    fn other_machines_are_let_in_only_in_private_and_by_name() {
        let said = Arc::new(Mutex::new(Vec::new()));
        let allowed = |listen: &str, change: &dyn Fn(&mut Settings)| {
            let mut settings = Settings::new("unused");
            let said = Arc::clone(&said);
            settings.listen = listen.parse().unwrap();
            settings.notices = Notices::to(move |line| said.lock().unwrap().push(line.to_owned()));
            change(&mut settings);
            check(&settings).map_err(|error| error.to_string())?;
            warn(&settings);
            Ok::<(), String>(())
        };
        for local in ["127.0.0.1:9092", "127.8.8.8:1", "[::1]:9092", "[::ffff:127.0.0.1]:9092"] {
            assert_eq!(allowed(local, &|_| ()), Ok(()));
        }
        for open in ["0.0.0.0:9092", "[::]:9092", "192.0.2.1:9092"] {
            for change in [&(|_: &mut Settings| ()) as &dyn Fn(&mut Settings), &|s| s.sasl = true, &|s| {
                s.tls = tls(None)
            }] {
                let error = allowed(open, change).unwrap_err();
                assert!(error.starts_with(&format!("--listen {open}")), "{error}");
                for flag in ["--tls-cert", "--tls-key", "--sasl", "--user", "--insecure"] {
                    assert!(error.contains(flag), "{error}");
                }
            }
            let secured = |s: &mut Settings| (s.tls, s.sasl) = (tls(None), true);
            assert_eq!(allowed(open, &secured), Ok(()));
            assert_eq!(allowed(open, &|s| s.tls = tls(Some("ca"))), Ok(()));
        }
        assert!(said.lock().unwrap().is_empty());
        assert_eq!(allowed("0.0.0.0:9092", &|s| s.insecure = true), Ok(()));
        let line = said.lock().unwrap().pop().unwrap();
        assert!(line.ends_with("anybody can listen in and nobody is asked who they are"), "{line}");
    }

    #[test]
    fn metrics_are_read_from_other_machines_only_when_that_is_said() {
        let allowed = |metrics: Option<&str>, change: fn(&mut Settings)| {
            let mut settings = Settings::new("unused");
            settings.metrics_listen = metrics.map(|address| address.parse().unwrap());
            change(&mut settings);
            check(&settings)
        };
        for local in [None, Some("127.0.0.1:9644"), Some("[::1]:9644")] {
            assert_eq!(allowed(local, |_| ()), Ok(()));
        }
        for open in ["0.0.0.0:9644", "[::]:9644", "192.0.2.1:9644"] {
            let error = allowed(Some(open), |_| ()).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("--metrics {open}")) && error.contains("--open-metrics"),
                "{error}"
            );
            assert_eq!(allowed(Some(open), |settings| settings.open_metrics = true), Ok(()));
            assert_eq!(allowed(Some(open), |settings| settings.insecure = true), Ok(()));
            let secured = |settings: &mut Settings| (settings.tls, settings.sasl) = (tls(None), true);
            assert!(allowed(Some(open), secured).is_err(), "neither of them guards the metrics");
        }
    }

    #[test]
    fn users_without_a_login_are_a_mistake() {
        let mut settings = Settings::new("unused");
        settings.users.push(NewUser { name: "alice".to_owned(), password: "secret".to_owned() });
        let error = check(&settings).unwrap_err().to_string();
        assert!(error.contains("--sasl"), "{error}");
        assert!(!format!("{settings:?}").contains("secret"));
    }

    #[test]
    fn lists_need_a_super_user_and_super_users_need_lists() {
        let refused = |authorize, super_users: &[&str]| {
            let mut settings = Settings { authorize, ..Settings::new("unused") };
            settings.super_users = super_users.iter().map(|user| (*user).to_owned()).collect();
            check(&settings).map_err(|error| error.to_string())
        };
        assert_eq!(refused(true, &["User:admin"]), Ok(()));
        for (authorize, super_users, wanted) in [
            (true, &[][..], "--authorize needs a --superuser"),
            (true, &["User:a", "admin"], "--superuser admin has no type; wanted User:admin"),
            (false, &["User:admin"], "add --authorize"),
        ] {
            let error = refused(authorize, super_users).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
    }

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
