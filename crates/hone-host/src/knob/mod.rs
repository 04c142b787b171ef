//! The kernel settings that Hone knows: place, accepted values, side effects, time of effect, risks, and recommendations.

use serde::{Deserialize, Serialize};

use crate::kernel::{Kernel, plain_value};

mod known;

pub use known::KNOBS;

/// Place of a knob, which also determines how many of it a machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// A file below `/proc/sys`, one for the machine.
    Sysctl,
    /// A file in `/sys/kernel/mm/transparent_hugepage`, one for the machine.
    HugePages,
    /// A file in `/sys/block/DISK/queue` of the disks that hold the data.
    Queue,
    /// Like `Queue`, for the device with the file system (an md or dm device above the disks); readahead applies to that one.
    TopQueue,
}

/// Values that the kernel accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A whole number between these, both included.
    Number {
        /// Smallest accepted value.
        min: u64,
        /// Largest accepted value; the machine may allow less.
        max: u64,
        /// Silent change of a number by the kernel.
        rounding: Rounding,
    },
    /// One of the words that the attribute lists.
    Choice,
}

/// Silent change of a number by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// The kernel accepts or rejects it.
    None,
    /// Rounded down to whole pages; with 4 KiB pages, 3 becomes 0 and 5 becomes 4.
    PagesOfKib,
    /// A smaller value becomes this.
    AtLeast(u64),
}

/// Time of effect of a new value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// Immediately.
    Now,
    /// For files opened afterwards: open files keep the old value.
    NewFiles,
    /// For memory touched afterwards: a broker must be restarted, both for the change and for its rollback.
    NewMemory,
    /// For sockets opened afterwards.
    NewSockets,
}

/// Risk of a sensible value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Risk {
    /// No known risk.
    Low,
    /// Slower for some loads.
    Medium,
    /// Stalls, lost data after a power failure, or killed processes.
    High,
}

/// A recommendation by a respected source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// The source.
    pub who: &'static str,
    /// The value, or the advice instead of one.
    pub value: &'static str,
}

/// One kernel setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Knob {
    /// Its name: a sysctl's own, or folder and file.
    pub name: &'static str,
    /// Its place.
    pub family: Family,
    /// Accepted values.
    pub form: Form,
    /// The kernel's default; `None` if it depends on the machine or the distribution.
    pub default: Option<&'static str>,
    /// Time of effect of a new value.
    pub effect: Effect,
    /// What it risks.
    pub risk: Risk,
    /// Whether a write stops the disk's queue for a while (20 to 37 ms were measured).
    pub freezes: bool,
    /// Its purpose, in one sentence.
    pub about: &'static str,
    /// Recommendations of vendors and respected sources.
    pub advice: &'static [Advice],
}

/// A knob of a machine: the setting, and its device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceKnob {
    /// The setting.
    pub knob: &'static Knob,
    /// The device, for settings of a queue.
    pub device: Option<String>,
}

/// The knob with this name.
pub fn by_name(name: &str) -> Option<&'static Knob> {
    KNOBS.iter().find(|knob| knob.name == name)
}

/// The knob of an attribute, and its device.
pub fn of_path(path: &str) -> Option<DeviceKnob> {
    let queue = path.strip_prefix("sys/block/").and_then(|path| path.split_once("/queue/"));
    let device = queue.map(|(device, _)| device);
    KNOBS.iter().map(|knob| DeviceKnob::new(knob, device)).find(|place| {
        matches!(place.knob.family, Family::Queue | Family::TopQueue) == device.is_some()
            && place.path() == path
    })
}

const HUGE_PAGES: &str = "transparent_hugepage.";
const QUEUE: &str = "queue.";

impl DeviceKnob {
    /// A setting of the whole machine, or of this device.
    pub fn new(knob: &'static Knob, device: Option<&str>) -> Self {
        Self { knob, device: device.map(str::to_owned) }
    }

