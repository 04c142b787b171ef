//! The aborted transactions of a log, in the order of their markers.
//!
//! Their first offsets are not sorted, because a long transaction can end after many short ones. So the list keeps the
//! smallest first offset per block. A reader of a short range of a log with many aborts then reads few blocks.

/// Transactions in one block.
const BLOCK: usize = 128;

/// An aborted transaction in the log: from its first batch to its marker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Aborted {
    pub(crate) producer_id: i64,
    pub(crate) first_offset: i64,
    pub(crate) marker_offset: i64,
}

/// All of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct AbortedList {
    /// By marker.
    all: Vec<Aborted>,
    /// The smallest first offset of each block.
    smallest: Vec<i64>,
}

impl AbortedList {
    /// Adds one; its marker lies behind all others.
    pub(crate) fn push(&mut self, aborted: Aborted) {
        if self.all.len().is_multiple_of(BLOCK) {
            self.smallest.push(aborted.first_offset);
        } else if let Some(smallest) = self.smallest.last_mut() {
            *smallest = aborted.first_offset.min(*smallest);
        }
        self.all.push(aborted);
    }

    /// Forgets those that end before an offset.
    pub(crate) fn forget(&mut self, before: i64) {
        let left = self.all.partition_point(|aborted| aborted.marker_offset < before);
        if left > 0 {
            *self = self.all.drain(..).skip(left).collect();
        }
    }

    /// Those that begin before `to` and end at `from` or behind it, by marker.
    pub(crate) fn touching(&self, from: i64, to: i64) -> impl Iterator<Item = &Aborted> {
        let begin = self.all.partition_point(|aborted| aborted.marker_offset < from);
        let blocks = self.all.chunks(BLOCK).zip(&self.smallest).enumerate().skip(begin / BLOCK);
        blocks
            .filter(move |(_, (_, smallest))| **smallest < to)
            .flat_map(move |(number, (block, _))| {
                block.get(begin.saturating_sub(number * BLOCK)..).unwrap_or_default()
            })
            .filter(move |aborted| aborted.first_offset < to)
    }

    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &Aborted> {
        self.all.iter()
    }
}

impl FromIterator<Aborted> for AbortedList {
    fn from_iter<T: IntoIterator<Item = Aborted>>(all: T) -> Self {
        let mut list = Self::default();
        all.into_iter().for_each(|aborted| list.push(aborted));
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Short transactions one behind the other, and a long one over each thousand.
    fn many() -> AbortedList {
        let short = |number: i64| Aborted {
            producer_id: number,
            first_offset: 10 * number,
            marker_offset: 10 * number + 15,
        };
        (0..5_000)
            .map(|number| match short(number) {
                last if number % 1_000 == 999 => Aborted { first_offset: 10 * (number - 990), ..last },
                short => short,
            })
            .collect()
    }

    #[test]
    fn a_stretch_gets_what_touches_it_and_nothing_else() {
        let mut list = many();
        for forgotten in [0, 1, 127, 12_345] {
            list.forget(forgotten);
            assert!(list.iter().all(|aborted| aborted.marker_offset >= forgotten));
            for (from, to) in (0..50_200).step_by(93).flat_map(|from| [(from, from + 1), (from, from + 400)])
            {
                let wanted =
                    list.iter().filter(|aborted| aborted.marker_offset >= from && aborted.first_offset < to);
                assert!(list.touching(from, to).eq(wanted), "{from}..{to}");
            }
        }
    }

    #[test]
    fn a_small_stretch_looks_into_few_blocks() {
        let list = many();
        for from in (0..50_000).step_by(977) {
            let looked_into = list.smallest.iter().skip(list.blocks_before(from));
            let count = looked_into.filter(|smallest| **smallest < from + 10).count();
            // Its own, one behind it, and that of the long transaction.
            assert!(count <= 3, "{count} at {from}");
        }
    }

    impl AbortedList {
        fn blocks_before(&self, from: i64) -> usize {
            self.all.partition_point(|aborted| aborted.marker_offset < from) / BLOCK
        }
    }
}
