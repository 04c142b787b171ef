//! `hone profile sample`: a profile of the service beside it, taken and pushed at this host's own moment of each day.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::{Args, ValueEnum};
use hone_binary::go::{ProfileRequest, capture_unless, profile_url};
use hone_binary::lock::{Lock, LockedProgram, LockedTraining};
use hone_binary::profile_store::{Identity, Keeper};
use hone_format::read_duration_s;
use hone_store::web::shown;
use hone_tool::interrupt;
use sha2::{Digest as _, Sha256};
use url::{Host, Url};

use super::fleet::{OptionalBuild, build_of};
use crate::cmd::context::{CliContext, print};
use hone_experiment::ending::{Ending, Usage};
use hone_experiment::moment::now_unix_ms;
use hone_rollout::fleet::{Depot, Pushed, Pusher, host_of};
use hone_rollout::kubernetes::{self, Sampler};

/// Shorter, and a service is profiled more often than not; longer, and a build has come and gone.
const PERIODS_S: std::ops::RangeInclusive<f64> = 1.0..=30.0 * 86_400.0;
/// Whether somebody interrupts is asked so often.
const STEP: Duration = Duration::from_millis(200);
/// Stands for the node's own address in a manifest.
const NODE_IP: &str = "NODE_IP";

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
    if !PERIODS_S.contains(&arguments.every) || f64::from(arguments.seconds) > arguments.every {
        bail!(Usage("--every must lie between 1s and 720h, and be no shorter than the window".to_owned()));
    }
    if let (Some(System::Kubernetes), Some(image)) = (arguments.emit, &arguments.image) {
        print(&manifest(arguments, image)?)?;
        return Ok(Ending::Done);
    }
    check_url(arguments)?;
    let host = host_of(arguments.host.as_deref())?;
    let depot = Depot::open(&arguments.to)?;
    let one = || sample(arguments, &depot, &host, keeper, scratch);
    if arguments.once {
        cli.progress.doing("sample");
        let pushed = vec![one()?];
        cli.show_found("profile-push", &pushed, |pushed| {
            hone_rollout::fleet_text::pushed(pushed, &arguments.to, &host)
        })?;
        return Ok(Ending::Done);
    }
    let every_ms = (arguments.every * 1_000.0) as u64;
    let moment_ms = moment_of(&host, every_ms);
    while wait_until(next_due(now_unix_ms(), every_ms, moment_ms)) {
        match one() {
            Ok(pushed) => cli.progress.line(&format!("{} pushed as {host}", pushed.name)),
            Err(_) if interrupt::requested() => break,
            Err(error) => cli.progress.line(&format!("no profile this time: {error:#}")),
        }
    }
    Ok(Ending::Done)
}

fn sample(
    arguments: &Arguments,
    depot: &Depot,
    host: &str,
    keeper: &Keeper<'_>,
    scratch: &Path,
) -> Result<Pushed> {
    // A folder of its own: nothing of an earlier window lies beside it.
    let folder = tempfile::tempdir_in(scratch).context("no folder can be made for the profile")?;
    let file = folder.path().join("window.pprof");
    let wanted = ProfileRequest::Cpu { seconds: arguments.seconds };
    capture_unless(&arguments.url, wanted, &file, &interrupt::requested)?;
    let said = arguments.of.said()?;
    let Identity { profile, build_ids } = keeper.identity(&file)?;
    let mut pusher = Pusher::new(depot, host);
    let build_id = build_of(&file, &build_ids, said.as_deref(), &mut pusher)?;
    let program = LockedProgram { build_id: Some(build_id.clone()), ..LockedProgram::default() };
    let load = Some(format!("{} s of its CPU, as it was on {host}", arguments.seconds));
    let training = LockedTraining { load, ..LockedTraining::default() };
    Lock::new(profile.clone(), vec![program], vec![training]).write(&file)?;
    pusher.push(&file, profile, &build_id)
}

