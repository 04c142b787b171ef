//! The table that `llvm-bolt --enable-bat` leaves in a program: the old address of each new address (the form of BOLT 19 to 22, see
//! bolt/docs/BAT.md). The input bytes are not trusted. The code is pure.

/// The section that holds it.
pub(super) const SECTION: &str = ".note.bolt_bat";

/// One part of a function in memory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fragment {
    /// New start of the hot part of its function; for a hot part its own start.
    pub(super) function: u64,
    /// Places sorted by new address.
    pub(super) places: Vec<AddressOrigin>,
}

/// A place with its origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AddressOrigin {
    /// New address.
    pub(super) now: u64,
    /// Old offset in its function.
    pub(super) before: u64,
    /// Whether it is a branch or a call, and not the start of a block.
    pub(super) is_branch: bool,
}

/// A table that can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum BadTable {
    #[error("it is truncated at byte {0}")]
    Short(usize),
    #[error("it is not a note from BOLT")]
    NoNote,
    #[error("its known form ends at byte {at} of {all}: it comes from another version than BOLT 19 to 22")]
    Unknown { at: usize, all: usize },
    #[error("a number at byte {0} is out of range")]
    Large(usize),
}

/// Reads the section.
pub(super) fn parse(section: &[u8]) -> Result<Vec<Fragment>, BadTable> {
    let mut reader = Reader { bytes: section, at: 0 };
    let (name, described, kind) = (reader.word()?, reader.word()?, reader.word()?);
    if (name, kind) != (5, 1) || reader.take(8)? != b"BOLT\0\0\0\0" {
        return Err(BadTable::NoNote);
    }
    let end = reader.at.saturating_add(described as usize);
    if end > section.len() {
        return Err(BadTable::Short(section.len()));
    }
    reader.bytes = &section[..end];
    let mut fragments = Vec::new();
    let mut previous = 0;
    for _ in 0..reader.unsigned()? {
        let fragment = reader.hot(&mut previous)?;
        fragments.push(fragment);
    }
    let hot = fragments.len();
    let mut index = 0_u64;
    for _ in 0..reader.unsigned()? {
        let fragment = reader.cold(&mut previous, &mut index, &fragments[..hot])?;
        fragments.push(fragment);
    }
    // Data of another version in between shifts everything after it.
    if reader.at != end {
        return Err(BadTable::Unknown { at: reader.at, all: end });
    }
    Ok(fragments)
}

