//! The functions of an instrumented program: their names and the hashes of their control flow, by which the compiler matches a profile.
//! They are in two sections that survive every kind of strip.
//!
//! `__llvm_prf_names` has the names; `__llvm_prf_data` has a record for each function, whose length differs between versions of LLVM and is
//! not stored. Every record begins with a hash of the name and the hash of the control flow. So the length is the one with which (nearly)
//! every record begins with the hash of a known name.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use md5::{Digest, Md5};
use object::{Object, ObjectSection};

use super::fault::StoreFault;
use crate::elf;

const DATA: &str = "__llvm_prf_data";

/// Lengths of records to try: 48 bytes in LLVM 14 to 17, 64 since.
const LENGTHS: std::ops::RangeInclusive<usize> = 40..=160;

/// The share of the records that must have a known name. The rest is for names that are not UTF-8.
const KNOWN_PERCENT: usize = 95;

/// Hashes of control flow by name. A name of several functions has several.
pub(crate) type Hashes = HashMap<String, BTreeSet<u64>>;

/// Reads the functions of an instrumented program.
pub(super) fn functions(program: &Path) -> Result<Hashes> {
    let names = elf::instrumented_functions(program)?;
    let fault = |what: &str, next| StoreFault::Program {
        program: program.to_path_buf(),
        what: what.to_owned(),
        next,
    };
    if names.is_empty() {
        return Err(fault(
            "is not instrumented: a plain program has lost its inlined functions, so Hone can't compare \
             them with the profile",
            "build it with -fprofile-generate (Rust: -Cprofile-generate) from the same source and flags; no training is needed",
        )
        .into());
    }
    let bytes = fs::read(program).with_context(|| format!("{} can't be read", program.display()))?;
    let file =
        object::File::parse(&*bytes).with_context(|| format!("{} is not a program", program.display()))?;
    let section = file.sections().find(|section| section.name().is_ok_and(|name| name == DATA));
    let data = section.and_then(|section| section.data().ok());
    let found = data.and_then(|data| table(&names, data, file.is_little_endian()));
    found.ok_or_else(|| {
        let next = "use a linked program of LLVM 14 to 22, not an object or an archive";
        fault("has a table of counters in an unknown format", next).into()
    })
}

/// The table; nothing if no length of its records fits.
pub(crate) fn table(names: &HashSet<String>, data: &[u8], little_endian: bool) -> Option<Hashes> {
    let by_hash: HashMap<u64, &str> = names.iter().map(|name| (name_hash(name), name.as_str())).collect();
    let word = |record: &[u8], at: usize| {
        let bytes: [u8; 8] = record.get(at..at + 8)?.try_into().ok()?;
        Some(if little_endian { u64::from_le_bytes(bytes) } else { u64::from_be_bytes(bytes) })
    };
    let fits = |length: &usize| {
        let records = data.len() / length;
        let known = |record: &&[u8]| word(record, 0).is_some_and(|hash| by_hash.contains_key(&hash));
        records > 0
            && data.len().is_multiple_of(*length)
            && data.chunks_exact(*length).filter(known).count() * 100 >= records * KNOWN_PERCENT
    };
    let length = LENGTHS.step_by(8).find(fits)?;
    let mut hashes = Hashes::new();
    for record in data.chunks_exact(length) {
        if let (Some(name), Some(hash)) = (by_hash.get(&word(record, 0)?), word(record, 8)) {
            hashes.entry((*name).to_owned()).or_default().insert(hash);
        }
    }
    Some(hashes)
}

/// LLVM's hash of a name: the first half of its MD5.
fn name_hash(name: &str) -> u64 {
    let digest: [u8; 16] = Md5::digest(name.as_bytes()).into();
    digest.iter().take(8).rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(names: &[&str]) -> HashSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    fn records(of: &[(&str, u64)], length: usize) -> Vec<u8> {
        let record = |&(name, hash): &(&str, u64)| {
            let mut bytes = name_hash(name).to_le_bytes().to_vec();
            bytes.extend(hash.to_le_bytes());
            bytes.resize(length, 0x5a);
            bytes
        };
        of.iter().flat_map(record).collect()
    }

    #[test]
    fn the_hash_of_a_name_is_that_of_llvm() {
        // So it stands in the intermediate code of every instrumented `main`: -2624081020897602054.
        assert_eq!(name_hash("main"), 0xdb95_6436_e78d_d5fa);
    }

    #[test]
    fn records_are_read_whatever_their_length() {
        let of = [("main", 7), ("a.c;turn", 9), ("main", 8)];
        for length in [48, 64, 72] {
            let hashes = table(&names(&["main", "a.c;turn", "gone"]), &records(&of, length), true).unwrap();
            assert_eq!(hashes["main"], BTreeSet::from([7, 8]), "{length}");
            assert_eq!((hashes["a.c;turn"].first(), hashes.len()), (Some(&9), 2));
        }
        let data = records(&of, 64);
        assert_eq!(table(&names(&["other"]), &data, true), None, "no name of these");
        assert_eq!(table(&names(&["main", "a.c;turn"]), &data[1..], true), None);
        assert_eq!(table(&names(&["main"]), &[], true), None);
    }

    #[test]
    fn a_program_that_does_not_count_is_told() {
        let error = functions(&std::env::current_exe().unwrap()).unwrap_err().to_string();
        assert!(error.contains("is not instrumented") && error.contains("no training is needed"), "{error}");
    }

    proptest! {
        #[test]
        fn no_table_makes_it_panic(data in proptest::collection::vec(any::<u8>(), 0..400), little: bool) {
            table(&names(&["main"]), &data, little);
        }
    }
}
