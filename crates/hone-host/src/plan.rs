//! Effect of a profile on this host: each knob with its current and new value, reason, source, risk and time of effect, and the knobs that
//! can't matter here. Computed from what was read; nothing is written.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::change::Step;
use crate::disks::{DataPath, Disk, look};
use crate::kernel::{Kernel, plain_value};
use crate::knob::{DeviceKnob, Effect, Family, MOST_REQUESTS_OF_A_SCHEDULER, Risk, by_name, of_path};
use crate::origin::{self, Origin};
use crate::profile::{Only, Profile, Wish};
use crate::relevance::{Facts, cannot_matter, remark};

/// Effect of a profile here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Name of the profile.
    pub profile: String,
    /// Purpose of the profile.
    pub about: String,
    /// The disks whose queues are changed.
    pub disks: Vec<Disk>,
    /// The device above them with the file system, if it is another one; readahead applies to it.
    pub top: Option<Disk>,
    /// One row for each knob and device.
    pub rows: Vec<Row>,
    /// Obstacles for the whole plan.
    pub obstacles: Vec<String>,
    /// Hash of the rows: a host with another hash has changed since the plan.
    pub fingerprint: String,
}

/// Effect on one knob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The knob, and the device if there can be several.
    pub title: String,
    /// Path of the attribute.
    pub path: String,
    /// Current value.
    pub now: Option<String>,
    /// Wanted value.
    pub wanted: String,
    /// The action.
    pub action: Action,
    /// Whether a larger number is accepted, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// The disks that it is wanted for.
    #[serde(default, skip_serializing_if = "Only::is_all")]
    pub only: Only,
    /// Why the profile wants it.
    pub reason: String,
    /// Source of the recommendation.
    pub source: String,
    /// Risk of the value.
    pub risk: Risk,
    /// Time of effect.
    pub effect: Effect,
    /// Whether the write stops the disk's queue for a while.
    pub freezes: bool,
    /// Attributes that the write changes along with its own.
    pub takes_along: Vec<String>,
    /// Remarks for this host.
    pub remark: Option<String>,
}

/// Action for a knob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub enum Action {
    /// The knob is written.
    Change,
    /// The knob already has the value.
    Keep,
    /// The knob could be written, but the value has no effect here.
    Idle {
        /// The reason.
        why: String,
    },
    /// The value is impossible.
    Cannot {
        /// The reason.
        why: String,
    },
}

/// Effect of a profile on these disks. `facts` are the facts about the host and its broker.
pub fn plan(kernel: &dyn Kernel, name: &str, profile: &Profile, data: &DataPath, facts: &Facts) -> Plan {
    let mut rows: Vec<Row> = profile.knobs.iter().flat_map(|wish| rows(kernel, wish, data, facts)).collect();
    keep_requests(&mut rows);
    limit_requests(kernel, &mut rows);
    Plan {
        fingerprint: fingerprint(&rows),
        profile: name.to_owned(),
        about: profile.about.clone(),
        disks: data.disks.clone(),
        top: data
            .top
            .as_ref()
            .filter(|top| data.disks.iter().all(|disk| disk.name != **top))
            .map(|top| look(kernel, top)),
        rows,
        obstacles: obstacles(name, data, facts),
    }
}

