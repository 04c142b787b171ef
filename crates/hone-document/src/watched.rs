//! The activity of threads, as a table.

use std::fmt::Write as _;

use hone_record::{CodeSplit, Diagnosis, Watched, WatchedThread};

use crate::table::table;

/// Longer names of functions are cut to this many characters.
const MOST_CHARACTERS: usize = 70;

/// Threads, functions, pages, and the verdict.
pub(super) fn text(watched: &Watched, diagnosis: &Diagnosis) -> String {
    let mut out = String::new();
    if !watched.groups.is_empty() {
        let _ =
            write!(out, "\n{}", table(&threads(watched, "threads of the virtual machine", &watched.groups)));
    }
    let _ = write!(out, "\n{}", table(&threads(watched, "thread", &watched.threads)));
    if !watched.functions.is_empty() {
        let title =
            if watched.groups.is_empty() { "hottest functions of the program" } else { "hottest methods" };
        let mut rows = vec![vec![title.to_owned(), "of all samples".to_owned()]];
        let told = watched.functions.iter();
        rows.extend(told.map(|one| vec![shortened(&one.name), percent(Some(one.share))]));
        let _ = write!(out, "\n{}", table(&rows));
    }
    if let Some(pages) = watched.footprints.first() {
        let [_, most, nearly_all, _] = pages.units;
        let _ = write!(
            out,
            "\n  Pages of 4 KiB that hold 90 % and 99 % of the samples of user code: {} and {}\n",
            hone_format::count(most),
            hone_format::count(nearly_all)
        );
    }
    if let Some(calls) = watched.reads_and_writes {
        let rate = calls as f64 / watched.window_s.max(1e-9);
        let _ = write!(out, "\n  Calls that read or write: {} per second\n", hone_format::measured(rate));
    }
    // Pipeline slots have verdicts of their own.
    if diagnosis.parts.is_empty() {
        out.push_str(&verdict(watched, diagnosis));
    }
    out
}

fn verdict(watched: &Watched, diagnosis: &Diagnosis) -> String {
    if !watched.groups.is_empty() {
        return format!(
            "\n  Will a better layout help?  no: the virtual machine lays out its code by itself\n  next     {}\n",
            watched.next
        );
    }
    let ceiling = match diagnosis.user_share {
        Some(user) => format!(
            "below {:.0} % of the CPU, the program's own code; samples do not show the frontend's share",
            100.0 * user
        ),
        None => "unknown: this needs samples of the program and of the kernel".to_owned(),
    };
    let kernel = match watched.samples.and_then(|split| split.share(split.kernel?)) {
        Some(kernel) => format!("  kernel   {} of the samples\n", hone_format::percent(kernel)),
        None => String::new(),
    };
    format!(
        "\n  Will a better layout help?  no verdict: samples show where time goes, not why\n\
         {kernel}  ceiling  {ceiling}\n  next     {}\n",
        watched.next
    )
}

/// A column: its title, and its value for a thread.
type Told<'a> = (&'a str, Box<dyn Fn(&WatchedThread) -> Option<String> + 'a>);

fn threads(watched: &Watched, title: &str, listed: &[WatchedThread]) -> Vec<Vec<String>> {
    let window_s = watched.window_s.max(1e-9);
    let of_window = move |seconds: Option<f64>| seconds.map(|seconds| percent(Some(seconds / window_s)));
    let all = watched.samples.map_or(0, |split| split.all()).max(1) as f64;
    let of_samples = |part: fn(&CodeSplit) -> Option<u64>| {
        move |thread: &WatchedThread| {
            let split = thread.samples?;
            Some(percent(split.share(part(&split)?)))
        }
    };
    let columns: Vec<Told<'_>> = vec![
        ("CPU", Box::new(move |thread| of_window(thread.cpu_s))),
        ("of it system", Box::new(|thread| Some(percent(part(thread.system_s?, thread.cpu_s?))))),
        ("samples", Box::new(move |thread| Some(percent(Some(thread.samples?.all() as f64 / all))))),
        ("program", Box::new(of_samples(|split| Some(split.program)))),
        ("libraries", Box::new(of_samples(|split| Some(split.libraries)))),
        ("made at run time", Box::new(of_samples(|split| (split.generated > 0).then_some(split.generated)))),
        ("kernel", Box::new(of_samples(|split| split.kernel))),
        ("unknown", Box::new(of_samples(|split| Some(split.unknown)))),
        ("waits for a core", Box::new(move |thread| of_window(thread.queued_s))),
        (
            "switches/s",
            Box::new(move |thread| {
                let all = thread.switches_voluntary? + thread.switches_involuntary?;
                Some(hone_format::measured(all as f64 / window_s))
            }),
        ),
        (
            "faults/s",
            Box::new(move |thread| Some(hone_format::measured(thread.page_faults? as f64 / window_s))),
        ),
    ];
    // A column without any value is omitted.
    let columns: Vec<Told<'_>> =
        columns.into_iter().filter(|(_, of)| listed.iter().any(|thread| of(thread).is_some())).collect();
    let titles = columns.iter().map(|(title, _)| (*title).to_owned());
    let mut rows = vec![std::iter::once(title.to_owned()).chain(titles).collect()];
    for thread in listed {
        let name = match thread.tid {
            Some(tid) => format!("{} ({tid})", thread.name),
            None => thread.name.clone(),
        };
        let cells = columns.iter().map(|(_, of)| of(thread).unwrap_or_else(|| "-".to_owned()));
        rows.push(std::iter::once(name).chain(cells).collect());
    }
    rows
}

/// A tiny amount has no share.
fn part(part: f64, of: f64) -> Option<f64> {
    (of >= 0.05).then(|| (part / of).min(1.0))
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), hone_format::percent)
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= MOST_CHARACTERS {
        return name.to_owned();
    }
    name.chars().take(MOST_CHARACTERS - 1).chain(['…']).collect()
}
