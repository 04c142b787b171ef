//! The activity of threads, as a table.

use std::fmt::Write as _;

use hone_record::{Diagnosis, Watched};
use hone_report::watched::tables;

use crate::table::table;

/// Threads, functions, pages, and the verdict.
pub(super) fn text(watched: &Watched, diagnosis: &Diagnosis) -> String {
    let mut out: String = tables(watched).iter().map(|(_, rows)| format!("\n{}", table(rows))).collect();
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
