//! Errors before a window opens. Failures inside a window are its outcome.

use std::io;
use std::path::PathBuf;

/// Reasons why a load could not be prepared or measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A setting is invalid.
    #[error("the workload's {name}: {problem}")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// The problem and the valid values.
        problem: String,
    },
    /// The broker could not be reached.
    #[error("no connection to {address}")]
    Connect {
        /// `host:port`.
        address: String,
        /// The system's reason.
        source: io::Error,
    },
    /// No broker of a list could be reached.
    #[error("none of {} brokers answers: {}", reasons.len(), reasons.join("; "))]
    NoneAnswers {
        /// The error of each broker, by its address.
        reasons: Vec<String>,
    },
    /// The connection broke during a request.
    #[error("{address} closed the connection during {what}")]
    Broken {
        /// `host:port`.
        address: String,
        /// The request, for example `Metadata v7`.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The answer does not follow the protocol.
    #[error("{address} sent an answer to {what} that is not Kafka's protocol: {problem}")]
    Garbage {
        /// `host:port`.
        address: String,
        /// The request.
        what: String,
        /// The problem in the answer.
        problem: String,
    },
    /// A file that a setting names can't be used.
    #[error("the file with the {what}, {}, can't be used: {problem}", path.display())]
    File {
        /// The expected contents.
        what: &'static str,
        /// Path of the file.
        path: PathBuf,
        /// The problem with it.
        problem: String,
    },
    /// The TLS handshake failed.
    #[error("no TLS with {address}: {problem}")]
    Tls {
        /// `host:port`.
        address: String,
        /// The problem.
        problem: String,
        /// Advice.
        advice: String,
    },
    /// The broker rejected the login.
    #[error("{address} refused the login of `{user}` by {mechanism}: {problem}")]
    Login {
        /// `host:port`.
        address: String,
        /// The user.
        user: String,
        /// The mechanism.
        mechanism: &'static str,
        /// The broker's message.
        problem: String,
        /// Advice.
        advice: String,
    },
    /// A TLS port received a connection without TLS.
    #[error("{address} speaks TLS, and Hone connected without it")]
    SpeaksTls {
        /// `host:port`.
        address: String,
    },
    /// The broker closed the connection at the first request, without an answer.
    #[error("{address} closed the connection at the first request ({what}) without an answer")]
    Mute {
        /// `host:port`.
        address: String,
        /// The request.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The broker answered with an error.
    #[error("{address} refused {what}: {error}{message}")]
    Refused {
        /// `host:port`.
        address: String,
        /// The request.
        what: String,
        /// The error's name.
        error: &'static str,
        /// The broker's own message, with a leading separator, or nothing.
        message: String,
    },
    /// The broker needs longer than allowed.
    #[error("{address} did not answer {what} within {limit_s} s")]
    Slow {
        /// `host:port`.
        address: String,
        /// The request.
        what: String,
        /// The limit.
        limit_s: f64,
    },
    /// A request can't be encoded.
    #[error("a {what} request can't be encoded: {problem}")]
    Encode {
        /// The request.
        what: String,
        /// The codec's reason.
        problem: String,
    },
    /// The kernel refused an operation that the engine needs.
    #[error("{what} failed")]
    System {
        /// The operation.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A client failed before the window.
    #[error("the warm-up failed: {reason}")]
    WarmUp {
        /// The reason.
        reason: String,
    },
    /// A client program can't be used.
    #[error("the client `{command}`: {problem}")]
    Client {
        /// The program.
        command: String,
        /// The problem with it.
        problem: String,
    },
    /// The user interrupted the run.
    #[error("interrupted")]
    Interrupted,
}

impl LoadError {
    /// The `next:` advice for the user, if the error itself allows one. The message names the failure and its reason, and leaves the advice
    /// out.
    #[must_use]
    pub fn next(&self) -> Option<String> {
        let next = match self {
            Self::Connect { address, .. } => format!("check that a broker listens on {address}, or give \
                another address"),
            Self::NoneAnswers { .. } => "check that the brokers listen there, or give other addresses".to_owned(),
            Self::Broken { address, .. } => format!("check the log of {address}, which names the reason"),
            Self::Garbage { address, .. } => format!("check that {address} is a Kafka listener, and not an HTTP or admin port"),
            Self::Tls { advice, .. } | Self::Login { advice, .. } => advice.clone(),
            Self::SpeaksTls { .. } => "add --tls, or give the address of a listener without TLS".to_owned(),
            Self::Mute { .. } => "add --tls if the listener wants TLS, or --sasl-mechanism if it wants a login; otherwise check that it is a Kafka listener".to_owned(),
            Self::Refused { error, .. } => return remedy(error),
            Self::Slow { .. } => "check the broker's load and the network, then try again".to_owned(),
            Self::Setting { .. }
            | Self::File { .. }
            | Self::Encode { .. }
            | Self::System { .. }
            | Self::WarmUp { .. }
            | Self::Client { .. }
            | Self::Interrupted => return None,
        };
        Some(next)
    }
}

/// The advice for an error that a broker answered. The rights are those of [Kafka's authorization
/// table](https://kafka.apache.org/documentation/#operations_resources_and_protocols).
fn remedy(error: &str) -> Option<String> {
    let needs = |rights: &str| format!("grant this user {rights}, or log in as another user (--sasl-user)");
    Some(match error {
        "TOPIC_AUTHORIZATION_FAILED" => {
            needs("the topic's rights: DESCRIBE and READ to read, WRITE to produce, CREATE to create it")
        }
        "GROUP_AUTHORIZATION_FAILED" => needs("READ on the consumer group"),
        "CLUSTER_AUTHORIZATION_FAILED" => {
            needs("the cluster's right that this needs: DESCRIBE, ALTER_CONFIGS, CREATE or IDEMPOTENT_WRITE")
        }
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" => needs("WRITE on the transactional id"),
        "UNKNOWN_TOPIC_OR_PARTITION" => {
            "check the topic's name; brokers send the same error for a topic without DESCRIBE for this user"
                .to_owned()
        }
        "INVALID_REPLICATION_FACTOR" => {
            "ask for at most as many replicas as the cluster has brokers (--replication-factor)".to_owned()
        }
        "NOT_ENOUGH_REPLICAS" | "NOT_ENOUGH_REPLICAS_AFTER_APPEND" => {
            "check that enough replicas are in sync for the topic's min.insync.replicas".to_owned()
        }
        _ => return None,
    })
}

/// The missing right behind a broker's error, as a suffix to the error's name; empty if it is unknown.
pub fn hint(error: &str) -> &'static str {
    match error {
        "TOPIC_AUTHORIZATION_FAILED" => "; reading it needs READ and DESCRIBE on the topic",
        "UNKNOWN_TOPIC_OR_PARTITION" => "; brokers send the same error for a topic without DESCRIBE",
        _ => "",
    }
}
