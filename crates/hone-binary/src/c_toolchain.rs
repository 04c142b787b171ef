//! Compilers of C and C++, each with its own tools.
//!
//! Tools exchange profiles in formats that change with each version, and the first `llvm-profdata` in PATH often belongs to another LLVM.
//! So Hone first finds the compiler and resolves its links to the real folder. Every other tool must be in that folder and report the same
//! version, before anything is built.

pub(crate) mod refusal;

use std::env;
use std::path::{Path, PathBuf};

use hone_record::ToolReceipt;
use hone_tool::{Call, LocatedTool, Origin, Runner, Tool, ToolError, Version};

use crate::layout::PADDING;
use crate::refusal::Refusal;
use refusal::CLANG_MAJORS;
pub use refusal::CToolchainRefusal;

/// The tools for a compiler's profiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Tools {
    /// Clang's.
    Llvm {
        /// The linker, `ld.lld`.
        lld: PathBuf,
        /// Whether it can pad functions by a seed, which moves functions that a profile orders.
        pads: bool,
        /// Merges and shows profiles.
        profdata: PathBuf,
        /// The library that instrumented programs are linked with.
        runtime: PathBuf,
    },
    /// GCC's.
    Gnu {
        /// Merges profiles.
        gcov_tool: PathBuf,
        /// Shows them with the names of functions.
        gcov: PathBuf,
    },
}

/// A compiler with the tools next to it, all of one version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CToolchain {
    /// The compiler for C, in its real folder.
    pub cc: PathBuf,
    /// The compiler for C++, if present.
    pub cxx: Option<PathBuf>,
    /// Makes archives; it understands the compiler's intermediate code.
    pub ar: PathBuf,
    /// Indexes them.
    pub ranlib: PathBuf,
    /// Lists symbols.
    pub nm: PathBuf,
    /// The tools for profiles.
    pub tools: Tools,
    /// Major version of the compiler.
    pub major: u32,
    /// The receipts of these tools.
    pub receipts: Vec<ToolReceipt>,
}

impl CToolchain {
    /// Finds the named compiler (`clang`, `clang-22`, `gcc`, `gcc-12`, or a path), or the newest clang with all of its tools.
    ///
    /// # Errors
    /// [`CToolchainRefusal`] inside of [`crate::Refusal`], or a [`ToolError`] when something is missing; both name the package.
    pub fn find(runner: &dyn Runner, named: Option<&str>) -> anyhow::Result<Self> {
        match named {
            Some(name) => Self::from_compiler(runner, &compiler_named(name)?, name),
            None => Self::newest_clang(runner),
        }
    }

    /// Whether it is clang.
    pub fn is_clang(&self) -> bool {
        matches!(self.tools, Tools::Llvm { .. })
    }

    fn newest_clang(runner: &dyn Runner) -> anyhow::Result<Self> {
        for (file, variable) in OF_CLANG.into_iter().filter(|(_, variable)| is_set(variable)) {
            // A variable that names no program is wrong for every clang.
            Tool::new(file, variable).locate_beside(&[])?;
        }
        let names = CLANG_MAJORS.rev().map(|major| format!("clang-{major}")).chain(["clang".to_owned()]);
        let (mut tried, mut is_of_a_version) = (Vec::new(), false);
        for name in names {
            let Ok(found) = compiler_named(&name) else { continue };
            match Self::from_compiler(runner, &found, &name) {
                Ok(toolchain) => return Ok(toolchain),
                Err(error) => {
                    tried.push(format!("{name}: {}", first_line(&format!("{error:#}"))));
                    is_of_a_version |= matches!(
                        error.downcast_ref(),
                        Some(Refusal::CToolchain(CToolchainRefusal::OtherVersion { .. }))
                    );
                }
            }
        }
        // A variable is not the reason for tools that are missing next to the compiler.
        let variables = tools_named();
        Err(refused(match variables.is_empty() || !is_of_a_version {
            true => CToolchainRefusal::NoneWhole { tried },
            false => CToolchainRefusal::NoneFits { variables: variables.join(" and "), tried },
        }))
    }

    fn from_compiler(runner: &dyn Runner, found: &LocatedTool, name: &str) -> anyhow::Result<Self> {
        let cc = found.path().canonicalize()?;
        let receipt = tool_at(&cc, name).receipt_of()?;
        match CompilerKind::parse(&receipt.version) {
            Some((CompilerKind::Clang, major)) if major < *CLANG_MAJORS.start() => {
                Err(refused(CToolchainRefusal::TooOld { name: name.to_owned(), major }))
            }
            Some((CompilerKind::Clang, major)) => clang_toolchain(runner, cc, major, receipt),
            Some((CompilerKind::Gcc, major)) => gcc_toolchain(cc, major, receipt),
            None => Err(refused(CToolchainRefusal::Unknown { name: name.to_owned(), says: receipt.version })),
        }
    }
}

