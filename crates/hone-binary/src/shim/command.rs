//! Parses the command line of a C or C++ compiler. Pure: files are read through a closure.
//!
//! gcc and clang share the form: options, some of which take the next word, and inputs. Without `-c`, `-S` or `-E` they link.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

/// Limit of nested response files.
const RESPONSE_DEPTH: usize = 10;

/// Limit of the words from all response files together; a command line of the kernel's limit has fewer.
const RESPONSE_WORDS: usize = 1_000_000;

/// Options that take the next word if they have no value.
const TAKE_NEXT: [&str; 65] = [
    "-o",
    "--output",
    "--include",
    "-x",
    "-I",
    "-L",
    "-D",
    "-U",
    "-l",
    "-T",
    "-u",
    "-z",
    "-e",
    "-A",
    "-G",
    "-B",
    "-F",
    "-include",
    "-imacros",
    "-isystem",
    "-iquote",
    "-idirafter",
    "-iprefix",
    "-iwithprefix",
    "-iwithprefixbefore",
    "-isysroot",
    "-imultilib",
    "-imultiarch",
    "-iframework",
    "-ivfsoverlay",
    "-include-pch",
    "-cxx-isystem",
    "-stdlib++-isystem",
    "-MF",
    "-MT",
    "-MQ",
    "-MJ",
    "-Xlinker",
    "-Xassembler",
    "-Xpreprocessor",
    "-Xclang",
    "-Xcuda-ptxas",
    "-Xopenmp-target",
    "-Xanalyzer",
    "-mllvm",
    "-arch",
    "-target",
    "-wrapper",
    "-aux-info",
    "-param",
    "--param",
    "--sysroot",
    "-dumpdir",
    "-dumpbase",
    "-dumpbase-ext",
    "-framework",
    "-resource-dir",
    "-working-directory",
    "-serialize-diagnostics",
    "--serialize-diagnostics",
    "-Tbss",
    "-Tdata",
    "-Ttext",
    "-index-store-path",
    "--include-directory",
];

/// The action of an invocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Action {
    /// It answers a question, or only checks.
    Query,
    /// It runs the preprocessor, or lists dependencies.
    Preprocess,
    /// It makes objects, assembly or a precompiled header from sources.
    Compile,
    /// It makes objects from assembly only.
    Assemble,
    /// It links objects to a program or a library.
    Link,
    /// It links objects to another object (`-r`).
    LinkObject,
    /// It makes a program or a library from sources in one step.
    CompileAndLink,
}

impl Action {
    /// Whether the compiler proper runs in it.
    pub fn compiles(self) -> bool {
        matches!(self, Self::Compile | Self::CompileAndLink)
    }

    /// Whether the result is a program or a library.
    pub fn links(self) -> bool {
        matches!(self, Self::Link | Self::CompileAndLink)
    }
}

/// The kind of a file on a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Language {
    /// A source for the compiler proper.
    Source,
    /// A header to be compiled before it is used.
    Header,
    /// Assembly, preprocessed or not.
    Assembly,
    /// Anything else goes to the linker.
    Object,
}

/// A file on a command line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Input {
    /// As written there.
    pub path: PathBuf,
    /// What it is.
    pub language: Language,
}

/// A parsed command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// Its action.
    pub action: Action,
    /// Whether it is a test of a configure script.
    pub probe: bool,
    /// Files, in their order.
    pub inputs: Vec<Input>,
    /// The value of `-o`.
    pub output: Option<PathBuf>,
    /// A link map that it requests itself.
    pub map: Option<PathBuf>,
    /// Whether it requests assembly (`-S`).
    assembly: bool,
    /// Whether it links something other than a program of this machine with the usual start-up files.
    apart: bool,
}

