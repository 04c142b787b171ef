//! Models of caches and TLBs: sets of entries with LRU replacement, demand accesses only, no prefetcher. The tracer uses them while a
//! program runs, and the replay of recorded windows uses them for other layouts. So this file uses only `std`.

/// Line size of all caches, as a power of two.
pub const LINE_BITS: u32 = 6;

/// Geometry of a structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Geometry {
    /// Name in reports.
    pub name: &'static str,
    /// Number of sets; a power of two.
    pub sets: u32,
    /// Entries per set.
    pub ways: u32,
    /// An entry covers two to this many bytes.
    pub bits: u32,
}

/// Simulated structures, each with at least two sizes, since a cliff between two sizes is a finding. They are not those of the machine,
/// which a hypervisor may report wrongly. A second level sees the misses of the first structure. A last level sees those of code and of data.
pub const MODELS: [Geometry; 12] = [
    Geometry { name: "L1i 32 KiB 8-way", sets: 64, ways: 8, bits: LINE_BITS },
    Geometry { name: "L1i 64 KiB 16-way", sets: 64, ways: 16, bits: LINE_BITS },
    Geometry { name: "L1i 64 KiB 4-way", sets: 256, ways: 4, bits: LINE_BITS },
    Geometry { name: "L2 512 KiB 8-way", sets: 1024, ways: 8, bits: LINE_BITS },
    Geometry { name: "L2 2 MiB 16-way", sets: 2048, ways: 16, bits: LINE_BITS },
    Geometry { name: "iTLB 64 x 4 KiB", sets: 1, ways: 64, bits: 12 },
    Geometry { name: "iTLB 128 x 4 KiB 8-way", sets: 16, ways: 8, bits: 12 },
    Geometry { name: "iTLB 32 x 2 MiB", sets: 1, ways: 32, bits: 21 },
    Geometry { name: "L1d 32 KiB 8-way", sets: 64, ways: 8, bits: LINE_BITS },
    Geometry { name: "L1d 48 KiB 12-way", sets: 64, ways: 12, bits: LINE_BITS },
    Geometry { name: "last level 4 MiB 16-way", sets: 4096, ways: 16, bits: LINE_BITS },
    Geometry { name: "last level 16 MiB 16-way", sets: 16384, ways: 16, bits: LINE_BITS },
];

/// Indexes into [`MODELS`].
pub const L1I_32K: usize = 0;
/// See [`L1I_32K`].
pub const L1I_64K: usize = 1;
/// See [`L1I_32K`].
pub const ITLB_64: usize = 5;
const L1I_64K_4_WAY: usize = 2;
/// See [`L1I_32K`].
pub const L1D_32K: usize = 8;
/// Models from here on need the addresses of data, too.
pub const WITH_DATA: usize = L1D_32K;
/// See [`L1I_32K`].
pub const LAST_LEVEL_4M: usize = 10;
const L1D_48K: usize = 9;
const SECOND_LEVELS: [usize; 2] = [3, 4];
const LAST_LEVELS: [usize; 2] = [LAST_LEVEL_4M, 11];

/// A structure with its entries.
#[derive(Debug, Clone)]
struct Cache {
    /// Entries by set, the most recently used first.
    entries: Box<[u64]>,
    ways: usize,
    mask: u64,
    bits: u32,
}

/// A tag that no address has.
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

    /// Whether the entry of an address was the last one used of its set.
    #[inline]
    fn is_first(&self, address: u64) -> bool {
        let tag = address >> self.bits;
        self.entries[(tag & self.mask) as usize * self.ways] == tag
    }

    /// Accesses the entry of an address. Returns whether it was present.
    #[inline]
    fn touch(&mut self, address: u64) -> bool {
        self.place(address).is_some()
    }

    /// Accesses the entry of an address. Returns how many entries of its set had been used since, if it was present.
    #[inline]
    fn place(&mut self, address: u64) -> Option<usize> {
        let tag = address >> self.bits;
        let set = (tag & self.mask) as usize * self.ways;
        let set = &mut self.entries[set..set + self.ways];
        // One pass finds the tag and moves the later used entries after it.
        let mut carried = tag;
        for (place, entry) in set.iter_mut().enumerate() {
            std::mem::swap(entry, &mut carried);
            if carried == tag {
                return Some(place);
            }
        }
        None
    }
}

/// All structures of one thread that code alone fills.
#[derive(Debug, Clone)]
pub struct Hierarchy {
    /// The model [`L1I_32K`] is not used: see [`Self::fetch`].
    caches: [Cache; WITH_DATA],
    /// The page of the last fetch. It is the most recently used entry of every TLB, so fetching from it again changes nothing.
    page: u64,
}

impl Default for Hierarchy {
    fn default() -> Self {
        Self::new()
    }
}

impl Hierarchy {
    /// Structures without entries.
    pub fn new() -> Self {
        Self { caches: std::array::from_fn(|model| Cache::new(&MODELS[model])), page: EMPTY }
    }

