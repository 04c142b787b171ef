//! The profile for a plain `go build`, and the one that is already there.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use hone_binary::Built;
use hone_binary::go::{DEFAULT_PGO, GoPgo, GoTarget};
use hone_binary::lock::Lock;
use hone_record::VariantFacts;
use hone_tool::{Runner, interrupt};
use serde::Serialize;

use crate::job::Job;
use crate::outcome::{Taken, in_a_line};
use crate::steps::Told;
use hone_experiment::spec::target::Form;

/// A profile that has lost this share of its weight is stale: the losses then include the compiler's best calls.
const STALE_FROM: f64 = hone_binary::profile_store::DEFAULT_BUDGET;

impl Job<'_> {
    /// How well the `default.pgo` of the sources still fits, in words; nothing if there is none. Hone never uses it: every variant is built
    /// with `-pgo=off` or with the profile of this run.
    pub(super) fn lying_profile(&self, shop: &GoPgo<'_>, baseline: &Built) -> Result<Told<Option<String>>> {
        let told = |note: String, result| Ok(Told { note, command: None, result });
        let path = shop.default_profile();
        if !path.is_file() {
            let elsewhere = shop.misplaced();
            if elsewhere.is_empty() {
                return told(format!("there is no {DEFAULT_PGO} in the sources"), None);
            }
            let elsewhere: Vec<String> = elsewhere.iter().map(|path| path.display().to_string()).collect();
            let words =
                format!("{} has no effect: go takes it only as {}", elsewhere.join(", "), path.display());
            return told(words.clone(), Some(words));
        }
        let words = match shop.coverage(&path, &baseline.executable) {
            Ok(found) if found.weight == 0 => {
                format!("{} contains no call in the program's own code", path.display())
            }
            Ok(found) => {
                let share = found.lost as f64 / found.weight as f64;
                let lost = format!(
                    "the present source does not match {} of the weight of its calls",
                    format_args!("{}", hone_format::percent(share))
                );
                let names: Vec<&str> =
                    found.lost_functions.iter().take(3).map(|(name, _)| name.as_str()).collect();
                let names = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
                let stale = if share > STALE_FROM { "is stale: " } else { "fits: " };
                format!("{} {stale}{lost}{names}", path.display())
            }
            Err(error) => format!("{} can't be used: {}", path.display(), in_a_line(&error)),
        };
        told(words.clone(), Some(words))
    }

    /// Places the profile where a plain `go build` uses it, and verifies that by such a build. Only a profile whose build was kept goes
    /// into a repository without a request.
    pub(super) fn placed(&self, taken: Option<&Taken>, pgo: Option<&VariantFacts>) -> Result<Told<String>> {
        let told = |words: String, command| Ok(Told { note: words.clone(), command, result: words });
        let Some(taken) = taken else {
            return told(format!("no {DEFAULT_PGO} placed: there is no profile"), None);
        };
        let profile = &taken.merged.path;
        if pgo.is_none_or(|pgo| pgo.decision != "keep") {
            let words = format!("no {DEFAULT_PGO} placed: its build is not kept");
            return told(format!("{words}; to place it anyway: {}", self.by_hand(profile)), None);
        }
        let placed = match self.go_shop().and_then(|shop| place(&shop, profile)) {
            Ok(placed) => placed,
            Err(error) if interrupt::requested() => return Err(error),
            // All is measured, so a failure here must not cost the results.
            Err(error) => {
                let words = format!("no {DEFAULT_PGO} placed: {}", in_a_line(&error));
                return told(format!("{words}; to place it later: {}", self.by_hand(profile)), None);
            }
        };
        let command = format!("cp {} {}", profile.display(), placed.path.display());
        told(placed.words(), Some(command))
    }
}

impl Job<'_> {
    /// The command that places a profile, ready to paste.
    fn by_hand(&self, profile: &Path) -> String {
        let profile = profile.display().to_string();
        let mut words = vec!["hone", "profile", "place", &profile];
        let source;
        if let Form::Go(go) = &self.experiment.target.form {
            source = self.beside(&go.module).display().to_string();
            words.extend(["--module", &source, "--package", &go.package]);
        }
        shlex::try_join(words.iter().copied()).unwrap_or_else(|_| words.join(" "))
    }
}

/// A placed profile.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InPlace {
    /// Its path.
    pub path: PathBuf,
    /// The earlier file there.
    pub before: Before,
}

/// The earlier file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Before {
    Nothing,
    TheSame,
    Another,
}

impl InPlace {
    pub fn words(&self) -> String {
        let before = match self.before {
            Before::Nothing => "",
            Before::TheSame => ", as before",
            Before::Another => ", replacing another profile",
        };
        format!(
            "placed {}{before}; its build settings prove that a plain `go build` uses it. Commit it together \
             with its lock",
            self.path.display()
        )
    }
}

