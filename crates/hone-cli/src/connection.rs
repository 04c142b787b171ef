//! Options of the connection to a cluster, shared by the verbs that talk to brokers.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use clap::Args;
use hone_load::Security;
use hone_load::canary::reachable;
use hone_load::security::Mechanism;

use hone_experiment::arm::is_address;
use hone_experiment::connection::{Connection, Login, TlsFiles};
use hone_experiment::ending::Usage;
use hone_experiment::meter::Metrics;
use hone_rollout::kubernetes::name_in_secret;

/// The environment variable that can hold the password instead of a file.
pub const PASSWORD_VARIABLE: &str = "HONE_SASL_PASSWORD";

/// Brokers and how to connect to them.
#[derive(Debug, Args)]
pub struct BrokerOptions {
    #[command(flatten)]
    first: BootstrapOption,
    #[command(flatten)]
    /// TLS and login.
    pub security: SecurityOptions,
}

/// Brokers, for verbs whose target may also be something else.
#[derive(Debug, Args)]
pub struct BootstrapOption {
    /// Brokers to connect to first: HOST:PORT, separated by commas. They replace the argument BROKER or TARGET.
    #[arg(
        help_heading = "Connection",
        long,
        value_name = "ADDRESSES",
        env = "HONE_BOOTSTRAP",
        hide_env_values = true
    )]
    bootstrap: Option<String>,
}

/// How to connect to brokers.
#[derive(Debug, Args)]
pub struct SecurityOptions {
    #[command(flatten)]
    named: ConnectionName,
    #[command(flatten)]
    login: LoginOptions,
}

/// A connection that is kept, or its file.
#[derive(Debug, Args)]
pub struct ConnectionName {
    /// Name of a kept connection, or a file. Hone reads a TOML connection file, an rpk profile (`rpk.yaml`), and client
    /// properties as of Java, kcat and librdkafka. Options and environment variables win over it.
    #[arg(
        help_heading = "Connection",
        long,
        value_name = "CONNECTION",
        env = "HONE_CONNECTION",
        hide_env_values = true
    )]
    connection: Option<String>,
}

/// A store that is named, or that of a connection.
#[derive(Debug, Args)]
pub struct StoreOption {
    /// Store: a folder, `s3://BUCKET/PATH`, `gs://BUCKET/PATH` or `az://CONTAINER/PATH`.
    #[arg(long, alias = "to", value_name = "STORE", env = "HONE_STORE", hide_env_values = true)]
    store: Option<String>,
    #[command(flatten)]
    named: ConnectionName,
}

impl ConnectionName {
    /// The named connection, or an empty one.
    pub fn open(&self) -> Result<Connection> {
        Ok(self.connection.as_deref().map(Connection::open).transpose()?.unwrap_or_default())
    }
}

impl StoreOption {
    /// The store.
    ///
    /// # Errors
    /// When neither the command line nor the connection names one.
    pub fn store(&self) -> Result<String> {
        let store = match &self.store {
            Some(store) => Some(store.clone()),
            None => self.named.open()?.store,
        };
        Ok(store.ok_or_else(|| {
            Usage("no store is named\n  next: add --store, or keep one with `hone connection add`".to_owned())
        })?)
    }
}