/// A host's own moment in a period: the same every time, and spread over all hosts.
fn moment_of(host: &str, every_ms: u64) -> u64 {
    let digest = Sha256::digest(host.as_bytes());
    let first = digest.iter().take(8).fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    first % every_ms.max(1)
}

/// The first moment behind now.
fn next_due(now_ms: u64, every_ms: u64, moment_ms: u64) -> u64 {
    let every_ms = every_ms.max(1);
    let begun = now_ms - now_ms % every_ms + moment_ms;
    if begun > now_ms { begun } else { begun + every_ms }
}

/// `false` when somebody has interrupted.
fn wait_until(due_unix_ms: u64) -> bool {
    while !interrupt::requested() {
        let now = now_unix_ms();
        if now >= due_unix_ms {
            return true;
        }
        std::thread::sleep(STEP.min(Duration::from_millis(due_unix_ms - now)));
    }
    false
}

/// What could never be asked is refused before the first window, which may be a day away.
fn check_url(arguments: &Arguments) -> Result<()> {
    let wanted = ProfileRequest::Cpu { seconds: arguments.seconds };
    profile_url(&arguments.url, wanted).map_err(|error| Usage(error.to_string()))?;
    Ok(())
}

/// An address of the node, with its name as manifests write it: names of hosts are alike in any case.
fn of_node(url: &str) -> String {
    let begin = url.to_ascii_lowercase().find(&NODE_IP.to_ascii_lowercase());
    let mut url = url.to_owned();
    if let Some(begin) = begin {
        url.replace_range(begin..begin + NODE_IP.len(), NODE_IP);
    }
    url
}

/// The service is asked on the pod's own node: by the node's loopback, or by a port of the node.
fn manifest(arguments: &Arguments, image: &str) -> Result<String> {
    let wrong = |why: &str| Usage(format!("{} is no address for a DaemonSet: {why}", shown(&arguments.url)));
    let parsed = Url::parse(&arguments.url).map_err(|error| wrong(&error.to_string()))?;
    check_url(arguments)?;
    let is_of_node = parsed.host_str().is_some_and(|host| host.eq_ignore_ascii_case(NODE_IP));
    let is_loopback = match parsed.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    if !is_of_node && !is_loopback {
        return Err(
            wrong("it is the same for all nodes; say http://127.0.0.1:PORT or http://NODE_IP:PORT").into()
        );
    }
    if !arguments.to.contains("://") || arguments.to.starts_with("file:") {
        bail!(Usage(format!("--to {}: pods do not share a folder; say s3://, gs:// or az://", arguments.to)));
    }
    // Nothing of it is opened here, and a manifest is passed on.
    hone_store::check_address(&arguments.to)?;
    Ok(Sampler {
        name: arguments.name.clone(),
        image: image.to_owned(),
        url: if is_of_node { of_node(&arguments.url) } else { arguments.url.clone() },
        node_ip: is_of_node.then_some(NODE_IP),
        store: arguments.to.clone(),
        seconds: arguments.seconds,
        every_s: arguments.every as u64,
        build_id: arguments.of.build_id.clone(),
    }
    .text())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_has_its_own_moment_and_none_is_missed() {
        let day = 86_400_000;
        let moments: Vec<u64> = (0..1_000).map(|at| moment_of(&format!("node-{at}"), day)).collect();
        assert_eq!(moments[7], moment_of("node-7", day));
        // A thousand hosts over a day: no hour has twice its part of them.
        for hour in 0..24 {
            let here = moments.iter().filter(|&&moment| moment / 3_600_000 == hour).count();
            assert!((15..84).contains(&here), "{here} in hour {hour}");
        }
        let (every, moment) = (1_000, 300);
        for (now, due) in [(10_000, 10_300), (10_299, 10_300), (10_300, 11_300), (10_999, 11_300)] {
            assert_eq!(next_due(now, every, moment), due, "{now}");
        }
    }
}
