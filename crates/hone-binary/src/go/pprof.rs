//! Profiles in pprof's format: a gzip-compressed protocol buffer, read and written.
//!
//! The reader checks the whole profile (every reference is valid, every sample has a value of every type), so that the rest of the crate
//! can index without checks.

use std::cell::Cell;
use std::collections::HashMap;
use std::hash::Hash;
use std::io::{Read, Write};

use flate2::read::MultiGzDecoder;
use flate2::{Compression, GzBuilder};

use super::wire::{Fields, Message, Value};

/// Limit of a decompressed profile: a profile of an hour of a large service has a few MB.
const MOST_BYTES: u64 = 256 << 20;

/// Memory limit of a parsed profile. A text of a megabyte that every function has as its name takes its size each time, and fields of two
/// bytes become objects of a hundred.
const MOST_MEMORY: u64 = 1 << 30;

/// The meaning of a sample's value, for example `cpu` in `nanoseconds`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct ValueType {
    /// The counted quantity.
    pub kind: String,
    /// Its unit.
    pub unit: String,
}

/// A loaded file with code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address after it.
    pub limit: u64,
    /// Offset in the file.
    pub offset: u64,
    /// The file.
    pub file: String,
    /// Its build id.
    pub build_id: String,
    /// The known information about its code: functions, files, line numbers, inlined calls.
    pub has: [bool; 4],
}

/// A function.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Function {
    /// The name for people.
    pub name: String,
    /// The linker's name.
    pub system_name: String,
    /// Source file.
    pub file: String,
    /// Line in which it begins; 0 if the profiler did not record it. The Go compiler needs it.
    pub start_line: i64,
}

/// A line of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Line {
    /// Index in [`Profile::functions`].
    pub function: usize,
    /// Line of the source file.
    pub line: i64,
    /// Column, 0 when unknown.
    pub column: i64,
}

/// A place in the code.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Location {
    /// Index in [`Profile::mappings`].
    pub mapping: Option<usize>,
    /// Its address.
    pub address: u64,
    /// The line, and for inlined calls those of the callers: innermost first.
    pub lines: Vec<Line>,
    /// Whether several places were combined.
    pub folded: bool,
}

/// A label of a sample.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Label {
    /// Its name.
    pub key: String,
    /// Its text; empty when it is a number.
    pub text: String,
    /// Its number.
    pub number: i64,
    /// The number's unit.
    pub unit: String,
}

/// A stack, and its counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sample {
    /// Indices in [`Profile::locations`], the innermost first.
    pub stack: Vec<usize>,
    /// One for each of [`Profile::sample_types`].
    pub values: Vec<i64>,
    /// Labels.
    pub labels: Vec<Label>,
}

/// A profile. All of its indices are valid: [`Profile::parse`] ensures that.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Profile {
    /// The meaning of the samples' values.
    pub sample_types: Vec<ValueType>,
    /// The samples.
    pub samples: Vec<Sample>,
    /// Loaded files.
    pub mappings: Vec<Mapping>,
    /// Places in the code.
    pub locations: Vec<Location>,
    /// Functions.
    pub functions: Vec<Function>,
    /// Its start, nanoseconds since 1970.
    pub time_ns: i64,
    /// Its duration, nanoseconds.
    pub duration_ns: i64,
    /// The quantity of `period`.
    pub period_type: ValueType,
    /// Events between two samples.
    pub period: i64,
    /// Free text.
    pub comments: Vec<String>,
    /// Name of the default value type.
    pub default_kind: String,
    /// Pattern of functions that a viewer hides.
    pub drop_frames: String,
    /// Pattern of functions that it shows nevertheless.
    pub keep_frames: String,
    /// Address of its documentation.
    pub doc_url: String,
}

