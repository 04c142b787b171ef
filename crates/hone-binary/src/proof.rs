//! Whether a merged profile may be used: pure, by its contents and the names in the instrumented program.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use hone_record::HotFunction;

use crate::profile::{Function, Profile};
use crate::refusal::Refusal;

/// A profile of this very build has all of its functions in the program; one of another build, or of another program with common
/// dependencies, has few of them.
const LEAST_KNOWN_PERCENT: u64 = 90;

/// The evidence for a profile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Heat {
    /// All hot functions, hottest first.
    pub(crate) functions: Vec<HotFunction>,
    /// How many of them belong to the target's own crates. A program whose work is in its dependencies has none.
    pub(crate) of_target: u32,
}

/// Compares a profile with its program. The paths are for the errors.
pub(crate) fn prove(
    profile: &Profile,
    file: &Path,
    in_binary: &HashSet<String>,
    binary: &Path,
    own_crates: &BTreeSet<String>,
) -> Result<Heat, Refusal> {
    holds(profile, file, in_binary, binary)?;
    Ok(heat(&profile.hot(), own_crates))
}

/// The crates of hot functions, the one with the most first; functions that are not Rust's count as `C or C++`.
pub fn owners(hot: &[HotFunction]) -> Vec<(String, usize)> {
    let mut owners: BTreeMap<&str, usize> = BTreeMap::new();
    for function in hot {
        *owners.entry(crate_of(&function.name).unwrap_or("C or C++")).or_default() += 1;
    }
    let mut owners: Vec<(String, usize)> =
        owners.into_iter().map(|(name, functions)| (name.to_owned(), functions)).collect();
    owners.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    owners
}

/// Whether a profile has counts, and belongs to this program.
pub(crate) fn holds(
    profile: &Profile,
    file: &Path,
    in_binary: &HashSet<String>,
    binary: &Path,
) -> Result<(), Refusal> {
    let file = file.to_path_buf();
    if !profile.ir {
        return Err(Refusal::WrongLevel { file, level: profile.level().to_owned() });
    }
    if profile.functions.is_empty() {
        return Err(Refusal::Hollow { file, what: "functions" });
    }
    if profile.max_count == 0 {
        return Err(Refusal::Hollow { file, what: "count above 0" });
    }
    let functions = profile.functions.len() as u64;
    let known = profile.functions.iter().filter(|function| in_binary.contains(&function.name)).count() as u64;
    if known * 100 < functions * LEAST_KNOWN_PERCENT {
        return Err(Refusal::OtherBinary { file, binary: binary.to_path_buf(), known, functions });
    }
    Ok(())
}

fn heat(hot: &[&Function], own_crates: &BTreeSet<String>) -> Heat {
    let names: Vec<String> =
        hot.iter().map(|function| hone_record::without_hash(function.symbol())).collect();
    let of_target =
        names.iter().filter(|name| crate_of(name).is_some_and(|found| own_crates.contains(found))).count();
    let functions = hot
        .iter()
        .zip(names)
        .map(|(function, name)| HotFunction { name, max_count: function.max_count })
        .collect();
    Heat { functions, of_target: u32::try_from(of_target).unwrap_or(u32::MAX) }
}

/// The crate that a demangled path starts with: `a` in `a::b`, `<a::T as c::D>::e` and `<&mut [a::T]>::f`.
fn crate_of(name: &str) -> Option<&str> {
    let mut rest = name;
    loop {
        let shorter = ["<", "&", "[", "(", "*const ", "*mut ", "mut ", "dyn "]
            .into_iter()
            .fold(rest, |rest, prefix| rest.strip_prefix(prefix).unwrap_or(rest));
        if shorter.len() == rest.len() {
            break;
        }
        rest = shorter;
    }
    let (first, _) = rest.split_once("::")?;
    let is_name = !first.is_empty() && first.chars().all(|c| c.is_alphanumeric() || c == '_');
    is_name.then_some(first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TINY: &str = include_str!("../tests/fixtures/tiny.proftext");
    const OTHER: &str = include_str!("../tests/fixtures/other.proftext");

    fn names(text: &str) -> HashSet<String> {
        Profile::parse(text).unwrap().functions.into_iter().map(|function| function.name).collect()
    }

    fn check(text: &str, binary: &str, crates: &[&str]) -> Result<Heat, String> {
        let own = crates.iter().map(|&name| name.to_owned()).collect();
        let profile = Profile::parse(text).unwrap();
        prove(&profile, Path::new("/p"), &names(binary), Path::new("/b"), &own)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_profile_of_the_program_is_proven() {
        let heat = check(TINY, TINY, &["tiny_server"]).unwrap();
        let hot = |name: &str, max_count| HotFunction { name: name.into(), max_count };
        assert_eq!(
            heat.functions[..2],
            [hot("tiny_server::handle_request", 1_834_676_138), hot("mix_seed", 211_402_341)]
        );
        assert_eq!((heat.functions.len(), heat.of_target), (8, 4));
    }

    #[test]
    fn everything_else_is_refused_with_the_reason() {
        let refused = |text, binary, crates: &[&str], reason: &str| {
            let error = check(text, binary, crates).unwrap_err();
            assert!(error.starts_with(reason), "{error}");
        };
        let own = ["tiny_server"];
        refused("", TINY, &own, "the profile /p has level Front-end, but Hone needs IR");
        refused("main\n1\n1\n5\n", TINY, &own, "the profile /p has level Front-end, but Hone needs IR");
        refused(":ir\n", TINY, &own, "the profile /p has no functions");
        refused(":ir\nmain\n1\n1\n0\n", TINY, &own, "the profile /p has no count above 0");
        refused(OTHER, TINY, &own, "the profile /p is of another binary: 1 of its 16 functions are in /b\n");
    }

    #[test]
    fn hot_functions_of_dependencies_are_told_by_their_crates() {
        let heat = check(TINY, TINY, &["x", "y"]).unwrap();
        assert_eq!((heat.functions.len(), heat.of_target), (8, 0));
        let owners = owners(&heat.functions);
        assert_eq!(owners[0], ("tiny_server".to_owned(), 4));
        assert_eq!(owners.iter().map(|(_, functions)| functions).sum::<usize>(), 8);
        assert!(owners.iter().any(|(name, _)| name == "C or C++"), "{owners:?}");
    }

    #[test]
    fn paths_belong_to_the_crate_they_start_with() {
        let check = |name, expected| assert_eq!(crate_of(name), expected, "{name}");
        check("broker::log::append", Some("broker"));
        check("<broker::Log as core::ops::Drop>::drop", Some("broker"));
        check("<&mut [broker::Log]>::sort", Some("broker"));
        check("<dyn broker::Log>::x", Some("broker"));
        check("core::ptr::drop_in_place<broker::Log>", Some("core"));
        check("ZSTD_compressBlock_doubleFast", None);
        check("<<a::B>::c as d>::e", Some("a"));
        check("", None);
    }

    proptest! {
        #[test]
        fn no_name_makes_it_panic(name in "(<|&|mut |::|[a-zé_]|\\*const |_ZN|\\$){0,30}") {
            crate_of(&hone_record::without_hash(&name));
            crate_of(&name);
        }
    }
}
