//! The disks behind a folder: from its mount through md, dm and partitions down to the devices with a queue. Also identifies a disk, even
//! if its name changes at the next boot.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::kernel::{Kernel, plain_value};

/// The devices behind a folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DataPath {
    /// The folder.
    pub folder: String,
    /// Mount point of its file system.
    pub mount_point: String,
    /// Type of the file system.
    pub file_system: String,
    /// The device of the file system, by its name in `/sys/block`; readahead applies to this one.
    pub top: Option<String>,
    /// All devices from there down, in the order of the search.
    pub layers: Vec<Layer>,
    /// The lowest devices: those with a scheduler and a queue, if there are any.
    pub disks: Vec<Disk>,
    /// Why there is no disk, or which lower device was not followed.
    pub problem: Option<String>,
}

/// A device on this path.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Layer {
    /// Its name in `/sys/block`.
    pub name: String,
    /// Its kind of mapping (`dm-crypt`, `raid0`); `None` for a disk.
    pub kind: Option<String>,
}

/// A device of `/sys/block`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Disk {
    /// Its name, which may belong to another device after the next boot.
    pub name: String,
    /// Identity of the device.
    pub identity: Identity,
    /// Number of hardware queues; 0 for devices without a queue (dm, md, zram).
    pub hardware_queues: usize,
    /// Whether the kernel considers it a rotating disk.
    pub rotational: bool,
    /// Its model name.
    #[serde(default)]
    pub model: Option<String>,
    /// Number of requests that a hardware queue itself can hold.
    #[serde(default)]
    pub tags: Option<u64>,
}

impl Disk {
    /// Whether it is a network volume that looks like a local drive.
    pub fn is_volume_of_a_cloud(&self) -> bool {
        // EC2's model name for its volumes; instance store has another one.
        self.model.as_deref() == Some("Amazon Elastic Block Store")
    }
}

/// Identity of a device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// The attribute below `/sys/block/NAME` that stays with the device, and its value, for a udev rule: `wwid`, `serial`, `dm/uuid`.
    pub stable: Option<(String, String)>,
    /// The kernel's sequence number of devices. It is unique within a boot, so it separates a device from a successor with the same name.
    pub diskseq: Option<String>,
    /// Major and minor number.
    pub number: Option<String>,
}

/// Attributes that stay with a device, the best first. `device/` is the SCSI disk below a block device.
const STABLE: [&str; 5] = ["wwid", "device/wwid", "dm/uuid", "md/uuid", "serial"];

/// No real stack is deeper, and a loop in a foreign tree ends here.
const DEEPEST: usize = 16;

/// The disks below a folder. Under another root than `/`, links inside the path are not followed.
pub fn of_folder(kernel: &dyn Kernel, root: &Path, folder: &Path) -> DataPath {
    let resolved = if root == Path::new("/") {
        std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned())
    } else {
        folder.to_owned()
    };
    let mut path = DataPath { folder: folder.display().to_string(), ..DataPath::default() };
    let mounts = kernel.read("proc/self/mountinfo").unwrap_or_default();
    let Some(mount) = mount_of(&mounts, &resolved) else {
        path.problem = Some("its mount is not in /proc/self/mountinfo".to_owned());
        return path;
    };
    path.mount_point.clone_from(&mount.point);
    path.file_system.clone_from(&mount.kind);
    let device = device_of_number(kernel, &mount.number).or_else(|| device_of_source(kernel, &mount.source));
    let Some(device) = device else {
        path.problem = Some(format!("{} of {} is not a disk of this machine", mount.kind, mount.source));
        return path;
    };
    path.top = Some(device.clone());
    descend(kernel, &device, &mut path);
    path
}

/// A device given by name, without its path.
pub fn of_name(kernel: &dyn Kernel, name: &str) -> Option<DataPath> {
    let name = disk_of(kernel, name.trim_start_matches("/dev/"))?;
    let mut path = DataPath { top: Some(name.clone()), ..DataPath::default() };
    descend(kernel, &name, &mut path);
    Some(path)
}

