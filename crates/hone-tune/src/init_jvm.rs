//! Writes the first file of a Java service: of a jar, or of a running process.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_experiment::ending::Usage;
use hone_experiment::jvm::launcher;
use hone_experiment::targets::listens_on;
pub use hone_jvm::command::is_jar;
use hone_jvm::command::{JavaCommand, Runs};
use hone_jvm::conflicts::conflicts;
use hone_jvm::jdk::Jdk;
use hone_jvm::recipe::USUAL;

use crate::init_text::{Seen, Written, to_fill_in};
use crate::new_file::{name_of, output_file, write_new};
use crate::starter::{self, Load, MARK};

/// Variables whose options the launcher and the virtual machine take before those of the command line.
const VARIABLES: [&str; 2] = ["JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"];
/// A class path of more jars of one folder is written as `FOLDER/*`.
const SINGLE_JARS: usize = 4;
/// The class of Apache Kafka's broker.
const KAFKA: &str = "kafka.Kafka";

/// A service as it was found.
#[derive(Debug)]
struct JavaService {
    /// Where it was found, for people.
    place: PathBuf,
    /// The launcher as the file will name it.
    java: String,
    jdk: Option<Jdk>,
    command: JavaCommand,
}

/// Writes the file of a jar.
///
/// # Errors
/// When the jar can't be read, or the file exists already.
pub fn write_for_jar(jar: &Path, output: Option<&Path>) -> Result<Written> {
    let path = jar.canonicalize().with_context(|| format!("{} can't be read", jar.display()))?;
    let command = JavaCommand {
        java: "java".to_owned(),
        options: Vec::new(),
        runs: Runs::Jar(path.display().to_string()),
        args: Vec::new(),
    };
    let jdk = hone_experiment::arm::find_program("java").ok().and_then(|java| Some(launcher(&java).ok()?.1));
    write(&JavaService { place: path, java: "java".to_owned(), jdk, command }, output)
}

/// Writes the file of a running process. It is only read.
///
/// # Errors
/// When the process is not `java`, can't be read, or the file exists already.
pub fn write_for_process(pid: u32, output: Option<&Path>) -> Result<Written> {
    write(&of_process(Path::new("/proc"), pid)?, output)
}

fn of_process(proc: &Path, pid: u32) -> Result<JavaService> {
    let folder = proc.join(pid.to_string());
    let read_link = |name: &str| {
        fs::read_link(folder.join(name)).with_context(|| {
            format!("process {pid} can't be read\n  next: check the id, and run as the user of the process or as root")
        })
    };
    let exe = read_link("exe")?;
    if exe.file_name().is_none_or(|name| name != "java") {
        bail!(Usage(format!(
            "process {pid} is {}, and not a Java virtual machine\n  next: name the process of java itself, for example \
             of `pgrep -f kafka.Kafka`",
            exe.display()
        )));
    }
    let cwd = read_link("cwd")?;
    let words = texts(&folder.join("cmdline"))?;
    let mut command = JavaCommand::parse(&words).map_err(|error| {
        Usage(format!("process {pid}: {error}\n  next: write its options into a hone.toml by hand"))
    })?;
    // Another user's environment can't be read, and is then no part of the file.
    let environment = texts(&folder.join("environ")).unwrap_or_default();
    let inherited = VARIABLES
        .iter()
        .filter_map(|name| environment.iter().find_map(|entry| entry.strip_prefix(name)?.strip_prefix('=')));
    let inherited: Vec<String> = inherited.filter_map(shlex::split).flatten().collect();
    command.options.splice(0..0, inherited);
    make_absolute(&mut command, &cwd);
    let is_own = |port: u16| listens_on(&format!("127.0.0.1:{port}")).is_some_and(|(owner, _)| owner == pid);
    command.args.iter_mut().for_each(|arg| *arg = with_placeholder(arg, is_own));
    let (java, jdk) = match launcher(&exe) {
        Ok((java, jdk)) => (java, Some(jdk)),
        Err(_) => (exe.clone(), None),
    };
    Ok(JavaService { place: exe, java: java.display().to_string(), jdk, command })
}

