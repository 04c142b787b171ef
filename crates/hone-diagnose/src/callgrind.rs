//! Output of `valgrind --tool=callgrind --dump-instr=yes`: how often each instruction ran, by file, without order and threads. It is for
//! programs that qemu can't run. The input bytes are not trusted. The code is pure.
//!
//! The format is described in Callgrind's manual: positions are relative to the last one (`+7`, `-21`, `*`), in decimals. Names get a
//! number at their first use. The line after `calls=` is the cost of the callee, and not an instruction of its own.

use std::collections::{BTreeMap, HashMap};

use crate::image::Image;
use crate::model::{Block, Object, Part, Run};

/// Largest length of an instruction. The length is estimated from the distance to the next one that ran.
const LONGEST_INSTRUCTION: u64 = 15;

/// A text that is not Callgrind's, or that lacks the needed data.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallgrindFault {
    /// The text has another format.
    #[error("it does not begin like a callgrind file (\"# callgrind format\")")]
    Foreign,
    /// By line only.
    #[error("it has no addresses of instructions\n  next: run callgrind with --dump-instr=yes")]
    NoInstructions,
    /// The events do not include instructions.
    #[error("it counts {events}, but not instructions (Ir)")]
    NoCounts {
        /// The counted events.
        events: String,
    },
    /// A line is invalid.
    #[error("line {line}: {what}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// The problem.
        what: String,
    },
    /// No instruction ran.
    #[error("it counts no instruction: did the program start?")]
    Nothing,
}

/// Number of executions of each instruction, by file and address.
type Counts = BTreeMap<String, BTreeMap<u64, u64>>;

/// Converts a file's text into the model. Each instruction is a block of its own.
///
/// # Errors
/// Returns [`CallgrindFault`], with the line.
pub fn read(text: &str, image: impl Fn(&str) -> Option<Image>) -> Result<Run, CallgrindFault> {
    let counts = counts(text)?;
    let mut run = Run::default();
    let mut part = Part { name: "all threads".to_owned(), threads: 1, ..Part::default() };
    for (path, instructions) in counts {
        // Callgrind has no name for code without a file either.
        let object = (path != "???").then_some(run.objects.len() as u32);
        if object.is_some() {
            run.objects.push(Object { image: image(&path), path });
        }
        let next = instructions.keys().skip(1).copied().chain([u64::MAX]);
        for ((&address, &count), next) in instructions.iter().zip(next) {
            let size = (next - address).min(LONGEST_INSTRUCTION) as u32;
            run.blocks.push(Block { object, address, size, instructions: 1, last: 0, repeats: false });
            part.counts.push(count);
        }
    }
    if run.blocks.is_empty() {
        return Err(CallgrindFault::Nothing);
    }
    run.parts.push(part);
    Ok(run)
}

fn counts(text: &str) -> Result<Counts, CallgrindFault> {
    if !text.starts_with("# callgrind format") {
        return Err(CallgrindFault::Foreign);
    }
    let mut reader = Reader::default();
    for (index, line) in text.lines().enumerate() {
        reader.line(line).map_err(|fault| match fault {
            Wrong::Line(what) => CallgrindFault::Line { line: index + 1, what },
            Wrong::All(fault) => fault,
        })?;
    }
    Ok(reader.counts)
}

/// The problem with a line, or with the whole text.
enum Wrong {
    Line(String),
    All(CallgrindFault),
}

