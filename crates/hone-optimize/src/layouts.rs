//! Further builds of a variant, from the same source and profile, with the functions at other places. Several builds show
//! how much of a difference comes from the layout by chance. The first build of each variant is the default link.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use hone_binary::bolt::{Bolt, BoltTools, Budget, Input, Rung, Wish, fdata};
use hone_binary::{BuildRequest, Built, Moved, functions_moved};
use hone_record::{LaidOut, OneLayout, Rewriting};

use super::steps::{Steps, Told};
use crate::Makers;
use crate::job::Job;
use crate::outcome::{Left, Outcomes, Taken};
use hone_experiment::phase::Phase;
use hone_experiment::variants::{Made, Variant};

/// The further builds, by their numbers, which are their seeds.
pub(super) fn further(builds: u32) -> std::ops::RangeInclusive<u64> {
    2..=u64::from(builds)
}

/// A build's name. No workload name contains `~`, so the name is unique.
pub(super) fn name(variant: &str, number: u64) -> String {
    format!("{variant}~{number}")
}

/// The number of functions in a BOLT profile that count as hot: about as many as in a compiler's profile.
const HOT: usize = 20;

/// The request for a further build.
pub(super) fn order(first: &BuildRequest, number: u64) -> BuildRequest {
    BuildRequest { variant: name(&first.variant, number), ..first.clone() }.seeded(number)
}

/// All builds of a variant, for the record; none where there is only one.
pub(super) fn laid_out(builds: &[&Built]) -> Vec<LaidOut> {
    let one = |(number, built): (u64, &&Built)| LaidOut {
        name: built.variant.clone(),
        link_seed: (number > 1).then_some(number),
        sha256: built.facts.sha256.clone(),
    };
    if builds.len() < 2 { Vec::new() } else { (1..).zip(builds).map(one).collect() }
}

impl Job<'_> {
    /// The further builds of a finished variant, each verified and checked like the first one.
    pub(super) fn layouts(
        &self,
        steps: &mut Steps<'_>,
        makers: Makers<'_>,
        (index, variant): (usize, &Variant),
        taken: Option<&Taken>,
        first: &Built,
        outcomes: &Outcomes,
    ) -> Result<Vec<Built>> {
        let mut builds: Vec<Built> = Vec::new();
        for number in further(self.experiment.builds) {
            let name = name(&variant.name, number);
            let built = match variant.made {
                Made::Rewritten { from, .. } => {
                    let base = outcomes.layout(from, number)?;
                    let first = outcomes.rewritten.get(&index).context("BOLT's first build is not known")?;
                    steps.run(Phase::Build, &format!("build-{name}"), || {
                        // A job that only judges has finished builds, and may have no BOLT.
                        let tools = makers.tools.context("Hone has not looked for BOLT")?;
                        self.rewritten_as(tools, &variant.name, &name, base, first)
                    })?
                }
                Made::Plain { .. } | Made::Shaped { .. } | Made::Configured => {
                    let profile = taken.map_or(Path::new(""), |taken| &taken.merged.path);
                    let order = order(&self.order(variant, profile, makers.compiler), number);
                    let phase = if index == 0 { Phase::Baseline } else { Phase::Build };
                    steps.run(phase, &format!("build-{name}"), || self.build(makers.builder, &order))?
                }
            };
            if let Some(taken) = taken {
                let plain = outcomes.layout(0, number)?;
                steps.run(Phase::Build, &format!("prove-{name}"), || {
                    let applied = makers.builder.prove_applied(&built, plain, &taken.proven)?;
                    let note = format!(
                        "{:.2} % of the profile's weight discarded",
                        applied.discarded_weight * 100.0
                    );
                    Ok(Told { note, command: None, result: applied })
                })?;
            }
            let check = format!("check-{name}");
            if index == 0 {
                has_moved(first, &builds, &built)?;
                steps.run(Phase::Baseline, &check, || self.check_plain(&built))?;
            } else if variant.judged && !matches!(variant.made, Made::Rewritten { .. }) {
                steps.run(Phase::Build, &check, || self.smoke(&built))?;
            }
            builds.push(built);
        }
        Ok(builds)
    }

    /// Variants whose several builds are in fact one layout, as far as their hot functions show.
    pub(super) fn one_layouts(&self, variants: &[Variant], outcomes: &Outcomes) -> Result<Vec<OneLayout>> {
        // A variant with one build has nothing to compare.
        if self.experiment.builds < 2 {
            return Ok(Vec::new());
        }
        let proofs = outcomes.shaped.values().map(|(proven, _)| &proven.proof);
        let mut hot: BTreeSet<String> =
            proofs.flat_map(|proof| &proof.hot_functions).map(|function| function.name.clone()).collect();
        let mut found = Vec::new();
        let of_bolt =
            variants.iter().map(|variant| self.hot_for_bolt(variant)).collect::<Result<Vec<_>>>()?;
        if hot.is_empty() {
            hot = of_bolt.iter().flatten().cloned().collect();
        }
        for (index, (variant, of_bolt)) in variants.iter().zip(of_bolt).enumerate() {
            let builds = outcomes.builds(index);
            let hot = if of_bolt.is_empty() { &hot } else { &of_bolt };
            // Without a profile, hot code is unknown, and the linker orders nothing by it.
            if builds.len() < 2 || hot.is_empty() {
                continue;
            }
            let programs: Vec<&Path> = builds.iter().map(|built| built.executable.as_path()).collect();
            let one = why_one_layout(functions_moved(&programs, hot)?);
            found.extend(one.map(|why| OneLayout { variant: variant.name.clone(), why }));
        }
        Ok(found)
    }

    /// The hot functions of the BOLT profile of this variant; none for variants that BOLT did not make.
    fn hot_for_bolt(&self, variant: &Variant) -> Result<BTreeSet<String>> {
        let profile = self.folder.join("bolt").join(&variant.name).join("merged.fdata");
        if !matches!(variant.made, Made::Rewritten { .. }) || !profile.is_file() {
            return Ok(BTreeSet::new());
        }
        let mut functions: Vec<_> = fdata::counts(&profile)?.functions.into_iter().collect();
        functions.sort_by(|(name, counts), (other, more)| {
            more.heat().cmp(&counts.heat()).then_with(|| name.cmp(other))
        });
        Ok(functions.into_iter().take(HOT).map(|(name, _)| name).collect())
    }

    /// Repeats BOLT's work on the first build for another one: with the same profile (which names functions, not their places), at
    /// the same level, and without the same functions.
    fn rewritten_as(
        &self,
        tools: &BoltTools,
        variant: &str,
        name: &str,
        from: &Built,
        first: &Rewriting,
    ) -> Result<Told<Built>> {
        let folder = self.folder.join("bolt").join(name);
        let bolt = Bolt::prepare(self.runner, tools.clone(), &folder, Budget::default())?;
        let input = Input::look(&from.executable)?;
        let trained = self.folder.join("bolt").join(variant).join("merged.fdata");
        let profile = folder.join("merged.fdata");
        // The copy has no note that binds it to the first build. The step below finds out what matches.
        fs::copy(&trained, &profile).with_context(|| format!("{} can't be copied", trained.display()))?;
        let proven = bolt.prove_profile(&input, &profile, true)?;
        let rung = Rung::LADDER.into_iter().find(|rung| rung.name() == first.rung);
        let rung = rung.with_context(|| format!("{} is not a level of BOLT", first.rung))?;
        let done =
            bolt.optimize(&input, &proven, &Wish { skip: first.skipped.clone(), ..Wish::new(rung) })?;
        let (command, stale) = (done.command.clone(), done.said.stale_share());
        let mut built = done.built(name, from);
        self.keep_program(&mut built)?;
        match self.check_hard(name, &built.executable)? {
            Ok(checked) => {
                let note = format!(
                    "BOLT {}, {:.1} % of the profile stale; {}",
                    first.rung,
                    stale * 100.0,
                    checked.what
                );
                Ok(Told { note, command: Some(command), result: built })
            }
            Err(trouble) => Err(not_correct(name, &trouble).into()),
        }
    }
}

