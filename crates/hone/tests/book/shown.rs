//! Whether a command printed what a page shows. Words have to be the same; what changes from run to run has a form:
//!
//! | on the page | stands for |
//! |---|---|
//! | a number of three digits and more, with a decimal point, or with a unit, `%` or a sign | any number, with any unit of that kind |
//! | a shorter whole number | itself |
//! | `N` | any whole number |
//! | a date, a time of day | any |
//! | eight to 64 hexadecimal digits | as many |
//! | `/an/absolute/path` | an absolute path with the same last part |
//! | `user@host` | any |
//! | `...` | lines that are left out, up to the next one that is shown |
//!
//! How lines are broken does not count: that follows the width of the terminal and of the numbers.

/// Fails, with what was shown and what came, unless the text has the form of what is shown.
#[track_caller]
pub fn expect(what: &str, shown: &str, came: &str) {
    if let Err(why) = compare(shown, came) {
        panic!("{what}: {why}\n--- shown:\n{shown}\n--- came:\n{came}");
    }
}

/// A word, and whether a line begins with it.
#[derive(Debug, Clone, Copy)]
struct Word<'a> {
    text: &'a str,
    begins: bool,
}

fn words(text: &str) -> Vec<Word<'_>> {
    let of_line = |line: &'_ str| {
        let words = line.split_whitespace().enumerate();
        words.map(|(place, _)| place == 0).collect::<Vec<bool>>()
    };
    text.lines()
        .flat_map(|line| {
            line.split_whitespace().zip(of_line(line)).map(|(text, begins)| Word { text, begins })
        })
        .collect()
}

/// Where the text differs from what is shown, if it does.
pub fn compare(shown: &str, came: &str) -> Result<(), String> {
    let (shown, came) = (words(shown), words(came));
    let parts: Vec<&[Word]> = shown.split(|word| word.text == "..." && word.begins).collect();
    let mut at = 0;
    for (number, part) in parts.iter().enumerate() {
        let (is_first, is_last) = (number == 0, number + 1 == parts.len());
        let fits = |start: &usize| stretch(part, &came[*start..]).is_ok();
        let start = match (part.is_empty(), is_first, is_last) {
            (true, _, _) => at,
            (_, true, _) => at,
            // What stands behind the last `...` is the end.
            (_, false, true) => came.len().saturating_sub(part.len()).max(at),
            _ => {
                let mut starts = (at..came.len()).filter(|start| came[*start].begins);
                starts.find(fits).ok_or_else(|| format!("`{}` is nowhere behind it", line(part)))?
            }
        };
        stretch(part, &came[start..])?;
        at = start + part.len();
        if part.is_empty() && is_last && !is_first {
            at = came.len();
        }
    }
    match came.get(at) {
        Some(more) => Err(format!("`{}` and more came behind what is shown", more.text)),
        None => Ok(()),
    }
}

/// The beginning of a part, to name it by.
fn line(part: &[Word]) -> String {
    let first = part.iter().enumerate().take_while(|(place, word)| *place == 0 || !word.begins);
    first.map(|(_, word)| word.text).collect::<Vec<_>>().join(" ")
}

fn stretch(shown: &[Word], came: &[Word]) -> Result<(), String> {
    for (place, word) in shown.iter().enumerate() {
        let text = came.get(place).ok_or_else(|| format!("it ends before `{}`", word.text))?.text;
        let unit = shown.get(place + 1).and_then(|next| kind_of_unit(next.text)).is_some();
        let is_behind_a_number = place > 0 && shown[place - 1].text.contains(|c: char| c.is_ascii_digit());
        let fits = is_alike(word.text, text, unit)
            || is_behind_a_number
                && kind_of_unit(word.text).is_some_and(|kind| Some(kind) == kind_of_unit(text));
        if !fits {
            let before: Vec<&str> =
                shown[place.saturating_sub(4)..place].iter().map(|word| word.text).collect();
            return Err(format!("`{text}` came in place of `{}`, behind `{}`", word.text, before.join(" ")));
        }
    }
    Ok(())
}

const UNITS: [&[&str]; 5] = [
    &["ns", "µs", "ms", "s", "minutes", "hours"],
    &["B", "KiB", "MiB", "GiB", "bytes"],
    &["B/s", "KiB/s", "MiB/s", "GiB/s"],
    &["µs/record", "ms/record", "ns/record"],
    &["µs/request", "ms/request", "ns/request"],
];

/// What a unit measures; marks behind it do not count.
fn kind_of_unit(word: &str) -> Option<usize> {
    let unit = word.trim_end_matches([',', '.', ';', ':', ')', ']']);
    if unit == "%" {
        return Some(UNITS.len());
    }
    UNITS.iter().position(|units| units.contains(&unit))
}