/// Places of a fragment whose old and new offsets differ by the same distance.
struct Equal<'a> {
    elements: u64,
    distance: u64,
    /// One bit for each: whether it is a branch.
    branches: &'a [u8],
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn hot(&mut self, previous: &mut u64) -> Result<Fragment, BadTable> {
        let address = self.address(previous)?;
        // The hash of the old function, and its number of blocks.
        self.take(8)?;
        self.unsigned()?;
        let entries = self.unsigned()?;
        let places = self.unsigned()?;
        let equal = self.equal(0)?;
        let fragment =
            Fragment { function: address, places: self.places(address, previous, places, &equal)? };
        for _ in 0..entries {
            self.unsigned()?;
        }
        Ok(fragment)
    }

    fn cold(&mut self, previous: &mut u64, index: &mut u64, hot: &[Fragment]) -> Result<Fragment, BadTable> {
        let address = self.address(previous)?;
        let at = self.at;
        *index = index.checked_add(self.unsigned()?).ok_or(BadTable::Large(at))?;
        let distance = self.unsigned()?;
        let places = self.unsigned()?;
        let equal = self.equal(distance)?;
        let function = usize::try_from(*index).ok().and_then(|index| hot.get(index));
        let function = function.ok_or(BadTable::Large(at))?.function;
        Ok(Fragment { function, places: self.places(address, previous, places, &equal)? })
    }

    fn equal(&mut self, distance: u64) -> Result<Equal<'a>, BadTable> {
        let elements = self.unsigned()?;
        let bytes = usize::try_from(elements.div_ceil(8)).map_err(|_| BadTable::Large(self.at))?;
        Ok(Equal { elements, distance, branches: self.take(bytes)? })
    }

    fn places(
        &mut self,
        begin: u64,
        previous: &mut u64,
        count: u64,
        equal: &Equal<'_>,
    ) -> Result<Vec<AddressOrigin>, BadTable> {
        // Each takes at least one byte, so an invented number runs out of bytes and reserves no memory.
        let mut places = Vec::new();
        let mut tagged = 0_i64;
        for index in 0..count {
            let now = self.address(previous)?;
            if index < equal.elements {
                let is_branch = equal.branches[(index / 8) as usize] >> (index % 8) & 1;
                let before = now
                    .checked_sub(begin)
                    .and_then(|now| now.checked_add(equal.distance))
                    .filter(|before| *before < 1 << 62);
                tagged = (before.ok_or(BadTable::Large(self.at))? as i64) << 1 | i64::from(is_branch);
            } else {
                tagged = tagged.checked_add(self.signed()?).ok_or(BadTable::Large(self.at))?;
            }
            let is_branch = tagged & 1 == 1;
            let before = u64::try_from(tagged >> 1).map_err(|_| BadTable::Large(self.at))?;
            places.push(AddressOrigin { now, before, is_branch });
            if !is_branch {
                // The block's hash and its number.
                self.take(8)?;
                self.unsigned()?;
            }
        }
        Ok(places)
    }

    /// Each offset is relative to the previous one, even of another function. Cold parts can lie before hot ones, and the number then wraps
    /// around.
    fn address(&mut self, previous: &mut u64) -> Result<u64, BadTable> {
        *previous = previous.wrapping_add(self.unsigned()?);
        Ok(*previous)
    }

    fn take(&mut self, bytes: usize) -> Result<&'a [u8], BadTable> {
        let end = self.at.checked_add(bytes).filter(|end| *end <= self.bytes.len());
        let taken = &self.bytes[self.at..end.ok_or(BadTable::Short(self.at))?];
        self.at += bytes;
        Ok(taken)
    }

    fn word(&mut self) -> Result<u32, BadTable> {
        let bytes = self.take(4)?;
        Ok(bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte)))
    }

    /// Unsigned LEB128.
    fn unsigned(&mut self) -> Result<u64, BadTable> {
        let (value, _, _) = self.leb()?;
        Ok(value)
    }

    /// Signed LEB128.
    fn signed(&mut self) -> Result<i64, BadTable> {
        let (value, bits, is_negative) = self.leb()?;
        let filled = if is_negative && bits < 64 { value | u64::MAX << bits } else { value };
        Ok(filled as i64)
    }

    /// The bits, their number, and whether the highest of them is set.
    fn leb(&mut self) -> Result<(u64, u32, bool), BadTable> {
        let at = self.at;
        let (mut value, mut bits) = (0_u64, 0_u32);
        loop {
            let byte = self.take(1)?[0];
            if bits >= 64 {
                return Err(BadTable::Large(at));
            }
            value |= u64::from(byte & 0x7f) << bits;
            bits += 7;
            if byte < 0x80 {
                return Ok((value, bits, byte & 0x40 != 0));
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    fn unsigned(bytes: &mut Vec<u8>, mut value: u64) {
        while value >= 0x80 {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
    }

    fn signed(bytes: &mut Vec<u8>, mut value: i64) {
        loop {
            let (byte, rest) = ((value & 0x7f) as u8, value >> 7);
            value = rest;
            if (rest == 0 && byte & 0x40 == 0) || (rest == -1 && byte & 0x40 != 0) {
                return bytes.push(byte);
            }
            bytes.push(byte | 0x80);
        }
    }

    fn places(bytes: &mut Vec<u8>, previous: &mut u64, places: &[AddressOrigin]) {
        let mut tagged = 0_i64;
        for place in places {
            unsigned(bytes, place.now.wrapping_sub(*previous));
            *previous = place.now;
            let next = (place.before as i64) << 1 | i64::from(place.is_branch);
            signed(bytes, next - tagged);
            tagged = next;
            if !place.is_branch {
                bytes.extend([7; 8]);
                bytes.push(3);
            }
        }
    }

    /// The section as BOLT writes it, without the shorter form of equal places.
    pub(in super::super) fn written(hot: &[Fragment], cold: &[Fragment]) -> Vec<u8> {
        let (mut table, mut previous) = (Vec::new(), 0);
        unsigned(&mut table, hot.len() as u64);
        for fragment in hot {
            unsigned(&mut table, fragment.function.wrapping_sub(previous));
            previous = fragment.function;
            table.extend([9; 8]);
            table.extend([1, 1]);
            unsigned(&mut table, fragment.places.len() as u64);
            table.push(0);
            places(&mut table, &mut previous, &fragment.places);
            table.push(4);
        }
        unsigned(&mut table, cold.len() as u64);
        let mut index = 0;
        for fragment in cold {
            let begin = fragment.places[0].now;
            unsigned(&mut table, begin.wrapping_sub(previous));
            previous = begin;
            let of = hot.iter().position(|hot| hot.function == fragment.function).unwrap() as u64;
            unsigned(&mut table, of - index);
            index = of;
            table.push(0);
            unsigned(&mut table, fragment.places.len() as u64);
            table.push(0);
            places(&mut table, &mut previous, &fragment.places);
        }
        let mut section = [5_u32, table.len() as u32, 1].map(u32::to_le_bytes).concat();
        section.extend(b"BOLT\0\0\0\0");
        section.extend(table);
        section
    }

    pub(in super::super) fn place(now: u64, before: u64, is_branch: bool) -> AddressOrigin {
        AddressOrigin { now, before, is_branch }
    }

    #[test]
    fn a_table_is_read_back() {
        let hot = |begin: u64| Fragment {
            function: begin,
            places: vec![
                place(begin, 0, false),
                place(begin + 9, 0x11, true),
                place(begin + 11, 0x13, false),
            ],
        };
        let cold = Fragment {
            function: 0x40_0100,
            places: vec![place(0x40_1000, 0xa1, false), place(0x40_1005, 0x90, true)],
        };
        let (hot, cold) = ([hot(0x40_0000), hot(0x40_0100)], [cold]);
        let section = written(&hot, &cold);
        assert_eq!(parse(&section).unwrap(), [&hot[..], &cold[..]].concat());
        for end in 0..section.len() {
            parse(&section[..end]).unwrap_err();
        }
    }

    #[test]
    fn cold_halves_may_lie_before_hot_ones() {
        let hot = [Fragment { function: 0x90_0000, places: vec![place(0x90_0000, 0, false)] }];
        let cold = [Fragment {
            function: 0x90_0000,
            places: vec![place(0x40_0000, 8, false), place(0x40_0004, 12, true)],
        }];
        assert_eq!(parse(&written(&hot, &cold)).unwrap(), [&hot[..], &cold[..]].concat());
    }

    /// What BOLT 19 and 22 wrote, byte for byte the same, of a function and its cold half with the shorter form.
    #[test]
    fn places_that_did_not_change_take_no_bytes() {
        let mut section = [5_u32, 0, 1].map(u32::to_le_bytes).concat();
        section.extend(b"BOLT\0\0\0\0");
        section.extend([1, 0x80, 0x80, 0x80, 2]);
        section.extend([9; 8]);
        // One block, no entry, two places, both equal, the second a branch.
        section.extend([1, 0, 2, 2, 0b10, 0]);
        section.extend([9; 8]);
        section.extend([0, 4]);
        // A cold half 0x3c behind; of function 0, 161 further, one place, equal, a block.
        section.extend([1, 0x3c, 0, 0xa1, 1, 1, 1, 0, 0]);
        section.extend([9; 8]);
        section.push(2);
        let described = (section.len() - 20) as u32;
        section[4..8].copy_from_slice(&described.to_le_bytes());
        let fragments = parse(&section).unwrap();
        assert_eq!(fragments[0].places, [place(0x40_0000, 0, false), place(0x40_0004, 4, true)]);
        assert_eq!(
            fragments[1],
            Fragment { function: 0x40_0000, places: vec![place(0x40_0040, 161, false)] }
        );
        section.push(0);
        section[4..8].copy_from_slice(&(described + 1).to_le_bytes());
        assert_eq!(parse(&section), Err(BadTable::Unknown { at: section.len() - 1, all: section.len() }));
    }

    proptest! {
        #[test]
        fn numbers_are_read_back(value: i64, other: u64) {
            let mut bytes = Vec::new();
            signed(&mut bytes, value);
            unsigned(&mut bytes, other);
            let mut reader = Reader { bytes: &bytes, at: 0 };
            prop_assert_eq!((reader.signed(), reader.unsigned()), (Ok(value), Ok(other)));
        }

        #[test]
        fn any_bytes_are_a_table_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut section = [5_u32, bytes.len() as u32, 1].map(u32::to_le_bytes).concat();
            section.extend(b"BOLT\0\0\0\0");
            section.extend(bytes);
            let _ = parse(&section);
        }
    }
}
