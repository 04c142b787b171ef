//! The candidates: the knobs of a profile, each alone with its side effects, or all together.

use std::collections::BTreeSet;
use std::path::Path;

use hone_host::change::Step;
use hone_host::disks::{DataPath, Disk};
use hone_host::kernel::{Files, Kernel as _, plain_value};
use hone_host::knob::{Effect, by_name};
use hone_host::plan::{Action, Row, plan};
use hone_host::profile::Profile;
use hone_host::relevance::Facts;
use hone_record::{Change, TriedSetting, UntriedKnob};
use serde::{Deserialize, Serialize};

/// Settings that are written and rolled back together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The knob, or a name for several together.
    pub title: String,
    pub(crate) writes: Vec<Write>,
    /// The disks whose queues are changed.
    pub disks: Vec<Disk>,
    /// The reason for the value, with its source.
    pub reason: String,
    /// Whether it only has an effect on a target that is started after the write.
    pub anew: bool,
}

/// One attribute of a candidate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    pub(crate) path: String,
    pub(crate) was: String,
    pub(crate) value: String,
    /// All settings that the write can change.
    closure: Vec<String>,
}

/// The knobs of a profile, with and without an obstacle.
#[derive(Debug, Default)]
pub struct Sorted {
    /// The knobs that can be tried.
    pub candidates: Vec<Candidate>,
    /// The knobs that can't be tried, with reasons.
    pub untried: Vec<UntriedKnob>,
    /// Obstacles to the whole profile.
    pub obstacles: Vec<String>,
}

/// The host and the target before anything is tried.
pub struct Given<'a> {
    /// Root of the machine's files.
    pub root: &'a Path,
    /// Folder of the broker's data.
    pub data: &'a DataPath,
    /// Facts that were read from the machine.
    pub facts: &'a Facts,
    /// Whether the target can be started for a window.
    pub can_start: bool,
    /// Whether to try knobs that can't matter here.
    pub all: bool,
}

/// Separates the knobs of a profile that can be tried from the others. Each is checked alone, because each is tried alone.
pub fn sorted(name: &str, profile: &Profile, given: &Given<'_>) -> Sorted {
    let files = Files::new(given.root);
    let mut sorted = Sorted::default();
    for wish in &profile.knobs {
        let alone = Profile { about: profile.about.clone(), knobs: vec![wish.clone()] };
        let planned = plan(&files, name, &alone, given.data, given.facts);
        let devices = planned.devices();
        sorted.obstacles = planned.obstacles;
        if planned.rows.is_empty() {
            let why = match wish.only {
                hone_host::profile::Only::SeveralQueues => "no disk here has several hardware queues",
                hone_host::profile::Only::All => {
                    "the disk is not known; name the data folder with --data, or a disk with --disk"
                }
            };
            sorted.untried.push(untried(&wish.name, None, &wish.value, why.to_owned()));
            continue;
        }
        let mut writes = Vec::new();
        for row in &planned.rows {
            match refusal(row, wish.name.as_str(), given) {
                Some(why) => sorted.untried.push(untried(&row.title, row.now.clone(), &row.wanted, why)),
                None => writes.push(write(row)),
            }
        }
        if !writes.is_empty() {
            sorted.candidates.push(Candidate {
                title: wish.name.clone(),
                writes,
                disks: devices.clone(),
                reason: format!("{} ({})", wish.reason, wish.source),
                anew: is_for_new_ones(&wish.name),
            });
        }
    }
    sorted
}

/// All of them at once.
pub fn together(title: &str, all: &[Candidate]) -> Candidate {
    let mut writes = Vec::new();
    let mut disks: Vec<Disk> = Vec::new();
    for candidate in all {
        writes.extend(candidate.writes.iter().cloned());
        disks
            .extend(candidate.disks.iter().filter(|disk| !disks.contains(disk)).cloned().collect::<Vec<_>>());
    }
    let names: Vec<&str> = all.iter().map(|candidate| candidate.title.as_str()).collect();
    Candidate {
        title: title.to_owned(),
        writes,
        disks,
        reason: names.join(", "),
        anew: all.iter().any(|candidate| candidate.anew),
    }
}

/// A process gets the effect for memory it touches, and sockets it opens, after the write. Files are opened with each window's
/// topic.
fn is_for_new_ones(name: &str) -> bool {
    matches!(by_name(name).map(|knob| knob.effect), Some(Effect::NewMemory | Effect::NewSockets))
}

/// The reason why a row is not tried.
fn refusal(row: &Row, name: &str, given: &Given<'_>) -> Option<String> {
    match &row.action {
        Action::Keep => return Some("the host has this value already".to_owned()),
        Action::Cannot { why } => return Some(format!("impossible: {why}")),
        Action::Idle { why } if !given.all => {
            return Some(format!("can't matter here: {why}; --all includes it"));
        }
        Action::Idle { .. } | Action::Change => {}
    }
    (is_for_new_ones(name) && !given.can_start).then(|| {
        let of = if row.effect == Effect::NewMemory {
            "newly touched memory"
        } else {
            "newly opened \
             sockets"
        };
        format!(
            "it only affects {of}, and the target runs already: name a command instead of an address, so \
             that Hone can restart the target"
        )
    })
}

fn write(row: &Row) -> Write {
    Write {
        path: row.path.clone(),
        was: row.now.clone().unwrap_or_default(),
        value: row.wanted.clone(),
        closure: std::iter::once(&row.path).chain(&row.takes_along).cloned().collect(),
    }
}