/// Texts that end with NUL.
fn texts(path: &Path) -> Result<Vec<String>> {
    let bytes = fs::read(path).with_context(|| format!("{} can't be read", path.display()))?;
    let texts = bytes.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
    let mut texts: Vec<String> = texts.collect();
    texts.pop_if(|last| last.is_empty());
    Ok(texts)
}

/// An argument with `{port}` in place of a port on which the process listens.
fn with_placeholder(arg: &str, is_own: impl Fn(u16) -> bool) -> String {
    let is_digit = |letter: char| letter.is_ascii_digit();
    let numbers = arg.split(|letter| !is_digit(letter)).filter(|number| !number.is_empty());
    let port =
        numbers.filter_map(|number| Some((number, number.parse().ok()?))).find(|(_, port)| is_own(*port));
    match port {
        Some((number, _)) => arg.replacen(number, "{port}", 1),
        None => arg.to_owned(),
    }
}

/// The file lies elsewhere than the process runs.
fn make_absolute(command: &mut JavaCommand, cwd: &Path) {
    if let Runs::Jar(jar) = &mut command.runs {
        *jar = cwd.join(&*jar).display().to_string();
    }
    let path: Vec<String> =
        command.class_path().into_iter().map(|entry| cwd.join(entry).display().to_string()).collect();
    if matches!(command.runs, Runs::Class(_)) {
        command.remove_class_path();
        command.set_class_path(&path.join(":"));
    }
}

fn write(found: &JavaService, output: Option<&Path>) -> Result<Written> {
    let file = output_file(output, "hone.toml")?;
    let program = program_of(found);
    let load = load_of(found);
    let text = text(found, &program, load, &name_of(&file));
    write_new(&file, &text)?;
    let seen = Seen { file: found.place.clone(), kind: "Java", programs: vec![program.clone()], used: true };
    let load = crate::init::load_words(load);
    Ok(Written { file, saw: vec![seen], program, load, fill_in: to_fill_in(&text), tune: None })
}

fn load_of(found: &JavaService) -> Load {
    if found.command.runs == Runs::Class(KAFKA.to_owned()) { Load::Kafka } else { Load::Command }
}

fn program_of(found: &JavaService) -> String {
    match &found.command.runs {
        Runs::Jar(jar) => Path::new(jar).file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        Runs::Class(name) | Runs::Module(name) => name.rsplit(['.', '/']).next().unwrap_or(name).to_owned(),
    }
}

