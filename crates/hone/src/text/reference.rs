//! The command line as pages of Markdown: what `--help` says, to read and to link to.

use clap::{Arg, ArgAction, Command};

/// Pages by the names of their files: one for each verb, and an index.
pub(crate) fn pages(mut all: Command) -> Vec<(String, String)> {
    all.build();
    let verbs: Vec<&Command> = shown(&all).collect();
    let mut pages = vec![("index.md".to_owned(), index(&all, &verbs))];
    pages.extend(verbs.iter().map(|verb| (format!("{}.md", verb.get_name()), page(verb))));
    pages
}

/// Verbs that are for users.
fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
}

fn index(all: &Command, verbs: &[&Command]) -> String {
    let mut out = "# Reference\n\nWhat `hone VERB --help` says, made of the program itself (`hone reference --out docs/reference`).\n\n\
                   | verb | what it does |\n|---|---|\n"
        .to_owned();
    for verb in verbs {
        let name = verb.get_name();
        out += &format!("| [`hone {name}`]({name}.md) | {} |\n", cell(&about(verb)));
    }
    out += "\nEvery verb takes:\n\n";
    for option in all.get_arguments().filter(|option| option.is_global_set()) {
        out += &line(option);
    }
    if let Some(after) = all.get_after_help() {
        out += &format!("\n{}\n", escaped(&after.to_string()));
    }
    out
}

fn page(verb: &Command) -> String {
    let mut out = String::new();
    section(verb, &format!("hone {}", verb.get_name()), 1, &mut out);
    out
}

/// A verb, and the verbs below it as sections of their own.
fn section(verb: &Command, name: &str, depth: usize, out: &mut String) {
    *out += &format!("{} `{name}`\n\n", "#".repeat(depth));
    *out += &prose(&verb.get_long_about().or(verb.get_about()).map(ToString::to_string).unwrap_or_default());
    let usage = verb.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    *out += &format!("```text\n{usage}\n```\n\n");
    for (heading, options) in groups(verb) {
        *out += &format!("**{heading}**\n\n");
        options.iter().for_each(|option| *out += &line(option));
        out.push('\n');
    }
    if let Some(after) = verb.get_after_long_help().or(verb.get_after_help()) {
        *out += &prose(&after.to_string());
    }
    for below in shown(verb) {
        section(below, &format!("{name} {}", below.get_name()), depth + 1, out);
    }
    while out.ends_with("\n\n") {
        out.pop();
    }
    if depth > 1 {
        out.push('\n');
    }
}

/// Arguments and options in the order in which they are told, by their headings; what every verb takes stands in the index.
fn groups(verb: &Command) -> Vec<(String, Vec<&Arg>)> {
    let mut found: Vec<(String, Vec<&Arg>)> = Vec::new();
    let told = verb.get_arguments().filter(|option| !option.is_hide_set() && !option.is_global_set());
    for option in told.filter(|option| !["help", "version"].contains(&option.get_id().as_str())) {
        let own = if option.is_positional() { "Arguments" } else { "Options" };
        let heading = option.get_help_heading().unwrap_or(own);
        match found.iter_mut().find(|(known, _)| known == heading) {
            Some((_, options)) => options.push(option),
            None => found.push((heading.to_owned(), vec![option])),
        }
    }
    // Arguments come first, whatever the order of declaration.
    found.sort_by_key(|(heading, _)| heading != "Arguments");
    found
}

/// An option as a line of a list.
fn line(option: &Arg) -> String {
    let help = option.get_long_help().or(option.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut said: Vec<String> = vec![escaped(&help).split_whitespace().collect::<Vec<_>>().join(" ")];
    let default: Vec<String> =
        option.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    if !default.is_empty() && takes_values(option) && !option.is_hide_default_value_set() {
        said.push(format!("Default: {}.", default.join(" ")));
    }
    let values: Vec<String> = option
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !values.is_empty() && takes_values(option) {
        said.push(format!("One of {}.", values.join(", ")));
    }
    let said: Vec<String> = said.into_iter().filter(|part| !part.is_empty()).map(ended).collect();
    format!("- `{}`: {}\n", name_of(option), said.join(" "))
}

fn takes_values(option: &Arg) -> bool {
    matches!(option.get_action(), ArgAction::Set | ArgAction::Append)
}

/// A sentence with its full stop.
fn ended(text: String) -> String {
    if text.ends_with(['.', ':', '!', '?']) { text } else { text + "." }
}

/// `-o, --output <FILE>`, as its help shows it.
fn name_of(option: &Arg) -> String {
    let values = option.get_value_names().unwrap_or_default();
    let values: Vec<String> = values.iter().map(|name| format!("<{name}>")).collect();
    let several = option.get_num_args().is_some_and(|range| range.max_values() > values.len().max(1));
    let values = format!("{}{}", values.join(" "), if several { "..." } else { "" });
    if option.is_positional() {
        return if option.is_required_set() {
            values
        } else {
            format!("[{}]", values.trim_matches(['<', '>']))
        };
    }
    let long = option.get_long().map(|long| format!("--{long}"));
    let short = option.get_short().map(|short| format!("-{short}"));
    let names: Vec<String> = short.into_iter().chain(long).collect();
    if takes_values(option) { format!("{} {values}", names.join(", ")) } else { names.join(", ") }
}

fn about(verb: &Command) -> String {
    verb.get_about().map(ToString::to_string).unwrap_or_default()
}

/// Text in a cell of a table.
fn cell(text: &str) -> String {
    escaped(text).replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Paragraphs, with what is indented as code.
fn prose(text: &str) -> String {
    let mut out = String::new();
    let mut is_code = false;
    for line in text.trim_end().lines() {
        let is_indented = line.starts_with("  ");
        if is_indented != is_code {
            out += match (is_indented, out.is_empty() || out.ends_with("\n\n")) {
                (true, true) => "```text\n",
                (true, false) => "\n```text\n",
                (false, _) => "```\n\n",
            };
            is_code = is_indented;
        }
        out += &if is_code { format!("{}\n", line.trim_start()) } else { format!("{}\n", escaped(line)) };
    }
    if is_code {
        out += "```\n";
    }
    out + "\n"
}

/// Text with the marks of Markdown taken as they are, but for code.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    let mut is_code = false;
    for c in text.chars() {
        match c {
            '`' => is_code = !is_code,
            '<' | '>' | '*' | '_' | '[' | ']' if !is_code => out.push('\\'),
            _ => {}
        }
        out.push(c);
    }
    out
}
