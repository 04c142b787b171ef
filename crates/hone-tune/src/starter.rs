//! Writes the first `hone.toml` of a project, from the findings of a [`Survey`]. Pure: returns text. A value that only the
//! project's people know is marked [`MARK`], and is valid as it stands.

use std::path::Path;

use clap::ValueEnum;
use hone_binary::recipe::sugar::BUILD_FOLDER;

use crate::survey::{Found, Kind, Program, Signs, Survey};
use hone_experiment::variants;

/// Starts the comment of every value that you have to fill in.
pub const MARK: &str = "FILL IN";

/// The source of the target's work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Load {
    /// A program that sends load to a server.
    Command,
    /// The target itself, which does its work and exits.
    Run,
    /// Hone's own load generator, for servers with the Kafka protocol.
    Kafka,
}

/// A choice among the findings.
#[derive(Debug, Clone)]
pub struct Choice<'a> {
    /// The contents of the folder.
    pub survey: &'a Survey,
    /// The build system that was chosen.
    pub found: &'a Found,
    /// The program that is optimised.
    pub program: &'a Program,
    /// Source of the load.
    pub load: Load,
    /// The survey's folder as the file will name it: `.`, or an absolute path.
    pub source: &'a str,
    /// The reason why BOLT can't optimise a finished program.
    pub trouble: Option<String>,
}

/// A server that is known by its program's name.
struct Known {
    names: &'static [&'static str],
    args: &'static [&'static str],
    stop: &'static str,
    training: &'static str,
    training_operations: u64,
    judging: &'static str,
    judging_operations: u64,
}

const KNOWN: [Known; 1] = [Known {
    names: &["redis-server", "valkey-server", "keydb-server"],
    args: &["--port", "{port}", "--dir", "{data}", "--save", "", "--appendonly", "no"],
    stop: "redis-cli -p {port} shutdown nosave",
    training: "redis-benchmark -p {port} -n {operations} -r 10000 -d 32 -c 20 -P 16 -q -t get,set,incr,lpush,lpop,sadd,hset,zadd",
    training_operations: 50_000,
    judging: "redis-benchmark -p {port} -n {operations} -r 50000 -d 100 -c 20 -P 16 -q -t set,get",
    judging_operations: 100_000,
}];

/// Placeholder arguments of a server.
const SERVED: [&str; 2] = ["--port", "{port}"];

/// Loads HTTP servers. It is part of Debian's package nghttp2-client, and sends an exact number of requests.
const HTTP_LOAD: &str = "h2load --h1 -n {operations} -c 16";

/// The whole text of a file of this name.
pub fn text(choice: &Choice<'_>, own: &str) -> String {
    let sections = [head(choice, own), target(choice), workloads(choice), optimize(choice.found.kind)];
    sections.join("\n")
}

/// The text of the file that tunes a Kafka server, next to the experiment; `None` for other targets.
pub fn tune_text(choice: &Choice<'_>, experiment: &str, own: &str) -> Option<String> {
    if choice.load != Load::Kafka {
        return None;
    }
    let name = string(&format!("{}-tune", choice.survey.name));
    let (own, build) = (own, string(experiment));
    let target = string(&format!("{{program}} {}", SERVED.join(" ")));
    Some(format!(
        "# Written by `hone init`, next to {experiment}. `hone tune` tests one change at a time: builds, \
         broker and clients.\n\
         # Values that only you can know are marked {MARK}.\n\
         # All keys: docs/tune.md; from here to a kept change: docs/howto/all-of-it.md.\n\
         #\n\
         #     hone tune {own} --dry-run    # shows what Hone would try, and how long it takes; starts \
         nothing\n\
         #     hone tune {own}\n\n\
         name = {name}\n\n\
         [tune]\n\
         # Hone first makes the builds of this experiment, which are candidates. Without `build`, target has \
         no {{program}}, but the command's path.\n\
         build = {build}\n\
         target = {target}  # {MARK}: as `args` in {experiment}\n\
         storage = \"unknown\"  # {MARK}: durability before an acknowledgement, for the record\n\
         objective = \"cpu-per-record\"  # decides the verdict; also latency-p50, latency-p99\n\
         require = [\"p99<250ms\", \"errors<0.1%\"]  # {MARK}: limits that every state must meet\n\
         budget = \"1h\"\n\
         allow = [\"binary\", \"broker\", \"client\"]  # and \"host\": settings of this machine, as root and \
         with --yes\n\
         # forbid = [\"partitions\", \"topic.retention.*\"]  # settings that Hone never changes\n\
         durability = false  # true: the durability guarantee of an acknowledgement may change\n\
         # keep_disturbed = true  # for a virtual machine with constant neighbours\n\n\
         # More changes to try, besides those that Hone proposes:\n\
         # [[tune.candidate]]\n\
         # set = \"env.MALLOC_ARENA_MAX=1\"\n\
         # expected_gain = 0.02  # expected gain, as a share of the objective\n\n\
         [workload.users]\n\
         client = \"librdkafka\"\n\
         requests_per_s = 2000  # {MARK}: records per second that your producers send, or fewer\n\
         record_bytes = 500\n\
         connections = 8  # {MARK}: producers\n\
         partitions = 8\n\
         payload = \"orders\"\n\
         warmup_requests = 2000\n\
         duration_s = 5\n"
    ))
}

