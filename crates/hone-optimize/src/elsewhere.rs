//! A builder whose tools are not on this machine. Who only judges builds nothing: the run knows which tools there were.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use hone_binary::capture::{ProfileFiles, ProfileKind};
use hone_binary::{BuildRequest, Builder, Built, Converter, Merged, Proven, TargetKind};
use hone_record::{ProfileApplied, ToolReceipt};
use serde::{Deserialize, Serialize};

use crate::job::Job;
use hone_experiment::phase::Phase;

/// Who built the variants of a run.
const NOTE: &str = "workshop.json";

#[derive(Debug, Serialize, Deserialize)]
struct Elsewhere {
    kind: TargetKind,
    tools: Vec<ToolReceipt>,
    /// Why it is not here.
    #[serde(skip)]
    why: String,
}

impl<'a> Job<'a> {
    /// The builder of this machine; for who only judges, and has none, the one that the run was built by.
    pub(super) fn builder_or_its_note(&self) -> Result<Box<dyn Builder + 'a>> {
        match self.builder() {
            Ok(builder) => Ok(builder),
            Err(error) if self.only == Some(Phase::Judge) => {
                match self.folder.read_note::<Elsewhere>(NOTE)? {
                    Some(elsewhere) => {
                        let why = crate::outcome::in_a_line(&error);
                        self.progress
                            .line(&format!("nothing can be built here, and nothing has to be: {why}"));
                        Ok(Box::new(Elsewhere { why, ..elsewhere }))
                    }
                    None => Err(error),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Notes who builds, for phases that are carried out elsewhere.
    pub(super) fn note_builder(&self, builder: &dyn Builder) -> Result<()> {
        let note = Elsewhere { kind: builder.kind(), tools: builder.receipts(), why: String::new() };
        self.folder.write_note(NOTE, &note)
    }
}

impl Elsewhere {
    fn can_not<T>(&self) -> Result<T> {
        bail!(
            "this needs the tools that the run was begun with: {}\n  next: carry out the phases before on the machine that has them",
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