fn text(found: &JavaService, program: &str, load: Load, own: &str) -> String {
    let command = &found.command;
    let mut lines = vec![
        format!("# Written by `hone init`. Values that only you can know are marked {MARK}."),
        "# All keys: docs/jvm.md and docs/optimize.md.".to_owned(),
        "#".to_owned(),
        format!("#     hone optimize {own} --dry-run    # the command line of each variant; starts nothing"),
        format!("#     hone optimize {own}"),
        String::new(),
        format!("name = {}", starter::string(&program.to_lowercase())),
        String::new(),
        "[target]".to_owned(),
        "kind = \"jvm\"".to_owned(),
    ];
    let jdk = found.jdk.as_ref().map(|jdk| format!("  # {}", jdk.title())).unwrap_or_default();
    lines.push(format!("java = {}{jdk}", starter::string(&found.java)));
    for conflict in conflicts(command, found.jdk.as_ref().map(|jdk| jdk.feature)) {
        lines.push(format!("# {} contradict each other: {}", conflict.options.join(" and "), conflict.why));
    }
    lines.push(list("options", &without_class_path(command)));
    match &command.runs {
        Runs::Jar(jar) => lines.push(format!("jar = {}", starter::string(jar))),
        Runs::Module(module) => lines.push(format!("module = {}", starter::string(module))),
        Runs::Class(class) => {
            lines.push(list("class_path", &folded(&command.class_path())));
            lines.push(format!("main = {}", starter::string(class)));
        }
    }
    lines.extend(arguments(command, load));
    lines.push("# ready = { http = \"/health\" }  # when it is ready; otherwise when it listens, or a broker answers".to_owned());
    lines.push("storage = \"unknown\"".to_owned());
    lines.push("\n[optimize]\ntrain = \"train\"\njudge = [\"judge\"]".to_owned());
    let variants: Vec<String> = USUAL.map(str::to_owned).to_vec();
    lines.push(format!("{}  # also heap=2g, numa, jdk=FOLDER, aot+zgc ...", list("variants", &variants)));
    lines.push(
        "\n[compare]\nblock_rounds = 6  # rounds for each start, because a virtual machine warms up for long"
            .to_owned(),
    );
    for (name, seed) in [("train", 1), ("judge", 2)] {
        lines.push(format!("\n[workload.{name}]"));
        lines.push(match load {
            Load::Kafka => format!(
                "seed = {seed}\nrequests_per_s = 2000  # {MARK}: about what it gets in production\nrecord_bytes = 500\n\
                 records_per_batch = 4\npayload = \"orders\"\nwarmup_requests = 60000\nduration_s = 10"
            ),
            Load::Command | Load::Run => format!(
                "command = \"./load.sh {{port}} {{operations}} {seed}\"  # {MARK}: sends this many requests, and ends\n\
                 warmup = \"./load.sh {{port}} 20000 3\"  # {MARK}: enough that nothing is compiled any more\n\
                 operations = 10000"
            ),
        });
    }
    lines.join("\n") + "\n"
}

/// The arguments, and the command that gives each start a port and a folder of its own.
fn arguments(command: &JavaCommand, load: Load) -> Vec<String> {
    let args = match (load, &command.args[..]) {
        (Load::Kafka, _) => vec!["{data}/server.properties".to_owned()],
        (_, []) => vec!["{port}".to_owned()],
        (_, args) => args.to_vec(),
    };
    let has_port = args.iter().any(|arg| arg.contains("{port}"));
    let what = format!("# {MARK}: {{port}} where it listens, {{data}} for its data: each start has its own");
    let prepare = "prepare = \"./prepare.sh {port} {port2} {data}\"";
    let prepare = match has_port {
        true => format!("# {prepare}  # runs before each start, for example to write a configuration"),
        false => format!("{prepare}  # {MARK}: writes the configuration with this port, before each start"),
    };
    vec![what, list("args", &args), prepare]
}

/// Options of the virtual machine without the class path, which has a key of its own.
fn without_class_path(command: &JavaCommand) -> Vec<String> {
    let mut command = command.clone();
    command.remove_class_path();
    command.options
}

/// The class path with `FOLDER/*` for folders of which it has many jars.
fn folded(path: &[&str]) -> Vec<String> {
    let folder_of = |entry: &str| {
        is_jar(Path::new(entry))
            .then(|| Path::new(entry).parent().map(|folder| folder.display().to_string()))?
    };
    let mut found: Vec<String> = Vec::new();
    for entry in path {
        let folder = folder_of(entry);
        let count = path.iter().filter(|other| folder.is_some() && folder_of(other) == folder).count();
        let text = match folder {
            Some(folder) if count > SINGLE_JARS => format!("{folder}/*"),
            _ => (*entry).to_owned(),
        };
        if !found.contains(&text) {
            found.push(text);
        }
    }
    found
}

