//! Files whose lines are settings by themselves: the setting of each line on this host.

use std::collections::BTreeSet;

use super::imagined::Taken;
use super::paths;
use crate::kernel::{Kernel, plain_value};
use crate::knob::of_path;
use crate::origin::{tmpfiles_line, tuned_profile, tuned_text};
use crate::sysctl_text;
use crate::tools::version_number;
use crate::udev::{self, Deed};

/// Stands in a text for a value that is known only at run time.
pub(super) const UNKNOWN: char = '\0';
/// The same as a text.
pub(super) const UNKNOWN_TEXT: &str = "\0";

/// The forms of such files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// sysctl.d and sysctl.conf.
    Sysctl,
    /// Rules of udev.
    Rules,
    Tmpfiles,
    /// A profile of tuned.
    Tuned,
    /// `/etc/default/grub`.
    Grub,
    /// A unit of systemd.
    Unit,
}

impl Form {
    /// The form of the file at a path without its leading `/`; `None` for other files.
    pub(super) fn of_path(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or_default();
        let is_in = |folder: &str| path.contains(&format!("{folder}/"));
        if name == "sysctl.conf" || (is_in("sysctl.d") && name.ends_with(".conf")) {
            Some(Self::Sysctl)
        } else if is_in("rules.d") && name.ends_with(".rules") {
            Some(Self::Rules)
        } else if is_in("tmpfiles.d") && name.ends_with(".conf") {
            Some(Self::Tmpfiles)
        } else if is_in("tuned") && name.ends_with(".conf") && name != "tuned-main.conf" {
            Some(Self::Tuned)
        } else if path == "etc/default/grub" || is_in("default/grub.d") || path == "etc/kernel/cmdline" {
            Some(Self::Grub)
        } else if is_in("systemd") && [".service", ".timer", ".path"].iter().any(|end| name.ends_with(end)) {
            Some(Self::Unit)
        } else {
            None
        }
    }

    /// Place of a file with this form.
    pub(super) fn usual_place(self, name: &str) -> String {
        let named =
            |end: &str, other: &str| if name.contains(end) { name.to_owned() } else { other.to_owned() };
        match self {
            Self::Sysctl => format!("etc/sysctl.d/{}", named(".conf", "99-guide.conf")),
            Self::Rules => format!("etc/udev/rules.d/{}", named(".rules", "99-guide.rules")),
            Self::Tmpfiles => format!("etc/tmpfiles.d/{}", named(".conf", "99-guide.conf")),
            Self::Tuned => "etc/tuned/of-the-text/tuned.conf".to_owned(),
            Self::Grub => "etc/default/grub".to_owned(),
            Self::Unit => format!("etc/systemd/system/{name}"),
        }
    }
}

/// `vm.swappiness = 1`, `-net.ipv4.conf.all.rp_filter`: a name with a dot or a slash, and no shell syntax.
pub(super) fn is_setting_line(line: &str) -> bool {
    sysctl_text::line(1, line).is_some_and(|line| {
        line.path.trim_start_matches("proc/sys/").contains('/') && !line.path.contains(':')
    })
}

/// Meaning of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stated {
    /// Line number from 1.
    pub(super) line: usize,
    /// Whether it belongs to the kernel's command line, which only a boot reads.
    pub(super) at_boot: bool,
    pub(super) what: Saying,
}

impl Stated {
    fn sets(&self, wanted: &str) -> bool {
        matches!(&self.what, Saying::Set { path, .. } if path == wanted)
    }

