//! A roll-out: it changes hosts one by one, if the health of their cluster allows it. `hone-host` changes hosts and keeps the
//! journal, `hone-load` checks the cluster, and `hone-compare` judges the canary.
//!
//! The controller holds a lease on each host that it has changed, and renews it. If the controller dies, or can't reach the host
//! any more, the host's own watchdog rolls the change back.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use hone_host::rollout::inventory::Host;
use hone_host::rollout::log::{Begun, Entry, FORMAT, Fate, Log, State};
use hone_host::rollout::order::{Candidate, next};
use hone_load::Security;
use hone_load::canary::delete_left;
use hone_load::health::Health;
use serde::{Deserialize, Serialize};

use hone_experiment::ending::Usage;
use hone_experiment::folder::RunFolder;
use hone_experiment::moment::now_unix_ms;
use hone_experiment::progress::Progress;

pub mod gate;
pub(crate) mod placing;
pub mod print;
mod remote;
pub mod text;

use gate::{Closed, Finding, Gate, Rules, Stretch, Watched};
use placing::placed;
use remote::{Lines, OpenChange, Planned, Remote, TakenBack, told_as};

pub use remote::{Source, profile_text, source};

/// A lease is renewed three times, so that two renewals may fail.
const RENEWALS_IN_A_LEASE: u32 = 3;
/// Prefix of the canary's topic.
pub const CANARY_TOPIC: &str = "hone-canary";

/// The settings. They are stored in the journal for a resumed run, without logins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Brokers of the cluster, `host:port` each.
    pub bootstrap: Vec<String>,
    /// The requirements for the cluster.
    pub rules: Rules,
    /// Seconds that Hone watches the cluster after each changed host.
    pub soak_s: u64,
    /// Seconds that Hone watches the cluster before each change.
    pub baseline_s: u64,
    /// Seconds without contact after which a host rolls its change back.
    pub lease_s: u64,
    /// Without the canary's topic.
    pub no_canary: bool,
    /// The host that is changed first.
    pub first: Option<String>,
    /// The changes last only until the next boot.
    pub this_boot: bool,
    /// Includes knobs that can't matter.
    pub all: bool,
    /// Hone's path on the hosts.
    pub remote_hone: Option<String>,
}

/// The outcome of a host, with its findings.
#[derive(Debug, Clone, Serialize)]
pub struct Visit {
    /// The host.
    pub host: String,
    pub(crate) broker: Option<i32>,
    pub(crate) rack: Option<String>,
    pub(crate) fate: Fate,
    /// Lines of its plan.
    pub changes: Vec<String>,
    pub(crate) obstacles: Vec<String>,
    /// Its findings.
    pub findings: Vec<Finding>,
}

/// The outcome of a roll-out.
#[derive(Debug, Serialize)]
pub struct Report {
    pub(crate) run: Option<PathBuf>,
    /// The profile's name.
    pub profile: String,
    /// In the order of their turns.
    pub hosts: Vec<Visit>,
    /// Why the roll-out stopped.
    pub halted: Option<String>,
    /// Whether a change was measured to be worse.
    pub worse: bool,
    /// Brokers of the cluster on no host of the inventory.
    pub(crate) strangers: Vec<i32>,
    /// Leftovers that could not be removed.
    pub remarks: Vec<String>,
    /// For a dry run: the duration of the roll-out, in seconds.
    pub(crate) would_take_s: Option<u64>,
}

/// The parts of a running roll-out.
struct Course<'a> {
    settings: &'a Settings,
    source: &'a Source,
    lines: &'a Lines,
    gate: Gate,
    hosts: Vec<Host>,
    progress: &'a Progress,
}

/// Why a host does not keep its change.
#[derive(Debug, Clone)]
struct Harm {
    why: String,
    /// It was measured, and is worse.
    worse: bool,
    /// The host was asked to confirm, but its answer was lost.
    may_stay: bool,
}

impl Harm {
    fn other(why: impl Into<String>) -> Self {
        Self { why: why.into(), worse: false, may_stay: false }
    }

    fn worse(why: String) -> Self {
        Self { worse: true, ..Self::other(why) }
    }

    /// A gate after a soak that did not open. An interruption is not a measurement.
    fn behind_a_soak(why: Closed) -> Self {
        let worse = matches!(why, Closed::Sick(_));
        Self { worse, ..closed(why) }
    }
}

