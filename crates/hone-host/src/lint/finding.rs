//! What is said of texts of tuning.

use serde::Serialize;

/// What a text is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// To change a host.
    Change,
    /// To take the change back.
    Rollback,
}

/// What is wrong, or worth knowing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Defect {
    /// It makes something worse here.
    Harmful,
    /// The broker's maker says otherwise.
    AgainstTheVendor,
    /// The kernel refuses it.
    Refused,
    /// The script ends half-way.
    EndsHalfWay,
    /// Its own way back leaves another value than there was.
    NotRestored,
    /// It comes back with the next boot, though it was taken back.
    AtNextBoot,
    /// A unit comes too late, or can't write.
    UnitOrder,
    /// It is meant to stay, and does not, or not always.
    NotKept,
    /// The kernel makes something else of it, without a word.
    TakenOtherwise,
    /// It is in force only after a boot.
    NextBoot,
    /// Each run adds the same lines again.
    Repeats,
    /// It changes nothing here.
    NoEffect,
    /// It means disks by names that are given in the order of their coming.
    DeviceOrder,
    /// It changes what an acknowledgement promises.
    Durability,
    /// It hides what a change did.
    Mixed,
    /// Nobody has measured it.
    NeverMeasured,
}

impl Defect {
    /// Whether it harms, or leaves something behind.
    pub fn is_serious(self) -> bool {
        self <= Self::NotKept
    }
}

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Finding {
    /// What kind.
    pub defect: Defect,
    /// File and line; empty of what no single line says.
    pub place: String,
    /// In words.
    pub told: String,
}

/// A setting that the texts change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    /// Its name: a knob of Hone's, a sysctl, or an attribute.
    pub name: String,
    /// The devices, for settings of a queue.
    pub devices: Vec<String>,
    /// Its values now: one, or each with its devices where they differ (`128 (sda)`).
    pub now: Vec<String>,
    /// Whether files alone say it, so that it is in force with the next boot.
    pub next_boot: bool,
    /// The value that the texts want: one, or each with its devices where they differ.
    pub wanted: String,
    /// Where they say so.
    pub places: Vec<String>,
    /// What was found of it.
    pub findings: Vec<Finding>,
}

/// A setting that was seen, and of which it is not known what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct NotUnderstood {
    /// Its name, where one is known.
    pub name: Option<String>,
    /// File and line where it was seen first.
    pub place: String,
    /// Why, in words.
    pub told: String,
}

/// All that was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lint {
    /// The files.
    pub files: Vec<String>,
    /// What they change.
    pub settings: Vec<Setting>,
    /// What was found of no single setting.
    pub findings: Vec<Finding>,
    /// What was seen and not followed: of it nothing is known, neither good nor bad.
    pub not_understood: Vec<NotUnderstood>,
    /// Whether they bring a way back.
    pub has_rollback: bool,
    /// Settings that are not as before when their way back is through.
    pub wrong_after_rollback: Vec<String>,
    /// Settings that come back with the next boot, though they were taken back.
    pub at_next_boot: Vec<String>,
}

impl Lint {
    /// Whether something would harm, or be left behind.
    pub fn is_harmful(&self) -> bool {
        let own = self.settings.iter().flat_map(|setting| &setting.findings);
        own.chain(&self.findings).any(|finding| finding.defect.is_serious())
    }

    /// Whether all was understood, and nothing harms or is left behind.
    pub fn is_clean(&self) -> bool {
        self.not_understood.is_empty() && !self.is_harmful()
    }
}