/// A key with a list: on one line if it is short.
fn list(key: &str, values: &[String]) -> String {
    const WIDE: usize = 100;
    let quoted: Vec<String> = values.iter().map(|value| starter::string(value)).collect();
    let line = format!("{key} = [{}]", quoted.join(", "));
    if line.len() <= WIDE {
        return line;
    }
    let lines: String = quoted.iter().map(|value| format!("  {value},\n")).collect();
    format!("{key} = [\n{lines}]")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use hone_experiment::spec;

    /// A process in a folder that stands for `/proc`.
    fn process(exe: &str, cmdline: &[&str], environ: &[&str]) -> tempfile::TempDir {
        let proc = tempfile::tempdir().unwrap();
        let own = proc.path().join("7");
        fs::create_dir(&own).unwrap();
        symlink(exe, own.join("exe")).unwrap();
        symlink("/srv/app", own.join("cwd")).unwrap();
        let joined = |words: &[&str]| words.iter().map(|word| format!("{word}\0")).collect::<String>();
        fs::write(own.join("cmdline"), joined(cmdline)).unwrap();
        fs::write(own.join("environ"), joined(environ)).unwrap();
        proc
    }

    fn written(found: &JavaService) -> String {
        text(found, &program_of(found), load_of(found), "hone.toml")
    }

    #[test]
    fn a_running_kafka_becomes_a_file_that_can_be_read() {
        let jars: Vec<String> = (0..9).map(|number| format!("/opt/kafka/libs/{number}.jar")).collect();
        let words = [
            "java",
            "-Xmx1G",
            "-Xms1G",
            "-XX:+UseG1GC",
            "-cp",
            &jars.join(":"),
            KAFKA,
            "config/server.properties",
        ];
        let proc = process("/opt/jdk/bin/java", &words, &["PATH=/bin", "JAVA_TOOL_OPTIONS=-Dx='a b'"]);
        let found = of_process(proc.path(), 7).unwrap();
        let text = written(&found);
        let experiment = spec::parse(&text, Path::new("hone.toml")).unwrap();
        let spec::target::Form::Jvm(jvm) = &experiment.target.form else { panic!("{text}") };
        assert_eq!(jvm.options, ["-Dx=a b", "-Xmx1G", "-Xms1G", "-XX:+UseG1GC"]);
        assert_eq!(jvm.class_path, [Path::new("/opt/kafka/libs/*")]);
        assert_eq!(jvm.runs, Runs::Class(KAFKA.to_owned()));
        assert!(text.contains("warmup_requests = 60000") && text.contains(MARK), "{text}");
    }

    #[test]
    fn a_jar_is_named_by_its_whole_path_and_conflicts_are_told() {
        let words = ["java", "-Xms2g", "-Xmx1g", "-jar", "app.jar", "--port", "8080"];
        let proc = process("/opt/jdk/bin/java", &words, &[]);
        let text = written(&of_process(proc.path(), 7).unwrap());
        assert!(text.contains("jar = \"/srv/app/app.jar\"") && text.contains("name = \"app\""), "{text}");
        assert!(text.contains("# -Xms2g and -Xmx1g contradict each other"), "{text}");
        spec::parse(&text, Path::new("hone.toml")).unwrap();
    }

    #[test]
    fn a_port_on_which_it_listens_becomes_a_placeholder() {
        let replaced = |arg: &str| with_placeholder(arg, |port| port == 8080);
        assert_eq!(replaced("8080"), "{port}");
        assert_eq!(replaced("--listen=10.0.0.1:8080"), "--listen=10.0.0.1:{port}");
        assert_eq!(replaced("--server.port=9090"), "--server.port=9090");
        assert_eq!(replaced("99999999"), "99999999");
    }

    #[test]
    fn what_is_no_java_is_refused() {
        let shell = process("/bin/bash", &["bash"], &[]);
        let told = of_process(shell.path(), 7).unwrap_err().to_string();
        assert!(told.contains("process 7 is /bin/bash") && told.contains("next:"), "{told}");
        let nothing = process("/opt/jdk/bin/java", &["java", "-version"], &[]);
        assert!(of_process(nothing.path(), 7).unwrap_err().to_string().contains("names no class"));
        assert!(of_process(nothing.path(), 8).unwrap_err().to_string().contains("process 8 can't be read"));
    }
}
