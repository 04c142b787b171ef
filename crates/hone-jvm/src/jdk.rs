//! An installed JDK or JRE, by the file `release` in its folder.

use serde::{Deserialize, Serialize};

/// What `release` tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jdk {
    /// The feature release: 17, 21, 25.
    pub feature: u32,
    /// The whole version: `25.0.3+9-LTS`, or `17.0.15`.
    pub version: String,
    /// Who built it: `Eclipse Adoptium`, `Debian`; empty if unknown.
    pub vendor: String,
}

impl Jdk {
    /// Reads the text of a `release` file. `None` if it names no version.
    ///
    /// The file has lines `NAME="VALUE"`; other lines are skipped.
    pub fn from_release(text: &str) -> Option<Self> {
        let value = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='))?;
            Some(line.trim().trim_matches('"').to_owned()).filter(|value| !value.is_empty())
        };
        let java = value("JAVA_VERSION")?;
        Some(Self {
            feature: feature_of(&java)?,
            version: value("JAVA_RUNTIME_VERSION").unwrap_or(java),
            vendor: value("IMPLEMENTOR").unwrap_or_default(),
        })
    }

    /// `JDK 25.0.3+9-LTS (Eclipse Adoptium)`.
    pub fn title(&self) -> String {
        match self.vendor.as_str() {
            "" => format!("JDK {}", self.version),
            vendor => format!("JDK {} ({vendor})", self.version),
        }
    }
}

/// The feature release of a version: 17 for `17.0.15`, 8 for `1.8.0_402`.
pub fn feature_of(version: &str) -> Option<u32> {
    let mut parts = version.split(['.', '+', '-', '_']);
    match parts.next()?.parse().ok()? {
        1 => parts.next()?.parse().ok(),
        feature => Some(feature),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_file_tells_version_and_vendor() {
        let text = "IMPLEMENTOR=\"Eclipse Adoptium\"\nJAVA_RUNTIME_VERSION=\"25.0.3+9-LTS\"\nJAVA_VERSION=\"25.0.3\"\n";
        let jdk = Jdk::from_release(text).unwrap();
        assert_eq!((jdk.feature, jdk.title().as_str()), (25, "JDK 25.0.3+9-LTS (Eclipse Adoptium)"));
        assert_eq!(Jdk::from_release("JAVA_VERSION=\"1.8.0_402\"").unwrap().feature, 8);
        assert_eq!(Jdk::from_release("JAVA_VERSION=\"26-ea\"").unwrap().feature, 26);
        for unknown in ["", "JAVA_VERSION=", "JAVA_VERSION=\"x\"", "OS_NAME=\"Linux\""] {
            assert_eq!(Jdk::from_release(unknown), None, "{unknown}");
        }
    }
}
