//! The source of a knob's value, as far as files show it: sysctl.d in reading order, udev rules, tmpfiles.d, tuned's profile, the kernel's
//! command line. A value set by hand leaves no trace.

use serde::Serialize;

use crate::glob::is_meant;
use crate::kernel::Kernel;
use crate::{sysctl_text, udev};

/// A line of a file that sets a knob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// Path of the file, without the leading `/`.
    pub file: String,
    /// Path of the attribute.
    pub path: String,
    /// The value.
    pub value: String,
}

/// Folders of a kind. A file in an earlier folder hides files with the same name in later ones (sysctl.d(5)).
const PLACES: [&str; 5] = ["etc", "run", "usr/local/lib", "usr/lib", "lib"];

/// All lines that set a setting, in the order of their effect: the last one for a path wins. In a container only the kernel's command line
/// belongs to the host; the files belong to an image.
pub fn origins(kernel: &dyn Kernel, in_container: bool) -> Vec<Origin> {
    let mut found = command_line(kernel);
    if in_container {
        return found;
    }
    // Here the first of two lines for one path wins, but in the result the last does.
    let mut tmpfiles = Vec::new();
    for (file, text) in ordered(kernel, "tmpfiles.d", ".conf") {
        let lines = text.lines().filter_map(|line| tmpfiles_line(&file, line));
        tmpfiles.extend(lines.flat_map(|line| each_meant(kernel, line)));
    }
    found.extend(tmpfiles.into_iter().rev());
    let disks = kernel.list("sys/block");
    for (file, text) in ordered(kernel, "udev/rules.d", ".rules") {
        for disk in &disks {
            let origin = |set: udev::Set| Origin {
                file: file.clone(),
                path: format!("sys/block/{disk}/{}", set.attribute),
                value: set.value,
            };
            found.extend(udev::settings(kernel, disk, &text).into_iter().map(origin));
        }
    }
    found.extend(sysctls(kernel, |_| true));
    let profile = tuned(kernel, &disks);
    let is_active = !profile.is_empty();
    found.extend(profile);
    if is_active && tuned_gives_way(kernel) {
        let of_the_machine = |file: &str| ["etc/", "run/"].iter().any(|place| file.starts_with(place));
        found.extend(sysctls(kernel, of_the_machine));
    }
    found
}

/// Whether tuned applies sysctl.d below `/etc` and `/run` over its own sysctls: `reapply_sysctl`, which is on unless its main file disables
/// it.
fn tuned_gives_way(kernel: &dyn Kernel) -> bool {
    let main = kernel.read("etc/tuned/tuned-main.conf").unwrap_or_default();
    let said = main.lines().filter_map(|line| line.trim().split_once('=')).find_map(|(name, value)| {
        (name.trim() == "reapply_sysctl")
            .then(|| matches!(value.trim(), "1" | "True" | "true" | "yes" | "on"))
    });
    said.unwrap_or(true)
}

const SYSCTL_CONF: &str = "etc/sysctl.conf";

/// Whether lines of `/etc/sysctl.conf` are set at boot: by systemd only if a file of sysctl.d is a link to it (Debian 13 has none),
/// otherwise by procps.
pub fn reads_sysctl_conf(kernel: &dyn Kernel) -> bool {
    let has_systemd = ["usr/lib/systemd/systemd-sysctl", "lib/systemd/systemd-sysctl"]
        .iter()
        .any(|program| kernel.exists(program));
    let is_linked = || {
        let own = kernel.read(SYSCTL_CONF).ok();
        // The link has this name wherever it exists; a copy would soon hold other lines.
        own.is_some() && kernel.read("etc/sysctl.d/99-sysctl.conf").ok() == own
    };
    !has_systemd || is_linked()
}