    /// The attribute's path without the leading `/`.
    pub fn path(&self) -> String {
        let name = self.knob.name;
        match (self.knob.family, &self.device) {
            (Family::HugePages, _) => {
                format!(
                    "sys/kernel/mm/transparent_hugepage/{}",
                    name.strip_prefix(HUGE_PAGES).unwrap_or(name)
                )
            }
            (Family::Queue | Family::TopQueue, Some(device)) => {
                format!("sys/block/{device}/queue/{}", name.strip_prefix(QUEUE).unwrap_or(name))
            }
            _ => format!("proc/sys/{}", name.replace('.', "/")),
        }
    }

    /// Name, with the device if there can be several.
    pub fn title(&self) -> String {
        match &self.device {
            Some(device) => format!("{} of {device}", self.knob.name),
            None => self.knob.name.to_owned(),
        }
    }

    /// The kernel's default, as far as it is known. The default of a scheduler depends on the number of hardware queues. The default number
    /// of requests depends on the scheduler and the device's capacity (block/elevator.c, block/blk-mq-sched.c). `None` if it is computed
    /// from the machine.
    pub fn usual(&self, kernel: &dyn Kernel) -> Option<String> {
        const OF_A_SCHEDULER: u64 = 128;
        let Some(device) = &self.device else { return self.knob.default.map(str::to_owned) };
        let read = |file: &str| kernel.read(&format!("sys/block/{device}/{file}")).ok();
        let tags = || read("mq/0/nr_tags")?.trim().parse::<u64>().ok();
        match self.knob.name {
            "queue.scheduler" => match kernel.list(&format!("sys/block/{device}/mq")).len() {
                0 => None,
                1 => Some("mq-deadline".to_owned()),
                _ => Some("none".to_owned()),
            },
            "queue.nr_requests" => {
                let is_none = plain_value(&read("queue/scheduler")?) == "none";
                Some(if is_none { tags()? } else { 2 * tags()?.min(OF_A_SCHEDULER) }.to_string())
            }
            // block/blk-settings.c: twice the device's optimal size, and at least 128 KiB.
            "queue.read_ahead_kb" => {
                const LEAST_KIB: u64 = 128;
                let best = read("queue/optimal_io_size").and_then(|text| text.trim().parse::<u64>().ok());
                Some((best.unwrap_or(0) / 512).max(LEAST_KIB).to_string())
            }
            // block/blk-wbt.c: 75 ms for rotating disks, 2 ms for others.
            "queue.wbt_lat_usec" => {
                let turns = read("queue/rotational")?.trim() == "1";
                Some(if turns { "75000" } else { "2000" }.to_owned())
            }
            _ => self.knob.default.map(str::to_owned),
        }
    }

    /// The attribute that replaces this one when it is not 0. Setting one sets the other to 0, and the kernel rejects a written 0 for the
    /// bytes.
    pub fn rival(&self) -> Option<String> {
        rival(&self.path())
    }

    /// All attributes that a write of this one can change, including this one, in the order of writes for a rollback. A scheduler resets
    /// the requests, and the requests reset the scheduler's own attributes. So the reverse order of a change would not restore it.
    pub fn closure(&self, kernel: &dyn Kernel) -> Vec<String> {
        if let Some(rival) = self.rival() {
            return vec![self.path(), rival];
        }
        if self.path() == HUGE_PAGES_ENABLED {
            return vec![self.path(), MIN_FREE.to_owned()];
        }
        let Some(device) = self.device.as_ref().filter(|_| RESETS_THE_QUEUE.contains(&self.knob.name)) else {
            return vec![self.path()];
        };
        queue_closure(device, kernel)
    }
}

/// Requests that a scheduler takes, for any device capacity (block/blk-mq-sched.h, `MAX_SCHED_RQ`).
pub(crate) const MOST_REQUESTS_OF_A_SCHEDULER: u64 = 2048;

/// Writing it makes the kernel keep more or less memory free (mm/khugepaged.c, `set_recommended_min_free_kbytes`).
const HUGE_PAGES_ENABLED: &str = "sys/kernel/mm/transparent_hugepage/enabled";
const MIN_FREE: &str = "proc/sys/vm/min_free_kbytes";