fn untried(title: &str, now: Option<String>, wanted: &str, why: String) -> UntriedKnob {
    UntriedKnob { title: title.to_owned(), now, wanted: wanted.to_owned(), why }
}

impl Candidate {
    /// Its writes.
    pub fn steps(&self) -> Vec<Step> {
        let step = |write: &Write| Step {
            path: write.path.clone(),
            value: write.value.clone(),
            closure: write.closure.clone(),
        };
        self.writes.iter().map(step).collect()
    }

    /// Its settings, for the record.
    pub fn settings(&self) -> Vec<TriedSetting> {
        let setting = |write: &Write| TriedSetting {
            path: write.path.clone(),
            was: write.was.clone(),
            value: write.value.clone(),
        };
        self.writes.iter().map(setting).collect()
    }

    /// Values that differ from the start of the run, in words.
    pub fn moved(&self, files: &Files) -> Vec<String> {
        let moved = |write: &Write| {
            let now =
                files.read(&write.path).map_or_else(|error| error.to_string(), |text| plain_value(&text));
            (now != write.was).then(|| {
                format!("/{} was `{}` at the start of the run and is `{now}` now", write.path, write.was)
            })
        };
        self.writes.iter().filter_map(moved).collect()
    }

    /// As changes, which have durability guarantees.
    pub fn changes(&self) -> Vec<Change> {
        let change = |write: &Write| Change {
            kind: "host".to_owned(),
            name: write
                .path
                .strip_prefix("proc/sys/")
                .map_or_else(|| write.path.clone(), |name| name.replace('/', ".")),
            from: None,
            to: write.value.clone(),
            was: Some(write.was.clone()),
        };
        self.writes.iter().map(change).collect()
    }

    /// Its change of the durability guarantee, where a setting carries one.
    pub fn promise(&self) -> Option<String> {
        let told: BTreeSet<&str> = self.changes().iter().filter_map(Change::promise).collect();
        let told: Vec<&str> = told.into_iter().collect();
        (!told.is_empty()).then(|| format!("changes {}", told.join(", and ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_host::disks;
    use hone_host::profile::{self, OWN};
    use std::fs;

    fn machine() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("proc/sys/vm/swappiness", "60\n"),
            ("proc/sys/vm/dirty_ratio", "20\n"),
            ("proc/sys/vm/dirty_bytes", "0\n"),
            ("proc/sys/vm/dirty_background_ratio", "5\n"),
            ("proc/sys/vm/dirty_expire_centisecs", "3000\n"),
            ("proc/meminfo", "SwapTotal: 0 kB\n"),
            ("sys/block/vda/queue/scheduler", "none [mq-deadline]\n"),
            ("sys/block/vda/queue/nr_requests", "256\n"),
            ("sys/block/vda/queue/read_ahead_kb", "128\n"),
            ("sys/block/vda/queue/iosched/read_expire", "500\n"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn guide(root: &Path, can_start: bool, all: bool) -> Sorted {
        let files = Files::new(root);
        let data = disks::of_name(&files, "vda").unwrap();
        let facts = hone_host::relevance::look(&files, root, None);
        let (name, text) = OWN[0];
        let given = Given { root, data: &data, facts: &facts, can_start, all };
        sorted(name, &profile::parse(name, text).unwrap(), &given)
    }

    fn why(sorted: &Sorted, title: &str) -> String {
        sorted
            .untried
            .iter()
            .find(|untried| untried.title.starts_with(title))
            .map(|untried| untried.why.clone())
            .unwrap_or_default()
    }

    #[test]
    fn what_can_not_be_tried_says_why() {
        let root = machine();
        let found = guide(root.path(), false, false);
        let titles: Vec<&str> = found.candidates.iter().map(|candidate| candidate.title.as_str()).collect();
        assert!(titles.contains(&"queue.scheduler") && titles.contains(&"vm.dirty_ratio"), "{titles:?}");
        assert!(why(&found, "vm.swappiness").contains("no swap space"));
        assert!(why(&found, "vm.dirty_background_ratio").contains("has this value already"));
        assert!(why(&found, "transparent_hugepage.enabled").contains("runs already"));
        assert!(why(&found, "transparent_hugepage.defrag").contains("impossible"));
        let all = guide(root.path(), true, true);
        assert!(all.candidates.iter().any(|candidate| candidate.title == "vm.swappiness"));
        assert!(
            all.candidates
                .iter()
                .any(|candidate| candidate.anew && candidate.title == "transparent_hugepage.enabled")
        );
    }

    #[test]
    fn a_candidate_takes_its_closure_along_and_knows_what_it_promises() {
        let root = machine();
        let found = guide(root.path(), false, false);
        let of = |title: &str| found.candidates.iter().find(|candidate| candidate.title == title).unwrap();
        let scheduler = of("queue.scheduler");
        assert!(scheduler.steps()[0].closure.iter().any(|path| path.ends_with("iosched/read_expire")));
        assert_eq!(scheduler.promise(), None);
        assert!(of("vm.dirty_ratio").promise().unwrap().contains("power cut"));
        fs::write(root.path().join("proc/sys/vm/dirty_ratio"), "30\n").unwrap();
        let moved = of("vm.dirty_ratio").moved(&Files::new(root.path()));
        assert!(moved[0].contains("was `20`") && moved[0].contains("is `30` now"), "{moved:?}");
        let both = together("all", &found.candidates);
        assert_eq!(both.steps().len(), found.candidates.iter().map(|one| one.writes.len()).sum::<usize>());
        assert_eq!(both.disks.len(), 1);
    }
}
