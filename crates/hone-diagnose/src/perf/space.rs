//! Address spaces of processes.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// More mappings than the kernel allows a process.
const MOST_OF_A_PROCESS: usize = 70_000;
/// Limit of mappings over all processes. A fork copies those of its parent, and a file may contain any number of forks.
const MOST_MAPPINGS: usize = 2_000_000;

/// A mapping, by its start address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mapping {
    end: u64,
    offset: u64,
    path: u32,
}

/// Mappings of a process.
#[derive(Debug, Clone, Default)]
struct Space {
    /// Shared with children that have mapped nothing yet.
    mappings: Rc<BTreeMap<u64, Mapping>>,
    /// The first mapped file is the program: the kernel maps it first, and lower than libraries.
    program: Option<u32>,
}

/// Mappings of all processes.
#[derive(Debug, Default)]
pub(super) struct Spaces {
    processes: HashMap<u32, Space>,
    /// Number of mappings copied and created so far.
    made: usize,
    /// Number of mappings above the limit.
    pub(super) left_out: u64,
}

impl Spaces {
    /// Adds a mapping, which replaces older ones in its range.
    pub(super) fn map(&mut self, pid: u32, begin: u64, bytes: u64, offset: u64, path: u32, is_file: bool) {
        let Some(end) = begin.checked_add(bytes).filter(|end| *end > begin) else { return };
        let space = self.processes.entry(pid).or_default();
        let copied = if Rc::strong_count(&space.mappings) > 1 { space.mappings.len() } else { 0 };
        if space.mappings.len() >= MOST_OF_A_PROCESS || self.made + copied >= MOST_MAPPINGS {
            self.left_out += 1;
            return;
        }
        self.made += copied + 1;
        if is_file {
            space.program.get_or_insert(path);
        }
        let mappings = Rc::make_mut(&mut space.mappings);
        clear(mappings, begin, end);
        mappings.insert(begin, Mapping { end, offset, path });
    }

    /// Adds a process with all mappings of its parent.
    pub(super) fn fork(&mut self, parent: u32, pid: u32) {
        if parent != pid {
            let space = self.processes.get(&parent).cloned().unwrap_or_default();
            self.processes.insert(pid, space);
        }
    }

    /// A new program starts: all mappings are gone.
    pub(super) fn clear(&mut self, pid: u32) {
        self.processes.remove(&pid);
    }

    /// The mapping at an address, and the offset in it.
    pub(super) fn find(&self, pid: u32, address: u64) -> Option<(u32, u64)> {
        let (begin, mapping) = self.processes.get(&pid)?.mappings.range(..=address).next_back()?;
        let within = address < mapping.end;
        within.then(|| (mapping.path, (address - begin).saturating_add(mapping.offset)))
    }

    /// The program of a process.
    pub(super) fn program(&self, pid: u32) -> Option<u32> {
        self.processes.get(&pid)?.program
    }
}

/// Removes mappings between two addresses. Mappings across the border are cut.
fn clear(mappings: &mut BTreeMap<u64, Mapping>, begin: u64, end: u64) {
    let before = mappings.range(..begin).next_back().map(|(at, mapping)| (*at, *mapping));
    if let Some((at, old)) = before.filter(|(_, old)| old.end > begin) {
        mappings.insert(at, Mapping { end: begin, ..old });
        if old.end > end {
            mappings.insert(end, Mapping { offset: old.offset.saturating_add(end - at), ..old });
        }
    }
    let within: Vec<(u64, Mapping)> = mappings.range(begin..end).map(|(at, old)| (*at, *old)).collect();
    for (at, old) in within {
        mappings.remove(&at);
        if old.end > end {
            mappings.insert(end, Mapping { offset: old.offset.saturating_add(end - at), ..old });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_cuts_what_it_covers() {
        let mut spaces = Spaces::default();
        spaces.map(1, 0x1000, 0x4000, 0x100, 0, true);
        spaces.map(1, 0x2000, 0x1000, 0, 1, true);
        assert_eq!(spaces.find(1, 0x1fff), Some((0, 0x10ff)));
        assert_eq!(spaces.find(1, 0x2fff), Some((1, 0xfff)));
        assert_eq!(spaces.find(1, 0x3000), Some((0, 0x2100)));
        assert_eq!(
            (spaces.find(1, 0x5000), spaces.find(1, 0xfff), spaces.find(2, 0x1000)),
            (None, None, None)
        );
        spaces.map(1, 0x1800, 0x3000, 0, 2, false);
        assert_eq!((spaces.find(1, 0x4800), spaces.find(1, 0x47ff)), (Some((0, 0x3900)), Some((2, 0x2fff))));
        assert_eq!(spaces.program(1), Some(0));
    }

    #[test]
    fn a_child_has_its_parents_mappings_until_it_has_its_own() {
        let mut spaces = Spaces::default();
        spaces.map(1, 0x1000, 0x1000, 0, 0, true);
        spaces.fork(1, 2);
        spaces.map(2, 0x1000, 0x800, 0, 1, true);
        assert_eq!((spaces.find(1, 0x1010), spaces.find(2, 0x1010)), (Some((0, 0x10)), Some((1, 0x10))));
        spaces.clear(2);
        assert_eq!((spaces.find(2, 0x1010), spaces.program(2)), (None, None));
        spaces.map(3, u64::MAX - 1, 9, 0, 0, true);
        assert_eq!(spaces.find(3, u64::MAX - 1), None, "no address is behind the last one");
    }

    #[test]
    fn forks_without_end_do_not_fill_the_memory() {
        let mut spaces = Spaces::default();
        (0..2_000_u64).for_each(|at| spaces.map(1, at << 12, 4096, 0, 0, true));
        for pid in 2..2_000 {
            spaces.fork(1, pid);
            spaces.map(pid, 0, 1, 0, 1, true);
        }
        assert!(spaces.left_out > 0 && spaces.made <= MOST_MAPPINGS + 2_000, "{}", spaces.made);
    }
}