/// Knobs whose writes make the kernel reset other attributes of the queue (block/elevator.c, mq-deadline's `depth_updated`).
const RESETS_THE_QUEUE: [&str; 2] = ["queue.scheduler", "queue.nr_requests"];

fn queue_closure(device: &str, kernel: &dyn Kernel) -> Vec<String> {
    let queue = format!("sys/block/{device}/queue");
    let own = ["scheduler", "nr_requests"].map(|file| format!("{queue}/{file}"));
    let schedulers =
        kernel.list(&format!("{queue}/iosched")).into_iter().map(|file| format!("{queue}/iosched/{file}"));
    own.into_iter().chain(schedulers).chain([format!("{queue}/wbt_lat_usec")]).collect()
}

/// Writing one of a pair sets the other to 0 (mm/page-writeback.c; `overcommit_ratio_handler` and similar ones in mm/util.c).
const RIVALS: [(&str, &str); 3] = [
    ("proc/sys/vm/dirty_ratio", "proc/sys/vm/dirty_bytes"),
    ("proc/sys/vm/dirty_background_ratio", "proc/sys/vm/dirty_background_bytes"),
    ("proc/sys/vm/overcommit_ratio", "proc/sys/vm/overcommit_kbytes"),
];

/// The attribute that replaces the one at this path when it is not 0.
pub fn rival(path: &str) -> Option<String> {
    let other = RIVALS.iter().find_map(|&(ratio, bytes)| match path {
        path if path == ratio => Some(bytes),
        path if path == bytes => Some(ratio),
        _ => None,
    })?;
    Some(other.to_owned())
}

/// All attributes that a write of the one at this path can change, as in [`DeviceKnob::closure`]; for an attribute that Hone does not know,
/// only itself.
pub fn closure(path: &str, kernel: &dyn Kernel) -> Vec<String> {
    match of_path(path) {
        Some(place) => place.closure(kernel),
        None => std::iter::once(path.to_owned()).chain(rival(path)).collect(),
    }
}

/// Whether writing one attribute can change the other, for attributes that are neither a queue's nor rivals.
pub(crate) fn moves(path: &str, other: &str) -> bool {
    path == HUGE_PAGES_ENABLED && other == MIN_FREE
}

/// Position in the order of writes: a scheduler before the requests, those before the scheduler's own attributes. The free memory comes
/// after huge pages, which change it.
pub fn rank(path: &str) -> u8 {
    let file = path.rsplit('/').next().unwrap_or_default();
    match file {
        "scheduler" => 0,
        "nr_requests" => 1,
        _ if path.contains("/iosched/") => 2,
        _ if path == MIN_FREE => 4,
        _ => 3,
    }
}

/// Whether an attribute of a queue is one that other writes can reset.
pub fn is_reset(path: &str) -> bool {
    path.contains("/queue/") && (rank(path) <= 2 || path.ends_with("/wbt_lat_usec"))
}

impl Knob {
    /// The value that the kernel would set, or the reason why it would reject it. `text` is the attribute's current text; a page has
    /// `page_kib` KiB.
    ///
    /// # Errors
    /// Returns a sentence for people.
    pub fn taken(&self, value: &str, text: &str, page_kib: u64) -> Result<String, String> {
        match self.form {
            Form::Choice => {
                let choices = crate::kernel::choices(text);
                if choices.iter().any(|choice| choice == value) {
                    Ok(value.to_owned())
                } else {
                    Err(format!("{value} is not one of {}", choices.join(", ")))
                }
            }
            Form::Number { min, max, rounding } => {
                let number: u64 = value
                    .parse()
                    .map_err(|_| format!("{value} is not a whole number from {min} to {max}"))?;
                if !(min..=max).contains(&number) {
                    return Err(format!("{value} is not in the range {min} to {max}"));
                }
                Ok(match rounding {
                    Rounding::None => number,
                    Rounding::PagesOfKib => number / page_kib.max(1) * page_kib.max(1),
                    Rounding::AtLeast(least) => number.max(least),
                }
                .to_string())
            }
        }
    }