/// Variables that replace tools of clang, and therefore affect which clang is the newest with all of its tools.
const OF_CLANG: [(&str, &str); 2] = [("ld.lld", "HONE_LLD"), ("llvm-profdata", "HONE_LLVM_PROFDATA")];

/// Those of them that are set.
pub fn tools_named() -> Vec<&'static str> {
    OF_CLANG.into_iter().map(|(_, variable)| variable).filter(|variable| is_set(variable)).collect()
}

/// The description for [`Tool`].
fn is_set(variable: &str) -> bool {
    env::var_os(variable).is_some_and(|value| !value.is_empty())
}

fn refused(refusal: CToolchainRefusal) -> anyhow::Error {
    Refusal::CToolchain(refusal).into()
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

/// The compiler by its name or path, before links are resolved.
fn compiler_named(name: &str) -> Result<LocatedTool, ToolError> {
    let path = Path::new(name);
    let package = path.file_name().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default();
    let tool = Tool::new(&package, "").debian(&package);
    if let Some(folder) = path.parent().filter(|folder| folder.is_absolute()) {
        return tool.locate_beside(&[folder.to_path_buf()]);
    }
    let first = tool.locate(&[])?;
    if !is_launcher(first.path()) {
        return Ok(first);
    }
    let folders = env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default();
    Ok(behind_launchers(&package, folders)
        .and_then(|folder| tool.locate_beside(&[folder]).ok())
        .unwrap_or(first))
}

/// The first folder in which a compiler of this name is the compiler itself, not a link to a compiler cache or a distributed build.
fn behind_launchers(name: &str, folders: Vec<PathBuf>) -> Option<PathBuf> {
    folders.into_iter().filter(|folder| folder.is_absolute()).find(|folder| {
        let path = folder.join(name);
        path.is_file() && !is_launcher(&path)
    })
}

/// Distributions put links to these first in PATH, under the names of compilers.
fn is_launcher(path: &Path) -> bool {
    let real = path.canonicalize().ok();
    let name = real.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    name.is_some_and(|name| ["ccache", "distcc", "icecc", "sccache"].contains(&name.as_str()))
}

/// A program with a known path.
struct At<'a> {
    folder: PathBuf,
    file: String,
    package: &'a str,
}

fn tool_at<'a>(path: &Path, package: &'a str) -> At<'a> {
    At {
        folder: path.parent().unwrap_or(Path::new("/")).to_path_buf(),
        file: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        package,
    }
}

