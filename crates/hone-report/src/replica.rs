//! A topic and the load that replicates it, in words and figures.

use hone_format::{change, count, measured};
use hone_record::{Replica, ReplicaDifference, TopicFigures};

use crate::quantity::NONE;
use crate::terminal::{aligned, wrapped};

/// For each figure its name, the topic today, the replica here, and the difference.
pub(crate) fn rows(replica: &Replica) -> Vec<(&'static str, [String; 3])> {
    let row = |figure: &ReplicaDifference| {
        let cells = [measured(figure.today), measured(figure.here), change(1.0 + figure.change())];
        (figure.what, cells)
    };
    let mean = |what, of: fn(&TopicFigures) -> f64| {
        row(&ReplicaDifference { what, today: of(&replica.today), here: of(&replica.here) })
    };
    let producers = |figures: &TopicFigures| {
        let least = if figures.may_be_more { "at least " } else { "" };
        format!("{least}{}", count(figures.producers))
    };
    let mut rows: Vec<_> = replica.figures().iter().map(row).collect();
    rows.extend([
        mean("bytes per batch", TopicFigures::bytes_per_batch),
        mean("records per batch", TopicFigures::records_per_batch),
        ("producers", [producers(&replica.today), producers(&replica.here), NONE.to_owned()]),
    ]);
    rows
}

/// The figures and the verdict, as progress lines.
pub fn text(replica: &Replica) -> String {
    let head = ["", "topic today", "replica here", "difference"].map(str::to_owned).to_vec();
    let rows = rows(replica).into_iter().map(|(name, cells)| [&[name.to_owned()][..], &cells].concat());
    let rows: Vec<Vec<String>> = std::iter::once(head).chain(rows).collect();
    let table = aligned(&rows, &[false, true, true, true]);
    format!("Replica of topic {}:\n{table}{}\n", replica.topic, wrapped(&verdict(replica)))
}

/// Says whether the replica matches the topic.
pub fn verdict(replica: &Replica) -> String {
    match replica.is_like() {
        true => format!(
            "The replica matches the topic: records, bytes and batches per second differ by at most {:.0} %.",
            100.0 * Replica::LIKE
        ),
        false => difference(replica),
    }
}

/// Names the figures that differ too much, with probable reasons.
pub fn difference(replica: &Replica) -> String {
    let of = |figure: &ReplicaDifference| {
        let (today, here) = (measured(figure.today), measured(figure.here));
        format!("{} {today} in the topic and {here} here ({})", figure.what, change(1.0 + figure.change()))
    };
    let figures: Vec<String> = replica.differences().iter().map(of).collect();
    let reasons =
        if replica.reasons.is_empty() { String::new() } else { format!(" {}", replica.reasons.join(" ")) };
    format!("The replica differs from topic {}: {}.{reasons}", replica.topic, figures.join("; "))
}

/// Says that the load can't reproduce how the topic's producer sends.
pub fn waits(topic: &str) -> String {
    format!(
        "The producer of topic {topic} waits for each answer before it sends again. The replica sends at the \
         recorded times instead. Another linger or batch size would therefore show gains here that the topic \
         can't have. `hone batch xray` prints suitable settings for such a producer"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::replica;

    #[test]
    fn what_differs_is_named_with_both_figures_and_why() {
        let found = difference(&replica());
        assert_eq!(
            found,
            "The replica differs from topic orders: batches/s 200 in the topic and 150 here (−25.0 %). A \
             reason."
        );
        let rows = rows(&replica());
        assert_eq!(rows[0].1, ["2,000", "1,990", "−0.5 %"]);
        assert_eq!(rows[4].1, ["10.0", "13.3", "+32.7 %"]);
        assert_eq!(rows[5], ("producers", ["at least 3", "3", NONE].map(str::to_owned)));
        assert!(text(&replica()).contains("\n  records/s"), "{}", text(&replica()));
    }

    #[test]
    fn what_is_alike_is_said() {
        let alike = Replica { here: replica().today, ..replica() };
        assert!(text(&alike).contains("matches the topic"), "{}", text(&alike));
    }
}
