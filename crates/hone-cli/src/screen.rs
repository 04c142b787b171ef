//! What stdout can show: its width, colours and letters.

use hone_report::{Detail, Screen};

/// Columns of text that goes to a file or a pipe.
const COLUMNS_OF_A_PIPE: usize = 80;
/// A wider terminal gets no wider text.
const MOST_COLUMNS: usize = 120;

/// The screen behind stdout. A pipe gets 80 columns and no colour; `NO_COLOR` switches colours off.
pub fn of_stdout(detail: Detail) -> Screen {
    let stdout = console::Term::stdout();
    let columns = match stdout.size_checked() {
        Some((_, columns)) if stdout.is_term() => usize::from(columns).clamp(40, MOST_COLUMNS),
        _ => COLUMNS_OF_A_PIPE,
    };
    Screen { detail, columns, has_colours: stdout.is_term() && console::colors_enabled() }
}

/// The text as stdout can show it. A terminal without Unicode gets ASCII. A pipe or a file keeps the text.
pub fn fitting(text: String) -> String {
    let is_plain =
        console::Term::stdout().is_term() && !supports_unicode::on(supports_unicode::Stream::Stdout);
    if is_plain { ascii(&text) } else { text }
}

/// The same for stderr.
pub fn fitting_stderr(text: String) -> String {
    let is_plain =
        console::Term::stderr().is_term() && !supports_unicode::on(supports_unicode::Stream::Stderr);
    if is_plain { ascii(&text) } else { text }
}

/// The text with ASCII in place of signs, letters and drawings that Hone itself writes.
fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '−' | '–' | '‑' | '─' | '—' => out.push('-'),
            '×' => out.push('x'),
            '→' => out.push_str("->"),
            '←' => out.push_str("<-"),
            '…' => out.push_str("..."),
            '“' | '”' | '„' => out.push('"'),
            '‘' | '’' => out.push('\''),
            '≥' => out.push_str(">="),
            '≤' => out.push_str("<="),
            '±' => out.push_str("+/-"),
            'µ' | 'μ' => out.push('u'),
            '·' => out.push('|'),
            '├' | '┤' => out.push('|'),
            '●' => out.push('o'),
            '┊' => out.push(':'),
            '█' | '▇' | '▆' | '▅' => out.push('#'),
            '▄' | '▃' => out.push('='),
            '▂' | '▁' => out.push('_'),
            '░' => out.push('.'),
            '\u{a0}' => out.push(' '),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hone_writes_has_a_form_in_ascii() {
        let shown = ascii("CPU per record −11.5 % [−13.4, −9.7] %  ├─●─┤  ┊ ±2 µs × 3 → “x”…");
        assert_eq!(shown, "CPU per record -11.5 % [-13.4, -9.7] %  |-o-|  : +/-2 us x 3 -> \"x\"...");
        assert!(shown.is_ascii());
        assert_eq!(ascii("█░ ▁▂▃▄▅▆▇"), "#. __==###");
        // A name of the user stays as it is.
        assert_eq!(ascii("日本"), "日本");
    }
}