impl At<'_> {
    fn locate(&self, variable: &str) -> Result<LocatedTool, ToolError> {
        Tool::new(&self.file, variable).debian(self.package).locate_beside(std::slice::from_ref(&self.folder))
    }

    fn receipt_of(&self) -> Result<ToolReceipt, ToolError> {
        self.locate("")?.receipt()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CompilerKind {
    Clang,
    Gcc,
}

impl CompilerKind {
    /// Kind and major version, from the line of `--version` with the number.
    fn parse(says: &str) -> Option<(Self, u32)> {
        if let Some((_, number)) = says.split_once("clang version ") {
            return Some((Self::Clang, Version::first_in(number)?.0));
        }
        // `gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0`: the first word is the name on the command line.
        let (name, rest) = says.split_once(" (")?;
        let known = ["gcc", "g++", "cc", "c++"];
        let parts: Vec<&str> = name.split('-').collect();
        let number = rest.split_once(')')?.1;
        parts.iter().any(|part| known.contains(part)).then_some(())?;
        Some((Self::Gcc, Version::first_in(number)?.0))
    }
}

/// A tool next to the compiler, of the same version.
fn member(
    cc: &Path,
    major: u32,
    file: &str,
    variable: &str,
    package: &str,
) -> anyhow::Result<(PathBuf, ToolReceipt)> {
    let found = tool_at(&cc.with_file_name(file), package).locate(variable)?;
    let receipt = found.receipt()?;
    if major_of(&receipt.version) != Some(major) {
        return Err(refused(CToolchainRefusal::OtherVersion {
            tool: receipt.path,
            says: receipt.version,
            compiler: cc.display().to_string(),
            major,
            next: match found.origin() {
                Origin::Override => format!("correct or unset {variable}, which names it"),
                Origin::Beside | Origin::Path => format!("apt-get install {package}"),
            },
        }));
    }
    Ok((found.path().to_path_buf(), receipt))
}

/// The version follows the packager's, if that is in parentheses: `gcov-tool (Debian 12.2.0-14) 12.2.0`. LLVM's tools have theirs before
/// it: `Debian LLD 22.1.8 (compatible with GNU linkers)`.
fn major_of(says: &str) -> Option<u32> {
    let behind = says.rsplit_once(')').and_then(|(_, rest)| Version::first_in(rest));
    behind.or_else(|| Version::first_in(says)).map(|version| version.0)
}

fn clang_toolchain(
    runner: &dyn Runner,
    cc: PathBuf,
    major: u32,
    receipt: ToolReceipt,
) -> anyhow::Result<CToolchain> {
    let llvm = format!("llvm-{major}");
    let (lld, lld_receipt) = member(&cc, major, "ld.lld", "HONE_LLD", &format!("lld-{major}"))?;
    let (profdata, profdata_receipt) = member(&cc, major, "llvm-profdata", "HONE_LLVM_PROFDATA", &llvm)?;
    let beside = |file: &str| tool_at(&cc.with_file_name(file), &llvm).locate("");
    let (ar, ranlib, nm) = (beside("llvm-ar")?, beside("llvm-ranlib")?, beside("llvm-nm")?);
    let cxx = tool_at(&cc.with_file_name("clang++"), "clang").locate("").ok();
    let runtime = profile_runtime(runner, &cc, major)?;
    Ok(CToolchain {
        cxx: cxx.map(|found| found.path().to_path_buf()),
        ar: ar.path().to_path_buf(),
        ranlib: ranlib.path().to_path_buf(),
        nm: nm.path().to_path_buf(),
        tools: Tools::Llvm { pads: pads(runner, &lld)?, lld, profdata, runtime },
        major,
        receipts: vec![receipt, lld_receipt, profdata_receipt],
        cc,
    })
}

/// Asks the linker itself, which prints its version only if it also knows the other flags.
fn pads(runner: &dyn Runner, lld: &Path) -> anyhow::Result<bool> {
    let call = Call::new("ask-padding", lld, "/").arg(format!("{PADDING}=1")).arg("--version");
    match runner.run(&call) {
        Ok(_) => Ok(true),
        Err(ToolError::Failed { .. }) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The compiler answers with a path if it has the library, and otherwise with the bare name. The machine is part of the library's name or
/// of the folder's.
fn profile_runtime(runner: &dyn Runner, cc: &Path, major: u32) -> anyhow::Result<PathBuf> {
    let mut looked = Vec::new();
    for name in
        ["libclang_rt.profile.a".to_owned(), format!("libclang_rt.profile-{}.a", std::env::consts::ARCH)]
    {
        let call = Call::new("ask-profile-runtime", cc, "/").arg(format!("-print-file-name={name}"));
        let answer = runner.run(&call)?.stdout_text()?.trim().to_owned();
        let path = PathBuf::from(&answer);
        if path.is_absolute() && path.metadata().is_ok_and(|file| file.is_file() && file.len() > 0) {
            return Ok(path);
        }
        looked.push(answer);
    }
    Err(refused(CToolchainRefusal::NoRuntime {
        compiler: cc.display().to_string(),
        looked: looked.join(", "),
        package: format!("libclang-rt-{major}-dev"),
    }))
}

fn gcc_toolchain(cc: PathBuf, major: u32, receipt: ToolReceipt) -> anyhow::Result<CToolchain> {
    let file = cc.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let package = format!("gcc-{major}");
    let (gcov_tool, tool_receipt) =
        member(&cc, major, &sibling(&file, "gcov-tool"), "HONE_GCOV_TOOL", &package)?;
    let (gcov, gcov_receipt) = member(&cc, major, &sibling(&file, "gcov"), "HONE_GCOV", &package)?;
    let beside = |name: &str| tool_at(&cc.with_file_name(sibling(&file, name)), &package).locate("");
    let (ar, ranlib, nm) = (beside("gcc-ar")?, beside("gcc-ranlib")?, beside("gcc-nm")?);
    Ok(CToolchain {
        cxx: beside("g++").ok().map(|found| found.path().to_path_buf()),
        ar: ar.path().to_path_buf(),
        ranlib: ranlib.path().to_path_buf(),
        nm: nm.path().to_path_buf(),
        tools: Tools::Gnu { gcov_tool, gcov },
        major,
        receipts: vec![receipt, tool_receipt, gcov_receipt],
        cc,
    })
}

/// `x86_64-linux-gnu-gcc-12` and `gcov-tool` make `x86_64-linux-gnu-gcov-tool-12`.
fn sibling(gcc: &str, tool: &str) -> String {
    match gcc.rfind("gcc").map(|at| gcc.split_at(at)) {
        Some((prefix, rest)) => format!("{prefix}{tool}{}", &rest[3..]),
        None => tool.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn compilers_are_known_by_what_they_say() {
        let check = |says, expected| assert_eq!(CompilerKind::parse(says), expected, "{says}");
        check("Debian clang version 22.1.8 (1~deb12u1)", Some((CompilerKind::Clang, 22)));
        check("clang version 19.1.7", Some((CompilerKind::Clang, 19)));
        check("Apple clang version 15.0.0 (clang-1500.3.9.4)", Some((CompilerKind::Clang, 15)));
        check("gcc (Debian 12.2.0-14+deb12u1) 12.2.0", Some((CompilerKind::Gcc, 12)));
        check("x86_64-linux-gnu-gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0", Some((CompilerKind::Gcc, 12)));
        check("gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3)", Some((CompilerKind::Gcc, 11)));
        check("ccache version 4.8", None);
        check("GNU ld (GNU Binutils for Debian) 2.40", None);
    }

    #[test]
    fn a_clang_that_does_not_know_the_options_is_refused_before_anything_is_built() {
        let dir = tempfile::tempdir().unwrap();
        let runner = hone_tool::System::new(dir.path().join("log")).unwrap();
        let find = |major: u32| {
            let clang = dir.path().join(format!("clang-{major}"));
            let text = format!("#!/bin/sh\necho Debian clang version {major}.0.6\n");
            std::fs::write(&clang, text).unwrap();
            let runs = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(&clang, runs).unwrap();
            CToolchain::find(&runner, clang.to_str()).unwrap_err()
        };
        let refusal = find(14);
        let known = refusal.downcast_ref();
        assert!(
            matches!(known, Some(Refusal::CToolchain(CToolchainRefusal::TooOld { major: 14, .. }))),
            "{refusal:#}"
        );
        assert!(refusal.to_string().contains("came with 15)"), "{refusal:#}");
        assert!(find(15).downcast_ref::<ToolError>().is_some(), "its linker is missed");
    }

    #[test]
    fn a_compiler_stands_behind_its_launchers() {
        let dir = tempfile::tempdir().unwrap();
        let folder = |name: &str| {
            let folder = dir.path().join(name);
            std::fs::create_dir(&folder).unwrap();
            folder
        };
        let (launchers, real, none) = (folder("launchers"), folder("real"), folder("none"));
        std::fs::write(real.join("ccache"), "").unwrap();
        std::fs::write(real.join("gcc"), "").unwrap();
        std::os::unix::fs::symlink(real.join("ccache"), launchers.join("gcc")).unwrap();
        let find = |folders: &[&PathBuf]| {
            behind_launchers("gcc", folders.iter().map(|&folder| folder.clone()).collect())
        };
        assert!(is_launcher(&launchers.join("gcc")) && !is_launcher(&real.join("gcc")));
        assert_eq!(find(&[&none, &launchers, &real]), Some(real.clone()));
        assert_eq!(find(&[&launchers]), None);
    }

    #[test]
    fn the_version_of_a_tool_is_not_that_of_its_package() {
        assert_eq!(major_of("gcov-tool (Debian 13.9-1) 12.2.0"), Some(12));
        assert_eq!(major_of("Debian LLD 22.1.8 (compatible with GNU linkers)"), Some(22));
        assert_eq!(major_of("Debian LLVM version 19.1.7"), Some(19));
        assert_eq!(major_of("none"), None);
    }

    #[test]
    fn siblings_keep_prefix_and_version() {
        assert_eq!(sibling("x86_64-linux-gnu-gcc-12", "gcov-tool"), "x86_64-linux-gnu-gcov-tool-12");
        assert_eq!(sibling("gcc", "g++"), "g++");
        assert_eq!(sibling("aarch64-gcc-13", "gcc-ar"), "aarch64-gcc-ar-13");
    }

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(text in "(clang version |gcc|-|\\(|\\)| |[0-9.]{0,9}|é){0,12}") {
            let _ = (CompilerKind::parse(&text), major_of(&text), sibling(&text, "g++"));
        }
    }
}
