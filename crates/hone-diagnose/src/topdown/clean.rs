//! Removes what terminals and mails add to a text, before any reader sees it. Lines keep their numbers.

use std::borrow::Cow;

use super::pattern::{Pattern, pattern};

/// Colours and other escape sequences: `ESC [ 31 m`, also with the escape as `cat -v` prints it.
static SEQUENCES: Pattern = Pattern::new(|| pattern(r"(?:\x1b|\^\[)\[[0-9;:?]*[ -/]*[@-~]"));

/// Prefixes of quoted lines: `> >> `.
static QUOTES: Pattern = Pattern::new(|| pattern(r"(?m)^[ \t]*>(?:[ \t]?>)*"));

/// A mail's header where `=` encodes a byte, and ends a line that continues.
static QUOTED_PRINTABLE: Pattern =
    Pattern::new(|| pattern(r"(?im)^content-transfer-encoding:[ \t]*quoted-printable"));

/// A line that continues in the next one, with the length that mails use.
static GOES_ON: Pattern = Pattern::new(|| pattern(r"(?m)^.{71,74}[^=]=\r?$"));

/// The steps, in order. Each works on the result of the one before.
const STEPS: [fn(&str) -> Cow<'_, str>; 4] =
    [narrowed, joined, |text| SEQUENCES.replace_all(text, ""), |text| QUOTES.replace_all(text, "")];

/// The text as the tool printed it.
pub(super) fn clean(text: &str) -> Cow<'_, str> {
    STEPS.into_iter().fold(Cow::Borrowed(text), |text, step| match step(&text) {
        Cow::Owned(cleaned) => Cow::Owned(cleaned),
        Cow::Borrowed(part) if part.len() == text.len() => text,
        Cow::Borrowed(part) => Cow::Owned(part.to_owned()),
    })
}

/// Removes the byte order mark. In UTF-16 that was read as UTF-8, each English letter has a zero byte after or before it.
fn narrowed(text: &str) -> Cow<'_, str> {
    let zeros = text.bytes().filter(|byte| *byte == 0).count();
    if 3 * zeros > text.chars().count() {
        return Cow::Owned(text.chars().filter(|sign| !matches!(sign, '\0' | '\u{fffd}')).collect());
    }
    Cow::Borrowed(text.trim_start_matches('\u{feff}'))
}

/// Decodes quoted-printable, in mails and in parts of them. Empty lines replace the joined ones.
fn joined(text: &str) -> Cow<'_, str> {
    let is_mail = QUOTED_PRINTABLE.is_match(text);
    if !is_mail && GOES_ON.find_iter(text).take(2).count() < 2 {
        return Cow::Borrowed(text);
    }
    let (mut out, mut pending) = (Vec::with_capacity(text.len()), 0);
    for line in text.lines() {
        let (part, goes_on) = line.strip_suffix('=').map_or((line, false), |part| (part, true));
        if is_mail {
            decode(part, &mut out)
        } else {
            out.extend_from_slice(part.as_bytes())
        }
        pending += 1;
        if !goes_on {
            out.extend(std::iter::repeat_n(b'\n', std::mem::take(&mut pending)));
        }
    }
    Cow::Owned(String::from_utf8_lossy(&out).into_owned())
}

/// `=E2` is a byte.
fn decode(part: &str, out: &mut Vec<u8>) {
    let mut pieces = part.split('=');
    out.extend_from_slice(pieces.next().unwrap_or_default().as_bytes());
    for piece in pieces {
        let byte = piece.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match byte {
            Some(byte) => {
                out.push(byte);
                out.extend_from_slice(&piece.as_bytes()[2..]);
            }
            None => {
                out.push(b'=');
                out.extend_from_slice(piece.as_bytes());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_and_quotes_go_and_lines_stay() {
        assert_eq!(clean("#  \u{1b}[31m 32.5\u{1b}[m %\n\u{1b}[0;1m2\u{1b}[K\n"), "#   32.5 %\n2\n");
        assert_eq!(clean("^[[31m26.0%^[[m"), "26.0%");
        assert_eq!(clean("> > 1\n>>\n>> 2\n a > b\n"), " 1\n\n 2\n a > b\n");
        assert!(matches!(clean("plain # 1.0 %"), Cow::Borrowed(_)));
    }

    #[test]
    fn lines_of_mails_are_joined_and_keep_their_numbers() {
        let mail =
            "Content-Transfer-Encoding: quoted-printable\n\nat 10:22=E2=80=AFPM =\nwrote =3D a=b\nend\n";
        let head = "Content-Transfer-Encoding: quoted-printable\n\n";
        assert_eq!(clean(mail), format!("{head}at 10:22\u{202f}PM wrote = a=b\n\nend\n"));
        // Without the header, two lines that mails broke identify the encoding.
        let (long, short) = ("x".repeat(75), "y".repeat(30));
        let part = format!("{long}=\n{short}\n{long}=\n=3D\n");
        assert_eq!(clean(&part), format!("{long}{short}\n\n{long}=3D\n\n"));
        let rule = format!("{}\n{short}=\n{long}=\n", "=".repeat(76));
        assert_eq!(clean(&rule), rule);
    }

    #[test]
    fn wide_characters_are_narrowed() {
        let wide = |order: fn(u16) -> [u8; 2]| -> Vec<u8> {
            "\u{feff}51.0 %\n".encode_utf16().flat_map(order).collect()
        };
        for bytes in [wide(u16::to_le_bytes), wide(u16::to_be_bytes)] {
            assert_eq!(clean(&String::from_utf8_lossy(&bytes)), "51.0 %\n");
        }
        assert_eq!(clean("\u{feff}{"), "{");
    }
}
