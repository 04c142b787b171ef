//! The reader of the tracer's files. The input bytes are not trusted. The code is pure.
//!
//! A file is `HONETRC1`, then sections of a tag (u32), a length (u64) and that many bytes, all little-endian:
//!
//! | tag | section | bytes |
//! |---|---|---|
//! | 1 | facts | lines `key=value` |
//! | 2 | objects | a length (u32) and a path, each |
//! | 3 | blocks | object, instructions, size, offset of the last instruction, whether that repeats itself (u32), offset in the object, address (u64), each |
//! | 4 | a thread | length of its names (u32), names; its number, fetched lines, misses of each model (u64); then from, to (u32), count (u64), each |
//! | 5 | a window | thread, blocks that warm up (u32); then blocks (u32) |
//! | 0xffff | the end | none |

use std::collections::BTreeMap;

/// The magic bytes.
const MAGIC: &[u8; 8] = b"HONETRC1";
/// Stands for no file.
const NO_OBJECT: u32 = u32::MAX;

/// qemu translates at most 512 instructions at a time, each of at most 15 bytes.
const MOST_BLOCK_BYTES: u32 = 512 * 15;

/// A translated block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Translated {
    /// Index of its file.
    pub object: Option<u32>,
    /// Number of instructions.
    pub instructions: u32,
    /// Size in bytes.
    pub size: u32,
    /// Offset of its last instruction.
    pub last: u32,
    /// Whether the last instruction repeats itself, each time as a block of its own.
    pub repeats: bool,
    /// Offset in the file, or its address at run time.
    pub offset: u64,
    /// Address at run time.
    pub address: u64,
}

/// Counts of a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Thread {
    /// Names in the system; several if threads followed each other.
    pub names: String,
    /// Number of the thread in qemu.
    pub number: u64,
    /// Fetched lines.
    pub fetched: u64,
    /// Misses, in the order of the models.
    pub misses: Vec<u64>,
    /// Transitions: from, to, count.
    pub transitions: Vec<(u32, u32, u64)>,
}

/// A section of a thread's blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    /// Index of the thread.
    pub thread: u32,
    /// Number of blocks that only warm up.
    pub warm_up: u32,
    /// Indexes of the blocks.
    pub blocks: Vec<u32>,
}

/// A process's trace. Every index in it is valid.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trace {
    /// Settings and environment.
    pub facts: BTreeMap<String, String>,
    /// Paths of files.
    pub objects: Vec<String>,
    /// Blocks.
    pub blocks: Vec<Translated>,
    /// Threads.
    pub threads: Vec<Thread>,
    /// Windows.
    pub windows: Vec<Stretch>,
    /// Whether the process ended normally.
    pub has_ended: bool,
}

/// Bytes that are not a trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TraceFault {
    /// The file has another format.
    #[error("it does not begin like a trace")]
    Foreign,
    /// The file is truncated, or written by another program.
    #[error("it is truncated at byte {at}, in {section}")]
    Broken {
        /// Position of the end.
        at: usize,
        /// The section that was being read.
        section: &'static str,
    },
    /// An index is out of range.
    #[error("{section} refers to {what} {index}, but there are {of}")]
    Nowhere {
        /// The section that was being read.
        section: &'static str,
        /// Kind of the target.
        what: &'static str,
        /// Its index.
        index: u32,
        /// Number of targets.
        of: usize,
    },
}

impl Trace {
    /// Reads a file's bytes.
    ///
    /// # Errors
    /// Returns [`TraceFault`], with the position.
    pub fn parse(bytes: &[u8]) -> Result<Self, TraceFault> {
        let mut rest = bytes.strip_prefix(MAGIC).ok_or(TraceFault::Foreign)?;
        let mut trace = Self::default();
        loop {
            let at = bytes.len() - rest.len();
            let broken = |section| TraceFault::Broken { at, section };
            let mut head = Cursor(rest);
            let (tag, length) = (head.u32(), head.u64());
            let (Some(tag), Some(length)) = (tag, length) else {
                return Err(broken("the head of a section"));
            };
            let length = usize::try_from(length).map_err(|_| broken("the length of a section"))?;
            let body = head.0.get(..length).ok_or_else(|| broken("a section"))?;
            rest = &head.0[length..];
            match tag {
                1 => trace.facts(body),
                2 => trace.objects = objects(body).ok_or_else(|| broken("objects"))?,
                3 => trace.blocks = all(body, block).ok_or_else(|| broken("blocks"))?,
                4 => {
                    let thread = thread(body, trace.models()).ok_or_else(|| broken("a thread"))?;
                    trace.threads.push(thread);
                }
                5 => trace.windows.push(window(body).ok_or_else(|| broken("a window"))?),
                0xffff => return trace.checked(),
                // Section of a newer tracer.
                _ => {}
            }
        }
    }

    fn facts(&mut self, body: &[u8]) {
        let text = String::from_utf8_lossy(body);
        let facts = text.lines().filter_map(|line| line.split_once('='));
        self.facts.extend(facts.map(|(key, value)| (key.to_owned(), value.to_owned())));
        self.has_ended = self.facts.get("ended").is_some_and(|value| value == "true");
    }

    fn models(&self) -> usize {
        self.facts.get("models").map_or(0, |models| models.split(';').count())
    }

