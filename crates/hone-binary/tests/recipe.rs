//! Compilers of C and C++ with their real tools, and what a link is really made of.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use hone_binary::Refusal;
use hone_binary::c_toolchain::{CToolchain, CToolchainRefusal, Tools};
use hone_binary::linkmap::{Coverage, LinkMap, Reason, coverage, link_of};
use hone_binary::sha256_hex;
use hone_binary::shim::{Action, Entry, Orders, act, read_log};
use hone_tool::{Call, Runner, System, ToolError};

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

    fn family(&self, name: &str) -> Option<CToolchain> {
        match CToolchain::find(&self.system, Some(name)) {
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

fn family_refusal(error: &anyhow::Error) -> &CToolchainRefusal {
    match error.downcast_ref() {
        Some(Refusal::CToolchain(refusal)) => refusal,
        _ => panic!("no refusal: {error:#}"),
    }
}

#[test]
fn tools_come_from_the_folder_where_the_compiler_really_is() {
    let bench = Bench::new();
    for major in [19, 22] {
        let Some(family) = bench.family(&format!("clang-{major}")) else { continue };
        let Tools::Llvm { lld, pads, profdata, runtime } = &family.tools else { panic!("{family:?}") };
        let folder = family.cc.parent().unwrap();
        assert_eq!((family.major, family.is_clang()), (major, true));
        assert_eq!(*pads, major >= 20, "padding came with 20");
        for tool in [lld, profdata, &family.ar, &family.ranlib, &family.nm, family.cxx.as_ref().unwrap()] {
            assert_eq!(tool.parent().unwrap(), folder, "{}", tool.display());
        }
        assert!(runtime.to_string_lossy().contains("libclang_rt.profile"));
        let versions: Vec<bool> =
            family.receipts.iter().map(|tool| tool.version.contains(&format!("{major}."))).collect();
        assert_eq!(versions, [true; 3], "{:?}", family.receipts);
    }
    if let Some(newest) = bench.family("clang-22") {
        assert!(CToolchain::find(&bench.system, None).unwrap().major >= newest.major);
    }
    let Some(gcc) = bench.family("gcc") else { return };
    let Tools::Gnu { gcov_tool, gcov } = &gcc.tools else { panic!("{gcc:?}") };
    let real = gcc.cc.file_name().unwrap().to_string_lossy().into_owned();
    for (path, name) in [(gcov_tool, "gcov-tool"), (gcov, "gcov"), (&gcc.ar, "gcc-ar")] {
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
    let error = CToolchain::find(&bench.system, Some(named.to_str().unwrap())).unwrap_err();
    let CToolchainRefusal::OtherVersion { tool, major: 22, next, .. } = family_refusal(&error) else {
        panic!("{error:#}")
    };
    let told = (bin.join("llvm-profdata").display().to_string(), "apt-get install llvm-22".to_owned());
    assert_eq!((tool, next), (&told.0, &told.1));

    // A tool that is missing next to it is not taken from PATH, where another version may be.
    let lone = bench.folder_of("lone", &[("clang", new.cc.as_path())]);
    let error = CToolchain::find(&bench.system, Some(lone.join("clang").to_str().unwrap())).unwrap_err();
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
    let error = CToolchain::find(&bench.system, Some(bin.join("clang").to_str().unwrap())).unwrap_err();
    let CToolchainRefusal::NoRuntime { package, .. } = family_refusal(&error) else { panic!("{error:#}") };
    assert_eq!(package, "libclang-rt-22-dev");

    symlink("/usr/bin/env", bench.path("ccache")).unwrap();
    let error = CToolchain::find(&bench.system, Some(bench.path("ccache").to_str().unwrap())).unwrap_err();
    assert!(matches!(family_refusal(&error), CToolchainRefusal::Unknown { .. }), "{error:#}");
}

/// A program of objects that saw the flags, one in an archive, one of assembly, one in an archive that was there before, one that
/// was compiled around the stand-ins, and one that was changed.
struct Toy<'a> {
    bench: &'a Bench,
    orders: Orders,
    real: PathBuf,
    began: SystemTime,
}

const TOY_MAIN: &str =
    "int twice(int); int asm_add(int); int lib_fn(int); int around(int); int own(int); int stripped(int);
int main(int c, char **v) { return twice(c) + asm_add(c) + lib_fn(c) + around(c) + own(c) + stripped(c); }\n";
const TOY_ASSEMBLY: &str = ".text\n.globl asm_add\n.type asm_add,@function\nasm_add:\n lea 1(%rdi),%eax\n ret\n\
    .size asm_add,.-asm_add\n.section .note.GNU-stack,\"\",@progbits\n";

impl<'a> Toy<'a> {
    fn new(bench: &'a Bench, family: &CToolchain, other: &CToolchain, flags: &[&str]) -> Self {
        let mut orders = Orders::new(family, bench.dir.path());
        orders.compile = ["-O2"].iter().chain(flags).map(|&flag| flag.to_owned()).collect();
        orders.link = flags.iter().map(|&flag| flag.to_owned()).collect();
        if let Tools::Llvm { lld, .. } = &family.tools {
            orders.link.push(format!("--ld-path={}", lld.display()));
        }
        orders.install(&bench.path("bin"), Path::new("/bin/false")).unwrap();
        fs::write(bench.path("main.c"), TOY_MAIN).unwrap();
        fs::write(bench.path("add.S"), TOY_ASSEMBLY).unwrap();
        for name in ["twice", "lib_fn", "around", "own", "stripped"] {
            let text =
                format!("int {name}(int x) {{ for (int i = 0; i < 3; i++) x ^= x << 3; return x; }}\n");
            fs::write(bench.path(&format!("{name}.c")), text).unwrap();
        }
        let toy = Self { bench, orders, real: other.cc.clone(), began: SystemTime::now() };
        toy.run(&toy.real, &["-O2", "-c", "lib_fn.c"]);
        toy.run(&family.ar, &["rcs", "libpre.a", "lib_fn.o"]);
        let before = toy.began - Duration::from_secs(3600);
        fs::File::options().write(true).open(bench.path("libpre.a")).unwrap().set_modified(before).unwrap();
        fs::remove_file(bench.path("lib_fn.o")).unwrap();
        toy.cc("-c main.c");
        toy.cc("-c twice.c");
        toy.cc("-c add.S");
        toy.cc("-c own.c -o own.o");
        toy.cc("-g -c stripped.c");
        toy.run(&family.ar, &["rcs", "libown.a", "own.o"]);
        fs::remove_file(bench.path("own.o")).unwrap();
        toy.run(&toy.real, &["-O2", "-c", "around.c"]);
        toy
    }

    fn run(&self, program: &Path, arguments: &[&str]) {
        self.bench.system.run(&Call::new("by-hand", program, self.bench.dir.path()).args(arguments)).unwrap();
    }

    /// By the stand-in.
    fn cc(&self, line: &str) {
        let arguments: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        assert_eq!(act(&self.orders, "cc", &arguments, self.bench.dir.path()).unwrap(), 0, "{line}");
    }

    fn log(&self) -> Vec<Entry> {
        read_log(&fs::read_to_string(&self.orders.log).unwrap()).unwrap()
    }

    fn coverage_of(&self, program: &str) -> Coverage {
        let log = self.log();
        let program = self.bench.path(program);
        let link = link_of(&log, &program, &sha256_hex(&fs::read(&program).unwrap())).unwrap();
        let map = LinkMap::parse(&fs::read_to_string(link.map.as_ref().unwrap()).unwrap()).unwrap();
        assert!(map.text.len() > 5, "{map:?}");
        let coverage = coverage(&map, link, &log, self.began);
        assert_eq!(coverage.text_bytes, map.text.values().sum::<u64>());
        let others: u64 = coverage.others.iter().map(|other| other.text_bytes).sum();
        assert_eq!(coverage.text_bytes, coverage.shaped_bytes + others);
        coverage
    }
}

fn reason<'a>(coverage: &'a Coverage, object: &str) -> Option<&'a Reason> {
    coverage.others.iter().find(|other| other.object.ends_with(object)).map(|other| &other.reason)
}

