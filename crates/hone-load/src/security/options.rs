//! Options of a connection: TLS and a login.

use std::fmt;
use std::path::PathBuf;

/// Options for connecting to a cluster. The default is neither TLS nor a login.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Security {
    /// TLS, if wanted.
    pub tls: Option<Tls>,
    /// The login, if wanted.
    pub sasl: Option<Sasl>,
}

impl Security {
    /// Without TLS and login, so no value is secret.
    pub fn is_open(&self) -> bool {
        self.tls.is_none() && self.sasl.is_none()
    }

    /// `plaintext`, `tls`, `sasl-plain`, `tls+sasl-scram-sha-512` ...
    pub fn name(&self) -> String {
        let sasl = self.sasl.as_ref().map(|sasl| format!("sasl-{}", sasl.mechanism.name().to_lowercase()));
        match (&self.tls, sasl) {
            (None, None) => "plaintext".to_owned(),
            (None, Some(sasl)) => sasl,
            (Some(_), None) => "tls".to_owned(),
            (Some(_), Some(sasl)) => format!("tls+{sasl}"),
        }
    }
}

/// Certificates for TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// CA bundle (PEM); `None` for the system's CA store.
    pub authorities: Option<PathBuf>,
    /// PEM file with the client certificate, followed by its chain.
    pub certificate: Option<PathBuf>,
    /// Private key of that certificate (PEM).
    pub key: Option<PathBuf>,
    /// The name in the broker's certificate; `None` for the name of the connection.
    pub server_name: Option<String>,
    /// Accepts any broker certificate. A man in the middle could then read and answer.
    pub believe_anyone: bool,
}

/// A login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sasl {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// The user.
    pub user: String,
    /// The password.
    pub password: Password,
}

/// Login mechanisms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// The password is sent to the broker.
    Plain,
    /// A proof is sent to the broker instead of the password.
    ScramSha256,
    /// The same with a longer hash.
    ScramSha512,
}

impl Mechanism {
    /// All mechanisms.
    pub const ALL: [Self; 3] = [Self::Plain, Self::ScramSha256, Self::ScramSha512];

    /// Kafka's name for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }

    /// The mechanism with this name, in any letter case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name().eq_ignore_ascii_case(name))
    }
}

/// A password, which debug output hides.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(String);

impl Password {
    /// Wraps it.
    pub fn new(text: String) -> Self {
        Self(text)
    }

    /// The password itself.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Password {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Password(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_says_what_protects_the_connection() {
        let sasl = Sasl {
            mechanism: Mechanism::ScramSha512,
            user: "ada".to_owned(),
            password: Password::new("secret".to_owned()),
        };
        let name = |tls: bool, sasl: bool, mechanism: &Sasl| {
            Security { tls: tls.then(Tls::default), sasl: sasl.then(|| mechanism.clone()) }.name()
        };
        assert_eq!(name(false, false, &sasl), "plaintext");
        assert_eq!(name(true, false, &sasl), "tls");
        assert_eq!(name(true, true, &sasl), "tls+sasl-scram-sha-512");
        assert_eq!(name(false, true, &Sasl { mechanism: Mechanism::Plain, ..sasl.clone() }), "sasl-plain");
        assert!(!format!("{sasl:?}").contains("secret"));
    }
}
