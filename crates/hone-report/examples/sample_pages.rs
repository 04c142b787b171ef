//! Writes the pages, made from sample records, into the folder that is given: to look at them.
//!
//! `cargo run -p hone-report --example sample_pages -- FOLDER`

use std::collections::BTreeMap;
use std::path::PathBuf;

#[path = "../tests/sample/mod.rs"]
mod sample;

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| "sample-pages".into()));
    std::fs::create_dir_all(&folder)?;
    let (optimization, windows) = sample::optimization();
    let write = |name: &str, page: String| std::fs::write(folder.join(name), page);
    write("optimization.html", hone_report::optimization_page(&optimization, &windows))?;
    for comparison in optimization.comparisons.iter().take(1) {
        write("comparison.html", hone_report::comparison_page(comparison, &windows))?;
        write("comparison-without-windows.html", hone_report::comparison_page(comparison, &BTreeMap::new()))?;
    }
    write("story.html", hone_report::story_page(&sample::story()))?;
    write(
        "optimization-story.html",
        hone_report::optimization_story(&optimization, &windows, &sample::story()),
    )?;
    write("window.html", hone_report::window_page(&sample::window("baseline", 1, 1.0)))?;
    write("window-saturated.html", hone_report::window_page(&sample::saturated_window()))
}