/// Line numbers (from 1) of values to fill in, with their remarks.
pub fn to_fill_in(text: &str) -> Vec<(usize, String)> {
    let mark = format!("# {MARK}: ");
    let lines = text.lines().enumerate();
    lines.filter_map(|(at, line)| Some((at + 1, line.split_once(&mark)?.1.to_owned()))).collect()
}

/// The load that fits the findings: a program whose sources never wait for a connection is not a server.
pub fn likely_load(survey: &Survey, program: &Program) -> Load {
    if survey.signs.listens || known(program).is_some() { Load::Command } else { Load::Run }
}

fn known(program: &Program) -> Option<&'static Known> {
    KNOWN.iter().find(|known| known.names.contains(&program.name.as_str()))
}

/// A string as TOML writes it.
pub(crate) fn string(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.into_iter().map(string).collect();
    format!("[{}]", words.join(", "))
}

fn head(choice: &Choice<'_>, own: &str) -> String {
    let file = choice.found.file.display();
    format!(
        "# Written by `hone init`, from {file} ({}). Values that only you can know are marked {MARK}. All \
         keys: docs/formats.md.\n\
         #\n\
         #     hone optimize {own} --dry-run    # shows every command line and runs nothing\n\
         #     hone optimize {own}\n\n\
         name = {}\n",
        choice.found.kind.name(),
        string(&choice.survey.name)
    )
}

fn target(choice: &Choice<'_>) -> String {
    let mut out = format!("[target]\n{}", others(choice));
    out.push_str(&match choice.found.kind {
        Kind::Cargo => cargo(choice),
        Kind::Go => go(choice),
        Kind::Elf => elf(choice),
        Kind::CMake | Kind::Meson | Kind::Make => recipe(choice),
    });
    out.push_str(&match choice.load {
        Load::Run => "# Arguments of every run, before those of a workload. {data} is a fresh folder.\nargs \
             = []\n"
            .to_owned(),
        Load::Command | Load::Kafka => server(choice),
    });
    out.push_str(check(choice));
    out
}

/// Other programs that this tree builds.
fn others(choice: &Choice<'_>) -> String {
    let others = choice.found.programs.iter().filter(|other| *other != choice.program);
    let names: Vec<&str> = others.map(|other| other.name.as_str()).take(12).collect();
    if names.is_empty() {
        return String::new();
    }
    format!("# {MARK}: is {} the program? The tree also builds {}.\n", choice.program.name, names.join(", "))
}

fn cargo(choice: &Choice<'_>) -> String {
    let manifest = Path::new(choice.source).join("Cargo.toml");
    let manifest = manifest.display().to_string();
    format!(
        "manifest = {}\npackage = {}\nbin = {}\n# features = []\n# profile = \"release\"\n",
        string(manifest.strip_prefix("./").unwrap_or(&manifest)),
        string(&choice.program.home),
        string(&choice.program.name)
    )
}

fn go(choice: &Choice<'_>) -> String {
    let home = &choice.program.home;
    let package = if home.is_empty() { ".".to_owned() } else { format!("./{home}") };
    let pprof = if choice.survey.signs.pprof {
        "# Hone fetches the profiles from here; {port2} must also be in the arguments.\n"
    } else {
        "# FILL IN: the sources do not import net/http/pprof, which serves the profile; let it listen there\n"
    };
    format!(
        "source = {}\ngo = {}\n{pprof}pprof = \"127.0.0.1:{{port2}}\"\n",
        string(choice.source),
        string(&package)
    )
}

