//! Reads and writes `tidy.toml`, the record of the ratchet.

use std::collections::BTreeMap;

use super::measures::{Counts, Figures};

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Record {
    /// The commit after which subjects must have their form.
    pub(crate) base: String,
    pub(crate) figures: Figures,
}

const HEAD: &str = "\
# The debts of the source tree. `tests/tidy.rs` compares the sources with these numbers, which may only fall.
# `HONE_TIDY=write cargo test -p hone --test tidy` lowers them, and never raises one. To raise a number, edit it
# by hand and give the reason in the commit.

# Subjects of commits after this one must have the form `area: imperative`.
";

impl Record {
    pub(crate) fn parse(text: &str) -> Result<Self, toml::de::Error> {
        let table: toml::Table = text.parse()?;
        let lines = counts(table.get("lines"));
        let line_count = |name: &str| lines.get(name).copied().unwrap_or_default();
        let figures = Figures {
            program_lines: line_count("hone"),
            production_lines: line_count("production"),
            circles: entries(table.get("circles")).map(|(name, sizes)| (name, list(sizes))).collect(),
            long_files: counts(table.get("files")),
            long_functions: counts(table.get("functions")),
            names: entries(table.get("names")).map(|(name, of)| (name, counts(Some(of)))).collect(),
        };
        let base = table.get("base").and_then(toml::Value::as_str).unwrap_or_default();
        Ok(Self { base: base.to_owned(), figures })
    }

    /// The file's text. It is sorted and has one number per line, so that merges seldom conflict.
    pub(crate) fn text(&self) -> String {
        let figures = &self.figures;
        let mut text = format!("{HEAD}base = {:?}\n", self.base);
        let lines = [("hone", figures.program_lines), ("production", figures.production_lines)];
        text += "\n# `hone` counts crates/hone/src including tests. `production` counts all crates excluding tests; 500 more are allowed.\n";
        text += &section("lines", lines.map(|(name, lines)| (name, lines.to_string())));
        text += "\n# The number of files in each circle of more than three.\n";
        text += &section("circles", figures.circles.iter().map(|(name, sizes)| (name, format!("{sizes:?}"))));
        text += "\n# Files of more than 800 lines.\n";
        text += &section("files", quoted(&figures.long_files));
        text += "\n# Functions of more than 80 lines.\n";
        text += &section("functions", quoted(&figures.long_functions));
        text += "\n# Definitions with a banned name.\n";
        let names = figures.names.iter().filter(|(_, counts)| !counts.is_empty());
        let sections: Vec<String> =
            names.map(|(name, counts)| section(&format!("names.{name}"), quoted(counts))).collect();
        text + &sections.join("\n")
    }
}

fn section<N: std::fmt::Display>(name: &str, entries: impl IntoIterator<Item = (N, String)>) -> String {
    let lines = entries.into_iter().map(|(name, value)| format!("{name} = {value}\n"));
    format!("[{name}]\n{}", lines.collect::<String>())
}

fn quoted(counts: &Counts) -> impl Iterator<Item = (String, String)> {
    counts.iter().map(|(name, count)| (format!("{name:?}"), count.to_string()))
}

fn entries(value: Option<&toml::Value>) -> impl Iterator<Item = (String, &toml::Value)> {
    let table = value.and_then(toml::Value::as_table);
    table.into_iter().flatten().map(|(name, value)| (name.clone(), value))
}

fn counts(value: Option<&toml::Value>) -> Counts {
    entries(value).filter_map(|(name, value)| Some((name, number(value)?))).collect::<BTreeMap<_, _>>()
}

fn list(value: &toml::Value) -> Vec<usize> {
    value.as_array().into_iter().flatten().filter_map(number).collect()
}

fn number(value: &toml::Value) -> Option<usize> {
    value.as_integer().and_then(|number| usize::try_from(number).ok())
}
