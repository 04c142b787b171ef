//! Writes documents of sample records into the folder that is given, each as a page, as Markdown and as a terminal shows it.
//!
//! `cargo run -p hone-report --example sample_pages -- FOLDER`

use std::collections::BTreeMap;
use std::path::PathBuf;

use hone_report::{Detail, Document, documents};

#[path = "../tests/sample/mod.rs"]
mod sample;

fn main() -> std::io::Result<()> {
    let folder = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| "sample-pages".into()));
    std::fs::create_dir_all(&folder)?;
    let (optimization, windows) = sample::optimization();
    let write = |name: &str, document: Document| {
        std::fs::write(folder.join(format!("{name}.md")), document.clone().markdown())?;
        std::fs::write(folder.join(format!("{name}.txt")), document.clone().terminal(Detail::Result))?;
        let whole = document.clone().terminal(Detail::Everything);
        std::fs::write(folder.join(format!("{name}.explained.txt")), whole)?;
        std::fs::write(folder.join(format!("{name}.html")), document.html())
    };
    write("optimization", documents::optimization(&optimization, &windows, None))?;
    for comparison in optimization.comparisons.iter().take(1) {
        write("comparison", documents::comparison(comparison, &windows, None))?;
        write("comparison-without-windows", documents::comparison(comparison, &BTreeMap::new(), None))?;
    }
    let story = sample::story();
    write("optimization-story", documents::optimization(&optimization, &windows, Some(&story)))?;
    write("story", documents::story(&story))?;
    let (tuning, windows) = sample::tuning();
    write("tuning", documents::tuning(&tuning, &windows, None))?;
    write("proof", documents::proof(&tuning.as_proof(), &windows, None))?;
    write("capacity", documents::capacity(&sample::capacity()))?;
    write("curve", documents::curve(&sample::curve()))?;
    write("heatmap", documents::heatmap(&sample::heatmap()))?;
    write("window-eventful", documents::window(&sample::eventful()))?;
    write("xray", documents::xray(&sample::xray()))?;
    write("tail", documents::tail(&sample::tail()))?;
    write("diagnosis", documents::diagnosis(&sample::diagnosis_of_two()))?;
    write("window", documents::window(&sample::window("baseline", 1, 1.0)))?;
    write("window-saturated", documents::window(&sample::saturated_window()))
}
