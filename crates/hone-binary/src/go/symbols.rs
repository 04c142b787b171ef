//! Names of the functions in a Go program, from the runtime's own table for stack traces. It survives `-s -w` and strip, and unlike a
//! symbol table it contains functions that were inlined everywhere.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use object::{Object, ObjectSection};

/// The table's first word since Go 1.20, and that of 1.18 and 1.19.
const MAGICS: [u32; 2] = [0xffff_fff1, 0xffff_fff0];

/// The words after the table's first 8 bytes: functions, files, start of text, then the offset of the names, then that of the next part.
const NAMES_WORD: usize = 3;
const BEHIND_NAMES_WORD: usize = 4;

/// Names of all functions, with type parameters shortened to `[...]` as in profiles.
///
/// # Errors
/// Fails when the file can't be read or is not a Go program.
pub(super) fn functions_of(path: &Path) -> Result<HashSet<String>> {
    let bytes = fs::read(path).with_context(|| format!("{} can't be read", path.display()))?;
    let file =
        object::File::parse(&*bytes).with_context(|| format!("{} is not a program", path.display()))?;
    let section = file
        .sections()
        .find(|section| {
            section.name().is_ok_and(|name| name.ends_with(".gopclntab") || name == "__gopclntab")
        })
        .with_context(|| format!("{} is not a Go program (it has no .gopclntab)", path.display()))?;
    let data = section.data().with_context(|| format!("the .gopclntab of {} is cut off", path.display()))?;
    names(data).with_context(|| format!("the .gopclntab of {} has an unknown format", path.display()))
}

/// The names in a table, or nothing if it has another format.
pub(crate) fn names(table: &[u8]) -> Option<HashSet<String>> {
    let (magic, _) = table.split_first_chunk()?;
    let magic = u32::from_le_bytes(*magic);
    if !MAGICS.contains(&magic) || *table.get(7)? != 8 {
        return None;
    }
    let word = |index: usize| {
        let at = 8 + index * 8;
        let bytes: [u8; 8] = table.get(at..at + 8)?.try_into().ok()?;
        usize::try_from(u64::from_le_bytes(bytes)).ok()
    };
    let names = table.get(word(NAMES_WORD)?..word(BEHIND_NAMES_WORD)?)?;
    let words = names.split(|&byte| byte == 0).filter(|name| !name.is_empty());
    Some(words.map(|name| shortened(&String::from_utf8_lossy(name)).into_owned()).collect())
}

/// `f[int]` as `f[...]`.
pub(super) fn shortened(name: &str) -> std::borrow::Cow<'_, str> {
    match (name.find('['), name.rfind(']')) {
        (Some(open), Some(close)) if open < close => {
            format!("{}[...]{}", &name[..open], &name[close + 1..]).into()
        }
        _ => name.into(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn planted() -> Vec<u8> {
        let mut bytes = MAGICS[0].to_le_bytes().to_vec();
        bytes.extend([0, 0, 1, 8]);
        for word in [2_u64, 1, 0, 48, 48 + 27] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(b"main.main\0a.f[go.shape.int]\0rest");
        bytes
    }

    #[test]
    fn names_are_read_and_shortened() {
        let expected = ["main.main", "a.f[...]"].map(str::to_owned);
        assert_eq!(names(&planted()).unwrap(), HashSet::from(expected));
        assert_eq!(shortened("a.f[b[c].d].e"), "a.f[...].e");
        assert_eq!(shortened("a]b["), "a]b[");
        assert_eq!(names(b"\xf1\xff\xff"), None);
    }

    #[test]
    fn what_is_no_go_program_is_told() {
        let own = std::env::current_exe().unwrap();
        assert!(functions_of(&own).unwrap_err().to_string().contains("is not a Go program"));
    }

    proptest! {
        #[test]
        fn a_changed_table_does_not_make_it_panic(at in 0..80_usize, byte: u8, cut in 0..80_usize) {
            let mut bytes = planted();
            let at = at % bytes.len();
            bytes[at] = byte;
            names(&bytes);
            names(&bytes[..cut.min(bytes.len())]);
        }
    }
}
