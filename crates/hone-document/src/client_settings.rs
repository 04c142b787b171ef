//! Settings for people, client by client.

use hone_batch::settings::{Row, Sheet};

use crate::table::table;
use crate::wrapped;

/// All sheets, one after the other.
pub fn text(sheets: &[Sheet]) -> String {
    sheets.iter().map(one).collect::<Vec<_>>().join("\n\n")
}

fn one(sheet: &Sheet) -> String {
    let mut out = format!("{}\n\n", sheet.title);
    out.push_str(&table(&rows(&sheet.rows)));
    for block in &sheet.blocks {
        out.push_str(&format!("\n  {}:\n", block.place));
        block.lines.iter().for_each(|line| out.push_str(&format!("    {line}\n")));
    }
    if !sheet.traps.is_empty() {
        out.push_str("\n  Note:\n");
        sheet.traps.iter().for_each(|trap| out.push_str(&format!("  - {}\n", indented(trap))));
    }
    out.push_str(&format!(
        "\n  Defaults as read in {}. Sources: {}\n",
        sheet.read_in,
        sheet.sources.join("; ")
    ));
    out
}

fn rows(rows: &[Row]) -> Vec<Vec<String>> {
    let head = ["", "the name of the setting", "without it", "with it"].map(str::to_owned).to_vec();
    let row = |row: &Row| {
        let name = if row.name.is_empty() { "none" } else { row.name };
        let value = row.value.clone().unwrap_or_else(|| "can't be set".to_owned());
        vec![row.about.to_owned(), name.to_owned(), row.default.to_owned(), value]
    };
    std::iter::once(head).chain(rows.iter().map(row)).collect()
}

fn indented(text: &str) -> String {
    wrapped(text).replace("\n  ", "\n    ")
}