/// Whether this device still has its name. An attribute that stays with the device shows it. Without one, the kernel's sequence number
/// does, within a boot.
pub fn is_there(kernel: &dyn Kernel, disk: &Disk) -> bool {
    let found = look(kernel, &disk.name).identity;
    match &disk.identity.stable {
        Some(_) => found.stable == disk.identity.stable,
        None => found == disk.identity,
    }
}

/// Known facts about a device.
pub fn look(kernel: &dyn Kernel, name: &str) -> Disk {
    let attribute = |file: &str| {
        let text = kernel.read(&format!("sys/block/{name}/{file}")).ok()?;
        Some(plain_value(&text)).filter(|text| !text.is_empty())
    };
    // udev compares every space except those at the end, and `t10.` names are full of them.
    let whole = |file: &str| {
        let text = kernel.read(&format!("sys/block/{name}/{file}")).ok()?;
        Some(text.trim_end().to_owned()).filter(|text| !text.is_empty())
    };
    // A udev rule is a line with quotes, so values with quotes or the alternative sign `|` are rejected.
    let quotable =
        |value: &String| !value.contains(['"', '\\', '|']) && value.chars().all(|c| !c.is_control());
    let stable = STABLE.iter().find_map(|file| Some(((*file).to_owned(), whole(file).filter(quotable)?)));
    Disk {
        name: name.to_owned(),
        identity: Identity { stable, diskseq: attribute("diskseq"), number: attribute("dev") },
        hardware_queues: kernel.list(&format!("sys/block/{name}/mq")).len(),
        rotational: attribute("queue/rotational").is_some_and(|text| text == "1"),
        model: attribute("device/model"),
        tags: attribute("mq/0/nr_tags").and_then(|text| text.parse().ok()),
    }
}

/// A device's kind of mapping: the prefix of its dm uuid, or md's level.
fn kind(kernel: &dyn Kernel, name: &str) -> Option<String> {
    let word = |file: &str| {
        let text = kernel.read(&format!("sys/block/{name}/{file}")).ok()?;
        Some(plain_value(&text)).filter(|text| !text.is_empty())
    };
    let by_uuid = |uuid: String| match uuid.split('-').next()? {
        "CRYPT" => Some("dm-crypt".to_owned()),
        "LVM" => Some("LVM".to_owned()),
        "mpath" => Some("multipath".to_owned()),
        other => Some(format!("dm, {other}")),
    };
    word("dm/uuid").and_then(by_uuid).or_else(|| word("md/level"))
}

