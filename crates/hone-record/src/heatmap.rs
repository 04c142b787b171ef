//! A map of the code of one object that runs, by pages and lines, for one build or before and after.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::diagnosis::{Evidence, ObjectShare};

/// Bytes per line.
pub const HEAT_LINE_BYTES: u64 = 64;
/// Bytes per page.
pub const HEAT_PAGE_BYTES: u64 = 4096;
/// Powers of ten that the heat scale covers below the hottest cell.
pub const HEAT_DECADES: f64 = 5.0;

/// One source, or two on one scale: before and after.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Heatmap {
    /// One source or two.
    pub sides: Vec<HeatSource>,
    /// Remarks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// Code that ran, and its place in memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeatSource {
    /// The program that ran, as the source names it.
    pub title: String,
    /// Evidence of the counts.
    pub evidence: Evidence,
    /// Executed instructions of all objects, or samples if samples are the evidence. Every share refers to this number.
    pub instructions: u64,
    /// The object of the map; `None` stands for code without a file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    /// Build-id of the object, hex.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
    /// Share of the object in the execution.
    pub share: f64,
    /// The other objects, sorted by share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<ObjectShare>,
    /// Code sections of the object, sorted by address.
    pub sections: Vec<HeatSection>,
    /// Pages of the object that ran, sorted by address.
    pub pages: Vec<HeatPage>,
    /// Lines of the object that ran, sorted by address; only the hottest ones if there are too many.
    pub lines: Vec<HeatLine>,
    /// Functions of the object that ran, the hottest first.
    pub functions: Vec<HeatFunction>,
    /// Blocks in the hottest lines, sorted by address; empty if the evidence is samples.
    pub blocks: Vec<HeatBlock>,
    /// Source files of the lines and blocks, if the object has debug information.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// Share of the execution in the hottest units, over all objects.
    pub curves: Vec<HeatCurve>,
    /// Share that structures of known sizes could hold at best, over all objects.
    pub marks: Vec<HeatMark>,
    /// Sets of a 32 KiB L1i cache with 8 ways, over all objects.
    pub sets: Vec<HeatSet>,
    /// Lines per set.
    pub ways: u32,
    /// Parts that were left out to limit the size, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cut: Vec<String>,
}

/// A section of code.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeatSection {
    /// Name of the section, such as `.text`.
    pub name: String,
    /// Linked address.
    pub begin: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// Its share of the execution.
    pub share: f64,
    /// Lines of it that ran.
    pub lines: u64,
}

/// A page of 4 KiB that ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeatPage {
    /// Linked address.
    pub address: u64,
    /// Its share of the execution.
    pub share: f64,
    /// Lines of it that ran.
    pub lines: u32,
    /// Bytes of it that ran; 0 if the evidence is samples, which do not show it.
    pub bytes_used: u32,
}

/// A line of 64 B that ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeatLine {
    /// Linked address.
    pub address: u64,
    /// Its share of the execution.
    pub share: f64,
    /// Bit mask of the bytes that ran; bit 0 is the first byte. If the evidence is samples, a set bit means that a sample was taken there,
    /// at the beginning of an instruction. The mask is hex, since not every JSON reader accepts 64 bits.
    #[serde(with = "hex")]
    pub used: u64,
    /// Source position of the first of these bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<HeatPlace>,
}

impl HeatLine {
    /// Number of its bytes that ran.
    pub fn bytes_used(&self) -> u32 {
        self.used.count_ones()
    }

    /// The first of its bytes that ran.
    pub fn first_used(&self) -> u64 {
        self.address.saturating_add(u64::from(self.used.trailing_zeros().min(63)))
    }
}

/// A function that ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeatFunction {
    /// The name, demangled if it was mangled.
    pub name: String,
    /// Linked address.
    pub begin: u64,
    /// Length in bytes; 0 if the symbol does not state it.
    pub bytes: u64,
    /// Its share of the execution.
    pub share: f64,
    /// Rank from 1, the hottest.
    pub rank: u64,
}

/// A block of instructions that ran.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeatBlock {
    /// Linked address.
    pub address: u64,
    /// Length in bytes.
    pub bytes: u32,
    /// Instructions in it.
    pub instructions: u32,
    /// Number of executions.
    pub count: u64,
    /// Source position of its first instruction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<HeatPlace>,
}

/// A position in a source file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeatPlace {
    /// Index in [`HeatSource::files`].
    pub file: u32,
    /// Line number from 1.
    pub line: u32,
}

/// Share of the execution in the hottest units.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeatCurve {
    /// Size of a unit in bytes.
    pub unit_bytes: u64,
    /// Points in ascending order.
    pub points: Vec<HeatPoint>,
}

/// A point of such a curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HeatPoint {
    /// This many of the hottest units
    pub units: u64,
    /// have this share of the execution.
    pub share: f64,
}

/// Share that a structure would hold if it always held the hottest units.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HeatMark {
    /// Its name.
    pub structure: String,
    /// Bytes per entry.
    pub unit_bytes: u64,
    /// Number of entries.
    pub units: u64,
    /// Share of the execution in that number of the hottest units.
    pub share: f64,
}

