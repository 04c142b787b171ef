//! Names of options and verbs that earlier versions had. They work for one more release, and say what replaces them.

use std::ffi::OsString;

use clap::Command;

/// Verbs that have another name today.
const VERBS: [(&str, &str); 2] =
    [("host recover", "host rollback --interrupted"), ("host revert", "host rollback")];

/// A warning for each old name on a command line that was accepted.
pub fn warnings(program: &Command, arguments: &[OsString]) -> Vec<String> {
    let warning = |(old, new): (String, String)| {
        format!("warning: {old} is now {new}; the old name goes in the next release")
    };
    found(program, arguments).into_iter().map(warning).collect()
}

/// Old names on a command line, each with the name of today. What stands behind `--` belongs to another program.
fn found(program: &Command, arguments: &[OsString]) -> Vec<(String, String)> {
    let mut command = program;
    let (mut verbs, mut names) = (Vec::new(), Vec::new());
    for word in arguments.iter().skip(1).filter_map(|word| word.to_str()).take_while(|word| *word != "--") {
        if let Some(option) = word.strip_prefix("--") {
            let old = option.split('=').next().unwrap_or_default();
            names.extend(replaced(command, old).map(|new| (format!("--{old}"), format!("--{new}"))));
        } else if let Some(below) = command.find_subcommand(word) {
            command = below;
            verbs.push(word);
            names.extend(replaced_verb(&verbs.join(" ")));
        }
    }
    names.dedup();
    names
}

/// An old verb and the one of today, as a user types them.
fn replaced_verb(verb: &str) -> Option<(String, String)> {
    let (old, new) = VERBS.iter().find(|(old, _)| *old == verb)?;
    Some((format!("`hone {old}`"), format!("`hone {new}`")))
}

/// The name of today of a hidden alias.
fn replaced(command: &Command, old: &str) -> Option<String> {
    let is_old = |arg: &&clap::Arg| {
        let visible = arg.get_visible_aliases().unwrap_or_default();
        arg.get_all_aliases().unwrap_or_default().contains(&old) && !visible.contains(&old)
    };
    let arg = command.get_arguments().find(is_old)?;
    arg.get_long().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use clap::{Arg, ArgAction};

    use super::*;

    #[test]
    fn an_old_name_is_found_and_a_new_one_is_not() {
        let load = Command::new("load")
            .arg(Arg::new("a").long("guard-metric").alias("guard").action(ArgAction::Append))
            .arg(Arg::new("b").long("connections").visible_alias("producers"));
        let host = Command::new("host")
            .subcommand(Command::new("rollback").alias("revert"))
            .subcommand(Command::new("recover").hide(true));
        let program = Command::new("hone").subcommand(load).subcommand(host);
        let found = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            found(&program, &words)
        };
        let expected = vec![("--guard".to_owned(), "--guard-metric".to_owned())];
        assert_eq!(found("hone load --guard p99 --guard=p50"), expected);
        assert_eq!(found("hone load --guard-metric p99 --producers 4 -- --guard"), []);
        for (old, new) in VERBS {
            let expected = vec![(format!("`hone {old}`"), format!("`hone {new}`"))];
            assert_eq!(found(&format!("hone {old} --force")), expected);
        }
        assert_eq!(found("hone host rollback --interrupted"), []);
    }
}