/// Makes the kernel write back the dirty pages of a folder's file system, and waits for it.
///
/// # Errors
/// Returns an error when the folder can't be opened, or the disk fails.
pub fn write_back(folder: &Path) -> std::io::Result<()> {
    let folder = std::fs::File::open(folder)?;
    // SAFETY: the descriptor stays open during the call.
    match unsafe { libc::syncfs(std::os::fd::AsRawFd::as_raw_fd(&folder)) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

fn descend(kernel: &dyn Kernel, top: &str, path: &mut DataPath) {
    let mut seen = BTreeSet::new();
    let mut level = vec![top.to_owned()];
    for _ in 0..DEEPEST {
        let mut below = Vec::new();
        for name in level {
            if !seen.insert(name.clone()) {
                continue;
            }
            path.layers.push(Layer { name: name.clone(), kind: kind(kernel, &name) });
            let slaves: Vec<String> = kernel
                .list(&format!("sys/block/{name}/slaves"))
                .iter()
                .filter_map(|slave| disk_of(kernel, slave))
                .collect();
            if slaves.is_empty() {
                path.disks.push(look(kernel, &name));
            }
            if let Ok(file) = kernel.read(&format!("sys/block/{name}/loop/backing_file")) {
                path.problem = Some(format!(
                    "{name} is a loop device over {}, whose disk was not followed",
                    file.trim()
                ));
            }
            below.extend(slaves);
        }
        level = below;
    }
}

/// The device with a name, which may be a partition's.
fn disk_of(kernel: &dyn Kernel, name: &str) -> Option<String> {
    let disks = kernel.list("sys/block");
    if disks.iter().any(|disk| disk == name) {
        return Some(name.to_owned());
    }
    disks.into_iter().find(|disk| {
        name.starts_with(disk.as_str()) && kernel.read(&format!("sys/block/{disk}/{name}/partition")).is_ok()
    })
}

fn device_of_number(kernel: &dyn Kernel, number: &str) -> Option<String> {
    // Major number 0 is the kernel's own: file systems without a device, and those with several.
    if number.starts_with("0:") {
        return None;
    }
    let is_it = |path: String| kernel.read(&path).is_ok_and(|text| text.trim() == number);
    let disks = kernel.list("sys/block");
    let holds = |disk: &String| {
        is_it(format!("sys/block/{disk}/dev"))
            || kernel
                .list(&format!("sys/block/{disk}"))
                .iter()
                .filter(|part| part.starts_with(disk.as_str()))
                .any(|part| is_it(format!("sys/block/{disk}/{part}/dev")))
    };
    disks.iter().find(|disk| holds(disk)).cloned()
}

/// The device that a mount names, for file systems with their own device numbers (btrfs).
fn device_of_source(kernel: &dyn Kernel, source: &str) -> Option<String> {
    let name = source.strip_prefix("/dev/")?;
    if let Some(mapped) = name.strip_prefix("mapper/") {
        let is_it = |disk: &String| {
            kernel.read(&format!("sys/block/{disk}/dm/name")).is_ok_and(|text| text.trim() == mapped)
        };
        return kernel.list("sys/block").into_iter().find(is_it);
    }
    disk_of(kernel, name)
}

struct Mount {
    number: String,
    point: String,
    kind: String,
    source: String,
}

/// The mount of a path: the longest mount point above it; of equal ones the last, which covers the others.
fn mount_of(mountinfo: &str, path: &Path) -> Option<Mount> {
    let above = mountinfo.lines().filter_map(mount).filter(|mount| path.starts_with(&mount.point));
    above.max_by_key(|mount| Path::new(&mount.point).components().count())
}

/// A line of mountinfo; see proc_pid_mountinfo(5). Optional fields end with a lone `-`.
fn mount(line: &str) -> Option<Mount> {
    let (head, tail) = line.split_once(" - ")?;
    let mut fields = head.split(' ').skip(2);
    let number = fields.next()?.to_owned();
    let point = unescaped(fields.nth(1)?);
    let mut tail = tail.split(' ');
    Some(Mount { number, point, kind: tail.next()?.to_owned(), source: unescaped(tail.next()?) })
}

/// mountinfo writes spaces, tabs, newlines and backslashes as three octal digits.
fn unescaped(text: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(text.to_owned(), |text, (code, plain)| text.replace(code, plain))
}

/// An absolute path, computed without access to the disk.
pub fn absolute(folder: &Path) -> PathBuf {
    let whole = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let mut plain = PathBuf::new();
    for part in whole.components() {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Files;
    use proptest::prelude::*;
    use std::fs;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    fn names(path: &DataPath) -> Vec<&str> {
        path.disks.iter().map(|disk| disk.name.as_str()).collect()
    }

    #[test]
    fn through_crypt_and_raid_and_partitions_to_the_disks() {
        let root = tree(&[
            (
                "proc/self/mountinfo",
                "22 1 259:1 / / rw - ext4 /dev/nvme2n1p1 rw\n\
                 30 22 253:0 / /var/lib/red\\040panda rw shared:5 - xfs /dev/mapper/data rw\n",
            ),
            ("sys/block/nvme2n1/dev", "259:0\n"),
            ("sys/block/nvme2n1/nvme2n1p1/dev", "259:1\n"),
            ("sys/block/nvme2n1/nvme2n1p1/partition", "1\n"),
            ("sys/block/dm-0/dev", "253:0\n"),
            ("sys/block/dm-0/dm/uuid", "CRYPT-LUKS2-77\n"),
            ("sys/block/dm-0/slaves/md0/x", ""),
            ("sys/block/md0/dev", "9:0\n"),
            ("sys/block/md0/slaves/nvme0n1p1/x", ""),
            ("sys/block/md0/slaves/nvme1n1/x", ""),
            ("sys/block/nvme0n1/nvme0n1p1/partition", "1\n"),
            ("sys/block/nvme0n1/wwid", "eui.01\n"),
            ("sys/block/nvme0n1/diskseq", "3\n"),
            ("sys/block/nvme0n1/mq/0/nr_tags", "1023\n"),
            ("sys/block/nvme0n1/mq/1/nr_tags", "1023\n"),
            ("sys/block/nvme1n1/wwid", "eui.02\n"),
        ]);
        let files = Files::new(root.path());
        let data = of_folder(&files, root.path(), Path::new("/var/lib/red panda/data"));
        assert_eq!(data.top.as_deref(), Some("dm-0"));
        let layers: Vec<(&str, Option<&str>)> =
            data.layers.iter().map(|layer| (layer.name.as_str(), layer.kind.as_deref())).collect();
        let expected = [("dm-0", Some("dm-crypt")), ("md0", None), ("nvme0n1", None), ("nvme1n1", None)];
        assert_eq!(layers, expected);
        assert_eq!(names(&data), ["nvme0n1", "nvme1n1"]);
        let first = &data.disks[0];
        assert_eq!(first.identity.stable, Some(("wwid".to_owned(), "eui.01".to_owned())));
        assert_eq!((first.hardware_queues, first.identity.diskseq.as_deref()), (2, Some("3")));
        // The root's disk is another one, whatever a pattern of names would say.
        assert_eq!(names(&of_folder(&files, root.path(), Path::new("/etc"))), ["nvme2n1"]);
    }

    #[test]
    fn what_is_no_disk_says_so() {
        let root = tree(&[
            (
                "proc/self/mountinfo",
                "22 1 0:30 / / rw - overlay overlay rw,lowerdir=/a\n23 22 0:31 / /b rw - btrfs /dev/sda2 rw\n",
            ),
            ("sys/block/sda/sda2/partition", "2"),
        ]);
        let files = Files::new(root.path());
        let data = of_folder(&files, root.path(), Path::new("/data"));
        assert!(data.disks.is_empty());
        assert_eq!(data.problem.as_deref(), Some("overlay of overlay is not a disk of this machine"));
        assert_eq!(names(&of_folder(&files, root.path(), Path::new("/b/x"))), ["sda"]);
        assert!(of_name(&files, "sdz").is_none());
        assert_eq!(names(&of_name(&files, "/dev/sda2").unwrap()), ["sda"]);
    }

    #[test]
    fn a_serial_that_breaks_a_rule_is_no_identity() {
        let root = tree(&[("sys/block/sda/serial", "a\", RUN+=\"/bin/sh\n")]);
        assert_eq!(look(&Files::new(root.path()), "sda").identity.stable, None);
    }

    #[test]
    fn a_tree_that_bites_its_tail_ends() {
        let root = tree(&[("sys/block/dm-0/slaves/dm-1/x", ""), ("sys/block/dm-1/slaves/dm-0/x", "")]);
        assert!(names(&of_name(&Files::new(root.path()), "dm-0").unwrap()).is_empty());
    }

    proptest! {
        #[test]
        fn foreign_mounts_do_no_harm(text in ".*") {
            let _ = mount_of(&text, Path::new("/a/b"));
        }
    }
}
