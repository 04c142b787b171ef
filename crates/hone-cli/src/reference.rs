//! The command line as Markdown pages: the texts of `--help`, to read and to link to.

use clap::{Arg, ArgAction, Command};

use crate::help::SHARED;

/// The pages with their file names: an index, the options that several verbs share, and one page per verb.
pub fn pages(mut all: Command) -> Vec<(String, String)> {
    all.build();
    let verbs: Vec<&Command> = shown(&all).collect();
    let shared = Shared::new(&all);
    let mut pages =
        vec![("index.md".to_owned(), index(&all, &verbs)), ("options.md".to_owned(), shared.page())];
    pages.extend(verbs.iter().map(|verb| (format!("{}.md", verb.get_name()), page(verb, &shared))));
    pages
}

/// The verbs that are not hidden.
fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|verb| !verb.is_hide_set() && verb.get_name() != "help")
}

fn index(all: &Command, verbs: &[&Command]) -> String {
    let mut out = "# Reference\n\nThe texts of `hone VERB --help`, written by the program itself \
                   (`hone reference --output docs/reference`).\n\n\
                   | Verb | Purpose |\n|---|---|\n"
        .to_owned();
    for verb in verbs {
        let name = verb.get_name();
        out += &format!("| [`hone {name}`]({name}.md) | {} |\n", cell(&about(verb)));
    }
    out += "\nAll verbs have these options:\n\n";
    for option in all.get_arguments().filter(|option| option.is_global_set()) {
        out += &line(option);
    }
    if let Some(after) = all.get_after_help() {
        out += &format!("\n{}\n", escaped(&after.to_string()));
    }
    out
}

/// Options whose whole text is the same in several verbs, by heading. Each stands once, on a page of its own.
struct Shared<'a>(Vec<(String, Vec<&'a Arg>)>);

/// The heading of shared options that stand among a verb's own.
const OTHERS: &str = "Others";

impl<'a> Shared<'a> {
    fn new(all: &'a Command) -> Self {
        let mut verbs = Vec::new();
        all_verbs(all, &mut verbs);
        let all: Vec<(String, &Arg)> = verbs
            .iter()
            .flat_map(|verb| groups(verb))
            .flat_map(|(heading, options)| options.into_iter().map(move |option| (heading.clone(), option)))
            .filter(|(_, option)| !option.is_positional())
            .collect();
        let headings = SHARED.into_iter().chain([OTHERS]);
        Self(headings.map(|heading| (heading.to_owned(), Self::under(heading, &all))).collect())
    }

