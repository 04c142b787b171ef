//! The canonical text of a JSON value, independent of its writer, and its hash; pure.
//!
//! The text is that of RFC 8785 (JSON Canonicalization Scheme): members sorted by the UTF-16 units of their names, no spaces, and
//! numbers in the form of ECMAScript. Integers that exceed 64-bit floating point are written exactly; the RFC does not support
//! them.

use std::collections::BTreeSet;

use sha2::{Digest as _, Sha256};

/// A JSON value with its numbers as text: floating point would change some of them.
#[derive(Debug, Clone)]
pub(crate) enum Json<'a> {
    Object(Vec<(String, Json<'a>)>),
    Array(Vec<Json<'a>>),
    Text(String),
    Number(&'a str),
    /// `true`, `false`, `null`.
    Word(&'a str),
}

/// Why a text has no canonical form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NotOne {
    /// A member of an object occurs twice: one reader would use the first and another the second, and both would accept the hash.
    Twice(String),
    /// It is not well-formed.
    Malformed,
    /// It is nested more deeply than any entry.
    TooDeep,
}

/// Levels of arrays and objects; an entry has less than ten.
const MOST_LEVELS: u32 = 64;

/// Reads a text that a JSON parser has accepted, so it does not check that again. It does check the nesting, since a parser does
/// not parse members that it skips.
pub(crate) fn read(text: &str) -> Result<Json<'_>, NotOne> {
    let mut rest = text;
    value(&mut rest, MOST_LEVELS)
}

fn value<'a>(rest: &mut &'a str, levels: u32) -> Result<Json<'a>, NotOne> {
    let below = || levels.checked_sub(1).ok_or(NotOne::TooDeep);
    *rest = rest.trim_start();
    match rest.chars().next().ok_or(NotOne::Malformed)? {
        '{' => object(rest, below()?),
        '[' => {
            let (mut items, below) = (Vec::new(), below()?);
            separated(rest, ']', |rest| value(rest, below).map(|item| items.push(item)))?;
            Ok(Json::Array(items))
        }
        '"' => text(rest).map(Json::Text),
        first => {
            let is_of_it = |letter: char| letter.is_ascii_alphanumeric() || "+-.".contains(letter);
            let end = rest.find(|letter| !is_of_it(letter)).unwrap_or(rest.len());
            let token = take(rest, end)?;
            Ok(if first.is_ascii_alphabetic() { Json::Word(token) } else { Json::Number(token) })
        }
    }
}

fn object<'a>(rest: &mut &'a str, levels: u32) -> Result<Json<'a>, NotOne> {
    let (mut members, mut names) = (Vec::new(), BTreeSet::new());
    separated(rest, '}', |rest| {
        let name = text(rest)?;
        *rest = rest.trim_start().strip_prefix(':').ok_or(NotOne::Malformed)?;
        if !names.insert(name.clone()) {
            return Err(NotOne::Twice(name));
        }
        members.push((name, value(rest, levels)?));
        Ok(())
    })?;
    Ok(Json::Object(members))
}

/// The values between an opening and a closing bracket, separated by commas.
fn separated<'a>(
    rest: &mut &'a str,
    close: char,
    mut each: impl FnMut(&mut &'a str) -> Result<(), NotOne>,
) -> Result<(), NotOne> {
    take(rest, 1)?;
    loop {
        *rest = rest.trim_start();
        if let Some(behind) = rest.strip_prefix(close) {
            *rest = behind;
            return Ok(());
        }
        *rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
        each(rest)?;
    }
}

fn text(rest: &mut &str) -> Result<String, NotOne> {
    *rest = rest.trim_start();
    let mut is_escaped = false;
    let is_end = |(index, letter): &(usize, char)| {
        let is_end = *index > 0 && *letter == '"' && !is_escaped;
        is_escaped = *letter == '\\' && !is_escaped;
        is_end
    };
    let (end, _) = rest.char_indices().find(is_end).ok_or(NotOne::Malformed)?;
    serde_json::from_str(take(rest, end + 1)?).map_err(|_| NotOne::Malformed)
}

fn take<'a>(rest: &mut &'a str, length: usize) -> Result<&'a str, NotOne> {
    let (token, behind) = rest.split_at_checked(length).ok_or(NotOne::Malformed)?;
    *rest = behind;
    Ok(token)
}

/// SHA-256 of a value's canonical text, hex.
pub(crate) fn hash(value: &Json<'_>) -> String {
    let mut text = String::new();
    write(value, &mut text);
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Appends a value's canonical text.
fn write(value: &Json<'_>, to: &mut String) {
    match value {
        Json::Object(members) => {
            let mut sorted: Vec<&(String, Json<'_>)> = members.iter().collect();
            sorted.sort_by(|(one, _), (other, _)| one.encode_utf16().cmp(other.encode_utf16()));
            let each = |(name, value): &&(String, Json<'_>), to: &mut String| {
                write_text(name, to);
                to.push(':');
                write(value, to);
            };
            write_all('{', '}', &sorted, each, to);
        }
        Json::Array(items) => write_all('[', ']', items, |item, to| write(item, to), to),
        Json::Text(text) => write_text(text, to),
        Json::Number(token) => to.push_str(&number_text(token)),
        Json::Word(word) => to.push_str(word),
    }
}

fn write_all<T>(open: char, close: char, items: &[T], each: impl Fn(&T, &mut String), to: &mut String) {
    to.push(open);
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            to.push(',');
        }
        each(item, to);
    }
    to.push(close);
}

