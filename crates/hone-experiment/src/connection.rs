//! How to reach a cluster, kept once: addresses, TLS, a login, metrics pages and a store.
//!
//! A connection is a TOML file of Hone's own, or a file of another client that [`import`] reads. Named ones lie in
//! `$XDG_CONFIG_HOME/hone/connections` (or `~/.config/hone/connections`), each readable by its owner alone.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_load::Security;
use hone_load::security::{Mechanism, Password, Sasl, Tls};
use serde::{Deserialize, Serialize};

use crate::ending::Usage;

pub mod check;
pub mod import;

/// Longer files are no connections.
const MOST_BYTES: u64 = 1 << 20;

/// A connection to a cluster. Paths of files are absolute once it is read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Connection {
    /// Brokers to connect to first, as HOST:PORT.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bootstrap: Vec<String>,
    /// Metrics pages of the brokers (URLs).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<String>,
    /// Store for records and profiles: a folder or the address of a bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// TLS, where the brokers want it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsFiles>,
    /// Login, where the brokers want one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sasl: Option<Login>,
}

/// Files and names of TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TlsFiles {
    /// CA bundle (PEM). Without it, the system's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<PathBuf>,
    /// Certificate to present (PEM).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cert: Option<PathBuf>,
    /// Its private key (PEM).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// Name that the brokers' certificate must carry.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// Accept every certificate.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub insecure_skip_verify: bool,
}

/// A login by SASL. The password is in a file of its own or in the environment, never in the connection's file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Login {
    /// PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
    pub mechanism: String,
    /// User name.
    pub user: String,
    /// File with the password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password_file: Option<PathBuf>,
    /// A password that stands in the file of another client. It is not written to a connection's file.
    #[serde(skip)]
    pub password: Option<Secret>,
}

/// A password that is neither printed nor written by accident.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secret(pub Password);

impl Connection {
    /// The connection of this name, or of this file: one of Hone's own (`.toml`), an rpk profile (`.yaml`), or client
    /// properties as of Java, kcat and librdkafka.
    ///
    /// # Errors
    /// When there is none, and when it can't be read: with the file and what is wrong in it.
    pub fn open(name_or_file: &str) -> Result<Self> {
        Ok(import::read(&locate(name_or_file)?)?.connection)
    }

    /// This connection, with what only `other` says.
    pub fn over(self, other: Self) -> Self {
        let or = |own: Vec<String>, other: Vec<String>| if own.is_empty() { other } else { own };
        Self {
            bootstrap: or(self.bootstrap, other.bootstrap),
            metrics: or(self.metrics, other.metrics),
            store: self.store.or(other.store),
            tls: match (self.tls, other.tls) {
                (Some(own), Some(other)) => Some(own.over(other)),
                (own, other) => own.or(other),
            },
            sasl: self.sasl.or(other.sasl),
        }
    }

    /// What the engines need of it. `password_variable` is where a password is that no file holds.
    ///
    /// # Errors
    /// When the mechanism is unknown or no password is found.
    pub fn security(&self, password_variable: &str) -> Result<Security> {
        let tls = self.tls.as_ref().map(|files| Tls {
            authorities: files.ca.clone(),
            certificate: files.cert.clone(),
            key: files.key.clone(),
            server_name: files.server_name.clone(),
            believe_anyone: files.insecure_skip_verify,
        });
        let sasl = self.sasl.as_ref().map(|login| login.sasl(password_variable)).transpose()?;
        Ok(Security { tls, sasl })
    }

    /// The files that it names, each with the option that names it on a command line.
    pub fn files(&self) -> impl Iterator<Item = (&'static str, &Path)> {
        let tls = self.tls.iter();
        let tls =
            tls.flat_map(|tls| [("--tls-ca", &tls.ca), ("--tls-cert", &tls.cert), ("--tls-key", &tls.key)]);
        let login = self.sasl.iter().map(|login| ("--sasl-password-file", &login.password_file));
        tls.chain(login).filter_map(|(option, path)| Some((option, path.as_deref()?)))
    }

