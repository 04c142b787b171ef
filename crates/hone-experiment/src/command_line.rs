//! The command that began a run. The run's folder keeps it, so that a resumed run can print it with other numbers.

use std::ffi::OsString;
use std::path::Path;

use serde::{Deserialize, Serialize};

/// The file in a run's folder that keeps the command.
pub const NOTE: &str = "command.json";

/// Shown in place of a secret.
const HIDDEN: &str = "...";
/// Options with a value that limit a run to a part of its work. A whole run has none of them.
const PART: [&str; 2] = ["--phase", "--only"];
/// Those without a value.
const PART_FLAGS: [&str; 2] = ["--plan-only", "--plan"];

/// The words of a command after `hone`, without secrets. It has no words if the command is not known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct CommandLine {
    words: Vec<String>,
}

impl CommandLine {
    /// A command with these words, of which secrets are replaced.
    pub(crate) fn new(words: &[String]) -> Self {
        Self { words: without_secrets(words) }
    }

    /// The command of this process. It is not known if a word is not valid UTF-8.
    pub fn of_this_process() -> Self {
        let words: Result<Vec<String>, _> = std::env::args_os().skip(1).map(OsString::into_string).collect();
        Self::new(&words.unwrap_or_default())
    }

    /// The command that began the run in this folder. Runs of older versions have no note. For them it is the command of this process, unless
    /// that one only continues the run.
    pub fn that_began(folder: &Path) -> Self {
        let note = std::fs::read_to_string(folder.join(NOTE)).ok();
        let kept: Option<Self> = note.and_then(|text| serde_json::from_str(&text).ok());
        kept.unwrap_or_else(|| {
            let own = Self::of_this_process();
            let continues = own.words.iter().any(|word| sets(word, &["--resume"]).is_some());
            if continues { Self::default() } else { own }
        })
    }

    /// The whole run's command, ready to paste. `None` if it is not known.
    pub fn whole(&self) -> Option<String> {
        self.with(&[], &[])
    }

    /// The value of an option, if the command has it.
    pub(crate) fn value(&self, option: &str) -> Option<&str> {
        let at = self.words.iter().position(|word| sets(word, &[option]).is_some())?;
        match self.words.get(at)?.split_once('=') {
            Some((_, value)) => Some(value),
            None => self.words.get(at + 1).map(String::as_str),
        }
    }

    /// The first word that names a TOML file.
    pub(crate) fn file(&self) -> Option<&str> {
        self.words.iter().map(String::as_str).find(|word| word.ends_with(".toml"))
    }

    /// The whole run's command without some options and with more words after the others, ready to paste. `None` if it is not known.
    pub(crate) fn with(&self, without: &[&str], more: &[String]) -> Option<String> {
        if self.words.is_empty() {
            return None;
        }
        // Words behind `--` are no options.
        let at = self.words.iter().position(|word| word == "--").unwrap_or(self.words.len());
        let (options, arguments) = self.words.split_at(at);
        let without: Vec<&str> = without.iter().copied().chain(PART).collect();
        let mut line = vec!["hone"];
        let mut words = options.iter().map(String::as_str);
        while let Some(word) = words.next() {
            match sets(word, &without) {
                Some(true) => drop(words.next()),
                None if !PART_FLAGS.contains(&word) => line.push(word),
                Some(false) | None => {}
            }
        }
        line.extend(more.iter().chain(arguments).map(String::as_str));
        shlex::try_join(line).ok()
    }
}

/// Whether the value of one of these options is the next word (or part of this one); `None` if the word sets none of them.
fn sets(word: &str, options: &[&str]) -> Option<bool> {
    options.iter().find_map(|option| {
        let rest = word.strip_prefix(*option)?;
        match (rest, option.starts_with("--")) {
            ("", _) => Some(true),
            (rest, true) => rest.starts_with('=').then_some(false),
            // A short option can have its value attached: `-d10`.
            (_, false) => Some(false),
        }
    })
}

/// Replaces secrets: the value of an option or setting whose name says that it is one, and the login in an address. A word can be a whole
/// command with options of its own.
fn without_secrets(words: &[String]) -> Vec<String> {
    let mut is_next = false;
    let mut shown = |part: &str| {
        let names_one = part.starts_with("--") && !part.contains('=') && is_secret(part);
        let is_one = std::mem::replace(&mut is_next, names_one);
        if is_one { HIDDEN.to_owned() } else { without_secret(part) }
    };
    words.iter().map(|word| word.split(' ').map(&mut shown).collect::<Vec<_>>().join(" ")).collect()
}

fn without_secret(part: &str) -> String {
    let names_one = |(at, _): &(usize, &str)| is_secret(part[..*at].rsplit('=').next().unwrap_or_default());
    if let Some((at, _)) = part.match_indices('=').find(names_one) {
        return format!("{}={HIDDEN}", &part[..at]);
    }
    let Some((scheme, rest)) = part.split_once("://") else { return part.to_owned() };
    let host = &rest[..rest.find('/').unwrap_or(rest.len())];
    match host.rfind('@') {
        Some(at) => format!("{scheme}://{HIDDEN}{}", &rest[at..]),
        None => part.to_owned(),
    }
}

/// Whether a setting with this name holds a secret, and not the name of a file with it.
fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    let has = |word: &&str| name.contains(*word);
    ["password", "passwd", "secret", "token", "jaas"].iter().any(has) && !name.ends_with("file")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> CommandLine {
        CommandLine::new(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_replaced_in_each_form() {
        let asked = command(&["compare", "a:1", "b b:2", "--pairs=8", "-d5", "-r", "50", "--pairs-x", "1"]);
        let more = ["--pairs".to_owned(), "20".to_owned()];
        let line = asked.with(&["--pairs", "--duration", "-d", "--rate", "-r"], &more).unwrap();
        assert_eq!(line, "hone compare a:1 'b b:2' --pairs-x 1 --pairs 20");
        let asked = command(&["optimize", "x.toml", "--phase", "baseline", "--plan-only", "--", "--pairs"]);
        assert_eq!(asked.with(&["--pairs"], &more).unwrap(), "hone optimize x.toml --pairs 20 -- --pairs");
        assert_eq!(CommandLine::default().with(&[], &more), None);
        assert_eq!((asked.file(), asked.value("--phase")), (Some("x.toml"), Some("baseline")));
    }

    #[test]
    fn no_secret_is_kept() {
        let words = [
            "--client-set=sasl.password=s=1",
            "env.API_TOKEN=x",
            "--sasl-password-file=ada.txt",
            "--metrics",
            "https://ada:s@host:1/metrics",
            "./broker --password s --listen x",
            "client.linger.ms=5",
        ];
        let kept = [
            "--client-set=sasl.password=...",
            "env.API_TOKEN=...",
            "--sasl-password-file=ada.txt",
            "--metrics",
            "https://...@host:1/metrics",
            "./broker --password ... --listen x",
            "client.linger.ms=5",
        ];
        assert_eq!(command(&words).words, kept);
    }

    #[test]
    fn the_command_of_a_run_is_that_of_its_note() {
        let folder = tempfile::tempdir().unwrap();
        let own = CommandLine::of_this_process();
        assert_eq!(CommandLine::that_began(folder.path()), own, "an older run, which this process began");
        std::fs::write(folder.path().join(NOTE), r#"["compare", "a:1", "b:2"]"#).unwrap();
        assert_eq!(CommandLine::that_began(folder.path()), command(&["compare", "a:1", "b:2"]));
    }
}