fn elf(choice: &Choice<'_>) -> String {
    let binary = Path::new(choice.source).join(&choice.program.name).display().to_string();
    format!(
        "# A finished program, which only BOLT can optimise. It needs relocations (link it with \
         -Wl,--emit-relocs) and symbols\n\
         # (no strip).\n\
         {}binary = {}\n",
        in_the_way(choice),
        string(binary.strip_prefix("./").unwrap_or(&binary))
    )
}

/// The reasons why BOLT can't optimise the program.
fn in_the_way(choice: &Choice<'_>) -> String {
    let trouble = choice.trouble.as_deref().unwrap_or_default();
    let mut lines = trouble.lines().map(str::trim);
    let first = lines.next().map(|line| format!("# {MARK}: a program that BOLT can change: {line}\n"));
    first.into_iter().chain(lines.map(|line| format!("# {line}\n"))).collect()
}

fn recipe(choice: &Choice<'_>) -> String {
    let name = &choice.program.name;
    let (build, folder) = match choice.found.kind {
        Kind::CMake => (format!("cmake = {{ arguments = [], target = {} }}", string(name)), BUILD_FOLDER),
        Kind::Meson => (format!("meson = {{ arguments = [], target = {} }}", string(name)), BUILD_FOLDER),
        _ => (make(&choice.found.before), ""),
    };
    let program = Path::new(folder).join(&choice.program.home).join(name).display().to_string();
    let folder = if folder.is_empty() {
        String::new()
    } else {
        format!("; {} puts the results into {folder}", choice.found.kind.name())
    };
    let guess = "  # FILL IN: is the program here after the build?";
    format!(
        "# Built in a fresh copy of this folder for each variant{folder}. The compilers come from CC, CXX and PATH,\n\
         # and get the flags of the variant. Existing libraries stay as they are, and Hone lists them.\n\
         source = {}\n\
         {build}\n\
         program = {}{guess}\n\
         # compiler = \"gcc\"    # without it: the newest clang with lld, llvm-profdata and its runtime\n",
        string(choice.source),
        string(&program)
    )
}

fn make(before: &[String]) -> String {
    match before {
        [] => "make = { arguments = [] }".to_owned(),
        [configure] => format!("make = {{ configure = {}, arguments = [] }}", string(configure)),
        more => {
            let commands = more.iter().map(String::as_str).chain(["make -j{jobs}"]);
            format!("build = {}", list(commands))
        }
    }
}

fn server(choice: &Choice<'_>) -> String {
    let placeholders = "# {port} and {port2} are free ports, and {data} is a fresh folder. All three are new for each \
         start.\n";
    let known = known(choice.program);
    let args = match (known, choice.found.kind, choice.survey.signs) {
        (Some(known), ..) => format!("args = {}\n", list(known.args.iter().copied())),
        (None, Kind::Go, Signs { pprof: true, .. }) => {
            "args = [\"-listen\", \"127.0.0.1:{port}\", \"-pprof\", \"127.0.0.1:{port2}\"]  # FILL IN: the \
             arguments for its addresses\n"
                .to_owned()
        }
        _ => format!(
            "args = {}  # {MARK}: the arguments for its port, and for its data folder {{data}}\n",
            list(SERVED)
        ),
    };
    let ready = match choice.load {
        Load::Kafka => "# It is ready when it answers as a Kafka broker.\n",
        _ => {
            "# Also line = \"text that it prints\", http = \"/a/path\", command = \"exits with 0\".\n\
             ready = { port = true }\n"
        }
    };
    let stop = match known {
        Some(known) => format!("stop = {}\n", string(known.stop)),
        None => {
            "# Its own way to stop. Hone runs it before it sends SIGTERM.\n# stop = \"command\"\n".to_owned()
        }
    };
    format!("{placeholders}{args}{ready}{stop}")
}

