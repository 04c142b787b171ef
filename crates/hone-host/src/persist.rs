//! Settings for the next boot: one file of sysctl.d, udev rules that recognize a disk by an attribute that stays with it, and a file of
//! tmpfiles.d for huge pages. The system reads all of them before any broker service starts.
//!
//! Each file begins with the id of the change and a hash of the rest, so that Hone deletes only unedited files.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::Path;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::disks::Disk;
use crate::glob::literal;
use crate::knob::rank;

/// A file of settings for the next boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BootFile {
    /// Path under the root, without the leading `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// The requested settings, as files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BootFiles {
    /// The files.
    pub files: Vec<BootFile>,
    /// Settings that can't be made permanent, with the reason.
    pub left_out: Vec<String>,
}

/// Late among the files of sysctl.d, which are read by name; the last one wins.
const SYSCTL: &str = "etc/sysctl.d/99-zz-hone.conf";
const UDEV: &str = "etc/udev/rules.d/99-zz-hone.rules";
/// Early among those of tmpfiles.d: the first of two lines for one path wins.
const TMPFILES: &str = "etc/tmpfiles.d/00-hone.conf";
const HUGE_PAGES: &str = "sys/kernel/mm/transparent_hugepage/";
/// Hone's files have a line for each knob and disk and are far shorter; a longer file is not Hone's.
const LONGEST_BYTES: u64 = 1 << 20;

/// The part of one change for the next boot.
#[derive(Debug, Clone)]
pub struct Layer<'a> {
    /// Attribute and value.
    pub wanted: &'a [(String, String)],
    /// All attributes that it has changed, including those that changed along with others: nothing of older changes remains in them.
    pub changed: BTreeSet<&'a str>,
    /// The devices, by their names at that time.
    pub disks: &'a [Disk],
}

/// The files for values in force: attribute and value.
pub fn files(id: &str, wanted: &[(String, String)], disks: &[Disk]) -> BootFiles {
    stacked(id, &[], Layer { wanted, changed: BTreeSet::new(), disks })
}

