//! Prometheus's text format, as brokers serve it, read line by line.
//!
//! This is own code, because no crate of this workspace reads it, and because a page of a large cluster has hundreds of thousands of lines
//! of which a handful of families matter. The parser copies nothing, and reads labels only on demand. It reports an unreadable line and
//! skips it; the others of the page still count. It also accepts OpenMetrics, which is nearly the same: `# EOF`, `# UNIT`, exemplars.

use std::borrow::Cow;

use memchr::memchr2;

/// Length of a faulty line in a message.
const QUOTED_CHARACTERS: usize = 60;

/// The contents of a line.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Line<'a> {
    /// A value.
    Sample(Sample<'a>),
    /// The type of a family: `counter`, `gauge`, `histogram` ... in the page's own word. Only informative: brokers declare counters as
    /// gauges and vice versa.
    Kind {
        /// The family.
        name: &'a str,
        /// The word.
        kind: &'a str,
    },
}

/// A value of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample<'a> {
    /// The metric.
    pub name: &'a str,
    /// Its labels.
    pub labels: Labels<'a>,
    /// The value; may be NaN or infinite.
    pub value: f64,
    /// The time of the value as written: milliseconds since 1970 in Prometheus's format, seconds in OpenMetrics.
    pub written_at: Option<f64>,
}

/// Labels of a sample, as written between the braces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Labels<'a>(&'a str);

impl<'a> Labels<'a> {
    /// The text between the braces, which distinguishes series of a metric as long as the page writes labels in one order.
    pub fn text(self) -> &'a str {
        self.0
    }

    /// From a text of [`Labels::text`].
    pub(super) fn of_text(text: &'a str) -> Self {
        Self(text)
    }

    /// Names and values.
    pub fn iter(self) -> impl Iterator<Item = (&'a str, Cow<'a, str>)> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (label, behind) = next_label(rest).ok().flatten()?;
            rest = behind;
            Some((label.name, unescaped(label.value)))
        })
    }

    /// The value of a label.
    pub fn get(self, name: &str) -> Option<Cow<'a, str>> {
        self.iter().find_map(|(own, value)| (own == name).then_some(value))
    }
}

/// A line that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is not a sample: {reason}: {text}")]
pub struct Fault {
    /// Its number; the first line is 1.
    pub line: u64,
    /// The fault.
    pub reason: &'static str,
    /// Its beginning.
    pub text: String,
}

/// Reads a page. Comments, HELP and blank lines are left out.
pub fn read(page: &str) -> impl Iterator<Item = Result<Line<'_>, Fault>> {
    page.split('\n').zip(1_u64..).filter_map(|(text, line)| {
        let text = text.trim_matches([' ', '\t', '\r']);
        let found = match text.strip_prefix('#') {
            _ if text.is_empty() => return None,
            Some(comment) => return kind(comment).map(Ok),
            None => sample(text),
        };
        Some(found.map(Line::Sample).map_err(|reason| fault(line, reason, text)))
    })
}

/// Like [`read`], but only samples of metrics that `wants` names; the rest of other lines is not parsed.
pub fn read_only(
    page: &str,
    mut wants: impl FnMut(&str) -> bool,
) -> impl Iterator<Item = Result<Sample<'_>, Fault>> {
    page.split('\n').zip(1_u64..).filter_map(move |(text, line)| {
        if text.starts_with('#') {
            return None;
        }
        let text = text.trim_matches([' ', '\t', '\r']);
        let name = text.get(..name_end(text, true)).unwrap_or_default();
        wants(name).then(|| sample(text).map_err(|reason| fault(line, reason, text)))
    })
}

/// The names of a page's metrics, as samples have them; a name in several places appears again.
pub fn names(page: &str) -> impl Iterator<Item = &str> {
    let mut last = "";
    page.split('\n').filter_map(move |text| {
        let text = text.trim_start_matches([' ', '\t']);
        let name = text.get(..name_end(text, true)).unwrap_or_default();
        let is_new = !name.is_empty() && name != last;
        last = name;
        is_new.then_some(name)
    })
}

fn fault(line: u64, reason: &'static str, text: &str) -> Fault {
    Fault { line, reason, text: text.chars().take(QUOTED_CHARACTERS).collect() }
}

fn kind(comment: &str) -> Option<Line<'_>> {
    let (name, kind) = comment.trim_start().strip_prefix("TYPE ")?.trim_start().split_once([' ', '\t'])?;
    Some(Line::Kind { name, kind: kind.trim() })
}

