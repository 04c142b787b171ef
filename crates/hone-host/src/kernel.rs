//! The files through which the kernel is asked and told, behind one small interface: the machine under a root, or in tests
//! a model that refuses, rounds and couples as a kernel does. A folder of plain files is a poor model, since those accept
//! anything.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Component, Path, PathBuf};

/// Reads and writes attributes by their paths without the leading `/`, as `proc/sys/vm/swappiness`.
pub trait Kernel {
    /// The text of an attribute, as it stands there.
    ///
    /// # Errors
    /// As the kernel answers: not there, not allowed, no such attribute of this device.
    fn read(&self, path: &str) -> io::Result<String>;

    /// Writes an attribute: one `write` of exactly these bytes.
    ///
    /// # Errors
    /// As the kernel answers, and when it took a part only.
    fn write(&self, path: &str, value: &str) -> io::Result<()>;

    /// The names in a folder, sorted; none where there is no such folder.
    fn list(&self, folder: &str) -> Vec<String>;

    /// Whether there is a file or a folder of this name.
    fn exists(&self, path: &str) -> bool {
        self.read(path).is_ok() || !self.list(path).is_empty()
    }
}

/// Attributes are a page at most, files of settings not much more.
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
        // No file is created, and none renamed over: the kernel's file systems know neither.
        let mut file = OpenOptions::new().write(true).truncate(true).open(self.at(path)?)?;
        let taken = file.write(value.as_bytes())?;
        if taken == value.len() {
            return Ok(());
        }
        // `20 # percent` is taken up to the blank, and the rest left: no error, and not what was asked for.
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

/// What an attribute says without its form: of choices (`none [mq-deadline]`) the chosen one, white space as single blanks.
pub fn plain_value(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let chosen = words.iter().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    chosen.map_or_else(|| words.join(" "), str::to_owned)
}

/// The choices that an attribute offers; none for a number.
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
