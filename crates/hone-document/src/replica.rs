//! A topic beside the load that replicates it.

use hone_format::{change, count, measured};
use hone_record::{Replica, ReplicaDifference, TopicFigures};

use crate::table::table;
use crate::wrapped;

/// A figure out of others.
type Of = fn(&TopicFigures) -> f64;

/// Head and rows: the topic today, the replica here, and how far they differ where that decides.
pub fn rows(replica: &Replica) -> Vec<Vec<String>> {
    let head = ["", "topic today", "replica here", "difference"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(replica.figures().iter().map(row));
    let more: [(&str, Of); 2] = [
        ("bytes per batch", TopicFigures::bytes_per_batch),
        ("records per batch", TopicFigures::records_per_batch),
    ];
    rows.extend(more.map(|(what, of)| {
        let (today, here) = (of(&replica.today), of(&replica.here));
        row(&ReplicaDifference { what, today, here })
    }));
    let producers = |figures: &TopicFigures| {
        let least = if figures.may_be_more { "at least " } else { "" };
        format!("{least}{}", count(figures.producers))
    };
    rows.push(vec![
        "producers".to_owned(),
        producers(&replica.today),
        producers(&replica.here),
        String::new(),
    ]);
    rows
}

fn row(figure: &ReplicaDifference) -> Vec<String> {
    vec![figure.what.to_owned(), measured(figure.today), measured(figure.here), change(1.0 + figure.change())]
}

/// For a terminal.
pub fn text(replica: &Replica) -> String {
    let mut out = format!("Replica of topic {}:\n{}", replica.topic, table(&rows(replica)));
    out.push_str(&format!("{}\n", wrapped(&verdict(replica))));
    out
}

/// The same as Markdown.
pub fn markdown(replica: &Replica) -> String {
    let mut out = String::new();
    for (index, row) in rows(replica).iter().enumerate() {
        out.push_str(&format!("| {} |\n", row.join(" | ")));
        if index == 0 {
            out.push_str("|---|---:|---:|---:|\n");
        }
    }
    format!("{out}\n{}\n", verdict(replica))
}

/// Whether it is like the topic.
pub fn verdict(replica: &Replica) -> String {
    match replica.is_like() {
        true => format!(
            "The replica is like the topic: records, bytes and batches a second differ by no more than {:.0} %.",
            100.0 * Replica::LIKE
        ),
        false => difference(replica),
    }
}

/// That the load can't do what the topic's producer does.
pub fn waits(topic: &str) -> String {
    format!(
        "The producer of topic {topic} waits for every answer, and the replica does not: it sends at the recorded times. So another linger or \
         batch size would show gains here that the topic can't have. `hone batch xray` says what to set for such a producer"
    )
}

/// The figures that differ too much, and why they probably do.
pub fn difference(replica: &Replica) -> String {
    let of = |figure: &ReplicaDifference| {
        let (today, here) = (measured(figure.today), measured(figure.here));
        format!("{} {today} in the topic and {here} here ({})", figure.what, change(1.0 + figure.change()))
    };
    let figures: Vec<String> = replica.differences().iter().map(of).collect();
    let reasons =
        if replica.reasons.is_empty() { String::new() } else { format!(" {}", replica.reasons.join(" ")) };
    format!("The replica is not like topic {}: {}.{reasons}", replica.topic, figures.join("; "))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn replica() -> Replica {
        let today = TopicFigures {
            records_per_s: 2_000.0,
            bytes_per_s: 500_000.0,
            batches_per_s: 200.0,
            producers: 3,
            may_be_more: true,
        };
        let here = TopicFigures { records_per_s: 1_990.0, batches_per_s: 150.0, may_be_more: false, ..today };
        Replica { topic: "orders".to_owned(), today, here, reasons: vec!["A reason.".to_owned()] }
    }

    #[test]
    fn what_differs_is_named_with_both_figures_and_why() {
        let found = difference(&replica());
        assert_eq!(
            found,
            "The replica is not like topic orders: batches/s 200 in the topic and 150 here (−25.0 %). A reason."
        );
        let rows = rows(&replica());
        assert_eq!(rows[1], ["records/s", "2,000", "1,990", "−0.5 %"]);
        assert_eq!(rows[5][1..], ["10.0", "13.3", "+32.7 %"]);
        assert_eq!(rows[6], ["producers", "at least 3", "3", ""]);
        assert!(
            markdown(&replica()).contains("|---|---:|---:|---:|\n| records/s |"),
            "{}",
            markdown(&replica())
        );
    }

    #[test]
    fn what_is_alike_is_said() {
        let alike = Replica { here: replica().today, ..replica() };
        assert!(text(&alike).contains("is like the topic"), "{}", text(&alike));
    }
}