fn what_did_not_see_the_flags_is_named(compiler: &str, other: &str, other_says: &str) {
    let bench = Bench::new();
    let (Some(family), Some(other)) = (bench.family(compiler), bench.family(other)) else { return };
    let toy = Toy::new(&bench, &family, &other, &[]);
    toy.run(Path::new("/usr/bin/strip"), &["-g", "stripped.o"]);
    let rest = "add.o around.o stripped.o libpre.a libown.a";
    toy.cc(&format!("main.o twice.o {rest} -o prog"));
    toy.cc(&format!("main.c twice.c add.S {} -o one", &rest[6..]));
    toy.cc("-r -nostdlib main.o twice.o -o good.o");
    toy.cc("-r -nostdlib add.o around.o -o mixed.o");
    toy.cc("good.o mixed.o stripped.o libpre.a libown.a -o partial");
    toy.cc("-S twice.c");
    toy.cc("-c twice.s -o twice2.o");
    toy.cc(&format!("main.o twice2.o {rest} -o through-assembly"));

    for program in ["prog", "one", "through-assembly"] {
        let coverage = toy.coverage_of(program);
        let is_by = |by: &Option<String>| by.as_ref().is_some_and(|by| by.contains(other_says));
        let assembly: Vec<_> =
            coverage.others.iter().filter(|other| other.reason == Reason::Assembly).collect();
        assert_eq!(assembly.len(), 1, "{program}: {coverage:#?}");
        assert_eq!(assembly[0].text_bytes, 4);
        let Some(Reason::Prebuilt { by }) = reason(&coverage, "libpre.a(lib_fn.o)") else {
            panic!("{coverage:#?}")
        };
        assert!(is_by(by), "{coverage:#?}");
        let Some(Reason::OtherCompiler { by }) = reason(&coverage, "around.o") else {
            panic!("{coverage:#?}")
        };
        assert!(is_by(by), "{coverage:#?}");
        assert_eq!(reason(&coverage, "stripped.o"), Some(&Reason::Changed));
        for seen in ["libown.a(own.o)", "main.o", "twice.o", "twice2.o"] {
            assert_eq!(reason(&coverage, seen), None, "{program}: {coverage:#?}");
        }
        assert!(coverage.share() > 0.1 && coverage.share() < 0.8, "{coverage:#?}");
        let system = |object: &str| matches!(reason(&coverage, object), Some(Reason::Prebuilt { .. }));
        assert!(system("crt1.o"), "{coverage:#?}");
    }
    let partial = toy.coverage_of("partial");
    assert_eq!((reason(&partial, "good.o"), reason(&partial, "mixed.o")), (None, Some(&Reason::Mixed)));
}

