//! What is wanted of a connection: TLS and a login.

use std::fmt;
use std::path::PathBuf;

/// How to talk to a cluster. The default is neither TLS nor a login.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Security {
    /// Talk inside TLS.
    pub tls: Option<Tls>,
    /// Log in.
    pub sasl: Option<Sasl>,
}

impl Security {
    /// Neither TLS nor a login: nothing of it is a secret.
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

/// Whom to believe inside TLS, and who one is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// PEM file with the authorities to believe; `None` for those of the system.
    pub authorities: Option<PathBuf>,
    /// PEM file with a certificate of one's own, and behind it those that lead to an authority.
    pub certificate: Option<PathBuf>,
    /// PEM file with its key.
    pub key: Option<PathBuf>,
    /// The name that the broker's certificate must be for; `None` for the one that is connected to.
    pub server_name: Option<String>,
    /// Believe every certificate. Whoever sits between could read along and answer.
    pub believe_anyone: bool,
}

/// A login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sasl {
    /// How.
    pub mechanism: Mechanism,
    /// As whom.
    pub user: String,
    /// With what.
    pub password: Password,
}

/// How to log in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// The password goes over the wire.
    Plain,
    /// A proof goes over the wire.
    ScramSha256,
    /// The same with a longer hash.
    ScramSha512,
}

impl Mechanism {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Plain, Self::ScramSha256, Self::ScramSha512];

    /// As Kafka calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "PLAIN",
            Self::ScramSha256 => "SCRAM-SHA-256",
            Self::ScramSha512 => "SCRAM-SHA-512",
        }
    }

    /// The mechanism of a name, in any case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mechanism| mechanism.name().eq_ignore_ascii_case(name))
    }
}

/// A password, which is not shown by accident.
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
