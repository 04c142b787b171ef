//! `hone profile push`, `list` and `pull`, and what `hone profile merge --from` takes out of a place.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use hone_binary::lock::{LockFault, LockedProgram};
use hone_binary::profile_store::{Identity, Keeper, MergedProfile, StoreFault, StoredFormat, Weights};
use hone_store::StoreError;

use crate::cmd::context::CliContext;
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::whole::NotWritten;
use hone_rollout::fleet::{
    Choice, Depot, Fetched, HostWeight, Kept, Pusher, beginning_with, host_of, shares_of_hosts,
};
use hone_rollout::fleet_text::Pulled;

/// Keep profiles where those of all hosts meet: a folder or an object store, by build-id.
///
/// The build is what the profile says of itself: by its lock, by BOLT's note, of Go by the profile. A profile that the host has pushed
/// before is not pushed again, and nothing there is ever replaced. Who gets in is said by the environment, as for `hone load --store`.
#[derive(Debug, Args)]
pub(super) struct PushArguments {
    /// The profiles, each with its lock beside it, if it has one.
    #[arg(required = true, value_name = "PROFILE")]
    profiles: Vec<PathBuf>,
    /// The place: a folder, s3://BUCKET/PATH, gs://BUCKET/PATH or az://CONTAINER/PATH.
    #[arg(long, value_name = "PLACE")]
    to: String,
    #[command(flatten)]
    of: OptionalBuild,
    /// The host that they are of; this machine's name unless told otherwise.
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
}

/// What lies in a place, build by build.
#[derive(Debug, Args)]
pub(super) struct ListArguments {
    /// The place.
    place: String,
}

/// Take the profiles of a build out of a place, with their locks, each held against what was pushed.
///
/// What lies in the folder already is not taken again, so the same command goes on where it was broken off.
#[derive(Debug, Args)]
pub(super) struct PullArguments {
    /// The place.
    place: String,
    /// The folder; it is made.
    #[arg(short, long, value_name = "FOLDER")]
    output: PathBuf,
    #[command(flatten)]
    of: OptionalBuild,
    #[command(flatten)]
    which: Which,
}

/// A build, where it must be said.
#[derive(Debug, Args)]
pub(super) struct OptionalBuild {
    /// The build, by its build-id; of one that is in the place its beginning will do.
    #[arg(long, value_name = "ID", conflicts_with = "program")]
    pub(super) build_id: Option<String>,
    /// The build, by its program.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// Which profiles of a build.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// Of each host only so many, the newest.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    last: Option<u32>,
    /// Only those of one kind.
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: Option<StoredFormat>,
    /// Leave out what is broken, and name it. Without this one broken profile ends it.
    #[arg(long)]
    skip_broken: bool,
}

/// Where the profiles of a merge come from, when they are no files.
#[derive(Debug, Args)]
pub(super) struct From {
    /// A place in which profiles were pushed: all those of one build go in.
    #[arg(long, value_name = "PLACE", requires = "build", conflicts_with_all = ["profiles", "weights", "shares", "different_builds"])]
    pub(super) from: Option<String>,
    /// The build, by its build-id or the beginning of it.
    #[arg(long, value_name = "ID", group = "build", requires = "from")]
    build_id: Option<String>,
    /// The build, by its program.
    #[arg(long, value_name = "FILE", group = "build", requires = "from")]
    program: Option<PathBuf>,
    /// Of each host only so many, the newest.
    #[arg(long, value_name = "N", requires = "from", value_parser = clap::value_parser!(u32).range(1..))]
    last: Option<u32>,
    /// Only profiles of one kind: profdata, fdata or pprof.
    #[arg(long, value_name = "KIND", requires = "from", value_parser = kind)]
    kind: Option<StoredFormat>,
    /// Every host counts the same, however long it was watched and however busy it was.
    #[arg(long, requires = "from")]
    same_for_hosts: bool,
    /// What the hosts count for whose names fit a pattern, in which * stands for any text, as in 'eu-*=3'; may be repeated. The first pattern that
    /// fits a host counts, and one must. Counts are multiplied by it, or, with --same-for-hosts, the host's share is.
    #[arg(long, value_name = "PATTERN=W", requires = "from", value_parser = HostWeight::parse)]
    host_weight: Vec<HostWeight>,
    /// Leave out what is broken, and name it. Without this one broken profile ends the merge.
    #[arg(long, requires = "from")]
    skip_broken: bool,
}

