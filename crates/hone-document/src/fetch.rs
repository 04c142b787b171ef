//! Fetch limits side by side, as text.

use hone_batch::fetch::whatif::{Outlook, Row};
use hone_format::{count, exact, measured, percent};

use crate::table::table;
use crate::wrapped;

/// The complete text.
pub fn text(outlook: &Outlook) -> String {
    let readers = &outlook.readers;
    let groups = if readers.groups > 1 { format!("{} groups of ", readers.groups) } else { String::new() };
    let mut out = format!(
        "{}\n\n",
        wrapped(&format!(
            "{}: {} batches/s of {} for {groups}{} on {}: {} fetch at the same time, with {} ms between an answer and the next request",
            outlook.source,
            measured(readers.batches_per_s),
            hone_format::bytes(readers.batch_bytes as u64),
            hone_format::counted(u64::from(readers.consumers), "consumer", "consumers"),
            hone_format::counted(u64::from(readers.brokers), "broker", "brokers"),
            hone_format::counted(u64::from(outlook.links), "connection", "connections"),
            range(outlook.turn_ms),
        ))
    );
    let head = ["fetch.min.bytes", "max.wait", "fetches/s", "empty", "bytes each", "wait p50", "p99"];
    let rows =
        outlook.rows.iter().enumerate().map(|(place, row)| cells(row, outlook.suggested == Some(place)));
    let rows: Vec<Vec<String>> = std::iter::once(head.map(str::to_owned).to_vec()).chain(rows).collect();
    out.push_str(&table(&rows));
    out.push_str("\n  Evidence: predicted, from a replay of even and of random arrivals.\n");
    out.push_str(&format!("{}\n", wrapped(&next(outlook))));
    out
}

fn cells(row: &Row, is_suggested: bool) -> Vec<String> {
    let mark = match (row.is_asked, is_suggested) {
        (_, true) => " *",
        (true, false) => " ?",
        _ => "",
    };
    vec![
        format!("{}{mark}", count(row.fetch_min_bytes)),
        format!("{} ms", exact(row.fetch_max_wait_ms)),
        range(row.fetches_per_s),
        percent(row.empty_share[1]),
        range(row.bytes),
        format!("{} ms", range(row.wait_ms_p50)),
        format!("{} ms", range(row.wait_ms_p99)),
    ]
}

/// Both ends, or one value if they are the same for people.
fn range([low, high]: [f64; 2]) -> String {
    let [low, high] = [low, high].map(measured);
    if low == high { low } else { format!("{low} to {high}") }
}

fn next(outlook: &Outlook) -> String {
    match outlook.suggested.map(|place| &outlook.rows[place]) {
        Some(row) => format!(
            "  next: hone fetch settings --fetch-min-bytes {} --fetch-max-wait {}ms (*: the fewest requests whose records wait {} ms at most)",
            row.fetch_min_bytes,
            exact(row.fetch_max_wait_ms),
            exact(outlook.tolerable_ms)
        ),
        None => format!(
            "  next: keep the settings: no other saves a fifth of the requests within a wait of {} ms; raise it with --tolerable-wait",
            exact(outlook.tolerable_ms)
        ),
    }
}

#[cfg(test)]
mod tests {
    use hone_batch::fetch::whatif::{Client, Readers, Wish, outlook};

    use super::*;

    #[test]
    fn the_text_marks_the_suggestion_and_says_what_to_do() {
        let readers = Readers {
            batches_per_s: 2_000.0,
            batch_bytes: 1_024.0,
            partitions: 12,
            brokers: 3,
            consumers: 12,
            groups: 1,
            client: Client::Java,
        };
        let wish = Wish {
            min_bytes: Some(2_048),
            max_wait_ms: None,
            max_bytes: 50 << 20,
            partition_bytes: 1 << 20,
            turn_ms: None,
            tolerable_ms: 100.0,
        };
        let told = text(&outlook("orders", readers.clone(), wish));
        for part in [
            "orders: 2,000 batches/s of 1.00 KiB for 12 consumers on 3 brokers",
            "2,048 ?",
            " *",
            "next: hone fetch settings",
        ] {
            assert!(told.contains(part), "{part}: {told}");
        }
        let quiet = text(&outlook("orders", Readers { batches_per_s: 0.1, ..readers }, wish));
        assert!(quiet.contains("next: keep the settings"), "{quiet}");
    }
}
