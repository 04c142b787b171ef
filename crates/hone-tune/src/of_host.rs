//! Finds settings of this machine to try: knobs on the broker's path to its data whose value differs from the profiles of `hone
//! host`.

use std::fs::OpenOptions;
use std::path::Path;

use hone_host::disks;
use hone_host::kernel::Files;
use hone_host::profile::{self, OWN, Profile, Wish};
use hone_host::relevance;
use hone_record::{Hope, Metric};

use super::candidate::Candidate;
use crate::host::candidate::{self, Given};
use hone_experiment::arm::is_address;

/// Expected gain of a knob of the machine. A deliberately low guess: most of the advice in host guides is inconclusive when it is
/// tested.
const HOPE_OF_A_KNOB: f64 = 0.015;
/// Profiles for low latency and for throughput. The first one that has a knob gives the value.
const FOR_LATENCY: [&str; 4] = ["latency", "redpanda", "kafka-page-cache", "throughput"];
const FOR_THE_REST: [&str; 4] = ["throughput", "kafka-page-cache", "redpanda", "latency"];
/// Folder of the data of a target that Hone starts.
const DATA: &str = "{data}";

/// The candidates, or the reason why there are none.
pub type Found = std::result::Result<Vec<Candidate>, String>;

/// Finds knobs for a target with its data below `folder`. `place` is its address or its command.
pub fn found(root: &Path, place: &str, folder: &Path, objective: Metric) -> Found {
    if is_address(place) {
        return Err(format!(
            "{place} runs already, and its data folder is not known; name settings of its machine as \
             candidates"
        ));
    }
    if !place.contains(DATA) {
        return Err(format!("the target's command has no {DATA}, so its data folder is not known"));
    }
    let files = Files::new(root);
    let folder = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let there = folder.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/"));
    let data = disks::of_folder(&files, root, there);
    let facts = relevance::look(&files, root, Some(there));
    let given = Given { root, data: &data, facts: &facts, can_start: true, all: false };
    // The reasons name a profile, which can be applied elsewhere.
    let sorted = candidate::sorted(order(objective)[0], &on_the_way(objective), &given);
    if !sorted.obstacles.is_empty() {
        return Err(sorted.obstacles.join("; "));
    }
    let all: Vec<Candidate> =
        sorted.candidates.iter().filter(|knob| can_be_written(root, knob)).filter_map(of_knob).collect();
    match (all.is_empty(), sorted.candidates.is_empty()) {
        (false, _) => Ok(all),
        (true, false) => Err("changing them needs root".to_owned()),
        (true, true) => Err(
            "the knobs on the path to the data already have the values of the hone host profiles, or can't \
             matter here"
                .to_owned(),
        ),
    }
}

fn order(objective: Metric) -> [&'static str; 4] {
    if objective.is_latency() { FOR_LATENCY } else { FOR_THE_REST }
}

/// The wishes of all profiles about disks and dirty pages, one per knob.
fn on_the_way(objective: Metric) -> Profile {
    let texts = order(objective).into_iter().filter_map(|name| OWN.iter().find(|(own, _)| *own == name));
    let wishes =
        texts.filter_map(|(name, text)| profile::parse(name, text).ok()).flat_map(|found| found.knobs);
    let mut knobs: Vec<Wish> = Vec::new();
    for wish in wishes.filter(|wish| wish.name.starts_with("queue.") || wish.name.starts_with("vm.dirty_")) {
        if knobs.iter().all(|known| known.name != wish.name) {
            knobs.push(wish);
        }
    }
    Profile { about: "knobs on the path to the data".to_owned(), knobs }
}

/// Opened only; nothing is written.
fn can_be_written(root: &Path, knob: &candidate::Candidate) -> bool {
    knob.writes.iter().all(|write| OpenOptions::new().write(true).open(root.join(&write.path)).is_ok())
}

