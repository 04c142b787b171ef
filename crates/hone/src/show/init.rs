//! What `hone init` saw and wrote, as text.

use crate::cmd::init::{Seen, Written};

/// What was seen, what was chosen, what is left to the user.
pub(crate) fn text(found: &Written) -> String {
    let mut out = String::new();
    for seen in &found.saw {
        out.push_str(&seen_line(seen));
    }
    out.push_str(&format!("program     {}\nload        {}\n", found.program, found.load));
    out.push_str(&format!("\nWritten: {}\n", found.file.display()));
    if !found.fill_in.is_empty() {
        out.push_str("To fill in:\n");
    }
    for place in &found.fill_in {
        out.push_str(&format!("  line {:>3}  {}\n", place.line, place.what));
    }
    out.push_str(&format!("Then: hone optimize {}\n", found.file.display()));
    out
}

fn seen_line(seen: &Seen) -> String {
    let programs = match seen.programs.as_slice() {
        [] => "names no program".to_owned(),
        names => format!("makes {}", names.join(", ")),
    };
    let used = if seen.used { "" } else { " (not used)" };
    format!("saw         {} ({}): {programs}{used}\n", seen.file.display(), seen.kind)
}
