//! Chooses the commit whose experiment file applies to both commits. The module is pure.

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};

/// The commit whose file applies if both commits have one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileOf {
    /// The base's file. A change that the gate checks must not set its own rule.
    Base,
    /// The head's file.
    Head,
}

/// The versions of the experiment file.
#[derive(Debug, Clone, Copy)]
pub struct Texts<'a> {
    /// Path of the file, for messages.
    pub path: &'a str,
    /// The file in the base's commit.
    pub base: Option<&'a str>,
    /// The file in the head's commit.
    pub head: Option<&'a str>,
    /// The file in the working tree.
    pub tree: Option<&'a str>,
}

/// The chosen file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen<'a> {
    /// The file's text.
    pub text: &'a str,
    /// The commit of the file, in words.
    pub of: &'static str,
    /// Whether the commands of the file come from the head's checkout.
    pub is_heads: bool,
    /// A note about the choice for the user.
    pub note: Option<String>,
}

/// Chooses the file. `judges` returns the judging workloads of a text.
///
/// # Errors
/// When the two commits differ in build or load, and the user did not choose the head's file.
pub fn choose<'a>(
    texts: Texts<'a>,
    wanted: FileOf,
    judges: impl Fn(&str) -> Vec<String>,
) -> Result<Chosen<'a>> {
    let path = texts.path;
    let note = |words: &str| Some(format!("{path} {words}"));
    let (base, head) = match (texts.base, texts.head) {
        (Some(base), Some(head)) => (base, head),
        (None, Some(text)) => {
            let note = note("is new: the head's file applies to both");
            return Ok(Chosen { text, of: "the head's", is_heads: true, note });
        }
        (Some(text), None) => {
            let note = note("is not in the head: the base's file applies to both");
            return Ok(Chosen { text, of: "the base's", is_heads: false, note });
        }
        (None, None) => {
            let Some(text) = texts.tree else {
                bail!(
                    "{path} is neither in the commits nor in the working tree\n  \
                     next: write one with `hone init`"
                );
            };
            let note = note("is in neither commit: the working tree's file applies to both");
            return Ok(Chosen { text, of: "the working tree's", is_heads: true, note });
        }
    };
    let of_base = Chosen { text: base, of: "the base's", is_heads: false, note: None };
    let of_head = Chosen { text: head, of: "the head's", is_heads: true, note: None };
    let same = Chosen { of: "the same in both", ..of_base.clone() };
    if base == head {
        return Ok(same);
    }
    match (differences(base, head, &judges), wanted) {
        (Ok(found), FileOf::Head) if found.is_empty() => Ok(of_head),
        (Ok(found), FileOf::Base) if found.is_empty() => Ok(same),
        (Ok(found), FileOf::Base) if found.iter().all(|one| is_rule(one)) => {
            let note = note(&format!("differs in {}: the base's rule applies", found.join(", ")));
            Ok(Chosen { note, ..of_base })
        }
        (Ok(found), FileOf::Head) => {
            let note = note(&format!("differs in {}: the head's file applies to both", found.join(", ")));
            Ok(Chosen { note, ..of_head })
        }
        (Ok(found), FileOf::Base) => bail!(
            "{path} differs between the two commits in {}: Hone can't separate that difference from a \
             change of the service\n  next: change {path} in a separate commit, or use \
             --experiment-from head, which applies the head's file to both commits",
            found.join(", ")
        ),
        (Err(why), FileOf::Head) => Ok(Chosen {
            note: note(&format!("can't be compared ({why}): the head's file applies to both")),
            ..of_head
        }),
        (Err(why), FileOf::Base) => bail!(
            "{path} differs between the two commits, and Hone can't compare the versions: {why}\n  \
             next: use --experiment-from head, which applies the head's file to both commits"
        ),
    }
}

/// The tables of the rule. They affect neither build nor load.
const RULE: [&str; 2] = ["[compare]", "[gate]"];

fn is_rule(table: &str) -> bool {
    RULE.contains(&table)
}