/// A set of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HeatSet {
    /// Number of its lines among those with 99 % of the execution.
    pub lines: u32,
    /// Its share of the execution.
    pub share: f64,
}

impl HeatSource {
    /// Shares by unit, from pages if they are fine enough. The number of a unit is its address divided by its size. The size must be a
    /// power of two and at least a line.
    pub fn cells(&self, unit_bytes: u64) -> BTreeMap<u64, f64> {
        let mut cells = BTreeMap::new();
        let mut add =
            |address: u64, share: f64| *cells.entry(address / unit_bytes.max(1)).or_insert(0.0) += share;
        if unit_bytes >= HEAT_PAGE_BYTES {
            self.pages.iter().for_each(|page| add(page.address, page.share));
        } else {
            self.lines.iter().for_each(|line| add(line.address, line.share));
        }
        cells
    }

    /// The function at an address, among the listed functions.
    pub fn function_at(&self, address: u64) -> Option<&HeatFunction> {
        let reaches = |function: &&HeatFunction| {
            function.begin <= address && address - function.begin < function.bytes.max(1)
        };
        self.functions.iter().find(reaches)
    }

    /// The section at an address.
    pub fn section_at(&self, address: u64) -> Option<&HeatSection> {
        let holds =
            |section: &&HeatSection| section.begin <= address && address - section.begin < section.bytes;
        self.sections.iter().find(holds)
    }

    /// The full path of a position's file. `None` if a saved record names a file that it does not hold.
    pub fn file_of(&self, place: HeatPlace) -> Option<&str> {
        self.files.get(place.file as usize).map(String::as_str)
    }

    /// The smallest number of pages that hold this share of the object's execution. `None` if the listed pages hold less, because cold pages
    /// were left out, or nothing ran.
    pub fn pages_with(&self, share: f64) -> Option<u64> {
        let mut shares: Vec<f64> = self.pages.iter().map(|page| page.share).collect();
        shares.sort_by(|left, right| right.total_cmp(left));
        let enough = share * shares.iter().sum::<f64>().max(self.share);
        let mut sum = 0.0;
        // Sums of shares differ in their last bits.
        let is_enough = |page: &f64| {
            sum += page;
            sum >= enough * (1.0 - 1e-9)
        };
        let last = shares.iter().position(is_enough)?;
        (enough > 0.0).then_some(last as u64 + 1)
    }

    /// Whether the executed bytes are known. Samples show where time goes, but not which other bytes ran.
    pub fn knows_bytes(&self) -> bool {
        self.evidence != Evidence::Sampled
    }

    /// The last part of the object's path.
    pub fn object_name(&self) -> &str {
        self.object.as_deref().map_or("code of no file", |path| path.rsplit('/').next().unwrap_or(path))
    }

    /// Mean number of bytes that ran per touched line of the object. It is computed from pages, since the list of lines may be incomplete.
    /// `None` if unknown.
    pub fn bytes_used_of_a_line(&self) -> Option<f64> {
        let sums = self.pages.iter().fold((0_u64, 0_u64), |(used, lines), page| {
            (used + u64::from(page.bytes_used), lines + u64::from(page.lines))
        });
        (sums.1 > 0 && self.knows_bytes()).then(|| sums.0 as f64 / sums.1 as f64)
    }
}

impl Heatmap {
    /// The hottest cell of all sides, which is the top of the common scale.
    pub fn most(&self, unit_bytes: u64) -> f64 {
        self.sides.iter().flat_map(|side| side.cells(unit_bytes).into_values()).fold(0.0, f64::max)
    }

    /// The smallest unit at which each side fits into this many non-empty rows with this many cells.
    pub fn unit_for(&self, rows: usize, columns: u64) -> u64 {
        let fits = |unit: &u64| {
            self.sides.iter().all(|side| {
                let mut touched: Vec<u64> =
                    side.cells(*unit).into_keys().map(|cell| cell / columns).collect();
                touched.dedup();
                touched.len() <= rows
            })
        };
        (6..40).map(|bits| 1_u64 << bits).find(fits).unwrap_or(1 << 40)
    }
}

/// Position of a share on the scale, 0 to 1. The scale is logarithmic; [`HEAT_DECADES`] below the top is 0.
pub fn heat_of(share: f64, most: f64) -> f64 {
    if share <= 0.0 || most <= 0.0 {
        return 0.0;
    }
    (1.0 + (share / most).log10() / HEAT_DECADES).clamp(0.0, 1.0)
}

/// Gives functions that a compiler or BOLT has split into hot and cold parts one name again: `f.cold`, `f.cold.0`, `f.warm`. Names that LTO
/// made unique (`f.llvm.123`) lose their number, since it differs between builds.
pub fn joined_name(name: &str) -> &str {
    let cut =
        [".cold", ".warm", ".llvm.", " [clone .cold", " [clone .warm", " (.cold", " (.warm", " (.llvm."];
    let places = cut.iter().filter_map(|mark| name.find(mark)).filter(|place| *place > 0);
    places.min().map_or(name, |place| &name[..place])
}

