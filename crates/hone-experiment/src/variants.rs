//! The known variants, their parts, and the variant on which each is based. Pure.

use std::collections::BTreeSet;

use hone_format::{did_you_mean, nearest};
use serde::{Deserialize, Serialize};

use crate::spec::target::Form;

/// One variant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variant {
    /// Its name in files and flags.
    pub name: String,
    /// The variant with which it is compared; `None` for the baseline.
    pub parent: Option<usize>,
    /// How it is built.
    pub made: Made,
    /// Whether it was requested. The others are only the basis of another variant.
    pub judged: bool,
}

/// The parts of a variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Made {
    /// By the compiler, without a profile.
    Plain {
        /// Linked with relocations, for BOLT.
        relocs: bool,
        /// Whether the compiler may make jump tables.
        jump_tables: bool,
    },
    /// By the compiler, with a profile.
    Shaped {
        /// The profile.
        by: Profile,
        /// Linked with relocations, for BOLT.
        relocs: bool,
    },
    /// By BOLT, from another variant.
    Rewritten {
        /// Index of the variant that is rewritten.
        from: usize,
        /// The profile.
        by: BoltBy,
    },
    /// By options of its virtual machine, and by a cache.
    Configured,
}

/// The profile for BOLT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BoltBy {
    /// Of the kind that the experiment requests.
    Wanted,
    /// Plain samples.
    Samples,
    /// An exact trace under an emulator.
    Emulator,
}

/// Identifies a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Profile {
    /// Of the instrumented program, or of Go's profiler.
    First(Mix),
    /// Of a program that was built with the first one and instrumented again.
    Second,
}

impl Profile {
    /// For file names.
    pub fn word(self) -> String {
        match self {
            Self::First(Mix::All) => "first".to_owned(),
            Self::First(Mix::Only(index)) => format!("first@{index}"),
            Self::Second => "second".to_owned(),
        }
    }
}

/// Identifies training workloads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Mix {
    /// All, with their weights.
    All,
    /// This one.
    Only(usize),
}

/// The target as its own build makes it.
pub const BASELINE: &str = "baseline";
const RELOCS: &str = "relocs";
const NO_JUMP_TABLES: &str = "no-jump-tables";
/// Built with a profile.
pub const PGO: &str = "pgo";
const CSIR: &str = "csir";
/// BOLT's basis with gcc, instead of `pgo`. Nobody requests it by name.
const PGO_RELOCS: &str = "relocs+pgo";
/// Rewritten by BOLT.
pub const BOLT: &str = "bolt";
/// Rewritten by BOLT with plain samples.
pub const SAMPLED_BOLT: &str = "sampled-bolt";
/// Rewritten by BOLT with an exact trace.
pub const EMULATED_BOLT: &str = "emulated-bolt";
/// Built with a profile, then rewritten by BOLT.
pub const PGO_BOLT: &str = "pgo+bolt";
const CSIR_BOLT: &str = "csir+bolt";

/// All variants, in the order of their builds.
const KNOWN: [&str; 10] =
    [BASELINE, RELOCS, NO_JUMP_TABLES, PGO, CSIR, SAMPLED_BOLT, EMULATED_BOLT, BOLT, PGO_BOLT, CSIR_BOLT];

/// The key, and the problem.
type Wrong = (&'static str, String);

/// The variants that a form supports, and its default ones.
fn of_form(form: &Form) -> (&'static [&'static str], &'static [&'static str]) {
    match form {
        // Rewriting must be requested: a Cargo target without `variants` keeps its original default.
        Form::Cargo(_) => (&KNOWN, &[BASELINE, PGO]),
        Form::Recipe(_) => (&KNOWN, &[BASELINE, PGO, PGO_BOLT]),
        Form::Go(_) => (&[BASELINE, PGO], &[BASELINE, PGO]),
        Form::Elf { .. } => (&[BASELINE, SAMPLED_BOLT, EMULATED_BOLT, BOLT], &[BASELINE, BOLT]),
        Form::Jvm(_) => (&[BASELINE], &[BASELINE]),
    }
}

