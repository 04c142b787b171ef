//! Detects the kind of a profile file, whatever its name.

pub(crate) mod fault;

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use flate2::read::GzDecoder;
use serde::{Deserialize, Serialize};

use crate::bolt::fdata::Reader;
use crate::bolt::samples::Samples;
pub use fault::FormFault;

/// The form of a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProfileForm {
    /// LLVM's counts.
    Counts,
    /// LLVM's samples (AutoFDO).
    Samples,
    /// BOLT's own.
    Fdata,
    /// Pre-aggregated branches and fall-throughs.
    AddedUpBranches,
    /// Pre-aggregated addresses.
    AddedUpAddresses,
    /// perf's data.
    Perf,
    /// Of pprof.
    Pprof,
}

/// The beginning of a file; `None` if it is not a regular file: reading a pipe could block.
pub(crate) fn head_of(file: &Path, most_bytes: u64) -> std::io::Result<Option<Vec<u8>>> {
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut head = Vec::new();
    File::open(file)?.take(most_bytes).read_to_end(&mut head)?;
    Ok(Some(head))
}

/// Enough text to see the kind of its lines.
const HEAD_BYTES: u64 = 64 << 10;

impl ProfileForm {
    /// Detects the kind of a file.
    ///
    /// # Errors
    /// [`FormFault`] for a file that can't be read, and for one that is not a profile.
    pub fn detect(file: &Path) -> Result<Self, FormFault> {
        let fault = |what: String, next| FormFault { file: file.to_path_buf(), what, next };
        let unreadable = |error: std::io::Error| {
            fault(format!("can't be read: {error}"), "check the path and its permissions")
        };
        let head = head_of(file, HEAD_BYTES).map_err(unreadable)?;
        let head =
            head.ok_or_else(|| fault("is not a regular file".to_owned(), "name the profile itself"))?;
        Self::of_head(&head).map_err(|(what, next)| fault(what.to_owned(), next))
    }

    pub(crate) fn of_head(head: &[u8]) -> Result<Self, (&'static str, &'static str)> {
        match head {
            [] => Err(("is empty (0 bytes)", "take it again")),
            [0xff, b'l', b'p', b'r', b'o', b'f', b'i', 0x81, ..] => Ok(Self::Counts),
            [0x81, b'r' | b'R', b'f', b'o', b'r', b'p', b'l', 0xff, ..] => Err((
                "is a raw LLVM profile",
                "merge it first: llvm-profdata merge -o FILE.profdata *.profraw",
            )),
            [0x1f, 0x8b, ..] => Self::of_packed(head),
            // `SPROF42` and the kind of binary form, as a LEB128 number.
            [_, 0xe4 | 0xe5, 0xd0, 0xb1, 0xf4, 0xc9, 0x94, 0xa8, 0x53, 0x67, ..] => Ok(Self::Samples),
            _ if head.starts_with(b"PERFILE2") => Ok(Self::Perf),
            _ if head.starts_with(b"---\n") => {
                Err(("is a BOLT profile in YAML", "write it as text: run BOLT without -profile-format=yaml"))
            }
            _ if head.starts_with(b"adcg") || head.starts_with(b"gcda") => Err((
                "contains gcc's counters of one object",
                "train instead: gcc keeps its profiles in the build folder",
            )),
            _ if head.starts_with(b"\x7fELF") => Err(("is a program", "name a profile")),
            _ => Self::of_plain(head).ok_or((
                "has an unknown format",
                "name a file of llvm-profdata, llvm-profgen, BOLT (text), perf or pprof, or one with \
                 pre-aggregated branches",
            )),
        }
    }

    /// pprof profiles are usually compressed, and other files may be.
    fn of_packed(head: &[u8]) -> Result<Self, (&'static str, &'static str)> {
        let mut inside = Vec::new();
        // The head is cut off, so an error follows the decompressed beginning.
        let _ = GzDecoder::new(head).take(HEAD_BYTES).read_to_end(&mut inside);
        if begins_as_pprof(&inside) {
            return Ok(Self::Pprof);
        }
        Err(("is compressed (gzip) but not a pprof profile", "decompress it: gunzip FILE"))
    }

    fn of_plain(head: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(whole_lines(head)).ok().and_then(Self::of_text);
        text.or_else(|| begins_as_pprof(head).then_some(Self::Pprof))
    }

    /// By the first line that shows the kind.
    fn of_text(text: &str) -> Option<Self> {
        if text.starts_with("no_lbr") || text.starts_with("boltedcollection") {
            return Some(Self::Fdata);
        }
        let mut lines =
            text.lines().map(str::trim_end).filter(|line| !line.is_empty() && !line.starts_with("# "));
        let first = lines.next()?;
        if first.starts_with(':') {
            return Some(Self::Counts);
        }
        let words: Vec<&str> = first.split(' ').collect();
        match words[..] {
            ["E", _] | ["B" | "F" | "f" | "T" | "S" | "R" | "r", _, _, ..] => {
                let plain = text.lines().any(|line| line.starts_with("S "));
                Some(if plain { Self::AddedUpAddresses } else { Self::AddedUpBranches })
            }
            ["0" | "1" | "2" | "3" | "4" | "5", ..] if is_fdata(first) => Some(Self::Fdata),
            _ => {
                let further = lines.next().is_none_or(|line| line.starts_with(' ') || begins_samples(line));
                (begins_samples(first) && further).then_some(Self::Samples)
            }
        }
    }

    /// The user of the profile.
    pub fn is_for_bolt(self) -> bool {
        matches!(self, Self::Fdata | Self::AddedUpBranches | Self::AddedUpAddresses | Self::Perf)
    }

