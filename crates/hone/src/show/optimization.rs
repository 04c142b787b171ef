//! An optimisation as text.

use hone_record::{Artifact, Optimization};

use super::table::table;
use super::window::load_words;
use super::{bytes, comparison};
use crate::optimize::decision;

/// The whole account: what was built, what was found, what follows.
pub(crate) fn text(found: &Optimization) -> String {
    let mut out = format!("\n{}\n", builds(&found.artifacts));
    for ceiling in &found.ceilings {
        out.push_str(&format!("ceiling {}: {}\n", ceiling.workload, ceiling.words));
    }
    for code in found.artifacts.iter().flat_map(|artifact| &artifact.code_inside) {
        let covered = if code.profiled { "profiled" } else { "left out of the profile" };
        out.push_str(&format!("{}: {covered}; {}\n", code.name, code.how));
    }
    out.push_str(&format!("trained with {}: {}\n", found.training.name, load_words(&found.training)));
    for judged in &found.comparisons {
        out.push_str(&format!("judged with {}: {}\n", judged.workload.name, load_words(&judged.workload)));
    }
    let acks = if found.durability.acks == -1 { "all".to_owned() } else { found.durability.acks.to_string() };
    out.push_str(&format!("durability: acks={acks}, storage {}\n", found.durability.storage));
    out.push_str(&format!("CPU {}, {} cores\n", found.machine.cpu_model, found.machine.cores));
    for judged in &found.comparisons {
        out.push_str(&format!("\n== {} ==\n{}", judged.workload.name, comparison::text(judged)));
    }
    out.push_str(&format!("\nDecision: {}\n", decision(&found.comparisons)));
    out
}

fn builds(artifacts: &[Artifact]) -> String {
    let head = ["variant", "build", "file", ".text", "profile"].map(str::to_owned).to_vec();
    let row = |artifact: &Artifact| {
        let profile =
            artifact.profile.as_ref().map_or("-", |profile| profile.sha256.get(..12).unwrap_or("-"));
        vec![
            artifact.variant.clone(),
            format!("{:.1} s", artifact.build_s),
            bytes(artifact.file_bytes),
            bytes(artifact.text_bytes),
            profile.to_owned(),
        ]
    };
    table(&std::iter::once(head).chain(artifacts.iter().map(row)).collect::<Vec<_>>())
}
