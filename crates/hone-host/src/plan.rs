//! What a profile would change on this host: each knob with its value now and then, why, who says so, what it risks, when it
//! takes effect, and what can't matter here. Computed from what was read; nothing is written.

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::change::Step;
use crate::disks::{DataPath, Disk, look};
use crate::kernel::{Kernel, plain_value};
use crate::knob::{DeviceKnob, Effect, Family, MOST_REQUESTS_OF_A_SCHEDULER, Risk, by_name, of_path};
use crate::origin::{self, Origin};
use crate::profile::{Only, Profile, Wish};
use crate::relevance::{Facts, cannot_matter, remark};

/// What a profile would do here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The profile's name.
    pub profile: String,
    /// What it is for.
    pub about: String,
    /// The disks whose queues are meant.
    pub disks: Vec<Disk>,
    /// The device above them that carries the file system, where it is another one; readahead is that one's.
    pub top: Option<Disk>,
    /// A row for each knob and device.
    pub rows: Vec<Row>,
    /// What stands in the way of all of it.
    pub obstacles: Vec<String>,
    /// Of the rows: a host where it is another one by now is not the host that was looked at.
    pub fingerprint: String,
}

/// What would come of one knob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Row {
    /// The knob, and the device if there may be several.
    pub title: String,
    /// The attribute.
    pub path: String,
    /// Its value now.
    pub now: Option<String>,
    /// The wanted value.
    pub wanted: String,
    /// What would be done.
    pub action: Action,
    /// Whether a larger number is as good.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
    /// Of which disks it is wanted.
    #[serde(default, skip_serializing_if = "Only::is_all")]
    pub only: Only,
    /// Why the profile wants it.
    pub reason: String,
    /// Who says so.
    pub source: String,
    /// What it risks.
    pub risk: Risk,
    /// When it takes effect.
    pub effect: Effect,
    /// Whether the write stops the disk's queue for a while.
    pub freezes: bool,
    /// Attributes that the write takes along.
    pub takes_along: Vec<String>,
    /// What is worth knowing about it here.
    pub remark: Option<String>,
}

/// What would be done about a knob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "do")]
pub enum Action {
    /// It would be written.
    Change,
    /// It says so already.
    Keep,
    /// It could be written, and nothing would come of it here.
    Idle {
        /// Why.
        why: String,
    },
    /// It can't be done.
    Cannot {
        /// Why.
        why: String,
    },
}

/// What a profile would do on these disks. `facts` are what was seen of the host and its broker.
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

/// A hash of what each attribute says, shall say, and what would be done about it; what takes no part in a write is left out.
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
            "this is a container ({manager}): memory, disks and huge pages are the host's, for all that run there. On the host: `hone host apply {profile}{disks}`"
        ));
        if manager == "kubernetes" {
            obstacles.push(
                "net.* are the pod's own: its securityContext.sysctls sets them, if the kubelet allows it"
                    .to_owned(),
            );
        }
    }
    if facts.sys_is_read_only {
        let way_out = if facts.container.is_some() {
            "a privileged container with the host's /proc/sys and /sys is the other way"
        } else {
            "mount them for writing, or run this where they are"
        };
        obstacles.push(format!(
            "/sys or /proc/sys is mounted read-only, so nothing can be written from here; {way_out}"
        ));
    }
    if let Some(tuned) = &facts.tuned_profile {
        obstacles.push(format!(
            "tuned is active with the profile {tuned} and sets its values again whenever it starts: put yours into a child profile. Sysctls below /etc/sysctl.d rule over its own, unless reapply_sysctl is off"
        ));
    }
    if let Some(unit) = &facts.tuner_unit {
        obstacles.push(format!(
            "/{unit} lets Redpanda's tuner run at each boot (rpk redpanda tune), which sets schedulers, huge pages, swappiness and more by its own \
             rules, over what is kept here: `systemctl disable redpanda-tuner` where Hone's values shall last"
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

/// One hardware queue is in need of an order, which many have in the device itself (block/elevator.c gives such a disk mq-deadline).
fn unordered(kernel: &dyn Kernel, wish: &Wish, place: &DeviceKnob) -> Option<String> {
    let disk =
        place.device.as_ref().filter(|_| place.knob.name == "queue.scheduler" && wish.value == "none")?;
    (look(kernel, disk).hardware_queues == 1).then(|| {
        format!("{disk} has one hardware queue: with none nobody orders its requests, and writes may hold up reads")
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
            return Action::Cannot { why: format!("the kernel would make {taken} of it, without a word") };
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

/// Without a scheduler there are no more requests than the device has tags; with one no more than that takes.
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

/// A scheduler that is changed sets the requests anew: what they are now is not what they will be.
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
    /// All devices of which something is set, so that each can be known again.
    pub fn devices(&self) -> Vec<Disk> {
        self.disks.iter().chain(&self.top).cloned().collect()
    }

    /// The writes. With `idle` also those of which nothing would come here.
    pub fn steps(&self, idle: bool) -> Vec<Step> {
        let meant = |row: &&Row| match row.action {
            Action::Change => true,
            Action::Idle { .. } => idle,
            Action::Keep | Action::Cannot { .. } => false,
        };
        self.rows.iter().filter(meant).map(|row| step(row, &row.wanted)).collect()
    }

    /// What is so already, and by no file and no default of the kernel: nothing is to be written, but a change that stays has to keep
    /// that, too, or the next boot has a part of the profile.
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