/// The escapes of the RFC: the short form where JSON has one, else four digits in lower case.
fn write_text(text: &str, to: &mut String) {
    to.push('"');
    for letter in text.chars() {
        match letter {
            '"' => to.push_str("\\\""),
            '\\' => to.push_str("\\\\"),
            '\u{8}' => to.push_str("\\b"),
            '\t' => to.push_str("\\t"),
            '\n' => to.push_str("\\n"),
            '\u{c}' => to.push_str("\\f"),
            '\r' => to.push_str("\\r"),
            low if low < ' ' => to.push_str(&format!("\\u{:04x}", u32::from(low))),
            other => to.push(other),
        }
    }
    to.push('"');
}

/// Integers are exact, however large. Other numbers are those of 64-bit floating point.
fn number_text(token: &str) -> String {
    let is_whole = token.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    match token.parse::<f64>() {
        _ if is_whole && token != "-0" => token.to_owned(),
        Ok(value) if value.is_finite() => float_text(value),
        _ => token.to_owned(),
    }
}

/// ECMAScript's Number::toString (ECMA-262, 6.1.6.1.20) in base 10, for a finite number.
fn float_text(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    // The shortest digits that parse to the same number; of two such numbers the even one. The standard
    // library uses the odd one.
    let shortest = serde_json::Value::from(value.abs()).to_string();
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let leading = all.len() - all.trim_start_matches('0').len();
    let digits = all.trim_matches('0');
    let length = digits.len() as i32;
    // Position of the point after the first digit.
    let place = exponent.parse::<i32>().unwrap_or_default() + whole.len() as i32 - leading as i32;
    let zeros = |count: i32| "0".repeat(usize::try_from(count).unwrap_or_default());
    let (before, behind) = digits.split_at(usize::try_from(place.clamp(1, length)).unwrap_or(1));
    let plain = match place {
        1..=21 if place >= length => format!("{digits}{}", zeros(place - length)),
        1..=21 => format!("{before}.{behind}"),
        -5..=0 => format!("0.{}{digits}", zeros(-place)),
        _ => {
            let (first, rest) = digits.split_at(1);
            let point = if rest.is_empty() { "" } else { "." };
            format!("{first}{point}{rest}e{:+}", place - 1)
        }
    };
    if value < 0.0 { format!("-{plain}") } else { plain }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canonical(text: &str) -> String {
        serde_json::from_str::<serde_json::Value>(text).unwrap();
        let mut to = String::new();
        write(&read(text).unwrap(), &mut to);
        to
    }

    /// RFC 8785, sections 3.2.2 to 3.2.4.
    #[test]
    fn the_example_of_the_rfc() {
        let given = r#"{
            "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
            "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
            "literals": [null, true, false]
        }"#;
        let wanted = "{\"literals\":[null,true,false],\"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\
                      \"string\":\"\u{20ac}$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}";
        assert_eq!(canonical(given), wanted);
        let sorted = canonical(
            r#"{"\u20ac": 1, "\r": 2, "\ufb33": 3, "1": 4, "\ud83d\ude00": 5, "\u0080": 6, "\u00f6": 7}"#,
        );
        let values: Vec<char> = sorted.chars().filter(|letter| ('2'..='7').contains(letter)).collect();
        assert_eq!(values, ['2', '4', '6', '7', '5', '3'], "{sorted}");
    }

    /// RFC 8785, appendix B.
    #[test]
    fn numbers_are_those_of_ecmascript() {
        for (bits, wanted) in [
            (0x0000_0000_0000_0000, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0xc340_0000_0000_0000, "-9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0x41b3_de43_5555_5554, "333333333.33333325"),
            (0x41b3_de43_5555_5555, "333333333.3333333"),
            (0x41b3_de43_5555_5556, "333333333.3333334"),
            (0x41b3_de43_5555_5557, "333333333.33333343"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
            (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        ] {
            assert_eq!(float_text(f64::from_bits(bits)), wanted, "{bits:x}");
        }
    }

    #[test]
    fn other_writers_of_the_same_value_change_nothing() {
        let one = r#"{"b":1.0,"a":["é",1e2,-0.0],"c":9007199254740993}"#;
        for other in [
            r#"{"a":["\u00e9",100,0],"b":1,"c":9007199254740993}"#,
            "{ \"c\" : 9007199254740993,\n\t\"a\": [\"é\", 100.0, 0.0], \"b\": 10e-1 }",
        ] {
            assert_eq!(canonical(one), canonical(other));
        }
        assert_ne!(canonical(one), canonical(&one.replace("0993", "0992")), "exact beyond 2^53");
    }

    /// A million brackets must not become a million stack frames.
    #[test]
    fn what_is_nested_without_end_is_refused() {
        for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
            let text = format!("{}1{}", open.repeat(1_000_000), close.repeat(1_000_000));
            assert_eq!(read(&text).unwrap_err(), NotOne::TooDeep);
        }
        assert!(read("[[[[[[[[[[1]]]]]]]]]]").is_ok());
    }

    #[test]
    fn a_member_that_stands_twice_is_refused() {
        for text in [r#"{"a":1,"a":1}"#, r#"[{"b":{"a":1,"\u0061":2}}]"#] {
            assert_eq!(read(text).unwrap_err(), NotOne::Twice("a".to_owned()));
        }
    }

    proptest! {
        #[test]
        fn numbers_read_back_as_themselves(bits in any::<u64>()) {
            let value = f64::from_bits(bits);
            prop_assume!(value.is_finite());
            prop_assert_eq!(float_text(value).parse::<f64>().unwrap(), value);
        }

        #[test]
        fn the_text_of_the_text_is_itself(text in "\\PC{0,20}", number in any::<f64>()) {
            prop_assume!(number.is_finite());
            let value = serde_json::json!({ text.clone(): [number, text, null], "": {} });
            let once = canonical(&value.to_string());
            prop_assert_eq!(canonical(&once), once);
        }
    }
}
