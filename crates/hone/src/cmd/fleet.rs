//! `hone profile push`, `list` and `pull`, and the store options of `hone profile merge`.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;
use hone_binary::profile_store::{Keeper, MergedProfile, StoredFormat};
use hone_cli::connection::StoreOption;

use crate::cmd::context::CliContext;
use hone_experiment::ending::{Ending, Usage};
use hone_rollout::fleet::{Choice, Depot, HostWeight, host_of};
use hone_rollout::profile_exchange::{self, NamedBuild};

/// Upload profiles to a store that all hosts share.
///
/// The store is a folder or an object store, sorted by build-id. Hone skips a profile that this host has pushed before, and never replaces a
/// file in the store. Credentials come from the environment, as for `hone load --store`.
#[derive(Debug, Args)]
pub(super) struct PushArguments {
    /// Profiles. Hone also pushes the lock next to a profile.
    #[arg(required = true, value_name = "PROFILE")]
    profiles: Vec<PathBuf>,
    #[command(flatten)]
    store: StoreOption,
    #[command(flatten)]
    of: OptionalBuild,
    /// Name of the host. [default: this machine's name]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
}

/// List the profiles in a store, grouped by build.
#[derive(Debug, Args)]
pub(super) struct ListArguments {
    /// Store: a folder, `s3://BUCKET/PATH`, `gs://BUCKET/PATH` or `az://CONTAINER/PATH`.
    #[arg(value_name = "STORE")]
    place: String,
}

/// Download the profiles of a build, with their locks, from a store.
///
/// Hone checks each profile's SHA-256. You can repeat an interrupted command.
#[derive(Debug, Args)]
pub(super) struct PullArguments {
    /// Store: a folder, `s3://BUCKET/PATH`, `gs://BUCKET/PATH` or `az://CONTAINER/PATH`.
    #[arg(value_name = "STORE")]
    place: String,
    /// Where to write the result. Hone creates this folder if it does not exist.
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,
    #[command(flatten)]
    of: OptionalBuild,
    #[command(flatten)]
    which: Which,
}

/// A build, for verbs that can also read it from the profile.
#[derive(Debug, Args)]
pub(super) struct OptionalBuild {
    /// Build-id of the build. The beginning is enough if the store has the build.
    #[arg(long, value_name = "ID", conflicts_with = "program")]
    pub(super) build_id: Option<String>,
    /// Program (executable file). Hone reads the build-id from it.
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
}

/// Selects profiles of a build.
#[derive(Debug, Args)]
pub(super) struct Which {
    /// Use only the newest N. The number applies to each host.
    #[arg(long = "newest", alias = "last", value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    last: Option<u32>,
    /// Use only profiles of this format: profdata, fdata or pprof.
    #[arg(long = "profile-format", alias = "kind", value_name = "FORMAT", value_parser = kind)]
    kind: Option<StoredFormat>,
    /// Skip broken profiles and name them. Without this option, a broken profile is an error.
    #[arg(long)]
    skip_broken: bool,
}

/// The store and the build of a merge that reads no files.
#[derive(Debug, Args)]
pub(super) struct From {
    /// Store: a folder, `s3://BUCKET/PATH`, `gs://BUCKET/PATH` or `az://CONTAINER/PATH`. Hone merges all profiles of one build in it.
    #[arg(
        long = "store",
        alias = "from",
        value_name = "STORE",
        requires = "build",
        conflicts_with_all = ["profiles", "weights", "shares", "different_builds"]
    )]
    pub(super) from: Option<String>,
    /// Build-id of the build. The beginning is enough.
    #[arg(long, value_name = "ID", group = "build", requires = "from")]
    build_id: Option<String>,
    /// Program (executable file). Hone reads the build-id from it.
    #[arg(long, value_name = "FILE", group = "build", requires = "from")]
    program: Option<PathBuf>,
    /// Use only the newest N. The number applies to each host.
    #[arg(
        long = "newest",
        alias = "last",
        value_name = "N",
        requires = "from",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    last: Option<u32>,
    /// Use only profiles of this format: profdata, fdata or pprof.
    #[arg(long = "profile-format", alias = "kind", value_name = "FORMAT", requires = "from", value_parser = kind)]
    kind: Option<StoredFormat>,
    /// Give every host the same weight, regardless of its load and its measured time.
    #[arg(long, requires = "from")]
    same_for_hosts: bool,
    /// Weight of the hosts that match a pattern, for example 'eu-*=3'; repeat it for several. In a pattern, * matches any text. The first
    /// pattern that matches a host applies, and every host must match one.
    #[arg(long, value_name = "PATTERN=W", requires = "from", value_parser = HostWeight::parse)]
    host_weight: Vec<HostWeight>,
    /// Skip broken profiles and name them. Without this option, a broken profile is an error.
    #[arg(long, requires = "from")]
    skip_broken: bool,
}

fn kind(text: &str) -> Result<StoredFormat, String> {
    let all = [StoredFormat::Profdata, StoredFormat::Fdata, StoredFormat::Pprof];
    all.into_iter().find(|kind| kind.name() == text).ok_or_else(|| "use profdata, fdata or pprof".to_owned())
}

impl OptionalBuild {
    pub(super) fn named(&self) -> NamedBuild {
        NamedBuild { build_id: self.build_id.clone(), program: self.program.clone() }
    }
}

pub(super) fn push(arguments: &PushArguments, keeper: &Keeper<'_>, cli: &CliContext) -> Result<Ending> {
    let (to, host) = (&arguments.store.store()?, host_of(arguments.host.as_deref())?);
    let build = arguments.of.named();
    let pushed = profile_exchange::push(&arguments.profiles, &build, (to, &host), keeper, &cli.progress)?;
    cli.show_found("profile-push", &pushed, |pushed| hone_rollout::fleet_text::pushed(pushed, to, &host))
}

pub(super) fn list(arguments: &ListArguments, cli: &CliContext) -> Result<Ending> {
    cli.progress.doing("listing the profiles");
    let builds = Depot::open(&arguments.place)?.builds()?;
    cli.show_found("profile-list", &builds, |builds| {
        hone_rollout::fleet_text::builds(builds, &arguments.place)
    })
}

pub(super) fn pull(arguments: &PullArguments, keeper: &Keeper<'_>, cli: &CliContext) -> Result<Ending> {
    let Some(build_id) = arguments.of.named().named()? else {
        bail!(Usage("no build is named\n  next: add --build-id ID or --program FILE".to_owned()));
    };
    let Which { last, kind, skip_broken } = arguments.which;
    let (choice, output) =
        (Choice { build_id, last: last.map(|last| last as usize), kind }, &arguments.output);
    let pulled =
        profile_exchange::pull(&arguments.place, &choice, skip_broken, output, keeper, &cli.progress)?;
    cli.show_found("profile-pull", &pulled, hone_rollout::fleet_text::pulled)
}

/// Merges all profiles of a build in a store.
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