/// The end of a visit to a host.
enum Visited {
    /// It keeps its change, or needed none.
    Kept,
    /// It was not changed: it became the controller's host, and others are left.
    Later,
    Halt(Harm),
}

/// Starts a roll-out.
pub fn begin(
    settings: &Settings,
    source: &Source,
    hosts: Vec<Host>,
    security: &Security,
    folder: &RunFolder,
    progress: &Progress,
) -> Result<Report> {
    let (gate, health) = Gate::at(&settings.bootstrap, security, settings.rules.clone())?;
    let hosts = placed(hosts, &health.brokers)?;
    known_first(settings.first.as_deref(), &hosts, health.controller)?;
    let profile_text = source.file.as_ref().map(std::fs::read_to_string).transpose()?;
    let begun = Begun {
        journal: FORMAT,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        unix_ms: now_unix_ms(),
        profile: source.name.clone(),
        profile_text,
        hosts: hosts.clone(),
        settings: serde_json::to_value(settings)?,
    };
    let mut log = Log::begin(folder.path(), begun)?;
    let lines = Lines::new(folder.path(), settings.remote_hone.as_deref())?;
    let course = Course { settings, source, lines: &lines, gate, hosts, progress };
    course.go(&health, &mut log, security, folder)
}

/// Continues an interrupted or halted roll-out. It first rolls back a host that was left open, since its soak was not complete.
pub fn resume(
    settings: &Settings,
    source: &Source,
    security: &Security,
    folder: &RunFolder,
    progress: &Progress,
) -> Result<Report> {
    let mut log = Log::resume(folder.path())?;
    let state = hone_host::rollout::log::read(folder.path())?;
    let lines = Lines::new(folder.path(), settings.remote_hone.as_deref())?;
    log.append(&Entry::Resumed { unix_ms: now_unix_ms() })?;
    for (name, fate) in &state.fates {
        let is_open =
            matches!(fate, Fate::Open { .. } | Fate::Unknown { .. } | Fate::Reverted { whole: false, .. });
        let Some(host) = state.begun.hosts.iter().find(|host| host.name == *name).filter(|_| is_open) else {
            continue;
        };
        progress.line(&format!("{name}: left open by the earlier attempt; rolling back first"));
        let ours = Ours::new(&state, name);
        let back = lines.to(host).and_then(|remote| take_back(&remote, &ours));
        match back {
            Ok(None) => {
                let why = "there was no open change".to_owned();
                log.append(&Entry::Reverted { host: name.clone(), whole: true, why })?;
            }
            Ok(Some(back)) if back.whole => {
                let why = "its soak was interrupted".to_owned();
                log.append(&Entry::Reverted { host: name.clone(), whole: true, why })?;
            }
            Ok(Some(back)) => {
                bail!(
                    "{name}: only partly rolled back ({}); fix it by hand, then continue",
                    back.left.join(", ")
                )
            }
            Err(error) => {
                return Err(error.context(format!("{name} was left open, and can't be rolled back")));
            }
        }
    }
    delete_canaries(&state, &settings.bootstrap, security, &mut log, progress)?;
    let (mut gate, health) = Gate::at(&settings.bootstrap, security, settings.rules.clone())?;
    // A broker that has disappeared since the start counts as missing.
    gate.expect(state.begun.hosts.iter().filter_map(|host| host.broker));
    let course = Course { settings, source, lines: &lines, gate, hosts: state.begun.hosts.clone(), progress };
    course.go(&health, &mut log, security, folder)
}

fn known_first(first: Option<&str>, hosts: &[Host], controller: Option<i32>) -> Result<()> {
    let Some(first) = first else { return Ok(()) };
    match hosts.iter().find(|host| host.name == first) {
        None => bail!(Usage(format!("the inventory has no host {first} (--canary)"))),
        Some(host) if hosts.len() > 1 && controller.is_some() && host.broker == controller => {
            bail!(Usage(format!(
                "--canary {first} is the host of the cluster's controller, which must be last\n  next: name \
                 another host"
            )))
        }
        Some(_) => Ok(()),
    }
}

