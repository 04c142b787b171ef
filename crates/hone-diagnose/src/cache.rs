//! Caches and TLBs as they are modelled: sets of entries, of which the least recently used one goes; demand alone, no prefetcher. Used by
//! the tracer while a program runs, and by the replay of recorded windows on other layouts; so it knows nothing but `std`.

/// A line of all caches, as a power of two.
pub const LINE_BITS: u32 = 6;

/// The form of a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// As reports name it.
    pub name: &'static str,
    /// Sets; a power of two.
    pub sets: u32,
    /// Entries in a set.
    pub ways: u32,
    /// An entry covers two to this many bytes.
    pub bits: u32,
}

/// Structures that are simulated, each at two sizes at least: a cliff between two sizes is a finding. They are not those of the machine,
/// whose guests are told wrong ones. A second level sees what the first structure misses.
pub const MODELS: [Geometry; 8] = [
    Geometry { name: "L1i 32 KiB 8-way", sets: 64, ways: 8, bits: LINE_BITS },
    Geometry { name: "L1i 64 KiB 16-way", sets: 64, ways: 16, bits: LINE_BITS },
    Geometry { name: "L1i 64 KiB 4-way", sets: 256, ways: 4, bits: LINE_BITS },
    Geometry { name: "L2 512 KiB 8-way", sets: 1024, ways: 8, bits: LINE_BITS },
    Geometry { name: "L2 2 MiB 16-way", sets: 2048, ways: 16, bits: LINE_BITS },
    Geometry { name: "iTLB 64 x 4 KiB", sets: 1, ways: 64, bits: 12 },
    Geometry { name: "iTLB 128 x 4 KiB 8-way", sets: 16, ways: 8, bits: 12 },
    Geometry { name: "iTLB 32 x 2 MiB", sets: 1, ways: 32, bits: 21 },
];

/// Places in [`MODELS`].
pub const L1I_32K: usize = 0;
/// See [`L1I_32K`].
pub const L1I_64K: usize = 1;
/// See [`L1I_32K`].
pub const ITLB_64: usize = 5;

/// A structure with its entries.
#[derive(Debug, Clone)]
struct Cache {
    /// By set, the most recently used first.
    entries: Box<[u64]>,
    ways: usize,
    mask: u64,
    bits: u32,
}

/// No address: none is so high.
const EMPTY: u64 = u64::MAX;

impl Cache {
    fn new(geometry: &Geometry) -> Self {
        Self {
            entries: vec![EMPTY; (geometry.sets * geometry.ways) as usize].into(),
            ways: geometry.ways as usize,
            mask: u64::from(geometry.sets - 1),
            bits: geometry.bits,
        }
    }

    /// Touches what holds an address. Whether it was there.
    #[inline]
    fn touch(&mut self, address: u64) -> bool {
        let tag = address >> self.bits;
        let set = (tag & self.mask) as usize * self.ways;
        let set = &mut self.entries[set..set + self.ways];
        // One pass finds the tag and moves what was used since behind it.
        let mut carried = tag;
        for entry in set {
            std::mem::swap(entry, &mut carried);
            if carried == tag {
                return true;
            }
        }
        false
    }
}

/// All structures of one thread.
#[derive(Debug, Clone)]
pub struct Hierarchy {
    caches: [Cache; MODELS.len()],
    /// What each TLB saw last. It is the most recently used of its entries, so that seeing it again changes nothing.
    pages: [u64; MODELS.len()],
}

impl Default for Hierarchy {
    fn default() -> Self {
        Self::new()
    }
}

impl Hierarchy {
    /// Empty.
    pub fn new() -> Self {
        Self { caches: std::array::from_fn(|model| Cache::new(&MODELS[model])), pages: [EMPTY; MODELS.len()] }
    }

    /// Fetches the line that holds an address, and tells of each structure that missed it.
    #[inline]
    pub fn fetch(&mut self, address: u64, mut missed: impl FnMut(usize)) {
        let is_in_l1 = self.caches[L1I_32K].touch(address);
        if !is_in_l1 {
            missed(L1I_32K);
        }
        for (model, geometry) in MODELS.iter().enumerate().skip(1) {
            let is_second_level = matches!(model, 3 | 4);
            if is_second_level && is_in_l1 {
                continue;
            }
            if model >= ITLB_64 {
                let page = address >> geometry.bits;
                if std::mem::replace(&mut self.pages[model], page) == page {
                    continue;
                }
            }
            if !self.caches[model].touch(address) {
                missed(model);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn misses(lines: impl IntoIterator<Item = u64>) -> [u64; MODELS.len()] {
        let mut caches = Hierarchy::new();
        let mut counts = [0; MODELS.len()];
        for line in lines {
            caches.fetch(line << LINE_BITS, |model| counts[model] += 1);
        }
        counts
    }

    #[test]
    fn what_fits_is_missed_once_and_what_does_not_every_time() {
        // 512 lines fill 32 KiB exactly; one line more in the order of their addresses leaves no line of one set long enough.
        let fits: Vec<u64> = (0..512).cycle().take(5 * 512).collect();
        assert_eq!(misses(fits), [512, 512, 512, 512, 512, 8, 8, 1]);
        let nine_of_a_set: Vec<u64> = (0..9).map(|index| index * 64).cycle().take(90).collect();
        let counts = misses(nine_of_a_set);
        assert_eq!((counts[L1I_32K], counts[L1I_64K], counts[2]), (90, 9, 9));
        // A second level sees the misses of the first alone, and holds them.
        assert_eq!((counts[3], counts[4]), (9, 9));
    }

    #[test]
    fn the_least_recently_used_goes() {
        // 8 lines of a set, the first one touched again, a ninth: the second one has to go.
        let lines = (0..8).chain([0, 8, 0, 1]).map(|index| index * 64);
        assert_eq!(misses(lines)[L1I_32K], 8 + 1 + 1);
    }

    #[test]
    fn a_tlb_of_64_pages_holds_64() {
        let pages = |count: u64| (0..count).map(|page| page << 6).cycle().take(10 * count as usize);
        assert_eq!(misses(pages(64))[ITLB_64], 64);
        assert_eq!(misses(pages(65))[ITLB_64], 650);
        assert_eq!(misses(pages(65))[6], 65);
    }

    #[test]
    fn names_say_their_sizes() {
        let bytes = |geometry: &Geometry| u64::from(geometry.sets * geometry.ways) << geometry.bits;
        let of = |name: &str| bytes(MODELS.iter().find(|model| model.name == name).unwrap());
        assert_eq!(of("L1i 32 KiB 8-way"), 32 << 10);
        assert_eq!((of("L1i 64 KiB 16-way"), of("L1i 64 KiB 4-way")), (64 << 10, 64 << 10));
        assert_eq!((of("L2 512 KiB 8-way"), of("L2 2 MiB 16-way")), (512 << 10, 2 << 20));
        assert_eq!((of("iTLB 64 x 4 KiB"), of("iTLB 128 x 4 KiB 8-way")), (64 << 12, 128 << 12));
        assert!(MODELS[L1I_64K].name.contains("64 KiB") && MODELS[ITLB_64].name.contains("64 x 4 KiB"));
    }
}