/// A build that fails its check, by its own name, because the variant's name is ambiguous.
pub(super) fn not_correct(build: &str, trouble: &str) -> Left {
    Left(format!("the optimised program `{build}` fails its check: {trouble}"))
}

/// Why several builds are no more than one layout; `None` if at least half of the hot functions moved in each build.
fn why_one_layout(Moved { known, moved }: Moved) -> Option<String> {
    match known {
        0 => Some(
            "none of its hot functions has a symbol in all its builds, so Hone can't see whether they moved"
                .to_owned(),
        ),
        _ if moved * 2 < known => {
            Some(format!("only {moved} of {known} hot functions have other places in its builds"))
        }
        _ => None,
    }
}

/// A seed that moves nothing makes no other layout, and confidence intervals over such builds would be too narrow.
fn has_moved(first: &Built, others: &[Built], built: &Built) -> Result<()> {
    let same = |other: &&Built| other.facts.text_sha256 == built.facts.text_sha256;
    match std::iter::once(first).chain(others).find(same) {
        None => Ok(()),
        Some(same) => bail!(
            "{} has the same code as {}: the seed moved no function ({})\n  next: use one build (builds = \
             1), or link the program through the compiler, which passes on the flag of the seed",
            built.variant,
            same.variant,
            hone_format::bytes(built.facts.text_bytes)
        ),
    }
}

impl Outcomes {
    /// A further build of a variant.
    fn layout(&self, index: usize, number: u64) -> Result<&Built> {
        let place = usize::try_from(number - 2).unwrap_or(usize::MAX);
        let found = self.layouts.get(&index).and_then(|builds| builds.get(place));
        found.context("a build of the parent variant is missing")
    }

    /// All builds of a variant, the first one first.
    pub(super) fn builds(&self, index: usize) -> Vec<&Built> {
        let further = self.layouts.get(&index).into_iter().flatten();
        self.made.get(&index).into_iter().chain(further).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn builds_are_one_layout_when_less_than_half_of_what_is_hot_moves() {
        let why = |moved, known| why_one_layout(Moved { known, moved });
        assert_eq!(why(6, 12), None);
        assert!(why(5, 12).unwrap().contains("5 of 12"));
        assert!(why(0, 0).unwrap().contains("symbol"));
    }
}