/// TLS and login.
#[derive(Debug, Args)]
pub struct LoginOptions {
    /// Connect with TLS.
    #[arg(help_heading = "Connection", long, env = "HONE_TLS", hide_env_values = true)]
    tls: bool,
    /// CA bundle (PEM). Hone then ignores the CAs of the system. This implies --tls.
    #[arg(
        help_heading = "Connection",
        long,
        env = "HONE_TLS_CA",
        hide_env_values = true,
        value_name = "FILE"
    )]
    tls_ca: Option<PathBuf>,
    /// Certificate to present (PEM). Brokers with mutual TLS need it. This implies --tls.
    #[arg(
        help_heading = "Connection",
        long,
        env = "HONE_TLS_CERT",
        hide_env_values = true,
        value_name = "FILE",
        requires = "tls_key"
    )]
    tls_cert: Option<PathBuf>,
    /// Private key of --tls-cert (PEM).
    #[arg(
        help_heading = "Connection",
        long,
        env = "HONE_TLS_KEY",
        hide_env_values = true,
        value_name = "FILE",
        requires = "tls_cert"
    )]
    tls_key: Option<PathBuf>,
    /// Name that the certificate of a broker must have. This implies --tls. [default: the host name in the address]
    #[arg(
        help_heading = "Connection",
        long,
        env = "HONE_TLS_SERVER_NAME",
        hide_env_values = true,
        value_name = "NAME"
    )]
    tls_server_name: Option<String>,
    /// Accept every certificate. An attacker on the network can then read and change the traffic. This implies --tls.
    #[arg(help_heading = "Connection", long, conflicts_with_all = ["tls_ca", "tls_server_name"])]
    tls_insecure_skip_verify: bool,
    /// SASL mechanism: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
    #[arg(help_heading = "Connection", long, env = "HONE_SASL_MECHANISM", hide_env_values = true, value_name = "MECHANISM", value_parser = mechanism, requires = "sasl_user")]
    sasl_mechanism: Option<Mechanism>,
    /// SASL user.
    #[arg(
        help_heading = "Connection",
        long,
        env = "HONE_SASL_USER",
        hide_env_values = true,
        value_name = "USER",
        requires = "sasl_mechanism"
    )]
    sasl_user: Option<String>,
    /// File with the password of --sasl-user. [default: the environment variable HONE_SASL_PASSWORD]
    #[arg(
        help_heading = "Connection",
        long,
        env = "HONE_SASL_PASSWORD_FILE",
        hide_env_values = true,
        value_name = "FILE",
        requires = "sasl_mechanism"
    )]
    sasl_password_file: Option<PathBuf>,
}

fn mechanism(name: &str) -> Result<Mechanism, String> {
    let known = || Mechanism::ALL.map(Mechanism::name).join(", ");
    Mechanism::from_name(name).ok_or_else(|| format!("unknown mechanism `{name}`: use one of {}", known()))
}

impl LoginOptions {
    /// The file that an option names, as it was typed: what is printed is for the folder that you are in.
    fn as_typed(&self, option: &str) -> Option<&Path> {
        let files = [&self.tls_ca, &self.tls_cert, &self.tls_key, &self.sasl_password_file];
        let (_, file) = FILE_OPTIONS.into_iter().zip(files).find(|(known, _)| *known == option)?;
        file.as_deref()
    }

    /// What these options say of a connection. Paths are absolute, because a resumed run can start in another working folder.
    pub fn connection(&self) -> Result<Connection> {
        let whole = |path: &Option<PathBuf>| path.as_deref().map(std::path::absolute).transpose();
        let tls = TlsFiles {
            ca: whole(&self.tls_ca)?,
            cert: whole(&self.tls_cert)?,
            key: whole(&self.tls_key)?,
            server_name: self.tls_server_name.clone(),
            insecure_skip_verify: self.tls_insecure_skip_verify,
        };
        let login = |(mechanism, user): (Mechanism, &String)| {
            let password_file = whole(&self.sasl_password_file)?;
            Ok::<_, std::io::Error>(Login {
                mechanism: mechanism.name().to_owned(),
                user: user.clone(),
                password_file,
                password: None,
            })
        };
        let sasl = self.sasl_mechanism.zip(self.sasl_user.as_ref()).map(login).transpose()?;
        let tls = (self.tls || tls != TlsFiles::default()).then_some(tls);
        Ok(Connection { tls, sasl, ..Connection::default() })
    }
}

impl SecurityOptions {
    /// The ids of these options, which are the names of their fields.
    pub fn names() -> impl Iterator<Item = String> {
        let all = Self::augment_args(clap::Command::new(""));
        all.get_arguments().map(|one| one.get_id().to_string()).collect::<Vec<_>>().into_iter()
    }

    /// The connection that the options describe, with what only the named one says.
    pub fn connection(&self) -> Result<Connection> {
        Ok(self.login.connection()?.over(self.named.open()?))
    }

    /// The metrics pages that the command line names, or else those of the connection.
    pub fn metrics(&self, given: &Metrics) -> Result<Metrics> {
        let urls = if given.are_read() { given.urls.clone() } else { self.connection()?.metrics };
        Ok(Metrics { urls, ..given.clone() })
    }

    /// TLS and login of the connection. It reads the password.
    pub fn security(&self) -> Result<Security> {
        self.connection()?.security(PASSWORD_VARIABLE)
    }
}

