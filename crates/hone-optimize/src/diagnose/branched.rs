//! BOLT profiles as sources of the model. The text form (`.fdata`) has functions and offsets, the pre-aggregated form has addresses. Both
//! count branches of one program, which the user must name. The two crates do not know each other, so this module converts the records.

use std::collections::HashMap;
use std::fs;
use std::io::BufRead;
use std::path::Path;

use anyhow::{Context as _, Result, bail};
use hone_binary::bolt::fdata::{self, CodeLocation, Reader, Record};
use hone_diagnose::aggregated;
use hone_diagnose::image::{self, Image};
use hone_diagnose::model::{self, BYTES_OF_AN_INSTRUCTION, Branch, Branched, Depth, Object, Run};

use hone_experiment::ending::Usage;

/// From this share of strays on, a profile belongs to another program.
const MOST_FOREIGN: f64 = 0.5;
/// A smaller share is not worth a note.
const TOLD_SHARE: f64 = 0.005;
/// Length of a bad line in an error.
const SHOWN_BYTES: usize = 80;

/// Profiles without addresses, by their first bytes: the kind, the reason, and the remedy.
const REFUSED: [(&[u8], &str); 4] = [
    (b"\xfflprofi\x81", NO_ADDRESSES),
    (b"\x81rforpl\xff", NO_ADDRESSES),
    (
        b"PERFILE2",
        "is perf data, which Hone reads twice, so it can't come from standard input\n  next: name the file \
         instead",
    ),
    (
        b"---\n",
        "is a BOLT profile in YAML, whose blocks have numbers but no addresses\n  next: take it as text \
         (perf2bolt --profile-format=fdata, or the output of an instrumented program)",
    ),
];

const NO_ADDRESSES: &str = "is a profile of clang or rustc: it counts functions by name and has no \
                            addresses, so it does not show where the code is\n  next: trace the program with \
                            `hone diagnose -- COMMAND`, or read this file with `hone profile show`";

/// A profile in the form of the model.
pub struct Read {
    /// The executed code.
    pub run: Run,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// Whether the bytes begin like one of these profiles.
pub fn is_profile(bytes: &[u8]) -> bool {
    is_fdata(bytes) || aggregated::begins(beginning(bytes))
}

/// Whether a file begins like pre-aggregated branches, which Hone can read in a stream.
pub(crate) fn is_aggregated(head: &[u8]) -> bool {
    !is_fdata(head) && aggregated::begins(head)
}

/// Reads a profile that [`is_profile`]; `name` is that of its file.
///
/// # Errors
/// Fails when no program is named, when the profile is broken, or when it belongs to another program.
pub fn read(bytes: &[u8], name: &str, program: Option<&Path>, depth: Depth) -> Result<Read> {
    if !is_fdata(bytes) {
        return read_aggregated(bytes, name, program, depth);
    }
    let program = Program::open(name, program)?;
    let (counted, notes) = of_fdata(bytes, name, &program.file, program.path)?;
    program.model(&counted, name, notes, depth)
}

/// Reads a profile that [`is_aggregated`], line by line.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_aggregated(
    text: impl BufRead,
    name: &str,
    program: Option<&Path>,
    depth: Depth,
) -> Result<Read> {
    let program = Program::open(name, program)?;
    let cannot = || format!("{name} can't be read as pre-aggregated branches");
    let counted = aggregated::read(text, program.image.build_id.as_deref()).with_context(cannot)?;
    program.model(&counted, name, Vec::new(), depth)
}

/// The program of a profile.
struct Program<'a> {
    path: &'a Path,
    file: Vec<u8>,
    image: Image,
}

impl<'a> Program<'a> {
    fn open(name: &str, path: Option<&'a Path>) -> Result<Self> {
        let Some(path) = path else {
            let told = format!(
                "{name} counts branches of a program, but does not name its file\n  next: name exactly that \
                 file with --program"
            );
            return Err(Usage(told).into());
        };
        let file = fs::read(path).with_context(|| format!("the program {} can't be read", path.display()))?;
        let image = Image::parse(&file).with_context(|| format!("{} is not a program", path.display()))?;
        if image.is_stripped() {
            bail!(
                "{} has no symbols, so Hone can't assign branches to functions\n  next: name the file as it \
                 was linked, before it was stripped",
                path.display()
            );
        }
        Ok(Self { path, file, image })
    }

