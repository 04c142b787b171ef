//! The results for a Go program, as text. Names come from profiles, so control characters are replaced.

use hone_format::{bytes, count, measured, percent, time_us};
use hone_record::{GoAccount, GoBenchmark, GoBenchmarks, HotSpots, median};

use crate::profile::name;
use crate::table::table;
use crate::{plain, wrapped};

/// Functions per table. The record has more.
const TOP: usize = 10;

/// The complete text besides the variants.
pub fn text(account: &GoAccount) -> String {
    let mut out = String::new();
    if let Some(found) = &account.found_profile {
        out.push_str(&format!("{}\n", wrapped(&plain(found))));
    }
    account.hot_spots.iter().for_each(|spots| out.push_str(&hot_spots(spots)));
    if !account.findings.is_empty() {
        out.push_str("\n== findings ==\n");
        for finding in &account.findings {
            out.push_str(&format!("- {}\n", wrapped(&plain(finding))));
        }
    }
    if let Some(benchmarks) = &account.benchmarks {
        out.push_str(&of_benchmarks(benchmarks));
    }
    if let Some(why) = &account.no_benchmarks {
        out.push_str(&format!("\nno benchmarks: {}\n", wrapped(&plain(why))));
    }
    if let Some(placed) = &account.placed {
        // It ends with a command that can be pasted as a whole.
        out.push_str(&format!("\n{}\n", plain(placed)));
    }
    out
}

/// Name of a kind of count.
fn title(kind: &str) -> String {
    match kind {
        "cpu" => "CPU".to_owned(),
        "alloc_space" => "bytes allocated".to_owned(),
        "alloc_objects" => "objects allocated".to_owned(),
        other => plain(other),
    }
}

fn figure(value: u64, unit: &str) -> String {
    match unit {
        "nanoseconds" => time_us(value as f64 / 1e3),
        "bytes" => bytes(value),
        _ => count(value),
    }
}

fn hot_spots(spots: &HotSpots) -> String {
    let head = format!(
        "\n== profile: {} ({} in {} functions) ==\n",
        title(&spots.kind),
        figure(spots.total, &spots.unit),
        count(spots.functions)
    );
    let titles = ["function", "flat", "flat %", "cumulative", "cumulative %"].map(str::to_owned).to_vec();
    let rows = spots.rows.iter().take(TOP).map(|row| {
        vec![
            name(&row.function),
            figure(row.flat, &spots.unit),
            percent(row.flat_share),
            figure(row.cumulative, &spots.unit),
            percent(row.cumulative_share),
        ]
    });
    head + &table(&std::iter::once(titles).chain(rows).collect::<Vec<_>>())
}

fn of_benchmarks(found: &GoBenchmarks) -> String {
    let cpus = found.cpus.map(|cpus| format!(", GOMAXPROCS {cpus}")).unwrap_or_default();
    let mut out = format!(
        "\n== Go's own benchmarks, without the profile and with it: {} rounds of {}{cpus} ==\n",
        found.rounds,
        plain(&found.benchtime)
    );
    let titles = ["benchmark", "metric", "off", "on", "on / off", "control / off", "verdict"];
    let rows = found.geomean.iter().chain(&found.rows).filter(|row| is_worth_a_line(row)).map(benchmark);
    out.push_str(&table(
        &std::iter::once(titles.map(str::to_owned).to_vec()).chain(rows).collect::<Vec<_>>(),
    ));
    out.push_str(&format!("{}\n", wrapped(&found.rule)));
    for (what, list) in [
        ("the profile does not change the code of", &found.unchanged),
        ("excluded, because some rounds lack them", &found.incomplete),
    ] {
        if !list.is_empty() {
            out.push_str(&format!("{}\n", wrapped(&format!("{what}: {}", plain(&list.join(", "))))));
        }
    }
    out
}

/// Counts that are the same with the profile say nothing about it.
fn is_worth_a_line(row: &GoBenchmark) -> bool {
    row.verdict.is_some() || middle(&row.off) != middle(&row.on)
}

fn benchmark(row: &GoBenchmark) -> Vec<String> {
    let span = |span: Option<[f64; 3]>| span.map_or_else(|| "-".to_owned(), hone_format::interval);
    let package = row.package.rsplit('/').next().unwrap_or_default();
    let dot = if package.is_empty() { "" } else { "." };
    vec![
        name(&format!("{package}{dot}{}", row.benchmark.trim_start_matches("Benchmark"))),
        row.metric.clone(),
        measured(middle(&row.off)),
        measured(middle(&row.on)),
        span(row.ratio),
        span(row.control_ratio),
        row.verdict.map_or("told", hone_record::Verdict::label).to_owned(),
    ]
}

fn middle(values: &[f64]) -> f64 {
    median(values.iter().copied()).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_record::{HotSpot, Verdict};

    #[test]
    fn tables_findings_and_benchmarks_are_told() {
        let spots = HotSpots {
            kind: "cpu".to_owned(),
            unit: "nanoseconds".to_owned(),
            total: 2_000_000_000,
            functions: 31,
            rows: vec![HotSpot {
                function: "main.size\u{1b}[2J".to_owned(),
                flat: 60_000_000,
                cumulative: 820_000_000,
                flat_share: 0.03,
                cumulative_share: 0.41,
            }],
        };
        let row = GoBenchmark {
            package: "x/flow".to_owned(),
            benchmark: "BenchmarkParse-2".to_owned(),
            metric: "ns/op".to_owned(),
            off: vec![100.0, 104.0],
            on: vec![90.0, 90.0],
            control: vec![100.0, 101.0],
            ratio: Some([0.88, 0.86, 0.9]),
            control_ratio: None,
            verdict: Some(Verdict::Better),
            why: String::new(),
        };
        let same = GoBenchmark {
            metric: "B/op".to_owned(),
            off: vec![8.0],
            on: vec![8.0],
            verdict: None,
            ..row.clone()
        };
        let account = GoAccount {
            hot_spots: vec![spots],
            findings: vec!["main.size: 3.0 % flat, 41.0 % cumulative".to_owned()],
            benchmarks: Some(GoBenchmarks {
                rounds: 8,
                benchtime: "1s".to_owned(),
                cpus: None,
                rule: "the rule".to_owned(),
                geomean: None,
                rows: vec![row, same],
                unchanged: vec!["x/other".to_owned()],
                incomplete: Vec::new(),
                commands: Vec::new(),
            }),
            placed: Some("it lies there".to_owned()),
            ..GoAccount::default()
        };
        let told = text(&account);
        for expected in [
            "profile: CPU (2.00 s in 31 functions)",
            "60.0 ms",
            "41.0 %",
            "- main.size: 3.0 % flat",
            "flow.Parse-2",
            "0.880 [0.860, 0.900]",
            "better",
            "the profile does not change the code of: x/other",
            "it lies there",
        ] {
            assert!(told.contains(expected), "{expected} is not in\n{told}");
        }
        assert!(!told.contains("B/op") && !told.contains('\u{1b}'), "{told}");
        assert!(middle(&[]).is_nan());
    }
}