impl Command {
    /// Parses the arguments of a compiler (without its name) that works in `cwd`; response files must be expanded before (see [`spread`]).
    pub fn parse(arguments: &[String], cwd: &Path) -> Self {
        let mut reader = Reader::default();
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            if reader.inputs_only || !word.starts_with('-') || word == "-" {
                reader.input(word);
            } else if TAKE_NEXT.contains(&word.as_str()) {
                reader.pair(word, words.next().map_or("", String::as_str));
            } else {
                reader.option(word);
            }
        }
        let action = reader.action();
        let probe = is_probe(&reader.inputs, reader.output.as_deref(), cwd);
        Self {
            action,
            probe,
            inputs: reader.inputs,
            output: reader.output,
            map: reader.map,
            assembly: reader.assembly,
            apart: reader.apart,
        }
    }

    /// Whether the result is a program that starts like programs of this machine: not a library, nothing without start-up files, and
    /// nothing for another machine.
    pub fn links_program(&self) -> bool {
        self.action.links() && !self.apart
    }

    /// Its output files, as far as the arguments name them; relative ones are in its working directory.
    pub fn outputs(&self) -> Vec<PathBuf> {
        if let Some(output) = &self.output {
            return vec![output.clone()];
        }
        match self.action {
            Action::Query | Action::Preprocess => Vec::new(),
            Action::Link | Action::CompileAndLink | Action::LinkObject => vec![PathBuf::from("a.out")],
            Action::Compile | Action::Assemble => {
                self.compiled().filter_map(|input| self.named_after(input)).collect()
            }
        }
    }

    /// The inputs that do not go straight to the linker.
    pub fn compiled(&self) -> impl Iterator<Item = &Input> {
        self.inputs.iter().filter(|input| input.language != Language::Object)
    }

    /// Whether the compiler proper has something to do; assembly alone uses none of its flags, and clang warns about them.
    pub fn compiles_source(&self) -> bool {
        self.action.compiles() && self.compiled().any(|input| input.language != Language::Assembly)
    }

    fn named_after(&self, input: &Input) -> Option<PathBuf> {
        if input.language == Language::Header {
            let mut name = input.path.clone().into_os_string();
            name.push(".gch");
            return Some(PathBuf::from(name));
        }
        let extension = if self.assembly { "s" } else { "o" };
        Some(PathBuf::from(input.path.file_name()?).with_extension(extension))
    }
}

#[derive(Default)]
struct Reader {
    inputs: Vec<Input>,
    output: Option<PathBuf>,
    map: Option<PathBuf>,
    language: Option<Language>,
    /// After `--`.
    inputs_only: bool,
    /// A word for the linker that waits for the next one, as in `-Wl,-Map,FILE`.
    map_follows: bool,
    query: bool,
    preprocess: bool,
    assembly: bool,
    object: bool,
    relocatable: bool,
    apart: bool,
}

impl Reader {
    fn input(&mut self, word: &str) {
        let language = self.language.unwrap_or_else(|| language_of(word));
        self.inputs.push(Input { path: PathBuf::from(word), language });
    }

    fn pair(&mut self, option: &str, value: &str) {
        match option {
            "-o" | "--output" => self.output = Some(PathBuf::from(value)),
            "-x" => self.language = language_named(value),
            "-Xlinker" => self.linker_word(value),
            "-target" | "-arch" => self.apart = true,
            _ => {}
        }
    }

    fn option(&mut self, word: &str) {
        match word {
            "--" => self.inputs_only = true,
            "-E" | "-M" | "-MM" => self.preprocess = true,
            "-S" => self.assembly = true,
            "-c" | "--compile" => self.object = true,
            "-r" => self.relocatable = true,
            "-shared" | "--shared" | "-nostdlib" | "-nostartfiles" | "-m32" | "-mx32" | "-m16"
            | "-ffreestanding" => {
                self.apart = true;
            }
            "-fsyntax-only" | "-###" | "--version" | "--help" | "-dumpversion" | "-dumpfullversion"
            | "-dumpmachine" | "-dumpspecs" => self.query = true,
            _ => self.long_option(word),
        }
    }