fn kind(text: &str) -> Result<StoredFormat, String> {
    let all = [StoredFormat::Profdata, StoredFormat::Fdata, StoredFormat::Pprof];
    all.into_iter().find(|kind| kind.name() == text).ok_or_else(|| "profdata, fdata or pprof".to_owned())
}

impl OptionalBuild {
    pub(super) fn said(&self) -> Result<Option<String>> {
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
            "{} has no build-id\n  next: link it with -Wl,--build-id, or say another name for the build by --build-id",
            program.display()
        )
    })
}

/// The build that a profile itself names; one that is said must not be another. Where it names none, what is said is meant of those that are in
/// the place.
pub(super) fn build_of(
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
                "{} is of build {}, and not of {said}\n  next: leave --build-id and --program away, or name the right profile",
                profile.display(),
                named.join(", ")
            ),
            _ => bail!(Usage(format!(
                "{} is of builds {}, of which more than one begin with {said}: give more of it",
                profile.display(),
                named.join(", ")
            ))),
        },
        (None, [one]) => Ok(one.clone()),
        (None, []) => bail!(
            "nothing says which build {} was taken from\n  next: say --program FILE or --build-id ID",
            profile.display()
        ),
        (None, _) => bail!(
            "{} was merged of {} builds, and belongs to none of them\n  next: push the profiles that went in",
            profile.display(),
            named.len()
        ),
    }
}

pub(super) fn push(arguments: &PushArguments, keeper: &Keeper<'_>, cli: &CliContext) -> Result<Ending> {
    let said = arguments.of.said()?;
    let host = host_of(arguments.host.as_deref())?;
    let depot = Depot::open(&arguments.to)?;
    let mut pusher = Pusher::new(&depot, &host);
    let mut pushed = Vec::new();
    for (at, profile) in arguments.profiles.iter().enumerate() {
        cli.progress.doing(&format!("push {} of {}", at + 1, arguments.profiles.len()));
        let Identity { profile: facts, build_ids } = keeper.identity(profile)?;
        let build_id = build_of(profile, &build_ids, said.as_deref(), &mut pusher)?;
        pushed.push(pusher.push(profile, facts, &build_id)?);
    }
    cli.show_found("profile-push", &pushed, |pushed| {
        hone_rollout::fleet_text::pushed(pushed, &arguments.to, &host)
    })?;
    Ok(Ending::Done)
}

pub(super) fn list(arguments: &ListArguments, cli: &CliContext) -> Result<Ending> {
    cli.progress.doing("list");
    let builds = Depot::open(&arguments.place)?.builds()?;
    cli.show_found("profile-list", &builds, |builds| {
        hone_rollout::fleet_text::builds(builds, &arguments.place)
    })?;
    Ok(Ending::Done)
}

pub(super) fn pull(arguments: &PullArguments, keeper: &Keeper<'_>, cli: &CliContext) -> Result<Ending> {
    let Some(build_id) = arguments.of.said()? else {
        bail!(Usage("say which build: --build-id ID or --program FILE".to_owned()));
    };
    let which = &arguments.which;
    let choice = Choice { build_id, last: which.last.map(|last| last as usize), kind: which.kind };
    let depot = Depot::open(&arguments.place)?;
    let (build_id, chosen) = depot.chosen(&choice)?;
    fs::create_dir_all(&arguments.output).map_err(|error| {
        anyhow!(
            "the folder {} can't be made: {error}\n  next: name another one by --output",
            arguments.output.display()
        )
    })?;
    let broken = which.skip_broken.then_some(keeper);
    let pulled = take_all(&depot, build_id, &chosen, &arguments.output, broken, cli)?;
    cli.show_found("profile-pull", &pulled, hone_rollout::fleet_text::pulled)?;
    Ok(Ending::Done)
}

/// Whether something is wrong with one profile alone: a store that does not answer, or a full disk, would be in the way of all of them.
fn is_of_one(error: &anyhow::Error) -> bool {
    !error.chain().any(|cause| {
        cause.is::<NotWritten>()
            || matches!(cause.downcast_ref(), Some(LockFault::Unreadable { .. }))
            || cause.downcast_ref().is_some_and(|refused| !matches!(refused, StoreError::TooLarge { .. }))
    })
}