/// Files of sysctl in the order in which they are read at boot.
fn sysctl_files(kernel: &dyn Kernel) -> Vec<(String, String)> {
    let mut files = ordered(kernel, "sysctl.d", ".conf");
    let own = kernel.read(SYSCTL_CONF).ok().filter(|_| reads_sysctl_conf(kernel));
    let Some(own) = own else { return files };
    match files.iter_mut().find(|(file, text)| file.ends_with("/99-sysctl.conf") && *text == own) {
        // Named by the file that people edit.
        Some((file, _)) => SYSCTL_CONF.clone_into(file),
        None => files.push((SYSCTL_CONF.to_owned(), own)),
    }
    files
}

/// Settings of these sysctl files, read as one text: a name wins over a pattern in any file.
fn sysctls(kernel: &dyn Kernel, is_one: impl Fn(&str) -> bool) -> Vec<Origin> {
    let (mut lines, mut files) = (Vec::new(), Vec::new());
    for (file, text) in sysctl_files(kernel).into_iter().filter(|(file, _)| is_one(file)) {
        for line in sysctl_text::lines(&text) {
            lines.push(line);
            files.push(file.clone());
        }
    }
    let origin = |wish: sysctl_text::Wish| {
        Some(Origin { file: files.get(wish.at)?.clone(), path: wish.path, value: wish.value })
    };
    sysctl_text::wishes(kernel, &lines).into_iter().filter_map(origin).collect()
}

/// The effective line for an attribute, if there is one.
pub fn ruling<'a>(origins: &'a [Origin], path: &str) -> Option<&'a Origin> {
    origins.iter().rev().find(|origin| origin.path == path)
}

/// Files of a kind, sorted by name across their folders.
fn ordered(kernel: &dyn Kernel, folder: &str, suffix: &str) -> Vec<(String, String)> {
    let mut files = std::collections::BTreeMap::new();
    for place in PLACES {
        let folder = format!("{place}/{folder}");
        for name in kernel.list(&folder).into_iter().filter(|name| name.ends_with(suffix)) {
            let path = format!("{folder}/{name}");
            files.entry(name).or_insert(path);
        }
    }
    files.into_values().filter_map(|path| kernel.read(&path).ok().map(|text| (path, text))).collect()
}

/// `w /sys/kernel/mm/transparent_hugepage/enabled - - - - never`.
pub(crate) fn tmpfiles_line(file: &str, line: &str) -> Option<Origin> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (kind, path, value) = (words.first()?, words.get(1)?, words.get(6..)?);
    let is_setting = kind.starts_with('w') && (path.starts_with("/sys/") || path.starts_with("/proc/sys/"));
    let path = path.trim_start_matches('/').to_owned();
    (is_setting && !value.is_empty()).then(|| Origin { file: file.to_owned(), path, value: value.join(" ") })
}

/// One line for each path that its pattern matches.
fn each_meant(kernel: &dyn Kernel, line: Origin) -> Vec<Origin> {
    if !sysctl_text::is_pattern(&line.path) {
        return vec![line];
    }
    let paths = sysctl_text::meant(kernel, &line.path);
    paths.into_iter().map(|path| Origin { path, ..line.clone() }).collect()
}

fn command_line(kernel: &dyn Kernel) -> Vec<Origin> {
    let text = kernel.read("proc/cmdline").unwrap_or_default();
    let word = |prefix: &str| {
        let value = text.split_whitespace().find_map(|word| word.strip_prefix(prefix))?;
        Some(Origin {
            file: "proc/cmdline".to_owned(),
            path: "sys/kernel/mm/transparent_hugepage/enabled".to_owned(),
            value: value.to_owned(),
        })
    };
    word("transparent_hugepage=").into_iter().collect()
}

/// Profiles include others; a loop among foreign files ends here.
const DEEPEST: usize = 8;