/// The plan, with the current plan of each host; it changes nothing.
pub fn dry(
    settings: &Settings,
    source: &Source,
    hosts: Vec<Host>,
    security: &Security,
    progress: &Progress,
) -> Result<Report> {
    let (mut gate, health) = Gate::at(&settings.bootstrap, security, settings.rules.clone())?;
    let hosts = placed(hosts, &health.brokers)?;
    known_first(settings.first.as_deref(), &hosts, health.controller)?;
    let scratch = tempfile::tempdir()?;
    let lines = Lines::new(scratch.path(), settings.remote_hone.as_deref())?;
    progress.doing("checking the cluster");
    let findings = match gate.until_well(&mut || ()) {
        Ok(health) => vec![gate::well(&health, &settings.rules)],
        Err(Closed::Sick(why)) => vec![Finding { bad: true, text: why }],
        Err(Closed::Interrupted) => bail!("interrupted"),
    };
    let mut left: Vec<usize> = (0..hosts.len()).collect();
    let (mut visits, mut last_rack): (Vec<Visit>, Option<String>) = (Vec::new(), None);
    while let Some(at) =
        next_of(settings, &hosts, &left, health.controller, last_rack.as_deref(), visits.is_empty())
    {
        left.retain(|other| *other != at);
        let Some(host) = hosts.get(at) else { break };
        last_rack = host.rack.clone();
        progress.doing(&format!("{}: planning", host.name));
        let planned = lines.to(host)?.plan(source, settings.all)?;
        let found = if visits.is_empty() { findings.clone() } else { Vec::new() };
        visits.push(Visit::new(host, Fate::Waiting, planned, found));
    }
    let each_s = settings.baseline_s + settings.soak_s + rules_s(&settings.rules);
    let changing = visits.iter().filter(|visit| !visit.changes.is_empty()).count() as u64;
    Ok(Report {
        run: None,
        profile: source.name.clone(),
        strangers: strangers(&hosts, &health),
        hosts: visits,
        halted: None,
        worse: false,
        remarks: Vec::new(),
        would_take_s: Some(changing * each_s),
    })
}

/// Both checks of the cluster per host, without problems.
fn rules_s(rules: &Rules) -> u64 {
    2 * u64::from(rules.healthy) * rules.every_ms / 1_000 + gate::SETTLE.as_secs()
}

fn strangers(hosts: &[Host], health: &Health) -> Vec<i32> {
    health.brokers.keys().filter(|id| !hosts.iter().any(|host| host.broker == Some(**id))).copied().collect()
}

fn next_of(
    settings: &Settings,
    hosts: &[Host],
    left: &[usize],
    controller: Option<i32>,
    last_rack: Option<&str>,
    is_first: bool,
) -> Option<usize> {
    let candidates: Vec<Candidate<'_>> = left
        .iter()
        .filter_map(|at| {
            let host = hosts.get(*at)?;
            Some(Candidate {
                at: *at,
                rack: host.rack.as_deref(),
                has_controller: controller.is_some() && host.broker == controller,
                is_wanted_first: is_first && settings.first.as_deref() == Some(&host.name),
            })
        })
        .collect();
    next(&candidates, last_rack)
}

impl Visit {
    fn new(host: &Host, fate: Fate, planned: Planned, findings: Vec<Finding>) -> Self {
        Self {
            host: host.name.clone(),
            broker: host.broker,
            rack: host.rack.clone(),
            fate,
            changes: planned.changes,
            obstacles: planned.obstacles,
            findings,
        }
    }
}

