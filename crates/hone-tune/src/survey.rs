//! Finds what can be optimised in a folder: its build systems and the programs that they make, read from their files. It builds
//! nothing and uses no network. The only program that it runs is `cargo metadata`, since only Cargo can resolve the patterns of a
//! workspace.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_binary::cargo_programs;
use hone_tool::Runner;

/// Limits: the number of files that are read, and the size that is read of each.
const MOST_FILES: usize = 4_000;
const MOST_BYTES: u64 = 512 * 1024;
/// Deeper folders do not hold the start of a build.
const DEEPEST: usize = 6;

/// Folders that are skipped.
const PASSED_OVER: [&str; 9] = [
    "target",
    "vendor",
    "node_modules",
    "third_party",
    "third-party",
    "testdata",
    "CMakeFiles",
    "runs",
    "hone-build",
];
/// Words in a program's name or folder that make it unlikely to be the one that users run.
const AGAINST: [&str; 9] = ["test", "example", "demo", "bench", "fuzz", "tool", "sample", "doc", "contrib"];
/// Source patterns of a program that waits for connections, in C and C++, Go and Rust.
const LISTENS: [&str; 8] = [
    "listen(",
    "accept4(",
    "net.Listen",
    "ListenAndServe",
    "TcpListener",
    "UnixListener",
    "axum::serve",
    "HttpServer::new",
];
/// Source patterns of a program that speaks HTTP.
const SPEAKS_HTTP: [&str; 6] = ["\"net/http\"", "HTTP/1.1", "hyper::", "axum::", "actix_web", "nghttp2"];
/// Source pattern of a Go program that serves profiles.
const SERVES_PPROF: &str = "\"net/http/pprof\"";

/// A way to build.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `Cargo.toml`.
    Cargo,
    /// `go.mod`.
    Go,
    /// `CMakeLists.txt`.
    CMake,
    /// `meson.build`.
    Meson,
    /// `Makefile`.
    Make,
    /// A program that exists already.
    Elf,
}

impl Kind {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cargo => "Cargo",
            Self::Go => "a Go module",
            Self::CMake => "CMake",
            Self::Meson => "Meson",
            Self::Make => "make",
            Self::Elf => "a linked program",
        }
    }
}

/// A program that can be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Its name for people.
    pub name: String,
    /// With Cargo its package, otherwise the folder (relative to the tree) whose file names it.
    pub home: String,
}

/// A build system that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The build system.
    pub kind: Kind,
    /// The file that identifies it, relative to the tree.
    pub file: PathBuf,
    /// The most likely one first.
    pub programs: Vec<Program>,
    /// With make: the command that must run before it.
    pub before: Vec<String>,
}

/// Findings in the sources of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Signs {
    /// It waits for connections.
    pub listens: bool,
    /// It speaks HTTP.
    pub http: bool,
    /// It serves Go's profiles.
    pub pprof: bool,
}

/// A tree that was examined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Survey {
    /// Absolute.
    pub folder: PathBuf,
    /// The project's name, from its own files.
    pub name: String,
    /// Never empty; the first one is the default.
    pub found: Vec<Found>,
    pub(crate) signs: Signs,
}

/// Examines a folder, or a linked program.
///
/// # Errors
/// When it holds nothing that Hone can build. The error says what to do.
pub fn survey(runner: &dyn Runner, path: &Path) -> Result<Survey> {
    let path = path.canonicalize().with_context(|| format!("{} does not exist", path.display()))?;
    if path.is_file() {
        return of_program(&path);
    }
    let tree = Tree::read(&path)?;
    let mut found = Vec::new();
    if tree.has("Cargo.toml") {
        found.push(cargo(runner, &path)?);
    }
    found.extend([go(&tree), cmake(&tree), meson(&tree), make(&tree)].into_iter().flatten());
    let name = path.file_name().map_or("target".into(), |name| name.to_string_lossy());
    if found.is_empty() {
        found.extend(linked_programs(&path));
    }
    if found.is_empty() {
        bail!("{}", nothing(&path, &tree));
    }
    Ok(Survey { name: plain(&name), folder: path, found, signs: tree.signs })
}

