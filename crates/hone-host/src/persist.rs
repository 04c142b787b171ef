//! Settings for the next boot: one file of sysctl.d, rules of udev that know a disk by what stays with it, and a file of
//! tmpfiles.d for huge pages. All of these are read before any service of a broker starts.
//!
//! Each file begins with the name of the change and a hash of the rest, so that only what nobody has edited is deleted.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use crate::disks::Disk;
use crate::glob::literal;
use crate::knob::rank;

/// A file of settings for the next boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BootFile {
    /// Under the root, without the leading `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// What was asked for, as files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct BootFiles {
    /// The files.
    pub files: Vec<BootFile>,
    /// What can't be made to stay, and why.
    pub left_out: Vec<String>,
}

/// Late among the files of sysctl.d, which are read in the order of their names; the last one rules.
const SYSCTL: &str = "etc/sysctl.d/99-zz-hone.conf";
const UDEV: &str = "etc/udev/rules.d/99-zz-hone.rules";
const TMPFILES: &str = "etc/tmpfiles.d/zz-hone.conf";
const HUGE_PAGES: &str = "sys/kernel/mm/transparent_hugepage/";

/// The files for values that are in force: attribute and value.
pub fn files(id: &str, wanted: &[(String, String)], disks: &[Disk]) -> BootFiles {
    let mut ordered: Vec<&(String, String)> = wanted.iter().collect();
    ordered.sort_by_key(|(path, _)| rank(path));
    let mut boot = BootFiles::default();
    let (mut sysctl, mut udev, mut tmpfiles) = (String::new(), String::new(), String::new());
    for (path, value) in ordered {
        if let Some(name) = path.strip_prefix("proc/sys/") {
            // With slashes a name may hold dots. A remark behind the value would be handed to the kernel.
            sysctl += &format!("{name} = {value}\n");
        } else if path.starts_with(HUGE_PAGES) {
            tmpfiles += &format!("w /{path} - - - - {value}\n");
        } else {
            match udev_rule(path, value, disks) {
                Ok(rule) => udev += &rule,
                Err(why) => boot.left_out.push(why),
            }
        }
    }
    for (path, body) in [(SYSCTL, sysctl), (UDEV, udev), (TMPFILES, tmpfiles)] {
        if !body.is_empty() {
            boot.files.push(BootFile { path: path.to_owned(), text: sealed(id, &body) });
        }
    }
    boot
}

fn udev_rule(path: &str, value: &str, disks: &[Disk]) -> Result<String, String> {
    let (device, file) = path
        .strip_prefix("sys/block/")
        .and_then(|path| path.split_once("/queue/"))
        .ok_or_else(|| format!("/{path} has no place among the settings of a boot"))?;
    let stable = disks.iter().find(|disk| disk.name == device).and_then(|disk| disk.identity.stable.as_ref());
    let Some((attribute, text)) = stable else {
        return Err(format!(
            "{device} has neither wwid nor serial, and its name may be another disk's after the next boot: {file} = {value} does not stay"
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
    let remark = "# Written by `hone host confirm`; `hone host revert` deletes it unless it was edited.\n";
    let body = format!("{remark}{body}");
    format!("{SEAL}{id} {}\n{body}", hash(&body))
}

/// Whether a text is of this change, and as it was written.
fn is_ours(id: &str, text: &str) -> bool {
    text.split_once('\n').is_some_and(|(seal, body)| seal == format!("{SEAL}{id} {}", hash(body)))
}

/// Writes the files, each whole or not at all. A file of somebody else of that name is an error.
///
/// # Errors
/// As the file system answers.
pub fn write(root: &Path, id: &str, files: &[BootFile]) -> io::Result<()> {
    for file in files {
        let path = root.join(&file.path);
        let cannot = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let folder = path.parent().unwrap_or(root);
        if let Ok(there) = fs::read_to_string(&path)
            && !is_ours(id, &there)
        {
            let why = "it is there, and is not of this change; revert the older change first, or move the file away";
            return Err(cannot(io::Error::new(io::ErrorKind::AlreadyExists, why)));
        }
        fs::create_dir_all(folder).map_err(cannot)?;
        let write = || {
            let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
            temporary.write_all(file.text.as_bytes())?;
            temporary.as_file().sync_all()?;
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
            temporary.as_file().set_permissions(mode)?;
            temporary.persist(&path).map_err(|error| error.error)?;
            fs::File::open(folder)?.sync_all()
        };
        write().map_err(cannot)?;
    }
    Ok(())
}

/// Deletes files of a change. Answers those that are left, since somebody has edited them.
///
/// # Errors
/// As the file system answers; a file that is gone is no error.
pub fn delete(root: &Path, id: &str, files: &[String]) -> io::Result<Vec<String>> {
    let mut left = Vec::new();
    for name in files {
        let path = root.join(name);
        match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
            Ok(text) if is_ours(id, &text) => fs::remove_file(&path)?,
            Ok(_) => left.push(name.clone()),
        }
    }
    Ok(left)
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
        write(root.path(), "7", &boot.files).unwrap();
        write(root.path(), "7", &boot.files).unwrap();
        assert!(write(root.path(), "8", &files("8", &wanted(), &disks()).files).is_err());
        let names: Vec<String> = boot.files.iter().map(|file| file.path.clone()).collect();
        let edited = root.path().join(SYSCTL);
        let text = fs::read_to_string(&edited).unwrap() + "vm.swappiness = 10\n";
        fs::write(&edited, text).unwrap();
        assert_eq!(delete(root.path(), "7", &names).unwrap(), [SYSCTL]);
        assert!(edited.exists() && !root.path().join(UDEV).exists() && !root.path().join(TMPFILES).exists());
        assert_eq!(delete(root.path(), "7", &names[1..]).unwrap(), Vec::<String>::new());
    }
}
