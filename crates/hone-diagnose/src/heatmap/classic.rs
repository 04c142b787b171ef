//! The map as `llvm-bolt-heatmap` prints it, for people and scripts that use that form: buckets of 64 B, 256 per row, a letter for the
//! section, six ranges. It has no colours, which are escape sequences. A test compares it with the tool's output, to the last character.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::cache::LINE_BITS;
use crate::image::{Image, Section};
use crate::model::{Part, Run, heat};

/// Buckets per row.
const ROW: u64 = 256;
/// A larger gap in rows becomes one empty line.
const GAP: u64 = 32;
/// Ranges of counts, each a root of the largest one.
const RANGES: u32 = 6;

/// Its three files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classic {
    /// The map.
    pub text: String,
    /// Distribution of counts over buckets: `Bucket counts, Size (KB), CDF (%)`.
    pub curve_csv: String,
    /// Share of each section, and the part of it that ran.
    pub sections_csv: String,
}

/// The map of one object. Counts are executed instructions.
pub fn classic(run: &Run, part: &Part, object: Option<u32>) -> Classic {
    let own = heat(run, part, LINE_BITS).into_iter().filter(|((of, _), _)| *of == object);
    // A bucket with less than one execution still counts as executed.
    let counts: BTreeMap<u64, u64> =
        own.map(|((_, bucket), count)| (bucket, count.round().max(1.0) as u64)).collect();
    let image = object.and_then(|index| run.objects.get(index as usize)?.image.as_ref());
    let none = Image::default();
    let sections = &image.unwrap_or(&none).sections[..];
    Classic {
        text: text(&counts, sections),
        curve_csv: curve(&counts),
        sections_csv: hotness(&counts, sections),
    }
}

fn section_of(sections: &[Section], bucket: u64) -> Option<usize> {
    let (begin, end) = (bucket << LINE_BITS, (bucket + 1) << LINE_BITS);
    sections
        .iter()
        .position(|section| section.address < end && begin < section.address.saturating_add(section.size))
}

/// Letters of sections, in order; `o` is outside all sections.
fn letter(section: Option<usize>) -> char {
    section.map_or('O', |index| char::from(b"ABCDEFGHIJKLMNPQRSTUVWXYZ"[index % 25]))
}

fn text(counts: &BTreeMap<u64, u64>, sections: &[Section]) -> String {
    let most = counts.values().copied().max().unwrap_or(0);
    let bound = |range: u32| (most as f64).powf(f64::from(range) / f64::from(RANGES)) as u64;
    let mut out = "Legend:\n\nRanges:\n".to_owned();
    let mut line = |text: String| out.push_str(&text);
    for range in 1..=RANGES {
        let mark = if range == 1 { 'o' } else { 'O' };
        let low = if range == 1 { 0 } else { bound(range - 1) };
        line(format!("  {mark} : ({low}, {}]\n", bound(range)));
    }
    line("\nSections:\n".to_owned());
    for (index, section) in sections.iter().enumerate() {
        let mark = letter(Some(index));
        let end = section.address.saturating_add(section.size);
        line(format!(
            "  {}/{mark} : {:<10} 0x{:08x}-0x{end:08x}\n",
            mark.to_ascii_lowercase(),
            section.name,
            section.address
        ));
    }
    out.push('\n');
    let digits = digits(counts);
    out.push_str(&columns(digits));
    out.push_str(&rows(counts, sections, bound(1), digits));
    out
}

/// Digits of an address before a row.
fn digits(counts: &BTreeMap<u64, u64>) -> usize {
    if counts.keys().last().is_some_and(|last| last << LINE_BITS > u64::from(u32::MAX)) { 16 } else { 8 }
}

/// Column offsets in hex, one digit below the other, each where it changes.
fn columns(digits: usize) -> String {
    let mut out = String::new();
    for place in (0..5).rev() {
        out.push_str(&" ".repeat(digits + 4));
        let mut last = None;
        for column in 0..ROW {
            let digit = ((column << LINE_BITS) >> (4 * place)) as u32 & 0xf;
            let shown = char::from_digit(digit, 16).filter(|_| last != Some(digit));
            out.push(shown.unwrap_or(' '));
            last = Some(digit);
        }
        out.push('\n');
    }
    out
}

fn rows(counts: &BTreeMap<u64, u64>, sections: &[Section], coldest: u64, digits: usize) -> String {
    let mut by_row: BTreeMap<u64, String> = BTreeMap::new();
    for (&bucket, &count) in counts {
        let row = by_row.entry(bucket / ROW).or_default();
        let at = (bucket % ROW) as usize;
        row.extend(std::iter::repeat_n('.', at - row.len()));
        let mark = letter(section_of(sections, bucket));
        row.push(if count <= coldest { mark.to_ascii_lowercase() } else { mark });
    }
    let mut out = String::new();
    let mut last: Option<u64> = None;
    for (row, marks) in by_row {
        match last {
            Some(last) if row - last > GAP => out.push('\n'),
            Some(last) => (last + 1..row).for_each(|row| push_row(&mut out, row, "", digits)),
            None => {}
        }
        push_row(&mut out, row, &marks, digits);
        last = Some(row);
    }
    out
}

