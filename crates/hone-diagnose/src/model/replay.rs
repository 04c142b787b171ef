//! Replays windows of a recorded order on a layout: the misses of a structure if the same blocks had other addresses.
//!
//! A window begins with the cache contents of the window before it, and with a warm-up. Windows with empty caches gave the same result for
//! a server with 3 and one with 4 misses per 1,000 instructions: half of their misses were rarely executed code, which stays in real
//! caches.

use super::run::{Block, Simulated, Window};
use crate::cache::{Hierarchy, LINE_BITS, MODELS};

/// Measurements over all windows.
pub type Misses = Simulated;

/// Replays windows on a layout: the address of each block, and its size there. A block without an address is left out.
pub fn replay(blocks: &[Block], windows: &[Window], place: impl Fn(u32) -> Option<(u64, u32)>) -> Misses {
    let mut found = Misses::default();
    let mut ordered: Vec<&Window> = windows.iter().collect();
    // The sort is stable, so the windows of a thread stay in order.
    ordered.sort_by_key(|window| window.thread);
    let (mut caches, mut thread) = (Hierarchy::new(), None);
    for window in ordered {
        if thread.replace(window.thread).is_some_and(|before| before != window.thread) {
            caches = Hierarchy::new();
        }
        let mut line = None;
        for (index, &id) in window.blocks.iter().enumerate() {
            let (Some(block), Some((address, size))) = (blocks.get(id as usize), place(id)) else { continue };
            let is_measured = index >= window.warm_up;
            found.instructions += u64::from(is_measured) * u64::from(block.instructions);
            let last = address.saturating_add(u64::from(size.max(1) - 1)) >> LINE_BITS;
            for fetched in address >> LINE_BITS..=last {
                // The same line again is not an access, since it is still being decoded.
                if line.replace(fetched) == Some(fetched) {
                    continue;
                }
                found.fetched += u64::from(is_measured);
                caches.fetch(fetched << LINE_BITS, |model| {
                    debug_assert!(model < MODELS.len());
                    found.misses[model] += u64::from(is_measured);
                });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::block;
    use super::*;
    use crate::cache::L1I_32K;

    #[test]
    fn a_layout_that_crowds_one_set_misses_and_one_that_spreads_does_not() {
        let blocks: Vec<Block> = (0..16).map(|index| block(index << 12, 64, 10)).collect();
        let round: Vec<u32> = (0..16).collect();
        let window = Window { thread: 0, warm_up: 16, blocks: [round.clone(), round].concat() };
        let crowded = replay(&blocks, std::slice::from_ref(&window), |id| {
            let block = &blocks[id as usize];
            Some((block.address, block.size))
        });
        assert_eq!((crowded.instructions, crowded.fetched, crowded.misses[L1I_32K]), (160, 16, 16));
        assert_eq!(crowded.per_1000(L1I_32K), 100.0);
        let spread = replay(&blocks, &[window], |id| Some((u64::from(id) << 6, 64)));
        assert_eq!((spread.fetched, spread.misses[L1I_32K]), (16, 0));
    }

    #[test]
    fn a_window_begins_with_what_the_last_one_of_its_thread_left() {
        let blocks = [block(0, 64, 10), block(64, 64, 10)];
        let window = |thread, ids: &[u32]| Window { thread, warm_up: 0, blocks: ids.to_vec() };
        let place = |id: u32| Some((u64::from(id) << 6, 64));
        let of = |windows: &[Window]| replay(&blocks, windows, place).misses[L1I_32K];
        assert_eq!(of(&[window(0, &[0, 1]), window(0, &[0, 1])]), 2);
        assert_eq!(of(&[window(0, &[0, 1]), window(1, &[0, 1])]), 4, "another core");
        assert_eq!(of(&[window(0, &[0]), window(1, &[0]), window(0, &[0]), window(1, &[0])]), 2);
    }

    #[test]
    fn a_block_without_a_place_is_left_out() {
        let blocks = [block(0, 64, 10), block(64, 64, 10)];
        let window = Window { thread: 0, warm_up: 0, blocks: vec![0, 1, 7] };
        let found = replay(&blocks, &[window], |id| (id == 0).then_some((0, 64)));
        assert_eq!((found.instructions, found.fetched), (10, 1));
    }
}
