//! A Java service: its JDK, what its starts cost, and its caches.

use hone_format::{bytes, count, interval, time_us};
use hone_record::{JvmAccount, JvmCache, JvmStarts, OverBaseline};

use super::{paragraph, section};
use crate::quantity::{self, NONE};
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};

/// The section. `None` if the target is no Java service.
pub(crate) fn virtual_machine(account: Option<&JvmAccount>) -> Option<Element> {
    let account = account?;
    let flags: Vec<String> = account.flags.iter().map(|(name, value)| format!("{name}={value}")).collect();
    Some(
        section("jvm", "The virtual machine")
            .child(paragraph(&format!("{}. Flags in force: {}.", account.jdk, flags.join(", "))))
            .children(starts(&account.starts))
            .children(caches(&account.caches))
            .child(commands(&account.starts).detail()),
    )
}

fn starts(starts: &[JvmStarts]) -> Option<Element> {
    let number = starts.first()?.starts;
    let titles = ["time to ready", "CPU until ready", "memory when ready", "cold CPU per record", "cold p99"];
    let columns = std::iter::once(Column::words("variant"))
        .chain(titles.map(|title| Column::numbers(Markup::text(title))));
    let mut table = Table::new(&format!("{number} starts of each variant"), columns.collect()).remark(
        "Medians, and ratios to the baseline's start of the same turn with their 95 % intervals. The cold figures are of the first \
         seconds of load, without a warm-up.",
    );
    for one in starts {
        let seconds = |value: f64| quantity::duration(value);
        let cells = vec![
            cell(one.ready_s, seconds),
            cell(one.ready_cpu_s, seconds),
            cell(one.rss_bytes, |value| bytes(value as u64)),
            cell(one.cold_cpu_us_per_record, time_us),
            cell(one.cold_latency_us_p99, time_us),
        ];
        table.row(Markup::text(&one.variant), cells);
    }
    Some(table.class("scroll").finish())
}

fn cell(figure: Option<OverBaseline>, words: impl Fn(f64) -> String) -> Cell {
    let Some(figure) = figure else { return Cell::number(NONE) };
    let ratio = figure.ratio.map(|ratio| el("span").class("small").text(&interval(ratio)));
    Cell::numbers(ratio.into_iter().fold(Markup::text(&words(figure.median)), Markup::with))
}

fn caches(caches: &[JvmCache]) -> Option<Element> {
    let columns = vec![
        Column::words("variant"),
        Column::words("kind"),
        Column::numbers(Markup::text("size")),
        Column::numbers(Markup::text("classes from it")),
        Column::numbers(Markup::text("written in")),
        Column::words("trained by"),
        Column::words("file"),
    ];
    let mut table = Table::new("Caches", columns).remark(
        "A cache belongs to its JDK, options and jars: the lock file next to it has their hashes. Make a new one with each release.",
    );
    for one in caches {
        let [cached, all] = one.classes;
        let cells = vec![
            Cell::text(&one.kind),
            Cell::number(&bytes(one.bytes)),
            Cell::number(&format!("{} of {}", count(cached), count(all))),
            Cell::number(&quantity::duration(one.written_s)),
            Cell::text(&one.trained_by.join(", ")),
            Cell::words(el("span").class("path").text(&one.path)),
        ];
        table.row(Markup::text(&one.variant), cells);
    }
    (!caches.is_empty()).then(|| table.class("scroll").finish())
}

fn commands(starts: &[JvmStarts]) -> Element {
    let mut table = Table::new("Command lines", vec![Column::words("variant"), Column::words("command")]);
    for one in starts {
        table.row(Markup::text(&one.variant), vec![Cell::words(el("code").text(&one.command))]);
    }
    table.class("scroll").finish()
}
