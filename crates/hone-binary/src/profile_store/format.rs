//! Detects the form of a stored profile by its first bytes.

use std::fmt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::fault::StoreFault;
use crate::format_detect::head_of;

/// The form of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoredFormat {
    /// Of LLVM: clang and rustc.
    Profdata,
    /// Of BOLT.
    Fdata,
    /// Of Go.
    Pprof,
}

impl StoredFormat {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Profdata => "profdata",
            Self::Fdata => "fdata",
            Self::Pprof => "pprof",
        }
    }
}

impl fmt::Display for StoredFormat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The bytes at a file's beginning that are necessary to detect its kind.
const HEAD_BYTES: u64 = 64;

/// The kind of a file by its first bytes, and the format version of an indexed LLVM profile.
fn recognize(head: &[u8]) -> Result<(StoredFormat, Option<u32>), (&'static str, &'static str)> {
    let again = "take the profile again";
    match head {
        [] => Err(("empty (0 bytes)", again)),
        // An indexed profile; its version is in the lower half of the next word, the kinds of its contents above.
        [0xff, b'l', b'p', b'r', b'o', b'f', b'i', 0x81, a, b, c, d, ..] => {
            Ok((StoredFormat::Profdata, Some(u32::from_le_bytes([*a, *b, *c, *d]))))
        }
        [0x81, b'r' | b'R', b'f', b'o', b'r', b'p', b'l', 0xff, ..] => {
            Err(("a raw LLVM profile", "merge it first: llvm-profdata merge -o FILE.profdata *.profraw"))
        }
        [b':', ..] | [b'#', b' ', ..] => Ok((StoredFormat::Profdata, None)),
        [0x1f, 0x8b, ..] | [b'\n', ..] => Ok((StoredFormat::Pprof, None)),
        [b'0'..=b'5', b' ', ..] => Ok((StoredFormat::Fdata, None)),
        _ if head.starts_with(b"no_lbr") || head.starts_with(b"boltedcollection") => {
            Ok((StoredFormat::Fdata, None))
        }
        _ if head.starts_with(b"---\n") => {
            Err(("a BOLT profile in YAML", "write it as text: run BOLT without -profile-format=yaml"))
        }
        _ if head.starts_with(b"PERFILE2") => Err(("perf's samples", "convert them with perf2bolt first")),
        _ if head.starts_with(b"adcg") || head.starts_with(b"gcda") => Err((
            "a file with gcc's counters of one object",
            "use the build folder: gcc keeps its profiles there, not in one file",
        )),
        _ if head.starts_with(b"\x7fELF") => Err(("a program, not a profile", "name the profile first")),
        _ => Err(("a file of an unknown format", "name a file of llvm-profdata, BOLT (text) or pprof")),
    }
}

/// The kind of a file, and its version.
pub(super) fn kind_of(file: &Path) -> Result<(StoredFormat, Option<u32>), StoreFault> {
    let unreadable = |reason: String| StoreFault::Unreadable { file: file.to_path_buf(), reason };
    let head = head_of(file, HEAD_BYTES).map_err(|error| unreadable(error.to_string()))?;
    let head = head.ok_or_else(|| unreadable("it is not a regular file".to_owned()))?;
    recognize(&head).map_err(|(what, next)| StoreFault::NotAProfile { file: file.to_path_buf(), what, next })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_file_says_what_it_is() {
        let kind = |head: &[u8]| recognize(head).map(|(kind, _)| kind);
        let indexed = b"\xfflprofi\x81\x0d\0\0\0\0\0\0\x01";
        assert_eq!(recognize(indexed), Ok((StoredFormat::Profdata, Some(13))));
        assert_eq!(kind(b":ir\nmain\n"), Ok(StoredFormat::Profdata));
        assert_eq!(kind(b"# IR level Instrumentation Flag\n:ir\n"), Ok(StoredFormat::Profdata));
        assert_eq!(kind(b"1 main 0 1 f 0 0 1\n"), Ok(StoredFormat::Fdata));
        assert_eq!(kind(b"no_lbr cpu-clock:u:\n1 main 0 1\n"), Ok(StoredFormat::Fdata));
        assert_eq!(kind(b"boltedcollection\n"), Ok(StoredFormat::Fdata));
        assert_eq!(kind(b"\x1f\x8b\x08\0"), Ok(StoredFormat::Pprof));
        assert_eq!(kind(b"\n\x04\x08\x01\x10\x02"), Ok(StoredFormat::Pprof));
        let refused = |head: &[u8], words: &str| {
            let (what, next) = recognize(head).unwrap_err();
            assert!(what.contains(words) && !next.is_empty(), "{what}");
        };
        refused(b"", "empty");
        refused(b"\x81rforpl\xff\x0a", "raw LLVM profile");
        refused(b"---\nheader:", "YAML");
        refused(b"PERFILE2", "perf");
        refused(b"adcgA22*", "gcc");
        refused(b"\x7fELF\x02", "program");
        refused(b"<html>", "unknown format");
    }

    proptest! {
        #[test]
        fn no_beginning_makes_it_panic(head in proptest::collection::vec(any::<u8>(), 0..20)) {
            let _ = recognize(&head);
        }
    }
}
