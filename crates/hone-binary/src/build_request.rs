//! The requested build.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::digest::{content_hash, short};

/// The profile's part in a build.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Guide {
    /// None.
    None,
    /// An instrumented program.
    Generate,
    /// A plain program whose code can be mapped to the lines of its sources, so that samples of it become a profile.
    Traceable,
    /// The program is built with a merged profile: a file, for gcc a folder of `.gcda` files.
    Use(PathBuf),
    /// The program is built with a merged profile and counts once more, after inlining.
    CsGenerate(PathBuf),
    /// The program is built with samples of its branches.
    SampleUse(PathBuf),
}

impl Guide {
    /// The profile that a build reads.
    pub fn profile(&self) -> Option<&Path> {
        match self {
            Self::None | Self::Generate | Self::Traceable => None,
            Self::Use(profile) | Self::CsGenerate(profile) | Self::SampleUse(profile) => Some(profile),
        }
    }

    /// Whether the program is instrumented.
    pub fn counts(&self) -> bool {
        matches!(self, Self::Generate | Self::CsGenerate(_))
    }
}

/// The requested build.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BuildRequest {
    /// Its name.
    pub variant: String,
    /// The profile's part.
    pub guide: Guide,
    /// Whether the linker keeps relocations, which BOLT needs.
    pub relocs: bool,
    /// Whether switches may become tables of addresses.
    pub jump_tables: bool,
    /// Whether each function gets its own section, as with a seed: the first of several builds then differs from the others only by places.
    #[serde(default)]
    pub apart: bool,
    /// Places functions in a random order, the same for the same number: several builds show how much of a difference comes from placement
    /// by chance. In a build with a profile of clang or rustc, lld orders hot functions by the profile, with or without a seed. Those move
    /// by the padding that the linker puts between functions, if it supports that.
    pub link_seed: Option<u64>,
}

impl BuildRequest {
    /// The default build.
    pub fn plain(variant: &str) -> Self {
        Self {
            variant: variant.to_owned(),
            guide: Guide::None,
            relocs: false,
            jump_tables: true,
            apart: false,
            link_seed: None,
        }
    }

    /// With this part of a profile.
    #[must_use]
    pub fn guided(self, guide: Guide) -> Self {
        Self { guide, ..self }
    }

    /// With relocations kept.
    #[must_use]
    pub fn with_relocs(self) -> Self {
        Self { relocs: true, ..self }
    }

    /// Without jump tables for switches.
    #[must_use]
    pub fn without_jump_tables(self) -> Self {
        Self { jump_tables: false, ..self }
    }

    /// With each function in its own section.
    #[must_use]
    pub fn apart(self) -> Self {
        Self { apart: true, ..self }
    }

    /// With functions in the order of this number.
    #[must_use]
    pub fn seeded(self, link_seed: u64) -> Self {
        Self { link_seed: Some(link_seed), ..self }
    }

    /// Names the folder of all builds with this guide, these flags, and a profile with this content.
    pub(crate) fn folder_name(&self) -> String {
        let of = |what: &str, profile: &Path| format!("{what}-{}", key_of(profile));
        let mut name = match &self.guide {
            Guide::None => "baseline".to_owned(),
            Guide::Generate => "instrumented".to_owned(),
            Guide::Traceable => "traceable".to_owned(),
            Guide::Use(profile) => of("pgo", profile),
            Guide::CsGenerate(profile) => of("cs-instrumented", profile),
            Guide::SampleUse(profile) => of("sampled", profile),
        };
        if self.relocs {
            name.push_str("-relocs");
        }
        if !self.jump_tables {
            name.push_str("-no-jump-tables");
        }
        if self.apart && self.link_seed.is_none() {
            name.push_str("-apart");
        }
        if let Some(seed) = self.link_seed {
            name.push_str(&format!("-seed-{seed}"));
        }
        name
    }
}

/// The identity of a profile in the names of builds: its contents, or the name of one that does not exist yet.
fn key_of(profile: &Path) -> String {
    let stem = || profile.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    content_hash(profile).map_or_else(|_| stem(), |hash| short(&hash).to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn builds_of_other_orders_have_other_folders() {
        let dir = tempfile::tempdir().unwrap();
        let profile = dir.path().join("a.profdata");
        let shaped = || BuildRequest::plain("x").guided(Guide::Use(profile.clone())).folder_name();
        assert_eq!(shaped(), "pgo-a", "a profile that is not there yet");
        fs::write(&profile, "one").unwrap();
        let one = shaped();
        fs::write(&profile, "two").unwrap();
        assert_ne!(one, shaped(), "another content under the same name");
        assert_eq!((one.len(), &one[..4]), (20, "pgo-"));
        let all =
            BuildRequest::plain("x").guided(Guide::Generate).with_relocs().without_jump_tables().seeded(7);
        assert_eq!(all.folder_name(), "instrumented-relocs-no-jump-tables-seed-7");
        assert_eq!(BuildRequest::plain("y").folder_name(), "baseline");
    }
}
