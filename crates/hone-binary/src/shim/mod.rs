//! Wrappers of a build's compilers.
//!
//! A build that respects `CC` and `CXX`, or finds its compilers in PATH, gets a folder of names (`cc`, `c++`, `gcc` ...) that are all links
//! to Hone. Under such a name, Hone reads its [`Orders`] from the file that `HONE_SHIM` names, adds the flags of the phase, runs the real
//! compiler in its own place, and logs the inputs and outputs ([`Entry`]). So flags reach every object whatever the build does with CFLAGS,
//! and afterwards the log proves which objects of a link got them.

mod command;
mod log;

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use hone_tool::{Call, pass_through, pass_through_heard};
use serde::{Deserialize, Serialize};

pub use command::{Action, Command, Input, Language, spread, with_flags};
pub use log::{Entry, Made, Used, read_log};

use crate::c_toolchain::CToolchain;

/// The environment variable with the path of the orders.
pub const ORDERS: &str = "HONE_SHIM";

/// Common names of C compilers in builds.
const C_NAMES: [&str; 3] = ["cc", "gcc", "clang"];
/// Common names of C++ compilers in builds.
const CXX_NAMES: [&str; 3] = ["c++", "g++", "clang++"];

/// Limit of one invocation's messages; warnings about a profile are a line each.
const MOST_WORDS: usize = 16 << 20;

/// The instructions for the wrappers of a build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orders {
    /// The real compiler for each name.
    pub compilers: BTreeMap<String, PathBuf>,
    /// Flags for compilations.
    pub compile: Vec<String>,
    /// Flags for links of a program or a library.
    pub link: Vec<String>,
    /// More flags for links of a program (see [`Command::links_program`]).
    #[serde(default)]
    pub program: Vec<String>,
    /// Words of the build to leave out, because they would silence necessary messages.
    pub silencers: Vec<String>,
    /// The compilers' messages, whatever the build does with them: some builds drop them, some mix them with other output.
    pub words: PathBuf,
    /// The log: a line of JSON for each action, see [`read_log`].
    pub log: PathBuf,
    /// A folder for the link maps.
    pub maps: PathBuf,
    /// The copy of the sources, whose path must not be visible in compiled code: see `from_within` in `command.rs`. Empty for none.
    #[serde(default)]
    pub source: PathBuf,
}

impl Orders {
    /// Instructions for this compiler, under all common names, and without flags. Log and maps are in `folder`.
    pub fn new(toolchain: &CToolchain, folder: &Path) -> Self {
        let mut compilers = BTreeMap::new();
        let mut add = |names: [&str; 3], real: &Path| {
            for name in names {
                compilers.insert(name.to_owned(), real.to_path_buf());
                compilers.insert(format!("{name}-{}", toolchain.major), real.to_path_buf());
            }
        };
        add(C_NAMES, &toolchain.cc);
        if let Some(cxx) = &toolchain.cxx {
            add(CXX_NAMES, cxx);
        }
        Self {
            compilers,
            compile: Vec::new(),
            link: Vec::new(),
            program: Vec::new(),
            silencers: Vec::new(),
            words: folder.join("compilers.txt"),
            log: folder.join("compilers.jsonl"),
            maps: folder.join("maps"),
            source: PathBuf::new(),
        }
    }

    /// Makes the folder of names, all links to `program`, and the folder of maps; writes the instructions next to the names and returns
    /// their file, for `HONE_SHIM`.
    ///
    /// # Errors
    /// Fails when something can't be written.
    pub fn install(&self, names: &Path, program: &Path) -> Result<PathBuf> {
        let told = |path: &Path| format!("{} can't be written", path.display());
        for folder in [names, &self.maps] {
            fs::create_dir_all(folder).with_context(|| told(folder))?;
        }
        // Hone reads it after the build, even without any message.
        fs::write(&self.words, "").with_context(|| told(&self.words))?;
        for name in self.compilers.keys() {
            let link = names.join(name);
            if fs::symlink_metadata(&link).is_ok() {
                fs::remove_file(&link).with_context(|| told(&link))?;
            }
            symlink(program, &link).with_context(|| told(&link))?;
        }
        let file = Self::file(names);
        fs::write(&file, serde_json::to_vec_pretty(self)?).with_context(|| told(&file))?;
        Ok(file)
    }