    fn new(line: usize, what: Saying) -> Self {
        Self { line, at_boot: false, what }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Saying {
    /// A value of an attribute. `taken` is the result if the kernel does not decide.
    Set { path: String, value: String, taken: Option<Taken> },
    /// A command, for a disk.
    Command(String),
    /// A setting whose result is unknown, and the reason.
    Unclear { name: Option<String>, why: String },
}

/// A value that another program fills in before the file is read.
fn is_template(value: &str) -> bool {
    ["{{", "${", "<%", "$("].iter().any(|mark| value.contains(mark))
        || value.contains(UNKNOWN)
        || (value.starts_with('<') && value.ends_with('>'))
}

fn set(line: usize, path: String, value: &str) -> Stated {
    let what = if is_template(value) || is_template(&path) {
        Saying::Unclear {
            name: Some(name_of(&path).0),
            why: format!("another program fills in the value `{}`", value.replace(UNKNOWN, "...")),
        }
    } else {
        Saying::Set { path, value: value.to_owned(), taken: None }
    };
    Stated::new(line, what)
}

fn elsewhere(line: usize, path: String, value: &str, why: String) -> Stated {
    let what = Saying::Set { path, value: value.to_owned(), taken: Some(Taken::Elsewhere(why)) };
    Stated::new(line, what)
}

/// Settings of a text's lines, in order.
pub(super) fn stated(kernel: &dyn Kernel, form: Form, text: &str) -> Vec<Stated> {
    match form {
        Form::Sysctl => sysctls(kernel, text),
        Form::Rules => rules(kernel, text),
        Form::Tmpfiles => tmpfiles(kernel, text),
        Form::Tuned => tuned(kernel, text),
        Form::Grub => grub(kernel, text),
        Form::Unit => Vec::new(),
    }
}

fn sysctls(kernel: &dyn Kernel, text: &str) -> Vec<Stated> {
    let lines = sysctl_text::lines(text);
    let wishes = sysctl_text::wishes(kernel, &lines);
    let number = |wish: &sysctl_text::Wish| lines.get(wish.at).map_or(0, |line| line.number);
    let mut found = Vec::new();
    for (at, wish) in wishes.iter().enumerate() {
        let later = wishes.iter().skip(at + 1).rfind(|later| later.path == wish.path);
        found.push(match later {
            Some(later) => {
                let why = format!("line {} of the same file sets it to {}", number(later), later.value);
                elsewhere(number(wish), wish.path.clone(), &wish.value, why)
            }
            None => set(number(wish), wish.path.clone(), &wish.value),
        });
    }
    for line in lines.iter().filter(|line| sysctl_text::is_pattern(&line.path)) {
        let is_meant = found.iter().any(|stated| stated.line == line.number);
        if let (false, Some(value)) = (is_meant, &line.value) {
            let why = "nothing on this host matches this pattern".to_owned();
            found.push(elsewhere(line.number, line.path.clone(), value, why));
        }
    }
    found.sort_by_key(|stated| stated.line);
    found
}

fn tmpfiles(kernel: &dyn Kernel, text: &str) -> Vec<Stated> {
    let mut found: Vec<Stated> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let Some(origin) = tmpfiles_line("", line) else { continue };
        let is_pattern = sysctl_text::is_pattern(&origin.path);
        let path = paths::canonical(kernel, &origin.path);
        let meant = if is_pattern { sysctl_text::meant(kernel, &path) } else { vec![path.clone()] };
        if meant.is_empty() {
            let why = "nothing on this host matches this pattern".to_owned();
            found.push(elsewhere(at + 1, path, &origin.value, why));
        }
        for path in meant {
            // The first of two lines for one path wins (tmpfiles.d(5)).
            let earlier = found.iter().find(|stated| stated.sets(&path)).map(|stated| stated.line);
            found.push(match earlier {
                Some(earlier) => {
                    let why = format!("line {earlier} of the same file comes first and wins");
                    elsewhere(at + 1, path, &origin.value, why)
                }
                None => set(at + 1, path, &origin.value),
            });
        }
    }
    found
}

fn tuned(kernel: &dyn Kernel, text: &str) -> Vec<Stated> {
    tuned_layer(kernel, text, &mut BTreeSet::new())
}

/// No real profile has a longer chain.
const MOST_PROFILES: usize = 50;

/// `read`: the profiles that are already included, each once.
fn tuned_layer(kernel: &dyn Kernel, text: &str, read: &mut BTreeSet<String>) -> Vec<Stated> {
    let profile = tuned_profile(text, &kernel.list("sys/block"));
    let mut found = Vec::new();
    for (number, name) in &profile.includes {
        if read.len() >= MOST_PROFILES || !read.insert(name.clone()) {
            continue;
        }
        match tuned_text(kernel, name) {
            Some((_, text)) => {
                let included = tuned_layer(kernel, &text, read);
                let own = |said: &Stated| profile.lines.iter().any(|line| said.sets(&line.path));
                found.extend(
                    included
                        .into_iter()
                        .filter(|said| !own(said))
                        .map(|said| Stated { line: *number, ..said }),
                );
            }
            None => {
                let why =
                    format!("the included profile {name} is not on this host: pass its tuned.conf, too");
                found.push(Stated::new(*number, Saying::Unclear { name: None, why }));
            }
        }
    }
    for line in profile.lines {
        let paths = if sysctl_text::is_pattern(&line.path) {
            sysctl_text::meant(kernel, &line.path)
        } else {
            vec![paths::canonical(kernel, &line.path)]
        };
        for path in paths {
            let now = kernel.read(&path).ok().and_then(|text| plain_value(&text).parse::<u64>().ok());
            let stays =
                line.at_least && now.zip(line.value.parse().ok()).is_some_and(|(now, least)| now >= least);
            found.push(if stays {
                let why = format!("`=>` keeps larger values, and the value is {}", now.unwrap_or_default());
                elsewhere(line.number, path, &line.value, why)
            } else {
                set(line.number, path, &line.value)
            });
        }
    }
    for (number, words) in profile.command_lines {
        found.extend(command_line(kernel, number, &words));
    }
    for (number, told) in profile.others {
        let why = format!("Hone does not follow `{told}` of tuned");
        found.push(Stated::new(number, Saying::Unclear { name: None, why }));
    }
    found.sort_by_key(|stated| stated.line);
    found
}

/// `GRUB_CMDLINE_LINUX="..."`, or the line itself.
fn grub(kernel: &dyn Kernel, text: &str) -> Vec<Stated> {
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with('#')) {
        let words = match line.trim().trim_start_matches("export ").split_once('=') {
            Some((name, words)) if name.starts_with("GRUB_") => {
                if !name.starts_with("GRUB_CMDLINE") {
                    continue;
                }
                words.trim_matches(['"', '\''])
            }
            _ => line,
        };
        found.extend(command_line(kernel, at + 1, words));
    }
    found
}

