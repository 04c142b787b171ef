//! How `--help` looks: verbs in groups, `-h` on one screen with three examples, shared options by reference.

use std::fmt::Write as _;

use clap::{Arg, Command};

/// The verbs by what a user wants of them, in the order in which `hone --help` lists them.
pub const GROUPS: [(&str, &[&str]); 4] = [
    ("Measure", &["load", "compare", "merge", "broker"]),
    ("Improve", &["init", "optimize", "tune", "batch", "fetch", "host"]),
    ("Diagnose", &["doctor", "diagnose", "heatmap", "profile", "cost"]),
    (
        "Keep",
        &["gate", "history", "ledger", "report", "serve", "connection", "completions", "man", "version"],
    ),
];

/// Headings of options that several verbs share. The reference has them on one page.
pub const SHARED: [&str; 5] = ["Workload", "Clients", "Connection", "Verdict", "Target metrics"];

/// Headings whose options `-h` leaves out, besides the shared ones.
const RARE: [&str; 3] = ["Several generators", "Today's settings", "Live page"];

/// Options that `-h` leaves out where they stand.
const RARE_OPTIONS: [&str; 45] = [
    "a-build",
    "allow-mismatch",
    "b-build",
    "baseline-file",
    "batch-bytes",
    "batches-per-s",
    "busy-metric",
    "changed",
    "commit",
    "confirm-within",
    "confirmations",
    "factorial",
    "fetch-max-bytes",
    "gate-only",
    "groups",
    "hgrm",
    "history-length",
    "history-step",
    "idle",
    "image",
    "inspect",
    "keep-topics",
    "make-topic",
    "max-partition-fetch-bytes",
    "max-windows",
    "metrics-token-file",
    "no-pinning",
    "observe",
    "plan-only",
    "precision",
    "predicted",
    "rate-step",
    "raw",
    "read-timeout",
    "remote-hone",
    "replay-timeout",
    "reserve",
    "root",
    "save-baseline",
    "select",
    "series",
    "settle",
    "source-broker",
    "turn",
    "watchdog-timeout",
];

/// Options of the shared headings that `-h` shows all the same: hardly a load goes without them.
const ESSENTIAL: [&str; 7] = ["rate", "duration", "records", "bytes", "acks", "connections", "connection"];

/// Examples that `-h` shows.
const EXAMPLES: usize = 3;

/// The program with its help in Hone's form.
pub fn dressed(program: Command) -> Command {
    let groups = groups(&program);
    let program = program.help_template(format!(
        "{{about}}\n\n{{usage-heading}} {{usage}}\n{groups}\nOptions:\n{{options}}{{after-help}}"
    ));
    program.subcommand_value_name("VERB").mut_subcommands(|command| verb(command, "hone"))
}

/// A verb, and the verbs below it. `above` is how a user types what it is below.
fn verb(command: Command, above: &str) -> Command {
    let path = format!("{above} {}", command.get_name());
    let has_steps = command.get_subcommands().next().is_some();
    let command = command.mut_args(argument).mut_subcommands(|step| verb(step, &path));
    match command.get_after_long_help().map(ToString::to_string) {
        Some(long) if !has_steps => {
            let more = format!("\nAll options and more examples: `{path} --help`");
            command.after_help(examples(&long) + &more).after_long_help(long)
        }
        _ => command,
    }
}

/// An option whose short help is the first sentence. A number below zero is a value, which its parser refuses with a reason, and no unknown
/// option.
fn argument(arg: Arg) -> Arg {
    let arg = if arg.get_action().takes_values() { arg.allow_negative_numbers(true) } else { arg };
    let is_apart = |heading| SHARED.contains(&heading) || RARE.contains(&heading);
    let is_essential = arg.get_long().is_some_and(|long| ESSENTIAL.contains(&long));
    let is_rare = arg.get_long().is_some_and(|long| RARE_OPTIONS.contains(&long));
    let is_hidden = is_rare || (!is_essential && arg.get_help_heading().is_some_and(is_apart));
    let whole = arg.get_long_help().or(arg.get_help()).map(ToString::to_string).unwrap_or_default();
    let first = first_sentence(&whole).to_owned();
    let arg = arg.hide_short_help(is_hidden).help(first.clone());
    if first == whole { arg } else { arg.long_help(whole) }
}

/// A text up to its first full stop, without it. A stop inside of a word or in brackets ends nothing.
fn first_sentence(text: &str) -> &str {
    let ends = text.match_indices(". ").chain(text.match_indices(".\n"));
    let starts_anew = |place: usize| {
        let next = text[place + 1..].trim_start().chars().next();
        next.is_some_and(|next| next.is_uppercase() || ['`', '-', '['].contains(&next))
    };
    let end = ends.map(|(place, _)| place).filter(|place| starts_anew(*place)).min();
    end.map_or(text.trim_end_matches('.'), |end| &text[..end])
}

/// The verbs in their groups, each with its summary.
fn groups(program: &Command) -> String {
    let mut text = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(text, "\n{title}:");
        for command in names.iter().filter_map(|name| program.find_subcommand(name)) {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {:<12}{about}", command.get_name());
        }
    }
    text
}

/// The heading and the first examples of a help text, each with the lines that continue it.
fn examples(long: &str) -> String {
    let mut lines = long.lines().skip_while(|line| !line.starts_with("Examples"));
    let mut text: Vec<&str> = lines.next().into_iter().collect();
    let mut count = 0;
    let mut continues = false;
    for line in lines.take_while(|line| line.starts_with("  ")) {
        if !continues && count == EXAMPLES {
            break;
        }
        count += usize::from(!continues && !line.trim_start().starts_with('#'));
        text.push(line);
        continues = line.ends_with('\\');
    }
    text.join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sentence_is_the_short_help() {
        for (text, expected) in [
            ("Length of the window", "Length of the window"),
            ("Length. More of it.", "Length"),
            ("A rule: p99.9<10ms, say. [default: none]", "A rule: p99.9<10ms, say"),
            ("In .toml form. `x` follows", "In .toml form"),
            ("e.g. this. Then that", "e.g. this"),
        ] {
            assert_eq!(first_sentence(text), expected, "{text}");
        }
    }

    #[test]
    fn three_examples_come_first() {
        let long =
            "Examples:\n  hone a \\\n    --b\n  # a remark\n  hone c\n  hone d\n  hone e\n\nMore:\n  hone f";
        assert_eq!(examples(long), "Examples:\n  hone a \\\n    --b\n  # a remark\n  hone c\n  hone d\n");
    }
}