fn check(choice: &Choice<'_>) -> &'static str {
    match choice.load {
        Load::Kafka => "",
        Load::Run => {
            "# FILL IN: a command that exits with 0 if the program works correctly; every variant must pass \
             it\n# check = \"command {program}\"\n"
        }
        Load::Command => {
            "# FILL IN: a command that exits with 0 if the started program works correctly; every variant \
             must pass it\n# check = \"command {port}\"\n"
        }
    }
}

fn workloads(choice: &Choice<'_>) -> String {
    let why = "# Training and judging must differ: a profile looks too good on its own training load.\n";
    let both = match choice.load {
        Load::Command => commands(choice),
        Load::Run => {
            "[workload.training]\n\
             run = [\"training-input\"]  # FILL IN: arguments for a few seconds of typical work\n\
             operations = 1  # FILL IN: the amount of work, in your own unit\n\n\
             [workload.judging]\n\
             run = [\"judging-input\"]  # FILL IN: the same work on other data\n\
             operations = 1  # FILL IN: the amount of work\n"
                .to_owned()
        }
        Load::Kafka => {
            "[workload.training]\nseed = 1001\nrequests_per_s = 2000\nrecords_per_batch = 8\nrecord_bytes = 300\n\
             payload = \"telemetry\"\ncompression = \"lz4\"\nduration_s = 10\n\n\
             [workload.judging]\nseed = 1\nrequests_per_s = 2000\nrecords_per_batch = 5\nrecord_bytes = 500\n\
             payload = \"orders\"\ncompression = \"lz4\"\nduration_s = 5\n"
                .to_owned()
        }
    };
    format!("{why}{both}")
}

fn commands(choice: &Choice<'_>) -> String {
    let table = |name: &str, command: &str, operations: u64, fill_in: &str| {
        format!("[workload.{name}]\ncommand = {}{fill_in}\noperations = {operations}\n", string(command))
    };
    if let Some(known) = known(choice.program) {
        let training = table("training", known.training, known.training_operations, "");
        return format!("{training}\n{}", table("judging", known.judging, known.judging_operations, ""));
    }
    let (load, [first, second]) = if choice.survey.signs.http {
        let path = |path: &str| format!("{HTTP_LOAD} http://127.0.0.1:{{port}}/?{path}");
        (true, [path("training"), path("judging")])
    } else {
        let seed =
            |seed: u32| format!("your-load --to 127.0.0.1:{{port}} --requests {{operations}} --seed {seed}");
        (false, [seed(1001), seed(1)])
    };
    let what = if load {
        "requests that users send; h2load also succeeds on 404 answers"
    } else {
        "the program that loads it"
    };
    let training = table("training", &first, 50_000, &format!("  # {MARK}: {what}"));
    let judging = table("judging", &second, 20_000, &format!("  # {MARK}: other ones of the same kind"));
    format!(
        "# {{operations}} is the number below; Hone prints the CPU per operation. A run of a few hundred \
         milliseconds is enough.\n{training}\n{judging}"
    )
}

fn optimize(kind: Kind) -> String {
    let variants = match kind {
        Kind::Elf => {
            list([variants::BASELINE, variants::SAMPLED_BOLT, variants::EMULATED_BOLT, variants::BOLT])
        }
        Kind::Go => list([variants::BASELINE, variants::PGO]),
        Kind::Cargo | Kind::CMake | Kind::Meson | Kind::Make => {
            list([variants::BASELINE, variants::PGO, variants::BOLT, variants::PGO_BOLT])
        }
    };
    format!(
        "[optimize]\n\
         train = \"training\"\n\
         judge = [\"judging\"]  # the first one decides the verdict\n\
         # variants = {variants}    # without it: all that this target and this machine support\n"
    )
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::*;
    use hone_experiment::spec;

    fn survey(kind: Kind, programs: &[(&str, &str)], signs: Signs, before: &[&str]) -> Survey {
        let program = |&(name, home): &(&str, &str)| Program { name: name.to_owned(), home: home.to_owned() };
        let found = Found {
            kind,
            file: PathBuf::from("the-file"),
            programs: programs.iter().map(program).collect(),
            before: before.iter().map(|&word| word.to_owned()).collect(),
        };
        Survey { folder: "/w/x".into(), name: "x".into(), found: vec![found], signs }
    }

    fn written(survey: &Survey, load: Load, source: &str) -> String {
        let found = &survey.found[0];
        text(&Choice { survey, found, program: &found.programs[0], load, source, trouble: None }, "hone.toml")
    }

    const SERVES: Signs = Signs { listens: true, http: false, pprof: false };

    #[test]
    fn every_form_parses_with_every_load() {
        let all = [Load::Command, Load::Run, Load::Kafka];
        let kinds = [Kind::Cargo, Kind::Go, Kind::CMake, Kind::Meson, Kind::Make, Kind::Elf];
        let befores: [&[&str]; 3] = [&[], &["./configure"], &["autoreconf -fi", "./configure"]];
        let flags = [false, true];
        for kind in kinds {
            for load in all {
                for (before, http, pprof) in
                    befores.iter().flat_map(|before| flags.map(|flag| (before, flag, !flag)))
                {
                    let signs = Signs { listens: true, http, pprof };
                    let survey = survey(kind, &[("a \"b\"", "src"), ("other", "")], signs, before);
                    for source in [".", "/w/a \"tree\""] {
                        let text = written(&survey, load, source);
                        let parsed = spec::parse(&text, Path::new("hone.toml"));
                        assert!(parsed.is_ok(), "{}\n{text}", parsed.unwrap_err());
                    }
                }
            }
        }
    }

    /// A name with a character that would end a TOML string, and one that a name must not have.
    #[test]
    fn what_speaks_kafka_gets_a_file_to_tune_it() {
        let folder = tempfile::tempdir().unwrap();
        let survey = survey(Kind::CMake, &[("broker", "src")], SERVES, &[]);
        let found = &survey.found[0];
        let choice = |load| Choice {
            survey: &survey,
            found,
            program: &found.programs[0],
            load,
            source: ".",
            trouble: None,
        };
        for load in [Load::Command, Load::Run] {
            assert_eq!(tune_text(&choice(load), "hone.toml", "tune.toml"), None);
        }
        std::fs::write(folder.path().join("my \"x\".toml"), "").unwrap();
        let text = tune_text(&choice(Load::Kafka), "my \"x\".toml", "tune.toml").unwrap();
        let asked = crate::file::parse(&text, &folder.path().join("tune.toml"), "unused").unwrap();
        assert_eq!((asked.budget_s, &*asked.name), (Some(3_600.0), "x-tune"));
        assert_eq!(to_fill_in(&text).len(), 5, "{text}");
    }

    #[test]
    fn every_example_is_an_experiment() {
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
        let mut seen = 0;
        for entry in std::fs::read_dir(examples).unwrap() {
            let file = entry.unwrap().path().join("hone.toml");
            let Ok(text) = std::fs::read_to_string(&file) else { continue };
            let parsed = spec::parse(&text, &file);
            assert!(parsed.is_ok(), "{}", parsed.unwrap_err());
            seen += 1;
        }
        assert!(seen >= 6, "{seen}");
    }

    #[test]
    fn what_is_to_fill_in_is_told_with_its_line() {
        let survey = survey(Kind::CMake, &[("server", "src")], SERVES, &[]);
        let text = written(&survey, Load::Command, ".");
        let told = to_fill_in(&text);
        assert_eq!(told.len(), 5, "{text}");
        for (line, what) in told {
            let line = text.lines().nth(line - 1).unwrap();
            assert!(line.ends_with(&what) && line.contains("# FILL IN: "), "{line}");
        }
        assert!(text.contains("program = \"hone-build/src/server\"  # FILL IN"), "{text}");
    }

    #[test]
    fn a_server_that_is_known_has_its_load() {
        let survey = survey(Kind::Make, &[("redis-server", "src")], SERVES, &[]);
        let text = written(&survey, Load::Command, ".");
        assert!(
            text.contains("program = \"src/redis-server\"") && text.contains("shutdown nosave"),
            "{text}"
        );
        // The program's path, and its check.
        assert_eq!(to_fill_in(&text).len(), 2, "{text}");
    }

    #[test]
    fn what_never_waits_for_a_connection_is_run() {
        let program = Program { name: "tool".into(), home: String::new() };
        let silent = survey(Kind::Make, &[], Signs::default(), &[]);
        assert_eq!(likely_load(&silent, &program), Load::Run);
        assert_eq!(likely_load(&survey(Kind::Make, &[], SERVES, &[]), &program), Load::Command);
        let redis = Program { name: "redis-server".into(), ..program };
        assert_eq!(likely_load(&silent, &redis), Load::Command);
    }
}