    fn under(heading: &str, all: &[(String, &'a Arg)]) -> Vec<&'a Arg> {
        let mut found: Vec<&Arg> = Vec::new();
        for (own, option) in all {
            let belongs = match SHARED.contains(&own.as_str()) {
                true => own == heading,
                false => {
                    heading == OTHERS
                        && all.iter().filter(|(_, other)| line(other) == line(option)).count() > 1
                }
            };
            if belongs && !found.iter().any(|known| line(known) == line(option)) {
                found.push(option);
            }
        }
        found
    }

    /// Whether an option of a verb is one of them.
    fn has(&self, heading: &str, option: &Arg) -> bool {
        let is_there =
            |(_, options): &(String, Vec<&Arg>)| options.iter().any(|known| line(known) == line(option));
        SHARED.contains(&heading) || self.0.iter().any(is_there)
    }

    fn page(&self) -> String {
        let mut out =
            "# Shared options\n\nSeveral verbs take these options, with the same meaning.\n".to_owned();
        for (heading, options) in &self.0 {
            out += &format!("\n## {heading}\n\n");
            options.iter().for_each(|option| out += &line(option));
        }
        out
    }
}

fn all_verbs<'a>(command: &'a Command, found: &mut Vec<&'a Command>) {
    for verb in shown(command) {
        found.push(verb);
        all_verbs(verb, found);
    }
}

/// The sentence that names the shared options of a verb: by their heading, or each by its name.
fn see_also(options: &[(String, &Arg)]) -> String {
    let mut headings: Vec<String> = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for (heading, option) in options {
        match SHARED.contains(&heading.as_str()) {
            true if headings.contains(heading) => {}
            true => headings.push(heading.clone()),
            false => names.push(format!("`--{}`", option.get_long().unwrap_or_default())),
        }
    }
    let link =
        |heading: &String| format!("[{heading}](options.md#{})", heading.to_lowercase().replace(' ', "-"));
    let headings = headings.iter().map(link).collect::<Vec<_>>().join(", ");
    let names = match names.is_empty() {
        true => String::new(),
        false => format!("[Others](options.md#others): {}", names.join(", ")),
    };
    let parts: Vec<String> = [headings, names].into_iter().filter(|part| !part.is_empty()).collect();
    format!("Shared options: {}.\n\n", parts.join(". "))
}

fn page(verb: &Command, shared: &Shared<'_>) -> String {
    let mut out = String::new();
    section(verb, &format!("hone {}", verb.get_name()), shared, 1, &mut out);
    out
}

/// The section of a verb, followed by the sections of its subcommands.
fn section(verb: &Command, name: &str, shared: &Shared<'_>, depth: usize, out: &mut String) {
    *out += &format!("{} `{name}`\n\n", "#".repeat(depth));
    *out += &prose(&verb.get_long_about().or(verb.get_about()).map(ToString::to_string).unwrap_or_default());
    let usage = verb.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim();
    *out += &format!("```text\n{usage}\n```\n\n");
    let mut common = Vec::new();
    for (heading, options) in groups(verb) {
        let (known, own): (Vec<&Arg>, Vec<&Arg>) =
            options.into_iter().partition(|option| !option.is_positional() && shared.has(&heading, option));
        common.extend(known.into_iter().map(|option| (heading.clone(), option)));
        if !own.is_empty() {
            *out += &format!("**{heading}**\n\n");
            own.iter().for_each(|option| *out += &line(option));
            out.push('\n');
        }
    }
    if !common.is_empty() {
        *out += &see_also(&common);
    }
    if let Some(after) = verb.get_after_long_help().or(verb.get_after_help()) {
        *out += &prose(&after.to_string());
    }
    for below in shown(verb) {
        section(below, &format!("{name} {}", below.get_name()), shared, depth + 1, out);
    }
    while out.ends_with("\n\n") {
        out.pop();
    }
    if depth > 1 {
        out.push('\n');
    }
}

/// Arguments and options in the order of `--help`, grouped by heading. The index lists the options of all verbs.
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
    // Arguments come first, regardless of the order of declaration.
    found.sort_by_key(|(heading, _)| heading != "Arguments");
    found
}

/// An option as a list item.
fn line(option: &Arg) -> String {
    let help = option.get_long_help().or(option.get_help()).map(ToString::to_string).unwrap_or_default();
    let mut said: Vec<String> = vec![escaped(&help).split_whitespace().collect::<Vec<_>>().join(" ")];
    let default: Vec<String> =
        option.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    if !default.is_empty() && takes_values(option) && !option.is_hide_default_value_set() {
        said.push(format!("\\[default: {}\\]", default.join(" ")));
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

/// Adds a full stop to a sentence without an end mark.
fn ended(text: String) -> String {
    if text.ends_with(['.', ':', '!', '?', ']']) { text } else { text + "." }
}

/// The option with its value names, for example `-o, --output <FILE>`.
fn name_of(option: &Arg) -> String {
    let values = option.get_value_names().unwrap_or_default();
    let values: Vec<String> = values.iter().map(|name| format!("<{name}>")).collect();
    let several = option.get_num_args().is_some_and(|range| range.max_values() > values.len().max(1));
    let dots = if several { "..." } else { "" };
    let values = values.join(" ");
    if option.is_positional() && !option.is_required_set() {
        return format!("[{}]{dots}", values.trim_matches(['<', '>']));
    }
    let values = format!("{values}{dots}");
    if option.is_positional() {
        return values;
    }
    let long = option.get_long().map(|long| format!("--{long}"));
    let short = option.get_short().map(|short| format!("-{short}"));
    let names: Vec<String> = short.into_iter().chain(long).collect();
    if takes_values(option) { format!("{} {values}", names.join(", ")) } else { names.join(", ") }
}

fn about(verb: &Command) -> String {
    verb.get_about().map(ToString::to_string).unwrap_or_default()
}

/// A text for a table cell.
fn cell(text: &str) -> String {
    escaped(text).replace('|', "\\|").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Paragraphs as Markdown. Indented lines become code blocks.
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
        out += &if is_code {
            format!("{}\n", line.strip_prefix("  ").unwrap_or(line))
        } else {
            format!("{}\n", escaped(line))
        };
    }
    if is_code {
        out += "```\n";
    }
    out + "\n"
}

/// Escapes Markdown's special characters outside of code.
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