    fn long_option(&mut self, word: &str) {
        if word.starts_with("--target=") {
            self.apart = true;
        } else if word.starts_with("-print-") || word.starts_with("--print-") || word.starts_with("--help=") {
            self.query = true;
        } else if let Some(name) = word.strip_prefix("-o") {
            // `-object...` and similar are options of other systems, which no one uses for ELF.
            self.output = Some(PathBuf::from(name));
        } else if let Some(name) = word.strip_prefix("-x") {
            self.language = language_named(name);
        } else if let Some(list) = word.strip_prefix("-Wl,") {
            list.split(',').for_each(|word| self.linker_word(word));
        }
    }

    fn linker_word(&mut self, word: &str) {
        if std::mem::take(&mut self.map_follows) {
            self.map = Some(PathBuf::from(word));
            return;
        }
        match word {
            "-Map" | "--Map" => self.map_follows = true,
            "-r" | "--relocatable" | "-i" => self.relocatable = true,
            "-shared" | "--shared" | "-Bshareable" => self.apart = true,
            _ => {
                let name = word.strip_prefix("-Map=").or_else(|| word.strip_prefix("--Map="));
                self.map = name.map(PathBuf::from).or_else(|| self.map.take());
            }
        }
    }

    fn action(&self) -> Action {
        let has = |language| self.inputs.iter().any(|input| input.language == language);
        let sources = has(Language::Source) || has(Language::Header);
        if self.query || self.inputs.is_empty() {
            Action::Query
        } else if self.preprocess {
            Action::Preprocess
        } else if self.assembly || self.object || has(Language::Header) {
            if sources { Action::Compile } else { Action::Assemble }
        } else if self.relocatable && !sources {
            Action::LinkObject
        } else if sources || has(Language::Assembly) {
            Action::CompileAndLink
        } else {
            Action::Link
        }
    }
}

fn language_named(name: &str) -> Option<Language> {
    match name {
        "none" => None,
        "assembler" | "assembler-with-cpp" => Some(Language::Assembly),
        name if name.ends_with("-header") => Some(Language::Header),
        _ => Some(Language::Source),
    }
}

/// By the extensions that gcc and clang document; unknown ones go to the linker.
fn language_of(name: &str) -> Language {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    match extension {
        "s" | "S" | "sx" => Language::Assembly,
        "c" | "i" | "ii" | "cc" | "cp" | "cxx" | "cpp" | "CPP" | "c++" | "C" | "m" | "mi" | "mm" | "M"
        | "mii" | "cppm" | "ixx" | "ll" | "bc" | "f" | "for" | "F" | "f90" | "F90" | "f95" | "f03"
        | "f08" | "d" | "adb" | "ads" | "go" => Language::Source,
        "h" | "hh" | "H" | "hp" | "hxx" | "hpp" | "HPP" | "h++" | "tcc" => Language::Header,
        _ => Language::Object,
    }
}

/// Autoconf names its tests `conftest`, nginx `autotest`; CMake, Meson, FFmpeg and QEMU make theirs in separate folders. A call without
/// input or output only tests the compiler's abilities.
fn is_probe(inputs: &[Input], output: Option<&Path>, cwd: &Path) -> bool {
    let of_a_script = |path: &Path| {
        path.file_stem().is_some_and(|stem| {
            let stem = stem.to_string_lossy();
            stem.starts_with("conftest") || stem == "autotest"
        }) || path == Path::new("/dev/null")
    };
    let trial_folder = |part: Component<'_>| {
        let name = part.as_os_str().to_string_lossy();
        ["CMakeScratch", "CMakeTmp", "meson-private", "config-temp"].contains(&name.as_ref())
            || ["CompilerId", "ffconf."].iter().any(|start| name.starts_with(start))
    };
    let files = || inputs.iter().map(|input| input.path.as_path()).chain(output);
    files().any(of_a_script) || files().chain([cwd]).any(|path| path.components().any(trial_folder))
}