    /// The effect of [`Orders::install`], as command lines that need no existing folder.
    ///
    /// # Errors
    /// Fails when the instructions can't be written as JSON.
    pub fn install_lines(&self, names: &Path, program: &Path) -> Result<Vec<String>> {
        const LINK: &str = r#"to=$1; names=$2; shift 2; for name; do ln -sf -- "$to" "$names/$name"; done"#;
        const WRITE: &str = r#": >"$1"; printf '%s\n' "$2" >"$3""#;
        let folders = Call::new("make-folders", "mkdir", "/").args(["-p", "--"]).arg(names).arg(&self.maps);
        let links = Call::new("link-names", "sh", "/").args(["-ec", LINK, "sh"]).arg(program).arg(names);
        let links = links.args(self.compilers.keys());
        let orders = Call::new("write-orders", "sh", "/").args(["-ec", WRITE, "sh"]).arg(&self.words);
        let orders = orders.arg(serde_json::to_string(self)?).arg(Self::file(names));
        Ok([folders, links, orders].iter().map(ToString::to_string).collect())
    }

    /// The path of the instructions for a folder of names.
    pub fn file(names: &Path) -> PathBuf {
        names.join("orders.json")
    }

    /// Reads the orders from a file.
    ///
    /// # Errors
    /// When it can't be read or is of another form.
    pub fn load(file: &Path) -> Result<Self> {
        let text = fs::read(file)
            .with_context(|| format!("{} (named by {ORDERS}) can't be read", file.display()))?;
        serde_json::from_slice(&text).with_context(|| {
            format!("{} contains no instructions; build again with the same Hone", file.display())
        })
    }

    /// The flags of an invocation. A test of a configure script gets none: its answers must be the same in all variants, and the programs
    /// that it runs would leave profiles.
    fn flags(&self, command: &Command) -> Vec<String> {
        let mut flags = Vec::new();
        if command.probe {
            return flags;
        }
        if command.compiles_source() {
            flags.extend(self.compile.iter().cloned());
        }
        if command.action.links() {
            let more: Vec<String> = self.link.iter().filter(|flag| !flags.contains(flag)).cloned().collect();
            flags.extend(more);
        }
        if command.links_program() {
            flags.extend(self.program.iter().cloned());
        }
        flags
    }
}

/// The name on the command line, if it is one of a C or C++ compiler: `cc`, `clang++-22`, `x86_64-linux-gnu-gcc`.
pub fn compiler_name(argv0: &OsStr) -> Option<String> {
    let name = Path::new(argv0).file_name()?.to_str()?;
    let (stem, version) = name.rsplit_once('-').unwrap_or((name, ""));
    let unversioned =
        if !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit()) { stem } else { name };
    let last = unversioned.rsplit('-').next()?;
    C_NAMES.iter().chain(&CXX_NAMES).any(|known| *known == last).then(|| name.to_owned())
}

/// Acts as a compiler with this name in this folder, and returns its exit code.
///
/// # Errors
/// Fails when the instructions do not know the compiler, when it can't be started, or when its work can't be logged: a build without its
/// log proves nothing.
pub fn act(orders: &Orders, name: &str, arguments: &[OsString], cwd: &Path) -> Result<i32> {
    let Some(real) = orders.compilers.get(name) else {
        let known: Vec<&str> = orders.compilers.keys().map(String::as_str).collect();
        bail!(
            "the build calls the compiler {name}, but Hone wraps only {}\n  next: name another compiler",
            known.join(", ")
        );
    };
    let words: Vec<String> = arguments.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let mut read = |file: &Path| {
        let file = cwd.join(file);
        // A pipe (`@<(...)`) can be read only once, and the compiler needs that.
        let text = fs::metadata(&file).is_ok_and(|facts| facts.is_file()).then(|| fs::read(file).ok());
        text.flatten().map(|text| String::from_utf8_lossy(&text).into_owned())
    };
    let words = spread(&words, &mut read);
    let command = Command::parse(&words, cwd);
    let mut added = orders.flags(&command);
    let map = map_of(orders, &command)?;
    if let Some(map) = &map {
        // The last one wins.
        added.push(format!("-Wl,-Map={}", map.display()));
    }
    let used = log::used(&command, cwd);
    let arguments = handed_over(orders, arguments, &words, &command, cwd);
    let mut call = Call::new(format!("stand-in-{name}"), real, cwd).args(with_flags(&arguments, &added));
    if !orders.silencers.is_empty() && !command.probe {
        // Necessary messages must be in English.
        call = call.env("LC_ALL", "C").env_remove("LANGUAGE");
    }
    let status = if command.probe || added.is_empty() {
        pass_through(&call)?
    } else {
        let (status, words) = pass_through_heard(&call, MOST_WORDS)?;
        log::append_words(&orders.words, &words)?;
        status
    };
    if let (Some(map), Some(wanted), 0) = (&map, &command.map, status) {
        copy_map(map, &cwd.join(wanted));
    }
    let made = if status == 0 { log::made(&command, cwd) } else { Vec::new() };
    let entry = Entry {
        name: name.to_owned(),
        compiler: real.clone(),
        cwd: cwd.to_path_buf(),
        action: command.action,
        probe: command.probe,
        inputs: used,
        outputs: made,
        added,
        map,
        status,
    };
    log::append(&orders.log, &entry)?;
    Ok(status)
}

