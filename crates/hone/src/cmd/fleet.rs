//! `hone profile push`, `list` and `pull`, and what `hone profile merge --from` takes out of a place.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use hone_binary::profile_store::{Keeper, MergedProfile, StoredFormat};

use crate::cmd::context::CliContext;
use hone_experiment::ending::{Ending, Usage};
use hone_rollout::fleet::{Choice, Depot, HostWeight, host_of};
use hone_rollout::profile_exchange::{self, NamedBuild};

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
    pub(super) fn named(&self) -> NamedBuild {
        NamedBuild { build_id: self.build_id.clone(), program: self.program.clone() }
    }
}

pub(super) fn push(arguments: &PushArguments, keeper: &Keeper<'_>, cli: &CliContext) -> Result<Ending> {
    let (to, host) = (&arguments.to, host_of(arguments.host.as_deref())?);
    let build = arguments.of.named();
    let pushed = profile_exchange::push(&arguments.profiles, &build, (to, &host), keeper, &cli.progress)?;
    cli.show_found("profile-push", &pushed, |pushed| hone_rollout::fleet_text::pushed(pushed, to, &host))
}

pub(super) fn list(arguments: &ListArguments, cli: &CliContext) -> Result<Ending> {
    cli.progress.doing("list");
    let builds = Depot::open(&arguments.place)?.builds()?;
    cli.show_found("profile-list", &builds, |builds| {
        hone_rollout::fleet_text::builds(builds, &arguments.place)
    })
}

pub(super) fn pull(arguments: &PullArguments, keeper: &Keeper<'_>, cli: &CliContext) -> Result<Ending> {
    let Some(build_id) = arguments.of.named().named()? else {
        bail!(Usage("say which build: --build-id ID or --program FILE".to_owned()));
    };
    let Which { last, kind, skip_broken } = arguments.which;
    let (choice, output) =
        (Choice { build_id, last: last.map(|last| last as usize), kind }, &arguments.output);
    let pulled =
        profile_exchange::pull(&arguments.place, &choice, skip_broken, output, keeper, &cli.progress)?;
    cli.show_found("profile-pull", &pulled, hone_rollout::fleet_text::pulled)
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
    let build = NamedBuild { build_id: arguments.build_id.clone(), program: arguments.program.clone() };
    let last = arguments.last.map(|last| last as usize);
    let choice = Choice { build_id: build.named()?.unwrap_or_default(), last, kind: arguments.kind };
    let weights = (arguments.same_for_hosts, &arguments.host_weight[..]);
    let (skip_broken, progress) = (arguments.skip_broken, &cli.progress);
    profile_exchange::merge(place, &choice, skip_broken, weights, output, (keeper, scratch), progress)
}