/// A hash of each attribute's current and wanted value, and its action. Parts without effect on a write are left out.
fn fingerprint(rows: &[Row]) -> String {
    let mut hash = Sha256::new();
    for row in rows {
        let action = match row.action {
            Action::Change => "change",
            Action::Keep => "keep",
            Action::Idle { .. } => "idle",
            Action::Cannot { .. } => "cannot",
        };
        for part in [row.path.as_str(), row.now.as_deref().unwrap_or_default(), &row.wanted, action] {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
    }
    hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

fn obstacles(profile: &str, data: &DataPath, facts: &Facts) -> Vec<String> {
    let mut obstacles = Vec::new();
    if let Some(manager) = &facts.container {
        let disks: String = data.disks.iter().map(|disk| format!(" --disk {}", disk.name)).collect();
        obstacles.push(format!(
            "this is a container ({manager}): memory, disks and huge pages belong to the host and are \
             shared by everything on it. On the host: `hone host apply {profile}{disks}`"
        ));
        if manager == "kubernetes" {
            obstacles.push(
                "net.* belong to the pod: its securityContext.sysctls sets them, if the kubelet allows it"
                    .to_owned(),
            );
        }
    }
    if facts.sys_is_read_only {
        let way_out = if facts.container.is_some() {
            "use a privileged container with the host's /proc/sys and /sys, or run on the host"
        } else {
            "mount them for writing, or run on the host"
        };
        obstacles.push(format!(
            "/sys or /proc/sys is mounted read-only, so nothing can be written from here; {way_out}"
        ));
    }
    if let Some(tuned) = &facts.tuned_profile {
        obstacles.push(format!(
            "tuned is active with the profile {tuned} and sets its values again at each start: put yours \
             into a child profile. Sysctls below /etc/sysctl.d win over its own, unless reapply_sysctl is \
             off"
        ));
    }
    if let Some(unit) = &facts.tuner_unit {
        obstacles.push(format!(
            "/{unit} runs Redpanda's tuner at each boot (rpk redpanda tune). It sets schedulers, huge \
             pages, swappiness and more by its own rules, over the values of this plan: run `systemctl \
             disable redpanda-tuner` if Hone's values must stay"
        ));
    }
    obstacles
}

fn rows(kernel: &dyn Kernel, wish: &Wish, data: &DataPath, facts: &Facts) -> Vec<Row> {
    let Some(knob) = by_name(&wish.name) else { return Vec::new() };
    let devices: Vec<Option<&str>> = match knob.family {
        Family::Sysctl | Family::HugePages => vec![None],
        Family::Queue => {
            let meant = |disk: &&Disk| wish.only == Only::All || disk.hardware_queues > 1;
            data.disks.iter().filter(meant).map(|disk| Some(disk.name.as_str())).collect()
        }
        Family::TopQueue => data.top.iter().map(|top| Some(top.as_str())).collect(),
    };
    devices.into_iter().map(|device| row(kernel, wish, &DeviceKnob::new(knob, device), facts)).collect()
}

fn row(kernel: &dyn Kernel, wish: &Wish, place: &DeviceKnob, facts: &Facts) -> Row {
    let path = place.path();
    let text = kernel.read(&path);
    let takes_along = place.closure(kernel).into_iter().filter(|other| *other != path).collect();
    let action = match &text {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            Action::Cannot { why: "this kernel or device does not have it".to_owned() }
        }
        Err(error) => Action::Cannot { why: error.to_string() },
        Ok(text) => action(wish, place, text, facts),
    };
    Row {
        title: place.title(),
        path,
        now: text.ok().map(|text| plain_value(&text)),
        wanted: wish.value.clone(),
        action,
        at_least: wish.at_least,
        only: wish.only,
        reason: wish.reason.clone(),
        source: wish.source.clone(),
        risk: place.knob.risk,
        effect: place.knob.effect,
        freezes: place.knob.freezes,
        takes_along,
        remark: remark(place.knob.name, facts).or_else(|| unordered(kernel, wish, place)),
    }
}

/// A single hardware queue needs a scheduler's order, although many devices order requests themselves (block/elevator.c gives such a disk
/// mq-deadline).
fn unordered(kernel: &dyn Kernel, wish: &Wish, place: &DeviceKnob) -> Option<String> {
    let disk =
        place.device.as_ref().filter(|_| place.knob.name == "queue.scheduler" && wish.value == "none")?;
    (look(kernel, disk).hardware_queues == 1).then(|| {
        format!(
            "{disk} has one hardware queue: without a scheduler its requests have no order, and writes \
            may delay reads"
        )
    })
}

fn action(wish: &Wish, place: &DeviceKnob, text: &str, facts: &Facts) -> Action {
    let now = plain_value(text);
    let enough = || Some(now.parse::<u64>().ok()? >= wish.value.parse::<u64>().ok()?);
    if now == wish.value || (wish.at_least && enough() == Some(true)) {
        return Action::Keep;
    }
    match place.knob.taken(&wish.value, text, facts.page_kib.unwrap_or(USUAL_PAGE_KIB)) {
        Err(why) => return Action::Cannot { why },
        Ok(taken) if taken != wish.value => {
            return Action::Cannot { why: format!("the kernel would silently set {taken} instead") };
        }
        Ok(_) => {}
    }
    match cannot_matter(place.knob.name, facts) {
        Some(why) => Action::Idle { why },
        None if facts.sys_is_read_only => Action::Cannot { why: "mounted read-only here".to_owned() },
        None => Action::Change,
    }
}

const USUAL_PAGE_KIB: u64 = 4;

/// Without a scheduler there are no more requests than the device has tags; a scheduler has its own limit.
fn limit_requests(kernel: &dyn Kernel, rows: &mut [Row]) {
    let wanted: Vec<(String, bool)> = rows
        .iter()
        .filter(|row| matches!(row.action, Action::Change | Action::Keep))
        .filter_map(|row| Some((row.path.strip_suffix("/queue/scheduler")?.to_owned(), row.wanted == "none")))
        .collect();
    for row in rows {
        let Some(device) = row.path.strip_suffix("/queue/nr_requests") else { continue };
        let says_none = || {
            let text = kernel.read(&format!("{device}/queue/scheduler"));
            text.is_ok_and(|text| plain_value(&text) == "none")
        };
        let planned = wanted.iter().find(|(path, _)| path == device).map(|(_, is_none)| *is_none);
        let is_none = planned.unwrap_or_else(says_none);
        let tags = kernel.read(&format!("{device}/mq/0/nr_tags")).ok();
        let tags: Option<u64> = tags.and_then(|text| text.trim().parse().ok());
        let most = if is_none { tags } else { Some(MOST_REQUESTS_OF_A_SCHEDULER) };
        let over = most.zip(row.wanted.parse().ok()).filter(|(most, wanted): &(u64, u64)| wanted > most);
        if let Some((most, _)) = over {
            let who = if is_none { "without a scheduler the device has" } else { "a scheduler takes" };
            row.action = Action::Cannot { why: format!("{who} {most} requests at most") };
        }
    }
}

/// A change of the scheduler resets the requests, so their current value says nothing.
fn keep_requests(rows: &mut [Row]) {
    let changed: Vec<String> = rows
        .iter()
        .filter(|row| row.action == Action::Change)
        .filter_map(|row| Some(row.path.strip_suffix("/queue/scheduler")?.to_owned()))
        .collect();
    for row in rows.iter_mut().filter(|row| row.action == Action::Keep) {
        let device = row.path.strip_suffix("/queue/nr_requests");
        if device.is_some_and(|device| changed.iter().any(|other| other == device)) {
            row.action = Action::Change;
        }
    }
}

fn step(row: &Row, value: &str) -> Step {
    let closure = [&row.path].into_iter().chain(&row.takes_along).cloned().collect();
    Step { path: row.path.clone(), value: value.to_owned(), closure }
}

impl Plan {
    /// All devices with a setting, so that each can be recognized again.
    pub fn devices(&self) -> Vec<Disk> {
        self.disks.iter().chain(&self.top).cloned().collect()
    }

    /// The writes. With `idle` they include those without effect here.
    pub fn steps(&self, idle: bool) -> Vec<Step> {
        let meant = |row: &&Row| match row.action {
            Action::Change => true,
            Action::Idle { .. } => idle,
            Action::Keep | Action::Cannot { .. } => false,
        };
        self.rows.iter().filter(meant).map(|row| step(row, &row.wanted)).collect()
    }

    /// Attributes that already have their value, but from no file and no kernel default. They need no write, but a permanent change must
    /// include them. Otherwise the next boot would have only a part of the profile.
    pub fn held_by_hand(&self, kernel: &dyn Kernel, origins: &[Origin]) -> Vec<Step> {
        let by_hand = |row: &Row| {
            let now = row.now.as_ref().filter(|_| row.action == Action::Keep)?;
            let by_file = origin::ruling(origins, &row.path).is_some_and(|origin| origin.value == *now);
            let usual = of_path(&row.path).and_then(|place| place.usual(kernel));
            (!by_file && usual.as_ref() != Some(now)).then(|| step(row, now))
        };
        self.rows.iter().filter_map(by_hand).collect()
    }
}