mod hex {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    pub(super) fn serialize<S: Serializer>(value: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{value:016x}"))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map_err(|_| D::Error::custom(format!("{text} is not a hex mask")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envelope::Envelope;

    fn side(lines: &[(u64, f64)], pages: &[(u64, f64)]) -> HeatSource {
        HeatSource {
            title: "x".to_owned(),
            evidence: Evidence::Simulated,
            instructions: 10,
            object: Some("/bin/x".to_owned()),
            build_id: None,
            share: 1.0,
            others: Vec::new(),
            sections: Vec::new(),
            pages: pages
                .iter()
                .map(|&(address, share)| HeatPage { address, share, lines: 1, bytes_used: 9 })
                .collect(),
            lines: lines
                .iter()
                .map(|&(address, share)| HeatLine { address, share, used: u64::MAX, source: None })
                .collect(),
            functions: vec![HeatFunction { name: "f".to_owned(), begin: 64, bytes: 70, share: 1.0, rank: 1 }],
            blocks: Vec::new(),
            files: Vec::new(),
            curves: Vec::new(),
            marks: Vec::new(),
            sets: Vec::new(),
            ways: 8,
            cut: Vec::new(),
        }
    }

    #[test]
    fn both_sides_have_one_scale_and_one_unit() {
        let one = side(&[(0, 0.25), (64, 0.5), (128, 0.25)], &[(0, 1.0)]);
        let other = side(&[(0, 0.875), (4096 * 9, 0.125)], &[(0, 0.875), (4096 * 9, 0.125)]);
        let map = Heatmap { sides: vec![one, other], notes: Vec::new() };
        assert_eq!((map.most(64), map.most(128), map.most(4096)), (0.875, 0.875, 1.0));
        assert_eq!(map.sides[0].cells(128), BTreeMap::from([(0, 0.75), (1, 0.25)]));
        // One row reaches from page 0 to page 9.
        assert_eq!((map.unit_for(2, 4), map.unit_for(1, 4)), (64, 4096 * 4));
        assert_eq!(map.sides[1].bytes_used_of_a_line(), Some(9.0));
        let sampled = HeatSource { evidence: Evidence::Sampled, ..map.sides[1].clone() };
        assert_eq!(sampled.bytes_used_of_a_line(), None);
        assert_eq!(map.sides[0].function_at(133).map(|found| found.rank), Some(1));
        assert!(map.sides[0].function_at(134).is_none() && map.sides[0].function_at(63).is_none());
    }

    #[test]
    fn the_hottest_pages_hold_most_of_the_execution() {
        let pages: Vec<(u64, f64)> =
            (0..10).map(|page| (4096 * page, if page < 2 { 0.45 } else { 0.0125 })).collect();
        let found = side(&[], &pages);
        assert_eq!(
            (found.pages_with(0.9), found.pages_with(0.99), found.pages_with(1.0)),
            (Some(2), Some(10), Some(10))
        );
        // Half of the execution lies in pages that the record lacks.
        let cut = HeatSource { pages: found.pages[..1].to_vec(), ..found };
        assert_eq!((cut.pages_with(0.4), cut.pages_with(0.99)), (Some(1), None));
        assert_eq!(side(&[], &[]).pages_with(0.99), None);
    }

    #[test]
    fn five_powers_of_ten_below_the_top_are_the_bottom() {
        assert_eq!((heat_of(0.5, 0.5), heat_of(0.5e-5, 0.5), heat_of(1e-9, 0.5)), (1.0, 0.0, 0.0));
        assert!((heat_of(0.5e-1, 0.5) - 0.8).abs() < 1e-12);
        assert_eq!((heat_of(0.0, 0.5), heat_of(0.5, 0.0)), (0.0, 0.0));
    }

    #[test]
    fn halves_of_a_function_are_one() {
        for name in ["f", "f.cold", "f.cold.0", "f.warm", "f.llvm.123", "f (.cold.1)", "f [clone .cold]"] {
            assert_eq!(joined_name(name), "f");
        }
        assert_eq!(joined_name(".cold"), ".cold");
        assert_eq!(joined_name("f.part.0"), "f.part.0");
    }

    #[test]
    fn a_record_is_read_again_to_the_last_bit() {
        let map = Heatmap { sides: vec![side(&[(1 << 46, 0.1)], &[])], notes: vec!["n".to_owned()] };
        let text = Envelope::new(map.clone()).to_text().unwrap();
        assert!(text.contains("\"ffffffffffffffff\"") && text.contains("\"kind\": \"heatmap\""), "{text}");
        assert_eq!(Envelope::<Heatmap>::parse(&text).unwrap(), map);
        assert!(
            !text.contains("source") && !text.contains("files"),
            "nothing is said where nothing is known: {text}"
        );
        let broken = text.replace("ffffffffffffffff", "many");
        assert!(
            Envelope::<Heatmap>::parse(&broken).unwrap_err().to_string().contains("many is not a hex mask")
        );
    }
}
