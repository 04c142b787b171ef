//! What kind of profile a file is, whatever its name says.

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::bolt::Samples;

/// A file that is no profile, or none that can be taken. It is inside of [`crate::Refusal::Form`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the profile {} {what}\n  next: {next}", file.display())]
pub struct FormFault {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub what: String,
    /// The way out.
    pub next: &'static str,
}

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
    /// Branches and fall-throughs that somebody has added up.
    AddedUpBranches,
    /// Addresses that somebody has added up.
    AddedUpAddresses,
    /// perf's data.
    Perf,
    /// Of pprof.
    Pprof,
}

/// Enough of a text to see what its lines are.
const HEAD_BYTES: u64 = 64 << 10;

impl ProfileForm {
    /// Looks at a file.
    ///
    /// # Errors
    /// [`FormFault`] for a file that can't be read, and for one that is no profile.
    pub fn of(file: &Path) -> Result<Self, FormFault> {
        let fault = |what: String, next| FormFault { file: file.to_path_buf(), what, next };
        let unreadable =
            |error: std::io::Error| fault(format!("can't be read: {error}"), "check the path and its rights");
        // A pipe would be waited for.
        if !file.metadata().map_err(unreadable)?.is_file() {
            return Err(fault("is no regular file".to_owned(), "name the profile itself"));
        }
        let mut head = Vec::new();
        File::open(file)
            .and_then(|opened| opened.take(HEAD_BYTES).read_to_end(&mut head))
            .map_err(unreadable)?;
        Self::of_head(&head).map_err(|(what, next)| fault(what.to_owned(), next))
    }

    pub(crate) fn of_head(head: &[u8]) -> Result<Self, (&'static str, &'static str)> {
        match head {
            [] => Err(("is empty (0 bytes)", "take it again")),
            [0xff, b'l', b'p', b'r', b'o', b'f', b'i', 0x81, ..] => Ok(Self::Counts),
            [0x81, b'r' | b'R', b'f', b'o', b'r', b'p', b'l', 0xff, ..] => {
                Err(("is a raw one of LLVM", "merge it first: llvm-profdata merge -o FILE.profdata *.profraw"))
            }
            [0x1f, 0x8b, ..] => Ok(Self::Pprof),
            // `SPROF42` and the kind of binary form, as a number of LEB128.
            [_, 0xe4 | 0xe5, 0xd0, 0xb1, 0xf4, 0xc9, 0x94, 0xa8, 0x53, 0x67, ..] => Ok(Self::Samples),
            _ if head.starts_with(b"PERFILE2") => Ok(Self::Perf),
            _ if head.starts_with(b"---\n") => {
                Err(("is a YAML profile of BOLT", "take it as text: without -profile-format=yaml"))
            }
            _ if head.starts_with(b"adcg") || head.starts_with(b"gcda") => {
                Err(("has gcc's counts of one object", "gcc's profiles live in the build's folder: train instead"))
            }
            _ if head.starts_with(b"\x7fELF") => Err(("is a program", "name a profile")),
            _ => std::str::from_utf8(whole_lines(head)).ok().and_then(Self::of_text).ok_or((
                "has no form that is known",
                "name a file of llvm-profdata, llvm-profgen, BOLT (text), perf, pprof, or one with added-up branches",
            )),
        }
    }

    /// By the first line that tells.
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
            ["0" | "1" | "2" | "3" | "4" | "5", _, offset, ..]
                if words.len() >= 4 && u64::from_str_radix(offset, 16).is_ok() =>
            {
                Some(Self::Fdata)
            }
            _ => {
                let mut parts = first.rsplitn(3, ':');
                let mut is_number = || parts.next().is_some_and(|part| part.trim().parse::<u64>().is_ok());
                (is_number() && is_number() && parts.next().is_some_and(|name| !name.is_empty()))
                    .then_some(Self::Samples)
            }
        }
    }

    /// Who takes it.
    pub fn is_for_bolt(self) -> bool {
        matches!(self, Self::Fdata | Self::AddedUpBranches | Self::AddedUpAddresses | Self::Perf)
    }

    /// How perf2bolt is to read it; `None` for what BOLT reads itself, and for what it does not read.
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
            Self::Counts => "counts of LLVM",
            Self::Samples => "samples of LLVM",
            Self::Fdata => "a profile of BOLT",
            Self::AddedUpBranches => "added-up branches",
            Self::AddedUpAddresses => "added-up addresses",
            Self::Perf => "samples of perf",
            Self::Pprof => "a profile of pprof",
        })
    }
}

/// Without the last line when it may be cut off.
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
        check(b"\x1f\x8b\x08", ProfileForm::Pprof);
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
        check(b"hello there\n", "no form");
        check(b"---\nheader:", "YAML");
        let fault = ProfileForm::of(Path::new("/no/such")).unwrap_err();
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
