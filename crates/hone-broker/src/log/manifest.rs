//! The facts that the next start trusts without reading the log: one small file per partition, replaced as a whole.
//!
//! It names the sealed segments with their sizes, and after a clean stop the valid length of the last one. A start
//! checks everything after that batch by batch. So the file stays valid when writing begins again, and need not be
//! removed.

use std::fs;

use serde_json::{Value, json};

use super::disk::Disk;

pub(crate) const FILE: &str = "manifest";
const VERSION: u64 = 1;

/// One segment as the manifest knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) base_offset: i64,
    pub(crate) next_offset: i64,
    pub(crate) bytes: u64,
    pub(crate) max_timestamp: Option<i64>,
    pub(crate) began_ms: Option<i64>,
    pub(crate) cleaned_ms: Option<i64>,
    pub(crate) purged: bool,
    /// Checksum of its index files.
    pub(crate) index_crc: u32,
}

/// The contents of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) log_start: i64,
    /// Everything before it was compacted.
    pub(crate) cleaned_to: i64,
    /// The producers' state that goes with it is the one behind this offset.
    pub(crate) producers_at: i64,
    pub(crate) sealed: Vec<Entry>,
    /// How much of the segment behind the sealed ones was good at a clean stop.
    pub(crate) active: Option<Entry>,
}

impl Manifest {
    /// The manifest of a folder. `None` without a valid one.
    pub(crate) fn read(disk: &Disk) -> Option<Self> {
        if disk.in_memory() {
            return None;
        }
        Self::parse(&fs::read_to_string(disk.path(FILE)).ok()?)
    }

    /// Writes it, durably.
    pub(crate) fn write(&self, disk: &Disk) -> std::io::Result<()> {
        if disk.in_memory() {
            return Ok(());
        }
        disk.replace(FILE, self.to_text().as_bytes())?;
        disk.sync_folder(false)
    }

    /// Writes it, durably and even on a full disk, so that files may go.
    pub(crate) fn write_to_free(&self, disk: &Disk) -> std::io::Result<()> {
        if disk.in_memory() {
            return Ok(());
        }
        disk.replace_to_free(FILE, self.to_text().as_bytes())?;
        disk.sync_folder(false)
    }

    fn parse(text: &str) -> Option<Self> {
        let (checksum, body) = text.split_once('\n')?;
        if u32::from_str_radix(checksum, 16).ok()? != crc32c::crc32c(body.as_bytes()) {
            return None;
        }
        let value: Value = serde_json::from_str(body).ok()?;
        if value.get("version")?.as_u64()? != VERSION {
            return None;
        }
        let offset = |name: &str| value.get(name)?.as_i64();
        let manifest = Self {
            log_start: offset("log_start")?,
            cleaned_to: offset("cleaned_to")?,
            producers_at: offset("producers_at")?,
            sealed: value.get("sealed")?.as_array()?.iter().map(Entry::parse).collect::<Option<_>>()?,
            active: match value.get("active")? {
                Value::Null => None,
                entry => Some(Entry::parse(entry)?),
            },
        };
        manifest.is_sound().then_some(manifest)
    }

    /// Whether it does not contradict itself: segments that hold something, one behind the other.
    fn is_sound(&self) -> bool {
        let mut end = 0;
        self.log_start >= 0
            && self.sealed.iter().chain(&self.active).all(|entry| {
                let follows = entry.base_offset >= std::mem::replace(&mut end, entry.next_offset);
                let holds = entry.base_offset < entry.next_offset
                    || (entry.base_offset == entry.next_offset && entry.bytes == 0);
                follows && holds
            })
    }

    fn to_text(&self) -> String {
        let sealed: Vec<_> = self.sealed.iter().copied().map(Entry::to_json).collect();
        let body = json!({"version": VERSION, "log_start": self.log_start, "cleaned_to": self.cleaned_to,
            "producers_at": self.producers_at, "sealed": sealed,
            "active": self.active.map(Entry::to_json)})
        .to_string();
        format!("{:08x}\n{body}", crc32c::crc32c(body.as_bytes()))
    }
}

impl Entry {
    fn parse(value: &Value) -> Option<Self> {
        Some(Self {
            base_offset: value.get("base")?.as_i64()?,
            next_offset: value.get("next")?.as_i64()?,
            bytes: value.get("bytes")?.as_u64()?,
            max_timestamp: value.get("max_timestamp").and_then(Value::as_i64),
            began_ms: value.get("began_ms").and_then(Value::as_i64),
            cleaned_ms: value.get("cleaned_ms").and_then(Value::as_i64),
            purged: value.get("purged").and_then(Value::as_bool).unwrap_or(false),
            index_crc: u32::try_from(value.get("index_crc")?.as_u64()?).ok()?,
        })
    }

    fn to_json(self) -> Value {
        json!({"base": self.base_offset, "next": self.next_offset, "bytes": self.bytes,
            "max_timestamp": self.max_timestamp, "began_ms": self.began_ms, "cleaned_ms": self.cleaned_ms,
            "purged": self.purged,
            "index_crc": self.index_crc})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_written_and_not_at_all_when_a_bit_changed() {
        let entry = Entry {
            base_offset: 5,
            next_offset: 9,
            bytes: 700,
            max_timestamp: Some(3),
            began_ms: None,
            cleaned_ms: Some(8),
            purged: true,
            index_crc: 77,
        };
        let manifest = Manifest {
            log_start: 6,
            cleaned_to: 9,
            producers_at: 9,
            sealed: vec![entry],
            active: Some(Entry { base_offset: 9, next_offset: 12, ..entry }),
        };
        let text = manifest.to_text();
        assert_eq!(Manifest::parse(&text), Some(manifest));
        for at in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[at] ^= 1;
            assert_eq!(Manifest::parse(&String::from_utf8(bytes).unwrap()), None, "byte {at}");
            assert_eq!(Manifest::parse(&text[..at]), None);
        }
    }

    #[test]
    fn one_that_contradicts_itself_is_not_believed() {
        let entry = |base_offset, next_offset, bytes| Entry {
            base_offset,
            next_offset,
            bytes,
            max_timestamp: None,
            began_ms: None,
            cleaned_ms: None,
            purged: false,
            index_crc: 0,
        };
        let of =
            |sealed: &[Entry], active| Manifest { sealed: sealed.to_vec(), active, ..Manifest::default() };
        for good in [
            of(&[entry(0, 4, 80), entry(4, 9, 0)], Some(entry(9, 9, 0))),
            of(&[entry(3, 4, 80), entry(6, 9, 80)], Some(entry(9, 12, 80))),
        ] {
            assert_eq!(Manifest::parse(&good.to_text()), Some(good));
        }
        for bad in [
            of(&[entry(0, 0, 80)], None),
            of(&[entry(4, 9, 80), entry(0, 4, 80)], None),
            of(&[entry(0, 4, 80)], Some(entry(3, 6, 80))),
            of(&[entry(-1, 4, 80)], None),
            of(&[], Some(entry(9, 4, 80))),
            Manifest { log_start: -1, ..Manifest::default() },
        ] {
            assert_eq!(Manifest::parse(&bad.to_text()), None, "{bad:?}");
        }
    }
}