/// The files for a change on top of others, the oldest first. There is one file of each kind, since systemd reads sysctl.d in one order,
/// and the first line in tmpfiles.d wins.
pub fn stacked(id: &str, older: &[Layer<'_>], newest: Layer<'_>) -> BootFiles {
    let mut lines: Vec<Line> = Vec::new();
    for layer in older {
        lay(&mut lines, layer);
    }
    let left_out = lay(&mut lines, &newest);
    lines.sort_by_key(|line| line.rank);
    let text = |file: &str| -> String {
        lines.iter().filter(|line| line.file == file).map(|line| line.text.as_str()).collect()
    };
    let bodies = [SYSCTL, UDEV, TMPFILES].map(|path| (path, text(path)));
    let files = bodies.into_iter().filter(|(_, body)| !body.is_empty());
    let sealed = |(path, body): (&str, String)| BootFile { path: path.to_owned(), text: sealed(id, &body) };
    BootFiles { files: files.map(sealed).collect(), left_out }
}

/// A line of one of the files.
struct Line {
    file: &'static str,
    /// The attribute that it sets, for any name of the device.
    target: String,
    rank: u8,
    text: String,
}

/// Adds a change on top; returns settings that can't be made permanent, with the reason.
fn lay(lines: &mut Vec<Line>, layer: &Layer<'_>) -> Vec<String> {
    let changed: BTreeSet<String> = layer.changed.iter().map(|path| target(path, layer.disks)).collect();
    lines.retain(|line| !changed.contains(&line.target));
    let mut left_out = Vec::new();
    for (path, value) in layer.wanted {
        match line(path, value, layer.disks) {
            Ok(line) => {
                lines.retain(|other| other.target != line.target);
                lines.push(line);
            }
            Err(why) => left_out.push(why),
        }
    }
    left_out
}

fn line(path: &str, value: &str, disks: &[Disk]) -> Result<Line, String> {
    let (file, text) = if let Some(name) = path.strip_prefix("proc/sys/") {
        // With slashes, a name may contain dots. A remark after the value would be passed to the kernel.
        (SYSCTL, format!("{name} = {value}\n"))
    } else if path.starts_with(HUGE_PAGES) {
        (TMPFILES, format!("w /{path} - - - - {value}\n"))
    } else {
        (UDEV, udev_rule(path, value, disks)?)
    };
    Ok(Line { file, target: target(path, disks), rank: rank(path), text })
}

/// An attribute by a permanent identity: a queue's by its disk's.
fn target(path: &str, disks: &[Disk]) -> String {
    let stable = || {
        let (device, file) = path.strip_prefix("sys/block/")?.split_once("/queue/")?;
        let disk = disks.iter().find(|disk| disk.name == device)?;
        let (attribute, text) = disk.identity.stable.as_ref()?;
        Some(format!("{attribute}={text}/{file}"))
    };
    stable().unwrap_or_else(|| path.to_owned())
}

fn udev_rule(path: &str, value: &str, disks: &[Disk]) -> Result<String, String> {
    let (device, file) = path
        .strip_prefix("sys/block/")
        .and_then(|path| path.split_once("/queue/"))
        .ok_or_else(|| format!("/{path} can't be set at boot by these files"))?;
    let stable = disks.iter().find(|disk| disk.name == device).and_then(|disk| disk.identity.stable.as_ref());
    let Some((attribute, text)) = stable else {
        return Err(format!(
            "{device} has neither wwid nor serial, and its name may belong to another disk after the next \
             boot: {file} = {value} can't be made permanent"
        ));
    };
    Ok(format!(
        "ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", ATTR{{{attribute}}}==\"{}\", ATTR{{queue/{file}}}=\"{value}\"\n",
        literal(text)
    ))
}

const SEAL: &str = "# hone ";

fn hash(body: &str) -> String {
    let digest = Sha256::digest(body.as_bytes());
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sealed(id: &str, body: &str) -> String {
    let remark = "# Written by `hone host confirm`; `hone host rollback` deletes it unless it was edited.\n";
    let body = format!("{remark}{body}");
    format!("{SEAL}{id} {}\n{body}", hash(&body))
}

/// Id of the change that wrote this text; `None` if it was edited since.
fn writer(bytes: &[u8]) -> Option<&str> {
    let (seal, body) = std::str::from_utf8(bytes).ok()?.split_once('\n')?;
    let (id, sum) = seal.strip_prefix(SEAL)?.split_once(' ')?;
    (sum == hash(body)).then_some(id)
}

/// Contents of the file in the place of Hone's; `None` without a file.
fn there(path: &Path) -> io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    match fs::File::open(path).and_then(|file| file.take(LONGEST_BYTES).read_to_end(&mut bytes)) {
        Ok(_) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Checks whether the files may be written: existing files must be from one of these changes, and unedited.
///
/// # Errors
/// Returns an error when a file has another owner, or can't be read.
pub fn may_write(root: &Path, ids: &[&str], files: &[BootFile]) -> io::Result<()> {
    for file in files {
        let path = root.join(&file.path);
        let cannot = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let Some(bytes) = there(&path).map_err(cannot)? else { continue };
        let why = match writer(&bytes) {
            Some(id) if ids.contains(&id) => continue,
            Some(id) => {
                format!("the file exists and is from the change {id}, which is unknown here; move it away")
            }
            None => "the file exists and is not Hone's, or was edited; move it away".to_owned(),
        };
        return Err(cannot(io::Error::new(io::ErrorKind::AlreadyExists, why)));
    }
    Ok(())
}

/// Writes the files, each completely or not at all. Existing files must be from one of these changes.
///
/// # Errors
/// Returns the file system's errors, and those of [`may_write`].
pub fn write(root: &Path, ids: &[&str], files: &[BootFile]) -> io::Result<()> {
    may_write(root, ids, files)?;
    for file in files {
        let path = root.join(&file.path);
        write_one(root, &path, &file.text)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    }
    Ok(())
}

fn write_one(root: &Path, path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(root);
    fs::create_dir_all(folder)?;
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    temporary.write_all(text.as_bytes())?;
    temporary.as_file().sync_all()?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    temporary.as_file().set_permissions(mode)?;
    temporary.persist(path).map_err(|error| error.error)?;
    fs::File::open(folder)?.sync_all()
}

/// A file for the next boot that remains.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LeftFile {
    /// Path under the root, without the leading `/`.
    pub path: String,
    /// Why, and what to do.
    pub why: String,
    /// Whether it may be Hone's, so that the change ends only after the file.
    pub is_tried_again: bool,
}

/// Deletes files of a change, or replaces them by those of the older changes below it. Returns the failures; one failure does not prevent
/// the others.
pub fn take_away(root: &Path, id: &str, files: &[String], older: &BootFiles) -> Vec<LeftFile> {
    let mut left = Vec::new();
    for name in files {
        let below = older.files.iter().find(|file| file.path == *name);
        if let Err((why, is_tried_again)) = take_one_away(root, &root.join(name), id, below) {
            left.push(LeftFile { path: name.clone(), why, is_tried_again });
        }
    }
    left
}

/// The error has the reason, and whether to try again.
fn take_one_away(root: &Path, path: &Path, id: &str, below: Option<&BootFile>) -> Result<(), (String, bool)> {
    let cannot =
        |error: io::Error| (format!("{error}; fix that, and run `hone host rollback --interrupted`"), true);
    let Some(bytes) = there(path).map_err(cannot)? else { return Ok(()) };
    if below.is_some_and(|below| below.text.as_bytes() == bytes) {
        return Ok(());
    }
    match writer(&bytes) {
        Some(known) if known == id => {}
        Some(other) => return Err((format!("it is from the change {other}, which keeps it"), false)),
        None => return Err(("it was edited; delete it by hand".to_owned(), false)),
    }
    match below {
        Some(below) => write_one(root, path, &below.text).map_err(cannot),
        // The deletion must be on disk before the journal records it.
        None => fs::remove_file(path)
            .and_then(|()| fs::File::open(path.parent().unwrap_or(root))?.sync_all())
            .map_err(cannot),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disks::{Identity, look};
    use crate::glob::is_meant;
    use crate::kernel::Files;

    fn wanted() -> Vec<(String, String)> {
        [
            ("sys/block/vda/queue/nr_requests", "64"),
            ("sys/block/vda/queue/scheduler", "none"),
            ("sys/block/vdb/queue/scheduler", "none"),
            ("proc/sys/vm/swappiness", "1"),
            ("sys/kernel/mm/transparent_hugepage/enabled", "never"),
        ]
        .map(|(path, value)| (path.to_owned(), value.to_owned()))
        .into()
    }

    fn disks() -> Vec<Disk> {
        let stable = Some(("serial".to_owned(), "vol 1".to_owned()));
        let known = Disk {
            name: "vda".to_owned(),
            identity: Identity { stable, ..Identity::default() },
            ..Disk::default()
        };
        vec![known, Disk { name: "vdb".to_owned(), ..Disk::default() }]
    }

    #[test]
    fn a_disk_is_named_by_what_stays_with_it() {
        let boot = files("7", &wanted(), &disks());
        let text = |path: &str| &boot.files.iter().find(|file| file.path == path).unwrap().text;
        let rules: Vec<&str> = text(UDEV).lines().skip(2).collect();
        assert_eq!(
            rules[0],
            "ACTION==\"add|change\", SUBSYSTEM==\"block\", ENV{DEVTYPE}==\"disk\", ATTR{serial}==\"vol 1\", ATTR{queue/scheduler}=\"none\""
        );
        assert!(rules[1].ends_with("ATTR{queue/nr_requests}=\"64\""), "the scheduler comes first: {rules:?}");
        assert!(text(SYSCTL).ends_with("\nvm/swappiness = 1\n"));
        assert!(text(TMPFILES).ends_with("\nw /sys/kernel/mm/transparent_hugepage/enabled - - - - never\n"));
        assert_eq!(boot.left_out.len(), 1);
        assert!(boot.left_out[0].starts_with("vdb has neither wwid nor serial"));
    }

    /// The rule of a disk whose attribute says this, as pattern; `None` where there is none.
    fn pattern_for(attribute: &str) -> Option<String> {
        let root = tempfile::tempdir().unwrap();
        let place = root.path().join("sys/block/sda/device/wwid");
        fs::create_dir_all(place.parent().unwrap()).unwrap();
        fs::write(place, attribute).unwrap();
        let wanted = [("sys/block/sda/queue/nomerges".to_owned(), "2".to_owned())];
        let boot = files("7", &wanted, &[look(&Files::new(root.path()), "sda")]);
        let text = &boot.files.first()?.text;
        let pattern = text.split_once("ATTR{device/wwid}==\"").unwrap().1.split_once('"').unwrap().0;
        Some(pattern.to_owned())
    }

    /// udev takes what stands there for a pattern, and leaves out nothing but blanks at the attribute's end.
    #[test]
    fn a_rule_means_its_own_disk_and_no_other() {
        for (attribute, other) in [
            (
                "t10.ATA     QEMU HARDDISK                           QM00001            \n",
                "t10.ATA QEMU HARDDISK QM00001",
            ),
            ("     WD-1\n", "WD-1"),
            ("A*1\n", "AB1"),
            ("A?1\n", "AB1"),
            ("A[12]\n", "A1"),
            ("[!A]]\n", "B]"),
        ] {
            let pattern = pattern_for(attribute).unwrap();
            assert!(is_meant(&pattern, attribute.trim_end()), "`{pattern}` and `{attribute}`");
            assert!(!is_meant(&pattern, other), "`{pattern}` and `{other}`");
        }
        assert_eq!(pattern_for("A|1\n"), None, "there is no way to write it");
    }

    #[test]
    fn only_files_that_nobody_edited_are_deleted() {
        let root = tempfile::tempdir().unwrap();
        let boot = files("7", &wanted(), &disks());
        write(root.path(), &["7"], &boot.files).unwrap();
        write(root.path(), &["7"], &boot.files).unwrap();
        let of_another = write(root.path(), &["8"], &files("8", &wanted(), &disks()).files).unwrap_err();
        assert!(of_another.to_string().contains("is from the change 7"), "{of_another}");
        let names: Vec<String> = boot.files.iter().map(|file| file.path.clone()).collect();
        let edited = root.path().join(SYSCTL);
        let text = fs::read_to_string(&edited).unwrap() + "vm.swappiness = 10\n";
        fs::write(&edited, text).unwrap();
        let left = take_away(root.path(), "7", &names, &BootFiles::default());
        assert_eq!(left.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), [SYSCTL]);
        assert!(left[0].why.contains("edited"), "{left:?}");
        assert!(edited.exists() && !root.path().join(UDEV).exists() && !root.path().join(TMPFILES).exists());
        assert_eq!(take_away(root.path(), "7", &names[1..], &BootFiles::default()), []);
    }

    #[test]
    fn what_can_not_be_read_is_somebodys() {
        let root = tempfile::tempdir().unwrap();
        let boot = files("7", &wanted(), &disks());
        write(root.path(), &["7"], &boot.files).unwrap();
        let names: Vec<String> = boot.files.iter().map(|file| file.path.clone()).collect();
        fs::write(root.path().join(SYSCTL), b"\xff\xfe").unwrap();
        // A folder in its place can't be read, even by root.
        fs::remove_file(root.path().join(UDEV)).unwrap();
        fs::create_dir(root.path().join(UDEV)).unwrap();
        let error = write(root.path(), &["7"], &boot.files).unwrap_err();
        assert!(error.to_string().contains("is not Hone's, or was edited"), "{error}");
        assert_eq!(fs::read(root.path().join(SYSCTL)).unwrap(), b"\xff\xfe");
        let left = take_away(root.path(), "7", &names, &BootFiles::default());
        assert_eq!(left.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), [SYSCTL, UDEV]);
        assert!(!root.path().join(TMPFILES).exists(), "one that is left keeps no other one");
    }

    #[test]
    fn a_change_on_top_rules_and_gives_way_again() {
        let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
            pairs.iter().map(|(path, value)| ((*path).to_owned(), (*value).to_owned())).collect()
        };
        let below = pairs(&[
            ("proc/sys/vm/dirty_ratio", "10"),
            ("proc/sys/vm/swappiness", "1"),
            ("sys/block/vda/queue/nr_requests", "64"),
            ("sys/block/vda/queue/nomerges", "2"),
        ]);
        let above =
            pairs(&[("proc/sys/vm/dirty_bytes", "1073741824"), ("sys/block/vdz/queue/scheduler", "none")]);
        // The disk has another name by now, and its scheduler has taken the requests along.
        let renamed = vec![Disk { name: "vdz".to_owned(), ..disks()[0].clone() }];
        let changed = [
            "proc/sys/vm/dirty_bytes",
            "proc/sys/vm/dirty_ratio",
            "sys/block/vdz/queue/scheduler",
            "sys/block/vdz/queue/nr_requests",
        ];
        let all = disks();
        let older = Layer { wanted: &below, changed: BTreeSet::new(), disks: &all };
        let boot = stacked("8", &[older], Layer { wanted: &above, changed: changed.into(), disks: &renamed });
        let text = |path: &str| boot.files.iter().find(|file| file.path == path).unwrap().text.clone();
        assert!(text(SYSCTL).ends_with("\nvm/swappiness = 1\nvm/dirty_bytes = 1073741824\n"));
        let udev = text(UDEV);
        let rules: Vec<&str> = udev.lines().skip(2).map(|line| line.rsplit(' ').next().unwrap()).collect();
        assert_eq!(rules, ["ATTR{queue/scheduler}=\"none\"", "ATTR{queue/nomerges}=\"2\""]);

        let root = tempfile::tempdir().unwrap();
        let first = files("7", &below, &all);
        write(root.path(), &["7"], &first.files).unwrap();
        write(root.path(), &["7", "8"], &boot.files).unwrap();
        let names: Vec<String> = boot.files.iter().map(|file| file.path.clone()).collect();
        for _ in 0..2 {
            assert_eq!(take_away(root.path(), "8", &names, &first), []);
            for file in &first.files {
                assert_eq!(fs::read_to_string(root.path().join(&file.path)).unwrap(), file.text);
            }
        }
    }
}
