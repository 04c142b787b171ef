//! The flags in force, as `java -XX:+PrintFlagsFinal -version` and `jcmd PID VM.flags -all` print them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A flag in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flag {
    /// Its value as printed.
    pub value: String,
    /// Where it comes from: `default`, `ergonomic`, `command line`, `environment`.
    pub origin: String,
}

/// The flags by name. Lines of another form are skipped.
///
/// A line is `TYPE NAME = VALUE {KIND} {ORIGIN}`; the value may be empty or have spaces, and `:=` marks a changed one.
pub fn parse(text: &str) -> BTreeMap<String, Flag> {
    text.lines().filter_map(flag).collect()
}

fn flag(line: &str) -> Option<(String, Flag)> {
    let (head, rest) = line.split_once('=')?;
    let mut words = head.trim_end_matches(':').split_whitespace();
    let (_, name) = (words.next()?, words.next()?);
    if words.next().is_some() || !name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
        return None;
    }
    let (value, braces) = rest.split_once('{')?;
    let origin = braces.rsplit_once('{').map(|(_, origin)| origin.trim().trim_end_matches('}').trim())?;
    Some((name.to_owned(), Flag { value: value.trim().to_owned(), origin: origin.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_values_and_origins() {
        let text = "[Global flags]\n    ccstr AOTCache                                 =                                           {product} {default}\n\
                    \x20     int ActiveProcessorCount                     = -1                                        {product} {default}\n\
                    \x20  size_t MaxHeapSize                              = 6320816128                                {product} {ergonomic}\n\
                    \x20    uintx ReservedCodeCacheSize                    = 251662336                              {pd product} {ergonomic}\n\
                    \x20     bool UseG1GC                                  := true                                      {product} {command line}\n\
                    openjdk version \"25\"\n a = b\n";
        let flags = parse(text);
        assert_eq!(flags.len(), 5);
        assert_eq!(flags["AOTCache"].value, "");
        assert_eq!(flags["UseG1GC"], Flag { value: "true".into(), origin: "command line".into() });
        assert_eq!(
            (flags["MaxHeapSize"].value.as_str(), flags["MaxHeapSize"].origin.as_str()),
            ("6320816128", "ergonomic")
        );
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics(text in "[a-z ={}:\n]{0,80}") {
            parse(&text);
        }
    }
}
