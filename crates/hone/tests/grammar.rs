//! One grammar for the command line, walked over clap's own model: a flag has one name and one meaning in all verbs, defaults stand in
//! `[default: ...]`, summaries are short, and `-h` fits on a screen.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use clap::{Arg, Command};

/// All verbs that users see, each with its path (`hone batch xray`).
fn verbs() -> Vec<(String, Command)> {
    let mut program = hone::command_line();
    program.build();
    let mut found = Vec::new();
    walk("hone", &program, &mut found);
    found
}

fn walk(path: &str, command: &Command, found: &mut Vec<(String, Command)>) {
    for verb in command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help") {
        let path = format!("{path} {}", verb.get_name());
        walk(&path, verb, found);
        found.push((path, verb.clone()));
    }
}

/// Options that users see.
fn options(verb: &Command) -> impl Iterator<Item = &Arg> {
    verb.get_arguments().filter(|arg| !arg.is_hide_set() && !arg.is_positional())
}

fn help(arg: &Arg) -> String {
    let text = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The short help, which says what an option is. What follows in the long one is of a verb.
fn meaning(arg: &Arg) -> String {
    arg.get_help().map(ToString::to_string).unwrap_or_default()
}

/// Each name with its meanings, and the verbs that give it that one.
fn meanings() -> BTreeMap<String, BTreeMap<(String, String), Vec<String>>> {
    let mut found: BTreeMap<String, BTreeMap<(String, String), Vec<String>>> = BTreeMap::new();
    for (path, verb) in verbs() {
        for arg in options(&verb).filter(|arg| arg.get_long().is_some_and(|long| long != "help")) {
            let name = arg.get_long().unwrap_or_default().to_owned();
            let value = arg.get_value_names().unwrap_or_default().join(" ");
            let value = if arg.get_action().takes_values() { value } else { String::new() };
            found.entry(name).or_default().entry((value, meaning(arg))).or_default().push(path.clone());
        }
    }
    found
}

#[test]
fn a_name_has_one_meaning() {
    let meanings = meanings();
    assert!(meanings.len() > 200, "the options were not found: {}", meanings.len());
    let several = meanings.iter().filter(|(_, found)| found.len() > 1);
    let faults: Vec<String> = several
        .map(|(name, found)| {
            let each = found
                .iter()
                .map(|((value, text), verbs)| format!("\n    <{value}> {text} ({})", verbs.join(", ")));
            format!("--{name}{}", each.collect::<String>())
        })
        .collect();
    assert!(faults.is_empty(), "{} names have several meanings:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn a_meaning_has_one_name() {
    let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, found) in meanings() {
        for ((_, text), _) in found {
            names.entry(text).or_default().insert(name.clone());
        }
    }
    let faults: Vec<String> = names
        .iter()
        .filter(|(_, names)| names.len() > 1)
        .map(|(text, names)| format!("{text}: {names:?}"))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_short_name_belongs_to_one_long_name() {
    let mut longs: BTreeMap<char, BTreeSet<String>> = BTreeMap::new();
    for (_, verb) in verbs() {
        for arg in options(&verb) {
            if let (Some(short), Some(long)) = (arg.get_short(), arg.get_long()) {
                longs.entry(short).or_default().insert(long.to_owned());
            }
        }
    }
    assert!(longs.values().all(|names| names.len() == 1), "{longs:?}");
}

/// How prose says a default. clap prints those that are constants, and `[default: ...]` is for the others.
const DEFAULTS_IN_PROSE: [&str; 6] =
    ["unless given", "unless named", "unless told", "by default", "unless said", "default is"];

#[test]
fn defaults_stand_in_brackets() {
    let mut faults = Vec::new();
    for (path, verb) in verbs() {
        for arg in verb.get_arguments().filter(|arg| !arg.is_hide_set()) {
            let help = help(arg).to_lowercase();
            if let Some(words) = DEFAULTS_IN_PROSE.iter().find(|words| help.contains(*words)) {
                faults.push(format!("{path} {}: \"{words}\"", arg.get_id()));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_value_has_a_name_of_the_same_few() {
    let banned = ["DIR", "PLACE", "MS", "MIB", "SECONDS", "NUMBER", "BYTES", "PERCENT"];
    let faults: Vec<String> = meanings()
        .into_iter()
        .flat_map(|(name, found)| found.into_keys().map(move |(value, _)| (name.clone(), value)))
        .filter(|(_, value)| banned.contains(&value.as_str()))
        .map(|(name, value)| format!("--{name} <{value}>"))
        .collect();
    assert!(faults.is_empty(), "{faults:?}");
}

#[test]
fn every_verb_has_a_short_summary() {
    for (path, verb) in verbs() {
        let about = verb.get_about().map(ToString::to_string).unwrap_or_default();
        let words = about.split_whitespace().count();
        assert!((2..=12).contains(&words), "{path}: {words} words: {about}");
    }
}

/// Lines of a screen. `hone VERB -h` wraps at 100 columns where it is no terminal.
const SCREEN: usize = 52;

#[test]
fn the_short_help_fits_on_a_screen_and_ends_with_examples() {
    let mut faults = Vec::new();
    for (path, mut verb) in verbs() {
        let text = verb.render_help().to_string();
        let lines = text.lines().count();
        if lines > SCREEN {
            faults.push(format!("{path}: {lines} lines"));
        }
        let has_steps = verb.get_subcommands().any(|step| step.get_name() != "help");
        let wants_examples = verb.get_after_long_help().is_some() && !has_steps;
        if wants_examples && !text.contains("Examples:") {
            faults.push(format!("{path}: no examples"));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The verbs that `hone --help` lists are all that there are, each in one group.
#[test]
fn the_groups_have_every_verb() {
    let help = hone::command_line().render_long_help().to_string();
    for (path, _) in verbs().iter().filter(|(path, _)| path.split(' ').count() == 2) {
        let name = path.trim_start_matches("hone ");
        let listed = help.lines().filter(|line| line.split_whitespace().next() == Some(name)).count();
        assert_eq!(listed, 1, "{name} in:\n{help}");
    }
    for group in ["Measure:", "Improve:", "Diagnose:", "Keep:"] {
        assert!(help.contains(group), "{help}");
    }
}

/// What a user reads of a line that clap refuses.
fn said(line: &str) -> String {
    let arguments: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    let program = hone::command_line();
    let error = program.clone().try_get_matches_from(&arguments).unwrap_err();
    hone_cli::refused::text(&error, &program, &arguments).unwrap()
}

#[test]
fn a_refused_line_says_what_where_why_and_next() {
    for (line, expected) in [
        (
            "hone load --ratee 5 b:1",
            "`hone load` has no argument `--ratee`\n  next: did you mean `--rate`? See `hone load --help`",
        ),
        ("hone lod b:1", "`hone` has no verb `lod`\n  next: did you mean `load`? See `hone --help`"),
        ("hone load --duration", "--duration: the value is missing\n  next: see `hone load --help`"),
        (
            "hone load b:1 --records many",
            "--records `many`: use a whole number\n  next: see `hone load --help`",
        ),
        (
            "hone load b:1 --replication-factor 0",
            "--replication-factor `0`: use a whole number from 1 to 65535\n",
        ),
        (
            "hone load b:1 --duration 5x",
            "--duration `5x`: use a number with ms, s, m or h, for example `500ms`\n",
        ),
        ("hone compare a:1 b:1 --mode both", "--mode `both`: use one of solo, duet\n"),
        ("hone compare", "`hone compare` needs A and B\n"),
        (
            "hone batch xray --bogus",
            "`hone batch xray` has no argument `--bogus`\n  next: see `hone batch xray --help`",
        ),
    ] {
        let said = said(line);
        assert!(said.starts_with(expected), "{line}: {said}");
    }
}
