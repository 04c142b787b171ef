//! An optimisation as text.

use hone_binary::linkmap::Coverage;
use hone_record::{
    Artifact, Comparison, Harm, LaidOut, MatrixRow, Optimization, Rewriting, VariantFacts, VariantState,
    Verdict,
};

use super::table::table;
use super::window::load_words;
use super::{bytes, comparison, span_us};

/// The whole account: what was built, what was found, what follows.
pub(crate) fn text(found: &Optimization) -> String {
    let mut out = format!("\n{}\n", builds(&found.artifacts));
    for ceiling in &found.ceilings {
        out.push_str(&format!("ceiling {}: {}\n", ceiling.workload, ceiling.words));
    }
    for code in code_inside(&found.artifacts) {
        let covered = if code.profiled { "profiled" } else { "left out of the profile" };
        out.push_str(&format!("{}: {covered}; {}\n", code.name, code.how));
    }
    match &found.training_mix[..] {
        [] => {
            out.push_str(&format!("trained with {}: {}\n", found.training.name, load_words(&found.training)))
        }
        mix => mix.iter().for_each(|part| {
            let (workload, weight) = (&part.workload, part.weight);
            out.push_str(&format!(
                "trained with {} (weight {weight}): {}\n",
                workload.name,
                load_words(workload)
            ));
        }),
    }
    let mut told: Vec<&str> = Vec::new();
    for judged in &found.comparisons {
        if !told.contains(&judged.workload.name.as_str()) {
            told.push(&judged.workload.name);
            out.push_str(&format!(
                "judged with {}: {}\n",
                judged.workload.name,
                load_words(&judged.workload)
            ));
        }
    }
    let acks = if found.durability.acks == -1 { "all".to_owned() } else { found.durability.acks.to_string() };
    if found.training.engine.operations().is_none() {
        out.push_str(&format!("durability: acks={acks}, storage {}\n", found.durability.storage));
    }
    out.push_str(&format!("CPU {}, {} cores\n", found.machine.cpu_model, found.machine.cores));
    for variant in &found.variants {
        if let Some(done) = &variant.rewriting {
            out.push_str(&format!("{}: {}\n", variant.name, rewriting(done)));
        }
    }
    out.push_str(&harms(&found.variants));
    for judged in &found.comparisons {
        out.push_str(&format!("\n== {} ==\n{}", heading(found, judged), comparison::text(judged)));
    }
    for judged in &found.on_baseline {
        out.push_str(&format!("\n{}: {}", judged.workload.name, comparison::sentence(judged)));
    }
    if !found.on_baseline.is_empty() {
        out.push('\n');
    }
    out.push_str(&matrix(&found.matrix));
    out.push_str(&layouts(&found.variants));
    out.push_str(&tails(&found.comparisons));
    if let Some(account) = &found.go {
        out.push_str(&super::go::text(account));
    }
    out.push_str(&decisions(found));
    out
}

/// The workload alone where there is one edge only.
fn heading(found: &Optimization, judged: &Comparison) -> String {
    let edges = found.variants.iter().filter(|variant| variant.judged && variant.parent.is_some()).count();
    if edges < 2 {
        judged.workload.name.clone()
    } else {
        format!("{} against {}, {}", judged.b, judged.a, judged.workload.name)
    }
}

