//! The map of one object's code: pages, lines, functions and blocks with their shares of the execution. The code is pure.

mod classic;
mod sources;

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use hone_record::{
    Evidence, HeatBlock, HeatCurve, HeatFunction, HeatLine, HeatMark, HeatPage, HeatPoint, HeatSection,
    HeatSet, HeatSource, ObjectShare, demangled,
};

use crate::cache::{LINE_BITS, MODELS, WITH_DATA};
use crate::image::Image;
use crate::model::{Block, PAGE_BITS, Part, Run, Units, bytes_of_lines, conflicts_of, heat, objects};

pub use classic::{Classic, classic};
pub use sources::add_sources;

/// Limits of the listed parts, so that a page of a program of hundreds of megabytes still opens at once.
const MOST_LINES: usize = 20_000;
/// See [`MOST_LINES`].
const MOST_PAGES: usize = 20_000;
/// See [`MOST_LINES`].
const MOST_FUNCTIONS: usize = 3_000;
/// See [`MOST_LINES`]. These blocks are in the hottest lines.
const MOST_BLOCKS: usize = 8_000;
/// Number of other objects in the list.
const MOST_OBJECTS: usize = 12;
/// Points of a curve per power of two.
const POINTS_OF_AN_OCTAVE: u32 = 8;

/// The object of the map, and its texts.
#[derive(Debug, Clone)]
pub struct HeatmapSettings {
    /// The program that ran.
    pub title: String,
    /// Evidence of the counts.
    pub evidence: Evidence,
    /// Index of the object; `None` for code without a file.
    pub object: Option<u32>,
}

/// The object with most of the execution; `None` if that is code without a file, or nothing ran.
pub fn busiest(run: &Run, part: &Part) -> Option<u32> {
    let path = objects(run, part).into_iter().find_map(|object| object.path)?;
    run.objects.iter().position(|object| object.path == path).map(|index| index as u32)
}

/// The map of one object.
pub fn heatmap(run: &Run, part: &Part, asked: &HeatmapSettings) -> HeatSource {
    let instructions = part.instructions(run);
    let used = bytes_of_lines(run, part);
    let map = Map { run, part, object: asked.object, used, all: instructions.max(1) as f64 };
    let object = asked.object.and_then(|index| run.objects.get(index as usize));
    let image = object.and_then(|object| object.image.as_ref());
    let path = object.map(|object| object.path.clone());
    let (own, others): (Vec<ObjectShare>, Vec<ObjectShare>) =
        objects(run, part).into_iter().partition(|share| share.path == path);
    let lines = heat(run, part, LINE_BITS);
    let pages = heat(run, part, PAGE_BITS);
    let sets = conflicts_of(&lines);
    let mut cut = Vec::new();
    let kept = map.lines(&lines, &mut cut);
    HeatSource {
        title: asked.title.clone(),
        evidence: asked.evidence,
        instructions,
        build_id: image.and_then(|image| image.build_id.clone()),
        object: path,
        share: own.iter().map(|share| share.share).sum(),
        others: others.into_iter().take(MOST_OBJECTS).collect(),
        sections: image.map(|image| map.sections(image, &lines)).unwrap_or_default(),
        pages: map.pages(&pages, asked.evidence, &mut cut),
        functions: image.map(|image| map.functions(image, &mut cut)).unwrap_or_default(),
        blocks: if asked.evidence == Evidence::Sampled { Vec::new() } else { map.blocks(&kept, &mut cut) },
        lines: kept,
        files: Vec::new(),
        curves: vec![curve(&lines, LINE_BITS), curve(&pages, PAGE_BITS)],
        marks: marks(&lines, &pages),
        sets: sets.lines.iter().zip(&sets.share).map(|(&lines, &share)| HeatSet { lines, share }).collect(),
        ways: sets.ways,
        cut,
    }
}

struct Map<'a> {
    run: &'a Run,
    part: &'a Part,
    object: Option<u32>,
    /// The bytes that ran of each line.
    used: Units<u64>,
    /// Executed instructions.
    all: f64,
}

