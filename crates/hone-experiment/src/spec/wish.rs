//! The kind of profile that the user wants. Pure.

use std::fmt;
use std::path::PathBuf;

use hone_format::{did_you_mean, nearest};
use serde::Deserialize;

use super::target::Form;
use crate::variants::{self, Made, Profile, Variant};

/// The source of the profile.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ProfileWish {
    /// The best source for the target and the machine.
    #[default]
    Auto,
    /// An instrumented build.
    Instrumented,
    /// Go's own profiler.
    Pprof,
    /// perf on the plain program, with the branches before each sample.
    Branches,
    /// perf on the plain program, without branches.
    Samples,
    /// The plain program under an emulator, exact.
    Emulated,
    /// An existing profile.
    File(PathBuf),
}

const WORDS: [(&str, ProfileWish); 6] = [
    ("auto", ProfileWish::Auto),
    ("instrumented", ProfileWish::Instrumented),
    ("pprof", ProfileWish::Pprof),
    ("branches", ProfileWish::Branches),
    ("samples", ProfileWish::Samples),
    ("emulated", ProfileWish::Emulated),
];

impl ProfileWish {
    /// A word or a path: a text with `/` or `.` is a path.
    fn parse(text: &str) -> Result<Self, String> {
        if let Some((_, wish)) = WORDS.iter().find(|(word, _)| *word == text) {
            return Ok(wish.clone());
        }
        if text.contains(['/', '.']) {
            return Ok(Self::File(PathBuf::from(text)));
        }
        let words = WORDS.map(|(word, _)| word);
        let near = did_you_mean(nearest(text, words.into_iter()));
        Err(format!(
            "unknown kind of profile `{text}`{near}; use one of: {}, or the path of a profile (./x.profdata)",
            words.join(", ")
        ))
    }

    /// The variants that fit the wish if you name none; `None` leaves them to the target.
    pub(super) fn variants(&self, form: &Form) -> Option<Vec<String>> {
        let is_clang = matches!(form, Form::Recipe(recipe)
            if recipe.compiler.as_ref().is_none_or(|compiler| compiler.contains("clang")));
        match self {
            Self::Samples | Self::Emulated => Some(variants::for_bolt_alone()),
            Self::Branches if !is_clang => Some(variants::for_bolt_alone()),
            _ => None,
        }
    }

    /// Combinations that no machine supports.
    pub(super) fn check(&self, form: &Form, variants: &[Variant], matrix: bool) -> Result<(), String> {
        let is_go = matches!(form, Form::Go(_));
        let shaped = || variants.iter().find(|variant| matches!(variant.made, Made::Shaped { .. }));
        let second = || variants::profiles(variants).contains(&Profile::Second);
        match self {
            Self::Pprof if !is_go => Err("pprof is for Go programs; use `instrumented` or `auto`".to_owned()),
            Self::Instrumented if is_go => {
                Err("Go has no instrumented build; use `pprof` or `auto`".to_owned())
            }
            Self::Branches | Self::Samples | Self::Emulated if is_go => {
                Err("Go's compiler needs profiles of its own profiler; use `pprof` or `auto`".to_owned())
            }
            Self::Samples => match shaped() {
                Some(variant) => Err(format!(
                    "plain samples are for BOLT only, and the compiler makes `{}`; leave it out, or use \
                     `instrumented` or `branches`",
                    variant.name
                )),
                None => Ok(()),
            },
            Self::Branches if second() => {
                Err("`csir` instruments a second time and needs counters; leave it out, or use \
                     `instrumented`"
                    .to_owned())
            }
            Self::File(_) if matrix => {
                Err("a matrix trains one profile per workload, and a file is only one profile; use `auto`"
                    .to_owned())
            }
            _ => Ok(()),
        }
    }
}

impl<'de> Deserialize<'de> for ProfileWish {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = ProfileWish;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a kind of profile, or the path of one")
            }
            fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<ProfileWish, E> {
                ProfileWish::parse(value).map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_a_kind_and_a_path_is_a_file() {
        assert_eq!(ProfileWish::parse("branches"), Ok(ProfileWish::Branches));
        assert_eq!(ProfileWish::parse("x.fdata"), Ok(ProfileWish::File(PathBuf::from("x.fdata"))));
        assert_eq!(ProfileWish::parse("kept/x"), Ok(ProfileWish::File(PathBuf::from("kept/x"))));
        let slip = ProfileWish::parse("sample").unwrap_err();
        assert!(slip.contains("did you mean `samples`?") && slip.contains("./x.profdata"), "{slip}");
    }
}
