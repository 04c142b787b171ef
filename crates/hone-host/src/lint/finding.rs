//! Findings about tuning texts.

use serde::Serialize;

/// Purpose of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// It changes a host.
    Change,
    /// It rolls the change back.
    Rollback,
}

/// Kind of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Defect {
    /// It makes something worse here.
    Harmful,
    /// It contradicts the broker's vendor.
    AgainstTheVendor,
    /// The kernel refuses it.
    Refused,
    /// The script ends early.
    EndsHalfWay,
    /// The text's own rollback leaves another value than before.
    NotRestored,
    /// It returns with the next boot, although it was rolled back.
    AtNextBoot,
    /// A unit starts too late, or can't write.
    UnitOrder,
    /// It should be permanent, but is not, or not always.
    NotKept,
    /// The kernel silently sets another value.
    TakenOtherwise,
    /// It takes effect only after a boot.
    NextBoot,
    /// Each run adds the same lines again.
    Repeats,
    /// It changes nothing here.
    NoEffect,
    /// It names disks in an order that depends on their detection.
    DeviceOrder,
    /// It changes durability guarantees.
    Durability,
    /// It hides the effect of a change.
    Mixed,
    /// Its effect was never measured.
    NeverMeasured,
}

impl Defect {
    /// Whether it does harm, or leaves values behind.
    pub fn is_serious(self) -> bool {
        self <= Self::NotKept
    }
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// Its kind.
    pub defect: Defect,
    /// File and line; empty if it concerns no single line.
    pub place: String,
    /// The finding in words.
    pub told: String,
}

/// A setting that the texts change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its name: a knob of Hone's, a sysctl, or an attribute.
    pub name: String,
    /// The devices, for settings of a queue.
    pub devices: Vec<String>,
    /// Its current values: one, or each with its devices if they differ (`128 (sda)`).
    pub now: Vec<String>,
    /// Whether only files contain it, so that it takes effect at the next boot.
    pub next_boot: bool,
    /// The value in the texts: one, or each with its devices if they differ.
    pub wanted: String,
    /// Its place in the texts.
    pub places: Vec<String>,
    /// Findings about it.
    pub findings: Vec<Finding>,
}

/// A setting in the texts whose final value is unknown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct NotUnderstood {
    /// Its name, if known.
    pub name: Option<String>,
    /// File and line of its first occurrence.
    pub place: String,
    /// The reason, in words.
    pub told: String,
}

/// All findings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lint {
    /// The files.
    pub files: Vec<String>,
    /// The changed settings.
    pub settings: Vec<Setting>,
    /// Findings about no single setting.
    pub findings: Vec<Finding>,
    /// Parts that were seen but not followed. Nothing is known about them, neither good nor bad.
    pub not_understood: Vec<NotUnderstood>,
    /// Whether the texts include a rollback.
    pub has_rollback: bool,
    /// Settings that differ from before after their rollback.
    pub wrong_after_rollback: Vec<String>,
    /// Settings that return with the next boot, although they were rolled back.
    pub at_next_boot: Vec<String>,
}

impl Lint {
    /// Whether a finding does harm, or leaves values behind.
    pub fn is_harmful(&self) -> bool {
        let own = self.settings.iter().flat_map(|setting| &setting.findings);
        own.chain(&self.findings).any(|finding| finding.defect.is_serious())
    }

    /// Whether everything was understood, and no finding does harm or leaves values behind.
    pub fn is_clean(&self) -> bool {
        self.not_understood.is_empty() && !self.is_harmful()
    }
}