impl Course<'_> {
    /// All remaining hosts, until one stops the roll-out.
    fn go(
        mut self,
        health: &Health,
        log: &mut Log,
        security: &Security,
        folder: &RunFolder,
    ) -> Result<Report> {
        let mut remarks = Vec::new();
        if !self.settings.no_canary {
            let topic = format!("{CANARY_TOPIC}-{}-{}", now_unix_ms(), std::process::id());
            log.append(&Entry::Canary { topic: topic.clone() })?;
            self.gate.with_canary(&topic, health, security)?;
        }
        let strangers = strangers(&self.hosts, health);
        let ended = self.hosts_in_turn(log, folder);
        match self.gate.close() {
            Ok(Some(topic)) => log.append(&Entry::CanaryGone { topic })?,
            Ok(None) => {}
            Err(remark) => remarks.push(remark),
        }
        let (visits, harm) = ended?;
        let (halted, worse) = harm.map_or((None, false), |harm| (Some(harm.why), harm.worse));
        Ok(Report {
            run: Some(folder.path().to_owned()),
            profile: self.source.name.clone(),
            hosts: with_fates(visits, &hone_host::rollout::log::read(folder.path())?),
            halted,
            worse,
            strangers,
            remarks,
            would_take_s: None,
        })
    }

    fn hosts_in_turn(&mut self, log: &mut Log, folder: &RunFolder) -> Result<(Vec<Visit>, Option<Harm>)> {
        let state = hone_host::rollout::log::read(folder.path())?;
        let is_done = |host: &Host| matches!(state.fate(&host.name), Some(Fate::Confirmed { .. }));
        let mut left: Vec<usize> =
            self.hosts.iter().enumerate().filter(|(_, host)| !is_done(host)).map(|(at, _)| at).collect();
        let mut visits = Vec::new();
        let last = state.visited.last().and_then(|name| self.hosts.iter().find(|host| host.name == *name));
        let mut last_rack = last.and_then(|host| host.rack.clone());
        let is_canary_done = left.len() < self.hosts.len();
        let mut put_off = 0;
        while !left.is_empty() {
            let controller = match self.gate.controller() {
                Ok(controller) => Some(controller),
                Err(why) => {
                    let why = closed(why).why;
                    return halted(Harm::other(format!("{why}; no further host was changed")), visits, log);
                }
            };
            let is_first = visits.is_empty() && !is_canary_done;
            let Some(at) =
                next_of(self.settings, &self.hosts, &left, controller, last_rack.as_deref(), is_first)
            else {
                break;
            };
            left.retain(|other| *other != at);
            let Some(host) = self.hosts.get(at).cloned() else { break };
            let mut visit = Visit::new(&host, Fate::Waiting, Planned::default(), Vec::new());
            let visited = self.visit(&host, &mut visit, left.len(), log);
            if matches!(visited, Ok(Visited::Later)) {
                left.push(at);
                put_off += 1;
                if put_off > self.hosts.len() {
                    let why = format!(
                        "{}: it was the controller's host at each of its turns; it was not changed",
                        host.name
                    );
                    return halted(Harm::other(why), visits, log);
                }
                continue;
            }
            last_rack = host.rack.clone();
            visits.push(visit);
            if let Visited::Halt(harm) = visited? {
                return halted(harm, visits, log);
            }
        }
        log.append(&Entry::Finished)?;
        Ok((visits, None))
    }

    /// One host: plan, gate, apply, verify, soak, gate, confirm. After a failure its change is rolled back.
    fn visit(&mut self, host: &Host, visit: &mut Visit, others: usize, log: &mut Log) -> Result<Visited> {
        let name = &host.name;
        let (lines, progress) = (self.lines, self.progress);
        let untouched = |harm: Harm| {
            Ok(Visited::Halt(Harm { why: format!("{}; {name} was not changed", harm.why), ..harm }))
        };
        progress.doing(&format!("{name}: planning"));
        let reached =
            lines.to(host).and_then(|remote| Ok((remote.plan(self.source, self.settings.all)?, remote)));
        let (planned, remote) = match reached {
            Ok(reached) => reached,
            Err(error) => return untouched(Harm::other(format!("{error:#}"))),
        };
        visit.changes.clone_from(&planned.changes);
        visit.obstacles.clone_from(&planned.obstacles);
        if planned.changes.is_empty() {
            progress.line(&format!("{name}: no change needed"));
            // Nothing is changed here, so existing changes are not part of this roll-out. A resumed run must
            // know that.
            let known = match remote.changes() {
                Ok(changes) => changes.into_iter().map(|change| change.id).collect(),
                Err(error) => return untouched(Harm::other(format!("{error:#}"))),
            };
            log.append(&Entry::Opened { host: name.clone(), unix_ms: now_unix_ms(), known })?;
            return nothing_to_change(name, log);
        }
        let before = match self.before(host, visit) {
            Ok(before) => before,
            Err(harm) => {
                self.gate_told(host, visit, log, false)?;
                return untouched(harm);
            }
        };
        // The controller may have moved while the gate and the latencies were measured.
        match if others > 0 { self.has_controller(host) } else { Ok(false) } {
            Ok(true) => {
                progress.line(&format!("{name}: it has the cluster's controller now, so its turn is later"));
                return Ok(Visited::Later);
            }
            Ok(false) => {}
            Err(harm) => return untouched(harm),
        }
        let known: Vec<String> = match remote.changes() {
            Ok(changes) => changes.into_iter().map(|change| change.id).collect(),
            Err(error) => return untouched(Harm::other(format!("{error:#}"))),
        };
        let profile = told_as(&self.source.name, self.source.file.is_some()).to_owned();
        let mut ours = Ours { change: None, known: known.clone(), profile };
        log.append(&Entry::Opened { host: name.clone(), unix_ms: now_unix_ms(), known })?;
        match self.carried_out(host, &remote, &planned, &before, &mut ours, visit, log)? {
            Ok(visited) => Ok(visited),
            Err(harm) => {
                self.gate_told(host, visit, log, false)?;
                self.back(name, &remote, &ours, harm, log)
            }
        }
    }

    fn has_controller(&mut self, host: &Host) -> Result<bool, Harm> {
        let controller = self.gate.controller().map_err(|why| Harm::other(closed(why).why))?;
        Ok(host.broker == Some(controller))
    }

    /// The change itself, until it is confirmed; or the reason for a rollback.
    #[expect(clippy::too_many_arguments, reason = "the intermediate results of one visit")]
    fn carried_out(
        &mut self,
        host: &Host,
        remote: &Remote<'_>,
        planned: &Planned,
        before: &Stretch,
        ours: &mut Ours,
        visit: &mut Visit,
        log: &mut Log,
    ) -> Result<Result<Visited, Harm>> {
        let (name, lease_s) = (&host.name, self.settings.lease_s);
        let lease = Duration::from_secs(lease_s);
        let change = match remote.apply(self.source, &planned.fingerprint, lease, self.settings.all) {
            Ok(None) => return nothing_to_change(name, log).map(Ok),
            Ok(Some(change)) => change,
            Err(error) => return Ok(Err(Harm::other(format!("{error:#}")))),
        };
        self.progress.line(&format!("{name}: changed {} attributes", planned.changes.len()));
        ours.change = Some(change.clone());
        log.append(&Entry::Applied { host: name.clone(), change: Some(change.clone()), lease_s })?;
        if let Err(harm) = self.changed(host, remote, &change, before, visit) {
            return Ok(Err(harm));
        }
        self.gate_told(host, visit, log, true)?;
        if let Err(error) = remote.confirm(&change, self.settings.this_boot) {
            let harm = Harm::other(format!("it can't be confirmed: {error:#}"));
            return Ok(Err(Harm { may_stay: true, ..harm }));
        }
        log.append(&Entry::Confirmed { host: name.clone() })?;
        self.progress.line(&format!("{name}: keeps its change"));
        Ok(Ok(Visited::Kept))
    }

    fn gate_told(&self, host: &Host, visit: &Visit, log: &mut Log, passed: bool) -> Result<()> {
        let findings = visit.findings.iter().map(|finding| finding.text.clone()).collect();
        log.append(&Entry::Gate { host: host.name.clone(), passed, findings })?;
        Ok(())
    }

    /// The gate before a change, and the canary's latencies without it.
    fn before(&mut self, host: &Host, visit: &mut Visit) -> Result<Stretch, Harm> {
        self.progress.doing(&format!("{}: checking the gate before the change", host.name));
        let health = self.gate.until_well(&mut || ()).map_err(closed)?;
        visit.findings.push(gate::well(&health, &self.settings.rules));
        self.progress.doing(&format!("{}: sampling latencies before the change", host.name));
        let length = Duration::from_secs(self.settings.baseline_s);
        let mut stretch = match self.gate.watch(length, &mut || (), &|_| None) {
            Watched::Whole(stretch) => stretch,
            Watched::Early(_, why) => return Err(Harm::other(format!("before the change: {why}"))),
            Watched::Interrupted => return Err(Harm::other("interrupted")),
        };
        stretch.lags = self.gate.lags().map_err(|error| Harm::other(error.to_string()))?;
        Ok(stretch)
    }

    /// From the change to the gate after its soak.
    fn changed(
        &mut self,
        host: &Host,
        remote: &Remote<'_>,
        change: &str,
        before: &Stretch,
        visit: &mut Visit,
    ) -> Result<(), Harm> {
        let mut lease = Lease::new(remote, change, Duration::from_secs(self.settings.lease_s), self.progress);
        let now =
            remote.plan(self.source, self.settings.all).map_err(|error| Harm::other(format!("{error:#}")))?;
        if let Some(first) = now.changes.first() {
            return Err(Harm::other(format!("the change did not persist: {first}")));
        }
        self.progress.doing(&format!("{}: soaking for {} s", host.name, self.settings.soak_s));
        std::thread::sleep(gate::SETTLE);
        let changed = host.broker;
        let tolerance = self.settings.rules.tolerance;
        let soak = Duration::from_secs(self.settings.soak_s);
        let early = |stretch: &Stretch| gate::plain_harm(before, stretch, changed, tolerance);
        let watched = self.gate.watch(soak, &mut || lease.alive(), &early);
        let (mut after, broken_off) = match watched {
            Watched::Whole(stretch) => (stretch, None),
            Watched::Early(stretch, why) => (stretch, Some(why)),
            Watched::Interrupted => return Err(Harm::other("interrupted")),
        };
        if broken_off.is_none() {
            self.progress.doing(&format!("{}: checking the gate after the change", host.name));
            let health = self.gate.until_well(&mut || lease.alive()).map_err(Harm::behind_a_soak)?;
            visit.findings.push(gate::well(&health, &self.settings.rules));
            after.lags = self.gate.lags().map_err(|error| Harm::other(error.to_string()))?;
        }
        let findings = gate::judge(before, &after, changed, tolerance);
        let bad: Vec<String> =
            findings.iter().filter(|finding| finding.bad).map(|finding| finding.text.clone()).collect();
        visit.findings.extend(findings);
        match (broken_off, bad.first()) {
            (Some(why), _) => Err(Harm::worse(self.with_failure(format!("worse during the soak: {why}")))),
            (None, Some(_)) => Err(Harm::worse(self.with_failure(format!("worse: {}", bad.join("; "))))),
            (None, None) => lease.holds().map_err(Harm::other),
        }
    }

    fn with_failure(&self, why: String) -> String {
        match self.gate.last_failure() {
            Some(failure) if why.contains("failed") => format!("{why}; the last one: {failure}"),
            _ => why,
        }
    }

    /// Rolls the change of a host back. If the host can't be reached, its watchdog does that.
    fn back(
        &self,
        name: &str,
        remote: &Remote<'_>,
        ours: &Ours,
        harm: Harm,
        log: &mut Log,
    ) -> Result<Visited> {
        self.progress.doing(&format!("{name}: rolling back"));
        let (entry, told) = match take_back(remote, ours) {
            Ok(None) => (
                Entry::Reverted { host: name.to_owned(), whole: true, why: harm.why.clone() },
                format!("{name}: its watchdog has rolled it back already, or nothing was changed"),
            ),
            Ok(Some(back)) if back.whole => (
                Entry::Reverted { host: name.to_owned(), whole: true, why: harm.why.clone() },
                format!("{name}: rolled back, all values are restored"),
            ),
            Ok(Some(back)) => (
                Entry::Reverted { host: name.to_owned(), whole: false, why: harm.why.clone() },
                format!("{name}: rolled back, except for {}", back.left.join(", ")),
            ),
            Err(error) => {
                let then = if harm.may_stay {
                    "it may have confirmed its change and keep it; when the host is reachable again, roll \
                     back with --rollback"
                        .to_owned()
                } else {
                    format!("its own watchdog does so within {} s", self.settings.lease_s)
                };
                (
                    Entry::Unknown { host: name.to_owned(), why: format!("{error:#}") },
                    format!("{name}: can't roll it back from here ({error:#}); {then}"),
                )
            }
        };
        log.append(&entry)?;
        self.progress.line(&told);
        Ok(Visited::Halt(Harm { why: format!("{name}: {}", harm.why), ..harm }))
    }
}

