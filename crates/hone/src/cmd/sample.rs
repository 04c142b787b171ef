//! `hone profile sample`: takes and pushes a profile of the service on this host, once per interval.

use std::path::Path;

use anyhow::Result;
use clap::{Args, ValueEnum};
use hone_binary::profile_store::Keeper;
use hone_cli::connection::StoreOption;
use hone_cli::values::whole_seconds;
use hone_format::read_duration_s;

use super::fleet::OptionalBuild;
use crate::cmd::context::{CliContext, print};
use hone_experiment::ending::Ending;
use hone_rollout::fleet::host_of;
use hone_rollout::kubernetes;
use hone_rollout::sample::{self, SampleRequest};

/// Profile a Go service at regular intervals and push the profiles.
///
/// Hone runs until you interrupt it. Each host has its own moment in the interval. If a sample fails, Hone reports it and goes on.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// Address of net/http/pprof of the service, for example `http://127.0.0.1:6060`.
    ///
    /// With --emit, `http://NODE_IP:6060` is a port of the node.
    url: String,
    #[command(flatten)]
    store: StoreOption,
    /// How long to measure. This is the length of each profile. A number without a unit means seconds.
    #[arg(
        long = "duration",
        alias = "seconds",
        value_name = "TIME",
        default_value = "45s",
        value_parser = whole_seconds::<u32>(1.0, 3_600.0)
    )]
    seconds: u32,
    /// Time from one sample to the next.
    #[arg(long, value_name = "TIME", default_value = "24h", value_parser = read_duration_s)]
    every: f64,
    /// Take one sample and stop. Hone takes it at once. If it fails, the exit code is 1.
    #[arg(long, conflicts_with_all = ["every", "emit"])]
    once: bool,
    #[command(flatten)]
    of: OptionalBuild,
    /// Name of the host. [default: this machine's name]
    #[arg(long, value_name = "NAME")]
    host: Option<String>,
    /// Print files for another tool and stop. Hone prints a manifest of the sampler and takes no sample.
    #[arg(long, value_name = "FORMAT", value_enum, requires = "image", conflicts_with_all = ["host", "program"])]
    emit: Option<System>,
    /// Container image with hone as its entry point.
    #[arg(long, value_name = "IMAGE", requires = "emit")]
    image: Option<String>,
    /// Name of the object in the manifest.
    #[arg(
        long = "manifest-name",
        alias = "name",
        value_name = "NAME",
        default_value = "hone-sample",
        value_parser = object_name
    )]
    name: String,
}

/// The system that a manifest is for.
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
        to: arguments.store.store()?,
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
    let to = request.to.clone();
    let pushed = vec![sample::once(&request, &host, keeper, scratch)?];
    cli.show_found("profile-push", &pushed, |pushed| hone_rollout::fleet_text::pushed(pushed, &to, &host))
}
