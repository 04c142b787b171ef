//! A heatmap in letters, one for each block of a size that you choose: a dot if no code ran, the section's letter if some did, in
//! lower case if it is cold.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hone_format::{exact_bytes, percent};
use hone_record::{HEAT_DECADES, HeatSource, Heatmap, heat_of};

use crate::heatmap::{Look, head, name_of};

/// Blocks per row.
const ROW: u64 = 64;
/// A longer gap of empty rows becomes one empty line, as in `llvm-bolt-heatmap`.
const GAP: u64 = 32;
/// Terminal colours from cold to hot. The last two are yellow and red, as in `llvm-bolt-heatmap`.
const COLOURS: [u8; 6] = [27, 39, 43, 112, 226, 196];
/// Letters of sections. `O` is code outside all sections.
const LETTERS: &[u8] = b"ABCDEFGHIJKLMNPQRSTUVWXYZ";

/// The map in blocks of this size. Both sides use one scale.
pub fn text(map: &Heatmap, block_bytes: u64, look: &Look) -> String {
    let most = map.most(block_bytes);
    let mut out = String::new();
    for (index, side) in map.sides.iter().enumerate() {
        out.push_str(&head(side, name_of(map, index)));
        out.push('\n');
        rows(side, block_bytes, most, look, &mut out);
        out.push('\n');
    }
    legend(map, block_bytes, most, look, &mut out);
    out
}

fn rows(side: &HeatSource, block_bytes: u64, most: f64, look: &Look, out: &mut String) {
    let mut by_row: BTreeMap<u64, BTreeMap<u64, f64>> = BTreeMap::new();
    for (block, share) in side.cells(block_bytes) {
        by_row.entry(block / ROW).or_default().insert(block % ROW, heat_of(share, most));
    }
    let mut last: Option<u64> = None;
    for (row, cells) in &by_row {
        match last {
            Some(last) if row - last > GAP => out.push('\n'),
            Some(last) => {
                (last + 1..*row).for_each(|row| line(side, row, &BTreeMap::new(), block_bytes, look, out))
            }
            None => {}
        }
        line(side, *row, cells, block_bytes, look, out);
        last = Some(*row);
    }
}

fn line(
    side: &HeatSource,
    row: u64,
    cells: &BTreeMap<u64, f64>,
    block_bytes: u64,
    look: &Look,
    out: &mut String,
) {
    let _ = write!(out, "0x{:010x}: ", row * ROW * block_bytes);
    for column in 0..ROW {
        let begin = (row * ROW + column) * block_bytes;
        match cells.get(&column) {
            None => out.push('.'),
            Some(heat) => out.push_str(&cell(letter(side, begin, block_bytes), *heat, look)),
        }
    }
    out.push('\n');
}

fn band(heat: f64) -> usize {
    ((heat * COLOURS.len() as f64) as usize).min(COLOURS.len() - 1)
}

fn cell(letter: char, heat: f64, look: &Look) -> String {
    let letter = if band(heat) == 0 { letter.to_ascii_lowercase() } else { letter };
    if look.has_colours {
        format!("\u{1b}[38;5;{}m{letter}\u{1b}[0m", COLOURS[band(heat)])
    } else {
        letter.to_string()
    }
}

/// The letter of the section that a block begins in or reaches.
fn letter(side: &HeatSource, begin: u64, block_bytes: u64) -> char {
    let reaches = |section: &hone_record::HeatSection| {
        section.begin < begin + block_bytes && begin < section.begin.saturating_add(section.bytes)
    };
    letter_of(side.sections.iter().position(reaches))
}

fn letter_of(section: Option<usize>) -> char {
    section.map_or('O', |index| char::from(LETTERS[index % LETTERS.len()]))
}

fn legend(map: &Heatmap, block_bytes: u64, most: f64, look: &Look, out: &mut String) {
    let _ = writeln!(
        out,
        "Each letter is {} of code. A dot never ran, or has no sample.",
        exact_bytes(block_bytes)
    );
    let bound = |band: usize| {
        let decades = HEAT_DECADES * (1.0 - band as f64 / COLOURS.len() as f64);
        percent(most / 10_f64.powf(decades))
    };
    for at in 0..COLOURS.len() {
        let heat = (at as f64 + 0.5) / COLOURS.len() as f64;
        let low = if at == 0 { "more than 0 %".to_owned() } else { bound(at) };
        let _ = writeln!(out, "  {}  {low} to {} of the execution", cell('X', heat, look), bound(at + 1));
    }
    for (index, side) in map.sides.iter().enumerate() {
        for (at, section) in side.sections.iter().enumerate() {
            let mark = letter_of(Some(at));
            let end = section.begin.saturating_add(section.bytes);
            let _ = writeln!(
                out,
                "  {}{}/{mark} {} 0x{:x} to 0x{end:x}, {} of the execution",
                name_of(map, index),
                mark.to_ascii_lowercase(),
                section.name,
                section.begin,
                percent(section.share)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_say_section_and_heat() {
        let plain = Look { columns: 80, has_colours: false };
        assert_eq!((cell('A', 0.0, &plain), cell('A', 0.2, &plain)), ("a".to_owned(), "A".to_owned()));
        let coloured = Look { columns: 80, has_colours: true };
        assert_eq!(cell('B', 1.0, &coloured), "\u{1b}[38;5;196mB\u{1b}[0m");
        assert_eq!(cell('B', 0.7, &coloured), "\u{1b}[38;5;226mB\u{1b}[0m");
        assert_eq!((letter_of(None), letter_of(Some(14)), letter_of(Some(25))), ('O', 'P', 'A'));
    }
}