fn halted(harm: Harm, visits: Vec<Visit>, log: &mut Log) -> Result<(Vec<Visit>, Option<Harm>)> {
    log.append(&Entry::Halted { why: harm.why.clone() })?;
    Ok((visits, Some(harm)))
}

fn closed(why: Closed) -> Harm {
    match why {
        Closed::Sick(why) => Harm::other(why),
        Closed::Interrupted => Harm::other("interrupted"),
    }
}

fn with_fates(mut visits: Vec<Visit>, state: &State) -> Vec<Visit> {
    for visit in &mut visits {
        if let Some(fate) = state.fate(&visit.host) {
            visit.fate = fate.clone();
        }
    }
    let told: BTreeSet<String> = visits.iter().map(|visit| visit.host.clone()).collect();
    let others = state.begun.hosts.iter().filter(|host| !told.contains(&host.name));
    let untold = others.map(|host| {
        let fate = state.fate(&host.name).cloned().unwrap_or(Fate::Waiting);
        Visit::new(host, fate, Planned::default(), Vec::new())
    });
    visits.extend(untold);
    visits
}

fn nothing_to_change(name: &str, log: &mut Log) -> Result<Visited> {
    log.append(&Entry::Applied { host: name.to_owned(), change: None, lease_s: 0 })?;
    log.append(&Entry::Confirmed { host: name.to_owned() })?;
    Ok(Visited::Kept)
}

