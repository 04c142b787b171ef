//! Takes a profile of the service on its own host, and pushes it, at a fixed time of the host in each period.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use hone_binary::go::{ProfileRequest, capture_unless, profile_url};
use hone_binary::lock::{Lock, LockedProgram, LockedTraining};
use hone_binary::profile_store::{Identity, Keeper};
use hone_store::web::shown;
use hone_tool::interrupt;
use sha2::{Digest as _, Sha256};
use url::{Host, Url};

use crate::fleet::{Depot, Pushed, Pusher};
use crate::kubernetes::Sampler;
use crate::profile_exchange::{NamedBuild, build_of};
use hone_experiment::ending::Usage;
use hone_experiment::moment::now_unix_ms;
use hone_experiment::progress::Progress;

/// A shorter period would profile the service most of the time. In a longer one a build may come and go.
const PERIODS_S: std::ops::RangeInclusive<f64> = 1.0..=30.0 * 86_400.0;
/// How often a wait checks for an interruption.
const STEP: Duration = Duration::from_millis(200);
/// Placeholder for the node's own address in a manifest.
const NODE_IP: &str = "NODE_IP";

/// The settings of the sampler.
#[derive(Debug)]
pub struct SampleRequest {
    /// The address of the service's net/http/pprof.
    pub url: String,
    /// The store.
    pub to: String,
    /// Length of a window.
    pub seconds: u32,
    /// One window per this period.
    pub every_s: f64,
    /// The build, if it is named.
    pub build: NamedBuild,
}

impl SampleRequest {
    /// # Errors
    /// When the period is out of range.
    pub fn check(&self) -> Result<()> {
        if !PERIODS_S.contains(&self.every_s) || f64::from(self.seconds) > self.every_s {
            bail!(Usage("invalid --every: use 1s to 720h, and not less than the window".to_owned()));
        }
        Ok(())
    }
}

/// Takes one profile now and pushes it.
pub fn once(request: &SampleRequest, host: &str, keeper: &Keeper<'_>, scratch: &Path) -> Result<Pushed> {
    check_url(request)?;
    sample(request, &Depot::open(&request.to)?, host, keeper, scratch)
}

/// Takes one per period until it is interrupted. A failed window is reported.
pub fn until_interrupted(
    request: &SampleRequest,
    host: &str,
    keeper: &Keeper<'_>,
    scratch: &Path,
    progress: &Progress,
) -> Result<()> {
    check_url(request)?;
    let depot = Depot::open(&request.to)?;
    let every_ms = (request.every_s * 1_000.0) as u64;
    let moment_ms = moment_of(host, every_ms);
    while wait_until(next_due(now_unix_ms(), every_ms, moment_ms)) {
        match sample(request, &depot, host, keeper, scratch) {
            Ok(pushed) => progress.line(&format!("{} pushed as {host}", pushed.name)),
            Err(_) if interrupt::requested() => break,
            Err(error) => progress.line(&format!("no profile this time: {error:#}")),
        }
    }
    Ok(())
}

fn sample(
    request: &SampleRequest,
    depot: &Depot,
    host: &str,
    keeper: &Keeper<'_>,
    scratch: &Path,
) -> Result<Pushed> {
    // A new folder, without files of an earlier window.
    let folder = tempfile::tempdir_in(scratch).context("can't create a folder for the profile")?;
    let file = folder.path().join("window.pprof");
    let wanted = ProfileRequest::Cpu { seconds: request.seconds };
    capture_unless(&request.url, wanted, &file, &interrupt::requested)?;
    let said = request.build.named()?;
    let Identity { profile, build_ids } = keeper.identity(&file)?;
    let mut pusher = Pusher::new(depot, host);
    let build_id = build_of(&file, &build_ids, said.as_deref(), &mut pusher)?;
    let program = LockedProgram { build_id: Some(build_id.clone()), ..LockedProgram::default() };
    let load = Some(format!("{} s of its CPU under the production load of {host}", request.seconds));
    let training = LockedTraining { load, ..LockedTraining::default() };
    Lock::new(profile.clone(), vec![program], vec![training]).write(&file)?;
    pusher.push(&file, profile, &build_id)
}

/// A host's own time within a period: constant, and spread over all hosts.
fn moment_of(host: &str, every_ms: u64) -> u64 {
    let digest = Sha256::digest(host.as_bytes());
    let first = digest.iter().take(8).fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
    first % every_ms.max(1)
}

/// The next time after now.
fn next_due(now_ms: u64, every_ms: u64, moment_ms: u64) -> u64 {
    let every_ms = every_ms.max(1);
    let begun = now_ms - now_ms % every_ms + moment_ms;
    if begun > now_ms { begun } else { begun + every_ms }
}

/// `false` after an interruption.
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

/// Rejects an invalid address before the first window, which may be a day away.
fn check_url(request: &SampleRequest) -> Result<()> {
    let wanted = ProfileRequest::Cpu { seconds: request.seconds };
    profile_url(&request.url, wanted).map_err(|error| Usage(error.to_string()))?;
    Ok(())
}

/// An address of the node, with its name in the notation of manifests: host names are case-insensitive.
fn of_node(url: &str) -> String {
    let begin = url.to_ascii_lowercase().find(&NODE_IP.to_ascii_lowercase());
    let mut url = url.to_owned();
    if let Some(begin) = begin {
        url.replace_range(begin..begin + NODE_IP.len(), NODE_IP);
    }
    url
}

/// A DaemonSet that samples. The pod reaches the service of its own node over the node's loopback, or over a port of the node.
pub fn manifest(request: &SampleRequest, name: &str, image: &str) -> Result<String> {
    let wrong = |why: &str| Usage(format!("{} is not usable in a DaemonSet: {why}", shown(&request.url)));
    let parsed = Url::parse(&request.url).map_err(|error| wrong(&error.to_string()))?;
    check_url(request)?;
    let is_of_node = parsed.host_str().is_some_and(|host| host.eq_ignore_ascii_case(NODE_IP));
    let is_loopback = match parsed.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    };
    if !is_of_node && !is_loopback {
        return Err(
            wrong("it is the same for all nodes; use http://127.0.0.1:PORT or http://NODE_IP:PORT").into()
        );
    }
    if !request.to.contains("://") || request.to.starts_with("file:") {
        bail!(Usage(format!(
            "--store {}: pods do not share a folder; use s3://, gs:// or az://",
            request.to
        )));
    }
    // The address is only written into the manifest, not opened.
    hone_store::check_address(&request.to)?;
    Ok(Sampler {
        name: name.to_owned(),
        image: image.to_owned(),
        url: if is_of_node { of_node(&request.url) } else { request.url.clone() },
        node_ip: is_of_node.then_some(NODE_IP),
        store: request.to.clone(),
        seconds: request.seconds,
        every_s: request.every_s as u64,
        build_id: request.build.build_id.clone(),
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
        // A thousand hosts over a day: no hour has twice its share of them.
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
