//! The producers of a partition as they stood at an offset: `OFFSET.snapshot`, a checksum and the state.

use std::fs;
use std::io;

use super::disk::Disk;
use super::producers::Producers;
use super::segment::file_name;

const KIND: &str = "snapshot";

/// Writes the state (as [`Producers::encode`] makes it) behind `offset`, durably but for the folder's entry.
pub(crate) fn write(disk: &Disk, offset: i64, state: &[u8]) -> io::Result<()> {
    if disk.in_memory() {
        return Ok(());
    }
    let mut contents = crc32c::crc32c(state).to_be_bytes().to_vec();
    contents.extend_from_slice(state);
    disk.replace(&file_name(offset, KIND), &contents)
}

/// The state after `offset`. `None` without a valid one.
pub(crate) fn read(disk: &Disk, offset: i64) -> Option<Producers> {
    let contents = fs::read(disk.path(&file_name(offset, KIND))).ok()?;
    let (checksum, state) = contents.split_first_chunk::<4>()?;
    if u32::from_be_bytes(*checksum) != crc32c::crc32c(state) {
        return None;
    }
    Producers::decode(state).ok()
}

/// Removes every snapshot but that of `offset`.
pub(crate) fn remove_others(disk: &Disk, offset: i64) -> io::Result<()> {
    if disk.in_memory() {
        return Ok(());
    }
    let keep = file_name(offset, KIND);
    for entry in fs::read_dir(disk.folder())? {
        let name = entry?.file_name();
        if let Some(name) = name.to_str().filter(|name| name.ends_with(".snapshot") && *name != keep) {
            disk.remove(name)?;
        }
    }
    Ok(())
}