/// The roll-out's change on a host.
struct Ours {
    /// Its id, if the host has returned it.
    change: Option<String>,
    /// Changes that the host had before.
    known: Vec<String>,
    /// The profile's name on the host.
    profile: String,
}

impl Ours {
    fn new(state: &State, host: &str) -> Self {
        let profile = told_as(&state.begun.profile, state.begun.profile_text.is_some()).to_owned();
        Self { change: state.change(host), known: state.known(host).to_vec(), profile }
    }

    /// This roll-out's change among the open ones of the host.
    fn among<'a>(&self, changes: &'a [OpenChange]) -> Result<Option<&'a str>> {
        if let Some(name) = &self.change {
            return Ok(changes.iter().map(|change| change.id.as_str()).find(|id| id == name));
        }
        // The id is not known. It is a newer change with this profile.
        let is_new =
            |change: &&OpenChange| !self.known.contains(&change.id) && change.profile == self.profile;
        let new: Vec<&str> = changes.iter().filter(is_new).map(|change| change.id.as_str()).collect();
        match new[..] {
            [] => Ok(None),
            [id] => Ok(Some(id)),
            _ => bail!(
                "the id of the roll-out's change is not known, and {} may be it; roll it back on that host \
                 (`hone host rollback --change-id ID`)",
                new.join(" or ")
            ),
        }
    }
}