    /// Whether the attribute's text is the kernel's default; `None` if unknown.
    pub fn is_default(&self, text: &str) -> Option<bool> {
        Some(plain_value(text) == self.default?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Files;

    #[test]
    fn names_are_paths_and_differ() {
        let place = |name: &str, device| DeviceKnob::new(by_name(name).unwrap(), device).path();
        assert_eq!(place("vm.swappiness", None), "proc/sys/vm/swappiness");
        assert_eq!(place("queue.scheduler", Some("vda")), "sys/block/vda/queue/scheduler");
        assert_eq!(place("transparent_hugepage.defrag", None), "sys/kernel/mm/transparent_hugepage/defrag");
        for knob in KNOBS {
            let is_queue = matches!(knob.family, Family::Queue | Family::TopQueue);
            let place = DeviceKnob::new(knob, is_queue.then_some("vda"));
            assert_eq!(of_path(&place.path()), Some(place));
        }
        assert_eq!(of_path("proc/sys/vm/no_such"), None);
        let names: std::collections::BTreeSet<&str> = KNOBS.iter().map(|knob| knob.name).collect();
        assert_eq!(names.len(), KNOBS.len());
    }

    #[test]
    fn what_the_kernel_makes_of_a_value() {
        let taken = |name: &str, value: &str, text: &str| by_name(name).unwrap().taken(value, text, 4);
        assert_eq!(taken("queue.read_ahead_kb", "5", "128").unwrap(), "4");
        let large_pages = by_name("queue.read_ahead_kb").unwrap().taken("16", "128", 64);
        assert_eq!(large_pages.unwrap(), "0");
        assert_eq!(taken("queue.nr_requests", "3", "256").unwrap(), "4");
        assert_eq!(taken("vm.dirty_ratio", "100", "20").unwrap(), "100");
        assert!(taken("vm.dirty_ratio", "101", "20").is_err());
        assert!(taken("vm.swappiness", "1 # low", "60").is_err());
        assert_eq!(taken("queue.scheduler", "none", "[none] kyber").unwrap(), "none");
        assert!(taken("queue.scheduler", "noop", "[none] kyber").unwrap_err().contains("none, kyber"));
    }

    #[test]
    fn a_scheduler_takes_its_queue_along() {
        let root = tempfile::tempdir().unwrap();
        let iosched = root.path().join("sys/block/vda/queue/iosched");
        std::fs::create_dir_all(&iosched).unwrap();
        std::fs::write(iosched.join("read_expire"), "500").unwrap();
        let files = Files::new(root.path());
        let closure = DeviceKnob::new(by_name("queue.scheduler").unwrap(), Some("vda")).closure(&files);
        let names: Vec<&str> = closure.iter().map(|path| path.rsplit('/').next().unwrap()).collect();
        assert_eq!(names, ["scheduler", "nr_requests", "read_expire", "wbt_lat_usec"]);
        assert!(closure.is_sorted_by_key(|path| rank(path)));
        let dirty = DeviceKnob::new(by_name("vm.dirty_ratio").unwrap(), None);
        assert_eq!(dirty.closure(&files), ["proc/sys/vm/dirty_ratio", "proc/sys/vm/dirty_bytes"]);
        // By their paths alone, known or not.
        assert_eq!(super::closure("sys/block/vda/queue/scheduler", &files), closure);
        assert_eq!(super::closure("proc/sys/vm/dirty_bytes", &files).len(), 2);
        let overcommit = super::closure("proc/sys/vm/overcommit_kbytes", &files);
        assert_eq!(overcommit, ["proc/sys/vm/overcommit_kbytes", "proc/sys/vm/overcommit_ratio"]);
        assert_eq!(super::closure("proc/sys/net/core/somaxconn", &files), ["proc/sys/net/core/somaxconn"]);
    }
}