/// Takes profiles one by one. With a keeper those that are broken are left out.
fn take_all(
    depot: &Depot,
    build_id: String,
    chosen: &[Kept],
    to: &Path,
    skip_broken: Option<&Keeper<'_>>,
    cli: &CliContext,
) -> Result<Pulled> {
    let (mut profiles, mut left_out) = (Vec::new(), Vec::new());
    for (at, kept) in chosen.iter().enumerate() {
        cli.progress.doing(&format!("take {} of {}", at + 1, chosen.len()));
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
                "{} can't be used: {error:#}\n  next: take it away there, or say --skip-broken",
                kept.name()
            ),
        }
    }
    if profiles.is_empty() {
        bail!(
            "none of {} profiles of build {build_id} can be used; the first: {}",
            chosen.len(),
            left_out[0].1
        );
    }
    Ok(Pulled { build_id, folder: to.to_path_buf(), profiles, left_out })
}

/// A profile that can't have its share, by its name in the place and by its host: the file that was taken of it is gone soon.
fn by_host(error: anyhow::Error, profiles: &[Fetched]) -> anyhow::Error {
    let Some(StoreFault::Apart { file, reason }) = error.downcast_ref() else { return error };
    let Some(of) = profiles.iter().find(|one| one.file == *file) else { return error };
    anyhow!(
        "{} of host {} can't have its share: {reason}\n  next: give its host less by --host-weight, take only the newest profiles by --last, or \
         leave --same-for-hosts away",
        of.name,
        of.host
    )
}

/// Merges all profiles of a build that lie in a place.
pub(super) fn merge(
    place: &str,
    arguments: &From,
    output: &Path,
    keeper: &Keeper<'_>,
    scratch: &Path,
    cli: &CliContext,
) -> Result<MergedProfile> {
    // Before all is read for nothing.
    let home = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !home.is_dir() {
        bail!(
            "{} can't be written: there is no folder {}\n  next: make it, or name another file",
            output.display(),
            home.display()
        );
    }
    let said = OptionalBuild { build_id: arguments.build_id.clone(), program: arguments.program.clone() };
    let build_id = said.said()?.unwrap_or_default();
    let choice = Choice { build_id, last: arguments.last.map(|last| last as usize), kind: arguments.kind };
    let depot = Depot::open(place)?;
    let (build_id, chosen) = depot.chosen(&choice)?;
    // Before anything is taken.
    let of_host = HostWeight::of_all(&arguments.host_weight, chosen.iter().map(|one| one.host.as_str()))?;
    let folder = scratch.join("taken");
    fs::create_dir_all(&folder).with_context(|| format!("{} can't be made", folder.display()))?;
    let broken = arguments.skip_broken.then_some(keeper);
    let taken = take_all(&depot, build_id, &chosen, &folder, broken, cli);
    let pulled = taken.map_err(|error| match error.is::<NotWritten>() {
        true => {
            error.context("the profiles go into a temporary folder first, and TMPDIR may name another one")
        }
        false => error,
    })?;
    cli.progress.doing(&format!("merge {}", pulled.profiles.len()));
    let files: Vec<PathBuf> = pulled.profiles.iter().map(|one| one.file.clone()).collect();
    let weights = match (arguments.same_for_hosts, arguments.host_weight.is_empty()) {
        (true, _) => Weights::Shares(shares_of_hosts(&pulled.profiles, &of_host)?),
        (false, true) => Weights::Same,
        (false, false) => Weights::Each(pulled.profiles.iter().map(|one| of_host[&one.host]).collect()),
    };
    let merged = keeper.merge(&files, &weights, output, false);
    let mut merged = merged.map_err(|error| by_host(error, &pulled.profiles))?;
    // The files are gone soon; their names in the place are not.
    for (input, taken) in merged.inputs.iter_mut().zip(&pulled.profiles) {
        input.file = PathBuf::from(&taken.name);
    }
    let left_out = pulled.left_out.iter().map(|(name, reason)| format!("left out: {name}: {reason}"));
    merged.notes.extend(left_out);
    merged.notes.extend(HostWeight::idle(&arguments.host_weight, &pulled.profiles));
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
            (vec!["abcdef"], Some("abc"), "is of build abcdef, and not of abc"),
            (vec!["abcdef"], Some("c0ffee01"), "is of build abcdef, and not of c0ffee01"),
            (vec!["abcdef", "abcd01"], Some("abcd"), "more than one begin with abcd: give more of it"),
            (vec![], None, "nothing says which build"),
        ] {
            let error = build(&named, said).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
