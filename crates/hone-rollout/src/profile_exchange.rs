//! Pushes profiles to a store, pulls them, and merges them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use hone_binary::lock::{LockFault, LockedProgram};
use hone_binary::profile_store::{Identity, Keeper, MergedProfile, StoreFault, Weights};
use hone_store::StoreError;

use crate::fleet::{
    Choice, Depot, Fetched, HostWeight, Kept, Pushed, Pusher, beginning_with, shares_of_hosts,
};
use crate::fleet_text::Pulled;
use hone_experiment::ending::Usage;
use hone_experiment::progress::Progress;
use hone_experiment::whole::NotWritten;

/// A build, as the user names it.
#[derive(Debug, Clone, Default)]
pub struct NamedBuild {
    /// By its build-id, or the start of it.
    pub build_id: Option<String>,
    /// By its program.
    pub program: Option<PathBuf>,
}

impl NamedBuild {
    /// Its build-id, if it is named.
    pub fn named(&self) -> Result<Option<String>> {
        match (&self.build_id, &self.program) {
            (Some(id), _) => Ok(Some(id.clone())),
            (None, Some(program)) => of_program(program).map(Some),
            (None, None) => Ok(None),
        }
    }
}

fn of_program(program: &Path) -> Result<String> {
    let build_id = LockedProgram::from_executable(program, None, Vec::new(), &[])?.build_id;
    build_id.with_context(|| {
        format!(
            "{} has no build-id\n  next: link it with -Wl,--build-id, or name the build with --build-id",
            program.display()
        )
    })
}

/// The build that a profile names. The user must not name another one. A profile without a build belongs to the one that the user
/// names, if the store has it.
pub(crate) fn build_of(
    profile: &Path,
    named: &[String],
    said: Option<&str>,
    pusher: &mut Pusher<'_>,
) -> Result<String> {
    let is_named = |id: &str| named.iter().any(|named| named.eq_ignore_ascii_case(id));
    match (said, named) {
        (Some(said), []) => pusher.whole_build_id(said),
        (Some(said), _) if is_named(said) => Ok(said.to_owned()),
        (Some(said), _) => match beginning_with(said, named)[..] {
            [one] => Ok(one.clone()),
            [] => bail!(
                "{} belongs to build {}, not to {said}\n  next: remove --build-id and --program, or name the \
                 right profile",
                profile.display(),
                named.join(", ")
            ),
            _ => bail!(Usage(format!(
                "{} belongs to builds {}, and several of them start with {said}\n  next: give more \
                 characters of the build-id",
                profile.display(),
                named.join(", ")
            ))),
        },
        (None, [one]) => Ok(one.clone()),
        (None, []) => bail!(
            "the build of {} is not known\n  next: add --program FILE or --build-id ID",
            profile.display()
        ),
        (None, _) => bail!(
            "{} was merged from {} builds and belongs to none of them\n  next: push the profiles from which \
             it was merged",
            profile.display(),
            named.len()
        ),
    }
}

/// Pushes the profiles of a host, each with its lock, under its build.
pub fn push(
    profiles: &[PathBuf],
    build: &NamedBuild,
    (place, host): (&str, &str),
    keeper: &Keeper<'_>,
    progress: &Progress,
) -> Result<Vec<Pushed>> {
    let said = build.named()?;
    let depot = Depot::open(place)?;
    let mut pusher = Pusher::new(&depot, host);
    let mut pushed = Vec::new();
    for (at, profile) in profiles.iter().enumerate() {
        progress.doing(&format!("pushing {} of {}", at + 1, profiles.len()));
        let Identity { profile: facts, build_ids } = keeper.identity(profile)?;
        let build_id = build_of(profile, &build_ids, said.as_deref(), &mut pusher)?;
        pushed.push(pusher.push(profile, facts, &build_id)?);
    }
    Ok(pushed)
}

/// Pulls profiles from a store into a folder.
pub fn pull(
    place: &str,
    choice: &Choice,
    skip_broken: bool,
    output: &Path,
    keeper: &Keeper<'_>,
    progress: &Progress,
) -> Result<Pulled> {
    let depot = Depot::open(place)?;
    let (build_id, chosen) = depot.chosen(choice)?;
    fs::create_dir_all(output).map_err(|error| {
        anyhow!(
            "the folder {} can't be created: {error}\n  next: name another one with --output",
            output.display()
        )
    })?;
    let broken = skip_broken.then_some(keeper);
    take_all(&depot, build_id, &chosen, output, broken, progress)
}

/// Whether an error is about one profile alone. A store that does not answer, or a full disk, would affect all of them.
fn is_of_one(error: &anyhow::Error) -> bool {
    !error.chain().any(|cause| {
        cause.is::<NotWritten>()
            || matches!(cause.downcast_ref(), Some(LockFault::Unreadable { .. }))
            || cause.downcast_ref().is_some_and(|refused| !matches!(refused, StoreError::TooLarge { .. }))
    })
}