/// Settings of tuned's active profile and of its included profiles.
fn tuned(kernel: &dyn Kernel, disks: &[String]) -> Vec<Origin> {
    let active = kernel.read("etc/tuned/active_profile").unwrap_or_default();
    let mut names: Vec<String> = active.split_whitespace().map(str::to_owned).collect();
    let mut layers = Vec::new();
    for _ in 0..DEEPEST {
        let mut included = Vec::new();
        for name in names {
            let Some((file, text)) = tuned_text(kernel, &name) else { continue };
            let profile = tuned_profile(&text, disks);
            let origin = |line: TunedLine| Origin { file: file.clone(), path: line.path, value: line.value };
            layers.push(profile.lines.into_iter().map(origin).collect::<Vec<_>>());
            included.extend(profile.includes.into_iter().map(|(_, name)| name));
        }
        let mut seen = std::collections::BTreeSet::new();
        included.retain(|name: &String| seen.insert(name.clone()));
        names = included;
    }
    layers.into_iter().rev().flatten().collect()
}

/// A profile of tuned by its name: file and text.
pub(crate) fn tuned_text(kernel: &dyn Kernel, name: &str) -> Option<(String, String)> {
    let places = ["etc/tuned/profiles", "etc/tuned", "usr/lib/tuned/profiles", "usr/lib/tuned"];
    places.iter().find_map(|place| {
        let file = format!("{place}/{name}/tuned.conf");
        kernel.read(&file).ok().map(|text| (file, text))
    })
}

/// A setting in a profile of tuned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TunedLine {
    /// Line number from 1.
    pub(crate) number: usize,
    pub(crate) path: String,
    pub(crate) value: String,
    /// The form `=>`: a larger value stays.
    pub(crate) at_least: bool,
}

/// A profile of tuned.
#[derive(Debug, Default)]
pub(crate) struct TunedProfile {
    pub(crate) lines: Vec<TunedLine>,
    /// Included profiles, with their line numbers.
    pub(crate) includes: Vec<(usize, String)>,
    /// Lines of the kernel's command line, with their numbers.
    pub(crate) command_lines: Vec<(usize, String)>,
    /// Lines that set something else: line number, and section with name.
    pub(crate) others: Vec<(usize, String)>,
}

/// Settings of a profile, and its included profiles.
pub(crate) fn tuned_profile(text: &str, disks: &[String]) -> TunedProfile {
    let (mut section, mut profile) = (String::new(), TunedProfile::default());
    let kinds = tuned_kinds(text);
    for (at, line) in text.lines().map(str::trim).enumerate() {
        if line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            name.clone_into(&mut section);
            continue;
        }
        let Some((name, value)) = line.split_once('=') else { continue };
        let at_least = value.starts_with('>');
        let (name, value) = (name.trim(), value.trim_start_matches('>').trim());
        let line =
            |path: String, value: &str| TunedLine { number: at + 1, path, value: value.to_owned(), at_least };
        let kind = kinds.get(&section).map_or(section.as_str(), String::as_str);
        let path = match (kind, name) {
            (_, "include") => {
                profile.includes.extend(value.split(',').map(|name| (at + 1, name.trim().to_owned())));
                continue;
            }
            ("bootloader", name) if name.starts_with("cmdline") => {
                profile.command_lines.push((at + 1, value.to_owned()));
                continue;
            }
            ("sysfs", name) if name.starts_with("/sys/") => name.trim_start_matches('/').to_owned(),
            ("sysctl", name) => sysctl_text::path_of(name),
            ("vm", "transparent_hugepages" | "transparent_hugepage") => {
                "sys/kernel/mm/transparent_hugepage/enabled".to_owned()
            }
            (
                "vm",
                name @ ("dirty_ratio" | "dirty_background_ratio" | "dirty_bytes" | "dirty_background_bytes"),
            ) => match value.strip_suffix('%') {
                // `dirty_bytes = 40%` is tuned's notation for a ratio.
                Some(percent) => {
                    let path = format!("proc/sys/vm/{}", name.replace("bytes", "ratio"));
                    profile.lines.push(line(path, percent.trim()));
                    continue;
                }
                None => format!("proc/sys/vm/{name}"),
            },
            ("disk", name @ ("elevator" | "readahead")) => {
                let attribute = if name == "elevator" { "scheduler" } else { "read_ahead_kb" };
                // `4096 s` is sectors of 512 bytes.
                let sectors = value.strip_suffix('s').and_then(|count| count.trim().parse::<u64>().ok());
                let value = sectors.map_or_else(|| value.to_owned(), |count| (count / 2).to_string());
                let of = |disk: &String| line(format!("sys/block/{disk}/queue/{attribute}"), &value);
                profile.lines.extend(tuned_disks(text, &section, disks).iter().map(of));
                continue;
            }
            ("main" | "variables" | "", _) | (_, "type" | "devices" | "enabled" | "replace" | "priority") => {
                continue;
            }
            (_, name) => {
                profile.others.push((at + 1, format!("[{section}] {name}")));
                continue;
            }
        };
        profile.lines.push(line(path, value));
    }
    profile
}

