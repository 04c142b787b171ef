//! A simulated host: writes are only stored, and the kernel's rules determine their effect.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;

use crate::kernel::{Kernel, choices, plain_value};
use crate::knob::{DeviceKnob, Form, MOST_REQUESTS_OF_A_SCHEDULER, of_path, rival};
use crate::origin::{Origin, origins};

/// The real host, and the simulated differences.
pub(super) struct Imagined<'a> {
    real: &'a dyn Kernel,
    page_kib: u64,
    /// The given texts, by name.
    texts: &'a [(String, String)],
    /// Texts by path; `None` for deleted files.
    changed: RefCell<BTreeMap<String, Option<String>>>,
}

/// Files that a foreign text may read from the host: settings, and settings files. Other files may contain secrets, or have no end.
fn is_readable(path: &str) -> bool {
    const ATTRIBUTES: [&str; 7] = [
        "proc/sys/",
        "sys/block/",
        "sys/class/net/",
        "sys/kernel/mm/",
        "sys/devices/system/",
        "proc/cmdline",
        "proc/meminfo",
    ];
    const OF_SETTINGS: [&str; 6] = ["sysctl.d", "sysctl.conf", "udev", "tmpfiles.d", "tuned", "systemd"];
    let is_of_settings = || {
        ["etc/", "run/", "usr/", "lib/"].iter().any(|place| path.starts_with(place))
            && path.split('/').any(|part| OF_SETTINGS.contains(&part))
    };
    const COMMAND_LINES: [&str; 2] = ["etc/default/grub", "etc/kernel/cmdline"];
    ATTRIBUTES.iter().any(|place| path.starts_with(place))
        || COMMAND_LINES.contains(&path)
        || is_of_settings()
}

/// Smallest and largest accepted values of sysctls that are not knobs of Hone's (Linux 6.x).
const BOUNDS: [(&str, i64, i64); 6] = [
    // kernel/pid.c: pid_max_min, pid_max_max.
    ("proc/sys/kernel/pid_max", 301, 4_194_304),
    // kernel/events/core.c.
    ("proc/sys/kernel/perf_cpu_time_max_percent", 0, 100),
    // mm/util.c.
    ("proc/sys/vm/overcommit_memory", 0, 2),
    // mm/oom_kill.c.
    ("proc/sys/vm/panic_on_oom", 0, 2),
    // mm/compaction.c.
    ("proc/sys/vm/compaction_proactiveness", 0, 100),
    // net/ipv4/sysctl_net_ipv4.c.
    ("proc/sys/net/ipv4/tcp_tw_reuse", 0, 2),
];

/// Why the kernel would reject a number; `None` if it would not.
fn out_of_bounds(path: &str, number: &str) -> Option<String> {
    let (_, least, most) = BOUNDS.iter().find(|(bound, ..)| *bound == path)?;
    let number = number.parse::<i64>().ok()?;
    (!(*least..=*most).contains(&number))
        .then(|| format!("{number} is not in the range {least} to {most} (EINVAL)"))
}

/// The kernel's result of a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Taken {
    /// As requested.
    Whole,
    /// Silently something else.
    Otherwise(String),
    /// No change, with the reason.
    Refused(String),
    /// A write that does not reach this host's kernel, with the reason.
    Elsewhere(String),
}

const LINK: &str = "etc/sysctl.d/99-sysctl.conf";
const LINKED: &str = "etc/sysctl.conf";

/// Kernel settings, as opposed to files.
pub(super) fn is_attribute(path: &str) -> bool {
    path.starts_with("proc/sys/") || path.starts_with("sys/")
}

impl<'a> Imagined<'a> {
    pub(super) fn new(real: &'a dyn Kernel, page_kib: u64, texts: &'a [(String, String)]) -> Self {
        Self { real, page_kib, texts, changed: RefCell::default() }
    }