fn sample(text: &str) -> Result<Sample<'_>, &'static str> {
    let end = name_end(text, true);
    let (name, rest) = text.split_at(end);
    if name.is_empty() {
        return Err("it does not begin with a name");
    }
    let rest = rest.trim_start_matches(BLANKS);
    let (labels, rest) = match rest.strip_prefix('{') {
        Some(inner) => labels(inner)?,
        None if rest.len() + end < text.len() => (Labels(""), rest),
        None => return Err("no blank follows the name"),
    };
    let (value, written_at) = numbers(rest)?;
    Ok(Sample { name, labels, value, written_at })
}

const BLANKS: [char; 2] = [' ', '\t'];

/// The end of a name; names of metrics may contain colons.
fn name_end(text: &str, is_metric: bool) -> usize {
    let belongs = |(at, byte): (usize, u8)| {
        byte.is_ascii_alphabetic()
            || byte == b'_'
            || (is_metric && byte == b':')
            || (at > 0 && byte.is_ascii_digit())
    };
    text.bytes().enumerate().position(|both| !belongs(both)).unwrap_or(text.len())
}

/// The value, and a time. An exemplar may follow.
fn numbers(rest: &str) -> Result<(f64, Option<f64>), &'static str> {
    let mut words = rest.split(BLANKS).filter(|word| !word.is_empty());
    let value = words.next().ok_or("it has no value")?;
    let value = value.parse().map_err(|_| "its value is not a number")?;
    let written_at = match words.next() {
        None | Some("#") => return Ok((value, None)),
        Some(word) => word.parse().map_err(|_| "its time is not a number")?,
    };
    match words.next() {
        None | Some("#") => Ok((value, Some(written_at))),
        Some(_) => Err("more text follows its time"),
    }
}

struct Label<'a> {
    name: &'a str,
    /// Still escaped.
    value: &'a str,
}

