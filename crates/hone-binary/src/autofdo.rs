//! Converts branch records into clang's sample profile, by the compiler's own tool or by Google's.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use hone_tool::{Call, Runner, Tool, ToolError};

use crate::c_toolchain::CToolchain;
use crate::format_detect::ProfileForm;
use crate::perf::{PerfRefusal, with_perf};
use crate::refusal::Refusal;

/// A large program takes minutes.
const LIMIT: Duration = Duration::from_secs(3600);

/// The converter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Converter {
    /// `llvm-profgen` of the compiler's LLVM.
    Profgen(PathBuf),
    /// `create_llvm_prof` of the project autofdo.
    CreateLlvmProf(PathBuf),
}

impl Converter {
    /// The compiler's own one; the other one if that is missing.
    ///
    /// # Errors
    /// Fails when both are missing; the error names the package.
    pub(crate) fn beside(toolchain: &CToolchain) -> Result<Self> {
        let package = format!("llvm-{}", toolchain.major);
        let folder = toolchain.cc.parent().unwrap_or(Path::new("/")).to_path_buf();
        match Tool::new("llvm-profgen", "").debian(&package).locate_beside(&[folder]) {
            Ok(found) => Ok(Self::Profgen(found.path().to_path_buf())),
            Err(missing) => match Tool::new("create_llvm_prof", "HONE_CREATE_LLVM_PROF").locate(&[]) {
                Ok(found) => Ok(Self::CreateLlvmProf(found.path().to_path_buf())),
                Err(_) => Err(missing.into()),
            },
        }
    }

    /// Converts perf's data, or the output of `perf script`. Returns the command, ready to paste.
    ///
    /// # Errors
    /// [`PerfRefusal::NoBranches`] for data without branch records; also fails when the tool fails or writes nothing.
    pub fn convert(&self, runner: &dyn Runner, data: &Path, program: &Path, into: &Path) -> Result<String> {
        if let Err(error) = fs::remove_file(into)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(error).with_context(|| format!("{} can't be removed", into.display()));
        }
        let is_text = ProfileForm::detect(data) != Ok(ProfileForm::Perf);
        let links = tempfile::tempdir_in(into.parent().unwrap_or(Path::new("/")))?;
        let call = self.call(data, is_text, program, into);
        let call = if is_text { call } else { with_perf(call, links.path())? };
        let finished = runner.run(&call).map_err(lacking_branches)?;
        if into.metadata().map_or(0, |facts| facts.len()) == 0 {
            let said =
                finished.stderr_text()?.lines().next().unwrap_or("its converter printed nothing").to_owned();
            return Err(Refusal::from(PerfRefusal::NoBranches { said }).into());
        }
        Ok(call.to_string())
    }

    /// The command for perf's data.
    pub fn plan(&self, data: &Path, program: &Path, into: &Path) -> String {
        self.call(data, false, program, into).to_string()
    }

    fn call(&self, data: &Path, is_text: bool, program: &Path, into: &Path) -> Call {
        let folder = into.parent().unwrap_or(Path::new("/"));
        let (name, tool, input, output) = match self {
            Self::Profgen(tool) if is_text => ("llvm-profgen", tool, "--perfscript", "--output"),
            Self::Profgen(tool) => ("llvm-profgen", tool, "--perfdata", "--output"),
            Self::CreateLlvmProf(tool) => ("create_llvm_prof", tool, "--profile", "--out"),
        };
        let flag = |name: &str, path: &Path| {
            let mut word = OsString::from(format!("{name}="));
            word.push(path);
            word
        };
        Call::new(name, tool, folder)
            .arg(flag("--binary", program))
            .arg(flag(input, data))
            .arg(flag(output, into))
            .limit(LIMIT)
    }
}

/// `llvm-profgen` calls data without branch stacks invalid.
fn lacking_branches(error: ToolError) -> anyhow::Error {
    match &error {
        ToolError::Failed { scene, .. } => {
            let said = scene.stderr.iter().find(|line| line.contains("Invalid perf script input"));
            match said {
                Some(said) => {
                    let said = format!("llvm-profgen reports \"{}\"", said.trim());
                    Refusal::from(PerfRefusal::NoBranches { said }).into()
                }
                None => error.into(),
            }
        }
        _ => error.into(),
    }
}