/// The variants of a Java service: each is compared with the baseline.
fn of_jvm(wanted: Option<&[String]>) -> Result<Vec<Variant>, Wrong> {
    let usual = || hone_jvm::recipe::USUAL.map(str::to_owned).to_vec();
    let wanted = wanted.map_or_else(usual, <[String]>::to_vec);
    let names: Vec<&String> = wanted.iter().filter(|name| *name != BASELINE).collect();
    for name in &names {
        hone_jvm::recipe::parts(name).map_err(|problem| ("variants", problem))?;
    }
    if names.is_empty() {
        return Err((
            "variants",
            "the baseline has nothing to compare with; name at least one more variant".to_owned(),
        ));
    }
    let of =
        |name: &str, parent| Variant { name: name.to_owned(), parent, made: Made::Configured, judged: true };
    let baseline = of(BASELINE, None);
    Ok(std::iter::once(baseline).chain(names.into_iter().map(|name| of(name, Some(0)))).collect())
}

/// The requested variants, with those on which they are based.
///
/// # Errors
/// With the key of `[optimize]` and the problem.
pub fn of(
    wanted: Option<&[String]>,
    form: &Form,
    training: &[&str],
    matrix: bool,
) -> Result<Vec<Variant>, Wrong> {
    if let Form::Jvm(_) = form {
        return of_jvm(wanted);
    }
    let (can, default) = of_form(form);
    let wanted: Vec<&str> = match wanted {
        Some(names) => names.iter().map(String::as_str).collect(),
        None => default.to_vec(),
    };
    for name in &wanted {
        if !KNOWN.contains(name) {
            let near = did_you_mean(nearest(name, KNOWN.into_iter()));
            return Err((
                "variants",
                format!("unknown variant `{name}`{near}; use one of: {}", KNOWN.join(", ")),
            ));
        }
        if !can.contains(name) {
            return Err((
                "variants",
                format!("this kind of target has no variant `{name}`; use one of: {}", can.join(", ")),
            ));
        }
    }
    if wanted.iter().all(|name| *name == BASELINE) {
        return Err((
            "variants",
            "the baseline has nothing to compare with; name at least one more variant".to_owned(),
        ));
    }
    let mut tree = Tree {
        variants: Vec::new(),
        wanted: &wanted,
        is_finished: matches!(form, Form::Elf { .. }),
        loses_by_relocs: loses_by_relocs(form),
    };
    for name in KNOWN.into_iter().filter(|name| wanted.contains(name) || *name == BASELINE) {
        tree.place(name);
    }
    if matrix {
        tree.each_training(training)?;
    }
    Ok(tree.variants)
}

struct Tree<'a> {
    variants: Vec<Variant>,
    wanted: &'a [&'a str],
    /// There is nothing to compile.
    is_finished: bool,
    loses_by_relocs: bool,
}

/// In a build for BOLT, gcc keeps hot and cold parts of a function together, which costs it a part of the profile's gain. Other
/// compilers write relocations next to the same code.
fn loses_by_relocs(form: &Form) -> bool {
    let Form::Recipe(recipe) = form else { return false };
    recipe.compiler.as_ref().is_some_and(|compiler| !compiler.contains("clang"))
}

