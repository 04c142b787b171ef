//! A program of a Go module, as a target.

use std::path::PathBuf;

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

/// A program of a Go module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GoTarget {
    /// Folder with the `go.mod`; also the working directory of every build.
    pub module_dir: PathBuf,
    /// The main package, as `go build` takes it, for example `./cmd/server`.
    pub package: String,
    /// Build tags.
    pub tags: Vec<String>,
    /// Flags for the linker.
    pub ldflags: Option<String>,
    /// Whether the program contains no paths of this machine. `go version -m` then shows only the profile's file name.
    pub trimpath: bool,
    /// Other flags of `go build`, for every variant.
    pub extra_flags: Vec<String>,
}

impl GoTarget {
    /// The main package `package` of the module in `module_dir`, as `go build` makes it.
    pub fn new(module_dir: impl Into<PathBuf>, package: impl Into<String>) -> Self {
        Self {
            module_dir: module_dir.into(),
            package: package.into(),
            tags: Vec::new(),
            ldflags: None,
            trimpath: false,
            extra_flags: Vec::new(),
        }
    }

    pub(super) fn check_flags(&self) -> Result<()> {
        let ours = |flag: &&String| {
            let name = flag.trim_start_matches('-');
            ["pgo", "o", "v"].iter().any(|own| name == *own || name.starts_with(&format!("{own}=")))
        };
        match self.extra_flags.iter().find(ours) {
            Some(flag) => bail!("the target's flags contain `{flag}`, which Hone sets itself: remove it"),
            None => Ok(()),
        }
    }
}