    /// TLS and login as words for the command line of another process. `place` maps a file to its path there.
    ///
    /// # Errors
    /// When the password is not in a file, because it must not stand on a command line.
    pub fn as_arguments(&self, place: impl Fn(&str, &Path) -> Result<String>) -> Result<Vec<String>> {
        let mut words = Vec::new();
        let is_insecure = self.tls.as_ref().is_some_and(|tls| tls.insecure_skip_verify);
        words.extend(self.tls.is_some().then(|| "--tls".to_owned()));
        words.extend(is_insecure.then(|| "--tls-insecure-skip-verify".to_owned()));
        for (option, path) in self.files() {
            words.extend([option.to_owned(), place(option, path)?]);
        }
        if let Some(name) = self.tls.as_ref().and_then(|tls| tls.server_name.clone()) {
            words.extend(["--tls-server-name".to_owned(), name]);
        }
        if let Some(login) = &self.sasl {
            let named = ["--sasl-mechanism", &login.mechanism, "--sasl-user", &login.user];
            words.extend(named.map(str::to_owned));
            if login.password_file.is_none() {
                bail!(Usage(
                    "the printed files must not contain the password\n  next: add --sasl-password-file FILE"
                        .to_owned()
                ));
            }
        }
        Ok(words)
    }

    /// Keeps it under a name, for its owner alone. A password that it brings is kept in a file beside it.
    ///
    /// # Errors
    /// When the name is none, when there is one of this name already and `may_replace` is false, and when the folder takes no file.
    pub fn save(mut self, name: &str, may_replace: bool) -> Result<PathBuf> {
        let file = file_of(name)?;
        if file.exists() && !may_replace {
            bail!(Usage(format!(
                "connection `{name}`: {} exists\n  next: choose another name, or replace it with --force",
                file.display()
            )));
        }
        let folder = folder()?;
        fs::create_dir_all(&folder).with_context(|| format!("{} can't be created", folder.display()))?;
        if let Some(login) = &mut self.sasl
            && let Some(Secret(password)) = login.password.take()
        {
            let kept = folder.join(format!("{name}.password"));
            write_private(&kept, password.reveal())?;
            login.password_file = Some(kept);
        }
        write_private(&file, &toml::to_string(&self)?)?;
        Ok(file)
    }
}

impl TlsFiles {
    fn over(self, other: Self) -> Self {
        Self {
            ca: self.ca.or(other.ca),
            cert: self.cert.or(other.cert),
            key: self.key.or(other.key),
            server_name: self.server_name.or(other.server_name),
            insecure_skip_verify: self.insecure_skip_verify || other.insecure_skip_verify,
        }
    }
}

impl Login {
    fn sasl(&self, password_variable: &str) -> Result<Sasl> {
        let mechanism = Mechanism::from_name(&self.mechanism).ok_or_else(|| {
            let known = Mechanism::ALL.map(Mechanism::name).join(", ");
            Usage(format!("SASL mechanism `{}`: use one of {known}", self.mechanism))
        })?;
        let password = match (&self.password, &self.password_file) {
            (Some(Secret(password)), _) => password.clone(),
            (None, file) => password(file.as_deref(), &self.user, password_variable)?,
        };
        Ok(Sasl { mechanism, user: self.user.clone(), password })
    }
}

/// From a file or the environment, never from the command line, which every process of the machine may read.
///
/// # Errors
/// When there is none, and when it is empty.
pub fn password(file: Option<&Path>, user: &str, variable: &str) -> Result<Password> {
    let text = match file {
        Some(path) => fs::read_to_string(path)
            .with_context(|| format!("cannot read --sasl-password-file {}", path.display()))?,
        None => std::env::var(variable).map_err(|_| {
            Usage(format!(
                "no password for user `{user}`\n  next: add --sasl-password-file FILE, or set {variable}"
            ))
        })?,
    };
    // An editor ends the line; no password ends so.
    let text = text.strip_suffix('\n').map_or(text.as_str(), |line| line.strip_suffix('\r').unwrap_or(line));
    if text.is_empty() {
        bail!(Usage(format!("the password of user `{user}` is empty")));
    }
    Ok(Password::new(text.to_owned()))
}