impl Tree<'_> {
    /// The index of a variant. Its basis gets its index first.
    fn place(&mut self, name: &str) -> usize {
        if let Some(found) = self.variants.iter().position(|variant| variant.name == name) {
            return found;
        }
        let asks = |wanted: &str| self.wanted.contains(&wanted);
        let (parent, made) = match name {
            RELOCS => (Some(self.place(BASELINE)), Made::Plain { relocs: true, jump_tables: true }),
            // BOLT uses this variant if it was requested: a jump table is the most common reason why BOLT
            // can't move a function.
            NO_JUMP_TABLES => {
                let relocs = [BOLT, SAMPLED_BOLT, EMULATED_BOLT].into_iter().any(asks);
                (Some(self.place(BASELINE)), Made::Plain { relocs, jump_tables: false })
            }
            // BOLT rewrites exactly this program, so that BOLT is the only difference between the two.
            PGO => {
                let relocs = asks(PGO_BOLT) && !self.loses_by_relocs;
                (Some(self.place(BASELINE)), Made::Shaped { by: Profile::First(Mix::All), relocs })
            }
            PGO_RELOCS => {
                let parent = if asks(PGO) { PGO } else { BASELINE };
                let made = Made::Shaped { by: Profile::First(Mix::All), relocs: true };
                (Some(self.place(parent)), made)
            }
            CSIR => {
                let relocs = asks(CSIR_BOLT);
                let parent = if asks(PGO) { PGO } else { BASELINE };
                (Some(self.place(parent)), Made::Shaped { by: Profile::Second, relocs })
            }
            SAMPLED_BOLT | EMULATED_BOLT | BOLT | PGO_BOLT | CSIR_BOLT => {
                let from = match name {
                    PGO_BOLT if self.loses_by_relocs => PGO_RELOCS,
                    PGO_BOLT => PGO,
                    CSIR_BOLT => CSIR,
                    _ if self.is_finished => BASELINE,
                    _ if asks(NO_JUMP_TABLES) => NO_JUMP_TABLES,
                    _ => RELOCS,
                };
                let from = self.place(from);
                let by = match name {
                    SAMPLED_BOLT => BoltBy::Samples,
                    EMULATED_BOLT => BoltBy::Emulator,
                    _ => BoltBy::Wanted,
                };
                (Some(self.nearest_judged(from)), Made::Rewritten { from, by })
            }
            _ => (None, Made::Plain { relocs: false, jump_tables: true }),
        };
        let judged = name == BASELINE || self.wanted.contains(&name);
        self.variants.push(Variant { name: name.to_owned(), parent, made, judged });
        self.variants.len() - 1
    }

    fn nearest_judged(&self, from: usize) -> usize {
        let mut at = from;
        while let (false, Some(parent)) = (self.variants[at].judged, self.variants[at].parent) {
            at = parent;
        }
        at
    }

    /// A profile of each training workload alone, in addition to the one of all.
    fn each_training(&mut self, training: &[&str]) -> Result<(), Wrong> {
        if training.len() < 2 {
            return Err((
                "matrix",
                "a matrix needs at least two training workloads; name them in `train`".to_owned(),
            ));
        }
        if !self.variants.iter().any(|variant| variant.name == PGO) {
            return Err(("matrix", "a matrix compares profiles; add `pgo` to the variants".to_owned()));
        }
        let parent = Some(self.place(BASELINE));
        for (index, name) in training.iter().enumerate() {
            let made = Made::Shaped { by: Profile::First(Mix::Only(index)), relocs: false };
            self.variants.push(Variant { name: format!("{PGO}@{name}"), parent, made, judged: true });
        }
        Ok(())
    }
}

/// The uses of a profile for BOLT.
pub fn for_bolt_alone() -> Vec<String> {
    [BASELINE, BOLT].map(str::to_owned).to_vec()
}

/// The profiles that the variants need, each after its sources.
pub fn profiles(variants: &[Variant]) -> Vec<Profile> {
    let wanted = variants.iter().filter_map(|variant| match variant.made {
        Made::Shaped { by, .. } => Some(by),
        Made::Plain { .. } | Made::Rewritten { .. } | Made::Configured => None,
    });
    let mut profiles: BTreeSet<Profile> = wanted.collect();
    if profiles.contains(&Profile::Second) {
        profiles.insert(Profile::First(Mix::All));
    }
    profiles.into_iter().collect()
}

/// The tree without BOLT's variants and those that only exist for BOLT; `None` if only the baseline is left. No variant is based
/// on one of BOLT's.
pub fn without_bolt(variants: &[Variant]) -> Option<Vec<Variant>> {
    let of_bolt = |variant: &Variant| {
        let is_rewritten = matches!(variant.made, Made::Rewritten { .. });
        is_rewritten || (!variant.judged && [RELOCS, PGO_RELOCS].contains(&variant.name.as_str()))
    };
    let new_place = |old: usize| old - variants[..old].iter().filter(|variant| of_bolt(variant)).count();
    // Relocations are for BOLT; those of the variant `relocs` were requested.
    let without = |made: Made| match made {
        Made::Shaped { by, .. } => Made::Shaped { by, relocs: false },
        Made::Plain { jump_tables: false, .. } => Made::Plain { relocs: false, jump_tables: false },
        made => made,
    };
    let others = variants.iter().filter(|variant| !of_bolt(variant)).map(|variant| Variant {
        parent: variant.parent.map(new_place),
        made: without(variant.made),
        ..variant.clone()
    });
    let others: Vec<Variant> = others.collect();
    others.iter().skip(1).any(|variant| variant.judged).then_some(others)
}

