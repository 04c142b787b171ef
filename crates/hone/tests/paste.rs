//! Every example can be pasted: the commands of help texts and pages are command lines of this program, and TOML blocks are files that it reads.

use std::ffi::OsString;
use std::path::Path;

use clap::Command;
use regex::Regex;

mod book;
use book::{blocks, page, pages};

/// An example and where it stands.
struct Example {
    place: String,
    text: String,
}

/// Help texts of all verbs, each with the verb that prints it.
fn help_texts() -> Vec<Example> {
    fn walk(path: &str, command: &Command, found: &mut Vec<Example>) {
        let texts = [command.get_after_long_help(), command.get_long_about()];
        let texts = texts.into_iter().flatten().map(ToString::to_string);
        found.extend(texts.map(|text| Example { place: format!("{path} --help"), text }));
        for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            walk(&format!("{path} {}", verb.get_name()), verb, found);
        }
    }
    let mut found = Vec::new();
    walk("hone", &hone::command_line(), &mut found);
    found
}

/// Lines of a text, with those that `\` continues in one. A prompt is left away.
fn lines(text: &str) -> Vec<String> {
    let text = text.replace("\\\n", " ");
    text.lines().map(|line| line.trim().trim_start_matches("$ ").to_owned()).collect()
}

fn commands_of(example: &Example) -> Vec<Example> {
    let of_hone = |line: &String| line.starts_with("hone ") && !line.starts_with("hone: ");
    let all = lines(&example.text).into_iter().filter(of_hone);
    all.map(|text| Example { place: example.place.clone(), text }).collect()
}

/// Commands of help texts (their indented lines), and those of the pages' blocks.
fn commands() -> Vec<Example> {
    let indented =
        |text: &str| text.lines().filter(|line| line.starts_with("  ")).collect::<Vec<_>>().join("\n");
    let of_help = help_texts().into_iter().map(|help| Example { text: indented(&help.text), ..help });
    let of_pages = pages().into_iter().flat_map(|path| {
        let blocks = blocks(&page(&path)).into_iter().filter(|block| block.kind != "text");
        let of = |block: book::Block| Example {
            place: format!("{}:{}", path.display(), block.line),
            text: block.text,
        };
        blocks.map(of).collect::<Vec<_>>()
    });
    of_help.chain(of_pages).flat_map(|example| commands_of(&example)).collect()
}

/// The words of the first program of a line of a shell, with values in place of its variables.
fn words(line: &str) -> Option<Vec<String>> {
    let nested = Regex::new(r"\$\([^()]*\)").unwrap();
    let variable = Regex::new(r"\$\{?[A-Za-z_]+\}?").unwrap();
    let line = nested.replace_all(line, "1");
    let line = variable.replace_all(&line, "1");
    let ends = |word: &String| ["|", ">", ">>", "2>", "&&", ";", "&", "||", "<"].contains(&word.as_str());
    let words = shlex::split(&line.replace("; ", " ; "))?;
    Some(words.into_iter().take_while(|word| !ends(word)).collect())
}

/// What is wrong with a command, or nothing.
fn fault(command: &str) -> Option<String> {
    let Some(words) = words(command) else { return Some("the quotes are not closed".to_owned()) };
    let error = hone::command_line().try_get_matches_from(words).err()?;
    // `hone batch --help` is an error to clap.
    error.use_stderr().then(|| error.to_string().lines().next().unwrap_or_default().to_owned())
}

#[test]
fn every_command_is_one_of_this_program() {
    let commands = commands();
    assert!(commands.len() > 250, "the commands were not found: {}", commands.len());
    let faults: Vec<String> = commands
        .iter()
        .filter_map(|Example { place, text }| Some(format!("{place}: {text}\n    {}", fault(text)?)))
        .collect();
    assert!(faults.is_empty(), "{} of {}:\n{}", faults.len(), commands.len(), faults.join("\n"));
}

