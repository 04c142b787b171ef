//! Which kind of profile is wanted. Pure.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;

use super::target::Form;
use crate::spelling::{did_you_mean, nearest};
use crate::variants::{self, Made, Profile, Variant};

/// How the profile is taken.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ProfileWish {
    /// In the best way that fits the target and the machine.
    #[default]
    Auto,
    /// By a build that counts.
    Instrumented,
    /// By Go's own profiler.
    Pprof,
    /// Of the plain program, by perf, with the branches before each sample.
    Branches,
    /// Of the plain program, by perf, without them.
    Samples,
    /// Of the plain program under an emulator, exact.
    Emulated,
    /// Somebody took it before.
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
    /// A word, or a path: what has a `/` or a `.` in it is no word.
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
            "unknown kind of profile `{text}`{near}; known: {}, or the path of a profile (./x.profdata)",
            words.join(", ")
        ))
    }

    /// The variants that fit the wish where nobody names any; `None` leaves it to the target.
    pub(super) fn variants(&self, form: &Form) -> Option<Vec<String>> {
        let is_clang = matches!(form, Form::Recipe(recipe)
            if recipe.compiler.as_ref().is_none_or(|compiler| compiler.contains("clang")));
        match self {
            Self::Samples | Self::Emulated => Some(variants::for_bolt_alone()),
            Self::Branches if !is_clang => Some(variants::for_bolt_alone()),
            _ => None,
        }
    }

    /// What can't be had of any machine.
    pub(super) fn check(&self, form: &Form, variants: &[Variant], matrix: bool) -> Result<(), String> {
        let is_go = matches!(form, Form::Go(_));
        let shaped = || variants.iter().find(|variant| matches!(variant.made, Made::Shaped { .. }));
        let second = || variants::profiles(variants).contains(&Profile::Second);
        match self {
            Self::Pprof if !is_go => {
                Err("pprof is for Go programs; say `instrumented`, or leave it to `auto`".to_owned())
            }
            Self::Instrumented if is_go => {
                Err("Go has no build that counts; say `pprof`, or leave it to `auto`".to_owned())
            }
            Self::Branches | Self::Samples | Self::Emulated if is_go => {
                Err("Go's compiler takes its own profiler's profiles; say `pprof`, or leave it to `auto`"
                    .to_owned())
            }
            Self::Samples => match shaped() {
                Some(variant) => Err(format!(
                    "plain samples are for BOLT alone, and the compiler makes `{}`: leave it out, or say `instrumented` or \
                     `branches`",
                    variant.name
                )),
                None => Ok(()),
            },
            Self::Branches if second() => {
                Err("`csir` counts on top of counts; leave it out, or say `instrumented`".to_owned())
            }
            Self::File(_) if matrix => {
                Err("a matrix trains a profile with each workload, and a file is one profile; say `auto`"
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
