//! Parses `go`'s output: build settings, packages, the compiler's use of a profile. Pure.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// The settings of `go version -m`, for example `-pgo` and its file.
pub(super) fn build_settings(text: &str) -> BTreeMap<String, String> {
    let settings = text.lines().filter_map(|line| line.strip_prefix("\tbuild\t"));
    settings
        .filter_map(|setting| setting.split_once('='))
        .map(|(key, value)| (plain(key), plain(value)))
        .collect()
}

/// A text in Go's quotes, which it uses if the text has blanks or quotes; its escapes are those of JSON for everything in paths.
fn plain(text: &str) -> String {
    match text.starts_with('"') {
        true => serde_json::from_str(text).unwrap_or_else(|_| text.to_owned()),
        false => text.to_owned(),
    }
}

/// A package as `go list -json` describes it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Package {
    pub(super) import_path: String,
    pub(super) name: String,
    pub(super) dir: std::path::PathBuf,
    #[serde(default)]
    pub(super) module: Option<Module>,
    #[serde(default)]
    pub(super) cgo_files: Vec<String>,
    #[serde(default)]
    pub(super) s_files: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Module {
    pub(super) path: String,
    #[serde(default)]
    pub(super) main: bool,
}

/// The packages that `go list -json` printed, one value behind the other.
pub(super) fn packages(json: &[u8]) -> Result<Vec<Package>> {
    let values = serde_json::Deserializer::from_slice(json).into_iter();
    values.collect::<Result<_, _>>().context("`go list -json` did not print the expected JSON")
}

/// Packages that `go build -v` compiled.
pub(super) fn compiled(stderr: &str, known: &BTreeSet<String>) -> usize {
    let words = stderr.lines().filter_map(|line| line.split_whitespace().next());
    words.filter(|word| known.contains(*word)).collect::<BTreeSet<_>>().len()
}

/// The compiler's use of a profile, by its own messages (`-m -d=pgodebug=1`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decisions {
    /// Functions with a larger budget because they are hot.
    pub hot_functions: Vec<String>,
    /// Calls that were inlined only because they are hot: place and callee.
    pub inlined: Vec<String>,
    /// Calls through an interface or a function value that also got a direct call.
    pub devirtualized: Vec<String>,
}

/// Parses the compiler's messages.
pub(super) fn decisions(text: &str) -> Decisions {
    let mut hot = BTreeSet::new();
    let mut inlined = BTreeSet::new();
    let mut devirtualized = BTreeSet::new();
    for line in text.lines() {
        if let Some((_, function)) =
            line.split_once(" for func=").filter(|_| line.starts_with("hot-node enabled"))
        {
            hot.insert(function.to_owned());
        } else if let Some(rest) = line.strip_prefix("hot-budget check allows inlining for call ") {
            inlined.extend(inlined_call(rest));
        } else if let Some((place, call)) = line.split_once(": PGO devirtualizing ") {
            devirtualized.insert(format!("{place}: {call}"));
        }
    }
    let list = |set: BTreeSet<String>| set.into_iter().collect();
    Decisions { hot_functions: list(hot), inlined: list(inlined), devirtualized: list(devirtualized) }
}

/// `CALLEE (cost N) at PLACE in function CALLER`.
fn inlined_call(rest: &str) -> Option<String> {
    let (callee, rest) = rest.split_once(" (cost ")?;
    let (place, caller) = rest.split_once(") at ")?.1.split_once(" in function ")?;
    Some(format!("{place}: {callee} into {caller}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const VERSION: &str = "/w/x: go1.26.8\n\tpath\ttiny.example/tiny/cmd/tiny\n\tmod\ttiny.example/tiny\t(devel)\t\n\
        \tbuild\t-buildmode=exe\n\tbuild\t-gcflags=\"tiny/...=-m -d=pgodebug=1\"\n\tbuild\t-pgo=/w/a=b.pgo\n\
        \tbuild\tCGO_CFLAGS=\n";
    const SAID: &str = "# tiny.example/tiny/mix\nmix/mix.go:27:6: can inline varint\n\
        mix/mix.go:68:18: PGO devirtualizing interface call c.Code to Varints.Code\n\
        hot-callsite-thres-from-CDF=0.6578947368421052\n\
        hot-node enabled increased budget=2000 for func=tiny.example/tiny/mix.varint\n\
        hot-budget check allows inlining for call tiny/mix.Varints.Code (cost 236) at mix/mix.go:68:18 in function tiny/mix.(*Batch).Add\n\
        hot-budget check allows inlining for call tiny/mix.Varints.Code (cost 236) at mix/mix.go:68:18 in function tiny/mix.(*Batch).Add\n";

    #[test]
    fn settings_are_read_with_their_quotes() {
        let settings = build_settings(VERSION);
        assert_eq!(settings["-pgo"], "/w/a=b.pgo");
        assert_eq!(settings["-gcflags"], "tiny/...=-m -d=pgodebug=1");
        assert_eq!((settings["CGO_CFLAGS"].as_str(), settings.len()), ("", 4));
    }

    #[test]
    fn decisions_are_counted_once() {
        let found = decisions(SAID);
        assert_eq!(found.hot_functions, ["tiny.example/tiny/mix.varint"]);
        assert_eq!(found.inlined, ["mix/mix.go:68:18: tiny/mix.Varints.Code into tiny/mix.(*Batch).Add"]);
        assert_eq!(found.devirtualized, ["mix/mix.go:68:18: interface call c.Code to Varints.Code"]);
    }

    #[test]
    fn packages_follow_one_another() {
        let json =
            br#"{"ImportPath": "a/b", "Name": "main", "Dir": "/a/b", "Module": {"Path": "a", "Main": true}}
            {"ImportPath": "fmt", "Name": "fmt", "Dir": "/go/fmt", "CgoFiles": ["x.go"]}"#;
        let found = packages(json).unwrap();
        assert!(found[0].module.as_ref().is_some_and(|module| module.main) && found[1].cgo_files.len() == 1);
        assert!(packages(b"{\"ImportPath\": 1}").is_err());
        let known = BTreeSet::from(["a/b".to_owned(), "fmt".to_owned()]);
        assert_eq!(compiled("a/b\nfmt [a/b]\nother\nfmt\n", &known), 2);
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic(text in "(hot-budget check allows inlining for call |hot-node enabled| for func=| \\(cost |\\) at |\tbuild\t|\"|=|\n|é){0,20}") {
            decisions(&text);
            build_settings(&text);
        }
    }
}
