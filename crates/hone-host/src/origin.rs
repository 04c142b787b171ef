//! Who set a knob, as far as files say: sysctl.d in the order in which it is read, rules of udev, tmpfiles.d, the profile of
//! tuned, the kernel's command line. What was written by hand left no trace.

use serde::Serialize;

use crate::kernel::Kernel;

/// A line of a file that sets a knob.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Origin {
    /// Where, without the leading `/`.
    pub file: String,
    /// The attribute, or a pattern's last part of it (`queue/scheduler`).
    pub path: String,
    /// The value.
    pub value: String,
}

/// Folders of a kind, the first of which hides files of the same name in the later ones (sysctl.d(5)).
const PLACES: [&str; 5] = ["etc", "run", "usr/local/lib", "usr/lib", "lib"];

/// Everything that says something of a setting, in the order in which it is applied: the last one of a path rules.
pub fn origins(kernel: &dyn Kernel) -> Vec<Origin> {
    let mut found = command_line(kernel);
    for (file, text) in ordered(kernel, "tmpfiles.d", ".conf") {
        found.extend(text.lines().filter_map(|line| tmpfiles_line(&file, line)));
    }
    for (file, text) in ordered(kernel, "udev/rules.d", ".rules") {
        found.extend(text.lines().flat_map(|line| udev_line(&file, line)));
    }
    let sysctl = ordered(kernel, "sysctl.d", ".conf");
    let read_by_procps = kernel.read("etc/sysctl.conf").ok().map(|text| ("etc/sysctl.conf".to_owned(), text));
    for (file, text) in sysctl.into_iter().chain(read_by_procps) {
        found.extend(text.lines().filter_map(|line| sysctl_line(&file, line)));
    }
    found.extend(tuned(kernel));
    found
}

/// The line that rules an attribute, if any does.
pub fn of<'a>(origins: &'a [Origin], path: &str) -> Option<&'a Origin> {
    let is_it = |origin: &&Origin| {
        origin.path == path || (origin.path.starts_with("queue/") && path.ends_with(&origin.path))
    };
    origins.iter().rev().find(is_it)
}

/// Files of a kind by their names, whatever folder they are in.
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

/// `vm.swappiness = 1`, `-vm/swappiness=1`; dots and slashes are the same unless a slash comes first (sysctl.d(5)).
fn sysctl_line(file: &str, line: &str) -> Option<Origin> {
    let line = line.trim();
    if line.starts_with(['#', ';']) {
        return None;
    }
    let (name, value) = line.split_once('=')?;
    let name = name.trim().trim_start_matches('-').trim();
    let slashes = name.find('/').is_some_and(|slash| name.find('.').is_none_or(|dot| slash < dot));
    let path = if slashes { name.to_owned() } else { name.replace('.', "/") };
    Some(Origin { file: file.to_owned(), path: format!("proc/sys/{path}"), value: value.trim().to_owned() })
}

/// `w /sys/kernel/mm/transparent_hugepage/enabled - - - - never`.
fn tmpfiles_line(file: &str, line: &str) -> Option<Origin> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (kind, path, value) = (words.first()?, words.get(1)?, words.get(6..)?);
    let is_setting = kind.starts_with('w') && (path.starts_with("/sys/") || path.starts_with("/proc/sys/"));
    let path = path.trim_start_matches('/').to_owned();
    (is_setting && !value.is_empty()).then(|| Origin { file: file.to_owned(), path, value: value.join(" ") })
}

