//! Cells of a map in rows, the same for both sides, for a picture of fixed size.

use hone_record::{Heatmap, heat_of};

/// Both sides with the same unit, rows of the same length and one scale.
#[derive(Debug, Clone, PartialEq)]
pub struct Grid {
    /// Bytes of a cell.
    pub unit_bytes: u64,
    /// Cells of a row.
    pub columns: u64,
    /// Share of the hottest cell of all.
    pub most: f64,
    /// Rows of each side in which code ran, by address.
    pub sides: Vec<Vec<Row>>,
}

/// A row of cells.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Address of its first cell.
    pub begin: u64,
    /// Whether rows without executed code lie between this row and the previous one.
    pub is_behind_a_gap: bool,
    /// Heat of each cell, 0 to 1; `None` where no code ran.
    pub cells: Vec<Option<f64>>,
}

/// A grid with at most this many rows in each side.
pub fn grid(map: &Heatmap, rows: usize, columns: u64) -> Grid {
    let unit_bytes = map.unit_for(rows, columns);
    let most = map.most(unit_bytes);
    let sides = map.sides.iter().map(|side| {
        let mut rows: Vec<Row> = Vec::new();
        for (cell, share) in side.cells(unit_bytes) {
            let (row, column) = (cell / columns, (cell % columns) as usize);
            let begin = row * columns * unit_bytes;
            if rows.last().is_none_or(|last| last.begin != begin) {
                let next = rows.last().map(|last| last.begin + columns * unit_bytes);
                let is_behind_a_gap = next.is_some_and(|next| next != begin);
                rows.push(Row { begin, is_behind_a_gap, cells: vec![None; columns as usize] });
            }
            if let Some(cell) = rows.last_mut().and_then(|row| row.cells.get_mut(column)) {
                *cell = Some(heat_of(share, most));
            }
        }
        rows
    });
    Grid { unit_bytes, columns, most, sides: sides.collect() }
}
