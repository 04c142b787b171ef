//! The folder of a run of `hone tune`.

use std::fs;
use std::path::Path;

use hone_record::Envelope;

use crate::sample;

/// Lays down a run with what its builds have found, and a heatmap and a capacity beside it.
pub(crate) fn lay(run: &Path) {
    let keep = |name: &str, text: String| {
        let path = run.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let (tuning, windows) = sample::tuning();
    for (name, window) in windows {
        keep(&name, Envelope::new(window).to_text().unwrap());
    }
    keep("tuning.json", Envelope::new(tuning).to_text().unwrap());
    keep("heat.json", Envelope::new(sample::heatmap()).to_text().unwrap());
    keep("capacity.json", Envelope::new(sample::capacity()).to_text().unwrap());
    let (optimization, _) = sample::optimization();
    keep("ceilings.json", serde_json::to_string(&optimization.ceilings).unwrap());
}
