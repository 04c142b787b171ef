//! A finished program: there is nothing to compile, and only BOLT can change it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use hone_record::{ProfileApplied, ToolReceipt};
use hone_tool::Call;

use crate::bolt::{Input, preflight};
use crate::build_request::BuildRequest;
use crate::builder::Builder;
use crate::built::{Built, How, Merged, Proven, refuse_other_counting};
use crate::capture::{ProfileFiles, ProfileKind};
use crate::elf::file_facts;
use crate::refusal::Refusal;
use crate::target_kind::TargetKind;

/// A finished program, copied for each variant.
pub struct GivenBinary {
    binary: PathBuf,
    work: PathBuf,
}

impl GivenBinary {
    /// Checks that the file is a program, and makes the work folder.
    ///
    /// # Errors
    /// Fails when the file does not exist or is not a program that BOLT supports; when the folder can't be made.
    pub fn prepare(binary: &Path, work: &Path) -> Result<Self> {
        let binary = binary
            .canonicalize()
            .with_context(|| format!("{} does not exist: name the finished program", binary.display()))?;
        preflight::anatomy(&binary)?;
        fs::create_dir_all(work).with_context(|| format!("{} can't be made", work.display()))?;
        Ok(Self { binary, work: work.canonicalize()? })
    }

    fn copy_of(&self, request: &BuildRequest) -> PathBuf {
        self.work.join(&request.variant).join(self.binary.file_name().unwrap_or_default())
    }

    fn copy_command(&self, request: &BuildRequest) -> String {
        let call = Call::new("copy", "install", "/").arg("-D").arg(&self.binary);
        call.arg(self.copy_of(request)).to_string()
    }
}

/// Steps that a finished program does not need.
fn no_counts<T>() -> Result<T> {
    let refusal = Refusal::Unfit {
        kind: TargetKind::Given,
        what: "a profile for a compiler",
        why: "there are no sources to compile",
        next: "use BOLT, which merges and verifies its profiles itself",
    };
    Err(refusal.into())
}

impl Builder for GivenBinary {
    fn kind(&self) -> TargetKind {
        TargetKind::Given
    }

    /// Copies and checks. If relocations were requested, the program must have them, and everything else that BOLT needs.
    fn build(&self, request: &BuildRequest) -> Result<Built> {
        self.fits(request)?;
        if request.relocs {
            Input::look(&self.binary)?;
        }
        let copy = self.copy_of(request);
        let folder = copy.parent().unwrap_or(&self.work);
        fs::create_dir_all(folder)
            .and_then(|()| fs::copy(&self.binary, &copy))
            .with_context(|| format!("{} can't be copied to {}", self.binary.display(), copy.display()))?;
        let built = Built {
            variant: request.variant.clone(),
            facts: file_facts(&copy)?,
            executable: copy,
            commands: vec![self.copy_command(request)],
            build_s: 0.0,
            fresh: true,
            stderr_paths: Vec::new(),
            how: How::Given,
        };
        refuse_other_counting(request, &built)?;
        Ok(built)
    }

    fn commands(&self, request: &BuildRequest) -> Result<Vec<String>> {
        self.fits(request)?;
        Ok(vec![self.copy_command(request)])
    }

    fn training_env(&self, _raw: &Path) -> Vec<(OsString, OsString)> {
        Vec::new()
    }

    fn profile_files(&self, _built: &Built, raw: &Path) -> ProfileFiles {
        ProfileFiles { kind: ProfileKind::Bolt, folder: raw.to_path_buf() }
    }

    fn merge(&self, _raw: &[(PathBuf, f64)]) -> Result<Merged> {
        no_counts()
    }

    fn prove_profile(&self, _merged: &Merged, _counting: &Built) -> Result<Proven> {
        no_counts()
    }

    fn prove_applied(&self, _shaped: &Built, _plain: &Built, _proven: &Proven) -> Result<ProfileApplied> {
        no_counts()
    }

    fn receipts(&self) -> Vec<ToolReceipt> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bolt::BoltRefusal;
    use crate::build_request::Guide;

    fn refusal<T>(result: Result<T>) -> Refusal {
        let error = result.err().expect("a refusal");
        error.downcast_ref().cloned().unwrap_or_else(|| panic!("{error:#}"))
    }

    #[test]
    fn a_finished_program_is_copied_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("program");
        // A real program without relocations.
        fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
        let shop = GivenBinary::prepare(&program, &dir.path().join("work")).unwrap();
        let built = shop.build(&BuildRequest::plain("baseline")).unwrap();
        assert_eq!(built.facts, file_facts(&program).unwrap());
        assert_eq!(built.executable, dir.path().canonicalize().unwrap().join("work/baseline/program"));
        assert_eq!((&built.how, built.build_s, built.fresh), (&How::Given, 0.0, true));
        assert_eq!(shop.commands(&BuildRequest::plain("baseline")).unwrap(), built.commands);
        let artifact = shop.artifact(&built, None);
        assert_eq!((artifact.sha256, artifact.profile), (built.facts.sha256.clone(), None));

        let counting = BuildRequest::plain("instrumented").guided(Guide::Generate);
        let Refusal::Unfit { next, .. } = refusal(shop.build(&counting)) else { panic!() };
        assert!(next.starts_with("use BOLT"), "{next}");
        assert!(matches!(refusal(shop.commands(&counting)), Refusal::Unfit { .. }));
        assert!(matches!(refusal(shop.merge(&[(dir.path().into(), 1.0)])), Refusal::Unfit { .. }));
        let relocs = refusal(shop.build(&BuildRequest::plain("relocs").with_relocs()));
        assert!(matches!(relocs, Refusal::Bolt(BoltRefusal::NoRelocations { .. })), "{relocs}");
    }

    #[test]
    fn what_is_no_program_is_told_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let text = dir.path().join("text");
        fs::write(&text, "no program").unwrap();
        let work = dir.path().join("work");
        let refused = refusal(GivenBinary::prepare(&text, &work));
        assert!(matches!(refused, Refusal::Bolt(BoltRefusal::NoProgram { .. })), "{refused}");
        let nowhere = GivenBinary::prepare(&dir.path().join("none"), &work).err().unwrap();
        assert!(nowhere.to_string().ends_with("does not exist: name the finished program"), "{nowhere}");
    }
}
