//! Where the slowest requests come from: the causes, the requests over time, and what was watched.

use hone_format::count;
use hone_record::{StallKind, TailAccount, TailCause, percentile};

use super::head::{self, Head};
use super::{absent, figure, paragraph, section};
use crate::outcome;
use crate::plot::slow;
use crate::quantity;
use crate::table::{Cell, Column, Table};
use crate::tree::{Element, Markup, el};

/// Requests in the table.
const MOST_LISTED: usize = 20;
/// Causes in the table.
const MOST_CAUSES: usize = 30;

/// The head: how much of the tail has which cause.
pub(crate) fn header(account: &TailAccount) -> Element {
    let next = paragraph(&format!("Next: {}.", next(account)));
    Head::new("Slowest requests", &account.target)
        .verdict(outcome::of_tail(account), &sentence(account), vec![next])
        .with_all(head::tiles_of_values("The tail", &values(account)))
        .picture(picture(account))
        .with_all(account.notes.iter().map(|note| paragraph(&format!("Note: {note}."))))
        .meta(&[
            format!(
                "{} in {}",
                quantity::counted(account.requests, "request", "requests"),
                quantity::duration(account.duration_s)
            ),
            head::machine_in_short(&account.machine),
        ])
}

/// The causes as a table.
pub(crate) fn causes(account: &TailAccount) -> Element {
    let section = section("causes", "What stood still");
    let section = match account.causes.is_empty() {
        true => section.child(absent("Nothing that was watched stood still.")),
        false => section.child(table(account)),
    };
    section.child(watched(account))
}

/// The slowest requests.
pub(crate) fn requests(account: &TailAccount) -> Element {
    let section = section("requests", "The slowest requests");
    match account.slow.is_empty() {
        true => section.child(absent("No request was slower than the others.")),
        false => section.child(slowest(account)),
    }
    .detail()
}

/// The picture of the window.
fn picture(account: &TailAccount) -> Option<Element> {
    let title = "Slow requests over the window";
    let caption = "Each mark is a slow request at its due time: filled if a cause explains it, hollow if none does. Bands are the named \
                   causes.";
    let plot = slow::plot("slow", title, account)?;
    Some(figure(title, slow::legend(account), plot, caption, None))
}

fn sentence(account: &TailAccount) -> String {
    let beyond = format!(
        "{} above {} ({})",
        quantity::counted(account.slow_count, "request", "requests"),
        percentile(account.quantile),
        quantity::time_us(account.threshold_us)
    );
    let named = account.named();
    let Some(first) = named.first() else {
        return match (account.slow_count, account.slow_count - account.unexplained) {
            (0, _) => "No request was slower than the others.".to_owned(),
            (_, 0) => format!("None of the watched causes explains the {beyond}."),
            (_, some) => format!("The watched causes explain only {} of the {beyond}.", count(some)),
        };
    };
    let explained: u64 = named.iter().map(|cause| cause.explained).sum();
    let more = match named.len() {
        1 => String::new(),
        all => format!(" and {} more", all - 1),
    };
    let rest = match account.unexplained {
        0 => String::new(),
        rest => format!(" Nothing that was watched explains {} of them.", count(rest)),
    };
    format!(
        "{} of the {beyond} fall into {}: {}{more}.{rest}",
        count(explained),
        kind(first.kind),
        first.name
    )
}

/// The kind of a stall in a sentence.
fn kind(kind: StallKind) -> &'static str {
    match kind {
        StallKind::Throttling => "times in which its CPU limit stopped the target",
        StallKind::Pause => "pauses of the Java virtual machine",
        StallKind::File => "waits for a file",
        StallKind::PageFault => "waits for a page of memory",
        StallKind::RunQueue => "waits for a free core",
    }
}

