//! Compilers of C and C++ with their real tools, and what a link is really made of.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use hone_binary::Refusal;
use hone_binary::family::{Family, FamilyRefusal, Tools};
use hone_tool::{System, ToolError};

/// A missing tool is a printed skip, unless the environment says that every tool must be there.
#[expect(clippy::print_stderr, reason = "a test that does not run must say so")]
fn skip(reason: &str) {
    assert!(std::env::var_os("HONE_REQUIRE_TOOLS").is_none_or(|value| value != "1"), "{reason}");
    eprintln!("skipped: {reason}");
}

struct Bench {
    dir: tempfile::TempDir,
    system: System,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let system = System::new(dir.path().join("log")).unwrap();
        Self { dir, system }
    }

    fn family(&self, name: &str) -> Option<Family> {
        match Family::find(&self.system, Some(name)) {
            Ok(family) => Some(family),
            Err(error) => {
                skip(&format!("{error:#}"));
                None
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A folder with links to some of a family's tools.
    fn folder_of(&self, name: &str, tools: &[(&str, &Path)]) -> PathBuf {
        let bin = self.path(name);
        fs::create_dir_all(&bin).unwrap();
        for (tool, real) in tools {
            // A copy of a script that calls the tool: a link would lead back to the real folder.
            let script = format!("#!/bin/sh\nexec {} \"$@\"\n", real.display());
            fs::write(bin.join(tool), script).unwrap();
            fs::set_permissions(bin.join(tool), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        }
        bin
    }
}

fn family_refusal(error: &anyhow::Error) -> &FamilyRefusal {
    match error.downcast_ref() {
        Some(Refusal::Family(refusal)) => refusal,
        _ => panic!("no refusal: {error:#}"),
    }
}

#[test]
fn tools_come_from_the_folder_where_the_compiler_really_is() {
    let bench = Bench::new();
    for major in [19, 22] {
        let Some(family) = bench.family(&format!("clang-{major}")) else { continue };
        let Tools::Llvm { lld, profdata, runtime } = &family.tools else { panic!("{family:?}") };
        let folder = family.cc.parent().unwrap();
        assert_eq!((family.major, family.is_clang()), (major, true));
        for tool in [lld, profdata, &family.ar, &family.ranlib, &family.nm, family.cxx.as_ref().unwrap()] {
            assert_eq!(tool.parent().unwrap(), folder, "{}", tool.display());
        }
        assert!(runtime.to_string_lossy().contains("libclang_rt.profile"));
        let versions: Vec<bool> =
            family.receipts.iter().map(|tool| tool.version.contains(&format!("{major}."))).collect();
        assert_eq!(versions, [true; 3], "{:?}", family.receipts);
    }
    if let Some(newest) = bench.family("clang-22") {
        assert!(Family::find(&bench.system, None).unwrap().major >= newest.major);
    }
    let Some(gcc) = bench.family("gcc") else { return };
    let Tools::Gnu { gcov_tool, gcov_dump } = &gcc.tools else { panic!("{gcc:?}") };
    let real = gcc.cc.file_name().unwrap().to_string_lossy().into_owned();
    for (path, name) in [(gcov_tool, "gcov-tool"), (gcov_dump, "gcov-dump"), (&gcc.ar, "gcc-ar")] {
        assert_eq!(path.file_name().unwrap().to_string_lossy(), real.replacen("gcc", name, 1));
    }
}

#[test]
fn a_compiler_with_the_tools_of_another_version_is_refused_before_the_first_build() {
    let bench = Bench::new();
    let (Some(new), Some(old)) = (bench.family("clang-22"), bench.family("clang-19")) else { return };
    let Tools::Llvm { lld, .. } = &new.tools else { panic!("{new:?}") };
    let Tools::Llvm { profdata: old_profdata, .. } = &old.tools else { panic!("{old:?}") };
    let mixed = [("clang", new.cc.as_path()), ("ld.lld", lld), ("llvm-profdata", old_profdata)];
    let bin = bench.folder_of("mixed", &mixed);
    let named = bin.join("clang");
    let error = Family::find(&bench.system, Some(named.to_str().unwrap())).unwrap_err();
    let FamilyRefusal::OtherVersion { tool, major: 22, package, .. } = family_refusal(&error) else {
        panic!("{error:#}")
    };
    assert_eq!((tool.as_str(), package.as_str()), (bin.join("llvm-profdata").to_str().unwrap(), "llvm-22"));

    // What is missing beside it is not taken from PATH, where another one may be.
    let lone = bench.folder_of("lone", &[("clang", new.cc.as_path())]);
    let error = Family::find(&bench.system, Some(lone.join("clang").to_str().unwrap())).unwrap_err();
    let Some(ToolError::NotFound { name, next, .. }) = error.downcast_ref() else { panic!("{error:#}") };
    assert!(name == "ld.lld" && next.contains("apt-get install lld-22"), "{error:#}");
}

#[test]
fn a_compiler_without_its_profile_runtime_and_what_is_no_compiler_are_refused() {
    let bench = Bench::new();
    let Some(new) = bench.family("clang-22") else { return };
    let Tools::Llvm { lld, profdata, .. } = &new.tools else { panic!("{new:?}") };
    let tools = [
        ("ld.lld", lld),
        ("llvm-profdata", profdata),
        ("llvm-ar", &new.ar),
        ("llvm-ranlib", &new.ranlib),
        ("llvm-nm", &new.nm),
    ];
    let bin = bench.folder_of("bare", &tools.map(|(name, path)| (name, path.as_path())));
    let script = format!(
        "#!/bin/sh\ncase \"$1\" in -print-file-name=*) echo \"${{1#-print-file-name=}}\" ;; *) exec {} \"$@\" ;; esac\n",
        new.cc.display()
    );
    fs::write(bin.join("clang"), script).unwrap();
    fs::set_permissions(bin.join("clang"), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let error = Family::find(&bench.system, Some(bin.join("clang").to_str().unwrap())).unwrap_err();
    let FamilyRefusal::NoRuntime { package, .. } = family_refusal(&error) else { panic!("{error:#}") };
    assert_eq!(package, "libclang-rt-22-dev");

    symlink("/usr/bin/env", bench.path("ccache")).unwrap();
    let error = Family::find(&bench.system, Some(bench.path("ccache").to_str().unwrap())).unwrap_err();
    assert!(matches!(family_refusal(&error), FamilyRefusal::Unknown { .. }), "{error:#}");
}