impl BootstrapOption {
    /// The brokers that this option or the connection names, if any.
    fn brokers(&self, security: &SecurityOptions) -> Result<Option<String>> {
        if self.bootstrap.is_some() {
            return Ok(self.bootstrap.clone());
        }
        let named = security.connection()?.bootstrap;
        Ok((!named.is_empty()).then(|| named.join(",")))
    }

    /// The target that the command line names, or else the first broker that answers, if any is named.
    ///
    /// # Errors
    /// When the connection can't be used, or none of its several brokers answers.
    pub fn target(&self, named: Option<&str>, security: &SecurityOptions) -> Result<Option<String>> {
        if let Some(target) = named {
            return Ok(Some(target.to_owned()));
        }
        let Some(brokers) = self.brokers(security)? else { return Ok(None) };
        let first = reachable(&brokers, &security.security()?)?;
        // Anything else would be started as a command.
        if !is_address(&first) {
            let why = "use HOST:PORT, for example `127.0.0.1:9092`";
            return Err(Usage(format!("invalid broker address `{first}`: {why}")).into());
        }
        Ok(Some(first))
    }
}

impl BrokerOptions {
    /// The ids of these options.
    pub fn names() -> impl Iterator<Item = String> {
        std::iter::once("bootstrap".to_owned()).chain(SecurityOptions::names())
    }

    /// The brokers that the options name, if any.
    pub fn bootstrap(&self) -> Result<Option<String>> {
        self.first.brokers(&self.security)
    }

    /// The brokers and the arguments behind them. Where the options name the brokers, the first argument is one of the others.
    ///
    /// # Errors
    /// When no broker is named.
    pub fn split(&self, first: Option<&str>, others: &[String]) -> Result<(String, Vec<String>)> {
        let is_broker = first.is_some_and(|text| text.split(',').all(|address| is_address(address.trim())));
        if let (true, Some(brokers)) = (is_broker, first) {
            return Ok((brokers.to_owned(), others.to_vec()));
        }
        let brokers = self.bootstrap()?.ok_or_else(|| match first {
            Some(text) => Usage(format!(
                "invalid broker address `{text}`: use HOST:PORT, for example `127.0.0.1:9092`\n  \
                 next: name a broker, or add --bootstrap or --connection"
            )),
            None => Usage(
                "no broker is named\n  next: name HOST:PORT, or add --bootstrap or --connection".to_owned(),
            ),
        })?;
        Ok((brokers, first.map(str::to_owned).into_iter().chain(others.iter().cloned()).collect()))
    }
}

/// A path as text, for printed files.
pub fn utf8(path: &Path) -> Result<String> {
    path.to_str()
        .map(str::to_owned)
        .with_context(|| format!("the path {} is not valid UTF-8", path.display()))
}

/// Options that name a file.
pub const FILE_OPTIONS: [&str; 4] = ["--tls-ca", "--tls-cert", "--tls-key", "--sasl-password-file"];

impl SecurityOptions {
    /// The files of the connection for a Kubernetes secret: each with its key in the secret and its present path.
    pub fn secrets(&self) -> Result<Vec<(String, String)>> {
        let secret = |(option, file): (&str, &Path)| {
            let file = self.login.as_typed(option).unwrap_or(file);
            Ok((name_in_secret(option).to_owned(), utf8(file)?))
        };
        self.connection()?.files().map(secret).collect()
    }

    /// The connection as words for the command line of another process. `place` maps a file to its path there.
    ///
    /// # Errors
    /// When the password is not in a file, because it must not stand on a command line.
    pub fn as_arguments(&self, place: impl Fn(&str, &Path) -> Result<String>) -> Result<Vec<String>> {
        self.connection()?.as_arguments(place)
    }

    /// The first option that only this machine has: a named connection, or one that the environment gives and this command line does not.
    pub fn only_here(&self, line: &[String]) -> Result<Option<&'static str>> {
        if self.named.connection.is_some() {
            return Ok(Some("--connection"));
        }
        let connection = self.connection()?;
        let files = connection.files().map(|(option, _)| option);
        let tls = connection.tls.iter().map(|_| "--tls");
        let login = connection.sasl.iter().map(|_| "--sasl-mechanism");
        let is_there = |option: &&str| line.iter().any(|word| word.starts_with(option));
        Ok(files.chain(tls).chain(login).find(|option| !is_there(option)))
    }
}