fn push_row(out: &mut String, row: u64, marks: &str, digits: usize) {
    // Writing to a String can't fail.
    let _ = writeln!(out, "0x{:0digits$x}: {marks:.<256}", (row * ROW) << LINE_BITS);
}

fn curve(counts: &BTreeMap<u64, u64>) -> String {
    let mut falling: Vec<u64> = counts.values().copied().collect();
    falling.sort_unstable_by(|left, right| right.cmp(left));
    let all: u64 = falling.iter().fold(0, |sum, count| sum.saturating_add(*count));
    let mut out = "Bucket counts, Size (KB), CDF (%)\n".to_owned();
    let mut sum = 0_u64;
    for (index, count) in falling.iter().enumerate() {
        sum = sum.saturating_add(*count);
        let buckets = index as f64 + 1.0;
        let _ = writeln!(
            out,
            "{}, {:.4}, {:.4}",
            index + 1,
            buckets / 16.0,
            100.0 * sum as f64 / all.max(1) as f64
        );
    }
    out
}

fn hotness(counts: &BTreeMap<u64, u64>, sections: &[Section]) -> String {
    let all: u64 = counts.values().fold(0, |sum, count| sum.saturating_add(*count));
    let mut out =
        "Section Name, Begin Address, End Address, Percentage Hotness, Utilization Pct, Partition Score\n"
            .to_owned();
    for (index, section) in sections.iter().enumerate() {
        let end = section.address.saturating_add(section.size);
        let (first, last) = (section.address >> LINE_BITS, end.saturating_sub(1) >> LINE_BITS);
        // A bucket across a border counts only for the section before it.
        let within =
            || counts.range(first..=last).filter(|(bucket, _)| section_of(sections, **bucket) == Some(index));
        let hot =
            within().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count)) as f64 / all.max(1) as f64;
        let used = within().count() as f64 / (last - first + 1) as f64;
        let _ = writeln!(
            out,
            "{}, 0x{:x}, 0x{end:x}, {:.4}, {:.4}, {:.4}",
            section.name,
            section.address,
            100.0 * hot,
            100.0 * used,
            hot * used
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::tests::known;
    use super::*;
    use crate::model::tests::{block, run};

    #[test]
    fn the_form_is_that_of_the_tool() {
        let run = known();
        let found = classic(&run, &run.parts[0], Some(0));
        // Counts are 600, 100 and 100; the ranges are roots of 600.
        let head = "Legend:\n\nRanges:\n  o : (0, 2]\n  O : (2, 8]\n  O : (8, 24]\n  O : (24, 71]\n  O : (71, 206]\n  O : (206, 600]\n";
        assert!(found.text.starts_with(head), "{}", found.text);
        assert!(found.text.contains("  a/A : .text      0x00001000-0x00002080\n"), "{}", found.text);
        let row = found.text.lines().last().unwrap();
        assert_eq!(row.len(), "0x00000000: ".len() + 256);
        assert!(row.starts_with("0x00000000: ") && row[12 + 0x40..].starts_with('A'), "{row}");
        assert_eq!(&row[12 + 0x80..12 + 0x83], "AA.");
        assert_eq!(
            found.curve_csv,
            "Bucket counts, Size (KB), CDF (%)\n1, 0.0625, 75.0000\n2, 0.1250, 87.5000\n3, 0.1875, 100.0000\n"
        );
        let sections: Vec<&str> = found.sections_csv.lines().collect();
        // 3 of the 66 lines of .text.
        assert_eq!(sections[1], ".text, 0x1000, 0x2080, 100.0000, 4.5455, 0.0455");
        assert_eq!(sections[2], ".text.cold, 0x3000, 0x4000, 0.0000, 0.0000, 0.0000");
    }

    #[test]
    fn gaps_collapse_and_the_coldest_is_small() {
        let far = [
            (block(0, 64, 1), 1),
            (block(64, 64, 1), 1_000_000),
            (block(2 * 16_384, 64, 1), 50),
            (block(40 * 16_384, 64, 1), 50),
        ];
        let run = run(&far, &[]);
        let found = classic(&run, &run.parts[0], Some(0));
        let rows: Vec<&str> = found.text.split("Sections:\n\n").nth(1).unwrap().lines().skip(5).collect();
        assert_eq!(rows.len(), 5, "{rows:?}");
        assert!(rows[0].starts_with("0x00000000: oO.."), "{}", rows[0]);
        assert!(rows[1].starts_with("0x00004000: ....") && rows[3].is_empty());
        assert!(rows[4].starts_with("0x000a0000: O..."), "{}", rows[4]);
    }

    #[test]
    fn nothing_is_an_empty_map() {
        let found = classic(&Run::default(), &Part::default(), None);
        assert_eq!(found.text.lines().count(), 9 + 1 + 2 + 5, "{}", found.text);
        assert_eq!(found.curve_csv.lines().count(), 1);
    }
}
