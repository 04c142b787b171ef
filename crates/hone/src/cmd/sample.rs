//! `hone profile sample`: a profile of the service beside it, taken and pushed at this host's own moment of each day.

use std::path::Path;

use anyhow::Result;
use clap::{Args, ValueEnum};
use hone_binary::profile_store::Keeper;
use hone_format::read_duration_s;

use super::fleet::OptionalBuild;
use crate::cmd::context::{CliContext, print};
use hone_experiment::ending::Ending;
use hone_rollout::fleet::host_of;
use hone_rollout::kubernetes;
use hone_rollout::sample::{self, SampleRequest};

/// Take a profile of a Go service and push it, once in a time, until it is interrupted.
///
/// Each host has its own moment in that time, so that a fleet does not push at once. A window that fails is told, and the next one is taken
/// all the same.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The address of the service's net/http/pprof, such as http://127.0.0.1:6060; with --emit also http://NODE_IP:6060, for a port of the node.
    url: String,
    /// The place: a folder, s3://BUCKET/PATH, gs://BUCKET/PATH or az://CONTAINER/PATH.
    #[arg(long, value_name = "PLACE")]
    to: String,
    /// Length of a window.
    #[arg(long, value_name = "SECONDS", default_value_t = 45, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// One window in this time.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = read_duration_s)]
    every: f64,
    /// Take one now, and end. A window that fails is an error then.
    #[arg(long, conflicts_with_all = ["every", "emit"])]
    once: bool,
    #[command(flatten)]
    of: OptionalBuild,
    /// The host that it is of; this machine's name unless told otherwise.
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Print a manifest in place of sampling.
    #[arg(long, value_name = "SYSTEM", value_enum, requires = "image", conflicts_with_all = ["host", "program"])]
    emit: Option<System>,
    /// Image of the manifest; its entrypoint is hone.
    #[arg(long, value_name = "IMAGE", requires = "emit")]
    image: Option<String>,
    /// Name of the manifest's DaemonSet.
    #[arg(long, value_name = "NAME", default_value = "hone-sample", value_parser = object_name)]
    name: String,
}

/// Where a manifest goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum System {
    /// A DaemonSet, which samples on every node.
    Kubernetes,
}

fn object_name(text: &str) -> Result<String, String> {
    kubernetes::check_name(text).map(|()| text.to_owned())
}

pub(super) fn run(
    arguments: &Arguments,
    keeper: &Keeper<'_>,
    scratch: &Path,
    cli: &CliContext,
) -> Result<Ending> {
    let request = SampleRequest {
        url: arguments.url.clone(),
        to: arguments.to.clone(),
        seconds: arguments.seconds,
        every_s: arguments.every,
        build: arguments.of.named(),
    };
    request.check()?;
    if let (Some(System::Kubernetes), Some(image)) = (arguments.emit, &arguments.image) {
        print(&sample::manifest(&request, &arguments.name, image)?)?;
        return Ok(Ending::Done);
    }
    let host = host_of(arguments.host.as_deref())?;
    if !arguments.once {
        sample::until_interrupted(&request, &host, keeper, scratch, &cli.progress)?;
        return Ok(Ending::Done);
    }
    cli.progress.doing("sample");
    let pushed = vec![sample::once(&request, &host, keeper, scratch)?];
    cli.show_found("profile-push", &pushed, |pushed| {
        hone_rollout::fleet_text::pushed(pushed, &arguments.to, &host)
    })
}