impl Profile {
    /// Reads a profile, with or without gzip compression.
    ///
    /// # Errors
    /// In words, if the bytes are not a complete profile.
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.is_empty() {
            return Err("it is empty (0 bytes)".to_owned());
        }
        match bytes {
            [0x1f, 0x8b, ..] => Self::parse_plain(&unpack(bytes)?, MOST_MEMORY),
            plain => Self::parse_plain(plain, MOST_MEMORY),
        }
    }

    fn parse_plain(bytes: &[u8], most_memory: u64) -> Result<Self, String> {
        let table = Texts::read(bytes, most_memory)?;
        let text = |value: Value<'_>| table.at(value);
        let mut profile = Self::default();
        let mut functions = Ids::new("function");
        let mut mappings = Ids::new("mapping");
        let mut locations = Ids::new("location");
        each(bytes, |number, value| {
            match number {
                1 => {
                    table.takes::<ValueType>(1)?;
                    profile.sample_types.push(value_type(value.bytes()?, &table)?);
                }
                3 => {
                    table.takes::<(u64, Mapping)>(1)?;
                    mappings.add(mapping(value.bytes()?, &table)?, &mut profile.mappings)?;
                }
                5 => {
                    table.takes::<(u64, Function)>(1)?;
                    functions.add(function(value.bytes()?, &table)?, &mut profile.functions)?;
                }
                7 => profile.drop_frames = text(value)?,
                8 => profile.keep_frames = text(value)?,
                9 => profile.time_ns = value.signed()?,
                10 => profile.duration_ns = value.signed()?,
                11 => profile.period_type = value_type(value.bytes()?, &table)?,
                12 => profile.period = value.signed()?,
                13 => {
                    let mut indices = Vec::new();
                    table.numbers(value, &mut indices)?;
                    table.takes::<String>(indices.len())?;
                    for index in indices {
                        profile.comments.push(text(Value::Varint(index))?);
                    }
                }
                14 => profile.default_kind = text(value)?,
                15 => profile.doc_url = text(value)?,
                _ => {}
            }
            Ok(())
        })?;
        each(bytes, |number, value| match number {
            4 => {
                table.takes::<(u64, Location)>(1)?;
                let read = location(value.bytes()?, &table, &mappings, &functions)?;
                locations.add(read, &mut profile.locations)
            }
            _ => Ok(()),
        })?;
        let types = profile.sample_types.len();
        each(bytes, |number, value| {
            if number == 2 {
                table.takes::<Sample>(1)?;
                profile.samples.push(sample(value.bytes()?, &table, &locations, types)?);
            }
            Ok(())
        })?;
        match profile.sample_types.is_empty() {
            true => Err("none of its values has a type, so it is not a pprof profile".to_owned()),
            false => Ok(profile),
        }
    }

    /// The profile as a gzip-compressed file. The same profile gives the same bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let plain = self.to_plain();
        let mut packer = GzBuilder::new().mtime(0).write(Vec::new(), Compression::default());
        // Neither can fail: the bytes go into memory.
        let _ = packer.write_all(&plain);
        packer.finish().unwrap_or_default()
    }

    fn to_plain(&self) -> Vec<u8> {
        let mut table = Strings::default();
        table.index("");
        let mut out = Message::default();
        for kind in &self.sample_types {
            out.bytes(1, &table.value_type(kind));
        }
        for sample in &self.samples {
            out.bytes(2, &table.sample(sample));
        }
        for (at, mapping) in self.mappings.iter().enumerate() {
            out.bytes(3, &table.mapping(id(at), mapping));
        }
        for (at, location) in self.locations.iter().enumerate() {
            out.bytes(4, &location_bytes(id(at), location));
        }
        for (at, function) in self.functions.iter().enumerate() {
            out.bytes(5, &table.function(id(at), function));
        }
        out.number(7, table.index(&self.drop_frames));
        out.number(8, table.index(&self.keep_frames));
        out.signed(9, self.time_ns);
        out.signed(10, self.duration_ns);
        out.bytes(11, &table.value_type(&self.period_type));
        out.signed(12, self.period);
        let comments: Vec<u64> = self.comments.iter().map(|comment| table.index(comment)).collect();
        out.numbers(13, comments);
        out.number(14, table.index(&self.default_kind));
        out.number(15, table.index(&self.doc_url));
        for text in &table.order {
            out.bytes(6, text.as_bytes());
        }
        out.0
    }

    /// The index of a value type by its name, for example `cpu` or `alloc_space`.
    pub fn value_index(&self, kind: &str) -> Option<usize> {
        self.sample_types.iter().position(|found| found.kind == kind)
    }

    /// The sum of all values of one type.
    pub fn total(&self, index: usize) -> i64 {
        self.samples
            .iter()
            .filter_map(|sample| sample.values.get(index))
            .fold(0, |sum: i64, &value| sum.saturating_add(value))
    }

    /// The frames of a sample, inlined calls included, innermost first.
    pub fn frames<'a>(&'a self, sample: &'a Sample) -> impl Iterator<Item = Line> + 'a {
        sample.stack.iter().flat_map(|&at| self.locations[at].lines.iter().copied())
    }
}