impl Map<'_> {
    /// Blocks of the object that ran, with their counts.
    fn ran(&self) -> impl Iterator<Item = (&Block, u64)> {
        let counted =
            self.run.blocks.iter().enumerate().map(|(index, block)| (block, self.part.count(index)));
        counted.filter(|(block, count)| *count > 0 && block.size > 0 && block.object == self.object)
    }

    /// Units of the object, the hottest first, at most `most`.
    fn hottest(&self, heat: &Units<f64>, most: usize, what: &str, cut: &mut Vec<String>) -> Vec<(u64, f64)> {
        let own = heat.iter().filter(|((object, _), _)| *object == self.object);
        let mut units: Vec<(u64, f64)> = own.map(|((_, unit), heat)| (*unit, heat / self.all)).collect();
        units.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
        if units.len() > most {
            let lost: f64 = units[most..].iter().map(|(_, share)| share).sum();
            cut.push(format!(
                "{} of {} {what} are left out, the coldest, with {:.3} % of the execution",
                units.len() - most,
                units.len(),
                100.0 * lost
            ));
            units.truncate(most);
        }
        units
    }

    fn lines(&self, heat: &Units<f64>, cut: &mut Vec<String>) -> Vec<HeatLine> {
        let line = |(line, share): (u64, f64)| HeatLine {
            address: line << LINE_BITS,
            share,
            used: self.used.get(&(self.object, line)).copied().unwrap_or(0),
            source: None,
        };
        let mut lines: Vec<HeatLine> =
            self.hottest(heat, MOST_LINES, "lines", cut).into_iter().map(line).collect();
        lines.sort_by_key(|line| line.address);
        lines
    }

    fn pages(&self, heat: &Units<f64>, evidence: Evidence, cut: &mut Vec<String>) -> Vec<HeatPage> {
        // A sample marks one instruction. Its neighbours may have run as well.
        let knows_bytes = evidence != Evidence::Sampled;
        let mut used: HashMap<u64, (u32, u32)> = HashMap::new();
        for ((object, line), mask) in &self.used {
            if *object == self.object {
                let sum = used.entry(line >> (PAGE_BITS - LINE_BITS)).or_default();
                *sum = (sum.0 + 1, sum.1 + mask.count_ones());
            }
        }
        let page = |(page, share): (u64, f64)| {
            let (lines, bytes_used) = used.get(&page).copied().unwrap_or_default();
            let bytes_used = if knows_bytes { bytes_used } else { 0 };
            HeatPage { address: page << PAGE_BITS, share, lines, bytes_used }
        };
        let mut pages: Vec<HeatPage> =
            self.hottest(heat, MOST_PAGES, "pages", cut).into_iter().map(page).collect();
        pages.sort_by_key(|page| page.address);
        pages
    }

    fn sections(&self, image: &Image, heat: &Units<f64>) -> Vec<HeatSection> {
        let of = |address: u64| {
            let behind = image.sections.partition_point(|section| section.address <= address);
            let index = behind.checked_sub(1)?;
            let section = &image.sections[index];
            (address - section.address < section.size).then_some(index)
        };
        let mut shares = vec![0.0; image.sections.len()];
        for (block, count) in self.ran() {
            if let Some(index) = of(block.address) {
                shares[index] += count as f64 * f64::from(block.instructions) / self.all;
            }
        }
        let mut lines = vec![0_u64; image.sections.len()];
        for (object, line) in heat.keys() {
            // A line belongs to the section of its last byte: a section that begins within a line replaces the one before.
            let last = (line << LINE_BITS) | ((1 << LINE_BITS) - 1);
            if let Some(index) = of(last).or_else(|| of(line << LINE_BITS)).filter(|_| *object == self.object)
            {
                lines[index] += 1;
            }
        }
        let told =
            image.sections.iter().zip(shares).zip(lines).map(|((section, share), lines)| HeatSection {
                name: section.name.clone(),
                begin: section.address,
                bytes: section.size,
                share,
                lines,
            });
        told.collect()
    }

    fn functions(&self, image: &Image, cut: &mut Vec<String>) -> Vec<HeatFunction> {
        let mut sums: HashMap<u64, f64> = HashMap::new();
        let mut walk = image.walk();
        for (block, count) in self.ran() {
            if let Some(function) = walk.function_at(block.address) {
                *sums.entry(function.address).or_insert(0.0) += count as f64 * f64::from(block.instructions);
            }
        }
        let mut functions: Vec<(u64, f64)> = sums.into_iter().collect();
        functions.sort_by(|left, right| right.1.total_cmp(&left.1).then(left.0.cmp(&right.0)));
        if functions.len() > MOST_FUNCTIONS {
            cut.push(format!(
                "{} of {} functions are left out, the coldest",
                functions.len() - MOST_FUNCTIONS,
                functions.len()
            ));
        }
        let told = functions.into_iter().take(MOST_FUNCTIONS).enumerate();
        told.filter_map(|(index, (address, sum))| {
            let function = image.function_at(address)?;
            Some(HeatFunction {
                name: demangled(&function.name),
                begin: address,
                bytes: function.size,
                share: sum / self.all,
                rank: index as u64 + 1,
            })
        })
        .collect()
    }

    /// Blocks in the listed lines, those in the hottest lines first.
    fn blocks(&self, lines: &[HeatLine], cut: &mut Vec<String>) -> Vec<HeatBlock> {
        let told: HashMap<u64, f64> =
            lines.iter().map(|line| (line.address >> LINE_BITS, line.share)).collect();
        let hottest = |block: &Block| {
            let lines = block.address >> LINE_BITS..=block.end().saturating_sub(1) >> LINE_BITS;
            lines.filter_map(|line| told.get(&line).copied()).fold(0.0, f64::max)
        };
        let mut blocks: Vec<(f64, &Block, u64)> =
            self.ran().map(|(block, count)| (hottest(block), block, count)).collect();
        blocks.sort_by(|left, right| right.0.total_cmp(&left.0).then(left.1.address.cmp(&right.1.address)));
        if blocks.len() > MOST_BLOCKS {
            let lines: HashSet<u64> =
                blocks[..MOST_BLOCKS].iter().map(|(_, block, _)| block.address >> LINE_BITS).collect();
            cut.push(format!(
                "{} of {} blocks are left out, those in colder lines; {} lines have all their blocks",
                blocks.len() - MOST_BLOCKS,
                blocks.len(),
                lines.len()
            ));
            blocks.truncate(MOST_BLOCKS);
        }
        blocks.sort_by_key(|(_, block, _)| (block.address, block.size));
        let told = blocks.into_iter().map(|(_, block, count)| HeatBlock {
            address: block.address,
            bytes: block.size,
            instructions: block.instructions,
            count,
            source: None,
        });
        told.collect()
    }
}

