//! The compiler, and its tools.

use std::env;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use hone_record::ToolReceipt;
use hone_tool::{Call, LocatedTool, Runner, Tool, Version};

const CARGO: Tool<'static> = Tool::new("cargo", "HONE_CARGO").at_least(1, 70, 0);
const RUSTC: Tool<'static> = Tool::new("rustc", "HONE_RUSTC").at_least(1, 70, 0);
const PROFDATA: Tool<'static> = Tool::new("llvm-profdata", "HONE_LLVM_PROFDATA").rustup("llvm-tools");

/// A C compiler whose profiles the Rust compiler's tools can read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CCompiler {
    /// For C.
    pub clang: PathBuf,
    /// For C++, if present.
    pub clangxx: Option<PathBuf>,
}

/// A Rust toolchain with its profile tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolchain {
    /// Cargo of this toolchain.
    pub cargo: PathBuf,
    /// The compiler itself, never a proxy.
    pub rustc: PathBuf,
    /// The llvm-profdata that was built with this compiler.
    pub profdata: PathBuf,
    /// The host's target triple.
    pub host: String,
    /// Major version of the compiler's LLVM.
    pub llvm_major: u32,
    /// The C compiler, or the reason why there is none.
    pub c_compiler: Result<CCompiler, String>,
    /// The receipts of these tools.
    pub receipts: Vec<ToolReceipt>,
}

impl Toolchain {
    /// Finds the toolchain for `manifest_dir` (a `rust-toolchain.toml` there counts), its llvm-profdata, and a clang of the same LLVM
    /// version.
    ///
    /// # Errors
    /// Fails when cargo, rustc or llvm-profdata is missing, too old, or of another LLVM version, with the command that installs it. A
    /// missing clang is no error.
    pub fn find(runner: &dyn Runner, manifest_dir: &Path) -> Result<Self> {
        let proxy = match env::var_os("RUSTC").filter(|path| !path.is_empty()) {
            Some(path) => PathBuf::from(path),
            None => RUSTC.locate(&[])?.path().to_path_buf(),
        };
        let ask = |step: &str, args: &[&str]| -> Result<String> {
            Ok(runner.run(&Call::new(step, &proxy, manifest_dir).args(args))?.stdout_text()?)
        };
        let about = About::parse(&ask("ask-rustc-version", &["-vV"])?)
            .with_context(|| format!("{} -vV printed text that Hone can't parse", proxy.display()))?;
        let sysroot = PathBuf::from(ask("ask-rustc-sysroot", &["--print", "sysroot"])?.trim());
        let bin = [sysroot.join("bin")];
        let rustc = RUSTC.locate(&bin)?;
        let cargo = CARGO.locate(&bin)?;
        let profdata =
            PROFDATA.locate_beside(&[sysroot.join("lib/rustlib").join(&about.host).join("bin")])?;
        let mut receipts = vec![cargo.receipt()?, rustc.receipt()?];
        receipts.push(receipt_of_llvm(&profdata, about.llvm_major)?);
        let c_compiler = match find_clang(about.llvm_major) {
            Ok((compiler, receipt)) => {
                receipts.push(receipt);
                Ok(compiler)
            }
            Err(reason) => Err(format!("{reason:#}")),
        };
        Ok(Self {
            cargo: cargo.path().to_path_buf(),
            rustc: rustc.path().to_path_buf(),
            profdata: profdata.path().to_path_buf(),
            host: about.host,
            llvm_major: about.llvm_major,
            c_compiler,
            receipts,
        })
    }
}

/// Only tools that know the compiler's profile version can read raw profiles.
fn receipt_of_llvm(tool: &LocatedTool, llvm_major: u32) -> Result<ToolReceipt> {
    let receipt = tool.receipt()?;
    let major = Version::first_in(&receipt.version).map(|version| version.0);
    if major != Some(llvm_major) {
        bail!(
            "{} is \"{}\", but the Rust compiler uses LLVM {llvm_major}: the two can't exchange profiles\n  \
             next: install the {} of LLVM {llvm_major}",
            receipt.path,
            receipt.version,
            receipt.name
        );
    }
    Ok(receipt)
}

/// Names the compiler for C++ inside of Rust.
const CLANGXX: &str = "HONE_CLANGXX";

fn find_clang(llvm_major: u32) -> Result<(CCompiler, ToolReceipt)> {
    let (name, name_cxx) = (format!("clang-{llvm_major}"), format!("clang++-{llvm_major}"));
    let clang = Tool::new(&name, "HONE_CLANG").debian(&name).locate(&[])?;
    let receipt = receipt_of_llvm(&clang, llvm_major)?;
    let beside: Vec<PathBuf> = clang.path().parent().map(Path::to_path_buf).into_iter().collect();
    let clangxx = match Tool::new(&name_cxx, CLANGXX).locate_beside(&beside) {
        Ok(found) => Some(found),
        // An override for C++ must not be ignored.
        Err(error) if env::var_os(CLANGXX).is_some_and(|value| !value.is_empty()) => return Err(error.into()),
        Err(_) => None,
    };
    let compiler = CCompiler {
        clang: clang.path().to_path_buf(),
        clangxx: clangxx.map(|found| found.path().to_path_buf()),
    };
    Ok((compiler, receipt))
}

/// The two relevant facts of `rustc -vV`.
#[derive(Debug, PartialEq, Eq)]
struct About {
    host: String,
    llvm_major: u32,
}

impl About {
    fn parse(text: &str) -> Option<Self> {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let llvm = Version::first_in(field("LLVM version:")?)?;
        Some(Self { host: field("host:")?.to_owned(), llvm_major: llvm.0 })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_answer_makes_it_panic(text in "((host|LLVM version): ?|[0-9.]{0,30}|\n|x){0,20}") {
            let _ = About::parse(&text);
        }
    }

    #[test]
    fn rustc_tells_its_host_and_llvm() {
        let text = include_str!("../tests/fixtures/rustc-vV.txt");
        let about = About { host: "x86_64-unknown-linux-gnu".into(), llvm_major: 22 };
        assert_eq!(About::parse(text), Some(about));
        assert_eq!(About::parse("rustc 1.95.0\nhost: x\n"), None);
    }
}
