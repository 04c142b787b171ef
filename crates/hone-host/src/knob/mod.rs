//! The kernel's settings that Hone knows: where each is, what the kernel makes of a value, what it takes along, when it
//! takes effect, what it risks, and who says what about it.

use serde::{Deserialize, Serialize};

use crate::kernel::{Kernel, plain_value};

mod known;

pub use known::KNOBS;

/// Where a knob lies, which also says how many of it a machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// A file below `/proc/sys`, one for the machine.
    Sysctl,
    /// A file in `/sys/kernel/mm/transparent_hugepage`, one for the machine.
    HugePages,
    /// A file in `/sys/block/DISK/queue` of the disks that hold the data.
    Queue,
    /// As `Queue`, of the device that carries the file system (an md or dm device above the disks): readahead is that one's.
    TopQueue,
}

/// What the kernel takes as a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A whole number between these, both included.
    Number {
        /// The least that is taken.
        min: u64,
        /// The most that is taken; the machine may allow less.
        max: u64,
        /// What the kernel does to a number in silence.
        rounding: Rounding,
    },
    /// One of the words that the attribute lists.
    Choice,
}

/// What the kernel does to a number in silence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// It takes it or refuses it.
    None,
    /// Down to whole pages; of 4 KiB: 3 becomes 0, 5 becomes 4.
    PagesOfKib,
    /// Less than this becomes this.
    AtLeast(u64),
}

/// When a new value begins to matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Effect {
    /// With the write.
    Now,
    /// With files that are opened from then on: open ones keep what they had.
    NewFiles,
    /// With memory that is touched from then on: a broker must be started again, both for the change and for its undo.
    NewMemory,
    /// With sockets that are opened from then on.
    NewSockets,
}

/// What can go wrong with a sensible value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Risk {
    /// Nothing that was heard of.
    Low,
    /// Slower for some loads.
    Medium,
    /// Stalls, lost data after a power failure, or processes killed.
    High,
}

/// What somebody says who should know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// Who, and where.
    pub who: &'static str,
    /// The value, or what is said in place of one.
    pub value: &'static str,
}

/// One setting of the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Knob {
    /// Its name: a sysctl's own, or the folder's and the file's.
    pub name: &'static str,
    /// Where it lies.
    pub family: Family,
    /// What the kernel takes.
    pub form: Form,
    /// What the kernel starts with; `None` where that hangs on the machine or the distribution.
    pub default: Option<&'static str>,
    /// When a new value matters.
    pub effect: Effect,
    /// What it risks.
    pub risk: Risk,
    /// Whether a write stops the disk's queue for a while (20 to 37 ms were measured).
    pub freezes: bool,
    /// What it does, in one sentence.
    pub about: &'static str,
    /// What vendors and respected sources say.
    pub advice: &'static [Advice],
}

/// A knob of a machine: the setting, and of which device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceKnob {
    /// The setting.
    pub knob: &'static Knob,
    /// The device, for settings of a queue.
    pub device: Option<String>,
}

/// The knob of this name.
pub fn by_name(name: &str) -> Option<&'static Knob> {
    KNOBS.iter().find(|knob| knob.name == name)
}

/// The knob of an attribute, and of which device.
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

    /// Name, and the device where there may be several.
    pub fn title(&self) -> String {
        match &self.device {
            Some(device) => format!("{} of {device}", self.knob.name),
            None => self.knob.name.to_owned(),
        }
    }

    /// What the kernel starts with, as far as it can be told: a scheduler hangs on the number of hardware queues, and the number of
    /// requests on that and on what the device can hold (block/elevator.c, block/blk-mq-sched.c). `None` where it is worked out from
    /// the machine.
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
            // block/blk-settings.c: twice the device's best size, and no less than 128 KiB.
            "queue.read_ahead_kb" => {
                const LEAST_KIB: u64 = 128;
                let best = read("queue/optimal_io_size").and_then(|text| text.trim().parse::<u64>().ok());
                Some((best.unwrap_or(0) / 512).max(LEAST_KIB).to_string())
            }
            // block/blk-wbt.c: 75 ms of turning disks, 2 ms of others.
            "queue.wbt_lat_usec" => {
                let turns = read("queue/rotational")?.trim() == "1";
                Some(if turns { "75000" } else { "2000" }.to_owned())
            }
            _ => self.knob.default.map(str::to_owned),
        }
    }

    /// The attribute that rules in the place of this one when it is not 0. Setting one sets the other to 0, and the kernel
    /// refuses a written 0 of the bytes.
    pub fn rival(&self) -> Option<String> {
        rival(&self.path())
    }

    /// All attributes that a write of this one can change, this one among them, in the order in which they have to be
    /// written to be had back: a scheduler sets the requests, the requests set what a scheduler keeps per request, so
    /// the reverse order of a change is not its undo.
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

