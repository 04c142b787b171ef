//! The map as pixels, for places that show neither a script nor a vector. The words are in the text fields of the file.

use hone_format::{exact_bytes, percent};
use hone_record::Heatmap;

use super::colour::{STEPS, on_paper, step};
use super::grid::{Grid, Row, grid};
use super::words::title;

const ROWS: usize = 96;
const COLUMNS: u64 = 64;
const CELL: usize = 8;
const MARGIN: usize = 16;
const PAPER: [u8; 3] = [0xfd, 0xfd, 0xfb];
const EMPTY: [u8; 3] = [0xef, 0xee, 0xe8];

/// The bytes of a file.
///
/// # Errors
/// The picture can't be encoded, which is a defect.
pub fn png(map: &Heatmap) -> Result<Vec<u8>, String> {
    let grid = grid(map, ROWS, COLUMNS);
    let canvas = drawn(&grid);
    let mut bytes = Vec::new();
    let mut encoder = ::png::Encoder::new(&mut bytes, canvas.width as u32, canvas.height as u32);
    encoder.set_color(::png::ColorType::Rgb);
    encoder.set_depth(::png::BitDepth::Eight);
    let words = format!(
        "rows of {} cells of {}; the darkest cell is {} of the execution",
        grid.columns,
        exact_bytes(grid.unit_bytes),
        percent(grid.most)
    );
    let told = |error: ::png::EncodingError| format!("can't encode the picture: {error}");
    encoder.add_itxt_chunk("Title".to_owned(), title(map)).map_err(told)?;
    encoder.add_itxt_chunk("Description".to_owned(), words).map_err(told)?;
    let mut writer = encoder.write_header().map_err(told)?;
    writer.write_image_data(&canvas.pixels).map_err(told)?;
    writer.finish().map_err(told)?;
    Ok(bytes)
}

struct Canvas {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl Canvas {
    fn fill(&mut self, (left, above): (usize, usize), (wide, high): (usize, usize), colour: [u8; 3]) {
        for y in above..(above + high).min(self.height) {
            let from = 3 * (y * self.width + left);
            let to = (from + 3 * wide).min(3 * (y + 1) * self.width);
            self.pixels[from..to].as_chunks_mut::<3>().0.fill(colour);
        }
    }
}

/// Pixels of a row, with the gap above it if rows were omitted.
fn above(row: &Row) -> usize {
    if row.is_behind_a_gap { CELL + CELL / 2 } else { CELL }
}

fn drawn(grid: &Grid) -> Canvas {
    let wide = grid.columns as usize * CELL;
    let high = grid.sides.iter().map(|rows| rows.iter().map(above).sum::<usize>()).max().unwrap_or(0);
    let sides = grid.sides.len().max(1);
    let (width, height) = (MARGIN + sides * (wide + MARGIN), high + 4 * MARGIN);
    let mut canvas = Canvas { width, height, pixels: PAPER.repeat(width * height) };
    for (index, rows) in grid.sides.iter().enumerate() {
        let left = MARGIN + index * (wide + MARGIN);
        let mut below = MARGIN;
        for row in rows {
            below += above(row);
            let above = below - CELL;
            canvas.fill((left, above), (wide, CELL - 1), EMPTY);
            for (column, heat) in row.cells.iter().enumerate() {
                if let Some(heat) = heat {
                    canvas.fill((left + column * CELL, above), (CELL - 1, CELL - 1), on_paper(step(*heat)));
                }
            }
        }
    }
    for at in 0..STEPS {
        canvas.fill((MARGIN + at * 2 * MARGIN, height - 2 * MARGIN), (2 * MARGIN, MARGIN), on_paper(at));
    }
    canvas
}