fn nothing(path: &Path, tree: &Tree) -> String {
    let looked = "Cargo.toml, go.mod, CMakeLists.txt, meson.build, configure, a makefile or a linked program";
    let next = if ["MODULE.bazel", "WORKSPACE", "WORKSPACE.bazel"].iter().any(|file| tree.has(file)) {
        "this is a Bazel workspace: docs/bazel.md explains how to write the file"
    } else {
        "name the folder of a source tree, or a linked program; for any other build system write `build = \
         [\"command\", ...]` in a hone.toml, see docs/formats.md"
    };
    format!("no {looked} in {}\n  next: {next}", path.display())
}

fn of_program(path: &Path) -> Result<Survey> {
    if !is_program(path) {
        bail!(
            "{} is not a linked program (ELF)\n  next: name the folder of a source tree, or a linked program",
            path.display()
        );
    }
    let folder = path.parent().unwrap_or(Path::new("/")).to_path_buf();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let program = Program { name: name.clone(), home: String::new() };
    let found =
        Found { kind: Kind::Elf, file: PathBuf::from(&name), programs: vec![program], before: Vec::new() };
    let signs = Signs { listens: true, ..Signs::default() };
    Ok(Survey { folder, name: plain(&name), found: vec![found], signs })
}

/// An ELF file of a type that can be started.
fn is_program(path: &Path) -> bool {
    let mut head = [0_u8; 18];
    // Opening a named pipe would block until another process writes to it.
    if !fs::metadata(path).is_ok_and(|about| about.is_file()) {
        return false;
    }
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut head));
    // Little-endian, 64 bits; ET_EXEC or ET_DYN, which shared libraries have, too.
    read.is_ok() && head.starts_with(b"\x7fELF\x02\x01") && [[2, 0], [3, 0]].contains(&[head[16], head[17]])
}

fn linked_programs(folder: &Path) -> Option<Found> {
    let entries = fs::read_dir(folder).ok()?.flatten();
    let files = entries.filter(|entry| is_program(&entry.path()));
    let names = files.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let programs = names.filter(|name| !name.contains(".so")).map(|name| (name, String::new()));
    let programs = ranked(programs.collect(), "");
    let file = PathBuf::from(&programs.first()?.name);
    Some(Found { kind: Kind::Elf, file, programs, before: Vec::new() })
}

/// A name that is valid as a folder name: the experiment's.
fn plain(name: &str) -> String {
    let letters = name.chars().map(|letter| match letter {
        letter if letter.is_ascii_alphanumeric() || "._-".contains(letter) => letter,
        _ => '-',
    });
    let name: String = letters.collect();
    let name = name.trim_start_matches('.');
    if name.is_empty() { "target".to_owned() } else { name.to_owned() }
}

/// The files of a tree that matter here, with the beginning of their text.
struct Tree {
    /// By their paths relative to the tree, shallow ones first. Of source files only the matching patterns are kept.
    files: Vec<(PathBuf, String)>,
    signs: Signs,
}

impl Tree {
    fn read(folder: &Path) -> Result<Self> {
        let mut tree = Self { files: Vec::new(), signs: Signs::default() };
        let mut folders = vec![PathBuf::new()];
        while !folders.is_empty() && tree.files.len() < MOST_FILES {
            let mut below = Vec::new();
            for relative in folders {
                let entries = fs::read_dir(folder.join(&relative));
                // An unreadable file below the tree can't be built either. An unreadable tree itself is an
                // error.
                let entries = match entries {
                    Ok(entries) => entries,
                    Err(_) if !relative.as_os_str().is_empty() => continue,
                    Err(error) => {
                        return Err(error).with_context(|| format!("{} can't be read", folder.display()));
                    }
                };
                tree.take(folder, &relative, entries.flatten().collect(), &mut below);
            }
            folders = below;
        }
        Ok(tree)
    }

