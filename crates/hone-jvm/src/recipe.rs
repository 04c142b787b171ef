//! Variants of a Java service by name: `aot`, `zgc`, `heap=2g`, `aot+compact-headers`. Pure.

use crate::command::{JavaCommand, Runs};
use crate::setting::{Gc, with_setting};

/// The cache of an earlier run.
pub const AOT: &str = "aot";
/// Another JDK.
const JDK: &str = "jdk";
/// Between the parts of a variant.
const AND: char = '+';
/// Parts that turn one thing on, and the setting of each.
const SWITCHES: [(&str, &str); 4] = [
    ("compact-headers", "compact-headers"),
    ("huge-pages", "huge-pages"),
    ("numa", "UseNUMA"),
    ("string-dedup", "UseStringDeduplication"),
];

/// The variants of a service whose file names none.
pub const USUAL: [&str; 4] = [AOT, "parallel", "zgc", "compact-headers"];

/// A part of a variant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// A cache, trained with all other parts in force.
    Cache,
    /// Another JDK, by its folder.
    Jdk(String),
    /// A setting of the virtual machine.
    Setting {
        /// As in [`with_setting`].
        name: String,
        /// Its value.
        value: String,
    },
}

/// The parts of a variant.
///
/// # Errors
/// With the part that is unknown or invalid.
pub fn parts(variant: &str) -> Result<Vec<Part>, String> {
    let mut found = Vec::new();
    for text in variant.split(AND) {
        let part = part(text).map_err(|problem| format!("`{variant}`: {problem}"))?;
        if found.contains(&part) {
            return Err(format!("`{variant}` has `{text}` twice"));
        }
        found.push(part);
    }
    // It is trained with all other parts, wherever its name stands.
    found.sort_by_key(|part| *part == Part::Cache);
    Ok(found)
}

fn part(text: &str) -> Result<Part, String> {
    let setting = |name: &str, value: &str| {
        let nothing = JavaCommand {
            java: String::new(),
            options: Vec::new(),
            runs: Runs::Class(String::new()),
            args: Vec::new(),
        };
        // Whether its JDK has it is known later.
        with_setting(&nothing, name, value, None)?;
        Ok(Part::Setting { name: name.to_owned(), value: value.to_owned() })
    };
    if text == AOT {
        return Ok(Part::Cache);
    }
    if Gc::ALL.iter().any(|gc| gc.name() == text) {
        return setting("gc", text);
    }
    if let Some((_, name)) = SWITCHES.iter().find(|(switch, _)| *switch == text) {
        return setting(name, "true");
    }
    match text.split_once('=') {
        Some((JDK, "")) | None => {
            let known =
                std::iter::once(AOT).chain(Gc::ALL.map(Gc::name)).chain(SWITCHES.map(|(name, _)| name));
            let known: Vec<&str> = known.collect();
            let near = hone_format::did_you_mean(hone_format::nearest(text, known.iter().copied()));
            Err(format!("unknown variant `{text}`{near}; use one of {}, or NAME=VALUE", known.join(", ")))
        }
        Some((JDK, folder)) => Ok(Part::Jdk(folder.to_owned())),
        Some((name, value)) => setting(name, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, value: &str) -> Part {
        Part::Setting { name: name.to_owned(), value: value.to_owned() }
    }

    #[test]
    fn names_become_parts_and_the_cache_comes_last() {
        assert_eq!(parts("zgc").unwrap(), [set("gc", "zgc")]);
        assert_eq!(parts("aot+compact-headers").unwrap(), [set("compact-headers", "true"), Part::Cache]);
        assert_eq!(parts("heap=2g+numa").unwrap(), [set("heap", "2g"), set("UseNUMA", "true")]);
        assert_eq!(parts("jdk=/opt/25+aot").unwrap(), [Part::Jdk("/opt/25".to_owned()), Part::Cache]);
        assert!(USUAL.iter().all(|name| parts(name).is_ok()));
    }

    #[test]
    fn unknown_parts_are_refused_with_the_known_ones() {
        let refused = |variant: &str| parts(variant).unwrap_err();
        assert!(refused("zgcc").contains("did you mean `zgc`"));
        assert!(refused("pgo").contains("use one of aot, g1"));
        assert!(refused("heap=x").contains("invalid size `x`: use a number"));
        assert!(refused("aot+aot").contains("twice"));
        assert!(refused("jdk=").contains("unknown variant"));
        assert!(refused("").contains("unknown variant"));
    }
}
