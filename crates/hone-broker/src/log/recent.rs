//! The last batches of a log, so that readers at its end find their place without reading a file.

use std::collections::VecDeque;

/// Batches that are remembered.
const MOST: usize = 1024;

/// Base offset and position of the last batches of the active segment, which has no holes.
#[derive(Debug, Default)]
pub(crate) struct Recent {
    batches: VecDeque<(i64, u64)>,
}

impl Recent {
    pub(crate) fn note(&mut self, base_offset: i64, position: u64) {
        if self.batches.len() == MOST {
            self.batches.pop_front();
        }
        self.batches.push_back((base_offset, position));
    }

    /// Another segment became active.
    pub(crate) fn clear(&mut self) {
        self.batches.clear();
    }

    /// The range of whole batches from the one that holds `offset` to `limit`, the offset behind the last one that is
    /// visible, in up to `most` bytes. `None` when the batches are too old to be remembered.
    pub(crate) fn range(
        &self,
        offset: i64,
        limit: i64,
        most: u64,
        at_least_one: bool,
        end: u64,
    ) -> Option<(u64, u64)> {
        let first = self.batches.partition_point(|(base, _)| *base <= offset).checked_sub(1)?;
        let from = self.position(first, end);
        let visible = self.batches.partition_point(|(base, _)| *base < limit);
        let fitting = self.batches.partition_point(|(_, position)| *position <= from.saturating_add(most));
        // Number of the batch behind the last one that goes.
        let behind = if end <= from.saturating_add(most) { visible } else { visible.min(fitting - 1) };
        let behind = if at_least_one { behind.max(visible.min(first + 1)) } else { behind };
        Some((from, self.position(behind, end).max(from)))
    }

    fn position(&self, number: usize, end: u64) -> u64 {
        self.batches.get(number).map_or(end, |(_, position)| *position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_hold_whole_visible_batches() {
        let mut recent = Recent::default();
        for batch in 0..10 {
            recent.note(100 + 3 * batch, batch.unsigned_abs() * 50);
        }
        let range = |offset, limit, most, at_least_one| recent.range(offset, limit, most, at_least_one, 500);
        assert_eq!(range(99, 130, 1_000, true), None);
        assert_eq!(range(100, 130, 1_000, true), Some((0, 500)));
        assert_eq!(range(104, 130, 100, true), Some((50, 150)));
        assert_eq!(range(104, 130, 149, true), Some((50, 150)));
        assert_eq!(range(104, 130, 7, true), Some((50, 100)));
        assert_eq!(range(104, 130, 7, false), Some((50, 50)));
        assert_eq!(range(104, 109, 1_000, true), Some((50, 150)));
        assert_eq!(range(129, 130, 7, true), Some((450, 500)));
        assert_eq!(range(129, 130, 50, false), Some((450, 500)));
        for batch in 10..2_000 {
            recent.note(100 + 3 * batch, batch.unsigned_abs() * 50);
        }
        assert_eq!(recent.range(104, 130, 7, true, 100_000), None);
    }
}