    /// A given text with the name of this file, in any folder.
    pub(super) fn given(&self, file: &str) -> Option<&'a (String, String)> {
        let name = |path: &'a str| path.rsplit('/').next().unwrap_or_default();
        let wanted = file.rsplit('/').next().filter(|wanted| !wanted.is_empty())?;
        self.texts.iter().find(|(given, _)| name(given) == wanted)
    }

    /// The host after its next boot: its files stay, kernel values are gone.
    pub(super) fn booted(&self) -> Self {
        let mut changed = self.changed.borrow().clone();
        changed.retain(|path, _| !is_attribute(path));
        Self { changed: RefCell::new(changed), ..*self }
    }

    /// Writes a file that is not an attribute; with `append` at its end.
    pub(super) fn put(&self, path: &str, text: &str, append: bool) {
        let there = if append { self.read(path).unwrap_or_default() } else { String::new() };
        self.set(path, there + text);
    }

    /// Settings in files that the real host's files do not contain.
    pub(super) fn new_origins(&self) -> Vec<Origin> {
        let known = origins(self.real, false);
        origins(self, false).into_iter().filter(|origin| !known.contains(origin)).collect()
    }

    /// Whether it is known if an attribute exists. A recorded host may lack whole folders.
    pub(super) fn is_known(&self, path: &str) -> bool {
        const CARDS: &str = "sys/class/net";
        is_readable(path) && (!path.starts_with(CARDS) || self.real.exists(CARDS))
    }

    /// Whether the texts have written this file.
    pub(super) fn is_written(&self, path: &str) -> bool {
        matches!(self.changed.borrow().get(path), Some(Some(_)))
    }

    pub(super) fn delete(&self, path: &str) {
        self.changed.borrow_mut().insert(path.to_owned(), None);
    }

    fn is_linked(&self) -> bool {
        self.real.read(LINK).is_ok_and(|text| self.real.read(LINKED).is_ok_and(|own| own == text))
    }

    fn set(&self, path: &str, text: String) {
        self.changed.borrow_mut().insert(path.to_owned(), Some(text));
    }

    /// The kernel's result of a write, which is stored if the kernel accepts it.
    pub(super) fn tell(&self, path: &str, value: &str) -> Taken {
        let text = match self.read(path) {
            Ok(text) => text,
            Err(_) => return Taken::Refused(self.why_absent(path)),
        };
        if !choices(&text).is_empty() || path.ends_with("/queue/scheduler") {
            self.choose(path, &text, value)
        } else {
            self.number(path, &text, value)
        }
    }

    fn why_absent(&self, path: &str) -> String {
        let device =
            path.strip_prefix("sys/block/").and_then(|path| path.split('/').next()).unwrap_or_default();
        let disks = self.real.list("sys/block");
        let is_part = |disk: &String| self.real.exists(&format!("sys/block/{disk}/{device}/partition"));
        if !device.is_empty() && disks.iter().any(is_part) {
            return format!("{device} is a partition and has no queue: name the disk");
        }
        "this host has no such file".to_owned()
    }

    fn choose(&self, path: &str, text: &str, value: &str) -> Taken {
        let is_scheduler = path.ends_with("/queue/scheduler");
        let word = value.strip_suffix('\n').unwrap_or(value);
        let word = if is_scheduler { word.trim() } else { word };
        let offered: Vec<&str> = text.split_whitespace().map(|word| word.trim_matches(['[', ']'])).collect();
        if !offered.contains(&word) {
            return Taken::Refused(format!("`{word}` is not one of {} (EINVAL)", offered.join(", ")));
        }
        let was = plain_value(text);
        let marked: Vec<String> = offered
            .iter()
            .map(|other| if *other == word { format!("[{other}]") } else { (*other).to_owned() })
            .collect();
        self.set(path, marked.join(" ") + "\n");
        if is_scheduler && was != word {
            self.reset_queue(path, word);
        }
        Taken::Whole
    }

    fn tags(&self, queue: &str) -> Option<u64> {
        let device = queue.strip_suffix("/queue")?;
        self.read(&format!("{device}/mq/0/nr_tags")).ok()?.trim().parse().ok()
    }

    /// A new scheduler resets the number of requests (block/elevator.c, block/blk-mq-sched.c).
    fn reset_queue(&self, scheduler: &str, word: &str) {
        const OF_A_SCHEDULER: u64 = 128;
        let Some(queue) = scheduler.strip_suffix("/scheduler") else { return };
        let Some(tags) = self.tags(queue) else { return };
        let requests = if word == "none" { tags } else { 2 * tags.min(OF_A_SCHEDULER) };
        self.set(&format!("{queue}/nr_requests"), format!("{requests}\n"));
    }

    fn number(&self, path: &str, text: &str, value: &str) -> Taken {
        let plain = value.trim_end_matches('\n');
        if plain.trim().is_empty() {
            return Taken::Otherwise(plain_value(text));
        }
        let is_sysctl = path.starts_with("proc/sys/");
        let was_number = plain_value(text).parse::<i64>().is_ok();
        let spoken = plain.split(" #").next().unwrap_or_default().trim();
        // A sysctl with one number reads it and ignores text after a space. A sysctl with several numbers, or with a text, reads
        // everything. Attributes of /sys accept everything or nothing.
        let head = match (is_sysctl, was_number) {
            (true, true) => spoken.split_whitespace().next().unwrap_or_default(),
            (true, false) => spoken,
            (false, _) => plain,
        };
        let place = of_path(path);
        if was_number && head.parse::<i64>().is_err() {
            return Taken::Refused(format!("`{plain}` is not a number (EINVAL)"));
        }
        if let Some(why) = out_of_bounds(path, head) {
            return Taken::Refused(why);
        }
        let taken = match &place {
            Some(place) => match self.known(place, path, head, text) {
                Ok(taken) => taken,
                Err(why) => return Taken::Refused(format!("{why} (EINVAL)")),
            },
            None if was_number => head.to_owned(),
            None => plain.to_owned(),
        };
        self.set(path, format!("{taken}\n"));
        if let Some(rival) = rival(path) {
            self.set(&rival, "0\n".to_owned());
        }
        if taken != head {
            Taken::Otherwise(taken)
        } else if is_sysctl && head != plain.trim() {
            Taken::Otherwise(format!(
                "{taken}, and ignores `{}`",
                plain.trim().trim_start_matches(head).trim()
            ))
        } else {
            Taken::Whole
        }
    }

    fn known(&self, place: &DeviceKnob, path: &str, head: &str, text: &str) -> Result<String, String> {
        if !matches!(place.knob.form, Form::Number { .. }) {
            return Ok(head.to_owned());
        }
        let taken = place.knob.taken(head, text, self.page_kib)?;
        let (Some(queue), Ok(requests)) = (path.strip_suffix("/nr_requests"), taken.parse::<u64>()) else {
            return Ok(taken);
        };
        let is_none = self.read(&format!("{queue}/scheduler")).is_ok_and(|text| plain_value(&text) == "none");
        let most = if is_none { self.tags(queue) } else { Some(MOST_REQUESTS_OF_A_SCHEDULER) };
        match most.filter(|most| requests > *most) {
            Some(most) if is_none => {
                Err(format!("without a scheduler the device has {most} requests at most"))
            }
            Some(most) => Err(format!("a scheduler has {most} requests at most")),
            None => Ok(taken),
        }
    }
}