/// Replaces response files (`@FILE`) by their contents, as the compilers do. Blanks separate words, quotes and backslashes keep them
/// together, and an unreadable file leaves the word unchanged.
pub fn spread(arguments: &[String], read: &mut dyn FnMut(&Path) -> Option<String>) -> Vec<String> {
    let mut words = Vec::new();
    spread_into(arguments, read, RESPONSE_DEPTH, &mut words);
    words
}

fn spread_into(
    arguments: &[String],
    read: &mut dyn FnMut(&Path) -> Option<String>,
    depth: usize,
    words: &mut Vec<String>,
) {
    for word in arguments {
        let text = word.strip_prefix('@').filter(|_| depth > 0 && words.len() < RESPONSE_WORDS);
        match text.and_then(|name| read(Path::new(name))) {
            Some(text) => spread_into(&words_of(&text), read, depth - 1, words),
            None => words.push(word.clone()),
        }
    }
}

/// The words of a response file.
fn words_of(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\\', _) => word.get_or_insert_default().extend(letters.next()),
            (_, Some(open)) if letter == open => quote = None,
            (_, Some(_)) => word.get_or_insert_default().push(letter),
            ('"' | '\'', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (_, None) if letter.is_whitespace() => words.extend(word.take()),
            (_, None) => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

/// Options whose next word is an output file, or its name in another file.
const WRITTEN: [&str; 6] = ["-o", "-MF", "-MT", "-MQ", "-MJ", "--output"];

/// Options that name an input, possibly in the same word.
const READ: [&str; 7] = ["-I", "-isystem", "-iquote", "-idirafter", "-include", "-imacros", ""];

/// The arguments with relative paths of files and folders inside a tree, from the compiler's working directory.
///
/// clang's profiles identify a file-local function by the file's path as given, and gcc's counts refer to lines of a file with that path:
/// in the next copy of the sources, both are lost unless the path is the same there.
pub(super) fn from_within(arguments: &[OsString], tree: &Path, cwd: &Path) -> Vec<OsString> {
    if tree.as_os_str().is_empty() || !cwd.starts_with(tree) {
        return arguments.to_vec();
    }
    let mut is_written = false;
    let mut named = Vec::new();
    for word in arguments {
        let keep = std::mem::replace(&mut is_written, WRITTEN.iter().any(|option| word == option));
        let found = word.to_str().filter(|_| !keep).and_then(|word| {
            READ.iter().find_map(|option| {
                let path = Path::new(word.strip_prefix(option)?);
                let inside = path.starts_with(tree).then(|| relative(path, cwd))?;
                Some(OsString::from(format!("{option}{}", inside.display())))
            })
        });
        named.push(found.unwrap_or_else(|| word.clone()));
    }
    named
}

/// The relative path from a folder; both are absolute.
fn relative(path: &Path, folder: &Path) -> PathBuf {
    let same = path.components().zip(folder.components()).take_while(|(a, b)| a == b).count();
    let up = folder.components().skip(same).map(|_| Component::ParentDir);
    let way: PathBuf = up.chain(path.components().skip(same)).collect();
    if way.as_os_str().is_empty() { PathBuf::from(".") } else { way }
}

/// The arguments without certain words. A word stands for itself; `OPTION,VALUE` for a value after its option, and `-Wl,VALUE` also for one
/// among others for the linker.
pub(super) fn without(arguments: &[OsString], left_out: &[String]) -> Vec<OsString> {
    let is_out = |word: &str| left_out.iter().any(|left| left == word);
    let is_out_behind = |option: &str, value: &str| {
        let option = if option == "-Xlinker" { "-Wl" } else { option };
        is_out(&format!("{option},{}", value.split('=').next().unwrap_or(value)))
    };
    let mut kept = Vec::new();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let text = word.to_string_lossy();
        if word == "--" {
            kept.push(word.clone());
            break;
        }
        if TAKE_NEXT.contains(&text.as_ref()) {
            let value = words.next();
            if !value.is_some_and(|value| is_out_behind(&text, &value.to_string_lossy())) {
                kept.extend([word].into_iter().chain(value).cloned());
            }
        } else if let Some(list) = word.to_str().and_then(|word| word.strip_prefix("-Wl,")) {
            let rest: Vec<&str> = list.split(',').filter(|part| !is_out_behind("-Wl", part)).collect();
            if rest.len() == list.split(',').count() {
                kept.push(word.clone());
            } else if !rest.is_empty() {
                kept.push(OsString::from(format!("-Wl,{}", rest.join(","))));
            }
        } else if !is_out(&text) {
            kept.push(word.clone());
        }
    }
    kept.extend(words.cloned());
    kept
}

/// The arguments with additional ones at the end, but before a `--`.
pub fn with_flags(arguments: &[OsString], flags: &[String]) -> Vec<OsString> {
    let end = arguments.iter().position(|word| word == "--").unwrap_or(arguments.len());
    let (front, back) = arguments.split_at(end);
    front.iter().cloned().chain(flags.iter().map(OsString::from)).chain(back.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn command(line: &str) -> Command {
        Command::parse(&words_of(line), Path::new("/src/build"))
    }

    #[test]
    fn words_are_left_out_with_their_options() {
        let left_out = ["-w", "-Wl,--x", "-Xclang,-w", "-mllvm,-no-y"].map(str::to_owned);
        let check = |line: &str, expected: &str| {
            let words: Vec<OsString> = words_of(line).iter().map(OsString::from).collect();
            let kept = without(&words, &left_out);
            let kept: Vec<_> = kept.iter().map(|word| word.to_string_lossy()).collect();
            assert_eq!(kept.join(" "), expected);
        };
        check("-O2 -w -c a.c", "-O2 -c a.c");
        check("-Xclang -w -c a.c", "-c a.c");
        check("-Xclang -v -I -w -c a.c", "-Xclang -v -I -w -c a.c");
        check("-mllvm -no-y=true -mllvm -z a.c", "-mllvm -z a.c");
        check("-Wl,-O1,--x -Wl,--x -Wl,--y,z -Xlinker --x a.o", "-Wl,-O1 -Wl,--y,z a.o");
        check("-c -- -w", "-c -- -w");
        check("-o", "-o");
    }

    #[test]
    fn what_is_read_from_the_tree_is_named_from_within() {
        let check = |line: &str, cwd: &str, expected: &str| {
            let words: Vec<OsString> = words_of(line).iter().map(OsString::from).collect();
            let named = from_within(&words, Path::new("/w/copy"), Path::new(cwd));
            let named: Vec<_> = named.iter().map(|word| word.to_string_lossy()).collect();
            assert_eq!(named.join(" "), expected);
        };
        let line = "-I/w/copy/include -I/w/copy -isystem /w/copy/x/y -I/usr/include -MT /w/copy/b/a.o -o /w/copy/b/a.o -c /w/copy/src/a.c";
        let expected = "-I../include -I.. -isystem ../x/y -I/usr/include -MT /w/copy/b/a.o -o /w/copy/b/a.o -c ../src/a.c";
        check(line, "/w/copy/b", expected);
        check("-I/w/copy/b -c /w/copy/b/a.c", "/w/copy/b", "-I. -c a.c");
        check(line, "/w/copy2/b", line);
        check("-c /w/copy2/a.c -DX=/w/copy/a", "/w/copy/b", "-c /w/copy2/a.c -DX=/w/copy/a");
        assert_eq!(from_within(&["/a".into()], Path::new(""), Path::new("/")), ["/a"]);
    }

    #[test]
    fn what_an_invocation_does_is_read_from_its_arguments() {
        let check = |line, action| assert_eq!(command(line).action, action, "{line}");
        for line in [
            "",
            "-v",
            "--version",
            "-dumpversion",
            "-print-search-dirs",
            "-dumpmachine",
            "-### a.c",
            "-fsyntax-only a.c",
        ] {
            check(line, Action::Query);
        }
        for line in ["-E -", "-E -dM -x c /dev/null", "-M a.c", "-MM a.c -o a.d", "-c -E a.c"] {
            check(line, Action::Preprocess);
        }
        for line in [
            "-c a.c",
            "-MMD -MF a.d -c a.cpp -o a.o",
            "-S a.c",
            "-x c -c -",
            "-c a.c b.S",
            "a.h",
            "-x c++-header all.hh",
        ] {
            check(line, Action::Compile);
        }
        for line in ["-c a.S", "-c a.s -o a.o", "-x assembler-with-cpp -c a.txt", "-xassembler -c -"] {
            check(line, Action::Assemble);
        }
        for line in [
            "a.o b.o -o x",
            "-shared -o l.so a.o -lm",
            "-o x a.o -Wl,-rpath,/l -L . -l z",
            "x.lo",
            "-static a.a",
        ] {
            check(line, Action::Link);
        }
        for line in ["a.c -o x", "a.c b.o", "a.S", "-x c - -x none a.o -o x", "-MD a.c -o x"] {
            check(line, Action::CompileAndLink);
        }
        check("-r -nostdlib a.o b.o -o ab.o", Action::LinkObject);
        check("-Wl,-r a.o b.o -o ab.o", Action::LinkObject);
    }

    #[test]
    fn values_of_options_are_no_inputs() {
        let found = command(
            "-I c.c -include x.c -MF d.c -MT t.c -Xclang e.c -D f.c -target g.c -isystem h.c -c real.c -o r.o",
        );
        assert_eq!(found.inputs, [Input { path: "real.c".into(), language: Language::Source }]);
        assert_eq!(found.output.as_deref(), Some(Path::new("r.o")));
        let after = command("-c -- -odd.c");
        assert_eq!((after.action, after.inputs[0].path.as_path()), (Action::Compile, Path::new("-odd.c")));
    }

    #[test]
    fn outputs_are_named_or_follow_from_the_sources() {
        let check = |line, outputs: &[&str]| {
            let expected: Vec<PathBuf> = outputs.iter().map(PathBuf::from).collect();
            assert_eq!(command(line).outputs(), expected, "{line}");
        };
        check("-c ../s/a.c b.cc", &["a.o", "b.o"]);
        check("-S s/a.c", &["a.s"]);
        check("-c a.c -oz.o", &["z.o"]);
        check("a.o", &["a.out"]);
        check("inc/all.h", &["inc/all.h.gch"]);
        check("-E a.c", &[]);
    }

    #[test]
    fn a_map_that_the_build_asks_for_is_found() {
        let check = |line, map: Option<&str>| assert_eq!(command(line).map, map.map(PathBuf::from), "{line}");
        check("a.o -Wl,-Map=x.map", Some("x.map"));
        check("a.o -Wl,--gc-sections,-Map,x.map,-O1", Some("x.map"));
        check("a.o -Xlinker -Map -Xlinker y.map", Some("y.map"));
        check("a.o -Wl,-Map=x.map -Wl,--no-undefined", Some("x.map"));
        check("a.o -Wl,--as-needed", None);
    }

    #[test]
    fn trials_of_configure_scripts_are_known() {
        let probe = |line: &str, cwd: &str| Command::parse(&words_of(line), Path::new(cwd)).probe;
        assert!(probe("-o conftest -O2 conftest.c", "/src"));
        assert!(probe("-c conftest2.c", "/src"));
        assert!(probe("-o t.o -c testCCompiler.c", "/b/CMakeFiles/CMakeScratch/TryCompile-x"));
        assert!(probe("-o CMakeFiles/cmTC_1.dir/x.o -c /b/CMakeFiles/CMakeTmp/x.c", "/b"));
        assert!(probe("CMakeCCompilerId.c", "/b/CMakeFiles/3.25.1/CompilerIdC"));
        assert!(probe("/b/meson-private/tmpq/testfile.c -o /b/meson-private/tmpq/output.obj -c", "/"));
        assert!(probe("-o objs/autotest objs/autotest.c -lpthread", "/src"));
        assert!(probe("-Werror -xc /dev/null -c -o x.o", "/src"));
        assert!(probe("-c a.c -o /dev/null", "/src"));
        assert!(probe("-c -o /tmp/ffconf.Ab1/test.o /tmp/ffconf.Ab1/test.c", "/src"));
        assert!(!probe("-c test.c -o test.o", "/src/CMakeFiles/x.dir"));
        assert!(!probe("-c autotests.c -o src/autotests.o", "/src"));
    }

    #[test]
    fn response_files_are_spread_out() {
        let mut read = |path: &Path| match path.to_str()? {
            "a.rsp" => Some("-c 'a b.c' \"-DX=\\\"1\\\"\"\n@b.rsp".to_owned()),
            "b.rsp" => Some("-o\tx\\ y.o ''".to_owned()),
            "loop" => Some("@loop -c".to_owned()),
            _ => None,
        };
        let spread = |words: &[&str], read: &mut dyn FnMut(&Path) -> Option<String>| {
            super::spread(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>(), read)
        };
        assert_eq!(
            spread(&["-O2", "@a.rsp", "@none"], &mut read),
            ["-O2", "-c", "a b.c", "-DX=\"1\"", "-o", "x y.o", "", "@none"]
        );
        assert_eq!(spread(&["@loop"], &mut read).len(), RESPONSE_DEPTH + 1);
    }

    #[test]
    fn flags_stand_in_front_of_what_ends_options() {
        let strings = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        let flags = ["-f".to_owned()];
        assert_eq!(with_flags(&strings(&["-c", "--", "x.c"]), &flags), ["-c", "-f", "--", "x.c"]);
        assert_eq!(with_flags(&strings(&["a.o"]), &flags), ["a.o", "-f"]);
    }

    fn any_word() -> impl Strategy<Value = String> {
        prop_oneof![
            "-(c|S|E|o|x|M|MF|r|Wl,-Map=m|Wl,-Map,|Xlinker|I|O2|g|fPIC|print-x|-|)",
            "[a-z@é]{0,3}(\\.(c|cc|S|o|a|so|h))?",
            "\\PC{0,6}",
        ]
    }

    /// An option that lacks its value is an error for the compiler, and takes ours for it; what goes to the linker by itself is not ours.
    fn is_sound(words: &[String]) -> bool {
        let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
        let lacks_value = words[..end].last().is_some_and(|word| TAKE_NEXT.contains(&word.as_str()));
        !lacks_value && !words.iter().any(|word| word.contains("-Map,") || word == "-Xlinker")
    }

    fn any_words() -> impl Strategy<Value = Vec<String>> {
        prop::collection::vec(any_word(), 0..12).prop_filter("no compiler takes it", |words| is_sound(words))
    }

    proptest! {
        #[test]
        fn flags_never_change_what_is_done(words in any_words()) {
            let flags = ["-fprofile-generate=/p".to_owned(), "-Wl,--emit-relocs".to_owned()];
            let cwd = Path::new("/w");
            let plain = Command::parse(&words, cwd);
            let given: Vec<OsString> = words.iter().map(OsString::from).collect();
            let flagged: Vec<String> =
                with_flags(&given, &flags).iter().map(|word| word.to_string_lossy().into_owned()).collect();
            let flagged = Command::parse(&flagged, cwd);
            prop_assert_eq!((flagged.action, &flagged.inputs, flagged.outputs()), (plain.action, &plain.inputs, plain.outputs()));
        }

        #[test]
        fn no_response_file_makes_it_panic(text in "\\PC{0,60}", quoted in "['\"\\\\ \n@a]{0,30}") {
            let mut files = [text, quoted].into_iter().cycle();
            let _ = spread(&["@x".to_owned()], &mut |_| files.next().filter(|text| text.len() % 3 != 0));
        }

        #[test]
        fn plain_words_survive_a_response_file(words in prop::collection::vec("[a-z./=-]{1,8}", 0..9)) {
            prop_assert_eq!(words_of(&words.join("\n")), words);
        }
    }
}
