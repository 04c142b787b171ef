//! What a user reads of a command line that clap refuses: what failed, where, why, and the next step.

use std::error::Error as _;
use std::ffi::OsString;
use std::num::{ParseFloatError, ParseIntError};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Error};

/// The text of a refused command line, without the program's name in front. `None` for what is no error: help and version.
pub fn text(error: &Error, program: &Command, arguments: &[OsString]) -> Option<String> {
    let verb = verb(program, arguments);
    let what = what(error, &verb)?;
    let next = match suggestion(error) {
        Some(near) => format!("did you mean `{near}`? See `{verb} --help`"),
        None => format!("see `{verb} --help`"),
    };
    Some(format!("{what}\n  next: {next}"))
}

/// The verb that the command line names, with its step: `hone batch xray`.
fn verb(program: &Command, arguments: &[OsString]) -> String {
    let mut path = vec![program.get_name().to_owned()];
    let mut command = program;
    for word in arguments.iter().skip(1).filter_map(|word| word.to_str()) {
        if let Some(below) = command.find_subcommand(word) {
            path.push(below.get_name().to_owned());
            command = below;
        } else if !word.starts_with('-') {
            break;
        }
    }
    path.join(" ")
}

fn what(error: &Error, verb: &str) -> Option<String> {
    let argument = || named(error, ContextKind::InvalidArg);
    let value = first(error, ContextKind::InvalidValue).unwrap_or_default();
    Some(match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => return None,
        ErrorKind::InvalidValue if value.is_empty() => format!("{}: the value is missing", argument()),
        ErrorKind::InvalidValue => {
            let valid = all(error, ContextKind::ValidValue).join(", ");
            format!("{} `{value}`: use one of {valid}", argument())
        }
        ErrorKind::ValueValidation => format!("{} `{value}`: {}", argument(), why(error, &value)),
        ErrorKind::UnknownArgument => format!("`{verb}` has no argument `{}`", argument()),
        ErrorKind::InvalidSubcommand => {
            format!("`{verb}` has no verb `{}`", named(error, ContextKind::InvalidSubcommand))
        }
        ErrorKind::MissingSubcommand => format!("`{verb}` needs a verb"),
        ErrorKind::NoEquals => format!("{}: write the value behind `=`, without a space", argument()),
        ErrorKind::ArgumentConflict => conflict(error, &argument()),
        ErrorKind::MissingRequiredArgument => {
            let missing: Vec<String> =
                all(error, ContextKind::InvalidArg).iter().map(|name| bare(name)).collect();
            format!("`{verb}` needs {}", missing.join(" and "))
        }
        ErrorKind::TooManyValues => format!("{} `{value}`: this value is one too many", argument()),
        ErrorKind::TooFewValues | ErrorKind::WrongNumberOfValues => {
            format!("{}: it has the wrong number of values", argument())
        }
        ErrorKind::InvalidUtf8 => "an argument is not valid UTF-8".to_owned(),
        _ => error.render().to_string().trim_start_matches("error: ").trim_end().to_owned(),
    })
}

fn conflict(error: &Error, argument: &str) -> String {
    let others: Vec<String> = all(error, ContextKind::PriorArg).iter().map(|name| bare(name)).collect();
    match &others[..] {
        [] => format!("{argument} does not go with the other options"),
        [one] if one == argument => format!("{argument} is there twice: give it once"),
        others => format!("{argument} does not go with {}: leave one of them out", others.join(", ")),
    }
}

/// The reason in the field's words: numbers that clap or Rust refuse are described by what would be accepted.
fn why(error: &Error, value: &str) -> String {
    let Some(cause) = error.source() else { return "it is not valid here".to_owned() };
    if cause.is::<ParseIntError>() {
        return "use a whole number".to_owned();
    }
    if cause.is::<ParseFloatError>() {
        return "use a number, for example `0.5`".to_owned();
    }
    let text = cause.to_string();
    if let Some(bounds) = text.strip_prefix(value).and_then(|rest| rest.strip_prefix(" is not in ")) {
        return match bounds.split_once("..=") {
            Some((least, most)) if !least.is_empty() => format!("use a whole number from {least} to {most}"),
            _ => format!("use a whole number of at least {}", bounds.trim_end_matches('.')),
        };
    }
    // A parser that names the value itself: the flag and the value stand in front already.
    let repeated = format!(" `{value}`: ");
    text.split_once(&repeated).map_or(text.clone(), |(_, rest)| rest.to_owned())
}

fn suggestion(error: &Error) -> Option<String> {
    let kinds = [ContextKind::SuggestedArg, ContextKind::SuggestedSubcommand, ContextKind::SuggestedValue];
    let near = kinds.into_iter().find_map(|kind| all(error, kind).into_iter().next())?;
    Some(bare(&near))
}

/// `--mode <MODE>` as a user types it: `--mode`; a positional argument as `BROKER`.
fn bare(shown: &str) -> String {
    let first = shown.split([' ', '=']).next().unwrap_or(shown);
    first.trim_matches(['<', '>', '[', ']', '.']).to_owned()
}

fn named(error: &Error, kind: ContextKind) -> String {
    first(error, kind).map(|shown| bare(&shown)).unwrap_or_default()
}

fn first(error: &Error, kind: ContextKind) -> Option<String> {
    all(error, kind).into_iter().next()
}

fn all(error: &Error, kind: ContextKind) -> Vec<String> {
    match error.get(kind) {
        Some(ContextValue::String(one)) => vec![one.clone()],
        Some(ContextValue::Strings(several)) => several.clone(),
        _ => Vec::new(),
    }
}