impl Kernel for Imagined<'_> {
    fn read(&self, path: &str) -> io::Result<String> {
        match self.changed.borrow().get(path) {
            Some(Some(text)) => Ok(text.clone()),
            Some(None) => Err(io::ErrorKind::NotFound.into()),
            // The link to the file that people edit.
            None if path == LINK && self.is_linked() => match self.changed.borrow().get(LINKED) {
                Some(Some(text)) => Ok(text.clone()),
                Some(None) => Err(io::ErrorKind::NotFound.into()),
                None => self.real.read(path),
            },
            None if is_readable(path) => self.real.read(path),
            None => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }

    fn write(&self, path: &str, value: &str) -> io::Result<()> {
        match self.tell(path, value) {
            Taken::Refused(why) => Err(io::Error::new(io::ErrorKind::InvalidInput, why)),
            Taken::Whole | Taken::Otherwise(_) | Taken::Elsewhere(_) => Ok(()),
        }
    }

    fn list(&self, folder: &str) -> Vec<String> {
        let mut names: std::collections::BTreeSet<String> = self.real.list(folder).into_iter().collect();
        let above = format!("{folder}/");
        for (path, text) in self.changed.borrow().iter() {
            let Some(name) = path.strip_prefix(&above).and_then(|below| below.split('/').next()) else {
                continue;
            };
            if text.is_some() {
                names.insert(name.to_owned());
            } else if path.len() == above.len() + name.len() {
                names.remove(name);
            }
        }
        names.into_iter().collect()
    }

    fn exists(&self, path: &str) -> bool {
        match self.changed.borrow().get(path) {
            Some(text) => text.is_some(),
            None => self.real.exists(path) || !self.list(path).is_empty(),
        }
    }
}
