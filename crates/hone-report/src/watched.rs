//! The activity of threads as rows of words. A terminal and a page share them.

use hone_record::{CodeSplit, Watched, WatchedThread};

/// Longer names of functions are cut to this many characters.
const MOST_CHARACTERS: usize = 70;

/// Threads by purpose, threads, and functions: what each table shows, and its rows with their titles first.
pub fn tables(watched: &Watched) -> Vec<(&'static str, Vec<Vec<String>>)> {
    let is_jvm = !watched.groups.is_empty();
    let mut tables = Vec::new();
    if is_jvm {
        let title = "threads of the virtual machine";
        tables.push(("Threads by purpose", threads(watched, title, &watched.groups)));
    }
    tables.push(("Threads", threads(watched, "thread", &watched.threads)));
    if !watched.functions.is_empty() {
        let (name, title) = match is_jvm {
            true => ("Hottest methods", "hottest methods"),
            false => ("Hottest functions", "hottest functions of the program"),
        };
        let titles = vec![title.to_owned(), "of all samples".to_owned()];
        let row = |one: &hone_record::WatchedFunction| vec![shortened(&one.name), percent(Some(one.share))];
        tables.push((name, std::iter::once(titles).chain(watched.functions.iter().map(row)).collect()));
    }
    tables
}

/// A column: its title, and its value for a thread.
type Column<'a> = (&'a str, Box<dyn Fn(&WatchedThread) -> Option<String> + 'a>);

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
    let columns: Vec<Column<'_>> = vec![
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
    let columns: Vec<Column<'_>> =
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