/// Shares of units, the hottest first.
fn falling(heat: &Units<f64>) -> Vec<f64> {
    let mut shares: Vec<f64> = heat.values().copied().collect();
    shares.sort_by_key(|share| Reverse(share.to_bits()));
    let all: f64 = shares.iter().sum();
    shares.iter_mut().for_each(|share| *share /= all);
    shares
}

fn curve(heat: &Units<f64>, bits: u32) -> HeatCurve {
    let shares = falling(heat);
    let (mut points, mut sum, mut next) = (Vec::new(), 0.0, 1.0_f64);
    for (index, share) in shares.iter().enumerate() {
        sum += share;
        let units = index as u64 + 1;
        if units as f64 >= next || index + 1 == shares.len() {
            points.push(HeatPoint { units, share: f64::min(sum, 1.0) });
            next = (units as f64 * (1.0 / f64::from(POINTS_OF_AN_OCTAVE)).exp2()).max(units as f64 + 1.0);
        }
    }
    HeatCurve { unit_bytes: 1 << bits, points }
}

/// Shares that the modelled structures would hold if they always held the hottest units. Real structures hold less.
fn marks(lines: &Units<f64>, pages: &Units<f64>) -> Vec<HeatMark> {
    let (lines, pages) = (falling(lines), falling(pages));
    let known = MODELS[..WITH_DATA].iter().filter_map(|model| match model.bits {
        LINE_BITS => Some((model, &lines)),
        PAGE_BITS => Some((model, &pages)),
        _ => None,
    });
    let mark = known.map(|(model, shares)| {
        let units = u64::from(model.sets) * u64::from(model.ways);
        HeatMark {
            structure: model.name.to_owned(),
            unit_bytes: 1 << model.bits,
            units,
            share: shares.iter().take(units as usize).sum::<f64>().min(1.0),
        }
    });
    mark.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Function, Section};
    use crate::model::Object;
    use crate::model::tests::{block, run};

    pub(super) fn asked(object: Option<u32>) -> HeatmapSettings {
        HeatmapSettings { title: "t".to_owned(), evidence: Evidence::Simulated, object }
    }

    fn function(address: u64, size: u64, name: &str) -> Function {
        Function { address, size, name: name.to_owned() }
    }

    /// 1000 instructions: 600 in `hot`, 200 in `warm`, which lies over the border of two lines, 200 of another object.
    pub(super) fn known() -> Run {
        let other = Block { object: Some(1), ..block(0x40, 64, 20) };
        let blocks =
            [(block(0x1000, 32, 6), 100), (block(0x2030, 32, 4), 50), (other, 10), (block(0x3000, 8, 2), 0)];
        let mut run = run(&blocks, &[]);
        let mut image = Image::default();
        image.build_id = Some("ab".to_owned());
        image.functions = vec![function(0x1000, 64, "_ZN3hot2itEv"), function(0x2000, 256, "warm")];
        let section = |name: &str, address, size| Section { name: name.to_owned(), address, size };
        image.sections = vec![section(".text", 0x1000, 0x1080), section(".text.cold", 0x3000, 0x1000)];
        run.objects = vec![
            Object { path: "/bin/x".to_owned(), image: Some(image) },
            Object { path: "/lib/y".to_owned(), image: None },
        ];
        run
    }

    #[test]
    fn shares_are_of_all_that_ran() {
        let run = known();
        assert_eq!(busiest(&run, &run.parts[0]), Some(0));
        let map = heatmap(&run, &run.parts[0], &asked(Some(0)));
        assert_eq!((map.instructions, map.share, map.build_id.as_deref()), (1_000, 0.8, Some("ab")));
        let lines: Vec<_> =
            map.lines.iter().map(|line| (line.address, line.share, line.bytes_used())).collect();
        assert_eq!(lines, [(0x1000, 0.6, 32), (0x2000, 0.1, 16), (0x2040, 0.1, 16)]);
        assert_eq!(map.lines[1].used, 0xffff << 48);
        let pages: Vec<_> =
            map.pages.iter().map(|page| (page.address, page.lines, page.bytes_used)).collect();
        assert_eq!(pages, [(0x1000, 1, 32), (0x2000, 2, 32)]);
        let functions: Vec<_> = map
            .functions
            .iter()
            .map(|function| (function.name.as_str(), function.share, function.rank))
            .collect();
        assert_eq!(functions, [("hot::it()", 0.6, 1), ("warm", 0.2, 2)]);
        let sections: Vec<_> = map
            .sections
            .iter()
            .map(|section| (section.name.as_str(), section.share, section.lines))
            .collect();
        assert_eq!(sections, [(".text", 0.8, 3), (".text.cold", 0.0, 0)]);
        assert_eq!(
            map.blocks[0],
            HeatBlock { address: 0x1000, bytes: 32, instructions: 6, count: 100, source: None }
        );
        assert_eq!(map.blocks.len(), 2, "what never ran is no block");
        assert_eq!(map.others, [ObjectShare { path: Some("/lib/y".to_owned()), share: 0.2 }]);
        assert_eq!(map.cut, Vec::<String>::new());
    }

    #[test]
    fn samples_know_no_bytes_and_no_blocks() {
        let run = known();
        let asked = HeatmapSettings { evidence: Evidence::Sampled, ..asked(Some(0)) };
        let map = heatmap(&run, &run.parts[0], &asked);
        assert_eq!((map.blocks.len(), map.pages[0].bytes_used, map.bytes_used_of_a_line()), (0, 0, None));
        assert_eq!(map.pages[0].lines, 1);
    }

    #[test]
    fn curve_and_marks_are_of_all_objects() {
        let run = known();
        let map = heatmap(&run, &run.parts[0], &asked(Some(0)));
        let points: Vec<(u64, f64)> =
            map.curves[0].points.iter().map(|point| (point.units, point.share)).collect();
        let wanted = [(1, 0.6), (2, 0.8), (3, 0.9), (4, 1.0)];
        assert_eq!(points.len(), 4);
        assert!(
            points.iter().zip(wanted).all(|(is, of)| is.0 == of.0 && (is.1 - of.1).abs() < 1e-9),
            "{points:?}"
        );
        assert_eq!(map.curves[1].points.len(), 3);
        assert_eq!(map.marks.len(), 7, "structures of lines and of pages");
        assert_eq!((map.marks[0].units, map.marks[0].unit_bytes), (512, 64));
        assert!((map.marks[0].share - 1.0).abs() < 1e-9);
        assert_eq!(map.sets.len(), 64);
        assert_eq!((map.sets[0].lines, map.sets[1].lines), (2, 2));
    }

    #[test]
    fn what_is_left_out_is_the_coldest_and_is_told() {
        let blocks: Vec<_> = (0..25_000_u64).map(|at| (block(at << 6, 64, 4), 25_000 - at)).collect();
        let big = run(&blocks, &[]);
        let map = heatmap(&big, &big.parts[0], &asked(Some(0)));
        assert_eq!((map.lines.len(), map.blocks.len()), (MOST_LINES, MOST_BLOCKS));
        assert_eq!(map.lines.last().unwrap().address, (MOST_LINES as u64 - 1) << 6);
        assert_eq!(map.blocks.last().unwrap().address, (MOST_BLOCKS as u64 - 1) << 6);
        assert!(map.cut[0].starts_with("5000 of 25000 lines are left out"), "{:?}", map.cut);
        let pages: f64 = map.pages.iter().map(|page| page.share).sum();
        assert!((pages - 1.0).abs() < 1e-9, "pages are of all");
        assert!(map.curves[0].points.len() < 200, "{}", map.curves[0].points.len());
    }

    #[test]
    fn nothing_that_ran_is_an_empty_map() {
        let none = run(&[(block(0, 64, 4), 0)], &[]);
        assert_eq!(busiest(&none, &none.parts[0]), None);
        let map = heatmap(&none, &none.parts[0], &asked(None));
        assert_eq!((map.lines.len(), map.curves[0].points.len(), map.marks[0].share), (0, 0, 0.0));
    }
}
