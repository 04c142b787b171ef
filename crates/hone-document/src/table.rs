//! Plain text tables.

use hone_report::{aligned, plain};

/// Rows of equal length become aligned lines: the first column to the left, the others to the right. Cells can hold foreign
/// names, so control characters are replaced.
pub fn table(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| plain(cell)).collect()).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let is_number: Vec<bool> = (0..columns).map(|column| column > 0).collect();
    aligned(&rows, &is_number)
}

pub use hone_report::in_a_cell;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [["a", "µs", "x"], ["long", "12", ""]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "  a      µs   x\n  long   12\n");
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_shown() {
        let rows = [["client", "rate"], ["a\u{1b}[2J\nb", "1"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(table(&rows), "  client    rate\n  a?[2J?b      1\n");
    }
}
