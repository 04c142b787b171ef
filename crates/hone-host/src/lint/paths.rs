//! Alternative paths of an attribute: mounts of the host's files in a container, and the classes of `/sys`.

use crate::kernel::Kernel;

/// Folders under which containers and chroots see the host's root.
const ROOTS: [&str; 9] =
    ["host", "hostfs", "host-root", "hostroot", "host_root", "rootfs", "node", "noderoot", "proc/1/root"];
/// Parts of `/sys` that hold settings.
const OF_SYS: [&str; 6] = ["kernel/", "block/", "class/", "devices/", "dev/", "module/"];

/// A path below the root without the leading `/`, as on the host; `None` if it is not an absolute path.
pub(super) fn normal(path: &str) -> Option<String> {
    let path = path.strip_prefix('/')?;
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    (!parts.is_empty()).then(|| of_host(parts.join("/")))
}

/// `host/sys/block/...` and `host-sys/block/...` are `sys/block/...` of the host.
fn of_host(path: String) -> String {
    for root in ROOTS {
        let below = path.strip_prefix(root).and_then(|rest| rest.strip_prefix('/'));
        if let Some(below) = below.filter(|below| below.starts_with("sys/") || below.starts_with("proc/")) {
            return below.to_owned();
        }
    }
    let Some((first, rest)) = path.split_once('/') else { return path };
    let is_mount = |end: &str| first.len() > end.len() && first.ends_with(end);
    if is_mount("sys") && OF_SYS.iter().any(|part| rest.starts_with(part)) {
        format!("sys/{rest}")
    } else if is_mount("proc") && rest.starts_with("sys/") {
        format!("proc/{rest}")
    } else {
        path
    }
}

/// The path of an attribute of a block device by the device's own name: `sys/class/block/X` and `sys/dev/block/8:0` are links to it.
pub(super) fn canonical(kernel: &dyn Kernel, path: &str) -> String {
    let by_name = path.strip_prefix("sys/class/block/").and_then(|rest| rest.split_once('/'));
    let by_number = || {
        let (number, rest) = path.strip_prefix("sys/dev/block/")?.split_once('/')?;
        let is_it = |disk: &String| {
            kernel.read(&format!("sys/block/{disk}/dev")).is_ok_and(|text| text.trim() == number)
        };
        Some(format!("sys/block/{}/{rest}", kernel.list("sys/block").into_iter().find(is_it)?))
    };
    by_name
        .map(|(device, rest)| format!("sys/block/{device}/{rest}"))
        .or_else(by_number)
        .unwrap_or_else(|| path.to_owned())
}

/// The disk of a device: itself, or the disk of a partition.
pub(super) fn disk_of(kernel: &dyn Kernel, device: &str) -> String {
    let disks = kernel.list("sys/block");
    let is_its = |disk: &&String| {
        let number = device.strip_prefix(disk.as_str()).map(|rest| rest.trim_start_matches('p'));
        number.is_some_and(|number| !number.is_empty() && number.chars().all(|c| c.is_ascii_digit()))
    };
    let disk = if disks.iter().any(|disk| disk == device) { None } else { disks.iter().find(is_its) };
    disk.map_or_else(|| device.to_owned(), Clone::clone)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_of_the_host() {
        for (path, expected) in [
            ("/host/sys/block/sda/queue/nomerges", Some("sys/block/sda/queue/nomerges")),
            ("/hostfs/proc/sys/vm/swappiness", Some("proc/sys/vm/swappiness")),
            ("/node-sys//kernel/mm/x", Some("sys/kernel/mm/x")),
            ("/my-proc/sys/vm/x", Some("proc/sys/vm/x")),
            ("/etc/./x/../sysctl.conf", Some("etc/sysctl.conf")),
            ("/host/etc/sysctl.conf", Some("host/etc/sysctl.conf")),
            ("/opt-sys/bin/x", Some("opt-sys/bin/x")),
            ("queue/x", None),
            ("/", None),
        ] {
            assert_eq!(normal(path).as_deref(), expected, "{path}");
        }
    }
}