    /// Checks every index here, so that later code need not.
    fn checked(self) -> Result<Self, TraceFault> {
        let of = self.blocks.len();
        let nowhere = |section| move |index| TraceFault::Nowhere { section, what: "block", index, of };
        let is_wrong = |index: &u32| *index as usize >= of;
        let mut transitions = self.threads.iter().flat_map(|thread| &thread.transitions);
        if let Some(index) = transitions.find_map(|&(from, to, _)| [from, to].into_iter().find(is_wrong)) {
            return Err(nowhere("a thread")(index));
        }
        let mut windowed = self.windows.iter().flat_map(|window| &window.blocks);
        if let Some(&index) = windowed.find(|index| is_wrong(index)) {
            return Err(nowhere("a window")(index));
        }
        let threads = self.threads.len();
        let mut of_windows = self.windows.iter().map(|window| window.thread);
        if let Some(index) = of_windows.find(|index| *index as usize >= threads) {
            return Err(TraceFault::Nowhere { section: "a window", what: "thread", index, of: threads });
        }
        let objects = self.objects.len();
        let lost =
            self.blocks.iter().filter_map(|block| block.object).find(|index| *index as usize >= objects);
        match lost {
            Some(index) => {
                Err(TraceFault::Nowhere { section: "a block", what: "object", index, of: objects })
            }
            None => Ok(self),
        }
    }
}

/// Bytes that are taken from the front.
struct Cursor<'a>(&'a [u8]);

impl Cursor<'_> {
    fn u32(&mut self) -> Option<u32> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*number))
    }

    fn u64(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    /// Bytes after their length.
    fn text(&mut self) -> Option<String> {
        let length = self.u32()? as usize;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(String::from_utf8_lossy(text).into_owned())
    }
}

/// As many elements as the bytes hold, without a rest.
fn all<T>(body: &[u8], one: impl Fn(&mut Cursor<'_>) -> Option<T>) -> Option<Vec<T>> {
    let mut cursor = Cursor(body);
    let mut found = Vec::new();
    while !cursor.0.is_empty() {
        found.push(one(&mut cursor)?);
    }
    Some(found)
}

fn objects(body: &[u8]) -> Option<Vec<String>> {
    all(body, |cursor| cursor.text())
}

fn block(cursor: &mut Cursor<'_>) -> Option<Translated> {
    let (object, instructions, size, last) = (cursor.u32()?, cursor.u32()?, cursor.u32()?, cursor.u32()?);
    let repeats = cursor.u32()? != 0;
    let (offset, address) = (cursor.u64()?, cursor.u64()?);
    let object = (object != NO_OBJECT).then_some(object);
    (size <= MOST_BLOCK_BYTES && last < size && instructions <= size).then_some(())?;
    Some(Translated { object, instructions, size, last, repeats, offset, address })
}

fn thread(body: &[u8], models: usize) -> Option<Thread> {
    let mut cursor = Cursor(body);
    let names = cursor.text()?;
    let (number, fetched) = (cursor.u64()?, cursor.u64()?);
    // A length from the file is not trusted: at most as many as there are bytes.
    let mut misses = Vec::new();
    for _ in 0..models {
        misses.push(cursor.u64()?);
    }
    let transitions = all(cursor.0, |cursor| Some((cursor.u32()?, cursor.u32()?, cursor.u64()?)))?;
    Some(Thread { names, number, fetched, misses, transitions })
}

fn window(body: &[u8]) -> Option<Stretch> {
    let mut cursor = Cursor(body);
    let (thread, warm_up) = (cursor.u32()?, cursor.u32()?);
    Some(Stretch { thread, warm_up, blocks: all(cursor.0, |cursor| cursor.u32())? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(sections: &[(u32, &[u8])]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        for (tag, body) in sections {
            bytes.extend(tag.to_le_bytes());
            bytes.extend((body.len() as u64).to_le_bytes());
            bytes.extend(*body);
        }
        bytes
    }

    fn word_bytes(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Object, instructions, size, last, repeats; offset and address of two words each.
    const BLOCK: [u32; 9] = [NO_OBJECT, 2, 8, 4, 0, 0x40, 0, 0x40, 0];

    #[test]
    fn what_leads_nowhere_or_breaks_off_is_refused_with_the_place() {
        let of = |sections: &[(u32, &[u8])]| Trace::parse(&file(sections)).map_err(|fault| fault.to_string());
        let block = word_bytes(&BLOCK);
        // Without a name; then its number and what it fetched.
        let thread = word_bytes(&[0; 5]);
        let window = word_bytes(&[0, 1, 0, 0]);
        let trace = of(&[(3, &block), (5, &window), (4, &thread), (9, b"newer"), (0xffff, &[])]).unwrap();
        assert_eq!((trace.blocks[0].size, trace.windows[0].blocks.len()), (8, 2));
        let fault = of(&[(3, &block), (5, &word_bytes(&[0, 1, 7])), (0xffff, &[])]).unwrap_err();
        assert_eq!(fault, "a window refers to block 7, but there are 1");
        // Its number is added to that of the processes before.
        let far = word_bytes(&[u32::MAX, 1, 0]);
        let fault = of(&[(3, &block), (4, &thread), (5, &far), (0xffff, &[])]).unwrap_err();
        assert_eq!(fault, "a window refers to thread 4294967295, but there are 1");
        let fault = of(&[(3, &block)]).unwrap_err();
        assert!(fault.contains("truncated at byte 56, in the head of a section"), "{fault}");
        let mut large = BLOCK;
        large[2] = u32::MAX;
        assert!(of(&[(3, &word_bytes(&large)), (0xffff, &[])]).unwrap_err().contains("in blocks"));
        assert!(of(&[(3, &block[..7]), (0xffff, &[])]).unwrap_err().contains("in blocks"));
        assert!(of(&[(2, &word_bytes(&[9])), (0xffff, &[])]).unwrap_err().contains("in objects"));
        assert_eq!(Trace::parse(b"ELF"), Err(TraceFault::Foreign));
    }
}