    fn take(&mut self, folder: &Path, at: &Path, mut entries: Vec<fs::DirEntry>, below: &mut Vec<PathBuf>) {
        entries.sort_by_key(fs::DirEntry::file_name);
        for entry in entries {
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = at.join(&name);
            let kind = entry.file_type();
            if kind.as_ref().is_ok_and(fs::FileType::is_dir) {
                let passed = name.starts_with('.') || PASSED_OVER.contains(&name.as_str());
                // A module inside of another module is separate.
                let other = folder.join(&path).join("go.mod").exists();
                if !passed && !other && path.components().count() <= DEEPEST {
                    below.push(path);
                }
            } else if kind.is_ok_and(|kind| kind.is_file()) && speaks(&name) && self.files.len() < MOST_FILES
            {
                let mut text = beginning(&folder.join(&path));
                if is_code(&path) {
                    self.see(&path, &text);
                    // Programs of Go are found by the contents of their files.
                    if path.extension().is_none_or(|end| end != "go") {
                        text = String::new();
                    }
                }
                self.files.push((path, text));
            }
        }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.files.iter().find(|(path, _)| path == Path::new(name)).map(|(_, text)| text.as_str())
    }

    fn has(&self, name: &str) -> bool {
        self.text(name).is_some()
    }

    /// The files with this name, each with its folder.
    fn named<'a>(&'a self, names: &'a [&str]) -> impl Iterator<Item = (String, &'a str)> {
        let is =
            move |path: &Path| path.file_name().is_some_and(|name| names.iter().any(|known| name == *known));
        self.files.iter().filter(move |(path, _)| is(path)).map(|(path, text)| (home_of(path), text.as_str()))
    }

    /// The findings of a source file about its program.
    fn see(&mut self, path: &Path, text: &str) {
        if is_aside(&home_of(path)) {
            return;
        }
        let says = |words: &[&str]| words.iter().any(|word| text.contains(word));
        self.signs.listens |= says(&LISTENS);
        self.signs.http |= says(&SPEAKS_HTTP);
        self.signs.pprof |= says(&[SERVES_PPROF]);
    }
}

fn home_of(path: &Path) -> String {
    path.parent().unwrap_or(Path::new("")).display().to_string()
}

/// Whether a file's text is kept.
fn speaks(name: &str) -> bool {
    const FILES: [&str; 13] = [
        "Cargo.toml",
        "go.mod",
        "CMakeLists.txt",
        "meson.build",
        "configure",
        "configure.ac",
        "Makefile",
        "makefile",
        "GNUmakefile",
        "Makefile.am",
        "MODULE.bazel",
        "WORKSPACE",
        "WORKSPACE.bazel",
    ];
    FILES.contains(&name) || is_code(Path::new(name))
}

fn is_code(path: &Path) -> bool {
    let end = path.extension().and_then(|end| end.to_str()).unwrap_or_default();
    ["c", "cc", "cpp", "cxx", "go", "rs"].contains(&end)
}

fn is_aside(home: &str) -> bool {
    Path::new(home)
        .components()
        .any(|part| AGAINST.iter().any(|word| part.as_os_str().to_string_lossy().starts_with(word)))
}

