//! Combines many looks at a cluster's counters into one, with the means of its history.

use std::collections::BTreeMap;

use hone_record::{BatchWatch, Figure, WatchedInstance, WatchedTopic, median};

/// The last look, with mean rates over all and the median write amplification. `None` without a look.
pub fn mean(looks: &[BatchWatch]) -> Option<BatchWatch> {
    let mut found = looks.last()?.clone();
    let mut names: BTreeMap<&str, Vec<&WatchedTopic>> = BTreeMap::new();
    for topic in looks.iter().flat_map(|look| &look.topics) {
        names.entry(&topic.topic).or_default().push(topic);
    }
    let of = |name: &str, all: &[&WatchedTopic]| {
        let rate = |of: fn(&WatchedTopic) -> Figure| rate(all.iter().map(|topic| of(topic)), looks.len());
        WatchedTopic {
            topic: name.to_owned(),
            batches_per_s: rate(|topic| topic.batches_per_s),
            bytes_per_s: rate(|topic| topic.bytes_per_s),
            ..WatchedTopic::default()
        }
    };
    found.topics = names.iter().map(|(name, all)| of(name, all)).collect();
    let batches = |topic: &WatchedTopic| topic.batches_per_s.known().unwrap_or(0.0);
    found.topics.sort_by(|one, other| batches(other).total_cmp(&batches(one)));
    found.total = of("", &looks.iter().map(|look| &look.total).collect::<Vec<_>>());
    for instance in &mut found.instances {
        take_means(instance, looks);
    }
    Some(found)
}

fn take_means(instance: &mut WatchedInstance, looks: &[BatchWatch]) {
    let all: Vec<&WatchedInstance> = looks
        .iter()
        .flat_map(|look| &look.instances)
        .filter(|own| own.instance == instance.instance)
        .collect();
    let rate = |of: fn(&WatchedInstance) -> Figure| rate(all.iter().map(|own| of(own)), looks.len());
    instance.received_bytes_per_s = rate(|own| own.received_bytes_per_s);
    instance.sent_bytes_per_s = rate(|own| own.sent_bytes_per_s);
    instance.write_amplification =
        median(all.iter().filter_map(|own| own.write_amplification.known())).into();
}

/// A look without a value counts as 0, because a quiet topic has no rate; not exported if none has it.
fn rate(figures: impl Iterator<Item = Figure>, looks: usize) -> Figure {
    let known: Vec<f64> = figures.filter_map(Figure::known).collect();
    if known.is_empty() {
        Figure::NotExported
    } else {
        Figure::Known(known.iter().sum::<f64>() / looks as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiet_looks_count_and_the_last_one_alone_decides_nothing() {
        let topic = |name: &str, batches: f64| WatchedTopic {
            topic: name.to_owned(),
            batches_per_s: Figure::Known(batches),
            ..WatchedTopic::default()
        };
        let look = |topics: Vec<WatchedTopic>, write_amplification: Figure| BatchWatch {
            total: topic("", topics.iter().filter_map(|topic| topic.batches_per_s.known()).sum()),
            topics,
            instances: vec![WatchedInstance {
                cores: Figure::Known(4.0),
                write_amplification,
                sent_bytes_per_s: Figure::Known(10.0),
                ..WatchedInstance::default()
            }],
            ..BatchWatch::default()
        };
        let looks = [
            look(vec![topic("a", 30.0), topic("b", 10.0)], Figure::Known(2.0)),
            look(vec![topic("b", 60.0)], Figure::Known(4.0)),
            look(Vec::new(), Figure::Nothing),
        ];
        let found = mean(&looks).unwrap();
        let rates: Vec<_> =
            found.topics.iter().map(|topic| (topic.topic.as_str(), topic.batches_per_s.known())).collect();
        assert_eq!(rates, [("b", Some(70.0 / 3.0)), ("a", Some(10.0))]);
        assert_eq!(found.total.batches_per_s, Figure::Known(100.0 / 3.0));
        let broker = &found.instances[0];
        assert_eq!((broker.cores, broker.write_amplification), (Figure::Known(4.0), Figure::Known(3.0)));
        assert_eq!(broker.sent_bytes_per_s, Figure::Known(10.0));
        assert_eq!(broker.received_bytes_per_s, Figure::NotExported);
        assert_eq!(mean(&[]), None);
    }
}
