//! What can go wrong before a window opens; what goes wrong inside of one is the window's outcome.

use std::io;
use std::path::PathBuf;

/// Why a load could not be prepared or measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// A setting that makes no sense.
    #[error("the workload's {name}: {problem}")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },
    /// The broker could not be reached.
    #[error("no connection to {address} (is a broker started and listening there?)")]
    Connect {
        /// `host:port`.
        address: String,
        /// The system's reason.
        source: io::Error,
    },
    /// None of several brokers could be reached.
    #[error("none of {} brokers answers: {}", reasons.len(), reasons.join("; "))]
    NoneAnswers {
        /// What each of them said, by its address.
        reasons: Vec<String>,
    },
    /// The connection broke while something was asked.
    #[error("{address} broke the connection during {what}")]
    Broken {
        /// `host:port`.
        address: String,
        /// What was asked, for example `Metadata v7`.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The answer is not what the protocol says.
    #[error(
        "{address} gave an answer to {what} that is not Kafka's protocol: {problem}; is a Kafka-API broker listening there?"
    )]
    Garbage {
        /// `host:port`.
        address: String,
        /// What was asked.
        what: String,
        /// What is wrong with the answer.
        problem: String,
    },
    /// A file that a setting names is of no use.
    #[error("the file with the {what}, {}, can't be used: {problem}", path.display())]
    File {
        /// What should be in it.
        what: &'static str,
        /// Where it should be.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// No TLS came about.
    #[error("no TLS with {address}: {problem}; {advice}")]
    Tls {
        /// `host:port`.
        address: String,
        /// What went wrong.
        problem: String,
        /// What to do.
        advice: String,
    },
    /// The broker let nobody of that name in.
    #[error("{address} refused the login of `{user}` by {mechanism}: {problem}; {advice}")]
    Login {
        /// `host:port`.
        address: String,
        /// As whom.
        user: String,
        /// How.
        mechanism: &'static str,
        /// The broker's words.
        problem: String,
        /// What to do.
        advice: String,
    },
    /// A TLS port that was talked to in plain.
    #[error("{address} speaks TLS: talk to it inside TLS (--tls), or name a port without")]
    SpeaksTls {
        /// `host:port`.
        address: String,
    },
    /// Closed without a word at the first question.
    #[error(
        "{address} closed the connection at the first question ({what}) without an answer: does it want TLS (--tls) or a login (--sasl-mechanism), or is it no Kafka-API broker?"
    )]
    Mute {
        /// `host:port`.
        address: String,
        /// What was asked.
        what: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The broker answered with an error.
    #[error("{address} refused {what}: {error}{message}")]
    Refused {
        /// `host:port`.
        address: String,
        /// What was asked.
        what: String,
        /// The error's name.
        error: &'static str,
        /// The broker's own words, with a leading separator, or nothing.
        message: String,
    },
    /// The broker needs longer than allowed.
    #[error("{address} did not answer {what} within {limit_s} s")]
    Slow {
        /// `host:port`.
        address: String,
        /// What was asked.
        what: String,
        /// The limit.
        limit_s: f64,
    },
    /// A request can't be encoded.
    #[error("a {what} request can't be encoded: {problem}")]
    Encode {
        /// What was to be asked.
        what: String,
        /// The codec's reason.
        problem: String,
    },
    /// The kernel refuses something the engine needs.
    #[error("{what} failed")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
    /// A client failed before the window.
    #[error("the warm-up failed: {reason}")]
    WarmUp {
        /// What happened.
        reason: String,
    },
    /// A client program can't be used.
    #[error("the client `{command}`: {problem}")]
    Client {
        /// The program.
        command: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The user interrupted the run.
    #[error("interrupted")]
    Interrupted,
}