/// clap wraps a help text at the width of the terminal, and what is wrapped can't be pasted.
#[test]
fn no_example_is_wider_than_a_terminal() {
    let wide = |line: &&str| line.starts_with("  ") && line.chars().count() >= 80;
    let faults: Vec<String> = help_texts()
        .iter()
        .flat_map(|help| help.text.lines().filter(wide).map(|line| format!("{}: {line}", help.place)))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// An old name still works, and no example shows it.
#[test]
fn no_example_has_an_old_name() {
    let program = hone::command_line();
    let faults: Vec<String> = commands()
        .iter()
        .flat_map(|Example { place, text }| {
            let words: Vec<OsString> =
                words(text).unwrap_or_default().into_iter().map(OsString::from).collect();
            let warnings = hone_cli::old_names::warnings(&program, &words);
            warnings.into_iter().map(move |warning| format!("{place}: {text}: {warning}"))
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    let old: Vec<OsString> = ["hone", "compare", "--guard", "p99"].map(OsString::from).into();
    assert_eq!(hone_cli::old_names::warnings(&program, &old).len(), 1, "an old name is found");
}

#[test]
fn what_can_not_be_pasted_is_found() {
    assert_eq!(fault("hone load 127.0.0.1:9092 --rate 10 | tee out.txt"), None);
    assert_eq!(fault("hone diagnose --pid $(pidof redpanda)   # a remark"), None);
    assert_eq!(fault("hone batch --help"), None);
    assert!(fault("hone load 127.0.0.1:9092 --no-such 10").is_some());
    assert!(fault("hone load 'a").is_some());
    assert!(fault("hone no-such-verb").is_some());
}

/// What an experiment file needs besides what a page shows of it.
const EXPERIMENT: &str = r#"
name = "shown"
[target]
source = "."
build = ["make"]
program = "server"
args = ["{port}"]
"#;

/// The text with the workloads that it names and does not show, and one that judges.
fn completed(mut table: toml::Table) -> toml::Table {
    let base: toml::Table = EXPERIMENT.parse().unwrap();
    for (key, value) in base {
        table.entry(key).or_insert(value);
    }
    let named =
        |table: &toml::Table, key: &str| match table.get("optimize").and_then(|optimize| optimize.get(key)) {
            Some(toml::Value::Array(names)) => {
                names.iter().filter_map(|name| name.as_str().map(str::to_owned)).collect()
            }
            Some(toml::Value::String(name)) => vec![name.clone()],
            _ => Vec::new(),
        };
    let target = table.entry("target").or_insert_with(|| toml::Table::new().into()).as_table_mut().unwrap();
    target.entry("args").or_insert_with(|| toml::Value::Array(vec!["{port}".into()]));
    let mut names = [named(&table, "train"), named(&table, "judge")].concat();
    let empty = || toml::Value::Table(toml::Table::new());
    if !table.contains_key("gate") {
        let optimize = table.entry("optimize").or_insert_with(empty).as_table_mut().unwrap();
        for (key, name) in [("train", "trained"), ("judge", "judged")] {
            optimize.entry(key).or_insert_with(|| {
                names.push(name.to_owned());
                toml::Value::Array(vec![name.into()])
            });
        }
        // The workloads that the page leaves out are alike here.
        optimize.insert("judge_what_was_trained".to_owned(), true.into());
    }
    let workloads = table.entry("workload").or_insert_with(empty).as_table_mut().unwrap();
    let usual: toml::Value = toml::toml! { requests_per_s = 100 }.into();
    // Those that are not shown are of the same kind as the first that is.
    let like = workloads.values().next().cloned().unwrap_or(usual);
    for name in names {
        workloads.entry(name).or_insert_with(|| like.clone());
    }
    table
}

/// Whether a block of TOML is a file that Hone reads, by the tables that it has.
fn read(text: &str) -> Result<(), String> {
    let path = Path::new("shown.toml");
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    let has = |key: &str| table.contains_key(key);
    let told = |error: anyhow::Error| format!("{error:#}");
    if has("tune") {
        let mut whole = table.clone();
        whole.entry("name").or_insert("shown".into());
        let workload = toml::toml! { shown = { requests_per_s = 100 } };
        whole.entry("workload").or_insert(workload.into());
        let tune = whole["tune"].as_table_mut().ok_or("[tune] is no table")?;
        tune.entry("target").or_insert("127.0.0.1:9092".into());
        let text = &toml::to_string(&whole).map_err(|error| error.to_string())?;
        hone_tune::file::parse(text, path, "hone-broker").map(drop).map_err(told)
    } else if has("step") {
        hone_tune::batch::step::of_file(text, path).map(drop).map_err(told)
    } else if has("hosts") {
        hone_host::rollout::inventory::parse("shown", text).map(drop).map_err(|error| error.to_string())
    } else if has("knobs") {
        hone_host::profile::parse("shown", text).map(drop).map_err(|error| error.to_string())
    } else if has("bootstrap") || has("sasl") {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("shown.toml");
        std::fs::write(&file, text).unwrap();
        hone_experiment::connection::import::read(&file).map(drop).map_err(told)
    } else if has("target") || has("workload") || has("optimize") || has("gate") {
        let text = toml::to_string(&completed(table.clone())).map_err(|error| error.to_string())?;
        let read =
            if has("gate") { hone_experiment::spec::parse_for_gate } else { hone_experiment::spec::parse };
        read(&text, path).map(drop).map_err(|error| error.to_string())
    } else {
        Err(format!("no file of Hone has these tables: {:?}", table.keys().collect::<Vec<_>>()))
    }
}

/// The blocks of TOML: those of the pages, and in a help text the indented lines from a table or key on.
fn tomls() -> Vec<Example> {
    let of_pages = pages().into_iter().flat_map(|path| {
        let blocks = blocks(&page(&path)).into_iter().filter(|block| block.kind == "toml");
        let of = |block: book::Block| Example {
            place: format!("{}:{}", path.display(), block.line),
            text: block.text,
        };
        blocks.map(of).collect::<Vec<_>>()
    });
    let is_toml = Regex::new(r"(?m)^\s*(\[\[?[a-z_.]+\]\]?|[a-z_]+ = .+)$").unwrap();
    let of_help = help_texts().into_iter().flat_map(move |help| {
        let mut blocks: Vec<String> = vec![String::new()];
        for line in help.text.lines() {
            let belongs = line.starts_with("  ") && !line.trim().starts_with("hone ");
            match (belongs || line.trim().is_empty(), blocks.last_mut()) {
                (true, Some(block)) => *block += &format!("{line}\n"),
                _ => blocks.push(String::new()),
            }
        }
        blocks.retain(|block| {
            block.lines().any(|line| line.trim().starts_with('[')) && is_toml.is_match(block)
        });
        blocks.into_iter().map(move |text| Example { place: help.place.clone(), text }).collect::<Vec<_>>()
    });
    of_pages.chain(of_help).collect()
}

#[test]
fn every_block_of_toml_is_a_file_that_hone_reads() {
    let blocks = tomls();
    assert!(blocks.len() >= 10, "the blocks were not found: {}", blocks.len());
    assert!(
        blocks.iter().any(|block| block.place == "hone tune --help"),
        "the one of `hone tune --help` was not found"
    );
    let faults: Vec<String> = blocks
        .iter()
        .filter_map(|Example { place, text }| Some(format!("{place}: {}\n{text}", read(text).err()?)))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_block_that_is_no_file_is_found() {
    assert!(read("[tune]\ntarget = \"a:1\"\nbogus = 1\n").is_err());
    assert!(read("bogus = 1\n").unwrap_err().contains("no file of Hone"));
    assert!(read("[hosts\n").is_err());
    assert!(read("[[knobs]]\nname = \"vm.swappiness\"\nvalue = 1\nbogus = 2\n").is_err());
}