/// Up to the closing brace, and the rest.
fn labels(inner: &str) -> Result<(Labels<'_>, &str), &'static str> {
    let mut rest = inner;
    while let Some((_, behind)) = next_label(rest)? {
        rest = behind;
    }
    let at_brace = rest.trim_start_matches(BLANKS);
    let behind = at_brace.strip_prefix('}').ok_or("its labels do not end")?;
    let text = inner.get(..inner.len() - at_brace.len()).unwrap_or_default();
    Ok((Labels(text), behind))
}

/// The first label and the rest; `None` at the end, or before the brace.
fn next_label(text: &str) -> Result<Option<(Label<'_>, &str)>, &'static str> {
    let text = text.trim_start_matches(BLANKS);
    if text.is_empty() || text.starts_with('}') {
        return Ok(None);
    }
    let (name, rest) = text.split_at(name_end(text, false));
    if name.is_empty() {
        return Err("a label has no name");
    }
    let rest = rest.trim_start_matches(BLANKS).strip_prefix('=').ok_or("a label has no value")?;
    let rest = rest.trim_start_matches(BLANKS).strip_prefix('"').ok_or("a label's value has no quotes")?;
    let end = value_end(rest).ok_or("a label's value does not end")?;
    let (value, rest) = rest.split_at(end);
    let rest = rest.get(1..).unwrap_or_default().trim_start_matches(BLANKS);
    let behind = match rest.strip_prefix(',') {
        Some(behind) => behind,
        None if rest.is_empty() || rest.starts_with('}') => rest,
        None => return Err("no comma follows a label"),
    };
    Ok(Some((Label { name, value }, behind)))
}

/// The position of a value's closing quote.
fn value_end(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    loop {
        at += memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes.get(at) == Some(&b'"') {
            return Some(at);
        }
        // A backslash, and the escaped character.
        at += 2;
    }
}

fn unescaped(value: &str) -> Cow<'_, str> {
    if !value.contains('\\') {
        return Cow::Borrowed(value);
    }
    let mut out = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        match (character, character == '\\') {
            (_, true) => match characters.next() {
                Some('n') => out.push('\n'),
                Some(escaped @ ('\\' | '"')) => out.push(escaped),
                // Prometheus keeps unknown escapes unchanged.
                Some(other) => out.extend(['\\', other]),
                None => out.push('\\'),
            },
            (plain, false) => out.push(plain),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn samples(page: &str) -> Vec<Sample<'_>> {
        let lines = read(page).map(|line| line.unwrap_or_else(|fault| panic!("{fault}")));
        lines
            .filter_map(|line| match line {
                Line::Sample(sample) => Some(sample),
                Line::Kind { .. } => None,
            })
            .collect()
    }

    #[test]
    fn pages_of_every_dialect_are_read() {
        let page = "# HELP a Words, \"quoted\" and \\n.\n# TYPE a counter\na 1\n\
            a{x=\"1\"} 2.5e3 1700000000000\r\n  b:c_total { x = \"1\" , y=\"\", } +Inf\n\n#\n# a comment\n\
            d_bucket{le=\"+Inf\"} 7 # {trace_id=\"x\"} 0.5 1.2\ne{z=\"a\\\"b\\\\c\\nd\\q}, \"}\tNaN\t-1.5\n# UNIT a s\n# EOF\n";
        let samples = samples(page);
        let values: Vec<f64> = samples.iter().map(|sample| sample.value).collect();
        assert_eq!(values[..4], [1.0, 2_500.0, f64::INFINITY, 7.0]);
        assert!(values[4].is_nan() && values.len() == 5);
        assert_eq!(samples[1].written_at, Some(1.7e12));
        assert_eq!(samples[4].written_at, Some(-1.5));
        assert_eq!(samples[2].name, "b:c_total");
        assert_eq!(samples[2].labels.get("y").as_deref(), Some(""));
        assert_eq!(samples[2].labels.get("z"), None);
        assert_eq!(samples[3].labels.text(), "le=\"+Inf\"");
        assert_eq!(samples[4].labels.get("z").unwrap(), "a\"b\\c\nd\\q}, ");
        assert_eq!(
            read(page).find_map(|line| match line {
                Ok(Line::Kind { name, kind }) => Some((name, kind)),
                _ => None,
            }),
            Some(("a", "counter"))
        );
    }

    #[test]
    fn a_broken_line_is_told_and_the_others_count() {
        for (line, reason) in [
            ("1a 2", "does not begin with a name"),
            ("{x=\"1\"} 2", "does not begin with a name"),
            ("a", "no blank"),
            ("a{x=\"1\"}", "no value"),
            ("a{x=\"1\" 2", "no comma"),
            ("a{x=\"1\"", "do not end"),
            ("a{x=\"1} 2", "value does not end"),
            ("a{x=\"1\\\"} 2", "value does not end"),
            ("a{x=1} 2", "no quotes"),
            ("a{x} 2", "a label has no value"),
            ("a{=\"1\"} 2", "a label has no name"),
            ("a two", "value is not a number"),
            ("a 2 now", "time is not a number"),
            ("a 2 3 4", "more text follows"),
            ("a{é=\"1\"} 2", "a label has no name"),
        ] {
            let page = format!("ok 1\n{line}\nok 2\n");
            let read: Vec<_> = read(&page).collect();
            assert!(read.len() == 3 && read[0].is_ok() && read[2].is_ok(), "{line}: {read:?}");
            let fault = read[1].as_ref().unwrap_err();
            assert_eq!(fault.line, 2);
            assert!(fault.to_string().contains(reason), "{line}: {fault}");
        }
    }

    #[test]
    fn only_what_is_asked_for_is_looked_at() {
        let page = "# TYPE a counter\na{x=\"1\"} 1\na{x=\"2\"} 2\nbroken{\nb 3\na 4\n";
        assert_eq!(names(page).collect::<Vec<_>>(), ["a", "broken", "b", "a"]);
        let read: Vec<_> = read_only(page, |name| name == "a").map(|sample| sample.unwrap().value).collect();
        assert_eq!(read, [1.0, 2.0, 4.0]);
        assert_eq!(read_only(page, |name| name == "broken").filter(Result::is_err).count(), 1);
    }

    fn escaped(value: &str) -> String {
        value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            name in "[a-zA-Z_:][a-zA-Z0-9_:]{0,20}",
            labels in proptest::collection::vec(("[a-zA-Z_][a-zA-Z0-9_]{0,8}", any::<String>()), 0..5),
            value: f64,
            time in proptest::option::of(any::<i32>()),
        ) {
            // A carriage return ends no line and needs no escape, but one line is what is tested.
            let inner: Vec<String> =
                labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            let time_text = time.map(|time| format!(" {time}")).unwrap_or_default();
            let page = format!("{name}{{{}}} {value}{time_text}\n", inner.join(","));
            let found = samples(&page);
            prop_assert_eq!(found.len(), 1);
            prop_assert_eq!(found[0].name, &name);
            prop_assert!(found[0].value.to_bits() == value.to_bits() || found[0].value.is_nan() && value.is_nan());
            prop_assert_eq!(found[0].written_at, time.map(f64::from));
            let back: Vec<(String, String)> =
                found[0].labels.iter().map(|(name, value)| (name.to_owned(), value.into_owned())).collect();
            prop_assert_eq!(back, labels);
        }

        #[test]
        fn no_page_makes_it_panic(text in "([a-z_:0-9]{0,3}|[{}=\",\\\\# \t\r\n]|NaN|Inf|é){0,40}", any: String) {
            for page in [text, any] {
                for line in read(&page).flatten() {
                    if let Line::Sample(sample) = line {
                        prop_assert!(sample.labels.iter().count() <= page.len());
                    }
                }
            }
        }
    }
}