fn id(index: usize) -> u64 {
    index as u64 + 1
}

fn unpack(bytes: &[u8]) -> Result<Vec<u8>, String> {
    let mut plain = Vec::new();
    let read = MultiGzDecoder::new(bytes).take(MOST_BYTES + 1).read_to_end(&mut plain);
    read.map_err(|error| format!("its gzip part is broken or cut off ({error})"))?;
    match plain.len() as u64 > MOST_BYTES {
        true => Err(format!("it decompresses to more than {MOST_BYTES} bytes")),
        false => Ok(plain),
    }
}

fn each<'a>(
    bytes: &'a [u8],
    mut take: impl FnMut(u64, Value<'a>) -> Result<(), String>,
) -> Result<(), String> {
    let mut fields = Fields(bytes);
    while let Some((number, value)) = fields.next()? {
        take(number, value)?;
    }
    Ok(())
}

/// The table of texts while a profile is read, and the remaining memory for it. Each use is declared before it happens.
struct Texts {
    table: Vec<String>,
    most: u64,
    left: Cell<u64>,
}

impl Texts {
    fn read(bytes: &[u8], most: u64) -> Result<Self, String> {
        let mut texts = Self { table: Vec::new(), most, left: Cell::new(most) };
        each(bytes, |number, value| {
            if number == 6 {
                let text = value.bytes()?;
                texts.takes::<String>(1)?;
                // Each byte that is not UTF-8 becomes three.
                texts.takes::<u8>(text.len().saturating_mul(3))?;
                texts.table.push(String::from_utf8_lossy(text).into_owned());
            }
            Ok(())
        })?;
        match texts.table.first() {
            Some(first) if first.is_empty() => Ok(texts),
            Some(_) => Err("its first string is not empty, so it is not a pprof profile".to_owned()),
            None => Err("it has no strings, so it is not a pprof profile".to_owned()),
        }
    }

    /// Declares that this number of objects of a kind will be kept.
    fn takes<T>(&self, things: usize) -> Result<(), String> {
        let bytes = (things as u64).saturating_mul(size_of::<T>() as u64);
        let left = self.left.get().checked_sub(bytes);
        let left = left.ok_or_else(|| {
            format!("it would take more than {} bytes of memory: no profiler writes that", self.most)
        })?;
        self.left.set(left);
        Ok(())
    }

    fn at(&self, value: Value<'_>) -> Result<String, String> {
        let index = value.number()?;
        let found = usize::try_from(index).ok().and_then(|index| self.table.get(index));
        let found = found
            .ok_or_else(|| format!("it refers to string {index}, but it has only {}", self.table.len()))?;
        self.takes::<u8>(found.len())?;
        Ok(found.clone())
    }

    /// A repeated number.
    fn numbers(&self, value: Value<'_>, into: &mut Vec<u64>) -> Result<(), String> {
        let numbers = match value {
            // The last byte of each has no highest bit.
            Value::Bytes(bytes) => bytes.iter().filter(|byte| **byte < 0x80).count(),
            _ => 1,
        };
        self.takes::<u64>(numbers)?;
        value.numbers(into)
    }
}

/// The numbers that a profile uses for its objects, and their indices.
struct Ids {
    what: &'static str,
    places: HashMap<u64, usize>,
}

impl Ids {
    fn new(what: &'static str) -> Self {
        Self { what, places: HashMap::new() }
    }

    fn add<T>(&mut self, (id, thing): (u64, T), into: &mut Vec<T>) -> Result<(), String> {
        if id == 0 || self.places.insert(id, into.len()).is_some() {
            return Err(format!("the number {id} of a {} is 0 or used twice", self.what));
        }
        into.push(thing);
        Ok(())
    }

    fn find(&self, id: u64) -> Result<usize, String> {
        self.places.get(&id).copied().ok_or_else(|| format!("there is no {} {id}", self.what))
    }
}

