//! An optimisation as text.

use hone_binary::linkmap::Coverage;
use hone_format::{NONE, bytes, time_us};
use hone_record::{
    Artifact, Comparison, Harm, Judgement, LaidOut, MatrixRow, Optimization, Rewriting, VariantFacts, Verdict,
};

use crate::table::table;
use crate::window::load_words;
use crate::{comparison, wrapped};

/// The whole account: what was built, what was found, what follows.
pub fn text(found: &Optimization) -> String {
    let mut out = format!("\n{}\n", builds(&found.artifacts));
    if let Some(made) = found.making_of_profiles() {
        out.push_str(&format!("{}\n", wrapped(&made)));
    }
    for ceiling in &found.ceilings {
        out.push_str(&format!("ceiling {}: {}\n", ceiling.workload, ceiling.words));
    }
    if let Some(diagnosis) = &found.diagnosis {
        out.push_str(&format!(
            "diagnosis ({}): {}\n",
            diagnosis.evidence.label(),
            crate::diagnosis::sentence(diagnosis)
        ));
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
    let acks = hone_format::acks(found.durability.acks);
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
    out.push_str(&comparisons(found));
    for judged in &found.on_baseline {
        out.push_str(&format!("\n{}: {}", judged.workload.name, hone_report::verdict::sentence(judged)));
    }
    out.push_str(&beside_baseline(found));
    out.push_str(&matrix(&found.matrix));
    out.push_str(&layouts(&found.variants));
    out.push_str(&tails(&found.comparisons));
    if let Some(account) = &found.go {
        out.push_str(&crate::go::text(account));
    }
    out.push_str(&foretold(found));
    out.extend(found.doubts().iter().map(|doubt| format!("\n{}\n", wrapped(doubt))));
    out.push_str(&decisions(found));
    if let Some(ageing) = found.ageing() {
        out.push_str(&format!("  {}\n", wrapped(&ageing)));
    }
    out
}

/// What was said of layouts before they were measured, beside what was found under the workload that comes first.
fn foretold(found: &Optimization) -> String {
    let line = |variant: &VariantFacts| {
        let foretelling = variant.foretelling.as_ref()?;
        let judged = found.comparisons.iter().find(|comparison| comparison.b == variant.name)?;
        let verdict = judged.verdict();
        let outcome = match foretelling.expected.came_true(verdict) {
            Some(true) => "as foretold",
            Some(false) => "not as foretold",
            None => "which says neither right nor wrong",
        };
        let (expected, rule) = (foretelling.expected, &foretelling.rule);
        Some(format!(
            "  {} on {}: {expected}; found: {}, {outcome}\n    {rule}\n",
            judged.b,
            judged.a,
            verdict.label()
        ))
    };
    let lines: String = found.variants.iter().filter_map(line).collect();
    if lines.is_empty() {
        lines
    } else {
        format!("\nForetold by replay before it was measured (under {}):\n{lines}", found.training.name)
    }
}

/// All variants in one scale: a row for each metric under each workload.
fn beside_baseline(found: &Optimization) -> String {
    let (names, rows) = found.beside_baseline();
    let Some(direct) = found.on_baseline.first() else { return String::new() };
    let head = ["", ""].into_iter().chain(names).map(str::to_owned).collect();
    let cell = |judged: &Option<&Judgement>| {
        judged.map_or(NONE.to_owned(), |judged| {
            let estimate = &judged.estimate;
            let ratio = hone_format::interval([estimate.ratio, estimate.low, estimate.high]);
            format!("{ratio} {}", judged.verdict.label())
        })
    };
    let mut lines: Vec<Vec<String>> = vec![head];
    lines.extend(rows.iter().map(|row| {
        let words = [row.workload.to_owned(), row.label.to_owned()];
        words.into_iter().chain(row.cells.iter().map(cell)).collect()
    }));
    format!("\n\nAll variants beside {}:\n{}", direct.a, table(&lines))
}

/// Each comparison with what is of it alone, and once before them how all are read.
fn comparisons(found: &Optimization) -> String {
    let explained = explanations(&found.comparisons);
    let head = if explained.is_empty() { "" } else { "\nHow the tables below are read:\n" };
    let mut out = format!("{head}{}", comparison::paragraphs(&explained).trim_start_matches('\n'));
    for judged in &found.comparisons {
        out.push_str(&format!("\n== {} ==\n{}", heading(found, judged), comparison::own(judged)));
    }
    out
}

/// Each explanation once, with the workloads that it holds for where these are not all.
fn explanations(comparisons: &[Comparison]) -> Vec<String> {
    let mut told: Vec<(String, Vec<&str>)> = Vec::new();
    for judged in comparisons {
        let workload = judged.workload.name.as_str();
        for words in comparison::explanations(judged) {
            match told.iter_mut().find(|(other, _)| *other == words) {
                Some((_, workloads)) if workloads.contains(&workload) => {}
                Some((_, workloads)) => workloads.push(workload),
                None => told.push((words, vec![workload])),
            }
        }
    }
    let of_all = |workloads: &[&str]| {
        comparisons.iter().all(|judged| workloads.contains(&judged.workload.name.as_str()))
    };
    let line = |(words, workloads): (String, Vec<&str>)| match of_all(&workloads) {
        true => words,
        false => format!("Under {}: {words}", workloads.join(", ")),
    };
    told.into_iter().map(line).collect()
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
            told(harm.start_up_s, &|seconds| time_us(seconds * 1e6)),
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
                    format!("{} {}{own}", hone_format::interval([ratio, low, high]), cell.verdict.label())
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

/// What follows, each variant with its reason, and which one is best.
fn decisions(found: &Optimization) -> String {
    let judged: Vec<&VariantFacts> =
        found.variants.iter().filter(|variant| !variant.decision.is_empty()).collect();
    match &judged[..] {
        [] => format!("\nDecision: {}\n", of_comparisons(&found.comparisons)),
        [only] => format!("\nDecision: {}{}", decision(only), best(found)),
        several => {
            let lines: String = several.iter().map(|variant| format!("  {}", decision(variant))).collect();
            format!("\nDecision:\n{lines}{}", best(found))
        }
    }
}

fn decision(variant: &VariantFacts) -> String {
    let why = variant.why.lines().next().unwrap_or_default();
    format!("{} {}: {why}\n", variant.decision, variant.name)
}

fn best(found: &Optimization) -> String {
    match &found.best {
        Some(best) => format!("  best: {best}\n"),
        None => "  best: the baseline; no variant is kept\n".to_owned(),
    }
}

/// Of records from before there was a tree: keep a change that makes the first workload better and none worse.
fn of_comparisons(comparisons: &[Comparison]) -> String {
    let Some(first) = comparisons.first() else { return "drop: nothing was judged".to_owned() };
    let worse = comparisons.iter().find(|comparison| comparison.verdict() == Verdict::Worse);
    match (worse, first.verdict()) {
        (Some(worse), _) => format!("drop: worse than {} under {}", worse.a, worse.workload.name),
        (None, Verdict::Better) => format!("keep: better than {} under {}", first.a, first.workload.name),
        (None, other) => format!("drop: {} beside {} under {}", other.label(), first.a, first.workload.name),
    }
}

/// What BOLT did, in a line.
pub fn rewriting(done: &Rewriting) -> String {
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
    parts.extend(done.shortfalls());
    if !done.culprits.is_empty() {
        parts.push(format!(
            "left alone, since it breaks them: {} (found with {} builds)",
            hone_record::demangled_all(&done.culprits),
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
pub fn coverage(coverage: &Coverage) -> String {
    let mut told = format!("the flags reached {:.1} % of the text", coverage.share() * 100.0);
    if let Some(largest) = coverage.others.first() {
        told.push_str(&format!(", of the rest most is {} ({})", largest.object, largest.reason));
    }
    told
}

#[cfg(test)]
mod tests {
    use super::super::comparison::tests::of_operations;
    use super::*;

    fn variant(name: &str, parent: Option<&str>, decision: &str, why: &str) -> VariantFacts {
        VariantFacts {
            decision: decision.to_owned(),
            why: why.to_owned(),
            ..VariantFacts::made(name, parent)
        }
    }

    fn found(comparisons: Vec<Comparison>, variants: Vec<VariantFacts>) -> Optimization {
        Optimization {
            name: "x".to_owned(),
            experiment: "x.toml".to_owned(),
            hone_version: "0".to_owned(),
            machine: hone_record::Machine::default(),
            training: comparisons[0].workload.clone(),
            durability: hone_record::Durability { acks: -1, storage: "unstated".to_owned() },
            ceilings: Vec::new(),
            artifacts: Vec::new(),
            comparisons,
            steps: Vec::new(),
            started_unix_ms: 0,
            variants,
            training_mix: Vec::new(),
            matrix: Vec::new(),
            on_baseline: Vec::new(),
            best: None,
            go: None,
            diagnosis: None,
        }
    }

    #[test]
    fn what_explains_all_comparisons_is_told_once_and_before_them() {
        let mut judged: Vec<Comparison> = ["pgo", "bolt"]
            .into_iter()
            .flat_map(|b| ["reading", "writing"].map(|workload| of_operations(b, workload)))
            .collect();
        let shown = comparisons(&found(judged.clone(), Vec::new()));
        assert_eq!(shown.matches("* primary metric, g guard rail").count(), 1, "{shown}");
        assert_eq!(shown.matches("counts operations").count(), 1, "{shown}");
        assert!(shown.find("* primary metric") < shown.find("== "), "{shown}");
        assert_eq!(
            shown.matches("only 0 of the pairs").count(),
            4,
            "it is of each comparison alone: {shown}"
        );
        assert_eq!(shown.matches("pair 12: neighbours").count(), 4, "{shown}");
        // Another rule under one workload is no rule for the other.
        judged[1].design.rule.words = "another rule".to_owned();
        judged[3].design.rule.words = "another rule".to_owned();
        let shown = comparisons(&found(judged, Vec::new()));
        assert!(shown.contains("Under reading: * primary metric, g guard rail. the rule"), "{shown}");
        assert!(shown.contains("Under writing: * primary metric, g guard rail. another rule"), "{shown}");
    }

    /// A variant that builds on another one is in the same scale as that one.
    #[test]
    fn variants_stand_beside_the_baseline_in_one_table() {
        let edges = vec![of_operations("pgo", "reading")];
        let mut judged = found(edges, ["pgo", "both"].map(|name| variant(name, None, "", "")).to_vec());
        assert_eq!(beside_baseline(&judged), "", "each was held against the baseline alone");
        let mut both = of_operations("both", "reading");
        both.judgements[0].estimate.ratio = 0.777;
        judged.on_baseline.push(both);
        let shown = beside_baseline(&judged);
        let lines: Vec<&str> = shown.trim_start().lines().collect();
        assert!(lines[0].starts_with("All variants beside "), "{shown}");
        assert_eq!(lines[1].split_whitespace().collect::<Vec<_>>(), ["pgo", "both"]);
        assert!(lines[2].contains("reading") && lines[2].contains("0.777 ["), "{shown}");
    }

    #[test]
    fn what_code_can_hardly_explain_is_doubted() {
        let of = |high: f64, user_share: f64| {
            let mut judged = of_operations("pgo", "reading");
            judged.judgements[0].estimate.high = high;
            let mut found = found(vec![judged], Vec::new());
            found.ceilings.push(hone_record::Ceiling {
                workload: "reading".to_owned(),
                cpu_us_per_record: 1.0,
                user_share,
                words: String::new(),
            });
            found.doubts().concat()
        };
        assert_eq!(of(0.9, 0.5), "");
        assert_eq!(of(0.61, 0.9), "");
        assert!(
            of(0.59, 0.9).contains("pgo saves at least 41 % under reading, and by public"),
            "{}",
            of(0.59, 0.9)
        );
        let beyond = of(0.9, 0.08);
        assert!(beyond.contains("at least 10 % under reading, and all of its user code was 8 %"), "{beyond}");
    }

    #[test]
    fn what_profiles_take_is_told_beside_the_builds() {
        let mut found = found(vec![of_operations("pgo", "reading")], Vec::new());
        assert!(!text(&found).contains("Making the profiles"));
        let step = |step: &str, took_s| hone_record::StepReceipt {
            step: step.to_owned(),
            took_s,
            command: None,
            note: String::new(),
        };
        let all =
            ["build-baseline", "build-instrumented", "train", "prove-profile", "build-pgo", "train-bolt"];
        found.steps =
            all.into_iter().zip([1.0, 60.0, 20.5, 4.0, 1.0, 10.0]).map(|(name, s)| step(name, s)).collect();
        let told = text(&found).replace("\n  ", " ");
        let wanted = "Making the profiles took 94.5 s beside these builds: build-instrumented 60.0 s, train 20.5 s, prove-profile 4.0 s, train-bolt 10.0 s";
        assert!(told.contains(wanted), "{told}");
    }

    #[test]
    fn a_decision_comes_last_with_its_reason_and_the_best() {
        let judged = vec![of_operations("pgo", "reading")];
        let why = "not shown beside baseline under reading";
        let mut tree = vec![variant("baseline", None, "", ""), variant("pgo", Some("baseline"), "drop", why)];
        let one = found(judged.clone(), tree.clone());
        let best = "  best: the baseline; no variant is kept\n";
        assert!(text(&one).ends_with(&format!("\nDecision: drop pgo: {why}\n{best}")), "{}", text(&one));
        tree.push(variant("bolt", Some("baseline"), "keep", "better than baseline under reading"));
        let two = Optimization { best: Some("bolt".to_owned()), ..found(judged.clone(), tree) };
        let told = format!(
            "\nDecision:\n  drop pgo: {why}\n  keep bolt: better than baseline under reading\n  best: bolt\n"
        );
        assert!(text(&two).ends_with(&told), "{}", text(&two));
        // Without a tree there is a reason, too.
        let mut old = found(judged, Vec::new());
        assert!(text(&old).ends_with("\nDecision: keep: better than A under reading\n"), "{}", text(&old));
        old.comparisons[0].judgements[0].verdict = Verdict::NotShown;
        assert!(text(&old).ends_with("\nDecision: drop: not shown beside A under reading\n"));
    }
}
