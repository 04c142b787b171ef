//! Recorded execution in its current layout and in another layout.

use hone_record::{CodeLayout, Foretelling};

use super::Moved;
use crate::model::{Run, Simulated, layout, missed, replay};
use crate::verdict;

/// Objects are far enough apart that they share no pages.
const APART: u32 = 44;

impl Moved {
    /// Effect of an object's new addresses on the recorded execution. `None` if no window of the order was recorded.
    pub fn predict(&self, run: &Run, object: u32, source: String) -> Option<Foretelling> {
        let moved = self.run(run, object);
        let (before, now) = (replayed(run), replayed(&moved));
        if before.instructions == 0 {
            return None;
        }
        let of = |run: &Run, windows: &Simulated| {
            let whole = run.whole();
            CodeLayout { lines_fetched_per_1000: None, misses: missed(windows), ..layout(run, &whole) }
        };
        let replayed = before.instructions;
        let (before, now) = (of(run, &before), of(&moved, &now));
        let (expected, rule) = verdict::of_change(&before, &now);
        Some(Foretelling { source, before, now, replayed, expected, rule })
    }
}

/// Misses of the recorded windows, each object at its own address range.
fn replayed(run: &Run) -> Simulated {
    let place = |id: u32| {
        let block = run.blocks.get(id as usize)?;
        let base = block.object.map_or(0, |object| (u64::from(object) + 1) << APART);
        Some((block.address.wrapping_add(base), block.size))
    };
    replay(&run.blocks, &run.windows, place)
}