/// Rolls back this roll-out's change on a host, and no other one. `None` if there is none (any more).
fn take_back(remote: &Remote<'_>, ours: &Ours) -> Result<Option<TakenBack>> {
    let changes = remote.changes()?;
    ours.among(&changes)?.map(|id| remote.revert(id)).transpose()
}

/// Renews the lease of a host.
struct Lease<'a> {
    remote: &'a Remote<'a>,
    change: &'a str,
    length: Duration,
    renewed: Instant,
    failed: Option<String>,
    progress: &'a Progress,
}

impl<'a> Lease<'a> {
    fn new(remote: &'a Remote<'a>, change: &'a str, length: Duration, progress: &'a Progress) -> Self {
        Self { remote, change, length, renewed: Instant::now(), failed: None, progress }
    }

    /// Renews when a third of the lease is over.
    fn alive(&mut self) {
        if self.renewed.elapsed() < self.length / RENEWALS_IN_A_LEASE {
            return;
        }
        self.renewed = Instant::now();
        if let Err(error) = self.remote.renew(self.change, self.length) {
            let why = format!("{error:#}");
            self.progress.line(&format!("can't renew the lease: {why}"));
            self.failed = Some(why);
        } else {
            self.failed = None;
        }
    }

    /// Whether the last renewal, if any, succeeded.
    fn holds(&self) -> Result<(), String> {
        self.failed.clone().map_or(Ok(()), |why| Err(format!("its lease could not be renewed: {why}")))
    }
}

/// The outcome of a rollback on a host.
#[derive(Debug, Serialize)]
pub struct Undone {
    /// The host.
    pub host: String,
    /// Whether it answered. Otherwise its change may be in force.
    pub(crate) reached: bool,
    /// Whether all values are restored.
    pub whole: bool,
    pub(crate) told: String,
}