    /// The mode of perf2bolt for it; `None` for files that BOLT reads itself, and for those that it does not read.
    pub fn to_convert(self) -> Option<Samples> {
        match self {
            Self::AddedUpBranches => Some(Samples::AddedUpBranches),
            Self::AddedUpAddresses => Some(Samples::AddedUpAddresses),
            Self::Perf => Some(Samples::Branches),
            Self::Counts | Self::Samples | Self::Fdata | Self::Pprof => None,
        }
    }
}

impl fmt::Display for ProfileForm {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Counts => "LLVM counters",
            Self::Samples => "LLVM samples",
            Self::Fdata => "a BOLT profile",
            Self::AddedUpBranches => "pre-aggregated branches",
            Self::AddedUpAddresses => "pre-aggregated addresses",
            Self::Perf => "perf samples",
            Self::Pprof => "a pprof profile",
        })
    }
}

/// By BOLT's own reader, which supports names with blanks.
fn is_fdata(line: &str) -> bool {
    let line = format!("{line}\n");
    Reader::new(line.as_bytes()).next().is_some_and(|record| record.is_ok())
}

/// `NAME:TOTAL:HEAD`. Names of symbols have no blanks, those of calling contexts have brackets; a time of day is excluded.
fn begins_samples(line: &str) -> bool {
    let mut parts = line.rsplitn(3, ':');
    let mut is_number = || parts.next().is_some_and(|part| part.trim().parse::<u64>().is_ok());
    let is_name = |name: &str| !name.is_empty() && (name.starts_with('[') || !name.contains(' '));
    is_number() && is_number() && parts.next().is_some_and(is_name)
}

/// Whether the bytes begin with a pprof message: the type of its samples, `1: {1: TEXT, 2: TEXT}`, which all writers put first.
fn begins_as_pprof(head: &[u8]) -> bool {
    match head {
        [0x0a, length, inside @ ..] => {
            let inside = inside.get(..usize::from(*length)).unwrap_or_default();
            matches!(inside, [0x08, _, 0x10, ..] | [0x10, _, ..] | [0x08, _])
        }
        _ => false,
    }
}

/// Without the last line if it may be cut off.
fn whole_lines(head: &[u8]) -> &[u8] {
    if (head.len() as u64) < HEAD_BYTES {
        return head;
    }
    let end = memchr::memrchr(b'\n', head).map_or(0, |end| end + 1);
    &head[..end]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn packed(plain: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut packer, plain).unwrap();
        packer.finish().unwrap()
    }

    #[test]
    fn a_profile_is_known_by_its_contents() {
        let check = |head: &[u8], expected| assert_eq!(ProfileForm::of_head(head), Ok(expected), "{head:?}");
        check(b"\xfflprofi\x81\x0c\0\0\0", ProfileForm::Counts);
        check(b"# IR level\n:ir\nmain\n", ProfileForm::Counts);
        check(b"\x84\xe4\xd0\xb1\xf4\xc9\x94\xa8\x53\x67\x07\x00", ProfileForm::Samples);
        check(b"\xff\xe5\xd0\xb1\xf4\xc9\x94\xa8\x53\x67\xd0\x8c", ProfileForm::Samples);
        check(b"work:90000:9000\n 0: 9000\n", ProfileForm::Samples);
        check(b"[main:3 @ work:1]:90:1\n", ProfileForm::Samples);
        check(b"1 main 1f 1 work 0 0 30\n", ProfileForm::Fdata);
        check(b"no_lbr cpu-clock:u:\n1 main 1f 30\n", ProfileForm::Fdata);
        check(b"E cpu-clock\nS 4010 7\n", ProfileForm::AddedUpAddresses);
        check(b"B 4010 4020 7 0\nF 4020 4030 7\n", ProfileForm::AddedUpBranches);
        check(b"PERFILE2h\0\0", ProfileForm::Perf);
        check(b"\x0a\x04\x08\x01\x10\x02\x0a\x04\x08\x03\x10\x04", ProfileForm::Pprof);
        check(&packed(b"\x0a\x04\x08\x01\x10\x02\x0a\x04\x08\x03\x10\x04"), ProfileForm::Pprof);
        check(b"1 operator\\ new 1f 1 work 0 0 30\n", ProfileForm::Fdata);
    }

    #[test]
    fn what_is_none_is_refused_in_words() {
        let check = |head: &[u8], expected: &str| {
            let (what, _) = ProfileForm::of_head(head).unwrap_err();
            assert!(what.contains(expected), "{what}");
        };
        check(b"", "empty");
        check(b"\x81rforpl\xff", "raw");
        check(b"\x7fELF", "program");
        check(b"hello there\n", "unknown format");
        check(b"2026-11-21 15:54:23\n", "unknown format");
        check(b"2026-11-21T15:54:23\nstarted\n", "unknown format");
        check(b"1 main 1f\n", "unknown format");
        check(&packed(b"1 main 1f 1 work 0 0 30\n"), "gzip");
        check(b"\x1f\x8b\x08", "gzip");
        check(b"---\nheader:", "YAML");
        let fault = ProfileForm::detect(Path::new("/no/such")).unwrap_err();
        assert!(fault.to_string().contains("can't be read"), "{fault}");
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(head in proptest::collection::vec(any::<u8>(), 0..200), text in "([:EBS 0-9a-f\n]|é){0,60}") {
            let _ = ProfileForm::of_head(&head);
            let _ = ProfileForm::of_head(text.as_bytes());
        }
    }
}
