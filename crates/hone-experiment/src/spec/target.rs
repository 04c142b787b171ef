//! `[target]`: how the target is built, started, checked for readiness, checked for correctness and stopped.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hone_jvm::command::Runs;
use serde::Deserialize;

use crate::arm::{Program, Ways, unknown_placeholder, words_of};
use crate::meter::Metrics;
use crate::ready::Ready;

/// How to build, start and stop the program that is optimised.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// What is built.
    pub form: Form,
    /// Arguments of the started program. Hone fills in `{port}`, `{port2}` and `{data}`.
    pub args: Vec<String>,
    /// Environment variables on top of this process' environment.
    pub env: BTreeMap<String, String>,
    /// Its address. Hone fills in `{port}`.
    pub address: String,
    /// When it is ready. `None` depends on its workloads: a broker must answer, any other program must listen.
    pub ready: Option<Ready>,
    /// Command that runs before each start, for example to fill `{data}`.
    pub prepare: Option<Vec<String>>,
    /// Its own way to stop, before any signal.
    pub stop: Option<Vec<String>>,
    /// Command by which an instrumented program writes its profile.
    pub dump: Option<Vec<String>>,
    /// The same by a signal.
    pub dump_signal: Option<i32>,
    /// Command by which an instrumented program resets its counters after start-up.
    pub reset: Option<Vec<String>>,
    /// Command that exits with 0 if the started program works correctly.
    pub check: Option<Vec<String>>,
    /// Command that runs its error paths once.
    pub provoke: Option<Vec<String>>,
    /// Where a Go program serves its profiles.
    pub pprof: String,
    /// Time limit for its start, until it is ready.
    pub ready_timeout_s: f64,
    /// Time limit for its stop; then it is killed.
    pub stop_timeout_s: f64,
    /// Its durability before an acknowledgement.
    pub storage: String,
    /// Its own metrics pages.
    pub metrics: Metrics,
}

/// The sources of the build. Paths are relative to the experiment file.
#[derive(Debug, Clone, PartialEq)]
pub enum Form {
    /// A program of a Cargo workspace.
    Cargo(Cargo),
    /// A C or C++ program, by its own build system.
    Recipe(Recipe),
    /// A Go program.
    Go(Go),
    /// A finished program, which only BOLT can optimise.
    Elf {
        /// The finished program.
        binary: PathBuf,
    },
    /// A service on a Java virtual machine, which options and a cache optimise.
    Jvm(Jvm),
}

/// A service on a Java virtual machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Jvm {
    /// The launcher: a path, a name in PATH, or the folder of a JDK.
    pub java: PathBuf,
    /// Options of the virtual machine, with placeholders.
    pub options: Vec<String>,
    /// Jars and folders; `FOLDER/*` stands for the jars in it.
    pub class_path: Vec<PathBuf>,
    /// What it runs. A jar is a path.
    pub runs: Runs,
}

/// A program of a Cargo workspace.
#[derive(Debug, Clone, PartialEq)]
pub struct Cargo {
    /// Its `Cargo.toml`.
    pub manifest: PathBuf,
    /// The package that has the program.
    pub package: String,
    /// The program.
    pub bin: String,
    /// Enabled features.
    pub features: Vec<String>,
    /// Cargo's profile.
    pub profile: String,
    /// Whether its C code is optimised, too, if a matching clang is installed.
    pub c_code: bool,
}

/// A program of a project of C or C++, by its own build.
#[derive(Debug, Clone, PartialEq)]
pub struct Recipe {
    /// Folder of the sources.
    pub source: PathBuf,
    /// The build system.
    pub build: Build,
    /// Path of the program after the build, relative to the source folder.
    pub program: PathBuf,
    /// `None` is the newest clang that has all its tools.
    pub compiler: Option<String>,
    /// `None` is one job per core.
    pub jobs: Option<usize>,
}

/// The build of a recipe.
#[derive(Debug, Clone, PartialEq)]
pub enum Build {
    /// Commands, each a program with its arguments.
    Commands(Vec<Vec<String>>),
    /// CMake.
    Cmake(Configured),
    /// Meson.
    Meson(Configured),
    /// A makefile.
    Make(Make),
}