/// Words of the kernel's command line that are settings.
pub(super) fn command_line(kernel: &dyn Kernel, line: usize, words: &str) -> Vec<Stated> {
    let of = |word: &str| -> Vec<Stated> {
        let Some((name, value)) = word.split_once('=') else { return Vec::new() };
        if let Some(sysctl) = name.strip_prefix("sysctl.") {
            return vec![set(line, sysctl_text::path_of(sysctl), value)];
        }
        match name {
            "transparent_hugepage" => {
                vec![set(line, "sys/kernel/mm/transparent_hugepage/enabled".to_owned(), value)]
            }
            "elevator" if !takes_an_elevator(kernel) => {
                let why = "kernels since 5.0 ignore elevator=: set the scheduler with a udev rule";
                vec![elsewhere(line, format!("sys/block/{ANY}/queue/scheduler"), value, why.to_owned())]
            }
            "elevator" => {
                let of = |disk: String| set(line, format!("sys/block/{disk}/queue/scheduler"), value);
                kernel.list("sys/block").into_iter().map(of).collect()
            }
            _ => Vec::new(),
        }
    };
    words.split_whitespace().flat_map(of).map(|said| Stated { at_boot: true, ..said }).collect()
}

/// The kernel chose schedulers by its command line only until 5.0 removed the single-queue block layer (block/elevator.c).
fn takes_an_elevator(kernel: &dyn Kernel) -> bool {
    let release = kernel.read("proc/sys/kernel/osrelease").unwrap_or_default();
    version_number(&release).is_some_and(|version| version < (5, 0))
}