/// Where named connections lie.
///
/// # Errors
/// When neither XDG_CONFIG_HOME nor HOME is set.
pub fn folder() -> Result<PathBuf> {
    let of = |variable: &str| std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from);
    let config = of("XDG_CONFIG_HOME").or_else(|| Some(of("HOME")?.join(".config")));
    let config = config.ok_or_else(|| {
        Usage(
            "neither XDG_CONFIG_HOME nor HOME is set\n  next: name the connection's file instead of its name"
                .to_owned(),
        )
    })?;
    Ok(config.join("hone/connections"))
}

/// The names of all connections that are kept, in order.
///
/// # Errors
/// When the folder can't be read.
pub fn names() -> Result<Vec<String>> {
    let folder = folder()?;
    if !folder.exists() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(&folder).with_context(|| format!("{} can't be read", folder.display()))?;
    let name = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_suffix(".toml").map(str::to_owned);
    let mut names: Vec<String> = entries.flatten().filter_map(name).collect();
    names.sort();
    Ok(names)
}

/// Deletes a connection that is kept, and the password that came with it.
///
/// # Errors
/// When there is none of this name.
pub fn remove(name: &str) -> Result<()> {
    let file = file_of(name)?;
    fs::remove_file(&file).map_err(|_| unknown(name))?;
    // There is one only where a password was imported.
    let _ = fs::remove_file(file.with_extension("password"));
    Ok(())
}

fn file_of(name: &str) -> Result<PathBuf> {
    let is_word = !name.is_empty()
        && name.len() <= 64
        && name.chars().all(|c| c.is_ascii_alphanumeric() || ['-', '_'].contains(&c));
    if !is_word {
        bail!(Usage(format!("invalid name `{name}`: use up to 64 letters, digits, `-` and `_`")));
    }
    Ok(folder()?.join(format!("{name}.toml")))
}

/// The file of a name or path. What has a slash or a dot is a path.
fn locate(name_or_file: &str) -> Result<PathBuf> {
    if name_or_file.contains(['/', '.']) {
        return Ok(PathBuf::from(name_or_file));
    }
    let file = file_of(name_or_file)?;
    if file.exists() { Ok(file) } else { Err(unknown(name_or_file)) }
}

fn unknown(name: &str) -> anyhow::Error {
    let known = names().unwrap_or_default();
    let known = match &known[..] {
        [] => "none is kept yet".to_owned(),
        known => format!("there are: {}", known.join(", ")),
    };
    Usage(format!(
        "unknown connection `{name}`; {known}\n  next: hone connection add {name} --bootstrap HOST:PORT"
    ))
    .into()
}

fn write_private(file: &Path, text: &str) -> Result<()> {
    let part = file.with_extension(format!("{}.part", std::process::id()));
    let write = || {
        let _ = fs::remove_file(&part);
        let mut opened = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&part)?;
        opened.write_all(text.as_bytes())?;
        fs::rename(&part, file)
    };
    write()
        .inspect_err(|_| drop(fs::remove_file(&part)))
        .with_context(|| format!("{} can't be written", file.display()))
}

/// The text of a connection's file, which is no longer than one would be.
fn read_short(file: &Path) -> Result<String> {
    let failed = || format!("connection file {} can't be read", file.display());
    if fs::metadata(file).with_context(failed)?.len() > MOST_BYTES {
        bail!(Usage(format!("{} is longer than 1 MiB: it is no connection file", file.display())));
    }
    fs::read_to_string(file).with_context(failed)
}