fn value_type(bytes: &[u8], table: &Texts) -> Result<ValueType, String> {
    let mut read = ValueType::default();
    each(bytes, |number, value| {
        match number {
            1 => read.kind = table.at(value)?,
            2 => read.unit = table.at(value)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(read)
}

fn mapping(bytes: &[u8], table: &Texts) -> Result<(u64, Mapping), String> {
    let (mut id, mut read) = (0, Mapping::default());
    each(bytes, |number, value| {
        match number {
            1 => id = value.number()?,
            2 => read.start = value.number()?,
            3 => read.limit = value.number()?,
            4 => read.offset = value.number()?,
            5 => read.file = table.at(value)?,
            6 => read.build_id = table.at(value)?,
            7 => read.has[0] = value.number()? != 0,
            8 => read.has[1] = value.number()? != 0,
            9 => read.has[2] = value.number()? != 0,
            10 => read.has[3] = value.number()? != 0,
            _ => {}
        }
        Ok(())
    })?;
    Ok((id, read))
}

fn function(bytes: &[u8], table: &Texts) -> Result<(u64, Function), String> {
    let (mut id, mut read) = (0, Function::default());
    each(bytes, |number, value| {
        match number {
            1 => id = value.number()?,
            2 => read.name = table.at(value)?,
            3 => read.system_name = table.at(value)?,
            4 => read.file = table.at(value)?,
            5 => read.start_line = value.signed()?,
            _ => {}
        }
        Ok(())
    })?;
    Ok((id, read))
}

fn location(bytes: &[u8], table: &Texts, mappings: &Ids, functions: &Ids) -> Result<(u64, Location), String> {
    let (mut id, mut read) = (0, Location::default());
    each(bytes, |number, value| {
        match number {
            1 => id = value.number()?,
            2 => {
                let mapping = value.number()?;
                read.mapping = (mapping != 0).then(|| mappings.find(mapping)).transpose()?;
            }
            3 => read.address = value.number()?,
            4 => {
                table.takes::<Line>(1)?;
                read.lines.push(line(value.bytes()?, functions)?);
            }
            5 => read.folded = value.number()? != 0,
            _ => {}
        }
        Ok(())
    })?;
    Ok((id, read))
}

fn line(bytes: &[u8], functions: &Ids) -> Result<Line, String> {
    let (mut function, mut line, mut column) = (0, 0, 0);
    each(bytes, |number, value| {
        match number {
            1 => function = value.number()?,
            2 => line = value.signed()?,
            3 => column = value.signed()?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(Line { function: functions.find(function)?, line, column })
}

fn sample(bytes: &[u8], table: &Texts, locations: &Ids, types: usize) -> Result<Sample, String> {
    let (mut stack, mut values, mut labels) = (Vec::new(), Vec::new(), Vec::new());
    each(bytes, |number, value| {
        match number {
            1 => table.numbers(value, &mut stack)?,
            2 => table.numbers(value, &mut values)?,
            3 => {
                table.takes::<Label>(1)?;
                labels.push(label(value.bytes()?, table)?);
            }
            _ => {}
        }
        Ok(())
    })?;
    if values.len() != types {
        return Err(format!("a sample has {} values, but the profile has {types} value types", values.len()));
    }
    Ok(Sample {
        stack: stack.into_iter().map(|id| locations.find(id)).collect::<Result<_, _>>()?,
        values: values.into_iter().map(u64::cast_signed).collect(),
        labels,
    })
}

fn label(bytes: &[u8], table: &Texts) -> Result<Label, String> {
    let mut read = Label::default();
    each(bytes, |number, value| {
        match number {
            1 => read.key = table.at(value)?,
            2 => read.text = table.at(value)?,
            3 => read.number = value.signed()?,
            4 => read.unit = table.at(value)?,
            _ => {}
        }
        Ok(())
    })?;
    Ok(read)
}

fn location_bytes(id: u64, location: &Location) -> Vec<u8> {
    let mut out = Message::default();
    out.number(1, id);
    out.number(2, location.mapping.map_or(0, |at| at as u64 + 1));
    out.number(3, location.address);
    for line in &location.lines {
        let mut inner = Message::default();
        inner.number(1, line.function as u64 + 1);
        inner.signed(2, line.line);
        inner.signed(3, line.column);
        out.bytes(4, &inner.0);
    }
    out.flag(5, location.folded);
    out.0
}

/// The table of texts while a profile is written.
#[derive(Default)]
struct Strings {
    places: HashMap<String, u64>,
    order: Vec<String>,
}

impl Strings {
    fn index(&mut self, text: &str) -> u64 {
        if let Some(&known) = self.places.get(text) {
            return known;
        }
        let new = self.order.len() as u64;
        self.order.push(text.to_owned());
        self.places.insert(text.to_owned(), new);
        new
    }

    fn value_type(&mut self, kind: &ValueType) -> Vec<u8> {
        let mut out = Message::default();
        out.number(1, self.index(&kind.kind));
        out.number(2, self.index(&kind.unit));
        out.0
    }

    fn sample(&mut self, sample: &Sample) -> Vec<u8> {
        let mut out = Message::default();
        out.numbers(1, sample.stack.iter().map(|&at| id(at)));
        out.numbers(2, sample.values.iter().map(|value| value.cast_unsigned()));
        for label in &sample.labels {
            let mut inner = Message::default();
            inner.number(1, self.index(&label.key));
            inner.number(2, self.index(&label.text));
            inner.signed(3, label.number);
            inner.number(4, self.index(&label.unit));
            out.bytes(3, &inner.0);
        }
        out.0
    }

    fn mapping(&mut self, id: u64, mapping: &Mapping) -> Vec<u8> {
        let mut out = Message::default();
        out.number(1, id);
        out.number(2, mapping.start);
        out.number(3, mapping.limit);
        out.number(4, mapping.offset);
        out.number(5, self.index(&mapping.file));
        out.number(6, self.index(&mapping.build_id));
        for (field, has) in (7..).zip(mapping.has) {
            out.flag(field, has);
        }
        out.0
    }

    fn function(&mut self, id: u64, function: &Function) -> Vec<u8> {
        let mut out = Message::default();
        out.number(1, id);
        out.number(2, self.index(&function.name));
        out.number(3, self.index(&function.system_name));
        out.number(4, self.index(&function.file));
        out.signed(5, function.start_line);
        out.0
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A CPU profile of stacks, each written outermost first as `main.main:3>main.f:7`, where every function begins in line 1.
    pub(crate) fn cpu(stacks: &[(&str, i64)]) -> Profile {
        of_kind("cpu", "nanoseconds", stacks)
    }

    pub(crate) fn of_kind(kind: &str, unit: &str, stacks: &[(&str, i64)]) -> Profile {
        let mut profile = Profile {
            sample_types: vec![ValueType { kind: kind.into(), unit: unit.into() }],
            period_type: ValueType { kind: kind.into(), unit: unit.into() },
            period: 10_000_000,
            time_ns: 1_700_000_000_000_000_000,
            duration_ns: 1_000_000_000,
            ..Profile::default()
        };
        for (stack, value) in stacks {
            let frames: Vec<usize> = stack.rsplit('>').map(|frame| place(&mut profile, frame)).collect();
            profile.samples.push(Sample { stack: frames, values: vec![*value], labels: vec![] });
        }
        profile
    }

    fn place(profile: &mut Profile, frame: &str) -> usize {
        let (name, line) = frame.rsplit_once(':').unwrap();
        let function = Function {
            name: name.into(),
            system_name: name.into(),
            file: format!("/src/{name}.go"),
            start_line: 1,
        };
        let at = profile.functions.iter().position(|found| *found == function).unwrap_or_else(|| {
            profile.functions.push(function);
            profile.functions.len() - 1
        });
        let line = Line { function: at, line: line.parse().unwrap(), column: 0 };
        let location = Location { lines: vec![line], ..Location::default() };
        profile.locations.iter().position(|found| *found == location).unwrap_or_else(|| {
            profile.locations.push(location);
            profile.locations.len() - 1
        })
    }

    pub(crate) fn small() -> Profile {
        let mut profile = cpu(&[("main.main:3>main.f:7", 30), ("main.main:4>runtime.g:9", -2)]);
        profile.mappings.push(Mapping {
            start: 0x40_0000,
            limit: 0x50_0000,
            offset: 4096,
            file: "/bin/x".into(),
            build_id: "ab".into(),
            has: [true, false, true, false],
        });
        profile.locations[0].mapping = Some(0);
        profile.locations[0].address = 0x40_1234;
        profile.locations[1].folded = true;
        profile.samples[0].labels.push(Label { key: "k".into(), text: "v".into(), ..Label::default() });
        profile.samples[1].labels.push(Label {
            key: "b".into(),
            number: -7,
            unit: "bytes".into(),
            ..Label::default()
        });
        profile.comments = vec!["one".into(), "two".into()];
        profile.default_kind = "cpu".into();
        profile.drop_frames = "d".into();
        profile.keep_frames = "k".into();
        profile.doc_url = "https://example.com".into();
        profile
    }

    #[test]
    fn a_profile_survives_writing_and_reading() {
        let profile = small();
        let bytes = profile.to_bytes();
        assert_eq!(Profile::parse(&bytes).unwrap(), profile);
        assert_eq!(Profile::parse(&profile.to_plain()).unwrap(), profile, "not packed");
        assert_eq!(profile.to_bytes(), bytes, "the same bytes again");
        assert_eq!(profile.total(0), 28);
    }

    #[test]
    fn what_is_no_profile_is_refused_in_words() {
        let check = |bytes: &[u8], reason: &str| {
            let error = Profile::parse(bytes).unwrap_err();
            assert!(error.contains(reason), "{error}");
        };
        check(b"", "empty (0 bytes)");
        check(b"<html>not found</html>", "wire type");
        let whole = small().to_bytes();
        check(&whole[..whole.len() / 2], "broken or cut off");
        let plain = small().to_plain();
        check(&plain[..plain.len() - 2], "cut off");
        let mut broken = small();
        broken.samples[0].values.push(1);
        check(&broken.to_bytes(), "a sample has 2 values, but the profile has 1 value types");
        let mut broken = small();
        broken.samples[0].stack.push(99);
        check(&broken.to_bytes(), "there is no location 100");
        let mut broken = small();
        broken.locations[0].lines[0].function = 7;
        check(&broken.to_bytes(), "there is no function 8");
        check(&Profile::default().to_bytes(), "none of its values has a type");
    }

    #[test]
    fn a_bomb_is_not_unpacked() {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), Compression::best());
        let block = vec![0_u8; 1 << 20];
        for _ in 0..=(MOST_BYTES >> 20) {
            packer.write_all(&block).unwrap();
        }
        let error = Profile::parse(&packer.finish().unwrap()).unwrap_err();
        assert!(error.contains("decompresses to more than"), "{error}");
    }

    /// Nothing of it is large, and all of it together would be.
    #[test]
    fn a_small_file_does_not_become_a_large_profile() {
        let long = 100_000;
        let mut named = cpu(&[]);
        named.functions = vec![Function { name: "a".repeat(long), ..Function::default() }; 100];
        let mut labelled = cpu(&[("main.main:1", 1)]);
        labelled.samples[0].labels = vec![Label { key: "a".repeat(long), ..Label::default() }; 100];
        let mut commented = cpu(&[]);
        commented.comments = vec!["a".repeat(long); 100];
        for crafted in [&named, &labelled, &commented] {
            let bytes = crafted.to_plain();
            assert!(bytes.len() < long + 10_000, "{}", bytes.len());
            let error = Profile::parse_plain(&bytes, 1 << 20).unwrap_err();
            assert!(error.contains("would take more than 1048576 bytes of memory"), "{error}");
            assert_eq!(Profile::parse_plain(&bytes, 100 << 20).as_ref(), Ok(crafted), "no more than that");
        }
        // Fields without contents (labels, types of values, texts), and numbers of a byte.
        let field = |number: u64, inner: &[u8]| {
            let mut out = Message::default();
            out.bytes(number, inner);
            out.0
        };
        let labels = field(2, &field(3, b"").repeat(20_000));
        let stack = field(2, &field(1, &[1; 100_000]));
        let head = cpu(&[("main.main:1", 1)]).to_plain();
        for (number, many) in
            [(2, labels), (1, field(1, b"").repeat(20_000)), (6, field(6, b"").repeat(50_000)), (0, stack)]
        {
            let bytes = [&head[..], &many].concat();
            let error = Profile::parse_plain(&bytes, 700_000).unwrap_err();
            assert!(error.contains("would take more than"), "{number}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>) {
            let _ = Profile::parse(&bytes);
        }

        #[test]
        fn a_changed_profile_is_refused_or_stays_sound(changes in prop::collection::vec((0..10_000_usize, any::<u8>()), 1..6)) {
            let mut bytes = small().to_plain();
            for (at, byte) in changes {
                let at = at % bytes.len();
                bytes[at] = byte;
            }
            if let Ok(profile) = Profile::parse(&bytes) {
                let again = Profile::parse(&profile.to_bytes()).unwrap();
                prop_assert_eq!(&again, &profile);
                for sample in &profile.samples {
                    for frame in profile.frames(sample) {
                        prop_assert!(frame.function < profile.functions.len());
                    }
                }
            }
        }
    }
}
