//! Whether a topic is deleted, or only unknown to a broker that has just started or has not heard of it yet. The code is pure.

/// A single check may hit a bad moment, so this many are needed,
const LOOKS: u32 = 3;
/// and the last of them this long after the first.
const GONE_NS: u64 = 1_000_000_000;

/// Checks since the topic was missed. Any broker that knows the topic resets it.
#[derive(Debug, Default)]
pub(super) struct Doubt {
    /// Time of the first and of the last check.
    seen_ns: Option<(u64, u64)>,
    looks: u32,
    believed: bool,
}

impl Doubt {
    /// No broker that answered knows the topic. Brokers that did not answer might, so with `silent` ones it takes until `patience_ns`.
    /// Returns the time of the deletion once it is certain.
    pub(super) fn nobody_knows(&mut self, now_ns: u64, silent: bool, patience_ns: u64) -> Option<u64> {
        let (first_ns, _) = self.seen_ns.unwrap_or((now_ns, now_ns));
        self.seen_ns = Some((first_ns, now_ns));
        self.looks += 1;
        let long_ns = if silent { GONE_NS.max(patience_ns) } else { GONE_NS };
        self.believed = self.looks >= LOOKS && now_ns - first_ns >= long_ns;
        self.believed.then_some(first_ns)
    }

    /// A broker knows the topic.
    pub(super) fn somebody_knows(&mut self) {
        *self = Self::default();
    }

    pub(super) fn is_believed(&self) -> bool {
        self.believed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_topic_is_gone_after_several_looks_over_a_second_and_not_before() {
        let mut doubt = Doubt::default();
        assert_eq!(doubt.nobody_knows(500 * MS, false, 0), None);
        // A long silence between two looks is no look.
        assert_eq!(doubt.nobody_knows(9_000 * MS, false, 0), None);
        assert_eq!(doubt.nobody_knows(9_100 * MS, false, 0), Some(500 * MS));
        let mut many = Doubt::default();
        let found: Vec<_> = (0..=10).map(|look| many.nobody_knows(look * 100 * MS, false, 0)).collect();
        assert!(found[..10].iter().all(Option::is_none), "{found:?}");
        assert_eq!(found[10], Some(0));
    }

    #[test]
    fn one_who_knows_it_begins_the_doubt_anew() {
        let mut doubt = Doubt::default();
        (0..9).for_each(|look| assert_eq!(doubt.nobody_knows(look * 100 * MS, false, 0), None));
        doubt.somebody_knows();
        assert_eq!(doubt.nobody_knows(1_500 * MS, false, 0), None);
        assert!(!doubt.is_believed());
    }

    #[test]
    fn brokers_that_do_not_answer_might_know() {
        let mut doubt = Doubt::default();
        (0..50).for_each(|look| assert_eq!(doubt.nobody_knows(look * 100 * MS, true, 5_000 * MS), None));
        assert_eq!(doubt.nobody_knows(5_000 * MS, true, 5_000 * MS), Some(0));
    }
}