    fn model(self, counted: &Branched, name: &str, mut notes: Vec<String>, depth: Depth) -> Result<Read> {
        let Self { path: program, file, image } = self;
        let foreign = model::foreign_share(&image, &file, counted);
        let path = program.canonicalize().unwrap_or_else(|_| program.to_owned()).display().to_string();
        let run = model::of_branches(Object { path, image: Some(image) }, &file, counted, depth);
        if run.blocks.is_empty() || foreign > MOST_FOREIGN {
            bail!("{name}: {}", not_of(program, foreign));
        }
        if foreign >= TOLD_SHARE {
            notes.push(format!(
                "{:.1} % of its branches begin where {} has no branch: perhaps it is another build",
                100.0 * foreign,
                program.display()
            ));
        }
        notes.push(format!(
            "a profile counts branches (all of them where BOLT instrumented the program, samples where perf \
             took them), not instructions. Hone derives the code in between, and assumes \
             {BYTES_OF_AN_INSTRUCTION} B per instruction (about the mean on x86-64; exact on aarch64)"
        ));
        Ok(Read { run, notes })
    }
}

/// Why Hone refuses a file that is a profile without addresses.
///
/// # Errors
/// Returns the reason if it is one.
pub fn refuse(bytes: &[u8], name: &str) -> Result<()> {
    match REFUSED.iter().find(|(begins, _)| bytes.starts_with(begins)) {
        Some((_, why)) => bail!("{name} {why}"),
        None => Ok(()),
    }
}

/// Enough bytes to detect the kind.
fn beginning(bytes: &[u8]) -> &[u8] {
    const ENOUGH: usize = 4096;
    &bytes[..bytes.len().min(ENOUGH)]
}

fn is_fdata(bytes: &[u8]) -> bool {
    let mut reader = Reader::new(bytes);
    let head = reader.head();
    head.bolted || head.samples.is_some() || reader.next().is_some_and(|first| first.is_ok())
}

fn not_of(program: &Path, foreign: f64) -> String {
    let program = program.display();
    let why = if foreign > MOST_FOREIGN {
        format!("{:.0} % of its branches begin where {program} has no branch", 100.0 * foreign)
    } else {
        format!("none of its branches is in {program}")
    };
    format!(
        "{why}, so the profile belongs to another program\n  next: name exactly the profiled file with \
         --program"
    )
}

fn of_fdata(bytes: &[u8], name: &str, file: &[u8], program: &Path) -> Result<(Branched, Vec<String>)> {
    let mut reader = Reader::new(bytes);
    let head = reader.head().clone();
    if head.samples.is_some() {
        bail!(
            "{name} holds plain samples (no_lbr), which show where time goes, but not how often code ran\n \
              next: {}",
            aggregated::BRANCHES
        );
    }
    let names = image::by_name(file).with_context(|| format!("{} is not a program", program.display()))?;
    let (mut counted, mut lost, mut all) = (Branched::default(), 0_u64, 0_u64);
    for record in &mut reader {
        let record = record.map_err(|bad| anyhow::anyhow!(bad_line(name, &bad)))?;
        let Record::Branch { from, to, count, .. } = record else { continue };
        let (leaves, enters) = (address(&from, &names), address(&to, &names));
        let is_lost = |place: &CodeLocation<'_>, address: Option<u64>| {
            address.is_none() && place.is_symbol() && !place.name.ends_with(PLT)
        };
        all = all.saturating_add(count);
        if is_lost(&from, leaves) || is_lost(&to, enters) {
            lost = lost.saturating_add(count);
        }
        counted.branches.push(Branch { from: leaves, to: enters, count });
    }
    if all == 0 {
        bail!(
            "{name} counts no branch: the program was killed before it wrote its profile, or perf sampled \
             nothing\n  next: take the profile again"
        );
    }
    let share = lost as f64 / all as f64;
    if share > MOST_FOREIGN {
        bail!(
            "{name}: {:.0} % of its branches are in functions that {} does not have\n  next: name exactly \
             the profiled file with --program",
            100.0 * share,
            program.display()
        );
    }
    let mut notes = Vec::new();
    if share >= TOLD_SHARE {
        notes.push(format!(
            "{:.1} % of the branches are in functions that {} does not have: Hone leaves them out",
            100.0 * share,
            program.display()
        ));
    }
    if head.bolted {
        notes.push(
            "the program of this profile had been rewritten by BOLT: Hone uses the places before that"
                .to_owned(),
        );
    }
    Ok((counted, notes))
}

const PLT: &[u8] = b"@PLT";

fn bad_line(name: &str, (line, what, text): &fdata::BadLine<'_>) -> String {
    let text = String::from_utf8_lossy(&text[..text.len().min(SHOWN_BYTES)]);
    format!("{name}, line {line}: {what}: \"{text}\"\n  next: take the profile again")
}