fn beginning(path: &Path) -> String {
    let mut bytes = Vec::new();
    if let Ok(file) = fs::File::open(path) {
        // A file that can't be read is ignored.
        let _ = file.take(MOST_BYTES).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Sorts programs by likelihood: first those named like the project, then those without an unlikely word, then in the files'
/// order.
fn ranked(programs: Vec<(String, String)>, project: &str) -> Vec<Program> {
    let mut all: Vec<Program> = Vec::new();
    for program in programs.into_iter().map(|(name, home)| Program { name, home }) {
        if !all.contains(&program) {
            all.push(program);
        }
    }
    let against =
        |program: &Program| is_aside(&program.home) || AGAINST.iter().any(|word| program.name.contains(word));
    all.sort_by_key(|program| (against(program), program.name != project));
    all
}

fn cargo(runner: &dyn Runner, folder: &Path) -> Result<Found> {
    let mut programs = cargo_programs(runner, folder)?;
    programs.sort_by_key(|found| {
        let place = found.folder.strip_prefix(folder).unwrap_or(Path::new("")).display().to_string();
        let aside = is_aside(&place) || AGAINST.iter().any(|word| found.bin.contains(word));
        (!found.is_default, aside)
    });
    let programs =
        programs.into_iter().map(|found| Program { name: found.bin, home: found.package }).collect();
    Ok(Found { kind: Kind::Cargo, file: "Cargo.toml".into(), programs, before: Vec::new() })
}

/// A folder with a file of `package main` that has `func main`, and that this system builds.
fn go(tree: &Tree) -> Option<Found> {
    let module = tree.text("go.mod")?;
    let module = module.lines().find_map(|line| line.strip_prefix("module ")).unwrap_or_default().trim();
    let own = module.rsplit('/').next().unwrap_or_default();
    let is_main = |path: &Path, text: &str| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let lines = || text.lines().map(str::trim_end);
        name.ends_with(".go")
            && !name.ends_with("_test.go")
            && !lines().any(|line| line == "//go:build ignore" || line == "// +build ignore")
            && lines().any(|line| line == "package main")
            && lines().any(|line| line.starts_with("func main()"))
    };
    let mains = tree.files.iter().filter(|(path, text)| is_main(path, text)).map(|(path, _)| home_of(path));
    let programs = mains.map(|home| {
        let last = Path::new(&home).file_name().map(|name| name.to_string_lossy().into_owned());
        (last.unwrap_or_else(|| own.to_owned()), home)
    });
    let programs = ranked(programs.collect(), own);
    Some(Found { kind: Kind::Go, file: "go.mod".into(), programs, before: Vec::new() })
}

/// The words between the parentheses of each call of a command, in the text of a CMakeLists.txt or a meson.build.
fn calls<'a>(text: &'a str, command: &'a str) -> impl Iterator<Item = &'a str> {
    let lower = text.to_ascii_lowercase();
    let starts: Vec<usize> = lower.match_indices(command).map(|(at, _)| at).collect();
    starts.into_iter().filter_map(move |at| {
        let free = !text[..at].ends_with(|before: char| before.is_ascii_alphanumeric() || before == '_');
        let line = text[..at].rsplit('\n').next().unwrap_or_default();
        let rest = text[at + command.len()..].trim_start().strip_prefix('(')?;
        let inside = rest.split_once(')')?.0;
        (free && !line.contains('#')).then_some(inside)
    })
}

fn cmake(tree: &Tree) -> Option<Found> {
    let root = tree.text("CMakeLists.txt")?;
    let project = calls(root, "project").find_map(|inside| inside.split_whitespace().next());
    let project = project.unwrap_or_default();
    let mut programs = Vec::new();
    for (home, text) in tree.named(&["CMakeLists.txt"]) {
        for inside in calls(text, "add_executable") {
            let mut words = inside.split_whitespace();
            let name = words.next().unwrap_or_default().trim_matches('"');
            let name = name.replace("${PROJECT_NAME}", project).replace("${CMAKE_PROJECT_NAME}", project);
            let elsewhere = words.next().is_some_and(|word| ["IMPORTED", "ALIAS"].contains(&word));
            if !name.is_empty() && !name.contains('$') && !elsewhere {
                programs.push((name, home.clone()));
            }
        }
    }
    let programs = ranked(programs, project);
    Some(Found { kind: Kind::CMake, file: "CMakeLists.txt".into(), programs, before: Vec::new() })
}

/// The first argument of a call in a meson.build, if it is a word.
fn quoted(inside: &str) -> Option<&str> {
    let rest = inside.trim_start().strip_prefix('\'')?;
    Some(rest.split_once('\'')?.0)
}

fn meson(tree: &Tree) -> Option<Found> {
    let root = tree.text("meson.build")?;
    let project = calls(root, "project").find_map(quoted).unwrap_or_default();
    let mut programs = Vec::new();
    for (home, text) in tree.named(&["meson.build"]) {
        let names = calls(text, "executable").filter_map(quoted);
        programs.extend(names.map(|name| (name.to_owned(), home.clone())));
    }
    let programs = ranked(programs, project);
    Some(Found { kind: Kind::Meson, file: "meson.build".into(), programs, before: Vec::new() })
}

const MAKEFILES: [&str; 4] = ["GNUmakefile", "makefile", "Makefile", "Makefile.am"];

fn make(tree: &Tree) -> Option<Found> {
    let known = ["configure", "configure.ac"].into_iter().chain(MAKEFILES);
    let file = known.into_iter().find(|file| tree.has(file))?;
    let before = match file {
        "configure" => vec!["./configure".to_owned()],
        "configure.ac" => vec!["autoreconf -fi".to_owned(), "./configure".to_owned()],
        _ => Vec::new(),
    };
    let mut programs = Vec::new();
    for (home, text) in tree.named(&MAKEFILES) {
        programs.extend(made(text).into_iter().map(|name| (name, home.clone())));
    }
    Some(Found { kind: Kind::Make, file: file.into(), programs: ranked(programs, ""), before })
}

/// Programs that a makefile names in the usual variables. A name is cut off where it continues with a variable, as in
/// `redis-server$(SUFFIX)`.
fn made(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    for line in text.lines() {
        let Some((variable, value)) = line.split_once('=') else { continue };
        let variable = variable.trim_end_matches(['+', '?', ':']).trim();
        let programs = ["bin_PROGRAMS", "sbin_PROGRAMS", "libexec_PROGRAMS"].contains(&variable);
        let one = ["PROG", "PROGRAM", "TARGET", "BIN", "BINARY", "EXE", "EXECUTABLE"].contains(&variable)
            || ["_SERVER_NAME", "_PROG_NAME", "_BIN_NAME", "_EXE_NAME"]
                .iter()
                .any(|end| variable.ends_with(end));
        if !programs && !one {
            continue;
        }
        let words = value.split_whitespace().take_while(|word| !word.starts_with('#') && *word != "\\");
        let words = words.map(|word| word.split('$').next().unwrap_or_default());
        let is_name = |word: &&str| {
            let letters = |letter: char| letter.is_ascii_alphanumeric() || "._-/".contains(letter);
            word.starts_with(|first: char| first.is_ascii_alphanumeric()) && word.chars().all(letters)
        };
        names.extend(words.filter(is_name).map(str::to_owned));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_tool::System;

    /// Examines a tree with these files.
    fn look(files: &[(&str, &str)]) -> Result<Survey> {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("my tree");
        fs::create_dir(&tree).unwrap();
        for (path, text) in files {
            let path = tree.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        survey(&System::new(folder.path().join("log")).unwrap(), &tree)
    }

    fn programs(found: &Found) -> Vec<(&str, &str)> {
        found.programs.iter().map(|program| (program.name.as_str(), program.home.as_str())).collect()
    }

    #[test]
    fn programs_of_cmake_come_with_their_folders_and_the_likeliest_first() {
        let root = "cmake_minimum_required(VERSION 3.10)\nproject(flow C)\n# add_executable(old x.c)\n\
            add_subdirectory(src)\nmy_add_executable(no x.c)\nadd_executable(${other} x.c)\nadd_executable(sys IMPORTED)\n";
        let src = "add_executable(flow_test t.c)\nadd_executable(helper h.c)\nADD_EXECUTABLE (\n  ${PROJECT_NAME}\n  m.c)\n";
        let code = "int main() { listen(3, 1); }";
        let files = [
            ("CMakeLists.txt", root),
            ("src/CMakeLists.txt", src),
            ("src/m.c", code),
            ("third_party/CMakeLists.txt", src),
        ];
        let seen = look(&files).unwrap();
        assert_eq!(seen.name, "my-tree");
        assert_eq!(programs(&seen.found[0]), [("flow", "src"), ("helper", "src"), ("flow_test", "src")]);
        assert_eq!(seen.signs, Signs { listens: true, http: false, pprof: false });
    }

    #[test]
    fn programs_of_meson_go_and_make_are_read() {
        let meson =
            "project('flow', 'c')\nexecutable('flowd', 'a.c')\nexecutable(name, 'b.c')\nsubdir('x')\n";
        let seen = look(&[("meson.build", meson), ("x/meson.build", "executable('xd','x.c')")]).unwrap();
        assert_eq!(programs(&seen.found[0]), [("flowd", ""), ("xd", "x")]);

        let main = "package main\n\nimport _ \"net/http/pprof\"\n\nfunc main() {}\n";
        let ignored = "//go:build ignore\n\npackage main\n\nfunc main() {}\n";
        let files = [
            ("go.mod", "module example.org/flowd\n\ngo 1.21\n"),
            ("gen.go", ignored),
            ("cmd/server/main.go", main),
            ("cmd/server/main_test.go", main),
            ("internal/x/x.go", "package x\n"),
            ("other/go.mod", "module other\n"),
            ("other/main.go", main),
            ("testdata/main.go", main),
        ];
        let seen = look(&files).unwrap();
        assert_eq!(programs(&seen.found[0]), [("server", "cmd/server")]);
        assert!(seen.signs.pprof && !seen.signs.listens);

        let makefile =
            "PREFIX=/usr\nREDIS_SERVER_NAME=redis-server$(PROG_SUFFIX)\nTARGET := $(OUT)\nBIN ?= tool # x\n";
        let seen = look(&[("Makefile", "all:\n\tcd src && make\n"), ("src/Makefile", makefile)]).unwrap();
        let expected = [("redis-server", "src"), ("tool", "src")];
        assert_eq!(programs(&seen.found[0]), expected);
        assert!(seen.found[0].before.is_empty());
        let seen = look(&[("configure.ac", ""), ("Makefile.am", "bin_PROGRAMS = flowd\n")]).unwrap();
        assert_eq!(seen.found[0].before, ["autoreconf -fi", "./configure"]);
        assert_eq!(programs(&seen.found[0]), [("flowd", "")]);
    }

    #[test]
    fn the_first_of_several_build_systems_is_used_and_the_others_are_told() {
        let seen = look(&[
            ("CMakeLists.txt", "project(a)\nadd_executable(a a.c)\n"),
            ("configure", "#!/bin/sh\n"),
            ("Makefile", ""),
        ]);
        let kinds: Vec<Kind> = seen.unwrap().found.iter().map(|found| found.kind).collect();
        assert_eq!(kinds, [Kind::CMake, Kind::Make]);
    }

    #[test]
    fn where_nothing_can_be_built_it_says_what_to_do() {
        let error = look(&[("readme", "")]).unwrap_err().to_string();
        assert!(error.contains("no Cargo.toml, go.mod, ") && error.contains("build = ["), "{error}");
        let error = look(&[("MODULE.bazel", "")]).unwrap_err().to_string();
        assert!(error.contains("docs/bazel.md"), "{error}");
    }

    #[test]
    fn no_piece_of_a_file_makes_it_panic() {
        let whole = "project('é', x)\nadd_executable(${É} a)\nexecutable('a(b', 'c')\nPROG=é$(x) ./é #\nbin_PROGRAMS = -x é/\n";
        let bounds: Vec<usize> = whole.char_indices().map(|(at, _)| at).chain([whole.len()]).collect();
        for (&from, &to) in bounds.iter().flat_map(|from| bounds.iter().map(move |to| (from, to))) {
            let piece = whole.get(from..to).unwrap_or_default();
            let piece = format!("{piece}{}", piece.replace('(', "'").replace(')', "("));
            for command in ["project", "add_executable", "executable"] {
                assert!(calls(&piece, command).filter_map(quoted).all(|word| piece.contains(word)));
            }
            let _ = (made(&piece), plain(&piece));
        }
    }

    #[test]
    fn names_become_names_of_folders() {
        for (name, expected) in
            [("a b/c", "a-b-c"), (".hidden", "hidden"), ("...", "target"), ("ok-1.2_x", "ok-1.2_x")]
        {
            assert_eq!(plain(name), expected);
        }
    }
}