/// Assignments `ATTR{queue/scheduler}="none"`; which disks a rule means is not worked out.
fn udev_line(file: &str, line: &str) -> Vec<Origin> {
    if line.trim_start().starts_with('#') {
        return Vec::new();
    }
    let assignment = |piece: &str| {
        let (name, rest) = piece.split_once('}')?;
        let value = rest.strip_prefix("=\"")?.split('"').next()?;
        name.starts_with("queue/").then(|| Origin {
            file: file.to_owned(),
            path: name.to_owned(),
            value: value.to_owned(),
        })
    };
    line.split("ATTR{").skip(1).filter_map(assignment).collect()
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

/// Settings of tuned's active profile and of those that it includes.
fn tuned(kernel: &dyn Kernel) -> Vec<Origin> {
    let active = kernel.read("etc/tuned/active_profile").unwrap_or_default();
    let mut names: Vec<String> = active.split_whitespace().map(str::to_owned).collect();
    let mut layers = Vec::new();
    for _ in 0..DEEPEST {
        let mut included = Vec::new();
        for name in names {
            let places = ["etc/tuned/profiles", "etc/tuned", "usr/lib/tuned/profiles", "usr/lib/tuned"];
            let read = |place: &&str| {
                let file = format!("{place}/{name}/tuned.conf");
                kernel.read(&file).ok().map(|text| (file, text))
            };
            let Some((file, text)) = places.iter().find_map(read) else { continue };
            let (settings, includes) = tuned_profile(&file, &text);
            layers.push(settings);
            included.extend(includes);
        }
        names = included;
    }
    layers.into_iter().rev().flatten().collect()
}

/// Settings of a profile, and the profiles that it includes.
fn tuned_profile(file: &str, text: &str) -> (Vec<Origin>, Vec<String>) {
    let (mut section, mut settings, mut includes) = (String::new(), Vec::new(), Vec::new());
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with(['#', ';'])) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            name.clone_into(&mut section);
            continue;
        }
        let Some((name, value)) = line.split_once('=') else { continue };
        let (name, value) = (name.trim(), value.trim().trim_start_matches('>').trim());
        let path = match (section.as_str(), name) {
            (_, "include") => {
                includes.extend(value.split(',').map(|name| name.trim().to_owned()));
                continue;
            }
            ("sysctl", name) => format!("proc/sys/{}", name.replace('.', "/")),
            ("vm", "transparent_hugepages" | "transparent_hugepage") => {
                "sys/kernel/mm/transparent_hugepage/enabled".to_owned()
            }
            (
                "vm",
                name @ ("dirty_ratio" | "dirty_background_ratio" | "dirty_bytes" | "dirty_background_bytes"),
            ) => {
                format!("proc/sys/vm/{name}")
            }
            ("disk", "elevator") => "queue/scheduler".to_owned(),
            ("disk", "readahead") => "queue/read_ahead_kb".to_owned(),
            _ => continue,
        };
        settings.push(Origin { file: file.to_owned(), path, value: value.to_owned() });
    }
    (settings, includes)
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
            ("etc/tuned/mine/tuned.conf", "[main]\ninclude=latency\n[sysctl]\nvm.dirty_ratio=30\n"),
            (
                "usr/lib/tuned/latency/tuned.conf",
                "[sysctl]\nvm.dirty_ratio=10\n[vm]\ntransparent_hugepages=never\n[disk]\nreadahead=>4096\n",
            ),
            ("proc/cmdline", "quiet transparent_hugepage=always\n"),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let found = origins(&Files::new(root.path()));
        let says = |path: &str| of(&found, path).map(|origin| (origin.file.as_str(), origin.value.as_str()));
        assert_eq!(says("proc/sys/vm/swappiness"), Some(("usr/lib/sysctl.d/50-y.conf", "20")));
        assert_eq!(says("sys/block/vda/queue/scheduler"), Some(("etc/udev/rules.d/60-s.rules", "none")));
        assert_eq!(says("sys/block/vda/queue/rotational"), None, "a question is no assignment");
        assert_eq!(says("proc/sys/vm/dirty_ratio"), Some(("etc/tuned/mine/tuned.conf", "30")));
        let huge = "sys/kernel/mm/transparent_hugepage";
        assert_eq!(says(&format!("{huge}/enabled")).unwrap().1, "never", "tuned comes after the boot");
        assert_eq!(says(&format!("{huge}/defrag")).unwrap().1, "defer+madvise");
        assert_eq!(says("sys/block/vda/queue/read_ahead_kb").unwrap().1, "4096");
        assert!(of(&found, "proc/sys/net/ipv4/conf/eth0.1/x").is_some());
    }

    proptest! {
        #[test]
        fn foreign_texts_do_no_harm(text in "\\PC*") {
            let _ = (sysctl_line("f", &text), tmpfiles_line("f", &text), udev_line("f", &text), tuned_profile("f", &text));
        }
    }
}