    /// Fetches the line that holds an address, and reports each structure that missed it.
    #[inline]
    pub fn fetch(&mut self, address: u64, mut missed: impl FnMut(usize)) {
        let first = &self.caches[L1I_64K];
        // The last used line of its set is also the last used one in each first level, so nothing changes.
        if !first.is_first(address) {
            self.fetch_line(address, &mut missed);
        }
        let page = address >> MODELS[ITLB_64].bits;
        if std::mem::replace(&mut self.page, page) != page {
            for (tlb, cache) in self.caches.iter_mut().enumerate().skip(ITLB_64) {
                if !cache.touch(address) {
                    missed(tlb);
                }
            }
        }
    }

    /// Half of the ways of the same sets hold the more recent half of the lines, so one structure serves both sizes.
    fn fetch_line(&mut self, address: u64, missed: &mut impl FnMut(usize)) {
        let found = self.caches[L1I_64K].place(address);
        if found.is_none() {
            missed(L1I_64K);
        }
        if !self.caches[L1I_64K_4_WAY].touch(address) {
            missed(L1I_64K_4_WAY);
        }
        if found.is_some_and(|place| place < MODELS[L1I_32K].ways as usize) {
            return;
        }
        missed(L1I_32K);
        for second in SECOND_LEVELS {
            if !self.caches[second].touch(address) {
                missed(second);
            }
        }
    }
}

/// The structures of one thread that data fills. Stores count like loads.
#[derive(Debug, Clone)]
pub struct DataCaches {
    /// It serves both sizes: see [`Hierarchy::fetch_line`].
    first: Cache,
    last: [Cache; LAST_LEVELS.len()],
}

impl Default for DataCaches {
    fn default() -> Self {
        Self::new()
    }
}

impl DataCaches {
    /// Structures without entries.
    pub fn new() -> Self {
        Self {
            first: Cache::new(&MODELS[L1D_48K]),
            last: LAST_LEVELS.map(|model| Cache::new(&MODELS[model])),
        }
    }

    /// Accesses the line of an address, and reports each structure that missed it.
    #[inline]
    pub fn access(&mut self, address: u64, mut missed: impl FnMut(usize)) {
        if self.first.is_first(address) {
            return;
        }
        let found = self.first.place(address);
        if found.is_none() {
            missed(L1D_48K);
        }
        if found.is_none_or(|place| place >= MODELS[L1D_32K].ways as usize) {
            missed(L1D_32K);
            self.below(address, missed);
        }
    }

    /// Accesses the last levels, after a first level for code or data missed.
    #[inline]
    pub fn below(&mut self, address: u64, mut missed: impl FnMut(usize)) {
        for (cache, model) in self.last.iter_mut().zip(LAST_LEVELS) {
            if !cache.touch(address) {
                missed(model);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn misses(lines: impl IntoIterator<Item = u64>) -> [u64; WITH_DATA] {
        let mut caches = Hierarchy::new();
        let mut counts = [0; WITH_DATA];
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

    /// One structure after the other, each for itself.
    #[test]
    fn what_is_left_out_for_speed_changes_nothing() {
        let mut caches = Hierarchy::new();
        let mut each: Vec<Cache> = MODELS.iter().map(Cache::new).collect();
        let mut state = 7_u64;
        for step in 0..200_000_u64 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Runs of lines, loops of some hundred, and far jumps.
            let line = match state >> 61 {
                0..=3 => step % 700,
                4..=6 => (state >> 40) % 1_500,
                _ => (state >> 30) % 3_000_000,
            };
            let address = line << LINE_BITS;
            let mut missed = [false; WITH_DATA];
            caches.fetch(address, |model| missed[model] = true);
            let misses_first = !each[L1I_32K].touch(address);
            let wanted = std::array::from_fn(|model| match model {
                L1I_32K => misses_first,
                second if SECOND_LEVELS.contains(&second) => misses_first && !each[second].touch(address),
                other => !each[other].touch(address),
            });
            assert_eq!(missed, wanted, "step {step}, line {line}");
        }
    }

    #[test]
    fn data_is_missed_like_code_and_shares_the_last_level_with_it() {
        let mut caches = DataCaches::new();
        let mut counts = [0; MODELS.len()];
        let mut pass = |lines: u64| {
            let mut missed = [0; MODELS.len()];
            (0..lines).for_each(|line| caches.access(line << LINE_BITS, |model| missed[model] += 1));
            missed[WITH_DATA..].to_vec()
        };
        // 640 lines are 40 KiB: they fit 48 KiB, and in the order of their addresses each of them leaves 32 KiB before its turn.
        assert_eq!(pass(640), [640, 640, 640, 640]);
        assert_eq!(pass(640), [640, 0, 0, 0]);
        // 8 MiB fit the larger last level.
        assert_eq!(pass(131_072), [131_072, 131_072 - 640, 131_072 - 640, 131_072 - 640]);
        assert_eq!(pass(131_072), [131_072, 131_072, 131_072, 0]);
        caches.below(0, |model| counts[model] += 1);
        assert_eq!(counts[WITH_DATA..], [0, 0, 1, 0], "code finds a line that data brought");
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
        assert_eq!((of("L1d 32 KiB 8-way"), of("L1d 48 KiB 12-way")), (32 << 10, 48 << 10));
        assert_eq!((of("last level 4 MiB 16-way"), of("last level 16 MiB 16-way")), (4 << 20, 16 << 20));
        assert!(MODELS[L1I_64K].name.contains("64 KiB") && MODELS[ITLB_64].name.contains("64 x 4 KiB"));
    }
}