/// Sections with their own names (`[data]` with `type=disk`), and their type.
fn tuned_kinds(text: &str) -> std::collections::BTreeMap<String, String> {
    let (mut section, mut kinds) = (String::new(), std::collections::BTreeMap::new());
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            name.clone_into(&mut section);
        } else if let Some(("type", kind)) = line.split_once('=').map(|(name, kind)| (name.trim(), kind)) {
            kinds.insert(section.clone(), kind.trim().to_owned());
        }
    }
    kinds
}

/// Disks of a profile's section, such as `[disk]`: all except memory and loop devices, or those of `devices=sd*,!sdb`.
fn tuned_disks(text: &str, section: &str, disks: &[String]) -> Vec<String> {
    let usual = |disk: &&String| !["loop", "ram", "zram", "sr"].iter().any(|kind| disk.starts_with(kind));
    let head = format!("[{section}]");
    let lines = text.lines().map(str::trim).skip_while(|line| *line != head).skip(1);
    let own = lines.take_while(|line| !line.starts_with('['));
    let patterns = own.filter_map(|line| line.strip_prefix("devices")?.trim_start().strip_prefix('=')).next();
    let Some(patterns) = patterns else { return disks.iter().filter(usual).cloned().collect() };
    let (not, only): (Vec<&str>, Vec<&str>) =
        patterns.split(',').map(str::trim).partition(|pattern| pattern.starts_with('!'));
    let is_one = |patterns: &[&str], disk: &str| {
        patterns.iter().any(|pattern| is_meant(pattern.trim_start_matches('!'), disk))
    };
    let is_meant = |disk: &&String| (only.is_empty() || is_one(&only, disk)) && !is_one(&not, disk);
    disks.iter().filter(is_meant).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Files;
    use proptest::prelude::*;
    use std::fs;

    #[test]
    fn the_last_one_rules_and_etc_hides_usr() {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("usr/lib/sysctl.d/10-x.conf", "vm.swappiness = 5\n"),
            ("etc/sysctl.d/10-x.conf", "# vm.swappiness = 7\nvm.swappiness=10\n"),
            ("usr/lib/sysctl.d/50-y.conf", "-vm/swappiness = 20\nnet/ipv4/conf/eth0.1/x = 1\n"),
            (
                "etc/udev/rules.d/60-s.rules",
                "ACTION==\"add\", ATTR{queue/rotational}==\"0\", ATTR{queue/scheduler}=\"none\"\n",
            ),
            (
                "etc/tmpfiles.d/thp.conf",
                "w /sys/kernel/mm/transparent_hugepage/defrag - - - - defer+madvise\n",
            ),
            ("etc/tuned/active_profile", "mine\n"),
            ("etc/tuned/tuned-main.conf", "# as it comes: 1\nreapply_sysctl = 0\n"),
            ("etc/tuned/mine/tuned.conf", "[main]\ninclude=latency\n[sysctl]\nvm.dirty_ratio=30\n"),
            (
                "usr/lib/tuned/latency/tuned.conf",
                "[sysctl]\nvm.dirty_ratio=10\n[vm]\ntransparent_hugepages=never\n[disk]\nreadahead=>4096\n",
            ),
            ("proc/cmdline", "quiet transparent_hugepage=always\n"),
            ("sys/block/vda/queue/rotational", "0\n"),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = origins(&Files::new(root.path()), false);
        let says =
            |path: &str| ruling(&found, path).map(|origin| (origin.file.as_str(), origin.value.as_str()));
        assert_eq!(says("proc/sys/vm/swappiness"), Some(("usr/lib/sysctl.d/50-y.conf", "20")));
        assert_eq!(says("sys/block/vda/queue/scheduler"), Some(("etc/udev/rules.d/60-s.rules", "none")));
        assert_eq!(says("sys/block/vda/queue/rotational"), None, "a question is no assignment");
        assert_eq!(says("proc/sys/vm/dirty_ratio"), Some(("etc/tuned/mine/tuned.conf", "30")));
        let huge = "sys/kernel/mm/transparent_hugepage";
        assert_eq!(says(&format!("{huge}/enabled")).unwrap().1, "never", "tuned comes after the boot");
        assert_eq!(says(&format!("{huge}/defrag")).unwrap().1, "defer+madvise");
        assert_eq!(says("sys/block/vda/queue/read_ahead_kb").unwrap().1, "4096");
        assert!(ruling(&found, "proc/sys/net/ipv4/conf/eth0.1/x").is_some());
        // Usually tuned gives way to the files below /etc, and then to those alone.
        fs::remove_file(root.path().join("etc/tuned/tuned-main.conf")).unwrap();
        fs::write(root.path().join("etc/sysctl.d/60-own.conf"), "vm.dirty_ratio = 25\n").unwrap();
        let found = origins(&Files::new(root.path()), false);
        let says =
            |path: &str| ruling(&found, path).map(|origin| (origin.file.as_str(), origin.value.as_str()));
        assert_eq!(says("proc/sys/vm/dirty_ratio"), Some(("etc/sysctl.d/60-own.conf", "25")));
        assert_eq!(says("proc/sys/vm/swappiness"), Some(("etc/sysctl.d/10-x.conf", "10")));
        assert_eq!(says("proc/sys/net/ipv4/conf/eth0.1/x").unwrap().0, "usr/lib/sysctl.d/50-y.conf");
    }

    #[test]
    fn sysctl_conf_is_read_where_something_reads_it() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let files = Files::new(root.path());
        let says =
            || ruling(&origins(&files, false), "proc/sys/vm/swappiness").map(|origin| origin.file.clone());
        write("etc/sysctl.conf", "vm.swappiness = 1\n");
        assert_eq!(says().as_deref(), Some("etc/sysctl.conf"), "procps reads it");
        write("usr/lib/systemd/systemd-sysctl", "");
        assert_eq!(says(), None, "systemd does not");
        std::os::unix::fs::symlink("../sysctl.conf", {
            fs::create_dir_all(root.path().join("etc/sysctl.d")).unwrap();
            root.path().join("etc/sysctl.d/99-sysctl.conf")
        })
        .unwrap();
        assert_eq!(says().as_deref(), Some("etc/sysctl.conf"), "but for a link, as on Ubuntu and RHEL");
        write("etc/sysctl.d/99-zz.conf", "vm.swappiness = 7\n");
        assert_eq!(says().as_deref(), Some("etc/sysctl.d/99-zz.conf"));
        assert!(origins(&files, true).is_empty(), "files of an image are not the host's");
    }

    #[test]
    fn a_profile_of_tuned_names_its_disks() {
        let disks = ["nvme0n1", "sda", "sdb", "zram0"].map(str::to_owned);
        let text = |devices: &str| format!("[disk]\n{devices}readahead=>4096\n[vm]\ndevices=x\n");
        assert_eq!(tuned_disks(&text(""), "disk", &disks), ["nvme0n1", "sda", "sdb"]);
        assert_eq!(tuned_disks(&text("devices=sd*,!sdb\n"), "disk", &disks), ["sda"]);
        assert_eq!(tuned_disks(&text("devices = !sda\n"), "disk", &disks), ["nvme0n1", "sdb", "zram0"]);
    }

    proptest! {
        #[test]
        fn foreign_texts_do_no_harm(text in "\\PC*") {
            let _ = (tmpfiles_line("f", &text), tuned_profile(&text, &["sda".to_owned()]));
        }
    }
}