/// The arguments without words that would silence the compiler, and with relative source paths. A response file stays one unless something
/// in it must change.
fn handed_over(
    orders: &Orders,
    arguments: &[OsString],
    spread: &[String],
    command: &Command,
    cwd: &Path,
) -> Vec<OsString> {
    let changed = |arguments: &[OsString]| {
        let kept = command::without(arguments, &orders.silencers);
        if command.compiles_source() { command::from_within(&kept, &orders.source, cwd) } else { kept }
    };
    // The system's limit for a list of words.
    const MOST_BYTES: usize = 1 << 20;
    let is_text = arguments.iter().all(|word| word.to_str().is_some());
    let is_short = spread.iter().map(|word| word.len() + 16).sum::<usize>() < MOST_BYTES;
    if is_text && is_short && spread.len() != arguments.len() && !command.probe {
        let spread: Vec<OsString> = spread.iter().map(OsString::from).collect();
        let made = changed(&spread);
        if made != spread {
            return made;
        }
    }
    changed(arguments)
}

/// The build gets the map that it requested, if that is a file: no build needs the map to continue.
fn copy_map(map: &Path, wanted: &Path) {
    if !wanted.is_dir() && wanted.file_name().is_some_and(|name| name != "-" && name != "%") {
        let _ = fs::copy(map, wanted);
    }
}

/// The path of the link's map: a separate file, because builds give several links one name for it.
fn map_of(orders: &Orders, command: &Command) -> Result<Option<PathBuf>> {
    if !command.action.links() || command.probe {
        return Ok(None);
    }
    let outputs = command.outputs();
    let name = outputs.first().and_then(|output| output.file_name()).unwrap_or_default();
    let file = tempfile::Builder::new()
        .prefix(&format!("{}-", name.to_string_lossy()))
        .suffix(".map")
        .tempfile_in(&orders.maps)
        .and_then(|file| file.keep().map_err(|error| error.error))
        .with_context(|| format!("no link map can be made in {}", orders.maps.display()))?;
    Ok(Some(file.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_compilers_are_known() {
        let is = |name: &str| compiler_name(OsStr::new(name)).is_some();
        for name in
            ["cc", "/x/bin/c++", "gcc-12", "clang++-22", "x86_64-linux-gnu-gcc", "aarch64-linux-gnu-g++-13"]
        {
            assert!(is(name), "{name}");
        }
        for name in ["hone", "/usr/bin/hone", "hone-22", "gcc-ar", "clang-format", "ccache", "", "/"] {
            assert!(!is(name), "{name}");
        }
    }

    #[test]
    fn each_action_gets_its_own_flags() {
        let strings = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        let orders = Orders {
            compilers: BTreeMap::new(),
            compile: strings(&["-fprofile-generate"]),
            link: strings(&["-fprofile-generate", "-Wl,-q"]),
            program: strings(&["-Xlinker", "/aids/d.o"]),
            silencers: vec![],
            words: "/w".into(),
            log: "/l".into(),
            maps: "/m".into(),
            source: PathBuf::new(),
        };
        let check = |line: &str, expected: &[&str]| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            assert_eq!(orders.flags(&Command::parse(&words, Path::new("/w"))), expected, "{line}");
        };
        check("-c a.c", &["-fprofile-generate"]);
        let program = ["-fprofile-generate", "-Wl,-q", "-Xlinker", "/aids/d.o"];
        for line in ["a.o -o x", "a.c -o x", "a.S a.o -o x", "-static a.o -Wl,-Map=m"] {
            check(line, &program);
        }
        for line in [
            "-shared a.o -o x.so",
            "-Wl,-shared a.o",
            "-m32 a.o",
            "-nostdlib a.o",
            "--target=arm a.o",
            "-target arm a.o",
        ] {
            check(line, &program[..2]);
        }
        for none in
            ["-c a.S", "-E a.c", "-r a.o -o b.o", "--version", "-c conftest.c", "-o conftest conftest.c"]
        {
            check(none, &[]);
        }
    }
}
