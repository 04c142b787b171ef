//! Translated code, and its files.

use std::collections::HashMap;
use std::ffi::c_void;
use std::fs;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use crate::qemu;

/// A stretch of code that qemu translated as one. It is never freed, since translations hold its address.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) id: u32,
    /// Address in the target.
    pub(crate) address: u64,
    pub(crate) size: u32,
    pub(crate) instructions: u32,
    /// Offset of the last instruction.
    pub(crate) last: u32,
    /// Whether the last instruction repeats itself, each time as a block of its own.
    pub(crate) repeats: bool,
    /// Index of its file; [`NONE`] is none.
    pub(crate) object: u32,
    /// Its offset in that file; without a file, its address in the target.
    pub(crate) offset: u64,
}

/// Stands for no file.
const NONE: u32 = u32::MAX;

#[derive(Default)]
pub(crate) struct Code {
    /// A repeated translation of the same address is the same block.
    by_place: HashMap<(u64, u32), &'static Block>,
    pub(crate) blocks: Vec<&'static Block>,
    pub(crate) objects: Vec<String>,
    maps: Vec<Map>,
    /// Number of blocks at the last reading of the map.
    blocks_then: usize,
}

/// Code without a file may belong to a file since, so the map is read again after this many new blocks.
const READ_AGAIN: usize = 256;

/// A line of the process's map.
struct Map {
    begin: u64,
    end: u64,
    offset: u64,
    path: Option<String>,
}

/// A translation, from qemu.
struct Translation {
    address: u64,
    size: u32,
    last: u32,
    instructions: u32,
    repeats: bool,
    /// Address in qemu itself.
    host: u64,
}

static CODE: LazyLock<Mutex<Code>> = LazyLock::new(Mutex::default);

pub(crate) fn code() -> MutexGuard<'static, Code> {
    CODE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The block of a translation.
///
/// # Safety
/// qemu must be making the translation.
pub(crate) unsafe fn block_of(translation: *const c_void) -> Option<&'static Block> {
    // SAFETY: required of the caller.
    let translation = unsafe { Translation::of(translation) }?;
    Some(code().block(&translation))
}

impl Translation {
    /// # Safety
    /// qemu must be making the translation.
    unsafe fn of(translation: *const c_void) -> Option<Self> {
        // SAFETY: required of the caller; indexes are below the number of instructions.
        unsafe {
            let count = qemu::qemu_plugin_tb_n_insns(translation);
            let first = qemu::qemu_plugin_tb_get_insn(translation, 0);
            let last = qemu::qemu_plugin_tb_get_insn(translation, count.checked_sub(1)?);
            let address = qemu::qemu_plugin_tb_vaddr(translation);
            let (last_at, last_size) =
                (qemu::qemu_plugin_insn_vaddr(last), qemu::qemu_plugin_insn_size(last));
            let bytes = qemu::qemu_plugin_insn_haddr(last).cast::<u8>();
            let repeats =
                !bytes.is_null() && repeats_itself(std::slice::from_raw_parts(bytes, last_size.min(4)));
            Some(Self {
                address,
                size: u32::try_from((last_at + last_size as u64).checked_sub(address)?).ok()?,
                last: u32::try_from(last_at.checked_sub(address)?).ok()?,
                instructions: u32::try_from(count).ok()?,
                repeats,
                host: qemu::qemu_plugin_insn_haddr(first) as u64,
            })
        }
    }
}

/// `rep movs` and similar ones: a prefix F2 or F3, perhaps other prefixes, and a string instruction (Intel SDM, volume 2, REP).
fn repeats_itself(bytes: &[u8]) -> bool {
    if !cfg!(target_arch = "x86_64") {
        return false;
    }
    let is_prefix = |byte: &u8| matches!(byte, 0xf2 | 0xf3 | 0x66 | 0x67 | 0x40..=0x4f);
    let prefixes = bytes.iter().take_while(|byte| is_prefix(byte));
    let code = bytes.iter().find(|byte| !is_prefix(byte));
    prefixes.into_iter().any(|byte| matches!(byte, 0xf2 | 0xf3))
        && matches!(code, Some(0xa4..=0xa7 | 0xaa..=0xaf | 0x6c..=0x6f))
}

impl Code {
    fn block(&mut self, translation: &Translation) -> &'static Block {
        let place = (translation.address, translation.size);
        if let Some(block) = self.by_place.get(&place) {
            return block;
        }
        let (object, offset) = self.file_of(translation.host).unwrap_or((NONE, translation.address));
        let block: &'static Block = Box::leak(Box::new(Block {
            id: self.blocks.len() as u32,
            address: translation.address,
            size: translation.size,
            instructions: translation.instructions,
            last: translation.last,
            repeats: translation.repeats,
            object,
            offset,
        }));
        self.by_place.insert(place, block);
        self.blocks.push(block);
        block
    }

    /// File and file offset of a host address. The map is read again if it does not contain the address.
    fn file_of(&mut self, host: u64) -> Option<(u32, u64)> {
        let is_old = self.blocks.len() - self.blocks_then >= READ_AGAIN;
        if self.map_of(host).is_none_or(|map| map.path.is_none() && is_old) {
            self.read_maps();
        }
        let map = self.map_of(host)?;
        let (path, offset) = (map.path.clone()?, host - map.begin + map.offset);
        Some((self.object(path), offset))
    }

    fn map_of(&self, host: u64) -> Option<&Map> {
        let next = self.maps.partition_point(|map| map.end <= host);
        self.maps.get(next).filter(|map| map.begin <= host)
    }

    fn read_maps(&mut self) {
        let text = fs::read_to_string("/proc/self/maps").unwrap_or_default();
        self.maps = text.lines().filter_map(Map::parse).collect();
        self.blocks_then = self.blocks.len();
    }

    /// Files with code of the target only. qemu's own files are mapped, too, in an order that changes.
    fn object(&mut self, path: String) -> u32 {
        let known = self.objects.iter().position(|known| *known == path);
        known.unwrap_or_else(|| {
            self.objects.push(path);
            self.objects.len() - 1
        }) as u32
    }
}

impl Map {
    /// `55d0-55e0 r--p 00001000 08:01 1234   /usr/bin/x`. Mappings without a file are kept, too: otherwise each block of generated code
    /// would have the map read again. Reserved ranges are left out.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.splitn(6, ' ').map(str::trim);
        let (begin, end) = words.next()?.split_once('-')?;
        words.next().filter(|rights| rights.starts_with('r'))?;
        let offset = words.next()?;
        let path = words.nth(2).filter(|path| path.starts_with('/')).map(str::to_owned);
        let hex = |text| u64::from_str_radix(text, 16).ok();
        Some(Self { begin: hex(begin)?, end: hex(end)?, offset: hex(offset)?, path })
    }
}
