//! The files through which Hone reads and sets the kernel, behind one small interface: the machine under a root, or in tests a model that
//! refuses, rounds and couples values as a kernel does. A folder of plain files would be a poor model, since those accept anything.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Component, Path, PathBuf};

/// Reads and writes attributes by their paths without the leading `/`, for example `proc/sys/vm/swappiness`.
pub trait Kernel {
    /// The text of an attribute.
    ///
    /// # Errors
    /// Returns the kernel's error: the attribute is missing, not permitted, or not available for this device.
    fn read(&self, path: &str) -> io::Result<String>;

    /// Writes an attribute: one `write` of exactly these bytes.
    ///
    /// # Errors
    /// Returns the kernel's error, and an error when it accepted only a part.
    fn write(&self, path: &str, value: &str) -> io::Result<()>;

    /// The names in a folder, sorted; empty without such a folder.
    fn list(&self, folder: &str) -> Vec<String>;

    /// Whether a file or folder with this name exists.
    fn exists(&self, path: &str) -> bool {
        self.read(path).is_ok() || !self.list(path).is_empty()
    }
}

/// Attributes are at most a page, and settings files not much more.
const LONGEST_BYTES: u64 = 256 * 1024;

/// The files under a root: `/`, or a recorded machine.
#[derive(Debug, Clone)]
pub struct Files {
    root: PathBuf,
}

impl Files {
    /// The files under this root.
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    fn at(&self, path: &str) -> io::Result<PathBuf> {
        let plain = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
        if plain && !path.is_empty() {
            Ok(self.root.join(path))
        } else {
            Err(io::ErrorKind::InvalidInput.into())
        }
    }
}

impl Kernel for Files {
    fn read(&self, path: &str) -> io::Result<String> {
        let mut bytes = Vec::new();
        File::open(self.at(path)?)?.take(LONGEST_BYTES).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn write(&self, path: &str, value: &str) -> io::Result<()> {
        // It creates and renames no file, since the kernel's file systems support neither.
        let mut file = OpenOptions::new().write(true).truncate(true).open(self.at(path)?)?;
        let taken = file.write(value.as_bytes())?;
        if taken == value.len() {
            return Ok(());
        }
        // The kernel reads `20 # percent` up to the space and ignores the rest: without an error, but not as requested.
        let told = format!("the kernel took {taken} of {} bytes", value.len());
        Err(io::Error::new(io::ErrorKind::WriteZero, told))
    }

    fn list(&self, folder: &str) -> Vec<String> {
        let Some(entries) = self.at(folder).ok().and_then(|path| fs::read_dir(path).ok()) else {
            return Vec::new();
        };
        let mut names: Vec<String> =
            entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
        names.sort();
        names
    }

    fn exists(&self, path: &str) -> bool {
        self.at(path).is_ok_and(|path| path.exists())
    }
}

/// The value of an attribute without its form: the chosen one of choices (`none [mq-deadline]`), white space as single spaces.
pub fn plain_value(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let chosen = words.iter().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    chosen.map_or_else(|| words.join(" "), str::to_owned)
}

/// The choices that an attribute offers; empty for a number.
pub fn choices(text: &str) -> Vec<String> {
    if !text.contains('[') {
        return Vec::new();
    }
    text.split_whitespace().map(|word| word.trim_matches(['[', ']']).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_chosen_one_and_the_choices() {
        assert_eq!(plain_value("none [mq-deadline] kyber\n"), "mq-deadline");
        assert_eq!(plain_value("60\n"), "60");
        assert_eq!(plain_value("4096\t1  2\n"), "4096 1 2");
        assert_eq!(choices("always [madvise] never\n"), ["always", "madvise", "never"]);
        assert!(choices("60\n").is_empty());
    }

    #[test]
    fn no_path_leaves_the_root_and_no_file_is_made() {
        let folder = tempfile::tempdir().unwrap();
        let files = Files::new(folder.path());
        for path in ["../etc/passwd", "/etc/passwd", "a/../../b", ""] {
            assert!(files.read(path).is_err(), "{path}");
            assert!(files.write(path, "1").is_err(), "{path}");
        }
        assert_eq!(files.write("new", "1").unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::write(folder.path().join("old"), "12345\n").unwrap();
        files.write("old", "7").unwrap();
        assert_eq!(files.read("old").unwrap(), "7");
        assert_eq!(files.list(""), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn foreign_texts_do_no_harm(text in ".*") {
            let _ = (plain_value(&text), choices(&text));
        }
    }
}