/// The tables that affect a gate and differ.
fn differences(base: &str, head: &str, judges: impl Fn(&str) -> Vec<String>) -> Result<Vec<String>, String> {
    let read = |text: &str, whose: &str| {
        text.parse::<toml::Table>()
            .map_err(|error| format!("{whose} file is not valid TOML: {}", error.message()))
    };
    let (first, second) = (read(base, "the base's")?, read(head, "the head's")?);
    let mut found = Vec::new();
    let mut hold = |name: String, table: &str, key: Option<&str>| {
        let of = |file: &toml::Table| {
            let table = file.get(table)?.clone();
            match key {
                Some(key) => table.get(key).cloned(),
                None => Some(table),
            }
        };
        if of(&first) != of(&second) && !found.contains(&name) {
            found.push(name);
        }
    };
    hold("[target]".to_owned(), "target", None);
    for name in judges(base).into_iter().chain(judges(head)) {
        hold(format!("[workload.{name}]"), "workload", Some(&name));
    }
    for table in ["compare", "gate"] {
        hold(format!("[{table}]"), table, None);
    }
    // The names of the judging workloads can be in another table, so the loop above can miss a difference.
    if judges(base) != judges(head) && !found.iter().any(|name| name == "[gate]") {
        found.push("[gate]".to_owned());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "name = \"x\"\n[target]\nsource = \".\"\n[workload.judge]\noperations = 5\n[workload.other]\noperations = 7\n[gate]\n";

    fn chosen(
        base: Option<&str>,
        head: Option<&str>,
        wanted: FileOf,
    ) -> Result<(&'static str, String), String> {
        let texts = Texts { path: "hone.toml", base, head, tree: Some("tree") };
        let found = choose(texts, wanted, |_| vec!["judge".to_owned()]);
        found.map(|found| (found.of, found.note.unwrap_or_default())).map_err(|error| error.to_string())
    }

    fn changed(from: &str, to: &str) -> String {
        let text = BASE.replace(from, to);
        assert_ne!(text, BASE);
        text
    }

    #[test]
    fn what_is_built_or_loaded_in_two_ways_is_refused() {
        for (from, to, named) in [
            ("source = \".\"", "source = \"src\"", "[target]"),
            ("operations = 5", "operations = 6", "[workload.judge]"),
        ] {
            let head = changed(from, to);
            let refused = chosen(Some(BASE), Some(&head), FileOf::Base).unwrap_err();
            assert!(
                refused.contains(&format!("in {named}:")) && refused.contains("--experiment-from head"),
                "{refused}"
            );
            let (of, note) = chosen(Some(BASE), Some(&head), FileOf::Head).unwrap();
            assert!(of == "the head's" && note.contains(named), "{of} {note}");
        }
    }

    #[test]
    fn who_is_judged_does_not_write_the_rule() {
        let head = changed("[gate]\n", "[gate]\nworse_by = \"90%\"\n");
        let (of, note) = chosen(Some(BASE), Some(&head), FileOf::Base).unwrap();
        assert!(of == "the base's" && note.ends_with("differs in [gate]: the base's rule applies"), "{note}");
        // A training load and a comment do not affect a gate.
        for head in [changed("operations = 7", "operations = 8"), format!("# more\n{BASE}")] {
            assert_eq!(
                chosen(Some(BASE), Some(&head), FileOf::Base).unwrap(),
                ("the same in both", String::new())
            );
        }
    }

    #[test]
    fn a_file_that_one_commit_lacks_counts_for_both() {
        let of = |base, head| chosen(base, head, FileOf::Base).unwrap().0;
        assert_eq!(of(None, Some(BASE)), "the head's");
        assert_eq!(of(Some(BASE), None), "the base's");
        assert_eq!(of(None, None), "the working tree's");
        let broken = chosen(Some("]"), Some(BASE), FileOf::Base).unwrap_err();
        assert!(broken.contains("the base's file is not valid TOML"), "{broken}");
        assert_eq!(chosen(Some("]"), Some(BASE), FileOf::Head).unwrap().0, "the head's");
    }
}
