//! A builder whose tools are not on this machine. A job that only judges builds nothing. The run knows which tools made
//! its variants.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use hone_binary::capture::{ProfileFiles, ProfileKind};
use hone_binary::{BuildRequest, Builder, Built, Converter, Merged, Proven, TargetKind};
use hone_record::{ProfileApplied, ToolReceipt};
use serde::{Deserialize, Serialize};

use crate::job::Job;
use hone_experiment::phase::Phase;

/// The tools that built the variants of a run.
const NOTE: &str = "workshop.json";

#[derive(Debug, Serialize, Deserialize)]
struct Elsewhere {
    kind: TargetKind,
    tools: Vec<ToolReceipt>,
    /// The reason why the tools are missing.
    #[serde(skip)]
    why: String,
}

impl<'a> Job<'a> {
    /// The builder of this machine. A job that only judges, and has no tools, gets the noted builder of the run.
    pub(super) fn builder_or_its_note(&self) -> Result<Box<dyn Builder + 'a>> {
        match self.builder() {
            Ok(builder) => Ok(builder),
            Err(error) if self.only == Some(Phase::Judge) => {
                match self.folder.read_note::<Elsewhere>(NOTE)? {
                    Some(elsewhere) => {
                        let why = crate::outcome::in_a_line(&error);
                        self.progress
                            .line(&format!("this machine can't build, but this phase needs no build: {why}"));
                        Ok(Box::new(Elsewhere { why, ..elsewhere }))
                    }
                    None => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Notes the builder, for phases that run on other machines.
    pub(super) fn note_builder(&self, builder: &dyn Builder) -> Result<()> {
        let note = Elsewhere { kind: builder.kind(), tools: builder.receipts(), why: String::new() };
        self.folder.write_note(NOTE, &note)
    }
}

impl Elsewhere {
    fn can_not<T>(&self) -> Result<T> {
        bail!(
            "this phase needs the build tools of the run: {}\n  next: run the earlier phases on the machine \
             that has these tools",
            self.why
        )
    }
}

impl Builder for Elsewhere {
    fn kind(&self) -> TargetKind {
        self.kind
    }

    fn build(&self, _: &BuildRequest) -> Result<Built> {
        self.can_not()
    }

    fn commands(&self, _: &BuildRequest) -> Result<Vec<String>> {
        self.can_not()
    }

    fn training_env(&self, _: &Path) -> Vec<(OsString, OsString)> {
        Vec::new()
    }

    fn profile_files(&self, _: &Built, raw: &Path) -> ProfileFiles {
        let kind = if self.kind == TargetKind::Gcc { ProfileKind::Gcov } else { ProfileKind::Llvm };
        ProfileFiles { kind, folder: raw.to_path_buf() }
    }

    fn merge(&self, _: &[(PathBuf, f64)]) -> Result<Merged> {
        self.can_not()
    }

    fn converter(&self) -> Result<Converter> {
        self.can_not()
    }

    fn prove_profile(&self, _: &Merged, _: &Built) -> Result<Proven> {
        self.can_not()
    }

    fn prove_applied(&self, _: &Built, _: &Built, _: &Proven) -> Result<ProfileApplied> {
        self.can_not()
    }

    fn receipts(&self) -> Vec<ToolReceipt> {
        self.tools.clone()
    }
}