/// Places a profile and its lock where Go uses it, and runs a plain build: the program must name the profile.
fn place(shop: &GoPgo<'_>, profile: &Path) -> Result<InPlace> {
    shop.lay_back(profile)?;
    let path = shop.default_profile();
    let before = match (fs::read(&path), fs::read(profile)) {
        (Ok(there), Ok(new)) if there == new => Before::TheSame,
        (Ok(_), _) => Before::Another,
        (Err(_), _) => Before::Nothing,
    };
    if before == Before::TheSame {
        shop.build_auto()?;
        bring_lock(profile, &path)?;
        return Ok(InPlace { path, before });
    }
    let placed = shop.place(profile)?;
    shop.build_auto()?;
    let path = placed.keep()?;
    bring_lock(profile, &path)?;
    Ok(InPlace { path, before })
}

/// The profile's lock goes with it, unless the lock there already belongs to this profile.
fn bring_lock(profile: &Path, path: &Path) -> Result<()> {
    if matches!(Lock::read(path), Ok(Some(_))) {
        return Ok(());
    }
    let (from, to) = (Lock::path(profile), Lock::path(path));
    if from.is_file() {
        fs::copy(&from, &to).with_context(|| format!("{} can't be written", to.display()))?;
    } else if to.is_file() {
        // That lock would belong to another profile.
        fs::remove_file(&to).with_context(|| format!("{} can't be removed", to.display()))?;
    }
    Ok(())
}

/// Places a profile unless the present source has lost too much of it.
pub fn place_fitting(
    runner: &dyn Runner,
    target: GoTarget,
    profile: &Path,
    replace: bool,
    budget: f64,
    scratch: &Path,
) -> Result<InPlace> {
    let profile = profile.canonicalize().with_context(|| format!("{} can't be read", profile.display()))?;
    let shop = GoPgo::prepare(runner, target, &scratch.join("go"))?;
    shop.lay_back(&profile)?;
    let usual = shop.default_profile();
    let is_same = |there: &[u8]| std::fs::read(&profile).is_ok_and(|new| new == there);
    if !replace && std::fs::read(&usual).is_ok_and(|there| !is_same(&there)) {
        bail!(
            "{} is another profile\n  next: compare both with the program (`hone profile check`, `hone \
             profile diff`), then use --force",
            usual.display()
        );
    }
    // Go accepts any profile, and does not report one that matches nothing.
    let plain = shop.build_baseline()?;
    let coverage = shop.coverage(&profile, &plain.executable)?;
    let lost = coverage.lost_percent / 100.0;
    if coverage.weight == 0 || lost > budget {
        let names: Vec<&str> =
            coverage.lost_functions.iter().take(3).map(|(name, _)| name.as_str()).collect();
        bail!(
            "{} was not placed: {:.1} % of the weight of its calls is in functions that the present source \
             does not have ({}); the limit is {}\n  next: take a new profile from a build of this source, or \
             raise --max-loss",
            profile.display(),
            if coverage.weight == 0 { 100.0 } else { coverage.lost_percent },
            names.join(", "),
            format_args!("{}%", budget * 100.0)
        );
    }
    place(&shop, &profile)
}

#[cfg(test)]
mod tests {
    use hone_binary::lock::{LockedProfile, sha256_of};
    use hone_binary::profile_store::StoredFormat;

    use super::*;

    /// A run that was killed between the profile and its lock left the lock of the one before.
    #[test]
    fn a_profile_in_its_place_has_its_own_lock() {
        let dir = tempfile::tempdir().unwrap();
        let (profile, place) = (dir.path().join("a.pgo"), dir.path().join(DEFAULT_PGO));
        let locked = |path: &Path, level: &str| {
            let (sha256, bytes) = sha256_of(path).unwrap();
            let (level, kind) = (level.to_owned(), StoredFormat::Pprof);
            let facts =
                LockedProfile { kind, sha256, bytes, level, functions: 1, total_count: 1, max_count: 1 };
            Lock::new(facts, Vec::new(), Vec::new()).write(path).unwrap();
        };
        let level = || Lock::read(&place).map(|lock| lock.map(|lock| lock.profile.level));
        fs::write(&place, "old").unwrap();
        locked(&place, "of the old one");
        fs::write(&place, "new").unwrap();
        fs::write(&profile, "new").unwrap();
        assert!(level().is_err(), "the lock of another profile");
        locked(&profile, "cpu");
        bring_lock(&profile, &place).unwrap();
        assert_eq!(level().unwrap().as_deref(), Some("cpu"));

        locked(&place, "of the user");
        bring_lock(&profile, &place).unwrap();
        assert_eq!(level().unwrap().as_deref(), Some("of the user"), "it is of this profile");

        fs::remove_file(Lock::path(&profile)).unwrap();
        fs::write(Lock::path(&place), "{}").unwrap();
        bring_lock(&profile, &place).unwrap();
        assert_eq!(level().unwrap(), None, "it would be of another profile");
    }
}
