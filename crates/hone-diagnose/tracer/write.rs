//! The file: `HONETRC1`, then sections of a tag (u32), a length (u64) and that many bytes, all little-endian; the last one is END.
//! `crates/hone-diagnose/src/trace/read.rs` reads it and describes each section.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

use crate::cache::MODELS;
use crate::code::code;
use crate::settings::settings;
use crate::thread::{self, Thread, UNSEEN, windows};

const FACTS: u32 = 1;
const OBJECTS: u32 = 2;
const BLOCKS: u32 = 3;
const THREAD: u32 = 4;
const WINDOW: u32 = 5;
const END: u32 = 0xffff;

/// Counts of each thread at a moment.
pub(crate) struct Base {
    threads: HashMap<u32, Counted>,
    /// Finished windows.
    windows: u64,
}

/// Counts of a thread.
#[derive(Default)]
struct Counted {
    fetched: u64,
    misses: [u64; MODELS.len()],
    transitions: HashMap<(u32, u32), u64>,
}

impl Base {
    pub(crate) fn now() -> Self {
        let blocks = code().blocks.len();
        let threads = thread::all().map(|(index, thread)| (index, Counted::of(thread, blocks)));
        Self { threads: threads.collect(), windows: windows().finished }
    }
}

impl Counted {
    fn of(thread: &Thread, blocks: usize) -> Self {
        let mut counted = Self {
            fetched: thread.fetched.load(Relaxed),
            misses: std::array::from_fn(|model| thread.misses[model].load(Relaxed)),
            transitions: HashMap::new(),
        };
        thread.transitions(blocks, |from, to, count| {
            *counted.transitions.entry((from, to)).or_default() += count;
        });
        counted
    }
}

pub(crate) fn to(path: &Path, base: Option<&Base>, is_end: bool) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(b"HONETRC1")?;
    section(&mut file, FACTS, facts(is_end).as_bytes())?;
    // Windows and threads come before code, so that the code includes every block that they refer to.
    let first = base.map_or(0, |base| base.windows);
    for window in windows().all.iter().filter(|window| window.number >= first) {
        let mut bytes = Vec::with_capacity(8 + 4 * window.blocks.len());
        bytes.extend(window.thread.to_le_bytes());
        bytes.extend(window.warm_up.to_le_bytes());
        window.blocks.iter().for_each(|block| bytes.extend(block.to_le_bytes()));
        section(&mut file, WINDOW, &bytes)?;
    }
    let none = Counted::default();
    let blocks = code().blocks.len();
    for (index, thread) in thread::all() {
        let before = base.and_then(|base| base.threads.get(&index)).unwrap_or(&none);
        section(&mut file, THREAD, &of_thread(index, thread, before, blocks))?;
    }
    write_code(&mut file)?;
    section(&mut file, END, &[])?;
    file.flush()
}

fn facts(is_end: bool) -> String {
    let settings = settings();
    let program = std::env::args_os().next().unwrap_or_default();
    format!(
        "ended={is_end}\nprocess={}\nqemu={}\ncaches={}\ndata={}\nperiod={}\nwindow={}\nunseen={}\nmodels={}\n",
        std::process::id(),
        program.to_string_lossy().replace('\n', " "),
        settings.caches,
        settings.data,
        settings.period,
        settings.window,
        UNSEEN.load(Relaxed),
        MODELS.map(|model| model.name).join(";")
    )
}

fn of_thread(index: u32, thread: &Thread, before: &Counted, blocks: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let names = thread.names().join(", ");
    bytes.extend((names.len() as u32).to_le_bytes());
    bytes.extend(names.as_bytes());
    bytes.extend(u64::from(index).to_le_bytes());
    bytes.extend(thread.fetched.load(Relaxed).saturating_sub(before.fetched).to_le_bytes());
    for (counter, before) in thread.misses.iter().zip(before.misses) {
        bytes.extend(counter.load(Relaxed).saturating_sub(before).to_le_bytes());
    }
    let counted = Counted::of(thread, blocks);
    let since = |(key, count): (&(u32, u32), &u64)| {
        let before = before.transitions.get(key).copied().unwrap_or(0);
        (*count > before).then(|| (key.0, key.1, count - before))
    };
    let mut transitions: Vec<(u32, u32, u64)> = counted.transitions.iter().filter_map(since).collect();
    // A hash table has no order, but the same run must give the same file.
    transitions.sort_unstable();
    for (from, to, count) in transitions {
        bytes.extend(from.to_le_bytes());
        bytes.extend(to.to_le_bytes());
        bytes.extend(count.to_le_bytes());
    }
    bytes
}

fn write_code(file: &mut impl io::Write) -> io::Result<()> {
    let code = code();
    let mut bytes = Vec::new();
    for object in &code.objects {
        bytes.extend((object.len() as u32).to_le_bytes());
        bytes.extend(object.as_bytes());
    }
    section(file, OBJECTS, &bytes)?;
    bytes.clear();
    for block in &code.blocks {
        for number in [block.object, block.instructions, block.size, block.last, u32::from(block.repeats)] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(block.offset.to_le_bytes());
        bytes.extend(block.address.to_le_bytes());
    }
    section(file, BLOCKS, &bytes)
}

fn section(file: &mut impl io::Write, tag: u32, bytes: &[u8]) -> io::Result<()> {
    file.write_all(&tag.to_le_bytes())?;
    file.write_all(&(bytes.len() as u64).to_le_bytes())?;
    file.write_all(bytes)
}
