//! How far consumer groups are behind: by an exporter, or by their committed offsets.

use std::collections::{BTreeMap, BTreeSet};

use hone_record::WatchedGroup;

use super::quantity::{Quantity, Rates, Row};

/// The groups, those that are furthest behind first. A partition without a committed offset of a group is in no sum.
pub(super) fn groups(rates: &Rates) -> Vec<WatchedGroup> {
    let of = |quantity| highest(rates, quantity, |row| row.group.as_str());
    let (sums, mosts) = (of(Quantity::GroupLagSum), of(Quantity::GroupLagMax));
    let mut parts: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for ((group, ..), lag) in partitions(rates) {
        let (sum, most) = parts.entry(group).or_default();
        (*sum, *most) = (*sum + lag, most.max(lag));
    }
    let names: BTreeSet<&str> = sums.keys().chain(parts.keys()).copied().collect();
    let group = |group: &str| WatchedGroup {
        group: group.to_owned(),
        lag: sums.get(group).or(parts.get(group).map(|(sum, _)| sum)).copied().into(),
        lag_max: mosts.get(group).or(parts.get(group).map(|(_, most)| most)).copied().into(),
    };
    let mut groups: Vec<WatchedGroup> = names.into_iter().map(group).collect();
    let lag = |group: &WatchedGroup| group.lag.known().unwrap_or(0.0);
    groups.sort_by(|one, other| lag(other).total_cmp(&lag(one)));
    groups
}

/// A group, a topic and a partition.
type Part<'a> = (&'a str, &'a str, &'a str);

/// The lag of each partition: an exporter's, or from the committed offset to the partition's end. Hone reads both offsets a moment apart,
/// so the difference can be below 0.
fn partitions(rates: &Rates) -> BTreeMap<Part<'_>, f64> {
    fn part(row: &Row) -> Part<'_> {
        (row.group.as_str(), row.topic.as_str(), row.partition.as_str())
    }
    let mut lags = highest(rates, Quantity::GroupLag, part);
    let ends = highest(rates, Quantity::EndOffset, |row| (row.topic.as_str(), row.partition.as_str()));
    for ((group, topic, partition), committed) in highest(rates, Quantity::CommittedOffset, part) {
        if let Some(end) = ends.get(&(topic, partition)) {
            lags.entry((group, topic, partition)).or_insert(end - committed);
        }
    }
    // kafka_exporter has -1 if nothing was committed.
    lags.values_mut().for_each(|lag| *lag = lag.max(0.0));
    lags
}

/// The highest value of each place: brokers that export the same place export the same value.
fn highest<'a, K: Ord>(
    rates: &'a Rates,
    quantity: Quantity,
    place: impl Fn(&'a Row) -> K,
) -> BTreeMap<K, f64> {
    let mut found = BTreeMap::new();
    for row in rates.rows.iter().filter(|row| row.quantity == quantity) {
        let value = found.entry(place(row)).or_insert(row.value);
        *value = row.value.max(*value);
    }
    found
}

#[cfg(test)]
mod tests {
    use hone_record::Figure;

    use super::*;

    fn row(quantity: Quantity, [group, topic, partition]: [&str; 3], value: f64) -> Row {
        Row {
            group: group.to_owned(),
            topic: topic.to_owned(),
            partition: partition.to_owned(),
            ..Row::of(quantity, value)
        }
    }

    fn told(rows: Vec<Row>) -> Vec<(String, Figure, Figure)> {
        let found = groups(&Rates { rows, ..Rates::default() });
        found.into_iter().map(|one| (one.group, one.lag, one.lag_max)).collect()
    }

    fn known(group: &str, lag: f64, most: f64) -> (String, Figure, Figure) {
        (group.to_owned(), Figure::Known(lag), Figure::Known(most))
    }

    #[test]
    fn offsets_of_groups_and_partitions_make_a_lag() {
        use Quantity::{CommittedOffset, EndOffset};
        let rows = vec![
            row(EndOffset, ["", "t", "0"], 100.0),
            // A follower is a little behind: the leader's end counts.
            row(EndOffset, ["", "t", "0"], 90.0),
            row(EndOffset, ["", "t", "1"], 50.0),
            row(EndOffset, ["", "t", "2"], 70.0),
            row(CommittedOffset, ["near", "t", "0"], 99.0),
            row(CommittedOffset, ["near", "t", "1"], 51.0),
            row(CommittedOffset, ["far", "t", "0"], 40.0),
            row(CommittedOffset, ["far", "t", "1"], 20.0),
            // The end of this one is unknown.
            row(CommittedOffset, ["lost", "deleted", "0"], 5.0),
        ];
        assert_eq!(told(rows), [known("far", 90.0, 60.0), known("near", 1.0, 1.0)]);
    }

    #[test]
    fn what_an_exporter_says_is_taken_and_no_commit_is_no_lag() {
        use Quantity::GroupLag;
        let rows = vec![
            row(GroupLag, ["g", "t", "0"], 7.0),
            // A lag exporter has a series for each member that ever had the partition.
            row(GroupLag, ["g", "t", "0"], 5.0),
            row(GroupLag, ["g", "t", "1"], 4.0),
            row(GroupLag, ["g", "t", "2"], -1.0),
        ];
        assert_eq!(told(rows), [known("g", 11.0, 7.0)]);
    }

    #[test]
    fn redpandas_own_sums_come_first() {
        use Quantity::{CommittedOffset, EndOffset, GroupLagMax, GroupLagSum};
        let rows = vec![
            row(GroupLagSum, ["g", "", ""], 12.0),
            row(GroupLagMax, ["g", "", ""], 9.0),
            row(EndOffset, ["", "t", "0"], 100.0),
            row(CommittedOffset, ["g", "t", "0"], 1.0),
        ];
        assert_eq!(told(rows), [known("g", 12.0, 9.0)]);
        assert!(told(vec![row(EndOffset, ["", "t", "0"], 100.0)]).is_empty());
    }
}
