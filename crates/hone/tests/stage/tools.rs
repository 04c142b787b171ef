//! Real tools, and the C++ server of the fixtures that they build.

use std::fs;
use std::path::{Path, PathBuf};

use hone_tool::{Call, Runner as _, System, Tool};

/// A missing tool is a printed skip, unless the environment says that every tool must be there.
#[expect(clippy::print_stderr, reason = "a test that does not run must say so")]
pub fn skip(reason: &str) {
    assert!(std::env::var_os("HONE_REQUIRE_TOOLS").is_none_or(|value| value != "1"), "{reason}");
    eprintln!("skipped: {reason}");
}

/// A tool by its name, looked for in these folders, too. `None` is a skip.
pub fn find_beside(name: &str, folders: &[PathBuf]) -> Option<PathBuf> {
    match Tool::new(name, "").locate(folders) {
        Ok(found) => Some(found.path().to_path_buf()),
        Err(error) => {
            skip(&error.to_string());
            None
        }
    }
}

/// A tool in PATH. `None` is a skip.
pub fn find(name: &str) -> Option<PathBuf> {
    find_beside(name, &[])
}

/// A path of the checkout.
pub fn of_checkout(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// The folders of the installed JDKs by their releases, the oldest first.
pub fn jdks() -> Vec<(u32, PathBuf)> {
    let release = |home: &Path| {
        let text = fs::read_to_string(home.join("release")).ok()?;
        let has_compiler = home.join("bin/javac").is_file();
        Some(hone_jvm::jdk::Jdk::from_release(&text)?.feature).filter(|_| has_compiler)
    };
    let homes = fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<(u32, PathBuf)> = homes.filter_map(|home| Some((release(&home)?, home))).collect();
    found.sort();
    found.dedup_by_key(|(feature, _)| *feature);
    found
}

/// A folder for runs of `hone optimize` on the C++ server.
pub struct Workbench {
    pub dir: tempfile::TempDir,
    pub system: System,
    pub clang: PathBuf,
}

impl Workbench {
    /// With the server compiled as `driver`, which loads and asks another one. `None` when a tool is missing.
    pub fn new() -> Option<Self> {
        let clang = find("clang++-22")?;
        for name in ["llvm-bolt-22", "ld.lld-22", "llvm-profdata-22", "make"] {
            find(name)?;
        }
        let dir = tempfile::tempdir().unwrap();
        let system = System::new(dir.path().join("log")).unwrap();
        let bench = Self { dir, system, clang };
        bench.compile(&of_checkout("fixtures/server/server.cpp"), "driver", &["-O1", "-pthread"]);
        Some(bench)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn compile(&self, source: &Path, name: &str, flags: &[&str]) {
        let output = self.path(name);
        let call = Call::new("compile", &self.clang, self.dir.path()).args(flags.iter().copied());
        self.system.run(&call.arg(source).arg("-o").arg(&output).produces(&output)).unwrap();
    }

    /// The server's sources with a makefile.
    pub fn tree(&self) {
        fs::create_dir_all(self.path("tree")).unwrap();
        fs::copy(of_checkout("fixtures/server/server.cpp"), self.path("tree/server.cpp")).unwrap();
        let makefile = "server: server.cpp\n\t$(CXX) -O2 -pthread -o $@ $<\n";
        fs::write(self.path("tree/Makefile"), makefile).unwrap();
    }
}
