//! Options for TLS and logins, shared by the verbs that talk to brokers.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use hone_load::Security;
use hone_load::security::{Mechanism, Password, Sasl, Tls};

use hone_experiment::ending::Usage;
use hone_rollout::kubernetes::name_in_secret;

/// Where a password may be instead of in a file.
const PASSWORD_VARIABLE: &str = "HONE_SASL_PASSWORD";

/// How to talk to the brokers.
#[derive(Debug, Args)]
#[command(next_help_heading = "TLS and login")]
pub(crate) struct SecurityOptions {
    /// Talk inside TLS.
    #[arg(long)]
    tls: bool,
    /// PEM file with the authorities to believe, instead of the system's; implies --tls.
    #[arg(long, value_name = "FILE")]
    tls_ca: Option<PathBuf>,
    /// PEM file with a certificate of one's own, for brokers that want one; implies --tls.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// PEM file with its key.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Name that the brokers' certificate must be for, instead of the one that is connected to; implies --tls.
    #[arg(long, value_name = "NAME")]
    tls_server_name: Option<String>,
    /// Believe every certificate: whoever sits between could read along and answer. Implies --tls.
    #[arg(long, conflicts_with_all = ["tls_ca", "tls_server_name"])]
    tls_insecure_skip_verify: bool,
    /// Log in: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
    #[arg(long, value_name = "MECHANISM", value_parser = mechanism, requires = "sasl_user")]
    sasl_mechanism: Option<Mechanism>,
    /// As this user.
    #[arg(long, value_name = "USER", requires = "sasl_mechanism")]
    sasl_user: Option<String>,
    /// File with the user's password; without it, the environment variable HONE_SASL_PASSWORD holds it.
    #[arg(long, value_name = "FILE", requires = "sasl_mechanism")]
    sasl_password_file: Option<PathBuf>,
}

fn mechanism(name: &str) -> Result<Mechanism, String> {
    let known = || Mechanism::ALL.map(Mechanism::name).join(", ");
    Mechanism::from_name(name).ok_or_else(|| format!("unknown mechanism `{name}`; there are: {}", known()))
}

impl SecurityOptions {
    /// Their names in the code.
    pub(crate) fn names() -> impl Iterator<Item = String> {
        let all = Self::augment_args(clap::Command::new(""));
        all.get_arguments().map(|one| one.get_id().to_string()).collect::<Vec<_>>().into_iter()
    }

    /// What they ask for, with the password read.
    pub(crate) fn security(&self) -> Result<Security> {
        let tls = Tls {
            authorities: whole(self.tls_ca.as_deref())?,
            certificate: whole(self.tls_cert.as_deref())?,
            key: whole(self.tls_key.as_deref())?,
            server_name: self.tls_server_name.clone(),
            believe_anyone: self.tls_insecure_skip_verify,
        };
        let sasl = match (self.sasl_mechanism, &self.sasl_user) {
            (Some(mechanism), Some(user)) => {
                let password = password(self.sasl_password_file.as_deref(), user)?;
                Some(Sasl { mechanism, user: user.clone(), password })
            }
            _ => None,
        };
        Ok(Security { tls: (self.tls || tls != Tls::default()).then_some(tls), sasl })
    }
}

/// A path as a text that is printed.
pub(crate) fn utf8(path: &Path) -> Result<String> {
    path.to_str().map(str::to_owned).with_context(|| format!("{} is no UTF-8", path.display()))
}

/// Where a file is whatever the working folder: a run that goes on does so where it was begun.
fn whole(path: Option<&Path>) -> Result<Option<PathBuf>> {
    Ok(path.map(std::path::absolute).transpose()?)
}

/// Options that name a file.
pub(crate) const FILE_OPTIONS: [&str; 4] = ["--tls-ca", "--tls-cert", "--tls-key", "--sasl-password-file"];

/// An option that names a file, and the file.
pub(crate) type Named<'a> = (&'static str, &'a Path);

impl SecurityOptions {
    /// The files that they name.
    pub(crate) fn files(&self) -> Vec<Named<'_>> {
        let all = [&self.tls_ca, &self.tls_cert, &self.tls_key, &self.sasl_password_file];
        let all = FILE_OPTIONS.into_iter().zip(all);
        all.filter_map(|(option, path)| Some((option, path.as_deref()?))).collect()
    }

    /// The same files for a secret of Kubernetes: their names there, and where they are now.
    pub(crate) fn secrets(&self) -> Result<Vec<(String, String)>> {
        let secret = |(option, file)| Ok((name_in_secret(option).to_owned(), utf8(file)?));
        self.files().into_iter().map(secret).collect()
    }

    /// The same options as words, for another process; `place` says where a file is for that one.
    ///
    /// # Errors
    /// When the password is in no file: it would have to stand among the words.
    pub(crate) fn words(&self, place: impl Fn(Named<'_>) -> Result<String>) -> Result<Vec<String>> {
        let mut words = Vec::new();
        let is_bare = self.tls || self.tls_insecure_skip_verify;
        words.extend(is_bare.then(|| "--tls".to_owned()));
        words.extend(self.tls_insecure_skip_verify.then(|| "--tls-insecure-skip-verify".to_owned()));
        let mut add = |name: &str, value: String| words.extend([name.to_owned(), value]);
        for (option, path) in self.files() {
            add(option, place((option, path))?);
        }
        if let Some(name) = &self.tls_server_name {
            add("--tls-server-name", name.clone());
        }
        if let (Some(mechanism), Some(user)) = (self.sasl_mechanism, &self.sasl_user) {
            add("--sasl-mechanism", mechanism.name().to_owned());
            add("--sasl-user", user.clone());
            if self.sasl_password_file.is_none() {
                bail!(Usage(
                    "what is printed holds no password: name the file that has it (--sasl-password-file FILE)".to_owned()
                ));
            }
        }
        Ok(words)
    }
}

/// From a file or the environment, never from the command line, which every process of the machine may read.
fn password(file: Option<&Path>, user: &str) -> Result<Password> {
    let text = match file {
        Some(path) => std::fs::read_to_string(path)
            .with_context(|| format!("--sasl-password-file {} can't be read", path.display()))?,
        None => match std::env::var(PASSWORD_VARIABLE) {
            Ok(text) => text,
            Err(_) => bail!(Usage(format!(
                "there is no password for `{user}`: name a file that holds it (--sasl-password-file FILE), or set \
                 {PASSWORD_VARIABLE}"
            ))),
        },
    };
    // An editor ends the line; no password ends so.
    let text = text.strip_suffix('\n').map_or(text.as_str(), |line| line.strip_suffix('\r').unwrap_or(line));
    if text.is_empty() {
        bail!(Usage(format!("the password of `{user}` is empty")));
    }
    Ok(Password::new(text.to_owned()))
}