/// Requests that a scheduler takes, whatever the device can hold (block/blk-mq-sched.h, `MAX_SCHED_RQ`).
pub(crate) const MOST_REQUESTS_OF_A_SCHEDULER: u64 = 2048;

/// A write of it makes the kernel keep more memory free, or less (mm/khugepaged.c, `set_recommended_min_free_kbytes`).
const HUGE_PAGES_ENABLED: &str = "sys/kernel/mm/transparent_hugepage/enabled";
const MIN_FREE: &str = "proc/sys/vm/min_free_kbytes";

/// Knobs whose writes make the kernel set other attributes of the queue anew (block/elevator.c, mq-deadline's `depth_updated`).
const RESETS_THE_QUEUE: [&str; 2] = ["queue.scheduler", "queue.nr_requests"];

fn queue_closure(device: &str, kernel: &dyn Kernel) -> Vec<String> {
    let queue = format!("sys/block/{device}/queue");
    let own = ["scheduler", "nr_requests"].map(|file| format!("{queue}/{file}"));
    let schedulers =
        kernel.list(&format!("{queue}/iosched")).into_iter().map(|file| format!("{queue}/iosched/{file}"));
    own.into_iter().chain(schedulers).chain([format!("{queue}/wbt_lat_usec")]).collect()
}

/// Of a pair, a write of the one sets the other to 0 (mm/page-writeback.c; `overcommit_ratio_handler` and its like in mm/util.c).
const RIVALS: [(&str, &str); 3] = [
    ("proc/sys/vm/dirty_ratio", "proc/sys/vm/dirty_bytes"),
    ("proc/sys/vm/dirty_background_ratio", "proc/sys/vm/dirty_background_bytes"),
    ("proc/sys/vm/overcommit_ratio", "proc/sys/vm/overcommit_kbytes"),
];

/// The attribute that rules in the place of the one at this path when it is not 0.
pub fn rival(path: &str) -> Option<String> {
    let other = RIVALS.iter().find_map(|&(ratio, bytes)| match path {
        path if path == ratio => Some(bytes),
        path if path == bytes => Some(ratio),
        _ => None,
    })?;
    Some(other.to_owned())
}

/// All attributes that a write of the one at this path can change, as [`DeviceKnob::closure`] has them; of one that Hone does not know, itself.
pub fn closure(path: &str, kernel: &dyn Kernel) -> Vec<String> {
    match of_path(path) {
        Some(place) => place.closure(kernel),
        None => std::iter::once(path.to_owned()).chain(rival(path)).collect(),
    }
}

/// Whether a write of the one attribute can move the other, where they are of no queue and no rivals.
pub(crate) fn moves(path: &str, other: &str) -> bool {
    path == HUGE_PAGES_ENABLED && other == MIN_FREE
}

/// The place in the order of writes: a scheduler before the requests, those before what the scheduler keeps; the memory that is kept free
/// behind huge pages, which move it.
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

/// Whether an attribute of a queue is one that writes of others can set anew.
pub fn is_reset(path: &str) -> bool {
    path.contains("/queue/") && (rank(path) <= 2 || path.ends_with("/wbt_lat_usec"))
}

impl Knob {
    /// What the kernel would make of a value, or why it would refuse it. `text` is what the attribute says now, a page has
    /// `page_kib` KiB.
    ///
    /// # Errors
    /// A sentence for people.
    pub fn taken(&self, value: &str, text: &str, page_kib: u64) -> Result<String, String> {
        match self.form {
            Form::Choice => {
                let choices = crate::kernel::choices(text);
                if choices.iter().any(|choice| choice == value) {
                    Ok(value.to_owned())
                } else {
                    Err(format!("{value} is not among {}", choices.join(", ")))
                }
            }
            Form::Number { min, max, rounding } => {
                let number: u64 =
                    value.parse().map_err(|_| format!("{value} is no whole number from {min} to {max}"))?;
                if !(min..=max).contains(&number) {
                    return Err(format!("{value} is not from {min} to {max}"));
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

    /// Whether a text of the attribute is what the kernel starts with; `None` where nobody can say.
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
