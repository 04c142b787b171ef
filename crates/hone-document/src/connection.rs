//! Connections that are kept, and what their addresses answered.

use hone_experiment::connection::check::{Answer, Purpose, Reply};
use hone_report::{aligned, plain};

/// A line for each connection: its name, addresses and protection.
pub fn list(lines: impl Iterator<Item = [String; 3]>) -> String {
    let rows: Vec<[String; 3]> = lines.collect();
    if rows.is_empty() {
        return "No connection is kept.\nnext: hone connection add NAME --bootstrap HOST:PORT\n".to_owned();
    }
    table(["name", "bootstrap", "protection"], rows)
}

/// A line for each address: what it is for, and what it answered.
pub fn answers(answers: &[Answer]) -> String {
    let row = |answer: &Answer| [purpose(answer.purpose).to_owned(), answer.address.clone(), found(answer)];
    table(["for", "address", "answer"], answers.iter().map(row).collect())
}

/// All columns are words. Addresses can come from a foreign file: what a terminal would obey is not printed.
fn table(head: [&str; 3], rows: Vec<[String; 3]>) -> String {
    let lines = std::iter::once(head.map(str::to_owned)).chain(rows);
    let lines: Vec<Vec<String>> = lines.map(|cells| cells.map(|cell| plain(&cell)).to_vec()).collect();
    aligned(&lines, &[false; 3])
}

fn purpose(purpose: Purpose) -> &'static str {
    match purpose {
        Purpose::Broker => "broker",
        Purpose::Metrics => "metrics",
        Purpose::Store => "store",
    }
}

fn found(answer: &Answer) -> String {
    match &answer.found {
        Some(Reply::Cluster { brokers, topics, answered_ms }) => format!(
            "ok: {brokers} broker(s), {topics} topic(s) visible, {}",
            hone_format::time_us(answered_ms * 1e3)
        ),
        Some(Reply::BusyTime) => "ok: counters of busy time".to_owned(),
        Some(Reply::Objects(count)) => format!("ok: {count} object(s)"),
        None => format!("failed: {}", answer.error.as_deref().unwrap_or("no answer")),
    }
}