/// Stands for a device if none is meant.
pub(super) const ANY: &str = "-";

/// A device that rules may match.
struct Device {
    name: String,
    folder: String,
    is_disk: bool,
}

fn devices(kernel: &dyn Kernel) -> Vec<Device> {
    let mut found = Vec::new();
    for disk in kernel.list("sys/block") {
        let folder = format!("sys/block/{disk}");
        let names = kernel.list(&folder);
        let parts = names.into_iter().filter(|name| kernel.exists(&format!("{folder}/{name}/partition")));
        let parts: Vec<Device> =
            parts.map(|name| Device { folder: format!("{folder}/{name}"), name, is_disk: false }).collect();
        found.push(Device { name: disk, folder, is_disk: true });
        found.extend(parts);
    }
    found
}

fn rules(kernel: &dyn Kernel, text: &str) -> Vec<Stated> {
    let devices = devices(kernel);
    let done: Vec<(&Device, udev::Done)> = devices
        .iter()
        .flat_map(|device| {
            udev::deeds(kernel, &device.folder, text).into_iter().map(move |done| (device, done))
        })
        .collect();
    let mut found = Vec::new();
    for doing in udev::doing(text) {
        for deed in &doing.deeds {
            let of = |(_, done): &&(&Device, udev::Done)| done.line == doing.line && done.deed == *deed;
            let meant: Vec<&(&Device, udev::Done)> = done.iter().filter(of).collect();
            found.extend(of_deed(&devices, &doing, deed, &meant));
        }
    }
    found
}

/// Effect of a rule's action on the devices that the rule matches.
fn of_deed(
    devices: &[Device],
    doing: &udev::Doing,
    deed: &Deed,
    meant: &[&(&Device, udev::Done)],
) -> Vec<Stated> {
    let line = doing.line;
    let unclear =
        |name: String, why: String| vec![Stated::new(line, Saying::Unclear { name: Some(name), why })];
    let (attribute, value) = match deed {
        Deed::Sysctl { path, value } => return vec![set(line, path.clone(), value)],
        Deed::Command(command) => {
            let is_about =
                ["/sys/", "/proc/sys", "sysctl", "blockdev"].iter().any(|word| command.contains(word));
            let disks = meant.iter().filter(|(device, _)| device.is_disk && is_about);
            let of = |(device, _): &&(&Device, udev::Done)| {
                let text = ["$kernel", "%k", "$name"]
                    .iter()
                    .fold(command.clone(), |text, mark| text.replace(mark, &device.name));
                Stated::new(line, Saying::Command(text))
            };
            return disks.map(of).collect();
        }
        Deed::Attribute { attribute, value } => (attribute, value),
    };
    if [attribute, value, &doing.conditions].iter().any(|text| text.contains(UNKNOWN)) {
        let why = "Hone can't determine this rule's value without running the script".to_owned();
        let name = Some(attribute.replace('/', ".")).filter(|name| !name.contains(UNKNOWN));
        return vec![Stated::new(line, Saying::Unclear { name, why })];
    }
    if !attribute.starts_with("queue/") {
        return unclear(attribute.clone(), "Hone follows only attributes below queue/".to_owned());
    }
    let name = attribute.replace('/', ".");
    if udev::is_put_in(value) {
        return unclear(name, format!("udev fills in the value `{value}`"));
    }
    let path = |device: &str| format!("sys/block/{device}/{attribute}");
    let (sure, unsure): (Vec<_>, Vec<_>) =
        meant.iter().copied().partition(|(_, done)| done.undecided.is_empty());
    let disks: Vec<&str> =
        sure.iter().filter(|(device, _)| device.is_disk).map(|(device, _)| device.name.as_str()).collect();
    if !disks.is_empty() {
        return disks.into_iter().map(|disk| set(line, path(disk), value)).collect();
    }
    if let Some((device, done)) = unsure.iter().find(|(device, _)| device.is_disk) {
        let asked = done.undecided.join(" and ");
        return unclear(name, format!("only udev knows whether {asked} holds for {}", device.name));
    }
    match sure.first() {
        // The kernel's own words.
        Some((device, _)) => vec![set(line, path(&device.name), value)],
        None => vec![elsewhere(line, path(ANY), value, no_device(devices, &doing.conditions))],
    }
}