fn of_knob(knob: &candidate::Candidate) -> Option<Candidate> {
    let settings: Vec<String> =
        knob.changes().iter().map(|change| format!("host.{}={}", change.name, change.to)).collect();
    let now: Vec<&str> = knob.writes.iter().map(|write| write.was.as_str()).collect();
    let why = format!(
        "the knob is on the broker's path to its data, and is {} here: {}",
        now.join(" and "),
        knob.reason
    );
    Candidate::of_settings(&settings, Hope::new(HOPE_OF_A_KNOB, why)).ok().map(Candidate::by_hone)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const PLACE: &str = "broker --listen 127.0.0.1:{port} --data {data}";

    /// A machine with one disk, which holds the folder's file system.
    fn machine(scheduler: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("proc/sys/vm/dirty_ratio", "20\n"),
            ("proc/sys/vm/dirty_bytes", "0\n"),
            ("proc/sys/vm/dirty_background_ratio", "10\n"),
            ("proc/sys/vm/dirty_background_bytes", "0\n"),
            ("proc/sys/vm/swappiness", "60\n"),
            ("proc/self/mountinfo", "1 0 253:0 / / rw - ext4 /dev/vda rw\n"),
            ("proc/meminfo", "SwapTotal: 0 kB\n"),
            ("sys/dev/block/253:0/uevent", "DEVNAME=vda\n"),
            ("sys/block/vda/queue/scheduler", scheduler),
            ("sys/block/vda/queue/nomerges", "0\n"),
            ("sys/block/vda/queue/read_ahead_kb", "128\n"),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn what_is_not_on_the_way_to_the_data_is_left_alone() {
        for objective in [Metric::LatencyP99, Metric::CpuPerRecord] {
            let names: Vec<String> = on_the_way(objective).knobs.into_iter().map(|wish| wish.name).collect();
            assert!(names.iter().any(|name| name == "queue.scheduler"), "{names:?}");
            assert!(names.iter().all(|name| name.starts_with("queue.") || name.starts_with("vm.dirty_")));
        }
        let dirty = |objective| {
            let knobs = on_the_way(objective).knobs;
            knobs.into_iter().find(|wish| wish.name == "vm.dirty_background_ratio").map(|wish| wish.value)
        };
        assert_eq!(dirty(Metric::LatencyP99).as_deref(), Some("3"), "that of latency first");
    }

    #[test]
    fn knobs_that_differ_are_candidates_with_their_reasons() {
        let root = machine("none [mq-deadline]\n");
        let all = found(root.path(), PLACE, Path::new("/"), Metric::LatencyP99).unwrap();
        let dirty = all.iter().find(|one| one.name == "host.vm.dirty_background_ratio=3").unwrap();
        assert!(dirty.hope.why.contains("is 10 here: writing begins early"), "{}", dirty.hope.why);
        assert!(dirty.is_found && dirty.hope.share == HOPE_OF_A_KNOB);
        assert!(all.iter().all(|one| !one.name.contains("swappiness")), "{all:?}");
        // It carries a durability guarantee, which needs the run's consent.
        let engine = hone_record::Engine::Wire;
        assert!(dirty.promise(&engine).unwrap().is_some());
    }

    /// A knob that is not allowed is reported together with the setting that would allow it.
    #[test]
    fn what_is_left_out_is_told() {
        let root = machine("none [mq-deadline]\n");
        let asked = |lines: &str| {
            let text = format!(
                "name = \"x\"\n[tune]\ntarget = \"{PLACE}\"\nobjective = \"latency-p99\"\nallow = [\"host\"]\n{lines}\n[workload.w]\n"
            );
            let asked = crate::file::parse(&text, Path::new("hone.toml"), "unused").unwrap();
            let asked = crate::settings::TuneSettings { host_root: root.path().to_owned(), ..asked };
            let (asked, why) = asked.with_knobs_of_the_host(Path::new("/"));
            (asked.candidates.into_iter().map(|one| one.name).collect::<Vec<_>>(), why)
        };
        let dirty = "host.vm.dirty_background_ratio=3";
        let (names, why) = asked("forbid = [\"host.queue.*\"]");
        let why = why.unwrap();
        assert_eq!(names, Vec::<String>::new());
        assert!(why.contains(dirty) && why.contains("needs durability = true"), "{why}");
        assert!(
            why.contains("settings that `forbid` has"),
            "the scheduler is as it is, and would be tried: {why}"
        );
        let (names, why) = asked("forbid = [\"host.queue.*\"]\ndurability = true");
        assert!(names.contains(&dirty.to_owned()) && why.is_none(), "{names:?} {why:?}");
        let (_, why) = asked("forbid = [\"host.*\"]\ndurability = true");
        assert!(!why.unwrap().contains("durability"), "it would not help");
    }

    #[test]
    fn why_there_is_nothing_is_told() {
        let root = machine("none\n");
        let why = |place: &str| found(root.path(), place, Path::new("/"), Metric::CpuPerRecord).unwrap_err();
        assert!(why("127.0.0.1:9092").contains("runs already"));
        assert!(why("broker --port {port}").contains("has no {data}"));
    }
}