#[test]
fn what_did_not_see_the_flags_is_named_with_clang_and_lld() {
    what_did_not_see_the_flags_is_named("clang-22", "gcc", "GCC: (");
}

#[test]
fn what_did_not_see_the_flags_is_named_with_gcc_and_ld() {
    what_did_not_see_the_flags_is_named("gcc", "clang-22", "clang version 22");
}

#[test]
fn what_the_linker_optimises_counts_when_all_of_it_saw_the_flags() {
    let bench = Bench::new();
    let (Some(clang), Some(gcc)) = (bench.family("clang-22"), bench.family("gcc")) else { return };
    let toy = Toy::new(&bench, &clang, &gcc, &["-flto=thin"]);
    toy.cc("main.o twice.o add.o around.o libpre.a libown.a stripped.c -o lto");
    let of_link_time =
        |coverage: &Coverage| coverage.others.iter().filter(|other| other.reason == Reason::LinkTime).count();
    let coverage = toy.coverage_of("lto");
    assert_eq!(of_link_time(&coverage), 0, "{coverage:#?}");
    assert!(coverage.shaped_bytes > 0);

    toy.run(&clang.cc, &["-O2", "-flto=thin", "-c", "around.c"]);
    toy.cc("main.o twice.o add.o around.o libpre.a libown.a stripped.c -o half");
    let coverage = toy.coverage_of("half");
    assert!(of_link_time(&coverage) > 0 && coverage.shaped_bytes == 0, "{coverage:#?}");
    let links = toy.log().iter().filter(|entry| entry.action == Action::CompileAndLink).count();
    assert_eq!(links, 2);
}
