//! A variant of a Java service.

use hone_jvm::command::JavaCommand;
use hone_jvm::jdk::Jdk;

/// A variant that can be started.
#[derive(Debug, Clone)]
pub(super) struct Service {
    /// Its name.
    pub(super) name: String,
    /// Its command line, with placeholders.
    pub(super) command: JavaCommand,
    /// Its JDK.
    pub(super) jdk: Jdk,
    /// Whether a cache is a part of it.
    pub(super) has_cache: bool,
}