/// Whether a word has the form of one that is shown; `measured` says that a unit stands behind it.
fn is_alike(shown: &str, came: &str, measured: bool) -> bool {
    if shown == came {
        return true;
    }
    if let Some(last) = shown.strip_prefix('/').and_then(|path| path.rsplit('/').next()) {
        return came.starts_with('/') && came.rsplit('/').next() == Some(last);
    }
    if let Some((user, host)) = shown.split_once('@') {
        return !user.is_empty() && !host.is_empty() && came.split('@').count() == 2;
    }
    pieces(shown, measured) == pieces(came, true) || pieces(shown, measured) == pieces(came, false)
}

/// A word as its form: runs that may be anything, and the rest.
#[derive(Debug, PartialEq)]
enum Piece {
    Any,
    Hex(usize),
    Text(String),
}

fn pieces(word: &str, measured: bool) -> Vec<Piece> {
    let core = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
    let is_hex = (8..=64).contains(&core.len())
        && core.chars().all(|c| c.is_ascii_digit() || ('a'..='f').contains(&c))
        && core.contains(|c: char| c.is_ascii_digit())
        && core.contains(|c: char| c.is_ascii_lowercase());
    if is_hex {
        return vec![Piece::Hex(core.len()), Piece::Text(word.replace(core, ""))];
    }
    // A name with a number in it is a name.
    let is_name = core.contains(|c: char| c.is_alphabetic()) && !core.contains('=') && core != "N";
    if is_name {
        return vec![Piece::Text(word.to_owned())];
    }
    let mut found = Vec::new();
    let mut rest = word;
    while let Some(begin) = rest.find(|c: char| c.is_ascii_digit() || c == 'N') {
        let number: String =
            rest[begin..].chars().take_while(|c| c.is_ascii_digit() || ",.:N".contains(*c)).collect();
        let number = number.trim_end_matches([',', '.', ':']);
        let before = rest[..begin].trim_end_matches(['+', '-', '~', '−']);
        let has_sign = before.len() < begin;
        found.push(Piece::Text(before.to_owned()));
        let after = &rest[begin + number.len()..];
        let is_any = number == "N"
            || measured
            || has_sign
            || number.len() > 2
            || number.contains(['.', ','])
            || after.starts_with('%');
        found.push(if is_any { Piece::Any } else { Piece::Text(number.to_owned()) });
        rest = after;
    }
    found.push(Piece::Text(rest.to_owned()));
    found
}

#[cfg(test)]
mod tests {
    use super::compare;

    fn is_as_shown(shown: &str, came: &str) {
        compare(shown, came).unwrap_or_else(|why| panic!("{why}"));
    }

    fn differs(shown: &str, came: &str, why: &str) {
        let said = compare(shown, came).expect_err("they are told apart");
        assert!(said.contains(why), "{said}");
    }

    #[test]
    fn measured_numbers_vary_and_words_do_not() {
        is_as_shown("CPU  17.5 µs/record, 46 % user", "CPU 1.2 ms/record, 9 % user");
        is_as_shown("p50 1.100 better", "p50\n  0.9 better");
        is_as_shown("0.384 [0.3, 0.41], 95 %", "0.4 [-0.1, 1,234.5], 90 %");
        differs("p50 1.100 better", "p50 1.100 worse", "`worse` came in place of `better`");
        differs("p99 12 ms", "p90 12 ms", "`p90` came in place of `p99`");
        differs("takes 12 ms", "takes 12 KiB", "`KiB` came in place of `ms`");
        differs("takes 12.5 ms", "takes long ms", "`long`");
    }

    #[test]
    fn small_whole_numbers_are_themselves_unless_they_are_said_to_vary() {
        is_as_shown("pid=N of 7 pairs", "pid=31415 of 7 pairs");
        differs("7 pairs", "6 pairs", "`6` came in place of `7`");
        differs("N pairs", "no pairs", "`no`");
        differs("linger=50ms", "linger=60ms", "linger=60ms");
    }

    #[test]
    fn ids_dates_paths_and_people_vary() {
        is_as_shown(
            "2926-11-22 18:22 UTC 2923d236f987, by ada@here",
            "2026-01-02 03:04 UTC ffa0c3a41ca2, by root@vm",
        );
        is_as_shown("Page: /home/ada/runs/report.html", "Page: /tmp/x/report.html");
        differs("Page: /home/ada/report.html", "Page: /tmp/x/proof.md", "proof.md");
        differs("id 2923d236f987", "id 2923d2", "2923d2");
    }

    #[test]
    fn left_out_lines_end_where_the_next_line_is_found() {
        is_as_shown("one\n...\nfour\n...", "one\ntwo\nthree\nfour\nfive\nsix");
        is_as_shown("...\nsix", "one\ntwo\nsix");
        differs("one\n...\nnine\n...", "one\ntwo", "`nine` is nowhere");
        differs("one", "one\ntwo", "`two` and more came");
        differs("one\n...\ntwo", "one\ntwo\nthree", "came in place of");
        // In the middle of a line is not at its begin.
        differs("...\nthree\n...", "one two three", "`three` is nowhere");
    }
}
