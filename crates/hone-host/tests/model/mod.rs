//! A kernel that refuses, rounds and couples settings as Linux does; `real_kernel.rs` holds it against the real one.
#![allow(dead_code, reason = "each test file uses its part")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

use hone_host::kernel::{Kernel, plain_value};

/// Requests that the modelled device itself can hold.
pub(crate) const TAGS: u64 = 128;
/// Without regard to the device (block/blk-mq-sched.h, `MAX_SCHED_RQ`).
const MOST_REQUESTS: u64 = 2048;
/// Of a turning disk; 2000 of others.
const USUAL_WBT_USEC: u64 = 75_000;
const SCHEDULERS: [&str; 4] = ["none", "mq-deadline", "kyber", "bfq"];
const MIN_FREE: &str = "proc/sys/vm/min_free_kbytes";
const HUGE: &str = "sys/kernel/mm/transparent_hugepage";

/// What a scheduler keeps for itself, with what it starts with.
fn own_attributes(scheduler: &str) -> &'static [(&'static str, u64)] {
    match scheduler {
        "mq-deadline" => {
            &[("async_depth", 256), ("fifo_batch", 16), ("read_expire", 500), ("write_expire", 5000)]
        }
        "kyber" => &[("read_lat_nsec", 2_000_000), ("write_lat_nsec", 10_000_000)],
        "bfq" => &[("low_latency", 1), ("slice_idle", 8)],
        _ => &[],
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Queue {
    scheduler: String,
    requests: u64,
    read_ahead_kb: u64,
    wbt_lat_usec: u64,
    nomerges: u64,
    own: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Settings {
    numbers: BTreeMap<String, u64>,
    choices: BTreeMap<String, (Vec<String>, String)>,
    queues: BTreeMap<String, Queue>,
    read_only: bool,
    /// Attributes whose next writes end with EBUSY, and how many.
    busy: BTreeMap<String, u32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Model {
    settings: RefCell<Settings>,
}

fn error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

fn invalid() -> io::Error {
    error(libc::EINVAL)
}

impl Model {
    /// A host with these disks, each with its scheduler.
    pub(crate) fn new(disks: &[(&str, &str)]) -> Self {
        let sysctls = [
            ("vm/swappiness", 60),
            ("vm/min_free_kbytes", 50_000),
            ("vm/dirty_ratio", 20),
            ("vm/dirty_bytes", 0),
            ("vm/dirty_background_ratio", 10),
            ("vm/dirty_background_bytes", 0),
            ("vm/dirty_expire_centisecs", 3000),
        ];
        let numbers = sysctls.map(|(name, number)| (format!("proc/sys/{name}"), number)).into();
        let choice = |file: &str, words: &[&str]| {
            let words = words.iter().map(|word| (*word).to_owned()).collect();
            (format!("{HUGE}/{file}"), (words, "madvise".to_owned()))
        };
        let choices = [
            choice("enabled", &["always", "madvise", "never"]),
            choice("defrag", &["always", "defer", "defer+madvise", "madvise", "never"]),
        ];
        let queue = |scheduler: &str| {
            let mut queue = Queue {
                scheduler: String::new(),
                requests: 0,
                read_ahead_kb: 128,
                wbt_lat_usec: USUAL_WBT_USEC,
                nomerges: 0,
                own: BTreeMap::new(),
            };
            queue.elect(scheduler);
            queue
        };
        let queues = disks.iter().map(|(name, scheduler)| ((*name).to_owned(), queue(scheduler))).collect();
        let settings =
            Settings { numbers, choices: choices.into(), queues, read_only: false, busy: BTreeMap::new() };
        Self { settings: RefCell::new(settings) }
    }

    pub(crate) fn make_read_only(&self) {
        self.settings.borrow_mut().read_only = true;
    }

    /// The next writes of an attribute end with EBUSY, as if another process kept it busy.
    pub(crate) fn make_busy(&self, path: &str, times: u32) {
        self.settings.borrow_mut().busy.insert(path.to_owned(), times);
    }

    /// Every attribute with its value.
    pub(crate) fn all(&self) -> BTreeMap<String, String> {
        let settings = self.settings.borrow();
        let mut paths: Vec<String> =
            settings.numbers.keys().chain(settings.choices.keys()).cloned().collect();
        for (disk, queue) in &settings.queues {
            let fixed = ["scheduler", "nr_requests", "read_ahead_kb", "wbt_lat_usec", "nomerges"];
            let own = queue.own.keys().map(|file| format!("iosched/{file}"));
            let files = fixed.map(str::to_owned).into_iter().chain(own);
            paths.extend(files.map(|file| format!("sys/block/{disk}/queue/{file}")));
        }
        drop(settings);
        paths.into_iter().map(|path| (path.clone(), plain_value(&self.read(&path).unwrap()))).collect()
    }
}

impl Queue {
    fn elect(&mut self, scheduler: &str) {
        if self.scheduler == scheduler {
            return;
        }
        if self.scheduler == "bfq" {
            self.wbt_lat_usec = USUAL_WBT_USEC;
        }
        scheduler.clone_into(&mut self.scheduler);
        self.requests = if scheduler == "none" { TAGS } else { 2 * TAGS.min(128) };
        self.own = own_attributes(scheduler).iter().map(|(file, n)| ((*file).to_owned(), *n)).collect();
        if scheduler == "bfq" {
            self.wbt_lat_usec = 0;
        }
    }

    fn read(&self, file: &str) -> Option<String> {
        let number = match file {
            "scheduler" => {
                let words = SCHEDULERS
                    .map(|name| if name == self.scheduler { format!("[{name}]") } else { name.to_owned() });
                return Some(words.join(" ") + " \n");
            }
            "nr_requests" => self.requests,
            "read_ahead_kb" => self.read_ahead_kb,
            "wbt_lat_usec" => self.wbt_lat_usec,
            "nomerges" => self.nomerges,
            file => *self.own.get(file.strip_prefix("iosched/")?)?,
        };
        Some(format!("{number}\n"))
    }

    fn write(&mut self, file: &str, value: &str) -> io::Result<()> {
        if file == "scheduler" {
            let name = value.trim();
            let known = SCHEDULERS.contains(&name);
            return if known {
                self.elect(name);
                Ok(())
            } else {
                Err(invalid())
            };
        }
        let number: u64 = value.trim_end_matches('\n').parse().map_err(|_| invalid())?;
        let most = if self.scheduler == "none" { TAGS } else { MOST_REQUESTS };
        match file {
            "nr_requests" if number > most => return Err(invalid()),
            "nr_requests" => {
                self.requests = number.max(4);
                if let Some(depth) = self.own.get_mut("async_depth") {
                    *depth = self.requests;
                }
            }
            "read_ahead_kb" => self.read_ahead_kb = number / 4 * 4,
            "wbt_lat_usec" => self.wbt_lat_usec = number,
            "nomerges" if number > 2 => return Err(invalid()),
            "nomerges" => self.nomerges = number,
            file => {
                let own = file.strip_prefix("iosched/").and_then(|file| self.own.get_mut(file));
                *own.ok_or_else(|| error(libc::ENOENT))? = number;
            }
        }
        Ok(())
    }
}

fn queue_file(path: &str) -> Option<(&str, &str)> {
    path.strip_prefix("sys/block/")?.split_once("/queue/")
}

impl Settings {
    fn write_number(&mut self, path: &str, value: &str) -> io::Result<()> {
        if value.is_empty() {
            return Ok(());
        }
        let digits: &str = value.split([' ', '\n']).next().unwrap_or_default();
        let number: u64 = digits.parse().map_err(|_| invalid())?;
        let name = path.rsplit('/').next().unwrap_or_default();
        let (most, least) = match name {
            "swappiness" => (200, 0),
            "dirty_ratio" | "dirty_background_ratio" => (100, 0),
            "dirty_bytes" => (u64::MAX, 8192),
            "dirty_background_bytes" => (u64::MAX, 1),
            _ => (u64::from(u32::MAX) / 2, 0),
        };
        if !(least..=most).contains(&number) {
            return Err(invalid());
        }
        self.numbers.insert(path.to_owned(), number);
        let rival = hone_host::knob::rival(path);
        if let Some(rival) = rival {
            self.numbers.insert(rival, 0);
        }
        Ok(())
    }
}

impl Kernel for Model {
    fn read(&self, path: &str) -> io::Result<String> {
        let settings = self.settings.borrow();
        if path.starts_with("sys/block/") && path.ends_with("/mq/0/nr_tags") {
            return Ok(format!("{TAGS}\n"));
        }
        if let Some(disk) = path.strip_prefix("sys/block/").and_then(|path| path.strip_suffix("/serial")) {
            let known = settings.queues.contains_key(disk);
            return known.then(|| format!("of-{disk}\n")).ok_or_else(|| error(libc::ENOENT));
        }
        if let Some(number) = settings.numbers.get(path) {
            return Ok(format!("{number}\n"));
        }
        if let Some((words, chosen)) = settings.choices.get(path) {
            let words: Vec<String> = words
                .iter()
                .map(|word| if word == chosen { format!("[{word}]") } else { word.clone() })
                .collect();
            return Ok(words.join(" ") + "\n");
        }
        let found = queue_file(path).and_then(|(disk, file)| settings.queues.get(disk)?.read(file));
        found.ok_or_else(|| error(libc::ENOENT))
    }

    fn write(&self, path: &str, value: &str) -> io::Result<()> {
        let mut settings = self.settings.borrow_mut();
        if settings.read_only {
            return Err(error(libc::EROFS));
        }
        if let Some(left) = settings.busy.get_mut(path).filter(|left| **left > 0) {
            *left -= 1;
            return Err(error(libc::EBUSY));
        }
        if settings.numbers.contains_key(path) {
            return settings.write_number(path, value);
        }
        if let Some((words, chosen)) = settings.choices.get_mut(path) {
            let word = value.strip_suffix('\n').unwrap_or(value);
            let known = words.iter().any(|known| known == word);
            if !known {
                return Err(invalid());
            }
            word.clone_into(chosen);
            // As mm/khugepaged.c does on a machine of three zones: raised, and left there.
            if path == format!("{HUGE}/enabled") {
                let kept = settings.numbers.entry(MIN_FREE.to_owned()).or_default();
                *kept = (*kept).max(67_584);
            }
            return Ok(());
        }
        let (disk, file) = queue_file(path).ok_or_else(|| error(libc::ENOENT))?;
        settings.queues.get_mut(disk).ok_or_else(|| error(libc::ENOENT))?.write(file, value)
    }

    fn list(&self, folder: &str) -> Vec<String> {
        let settings = self.settings.borrow();
        if folder == "sys/block" {
            return settings.queues.keys().cloned().collect();
        }
        let own = folder.strip_suffix("/iosched").and_then(|queue| {
            let disk = queue.strip_prefix("sys/block/")?.strip_suffix("/queue")?;
            Some(settings.queues.get(disk)?.own.keys().cloned().collect())
        });
        own.unwrap_or_default()
    }
}