/// Variants that were shaped by the same profile have the same code inside.
fn code_inside(artifacts: &[Artifact]) -> Vec<&hone_record::CodeInside> {
    let mut told = Vec::new();
    for code in artifacts.iter().flat_map(|artifact| &artifact.code_inside) {
        if !told.contains(&code) {
            told.push(code);
        }
    }
    told
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

fn harms(variants: &[VariantFacts]) -> String {
    let measured: Vec<(&str, &Harm)> = variants
        .iter()
        .filter_map(|variant| Some((variant.name.as_str(), variant.harm.as_ref()?)))
        .filter(|(_, harm)| harm.start_up_s.is_some() || harm.rss_bytes.is_some())
        .collect();
    if measured.is_empty() {
        return String::new();
    }
    let has_stacks = measured.iter().any(|(_, harm)| harm.stack_bytes.is_some());
    let stacks = has_stacks.then_some("stacks");
    let head = ["variant", "start-up", "resident memory"].into_iter().chain(stacks).chain(["guard rails"]);
    let head: Vec<String> = head.map(str::to_owned).collect();
    let row = |(name, harm): &(&str, &Harm)| {
        let told =
            |value: Option<f64>, words: &dyn Fn(f64) -> String| value.map_or_else(|| "-".to_owned(), words);
        let mut rails = vec![if harm.broken.is_empty() { "held".to_owned() } else { harm.broken.join("; ") }];
        rails.extend(harm.not_measured.iter().map(|what| format!("{what} not measured")));
        let broken = rails.join("; ");
        let mut cells = vec![
            (*name).to_owned(),
            told(harm.start_up_s, &|seconds| span_us(seconds * 1e6)),
            told(harm.rss_bytes, &|size| bytes(size as u64)),
        ];
        cells.extend(has_stacks.then(|| told(harm.stack_bytes, &|size| bytes(size as u64))));
        cells.push(broken);
        cells
    };
    format!("\n{}", table(&std::iter::once(head).chain(measured.iter().map(row)).collect::<Vec<_>>()))
}

/// The slowest requests of each variant, where somebody could hope that they hold while the throughput rises.
fn tails(comparisons: &[Comparison]) -> String {
    let line = |judged: &Comparison| {
        let Comparison { a, b, workload, .. } = judged;
        format!("  {b} against {a} under {}: {}\n", workload.name, judged.tail_words())
    };
    let lines: String = comparisons.iter().map(line).collect();
    if lines.is_empty() { lines } else { format!("\nThe tail beside the throughput:\n{lines}") }
}

/// Builds of a variant, where there are several.
fn layouts(variants: &[VariantFacts]) -> String {
    let line = |variant: &VariantFacts| {
        let one = |build: &LaidOut| format!("{} {}", build.name, build.places());
        let builds: Vec<String> = variant.builds.iter().map(one).collect();
        (!builds.is_empty()).then(|| format!("  {}\n", builds.join(", ")))
    };
    let lines: String = variants.iter().filter_map(line).collect();
    if lines.is_empty() {
        lines
    } else {
        format!("\nBuilds of each variant, with functions at other places:\n{lines}")
    }
}

fn matrix(rows: &[MatrixRow]) -> String {
    let Some(first) = rows.first() else { return String::new() };
    let head = std::iter::once("trained with".to_owned())
        .chain(first.cells.iter().map(|cell| cell.workload.clone()))
        .chain(["front".to_owned()])
        .collect();
    let row = |row: &MatrixRow| {
        let cells = row.cells.iter().map(|cell| {
            let own = if cell.own { " (its own)" } else { "" };
            match cell.ratio {
                Some([ratio, low, high]) => {
                    format!("{ratio:.3} [{low:.3}, {high:.3}] {}{own}", cell.verdict.label())
                }
                None => format!("-{own}"),
            }
        });
        let front = if row.on_front { "on it" } else { "" };
        std::iter::once(row.trained_with.join(" + ")).chain(cells).chain([front.to_owned()]).collect()
    };
    let lines: Vec<Vec<String>> = std::iter::once(head).chain(rows.iter().map(row)).collect();
    format!(
        "\n== what each profile does under each workload, beside the baseline ==\n{}On the front is what no other mix beats \
         under every workload. A profile under its own workload is flattered.\n",
        table(&lines)
    )
}

/// What follows. One variant is told in a word, several each with its reason.
fn decisions(found: &Optimization) -> String {
    let judged: Vec<&VariantFacts> =
        found.variants.iter().filter(|variant| !variant.decision.is_empty()).collect();
    match &judged[..] {
        [] => format!("\nDecision: {}\n", of_comparisons(&found.comparisons)),
        [only] if matches!(only.state, VariantState::Made) && broken(only).is_none() => {
            format!("\nDecision: {}\n", only.decision)
        }
        several => {
            let mut out = "\nDecision:\n".to_owned();
            for variant in several {
                let why = variant.why.lines().next().unwrap_or_default();
                out.push_str(&format!("  {} {}: {why}\n", variant.decision, variant.name));
            }
            out.push_str(&match &found.best {
                Some(best) => format!("  best: {best}\n"),
                None => "  best: the baseline; no variant is better by measurement\n".to_owned(),
            });
            out
        }
    }
}

fn broken(variant: &VariantFacts) -> Option<&String> {
    variant.harm.as_ref().and_then(|harm| harm.broken.first())
}

/// Of records from before there was a tree: keep a change that makes the first workload better and none worse.
fn of_comparisons(comparisons: &[Comparison]) -> &'static str {
    let better = comparisons.first().is_some_and(|first| first.verdict() == Verdict::Better);
    let harm = comparisons.iter().any(|comparison| comparison.verdict() == Verdict::Worse);
    if better && !harm { "keep" } else { "drop" }
}

/// What BOLT did, in a line.
pub(crate) fn rewriting(done: &Rewriting) -> String {
    let mut parts = vec![format!("BOLT {}", done.rung)];
    if !done.profile.is_empty() {
        parts.push(format!("by {}", done.profile));
    }
    if let Some([with, all]) = done.profiled_functions {
        parts.push(format!("profile for {with} of {all} functions"));
    }
    if let Some(moved) = done.layout_modified {
        parts.push(format!("layout of {moved} changed"));
    }
    if !done.culprits.is_empty() {
        parts.push(format!(
            "left alone, since it breaks them: {} (found with {} builds)",
            done.culprits.join(", "),
            done.search_builds
        ));
    } else if !done.skipped.is_empty() {
        parts.push(format!("{} functions left alone", done.skipped.len()));
    }
    if !done.given_up.is_empty() {
        parts.push(format!("not taken: {}", done.given_up.join("; ")));
    }
    if let Some(bundle) = &done.bundle {
        parts.push(format!("for a bug report: {bundle}"));
    }
    parts.join(", ")
}

/// How much of a program's text its flags have reached.
pub(crate) fn coverage(coverage: &Coverage) -> String {
    let mut told = format!("the flags reached {:.1} % of the text", coverage.share() * 100.0);
    if let Some(largest) = coverage.others.first() {
        told.push_str(&format!(", of the rest most is {} ({})", largest.object, largest.reason));
    }
    told
}