fn no_device(devices: &[Device], conditions: &str) -> String {
    if conditions.contains("mpath") {
        return format!("no disk on this host is a multipath device ({conditions})");
    }
    // `nvme0n1p1` of a disk without such a partition here: on hosts that have it, the rule has no more effect.
    let named =
        conditions.split("KERNEL==\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default();
    let is_part_of = |disk: &&Device| {
        let number = named.strip_prefix(disk.name.as_str()).map(|rest| rest.trim_start_matches('p'));
        number.is_some_and(|number| !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()))
    };
    match devices.iter().filter(|device| device.is_disk).find(is_part_of) {
        Some(disk) => {
            format!("{named} is a partition of {} and has no queue: name the disk", disk.name)
        }
        None => format!("no disk on this host matches ({conditions})"),
    }
}

/// Displayed name of a setting, and its device.
pub(super) fn name_of(path: &str) -> (String, Option<String>) {
    if let Some(place) = of_path(path) {
        return (place.knob.name.to_owned(), place.device.filter(|device| device != ANY));
    }
    if let Some((device, file)) = path.strip_prefix("sys/block/").and_then(|path| path.split_once('/')) {
        return (file.replace('/', "."), Some(device.to_owned()).filter(|device| device != ANY));
    }
    match path.strip_prefix("proc/sys/") {
        Some(name) => (name.replace('/', "."), None),
        None => (format!("/{path}"), None),
    }
}

/// Scripts that a boot runs.
pub(super) fn is_boot_script(path: &str) -> bool {
    matches!(path, "etc/rc.local" | "etc/rc.d/rc.local")
        || ["etc/init.d/", "etc/rc.d/init.d/", "etc/local.d/"].iter().any(|folder| path.starts_with(folder))
}

/// Whether a written file affects the next boot.
pub(super) fn is_for_a_boot(path: &str) -> bool {
    Form::of_path(path).is_some() || is_boot_script(path)
}

/// Commands that a unit runs when it starts, each with its line, as a shell would read them. A backslash at a line's end joins lines
/// (systemd.syntax(7)), and `$$` is `$`.
pub(super) fn unit_commands(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((at, line)) = lines.next() {
        let Some((key, value)) = line.trim().split_once('=') else { continue };
        let mut command = value.trim().to_owned();
        while command.ends_with('\\') {
            command.pop();
            command += lines.next().map_or("", |(_, line)| line.trim_end());
        }
        if matches!(key.trim_end(), "ExecStartPre" | "ExecStart" | "ExecStartPost") {
            let command = command.trim_start_matches(['-', '+', '!', '@', ':']).replace("$$", "$");
            found.push((at + 1, command));
        }
    }
    found
}

/// Values of a key in a unit (`After=a b`), with their line numbers; an empty one clears the earlier ones.
pub(super) fn unit_values(text: &str, key: &str) -> Vec<String> {
    let mut values = Vec::new();
    for line in text.lines().map(str::trim) {
        let Some(value) = line.strip_prefix(key).and_then(|rest| rest.trim_start().strip_prefix('=')) else {
            continue;
        };
        if value.trim().is_empty() {
            values.clear();
        }
        values.push(value.trim().to_owned());
    }
    values
}