impl Undone {
    fn new(host: &Host, taken: Result<Option<TakenBack>>) -> Self {
        let (whole, told) = match &taken {
            Ok(None) => (true, "there was nothing to roll back".to_owned()),
            Ok(Some(back)) if back.whole => (true, "all values are restored".to_owned()),
            Ok(Some(back)) => {
                (false, format!("not restored, because another program changed it: {}", back.left.join(", ")))
            }
            Err(error) => (false, format!("{error:#}")),
        };
        Self { host: host.name.clone(), reached: taken.is_ok(), whole, told }
    }
}

/// Rolls back all changes of a roll-out, the last host first. It has no gate: an unhealthy cluster may be the reason.
pub fn undo(folder: &RunFolder, security: &Security, progress: &Progress) -> Result<Vec<Undone>> {
    let mut log = Log::resume(folder.path())?;
    let state = hone_host::rollout::log::read(folder.path())?;
    let settings: Settings = serde_json::from_value(state.begun.settings.clone())
        .context("the journal's settings belong to another version of hone; use that version")?;
    let lines = Lines::new(folder.path(), settings.remote_hone.as_deref())?;
    let mut undone = Vec::new();
    for host in state.changed() {
        progress.doing(&format!("{}: rolling back", host.name));
        let taken = lines.to(host).and_then(|remote| {
            let back = take_back(&remote, &Ours::new(&state, &host.name))?;
            if back.as_ref().is_none_or(|back| back.whole) {
                let _ = remote.remove_copy();
            }
            Ok(back)
        });
        let ended = Undone::new(host, taken);
        let (host, whole) = (host.name.clone(), ended.whole);
        log.append(&match ended.reached {
            true => Entry::Reverted { host, whole, why: "requested".to_owned() },
            // The host may keep its change, so the next attempt must find its id.
            false => Entry::Unknown { host, why: ended.told.clone() },
        })?;
        undone.push(ended);
    }
    delete_canaries(&state, &settings.bootstrap, security, &mut log, progress)?;
    Ok(undone)
}

/// Deletes topics of a canary that a killed process left. A failure is reported, and does not stop the run.
fn delete_canaries(
    state: &State,
    bootstrap: &[String],
    security: &Security,
    log: &mut Log,
    progress: &Progress,
) -> Result<()> {
    for topic in &state.canaries {
        match delete_left(topic, bootstrap, security) {
            Ok(()) => log.append(&Entry::CanaryGone { topic: topic.clone() })?,
            Err(error) => {
                progress.line(&format!("the topic {topic} may be left, and can't be deleted: {error}"))
            }
        }
    }
    Ok(())
}

/// The state in the journal of a roll-out.
pub fn inspect(folder: &Path) -> Result<Report> {
    let state = hone_host::rollout::log::read(folder)?;
    Ok(Report {
        run: Some(folder.to_owned()),
        profile: state.begun.profile.clone(),
        hosts: with_fates(Vec::new(), &state),
        halted: state
            .halted
            .clone()
            .or_else(|| (!state.finished).then(|| "it was interrupted, or is still running".to_owned())),
        worse: false,
        strangers: Vec::new(),
        remarks: Vec::new(),
        would_take_s: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_host::rollout::inventory::named;

    #[test]
    fn an_interrupt_behind_a_soak_is_no_measurement() {
        assert!(!Harm::behind_a_soak(Closed::Interrupted).worse);
        assert!(Harm::behind_a_soak(Closed::Sick("under-replicated".to_owned())).worse);
    }

    #[test]
    fn the_controllers_host_is_no_canary() {
        let mut hosts = named(&["a", "b"].map(str::to_owned)).unwrap();
        for (host, id) in hosts.iter_mut().zip(1..) {
            host.broker = Some(id);
        }
        let known = |first: &str, hosts: &[Host], controller: Option<i32>| {
            known_first(Some(first), hosts, controller).map_err(|error| error.to_string())
        };
        assert_eq!(known("a", &hosts, Some(2)), Ok(()));
        assert!(
            known("b", &hosts, Some(2)).unwrap_err().contains("b is the host of the cluster's controller")
        );
        assert_eq!(known("b", &hosts, None), Ok(()));
        assert_eq!(known("b", &hosts[1..], Some(2)), Ok(()), "the only one has to be first");
        assert!(known("c", &hosts, Some(2)).unwrap_err().contains("the inventory has no host c"));
    }
}