/// Pulls profiles one by one. With a keeper, broken ones are skipped.
fn take_all(
    depot: &Depot,
    build_id: String,
    chosen: &[Kept],
    to: &Path,
    skip_broken: Option<&Keeper<'_>>,
    progress: &Progress,
) -> Result<Pulled> {
    let (mut profiles, mut left_out) = (Vec::new(), Vec::new());
    for (at, kept) in chosen.iter().enumerate() {
        progress.doing(&format!("pulling {} of {}", at + 1, chosen.len()));
        let taken = depot.fetch(&build_id, kept, to);
        let sound = taken.and_then(|taken| match skip_broken {
            Some(keeper) => keeper.sound(&taken.file).map(|()| taken),
            None => Ok(taken),
        });
        match sound {
            Ok(taken) => profiles.push(taken),
            Err(error) if hone_tool::interrupt::requested() || !is_of_one(&error) => return Err(error),
            Err(error) if skip_broken.is_some() => left_out.push((kept.name(), format!("{error:#}"))),
            Err(error) => bail!(
                "can't use {}: {error:#}\n  next: remove it from the store, or use --skip-broken",
                kept.name()
            ),
        }
    }
    if profiles.is_empty() {
        bail!(
            "none of the {} profiles of build {build_id} is usable; the first error: {}",
            chosen.len(),
            left_out[0].1
        );
    }
    Ok(Pulled { build_id, folder: to.to_path_buf(), profiles, left_out })
}

/// A profile that can't get its share, by its name in the store and by its host, since its local file is temporary.
fn by_host(error: anyhow::Error, profiles: &[Fetched]) -> anyhow::Error {
    let Some(StoreFault::Apart { file, reason }) = error.downcast_ref() else { return error };
    let Some(of) = profiles.iter().find(|one| one.file == *file) else { return error };
    anyhow!(
        "{} of host {} can't get its share: {reason}\n  next: give its host less weight (--host-weight), use \
         only the newest profiles (--newest), or remove --same-for-hosts",
        of.name,
        of.host
    )
}

/// Merges all profiles of a build in a store. With `same_for_hosts` every host has the same weight, however long it was profiled.
pub fn merge(
    place: &str,
    choice: &Choice,
    skip_broken: bool,
    (same_for_hosts, given): (bool, &[HostWeight]),
    output: &Path,
    (keeper, scratch): (&Keeper<'_>, &Path),
    progress: &Progress,
) -> Result<MergedProfile> {
    // Checked before anything is read.
    let home = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !home.is_dir() {
        bail!(
            "{} can't be written: the folder {} does not exist\n  next: create it, or name another file",
            output.display(),
            home.display()
        );
    }
    let depot = Depot::open(place)?;
    let (build_id, chosen) = depot.chosen(choice)?;
    // Before any profile is pulled.
    let of_host = HostWeight::of_all(given, chosen.iter().map(|one| one.host.as_str()))?;
    let folder = scratch.join("taken");
    fs::create_dir_all(&folder).with_context(|| format!("{} can't be created", folder.display()))?;
    let broken = skip_broken.then_some(keeper);
    let taken = take_all(&depot, build_id, &chosen, &folder, broken, progress);
    let pulled = taken.map_err(|error| match error.is::<NotWritten>() {
        true => error.context(
            "Hone first pulls the profiles into a temporary folder; TMPDIR can name another \
                 one",
        ),
        false => error,
    })?;
    progress.doing(&format!("merging {}", pulled.profiles.len()));
    let files: Vec<PathBuf> = pulled.profiles.iter().map(|one| one.file.clone()).collect();
    let weights = match (same_for_hosts, given.is_empty()) {
        (true, _) => Weights::Shares(shares_of_hosts(&pulled.profiles, &of_host)?),
        (false, true) => Weights::Same,
        (false, false) => Weights::Each(pulled.profiles.iter().map(|one| of_host[&one.host]).collect()),
    };
    let merged = keeper.merge(&files, &weights, output, false);
    let mut merged = merged.map_err(|error| by_host(error, &pulled.profiles))?;
    // The local files are temporary. Their names in the store remain.
    for (input, taken) in merged.inputs.iter_mut().zip(&pulled.profiles) {
        input.file = PathBuf::from(&taken.name);
    }
    let left_out = pulled.left_out.iter().map(|(name, reason)| format!("skipped: {name}: {reason}"));
    merged.notes.extend(left_out);
    merged.notes.extend(HostWeight::idle(given, &pulled.profiles));
    Ok(merged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_build_is_one_that_the_profile_or_the_place_has() {
        let place = tempfile::tempdir().unwrap();
        let whole = "c0ffee01".repeat(5);
        fs::create_dir(place.path().join(&whole)).unwrap();
        let depot = Depot::open(place.path().to_str().unwrap()).unwrap();
        let mut pusher = Pusher::new(&depot, "host");
        let mut build = |named: &[&str], said: Option<&str>| {
            let named: Vec<String> = named.iter().map(|id| (*id).to_owned()).collect();
            build_of(Path::new("x.fdata"), &named, said, &mut pusher).map_err(|error| error.to_string())
        };
        assert_eq!(build(&["abcdef"], None).unwrap(), "abcdef");
        assert_eq!(build(&["abcdef"], Some("ABCDEF")).unwrap(), "ABCDEF");
        assert_eq!(build(&["abcdef"], Some("abcd")).unwrap(), "abcdef");
        assert_eq!(build(&["abcdef", "123456"], Some("1234")).unwrap(), "123456");
        assert_eq!(build(&[], Some("c0ff")).unwrap(), whole);
        assert_eq!(build(&[], Some("beef")).unwrap(), "beef", "the first of its build");
        for (named, said, expected) in [
            (vec!["abcdef"], Some("abc"), "belongs to build abcdef, not to abc"),
            (vec!["abcdef"], Some("c0ffee01"), "belongs to build abcdef, not to c0ffee01"),
            (
                vec!["abcdef", "abcd01"],
                Some("abcd"),
                "several of them start with abcd\n  next: give more characters",
            ),
            (vec![], None, "the build of x.fdata is not known"),
        ] {
            let error = build(&named, said).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
