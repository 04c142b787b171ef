//! `perf stat --topdown`, and `--metric-only` in general: a line of names, and values below them.
//!
//! perf pads names and values to columns of one width and aligns both to the right, so a value belongs to the name that ends at the same
//! column. Old perfs pad differently. If each name has its value, the values are taken in order.

use hone_record::Category;

use super::category::category;

/// Tolerance in characters between the ends of a value and its name: a `%` after it, a space.
const BESIDE: usize = 2;

/// Words in a line of names that are not metrics: units, and the names of the leading columns.
const NO_METRICS: [&str; 19] = [
    "percent", "of", "slots", "ops", "time", "counts", "cpus", "cpu", "core", "die", "socket", "node",
    "cluster", "cache", "thread", "comm-pid", "comm", "cgroup", "ctrs",
];

/// Contents of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Column {
    /// Position after its last character, counted in characters.
    end: usize,
    /// `None` is another metric.
    category: Option<Category>,
    /// Number of columns of the same category before it: machines with two kinds of cores have one for each.
    pub(super) repeat: usize,
}

/// A word with the position after its last character.
#[derive(Debug, Clone, Copy)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    begin: usize,
    end: usize,
}

/// The words of a line; `<not counted>` is one word.
pub(super) fn line_words(line: &str) -> Vec<Word<'_>> {
    let mut words: Vec<Word<'_>> = Vec::new();
    let (mut begin, mut open) = (None, false);
    let mut count = 0;
    let mut first = 0;
    for (at, sign) in line.char_indices() {
        let is_blank = sign.is_whitespace() && !open;
        match (begin, is_blank) {
            (None, false) => (begin, first) = (Some(at), count),
            (Some(from), true) => {
                words.push(Word { text: &line[from..at], begin: first, end: count });
                begin = None;
            }
            _ => {}
        }
        open = (open || (sign == '<' && begin == Some(at))) && sign != '>';
        count += 1;
    }
    if let Some(from) = begin {
        words.push(Word { text: &line[from..], begin: first, end: count });
    }
    words
}

/// A line that consists of names, at least two of them known: `#  time  %  tma_retiring %  tma_backend_bound`, or perf's old `retiring  bad
/// speculation  frontend bound`.
pub(super) fn columns(line: &str) -> Option<Vec<Column>> {
    let words: Vec<Word<'_>> = line_words(line).into_iter().filter(|word| is_of_a_name(word.text)).collect();
    let mut columns: Vec<Column> = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let of_two = words.get(at + 1).filter(|next| next.begin == word.end + 1);
        let of_two =
            of_two.and_then(|next| Some((category(&format!("{} {}", word.text, next.text))?, next.end)));
        let (category, end, length) = match of_two {
            Some((category, end)) => (Some(category), end, 2),
            None => (category(word.text), word.end, 1),
        };
        let repeat = columns.iter().filter(|one| category.is_some() && one.category == category).count();
        columns.push(Column { end, category, repeat });
        at += length;
    }
    let known = columns.iter().filter(|column| column.category.is_some()).count();
    // Besides perf's units, other metrics may occur.
    let has_units = line.split_whitespace().any(|word| word == "%" || word == "#" || word == "percent");
    let is_mostly_known = has_units || known * 2 >= columns.len();
    let is_prose =
        |word: &Word<'_>| word.text.ends_with(['.', ',', ':', ';', '|']) || word.text.parse::<f64>().is_ok();
    (known >= 2 && is_mostly_known && !words.iter().any(is_prose)).then_some(columns)
}

fn is_of_a_name(word: &str) -> bool {
    let bare = word.trim_start_matches('#');
    !bare.is_empty() && !bare.contains('%') && !NO_METRICS.contains(&bare)
}

/// Values of known names: in order if each name has one, otherwise the values that end where their name does. `None` if no value fits. A
/// word that is not a number before the values has a name that is not a metric.
pub(super) fn line_up<'a>(
    columns: &[Column],
    values: &[Word<'a>],
    has_scope: bool,
) -> Option<Vec<(Column, Category, &'a str)>> {
    let of_scope = columns.iter().take_while(|column| has_scope && column.category.is_none()).count();
    let columns = &columns[of_scope..];
    let known = |column: &Column, value: &Word<'a>| Some((*column, column.category?, value.text));
    if columns.len() == values.len() && columns.iter().all(|column| column.category.is_some()) {
        return Some(columns.iter().zip(values).filter_map(|(column, value)| known(column, value)).collect());
    }
    let below = |column: &Column| {
        let nearest = values.iter().min_by_key(|value| value.end.abs_diff(column.end))?;
        (nearest.end.abs_diff(column.end) <= BESIDE).then(|| known(column, nearest))?
    };
    let found: Vec<_> = columns.iter().filter_map(below).collect();
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Category::*;

    fn found(head: &str, row: &str) -> Vec<(Category, String)> {
        let columns = columns(head).unwrap();
        let lined = line_up(&columns, &line_words(row), false).unwrap_or_default();
        lined.into_iter().map(|(_, category, value)| (category, value.to_owned())).collect()
    }

    #[test]
    fn a_value_belongs_to_the_name_above_it() {
        let head = " %  tma_frontend_bound %  tma_bad_speculation insn per cycle      %  tma_retiring ";
        let row = "                   51.0                   10.3           0.44                30.9 ";
        let of = |row| found(head, row);
        let all = [(FrontendBound, "51.0"), (BadSpeculation, "10.3"), (Retiring, "30.9")]
            .map(|(c, v)| (c, v.to_owned()));
        assert_eq!(of(row), all);
        // A cell may be empty, and its neighbours stay in their place.
        let gap = row.replacen("10.3", "    ", 1);
        assert_eq!(of(&gap), [all[0].clone(), all[2].clone()]);
        assert_eq!(of("10.00 seconds time elapsed"), []);
    }

    #[test]
    fn old_names_have_two_words_and_values_at_any_place() {
        let head = "             retiring     bad speculation   frontend bound   backend bound";
        let values = found(head, "        23.8%       11.6%            28.3%           36.3%");
        assert_eq!(
            values.iter().map(|(category, _)| *category).collect::<Vec<_>>(),
            [Retiring, BadSpeculation, FrontendBound, BackendBound]
        );
    }

    #[test]
    fn names_in_a_sentence_are_no_head() {
        assert_eq!(columns("tma_retiring is 12 and tma_backend_bound 3"), None);
        assert_eq!(columns("tma_retiring"), None);
        assert_eq!(columns("more retiring means less backend bound, and that is good."), None);
        assert_eq!(line_words("a <not counted>  b").len(), 3);
    }
}