/// Of CMake and Meson.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configured {
    /// Arguments of the configuration.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// `None` builds everything.
    #[serde(default)]
    pub target: Option<String>,
}

/// Of make, with or without a configure script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Make {
    /// Runs before `make`, in the copy of the sources.
    pub configure: Option<Vec<String>>,
    /// Arguments of `make`.
    pub arguments: Vec<String>,
    /// What to build; empty for the makefile's first target.
    pub target: Option<String>,
}

/// A program of a Go module.
#[derive(Debug, Clone, PartialEq)]
pub struct Go {
    /// Folder with the `go.mod`.
    pub module: PathBuf,
    /// The main package, in the form for `go build`.
    pub package: String,
}

/// The same keys as in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TargetFile {
    manifest: Option<PathBuf>,
    package: Option<String>,
    bin: Option<String>,
    features: Option<Vec<String>>,
    profile: Option<String>,
    c_code: Option<bool>,
    source: Option<PathBuf>,
    build: Option<Vec<String>>,
    cmake: Option<Configured>,
    meson: Option<Configured>,
    make: Option<MakeFile>,
    program: Option<PathBuf>,
    compiler: Option<String>,
    jobs: Option<usize>,
    go: Option<String>,
    binary: Option<PathBuf>,
    kind: Option<String>,
    java: Option<PathBuf>,
    options: Option<Vec<String>>,
    class_path: Option<Vec<PathBuf>>,
    main: Option<String>,
    jar: Option<PathBuf>,
    module: Option<String>,
    prepare: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    address: Option<String>,
    ready: Option<ReadyFile>,
    stop: Option<String>,
    dump: Option<String>,
    dump_signal: Option<String>,
    reset: Option<String>,
    check: Option<String>,
    provoke: Option<String>,
    pprof: Option<String>,
    ready_timeout_s: Option<f64>,
    stop_timeout_s: Option<f64>,
    storage: Option<String>,
    #[serde(default)]
    metrics: Vec<String>,
    busy_metric: Option<String>,
    metrics_token_file: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MakeFile {
    configure: Option<String>,
    #[serde(default)]
    arguments: Vec<String>,
    target: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadyFile {
    port: Option<bool>,
    line: Option<String>,
    http: Option<String>,
    command: Option<String>,
}

/// A key of the table, and the problem with it.
pub type Wrong = (&'static str, String);

/// Default time limits of a start and a stop, in seconds.
const HALF_A_MINUTE_S: f64 = 30.0;

/// The first key of each form decides which form it is.
const FORMS: &str = "`manifest` (a Cargo target), `source` with `build`, `cmake`, `meson` or `make` (a project's own build), `go` \
                     (a Go program), `binary` (a finished program), or `kind = \"jvm\"` (a Java service)";
/// Number of keys that decide the form.
const LEADS: usize = 8;
/// The only `kind`.
const JVM: &str = "jvm";

impl TargetFile {
    /// The target, if its keys fit together.
    pub fn checked(self) -> Result<Target, Wrong> {
        self.only_one_form()?;
        let ready = self.ready.as_ref().map(ReadyFile::checked).transpose()?;
        let command = |key: &'static str, text: &Option<String>| {
            text.as_deref().map(|text| words(text).map_err(|problem| (key, problem))).transpose()
        };
        let metrics = Metrics {
            urls: self.metrics.clone(),
            busy_metric: self.busy_metric.clone(),
            metrics_token_file: self.metrics_token_file.clone(),
        };
        metrics.check().map_err(|error| ("metrics", format!("{error:#}")))?;
        let dump_signal = self.dump_signal.as_deref().map(signal).transpose();
        Ok(Target {
            ready,
            prepare: command("prepare", &self.prepare)?,
            stop: command("stop", &self.stop)?,
            dump: command("dump", &self.dump)?,
            dump_signal: dump_signal.map_err(|problem| ("dump_signal", problem))?,
            reset: command("reset", &self.reset)?,
            check: command("check", &self.check)?,
            provoke: command("provoke", &self.provoke)?,
            pprof: self.pprof.clone().unwrap_or_else(|| "127.0.0.1:{port2}".to_owned()),
            args: self.args.clone(),
            env: self.env.clone(),
            address: self.address.clone().unwrap_or_else(|| "127.0.0.1:{port}".to_owned()),
            ready_timeout_s: seconds("ready_timeout_s", self.ready_timeout_s)?,
            stop_timeout_s: seconds("stop_timeout_s", self.stop_timeout_s)?,
            storage: self.storage.clone().unwrap_or_else(|| "unstated".to_owned()),
            metrics,
            form: self.form()?,
        })
    }

    /// Keys that belong to one form only, and whether they are set.
    fn keys(&self) -> [(&'static str, bool, &'static str); 24] {
        const CARGO: &str = "a Cargo target";
        const RECIPE: &str = "a project's own build";
        const GO: &str = "a Go program";
        const ELF: &str = "a finished program";
        const JAVA: &str = "a Java service";
        [
            ("manifest", self.manifest.is_some(), CARGO),
            ("build", self.build.is_some(), RECIPE),
            ("cmake", self.cmake.is_some(), RECIPE),
            ("meson", self.meson.is_some(), RECIPE),
            ("make", self.make.is_some(), RECIPE),
            ("go", self.go.is_some(), GO),
            ("binary", self.binary.is_some(), ELF),
            ("kind", self.kind.is_some(), JAVA),
            ("package", self.package.is_some(), CARGO),
            ("bin", self.bin.is_some(), CARGO),
            ("features", self.features.is_some(), CARGO),
            ("profile", self.profile.is_some(), CARGO),
            ("c_code", self.c_code.is_some(), CARGO),
            ("program", self.program.is_some(), RECIPE),
            ("compiler", self.compiler.is_some(), RECIPE),
            ("jobs", self.jobs.is_some(), RECIPE),
            ("pprof", self.pprof.is_some(), GO),
            ("java", self.java.is_some(), JAVA),
            ("options", self.options.is_some(), JAVA),
            ("class_path", self.class_path.is_some(), JAVA),
            ("main", self.main.is_some(), JAVA),
            ("jar", self.jar.is_some(), JAVA),
            ("module", self.module.is_some(), JAVA),
            ("source", self.source.is_some(), "a project's own build or a Go program"),
        ]
    }

    fn only_one_form(&self) -> Result<(), Wrong> {
        let keys = self.keys();
        let mut leads = keys[..LEADS].iter().filter(|(_, is_set, _)| *is_set);
        let Some((lead, _, form)) = leads.next() else {
            return Err(("[target]", format!("the target has no source or program; name {FORMS}")));
        };
        if let Some((other, ..)) = leads.next() {
            return Err((other, format!("`{lead}` and `{other}` are two targets; name one of {FORMS}")));
        }
        match keys[LEADS..].iter().find(|(_, is_set, of)| *is_set && !of.contains(form)) {
            Some((key, _, of)) => {
                Err((key, format!("`{key}` belongs to {of}, but `{lead}` makes this target {form}")))
            }
            None => Ok(()),
        }
    }

    fn form(self) -> Result<Form, Wrong> {
        if let Some(manifest) = self.manifest {
            return Ok(Form::Cargo(Cargo {
                manifest,
                package: there("package", self.package)?,
                bin: there("bin", self.bin)?,
                features: self.features.unwrap_or_default(),
                profile: self.profile.unwrap_or_else(|| "release".to_owned()),
                c_code: self.c_code.unwrap_or(true),
            }));
        }
        if let Some(package) = self.go {
            return Ok(Form::Go(Go { module: there("source", self.source)?, package }));
        }
        if let Some(binary) = self.binary {
            return Ok(Form::Elf { binary });
        }
        if let Some(kind) = &self.kind {
            if kind != JVM {
                return Err(("kind", format!("unknown kind `{kind}`; use `{JVM}`, or leave it out")));
            }
            return Ok(Form::Jvm(self.jvm()?));
        }
        let build = match (self.build, self.cmake, self.meson, self.make) {
            (Some(lines), ..) => Build::Commands(commands(&lines)?),
            (_, Some(cmake), ..) => Build::Cmake(cmake),
            (_, _, Some(meson), _) => Build::Meson(meson),
            (_, _, _, make) => Build::Make(there("make", make)?.checked()?),
        };
        Ok(Form::Recipe(Recipe {
            source: there("source", self.source)?,
            build,
            program: there("program", self.program)?,
            compiler: self.compiler,
            jobs: self.jobs,
        }))
    }
}

impl TargetFile {
    fn jvm(self) -> Result<Jvm, Wrong> {
        let runs = match (self.main, self.jar, self.module) {
            (Some(class), None, None) => Runs::Class(class),
            (None, Some(jar), None) => Runs::Jar(jar.display().to_string()),
            (None, None, Some(module)) => Runs::Module(module),
            _ => {
                return Err((
                    "kind",
                    "a Java service has exactly one of `main`, `jar` and `module`".to_owned(),
                ));
            }
        };
        if matches!(runs, Runs::Class(_)) && self.class_path.is_none() {
            return Err(("main", "`main` needs `class_path`".to_owned()));
        }
        Ok(Jvm {
            java: self.java.unwrap_or_else(|| PathBuf::from("java")),
            options: self.options.unwrap_or_default(),
            class_path: self.class_path.unwrap_or_default(),
            runs,
        })
    }
}

impl MakeFile {
    fn checked(self) -> Result<Make, Wrong> {
        let configure =
            self.configure.as_deref().map(words).transpose().map_err(|problem| ("make", problem))?;
        Ok(Make { configure, arguments: self.arguments, target: self.target })
    }
}

impl ReadyFile {
    fn checked(&self) -> Result<Ready, Wrong> {
        let one = || {
            let what = "ready has exactly one of: port = true, line = \"...\", http = \"/...\" or command = \
                 \"...\"";
            ("ready", what.to_owned())
        };
        match (self.port, &self.line, &self.http, &self.command) {
            (Some(true), None, None, None) => Ok(Ready::Port),
            (None, Some(line), None, None) if !line.is_empty() => Ok(Ready::Line(line.clone())),
            (None, None, Some(path), None) if path.starts_with('/') => Ok(Ready::Http(path.clone())),
            (None, None, Some(path), None) => {
                Err(("ready", format!("invalid http `{path}`: use a path, for example /health")))
            }
            (None, None, None, Some(text)) => {
                Ok(Ready::Command(words(text).map_err(|problem| ("ready", problem))?))
            }
            _ => Err(one()),
        }
    }
}

impl Target {
    /// This program, with the target's way of starting it. Its commands run in `folder`, the experiment file's folder.
    pub fn started_as(
        &self,
        path: &Path,
        more_env: BTreeMap<String, OsString>,
        folder: PathBuf,
        ready: Ready,
    ) -> Program {
        let own_env = self.env.iter().map(|(name, value)| (name.clone(), value.into()));
        Program {
            path: path.to_owned(),
            args: self.args.clone(),
            env: own_env.chain(more_env).collect(),
            address: self.address.clone(),
            ready_timeout: Duration::from_secs_f64(self.ready_timeout_s),
            stop_timeout: Duration::from_secs_f64(self.stop_timeout_s),
            ways: Box::new(Ways {
                folder,
                ready,
                prepare: self.prepare.clone(),
                stop: self.stop.clone(),
                dump: self.dump.clone(),
                dump_signal: self.dump_signal,
                reset: self.reset.clone(),
            }),
        }
    }

    /// The program's name for people.
    pub fn name(&self) -> String {
        let file = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
        let found = match &self.form {
            Form::Cargo(cargo) => Some(cargo.bin.clone()),
            Form::Recipe(recipe) => file(&recipe.program),
            Form::Go(go) => {
                go.package.rsplit('/').find(|part| !part.is_empty() && *part != ".").map(str::to_owned)
            }
            Form::Elf { binary } => file(binary),
            Form::Jvm(jvm) => Some(match &jvm.runs {
                Runs::Jar(jar) => Path::new(jar)
                    .file_stem()
                    .map_or(String::new(), |stem| stem.to_string_lossy().into_owned()),
                Runs::Class(name) | Runs::Module(name) => {
                    name.rsplit(['.', '/']).next().unwrap_or(name).to_owned()
                }
            }),
        };
        found.unwrap_or_else(|| "program".to_owned())
    }

    /// Every text that gets its placeholders at a start.
    fn texts(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let options = match &self.form {
            Form::Jvm(jvm) => &jvm.options[..],
            _ => &[],
        };
        let args = self.args.iter().map(|text| ("args", text));
        let args = args.chain(options.iter().map(|text| ("options", text)));
        let env = self.env.values().map(|text| ("env", text));
        let commands = [
            ("prepare", &self.prepare),
            ("stop", &self.stop),
            ("dump", &self.dump),
            ("reset", &self.reset),
            ("check", &self.check),
            ("provoke", &self.provoke),
        ];
        let commands =
            commands.into_iter().flat_map(|(key, words)| words.iter().flatten().map(move |word| (key, word)));
        args.chain(env).chain(std::iter::once(("pprof", &self.pprof))).chain(commands)
    }

    /// `serves`: whether a workload connects to its address.
    pub(super) fn check(&self, serves: bool) -> Result<(), Wrong> {
        let has_port = ["args", "options", "env", "prepare"];
        let has_port = self.texts().any(|(key, text)| has_port.contains(&key) && text.contains("{port}"));
        if serves && !(self.address.contains("{port}") && has_port) {
            let problem = "the target's address and its args (or env) must contain `{port}`: Hone picks a \
                 free port for each start, so that it never loads another broker";
            return Err(("args", problem.to_owned()));
        }
        if self.provoke.is_some() && !serves {
            let problem = "`provoke` needs a target that keeps running; use `check` for a program that exits";
            return Err(("provoke", problem.to_owned()));
        }
        // A check may also be for a program that exits.
        let known = |key: &str, text: &str| {
            if ["check", "provoke"].contains(&key) { text.replace("{program}", "") } else { text.to_owned() }
        };
        let unknown = |(key, text): (&'static str, &String)| {
            Some((key, unknown_placeholder(&known(key, text))?.to_owned()))
        };
        if let Some((key, word)) = self.texts().find_map(unknown) {
            return Err((
                key,
                format!("unknown placeholder {{{word}}}; use {{port}}, {{port2}} or {{data}}"),
            ));
        }
        Ok(())
    }
}

/// Splits like a shell, but runs none.
pub(super) fn words(text: &str) -> Result<Vec<String>, String> {
    let words = words_of(text)?;
    if words.is_empty() { Err("the command is empty".to_owned()) } else { Ok(words) }
}

fn commands(lines: &[String]) -> Result<Vec<Vec<String>>, Wrong> {
    if lines.is_empty() {
        return Err(("build", "the build has no command".to_owned()));
    }
    lines.iter().map(|line| words(line).map_err(|problem| ("build", problem))).collect()
}

fn there<T>(key: &'static str, value: Option<T>) -> Result<T, Wrong> {
    value.ok_or_else(|| ("[target]", format!("the key `{key}` is missing")))
}

fn seconds(key: &'static str, value: Option<f64>) -> Result<f64, Wrong> {
    let value = value.unwrap_or(HALF_A_MINUTE_S);
    if (0.0..=3_600.0).contains(&value) {
        Ok(value)
    } else {
        Err((key, format!("invalid {key} {value}: use a number from 0 to 3600")))
    }
}

/// Signals that a program may use for requests.
fn signal(name: &str) -> Result<i32, String> {
    match name.strip_prefix("SIG").unwrap_or(name) {
        "USR1" => Ok(libc::SIGUSR1),
        "USR2" => Ok(libc::SIGUSR2),
        "HUP" => Ok(libc::SIGHUP),
        "INT" => Ok(libc::SIGINT),
        "WINCH" => Ok(libc::SIGWINCH),
        _ => Err(format!("invalid signal `{name}`: use SIGUSR1, SIGUSR2, SIGHUP, SIGINT or SIGWINCH")),
    }
}