/// The linked address of a place; `None` if outside the program. BOLT numbers functions of one name in the order of their addresses
/// (`name/2`), and inserts the file's name if it knows it (`name/file.c/1`).
fn address(place: &CodeLocation<'_>, names: &HashMap<String, Vec<(u64, u64)>>) -> Option<u64> {
    if !place.is_symbol() || place.name.ends_with(PLT) {
        return None;
    }
    let name = unescaped(place.name);
    let all = |name: &str| names.get(name).filter(|places| !places.is_empty());
    let (places, number) = match (all(&name), name.rsplit_once('/')) {
        (Some(places), _) => (places, 1),
        (None, Some((bare, number))) => {
            let without_file = || bare.rsplit_once('/').and_then(|(bare, _)| all(bare));
            (all(bare).or_else(without_file)?, number.parse::<usize>().ok()?)
        }
        (None, None) => return None,
    };
    let (begin, size) = *places.get(number.checked_sub(1)?)?;
    // An offset beyond the end means that the name belongs to another function.
    (size == 0 || place.offset <= size).then(|| begin.checked_add(place.offset))?
}

/// A backslash escapes a blank or a backslash.
fn unescaped(name: &[u8]) -> String {
    let mut plain = Vec::with_capacity(name.len());
    let mut bytes = name.iter().copied();
    while let Some(byte) = bytes.next() {
        plain.push(if byte == b'\\' { bytes.next().unwrap_or(byte) } else { byte });
    }
    String::from_utf8_lossy(&plain).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_found_as_bolt_writes_it() {
        let names: HashMap<String, Vec<(u64, u64)>> = [
            ("main", vec![(0x1000, 0x40)]),
            ("work", vec![(0x2000, 0x10), (0x3000, 0x10)]),
            ("operator new", vec![(0x4000, 0)]),
            ("a/1", vec![(0x5000, 8)]),
        ]
        .map(|(name, places)| (name.to_owned(), places))
        .into();
        let of =
            |kind, name: &str, offset| address(&CodeLocation { kind, name: name.as_bytes(), offset }, &names);
        assert_eq!(of(1, "main", 0x10), Some(0x1010));
        assert_eq!(
            (of(2, "work/1", 4), of(1, "work/2", 4), of(2, "work/3", 4)),
            (Some(0x2004), Some(0x3004), None)
        );
        assert_eq!(of(2, "work/dir/file.c/2", 0), None, "a folder is no file's name");
        assert_eq!(of(2, "work/file.c/2", 0), Some(0x3000));
        assert_eq!(of(1, r"operator\ new", 0x99), Some(0x4099));
        assert_eq!((of(1, "a/1", 0), of(1, "main", 0x41), of(0, "main", 0)), (Some(0x5000), None, None));
        assert_eq!((of(1, "main@PLT", 0), of(1, "work/0", 0), of(1, "gone", 0)), (None, None, None));
    }

    #[test]
    fn what_is_no_map_is_refused_with_the_way_out() {
        let refused = |bytes: &[u8]| refuse(bytes, "x").unwrap_err().to_string();
        assert!(refused(b"\xfflprofi\x81\x0c\0\0").contains("no addresses"));
        assert!(refused(b"\x81rforpl\xff\x09\0").contains("hone diagnose -- COMMAND"));
        assert!(refused(b"PERFILE2....").contains("name the file"));
        assert!(refused(b"---\nheader:\n").contains("--profile-format=fdata"));
        refuse(b"1 main 4 1 main 9 0 7\n", "x").unwrap();
        assert!(is_profile(b"1 main 4 1 main 9 0 7\n") && is_profile(b"B 1 2 3 0\n"));
        assert!(
            !is_profile(b"")
                && !is_profile(b"# callgrind format\n")
                && !is_profile(b"     1.001 cpu-cycles\n")
        );
    }

    #[test]
    fn of_this_very_program_it_is_a_model_and_of_another_one_none() {
        let program = std::env::current_exe().unwrap();
        let told =
            |text: &str, program: Option<&Path>| read(text.as_bytes(), "x.fdata", program, Depth::Edges);
        let error = |text: &str, program: Option<&Path>| told(text, program).err().unwrap().to_string();
        assert!(error("1 main 4 1 main 9 0 7\n", None).contains("--program"));
        let of = |text: &str| error(text, Some(&program));
        assert!(
            of("1 there_is_none 4 1 there_is_none 9 0 7\n")
                .contains("100 % of its branches are in functions")
        );
        assert!(of("no_lbr cycles\n1 main 4 7\n").contains("plain samples"));
        assert!(of("1 main 4 1 main 9 0 7\n1 main\n").contains("x.fdata, line 2"));
        assert!(of("1 main 4 1 main 9 0 0\n").contains("counts no branch"));
        assert!(of("B 7fffffff0000 7fffffff1000 5 0\n").contains("none of its branches is in"));
        let read = told("0 [unknown] 0 1 main 0 0 5\n", Some(&program)).unwrap();
        assert_eq!(read.run.function_of(&read.run.blocks[0]), Some("main"));
        assert!(
            read.notes.iter().any(|note| note.contains("assumes 4 B per instruction")),
            "{:?}",
            read.notes
        );
    }
}
