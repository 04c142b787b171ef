//! A runner that only records its calls.

use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::call::Call;
use crate::child::Usage;
use crate::error::{Scene, ToolError};
use crate::runner::{Finished, Runner};
use crate::session::Session;

/// Collects calls and starts nothing. Every call "succeeds" with empty outputs; no required file appears.
#[derive(Debug, Default)]
pub struct Dry {
    calls: Mutex<Vec<Call>>,
}

impl Dry {
    /// A runner without calls.
    pub fn new() -> Self {
        Self::default()
    }

    /// The calls so far, in order.
    pub fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn note(&self, call: &Call) {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call.clone());
    }
}

impl Runner for Dry {
    fn run(&self, call: &Call) -> Result<Finished, ToolError> {
        self.note(call);
        let nothing = PathBuf::from("/dev/null");
        Ok(Finished {
            code: 0,
            stdout_path: nothing.clone(),
            stderr_path: nothing,
            took: Duration::ZERO,
            usage: Usage::default(),
        })
    }

    fn start(&self, call: &Call) -> Result<Session, ToolError> {
        self.note(call);
        Err(ToolError::Refused {
            scene: Scene::new(call, None),
            reason: "a dry run starts no server".to_owned(),
            next: "run without --dry-run".to_owned(),
        })
    }
}