#[derive(Default)]
struct Reader {
    /// Whether each position begins with an address; `None` before it is known.
    has_instructions: Option<bool>,
    /// Numbers per position.
    positions: usize,
    /// Index of instructions among the costs.
    column: Option<usize>,
    names: HashMap<String, String>,
    object: String,
    address: u64,
    /// Whether the next line is the cost of a callee.
    is_of_a_call: bool,
    counts: Counts,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), Wrong> {
        let first = line.bytes().next().unwrap_or(b'#');
        if first.is_ascii_digit() || matches!(first, b'+' | b'-' | b'*') {
            return self.cost(line);
        }
        if let Some(positions) = line.strip_prefix("positions:") {
            let words: Vec<&str> = positions.split_whitespace().collect();
            self.has_instructions = Some(words.first() == Some(&"instr"));
            self.positions = words.len();
        } else if let Some(events) = line.strip_prefix("events:") {
            self.column = events.split_whitespace().position(|event| event == "Ir");
            if self.column.is_none() {
                return Err(Wrong::All(CallgrindFault::NoCounts { events: events.trim().to_owned() }));
            }
        } else if let Some(object) = line.strip_prefix("ob=") {
            self.object = self.name(object);
        } else if let Some(object) = line.strip_prefix("cob=") {
            // This may be the first use of a name.
            self.name(object);
        } else if ["calls=", "jump=", "jcnd="].iter().any(|start| line.starts_with(start)) {
            self.is_of_a_call = true;
        }
        Ok(())
    }

    /// `(5) /bin/x` defines a name, `(5)` refers to it.
    fn name(&mut self, text: &str) -> String {
        let Some((number, name)) = text.split_once(')') else { return text.to_owned() };
        let name = name.trim();
        if name.is_empty() {
            return self.names.get(number).cloned().unwrap_or_else(|| "???".to_owned());
        }
        self.names.insert(number.to_owned(), name.to_owned());
        name.to_owned()
    }

    fn cost(&mut self, line: &str) -> Result<(), Wrong> {
        if self.has_instructions != Some(true) {
            return Err(Wrong::All(CallgrindFault::NoInstructions));
        }
        let mut words = line.split_whitespace();
        let position = words.next().unwrap_or_default();
        self.address = self
            .moved(position)
            .ok_or_else(|| Wrong::Line(format!("{position} is not the position of an instruction")))?;
        if std::mem::take(&mut self.is_of_a_call) {
            return Ok(());
        }
        let column = self.column.ok_or_else(|| Wrong::Line("costs stand before their names".to_owned()))?;
        // Costs of zero are left out at the end of a line.
        let Some(cost) = words.nth(self.positions - 1 + column) else { return Ok(()) };
        let cost: u64 = cost.parse().map_err(|_| Wrong::Line(format!("{cost} is not a count")))?;
        let sum = self.counts.entry(self.object.clone()).or_default().entry(self.address).or_insert(0);
        *sum = sum.saturating_add(cost);
        Ok(())
    }

    fn moved(&self, position: &str) -> Option<u64> {
        if position == "*" {
            return Some(self.address);
        }
        if let Some(more) = position.strip_prefix('+') {
            return self.address.checked_add(more.parse().ok()?);
        }
        if let Some(less) = position.strip_prefix('-') {
            return self.address.checked_sub(less.parse().ok()?);
        }
        match position.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => position.parse().ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "# callgrind format\npositions: instr line\nevents: Ir\n";

    fn read_text(text: &str) -> Result<Run, CallgrindFault> {
        read(text, |_| None)
    }

    #[test]
    fn positions_are_relative_and_calls_are_not_counted_twice() {
        let text = format!(
            "{HEAD}ob=(1) /bin/x\nfn=(1) f\n0x10d0 0 5\n+7 0 5\n\nfn=(2) g\ncob=(2) /lib/y\ncalls=1 -93 0\n* 0 31\n-2 0 1\nob=(2)\n0x10 0 2\n+40 0 1\n"
        );
        let run = read_text(&text).unwrap();
        let of: Vec<_> = run
            .blocks
            .iter()
            .zip(&run.parts[0].counts)
            .map(|(block, count)| (block.object, block.address, block.size, *count))
            .collect();
        assert_eq!(
            of,
            [
                (Some(0), 0x10d0, 5, 5),
                (Some(0), 0x10d5, 2, 1),
                (Some(0), 0x10d7, 15, 5),
                (Some(1), 0x10, 15, 2),
                (Some(1), 0x38, 15, 1)
            ]
        );
        assert_eq!(run.parts[0].instructions(&run), 14);
        assert_eq!(run.objects[1].path, "/lib/y");
    }

    #[test]
    fn what_says_nothing_of_instructions_is_refused_with_the_reason() {
        let of = |text: &str| read_text(text).unwrap_err().to_string();
        assert!(of("version: 1\n").contains("does not begin like"), "{}", of("version: 1\n"));
        let lines = "# callgrind format\npositions: line\nevents: Ir\nfn=f\n12 5\n";
        assert!(of(lines).contains("--dump-instr=yes"), "{}", of(lines));
        assert!(of("# callgrind format\nevents: Dr Dw\n").contains("counts Dr Dw"));
        assert!(of(&format!("{HEAD}0xzz 0 1\n")).contains("line 4: 0xzz is not the position"));
        assert!(of(&format!("{HEAD}-5 0 1\n")).contains("line 4"));
        assert!(of(&format!("{HEAD}0x5 0 many\n")).contains("many is not a count"));
        assert!(of(HEAD).contains("did the program start"));
    }
}