fn next(account: &TailAccount) -> &'static str {
    match account.named().first().map(|cause| cause.kind) {
        Some(StallKind::Throttling) => {
            "raise the CPU limit of the group (cpu.max), or give the service fewer threads; `hone load` shows the limit"
        }
        Some(StallKind::Pause) => {
            "compare another collector or heap, for example `hone compare 'java … -jar service.jar' --change jvm.gc=zgc`; \
             docs/jvm.md has more"
        }
        Some(StallKind::File) => {
            "look at the disk with `hone host status`, and at the service's flush settings"
        }
        Some(StallKind::RunQueue) => {
            "move other programs and the load to another machine, or give the service cores of its own (cpusets)"
        }
        Some(StallKind::PageFault) => {
            "give the service more memory, or its files a faster disk; `hone host status` shows both"
        }
        None => {
            "repeat it with a longer --duration; `hone diagnose --pid` shows where the threads spend their time"
        }
    }
}

fn values(account: &TailAccount) -> Vec<(&'static str, String, String)> {
    let explained = account.slow_count - account.unexplained;
    vec![
        ("median", quantity::time_us(account.median_us), String::new()),
        ("slow requests", count(account.slow_count), format!("above {}", percentile(account.quantile))),
        ("slower than", quantity::time_us(account.threshold_us), String::new()),
        ("explained", count(explained), format!("of {}", count(account.slow_count))),
    ]
}

fn table(account: &TailAccount) -> Element {
    let numbers = ["slow requests within", "times", "longest", "in total"];
    let mut columns = vec![Column::words("what"), Column::words("kind")];
    columns.extend(numbers.map(|title| Column::numbers(Markup::text(title))));
    columns.push(Column::words("beyond chance"));
    let mut table = Table::new("By cause", columns).remark(
        "A cause explains slow requests if both share at least half of the time beyond the median. Waits of one thread are beyond chance if fast \
         requests fall into them too rarely.",
    );
    for cause in account.causes.iter().take(MOST_CAUSES) {
        table.row(name(cause), cells(cause));
    }
    table.class("scroll").finish()
}

fn name(cause: &TailCause) -> Markup {
    let detail = cause.detail.iter().map(|detail| el("span").class("small").text(detail));
    detail.fold(Markup::from(el("span").class("path").text(&cause.name)), Markup::with)
}

fn cells(cause: &TailCause) -> Vec<Cell> {
    let kind = match cause.kind {
        StallKind::Throttling => "CPU limit",
        StallKind::Pause => "pause",
        StallKind::File => "file",
        StallKind::PageFault => "page fault",
        StallKind::RunQueue => "run queue",
    };
    let chance = match (cause.explained, cause.is_beyond_chance) {
        (0, _) => "",
        (_, true) => "yes",
        (_, false) => "no",
    };
    vec![
        Cell::text(kind),
        Cell::number(&count(cause.explained)),
        Cell::number(&count(cause.stalls.len() as u64)),
        Cell::number(&quantity::duration(cause.longest_s())),
        Cell::number(&quantity::duration(cause.total_s())),
        Cell::text(chance),
    ]
}

fn watched(account: &TailAccount) -> Element {
    let line = |kind: StallKind| match kind {
        StallKind::Throttling => "CPU limits of control groups",
        StallKind::Pause => "pauses of the Java virtual machine",
        StallKind::File => "system calls on files",
        StallKind::PageFault => "waits for pages",
        StallKind::RunQueue => "waits for a core",
    };
    let each = account.watched.iter().map(|watch| match &watch.missing {
        None => el("li").text(line(watch.kind)),
        Some(why) => el("li").text(&format!("{}: not watched, {why}", line(watch.kind))),
    });
    el("div").child(el("h3").text("What was watched")).child(el("ul").children(each))
}

fn slowest(account: &TailAccount) -> Element {
    let columns = ["due at", "latency"].map(|title| Column::numbers(Markup::text(title)));
    let mut table =
        Table::new("The slowest requests", columns.into_iter().chain([Column::words("within")]).collect());
    let mut slowest: Vec<_> = account.slow.iter().collect();
    slowest.sort_by(|a, b| b.latency_us.total_cmp(&a.latency_us));
    for slow in slowest.into_iter().take(MOST_LISTED) {
        let cause = slow.cause.and_then(|cause| account.causes.get(cause));
        let cause = cause.map_or("nothing that was watched", |cause| &cause.name);
        let cells = vec![Cell::number(&quantity::time_us(slow.latency_us)), Cell::text(cause)];
        table.row(Markup::text(&format!("{:.3} s", slow.at_s)), cells);
    }
    table.finish()
}
