//! One kernel setting that a user names: a file under `/proc/sys` or `/sys/block`, read under a root. [`crate::commit`] sets it.

use std::io;
use std::path::{Component, Path, PathBuf};

use crate::kernel::{Files, Kernel as _, plain_value};

/// Reasons why a setting can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingError {
    /// The name is not a place of settings.
    #[error(
        "`{text}` is not a kernel setting\n  next: name a file under /proc/sys or /sys/block, or a sysctl \
         such as vm.swappiness"
    )]
    Elsewhere {
        /// The given name.
        text: String,
    },
    /// The kernel refuses to read it.
    #[error("{path} can't be read{hint}", path = path.display())]
    Refused {
        /// The file.
        path: PathBuf,
        /// Possible help.
        hint: &'static str,
        /// The kernel's reason.
        source: io::Error,
    },
}

/// A file that holds a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    root: PathBuf,
    attribute: String,
}

impl Setting {
    /// A path under `/proc/sys` or `/sys/block`, or a sysctl's name with dots, under a root.
    ///
    /// # Errors
    /// Returns an error when it names anything else.
    pub fn parse(root: &Path, text: &str) -> Result<Self, SettingError> {
        let attribute = if text.contains('/') {
            text.trim_start_matches('/').to_owned()
        } else {
            format!("proc/sys/{}", text.replace('.', "/"))
        };
        let relative = Path::new(&attribute);
        let plain = relative.components().all(|part| matches!(part, Component::Normal(_)));
        let below = |folder: &str| relative.starts_with(folder) && relative != Path::new(folder);
        if !plain || !(below("proc/sys") || below("sys/block")) {
            return Err(SettingError::Elsewhere { text: text.to_owned() });
        }
        Ok(Self { root: root.to_owned(), attribute })
    }

    /// The attribute's path under the root, without the leading `/`.
    pub fn attribute(&self) -> &str {
        &self.attribute
    }

    /// The value: of a list of choices (`none [mq-deadline]`) the chosen one; white space as single blanks.
    ///
    /// # Errors
    /// Returns an error when the file is missing or can't be read.
    pub fn read(&self) -> Result<String, SettingError> {
        let text = Files::new(&self.root).read(&self.attribute).map_err(|source| self.refused(source))?;
        Ok(plain_value(&text))
    }

    fn refused(&self, source: io::Error) -> SettingError {
        let hint = match source.kind() {
            io::ErrorKind::PermissionDenied => " (this needs root, and in a container the permission)",
            io::ErrorKind::NotFound => " (this kernel does not have it)",
            _ => "",
        };
        SettingError::Refused { path: self.root.join(&self.attribute), hint, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn only_settings_are_settings() {
        let root = Path::new("/");
        for good in ["vm.swappiness", "/proc/sys/vm/swappiness", "sys/block/vda/queue/nr_requests"] {
            assert!(Setting::parse(root, good).is_ok(), "{good}");
        }
        assert_eq!(Setting::parse(root, "vm.swappiness").unwrap().attribute(), "proc/sys/vm/swappiness");
        for bad in
            ["/etc/passwd", "/proc/sys/../../etc/passwd", "/proc/sys", "sys/block/", "/proc/1/oom_adj", ""]
        {
            assert!(Setting::parse(root, bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_value_is_read_and_found_among_choices() {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("sys/block/vda/queue/scheduler", "none [mq-deadline] kyber\n"),
            ("proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n"),
        ] {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let at = |text: &str| Setting::parse(root.path(), text).unwrap();
        assert_eq!(at("sys/block/vda/queue/scheduler").read().unwrap(), "mq-deadline");
        assert_eq!(at("net.ipv4.tcp_rmem").read().unwrap(), "4096 131072 6291456");
        let missing = at("vm.no_such").read().unwrap_err().to_string();
        assert!(missing.contains("this kernel does not have it"), "{missing}");
    }
}
