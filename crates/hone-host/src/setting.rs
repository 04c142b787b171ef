//! One setting of the kernel: a file under `/proc/sys` or `/sys/block`, read and written under a root.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};

/// Why a setting can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// Not one of the places that hold settings.
    #[error(
        "`{text}` is no setting of the kernel; name a file under /proc/sys or /sys/block, or a sysctl as vm.swappiness"
    )]
    Elsewhere {
        /// What was asked for.
        text: String,
    },
    /// The kernel refuses to read or write it.
    #[error("{path} can't be {what}{hint}")]
    Refused {
        /// The file.
        path: PathBuf,
        /// `read` or `set to VALUE`.
        what: String,
        /// What may help.
        hint: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
    /// It was written and reads differently.
    #[error("{path} was set to `{wanted}` and reads `{found}`: the kernel took something else")]
    NotTaken {
        /// The file.
        path: PathBuf,
        /// What was written.
        wanted: String,
        /// What it reads.
        found: String,
    },
}

/// A file that holds a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    path: PathBuf,
}

/// Pairs of which setting one sets the other to 0, and of which a 0 can't be written back.
const RIVALS: [(&str, &str); 2] =
    [("dirty_ratio", "dirty_bytes"), ("dirty_background_ratio", "dirty_background_bytes")];

impl Setting {
    /// A path under `/proc/sys` or `/sys/block`, or a sysctl's name with dots, under a root.
    ///
    /// # Errors
    /// When it names anything else.
    pub fn parse(root: &Path, text: &str) -> Result<Self, SettingError> {
        let elsewhere = || SettingError::Elsewhere { text: text.to_owned() };
        let relative = if text.contains('/') {
            PathBuf::from(text.trim_start_matches('/'))
        } else {
            Path::new("proc/sys").join(text.replace('.', "/"))
        };
        let plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
        let below = |folder: &str| relative.starts_with(folder) && relative != Path::new(folder);
        if !plain || !(below("proc/sys") || below("sys/block")) {
            return Err(elsewhere());
        }
        Ok(Self { path: root.join(relative) })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The value: of a list of choices (`none [mq-deadline]`) the chosen one; white space as single blanks.
    ///
    /// # Errors
    /// When the file is not there or can't be read.
    pub fn read(&self) -> Result<String, SettingError> {
        let text =
            fs::read_to_string(&self.path).map_err(|source| self.refused("read".to_owned(), source))?;
        Ok(value_in(&text))
    }

    /// Writes a value and reads it back. A value that is there already is not written: some writes stop a disk's queue.
    ///
    /// # Errors
    /// When the kernel refuses it, or takes something else.
    pub fn write(&self, value: &str) -> Result<(), SettingError> {
        if self.read()? == value_in(value) {
            return Ok(());
        }
        let mut file = OpenOptions::new();
        let written = file
            .write(true)
            .truncate(true)
            .open(&self.path)
            .and_then(|mut file| file.write_all(value.as_bytes()));
        written.map_err(|source| self.refused(format!("set to `{value}`"), source))?;
        let found = self.read()?;
        if found == value_in(value) {
            return Ok(());
        }
        Err(SettingError::NotTaken { path: self.path.clone(), wanted: value.to_owned(), found })
    }

    /// What has to be written to have today's state again: this setting, or the one that rules in its place. The kernel
    /// sets `vm.dirty_bytes` to 0 when `vm.dirty_ratio` is set, and the other way round, and refuses that 0.
    ///
    /// # Errors
    /// When the value can't be read.
    pub fn way_back(&self) -> Result<(Self, String), SettingError> {
        let value = self.read()?;
        match self.rival() {
            Some(rival) if value == "0" => {
                let ruling = rival.read()?;
                Ok((rival, ruling))
            }
            _ => Ok((self.clone(), value)),
        }
    }

    fn rival(&self) -> Option<Self> {
        let name = self.path.file_name()?.to_str()?;
        let other = RIVALS.iter().find_map(|&(ratio, bytes)| match name {
            name if name == ratio => Some(bytes),
            name if name == bytes => Some(ratio),
            _ => None,
        })?;
        Some(Self { path: self.path.with_file_name(other) })
    }

    fn refused(&self, what: String, source: io::Error) -> SettingError {
        let hint = match source.kind() {
            io::ErrorKind::PermissionDenied => " (it takes root, and a container that may)",
            io::ErrorKind::NotFound => " (this kernel does not have it)",
            _ => "",
        };
        SettingError::Refused { path: self.path.clone(), what, hint, source }
    }
}

fn value_in(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    let chosen = words.iter().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    chosen.map_or_else(|| words.join(" "), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn only_settings_are_settings() {
        let root = Path::new("/");
        for good in ["vm.swappiness", "/proc/sys/vm/swappiness", "sys/block/vda/queue/nr_requests"] {
            assert!(Setting::parse(root, good).is_ok(), "{good}");
        }
        assert_eq!(
            Setting::parse(root, "vm.swappiness").unwrap().path(),
            Path::new("/proc/sys/vm/swappiness")
        );
        for bad in
            ["/etc/passwd", "/proc/sys/../../etc/passwd", "/proc/sys", "sys/block/", "/proc/1/oom_adj", ""]
        {
            assert!(Setting::parse(root, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_value_is_written_read_back_and_found_among_choices() {
        let root = root(&[
            ("proc/sys/vm/swappiness", "60\n"),
            ("sys/block/vda/queue/scheduler", "none [mq-deadline] kyber\n"),
            ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
        ]);
        let at = |text: &str| Setting::parse(root.path(), text).unwrap();
        assert_eq!(at("vm.swappiness").read().unwrap(), "60");
        assert_eq!(at("sys/block/vda/queue/scheduler").read().unwrap(), "mq-deadline");
        assert_eq!(at("net.ipv4.tcp_rmem").read().unwrap(), "4096 131072 6291456");
        at("vm.swappiness").write("1").unwrap();
        assert_eq!(at("vm.swappiness").read().unwrap(), "1");
        let missing = at("vm.no_such").write("1").unwrap_err().to_string();
        assert!(missing.contains("this kernel does not have it"), "{missing}");
    }

    #[test]
    fn the_way_back_of_a_zero_is_the_rival_that_rules() {
        let root = root(&[("proc/sys/vm/dirty_bytes", "0\n"), ("proc/sys/vm/dirty_ratio", "20\n")]);
        let bytes = Setting::parse(root.path(), "vm.dirty_bytes").unwrap();
        let (ruling, value) = bytes.way_back().unwrap();
        assert!(ruling.path().ends_with("dirty_ratio"));
        assert_eq!(value, "20");
        let ratio = Setting::parse(root.path(), "vm.dirty_ratio").unwrap();
        assert_eq!(ratio.way_back().unwrap(), (ratio.clone(), "20".to_owned()));
    }
}