/// Whether BOLT is requested with the profile that the experiment requests.
pub fn bolt_is_wanted(variants: &[Variant]) -> bool {
    let is = |variant: &Variant| matches!(variant.made, Made::Rewritten { by: BoltBy::Wanted, .. });
    variants.iter().any(is)
}

/// Whether a variant needs plain samples, whatever the experiment requests.
pub fn needs_samples(variants: &[Variant]) -> bool {
    let is = |variant: &Variant| matches!(variant.made, Made::Rewritten { by: BoltBy::Samples, .. });
    variants.iter().any(is)
}

/// Whether a variant needs a trace under an emulator, whatever the experiment requests.
pub fn needs_emulator(variants: &[Variant]) -> bool {
    let is = |variant: &Variant| matches!(variant.made, Made::Rewritten { by: BoltBy::Emulator, .. });
    variants.iter().any(is)
}

/// Whether BOLT is requested.
pub fn needs_bolt(variants: &[Variant]) -> bool {
    variants.iter().any(|variant| matches!(variant.made, Made::Rewritten { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn elf() -> Form {
        Form::Elf { binary: PathBuf::from("x") }
    }

    fn cargo() -> Form {
        let toml = "manifest = \"Cargo.toml\"\npackage = \"p\"\nbin = \"b\"\n";
        let file: crate::spec::target::TargetFile = toml::from_str(toml).unwrap();
        file.checked().unwrap().form
    }

    /// `name<parent(from)`, with a `?` for those that were not requested.
    fn told(form: &Form, wanted: Option<&[&str]>, training: &[&str], matrix: bool) -> Result<String, Wrong> {
        let wanted: Option<Vec<String>> =
            wanted.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
        let variants = of(wanted.as_deref(), form, training, matrix)?;
        let name = |index: usize| variants[index].name.as_str();
        let tell = |variant: &Variant| {
            let parent = variant.parent.map(|parent| format!("<{}", name(parent))).unwrap_or_default();
            let made = match variant.made {
                Made::Rewritten { from, .. } => format!("({})", name(from)),
                Made::Plain { relocs: true, .. } | Made::Shaped { relocs: true, .. } => "+r".to_owned(),
                _ => String::new(),
            };
            let asked = if variant.judged { "" } else { "?" };
            format!("{}{asked}{parent}{made}", variant.name)
        };
        Ok(variants.iter().map(tell).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn each_variant_stands_behind_the_one_that_it_builds_on() {
        let check = |form: &Form, wanted: Option<&[&str]>, expected: &str| {
            assert_eq!(told(form, wanted, &["t"], false).unwrap(), expected);
        };
        check(&cargo(), None, "baseline pgo<baseline");
        check(&elf(), None, "baseline bolt<baseline(baseline)");
        check(&cargo(), Some(&["bolt"]), "baseline relocs?<baseline+r bolt<baseline(relocs)");
        check(&cargo(), Some(&["relocs", "bolt"]), "baseline relocs<baseline+r bolt<relocs(relocs)");
        check(&cargo(), Some(&["pgo+bolt", "pgo"]), "baseline pgo<baseline+r pgo+bolt<pgo(pgo)");
        check(&cargo(), Some(&["pgo+bolt"]), "baseline pgo?<baseline+r pgo+bolt<baseline(pgo)");
        check(&cargo(), Some(&["csir", "pgo"]), "baseline pgo<baseline csir<pgo");
        check(&cargo(), Some(&["csir"]), "baseline csir<baseline");
        check(&cargo(), Some(&["csir+bolt", "csir"]), "baseline csir<baseline+r csir+bolt<csir(csir)");
        check(
            &cargo(),
            Some(&["sampled-bolt", "relocs", "bolt"]),
            "baseline relocs<baseline+r sampled-bolt<relocs(relocs) bolt<relocs(relocs)",
        );
        check(&elf(), Some(&["sampled-bolt"]), "baseline sampled-bolt<baseline(baseline)");
        check(
            &cargo(),
            Some(&["bolt", "emulated-bolt"]),
            "baseline relocs?<baseline+r emulated-bolt<baseline(relocs) bolt<baseline(relocs)",
        );
        check(&cargo(), Some(&["no-jump-tables"]), "baseline no-jump-tables<baseline");
        check(
            &cargo(),
            Some(&["no-jump-tables", "bolt"]),
            "baseline no-jump-tables<baseline+r bolt<no-jump-tables(no-jump-tables)",
        );
    }

    #[test]
    fn gcc_gets_its_profile_without_what_bolt_needs_of_it() {
        let recipe = |compiler: &str| {
            let toml = format!("source = \".\"\nbuild = [\"make\"]\nprogram = \"x\"\n{compiler}");
            let file: crate::spec::target::TargetFile = toml::from_str(&toml).unwrap();
            file.checked().unwrap().form
        };
        let told =
            |compiler: &str, wanted: Option<&[&str]>| told(&recipe(compiler), wanted, &["t"], false).unwrap();
        assert_eq!(
            told("compiler = \"gcc\"", None),
            "baseline pgo<baseline relocs+pgo?<pgo+r pgo+bolt<pgo(relocs+pgo)"
        );
        assert_eq!(
            told("compiler = \"gcc\"", Some(&["pgo+bolt"])),
            "baseline relocs+pgo?<baseline+r pgo+bolt<baseline(relocs+pgo)"
        );
        assert_eq!(told("compiler = \"clang-22\"", None), "baseline pgo<baseline+r pgo+bolt<pgo(pgo)");
        assert_eq!(told("", None), told("compiler = \"clang-22\"", None));
        let of = super::of(None, &recipe("compiler = \"gcc\""), &["t"], false).unwrap();
        assert_eq!(without_bolt(&of).unwrap().len(), 2, "nothing for BOLT is built without it");
    }

    #[test]
    fn a_matrix_trains_with_each_workload_alone() {
        let told = |training: &[&str]| told(&cargo(), None, training, true);
        assert_eq!(told(&["a", "b"]).unwrap(), "baseline pgo<baseline pgo@a<baseline pgo@b<baseline");
        assert!(told(&["a"]).unwrap_err().1.contains("two training workloads"));
    }

    #[test]
    fn the_second_profile_needs_the_first_and_what_bolt_makes_can_be_done_without() {
        let of = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            super::of(Some(&names), &cargo(), &["t"], false).unwrap()
        };
        assert_eq!(profiles(&of(&["csir"])), [Profile::First(Mix::All), Profile::Second]);
        assert_eq!(profiles(&of(&["bolt"])), []);
        let left = without_bolt(&of(&["pgo", "bolt", "pgo+bolt"])).unwrap();
        assert_eq!(left.iter().map(|variant| variant.name.as_str()).collect::<Vec<_>>(), ["baseline", "pgo"]);
        assert_eq!(left[1].made, Made::Shaped { by: Profile::First(Mix::All), relocs: false });
        assert_eq!(without_bolt(&of(&["bolt"])), None);
        let left = without_bolt(&of(&["no-jump-tables", "sampled-bolt"])).unwrap();
        assert_eq!(left[1].made, Made::Plain { relocs: false, jump_tables: false });
        assert_eq!(left.len(), 2);
    }

    #[test]
    fn what_a_target_can_not_have_is_named() {
        let refused = |form: &Form, wanted: &[&str]| told(form, Some(wanted), &["t"], false).unwrap_err().1;
        assert!(refused(&cargo(), &["pg0"]).contains("did you mean `pgo`?"));
        assert!(
            refused(&elf(), &["pgo"]).contains("use one of: baseline, sampled-bolt, emulated-bolt, bolt")
        );
        assert!(refused(&cargo(), &["baseline"]).contains("at least one more"));
    }
}
