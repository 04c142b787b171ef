//! Files and lines for a map.

use hone_record::{HeatPlace, HeatSource};

use crate::source::{self, Places};

/// Adds the source positions of its lines and blocks, from the object's own bytes. Unreadable information is listed among the omissions.
pub fn add_sources(side: &mut HeatSource, object: &[u8]) {
    let lines = side.lines.iter().map(|line| line.first_used());
    let addresses: Vec<u64> = lines.chain(side.blocks.iter().map(|block| block.address)).collect();
    match source::places(object, &addresses) {
        Ok(places) => put(side, places),
        Err(why) => side.cut.push(format!("source files and lines are left out: {why}")),
    }
}

fn put(side: &mut HeatSource, places: Places) {
    let at = |address: u64| places.at(address).map(|place| HeatPlace { file: place.file, line: place.line });
    for line in &mut side.lines {
        line.source = at(line.first_used());
    }
    for block in &mut side.blocks {
        block.source = at(block.address);
    }
    side.files = places.files;
}
