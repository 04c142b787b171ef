//! A service on a Java virtual machine: options of the virtual machine and caches of an earlier run, each compared with the baseline. Nothing is
//! built. What a start costs is measured apart from the warm service, because a cache pays there.

mod cache;
mod launch;
mod service;
mod starts;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use hone_experiment::ending::Usage;
use hone_experiment::moment::now_unix_ms;
use hone_experiment::phase::Phase;
use hone_experiment::rounds::{self, Judged, Rounds, Runner, judge_rounds};
use hone_experiment::spec::target::{Form, Jvm};
use hone_experiment::variants::{BASELINE, Variant};
use hone_jvm::conflicts::conflicts;
use hone_jvm::jdk::Jdk;
use hone_jvm::recipe::{Part, parts};
use hone_jvm::setting::with_setting;
use hone_record::{Comparison, JvmAccount, JvmStarts, Optimization, VariantFacts, VariantState};
use serde::{Deserialize, Serialize};

use self::service::Service;
use crate::job::Job;
use crate::judge;
use crate::outcome::Left;
use crate::steps::{Steps, Told};

/// Flags that a reader of the result wants to know.
const SHOWN_FLAGS: [&str; 14] = [
    "UseG1GC",
    "UseParallelGC",
    "UseSerialGC",
    "UseZGC",
    "UseShenandoahGC",
    "InitialHeapSize",
    "MaxHeapSize",
    "MaxGCPauseMillis",
    "ReservedCodeCacheSize",
    "UseCompactObjectHeaders",
    "UseTransparentHugePages",
    "AlwaysPreTouch",
    "ActiveProcessorCount",
    "TieredStopAtLevel",
];

/// What the baseline runs on.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Ground {
    jdk: Jdk,
    flags: BTreeMap<String, String>,
}

/// The service of an experiment; `None` if its target is of another form.
pub(super) fn service_of<'a>(job: &Job<'a>) -> Option<&'a Jvm> {
    match &job.experiment.target.form {
        Form::Jvm(jvm) => Some(jvm),
        _ => None,
    }
}

/// From the experiment to the record. See [`crate::optimize`].
pub(super) fn optimize(job: &Job<'_>, jvm: &Jvm) -> Result<Optimization> {
    let begun_ms = now_unix_ms();
    let _alone = [job.lock(&job.work(), "training in")?, job.lock(job.folder.path(), "using")?];
    let underway = job.begin()?;
    let mut steps = Steps::new(job.folder, job.progress, job.only).of(underway);
    let plain = job.launch(jvm)?;
    let ground = steps.run(Phase::Baseline, "examine-jvm", || job.examine(&plain))?;
    let started_unix_ms = steps.quiet("start", || Ok(begun_ms))?;
    let (mut services, mut left_out) = job.services(&plain);
    let mut caches = Vec::new();
    for service in services.iter_mut().filter(|service| service.has_cache) {
        match job.train_cache(&mut steps, service)? {
            Ok(cache) => {
                service.command = cache::using(service, &cache.path);
                caches.push(cache);
            }
            Err(why) => {
                left_out.insert(service.name.clone(), why);
            }
        }
    }
    services.retain(|service| !left_out.contains_key(&service.name));
    let (starts, failed) = job.watch_starts(&mut steps, &services)?;
    left_out.extend(failed);
    services.retain(|service| !left_out.contains_key(&service.name));
    let judged = job.judge_services(&mut steps, &services)?;

    let mut found = job.optimization_of(judged, &left_out, started_unix_ms);
    let account = JvmAccount { jdk: ground.jdk.title(), flags: ground.flags, starts, caches };
    let kept = keep_for_starts(&mut found.variants, &found.comparisons, &account.starts);
    found.best = found.best.or(kept);
    found.jvm = Some(account);
    found.steps = steps.receipts;
    job.folder.write_record("optimization.json", found.clone())?;
    job.enter_in_ledger(&found)?;
    Ok(found)
}

/// The plan of a run, with the command line of each variant.
pub(super) fn plan(job: &Job<'_>, jvm: &Jvm) -> Result<String> {
    let plain = job.launch(jvm)?;
    let (services, left_out) = job.services(&plain);
    let mut lines = vec![format!("# {} on {}", plain.name, plain.jdk.title())];
    for service in &services {
        lines.push(format!("\n# {}", service.name));
        lines.push(shlex::try_join(service.command.argv().iter().map(String::as_str)).unwrap_or_default());
        if service.has_cache {
            lines.push(
                "# this variant trains a cache with the training workloads, and then starts with it"
                    .to_owned(),
            );
        }
    }
    lines.extend(left_out.iter().map(|(name, why)| format!("\n# {name} is left out: {why}")));
    let trained: Vec<&str> =
        job.experiment.training.iter().map(|training| training.workload.name.as_str()).collect();
    let judging: Vec<&str> = job.experiment.judging.iter().map(|load| load.name.as_str()).collect();
    lines.push(format!(
        "\n# {} starts of each variant, one after the other; then each is compared with {BASELINE} under {}",
        starts::STARTS,
        judging.join(", ")
    ));
    if services.iter().any(|service| service.has_cache) {
        lines.push(format!("# training: {}", trained.join(", ")));
    }
    Ok(lines.join("\n") + "\n")
}

impl Job<'_> {
    /// The baseline's JDK and flags. A command line that contradicts itself is refused.
    fn examine(&self, plain: &Service) -> Result<Told<Ground>> {
        if let Some(conflict) = conflicts(&plain.command, Some(plain.jdk.feature)).first() {
            return Err(Usage(format!(
                "the options {} of the target contradict each other: {}\n  next: change `options` in {}",
                conflict.options.join(" and "),
                conflict.why,
                self.file.display()
            ))
            .into());
        }
        let all = self.flags_in_force(plain)?;
        let is_shown = |name: &str, value: &str| SHOWN_FLAGS.contains(&name) && value != "false";
        let flags: BTreeMap<String, String> = all
            .into_iter()
            .filter(|(name, flag)| is_shown(name, &flag.value))
            .map(|(name, flag)| (name, flag.value))
            .collect();
        let collector = hone_jvm::setting::Gc::ALL.into_iter().find(|gc| flags.contains_key(gc.flag()));
        let heap = flags.get("MaxHeapSize").and_then(|bytes| bytes.parse::<u64>().ok());
        let note = format!(
            "{}, {}, heap up to {}",
            plain.jdk.title(),
            collector.map_or("unknown collector", |gc| gc.flag()),
            heap.map_or_else(|| "?".to_owned(), hone_format::bytes)
        );
        Ok(Told { note, command: None, result: Ground { jdk: plain.jdk.clone(), flags } })
    }

    /// The variants with their command lines, and why the others are left out.
    fn services(&self, plain: &Service) -> (Vec<Service>, BTreeMap<String, String>) {
        let (mut services, mut left_out) = (vec![plain.clone()], BTreeMap::new());
        let variants = self.experiment.variants.iter().filter(|variant| variant.name != BASELINE);
        for variant in variants {
            match self.service(plain, variant) {
                Ok(service) => services.push(service),
                Err(error) => {
                    left_out.insert(variant.name.clone(), format!("{error:#}"));
                }
            }
        }
        (services, left_out)
    }

    fn service(&self, plain: &Service, variant: &Variant) -> Result<Service> {
        let parts = parts(&variant.name).map_err(Left)?;
        let mut service = Service { name: variant.name.clone(), ..plain.clone() };
        // Another JDK decides which settings there are.
        for part in &parts {
            if let Part::Jdk(home) = part {
                let (java, jdk) = self.launcher_of(Path::new(home))?;
                service.command.java = java.display().to_string();
                service.jdk = jdk;
            }
        }
        for part in &parts {
            match part {
                Part::Jdk(_) => {}
                Part::Cache => service.has_cache = true,
                Part::Setting { name, value } => {
                    let set = with_setting(&service.command, name, value, Some(service.jdk.feature));
                    service.command = set.map_err(Left)?;
                }
            }
        }
        if service.has_cache && hone_jvm::cache::CacheKind::for_release(service.jdk.feature).is_none() {
            return Err(Left(format!("{} has no cache for applications", service.jdk.title())).into());
        }
        if service.command == plain.command && !service.has_cache {
            return Err(Left("the baseline has this setting already".to_owned()).into());
        }
        if let Some(conflict) = conflicts(&service.command, Some(service.jdk.feature)).first() {
            let options = conflict.options.join(" and ");
            return Err(Left(format!("{options} contradict each other: {}", conflict.why)).into());
        }
        Ok(service)
    }

    /// All variants in turns, round by round: a virtual machine warms up for long, so it serves several rounds. The control is the baseline,
    /// started a second time.
    fn judge_services(&self, steps: &mut Steps<'_>, services: &[Service]) -> Result<Judged> {
        let mut found = Judged { edges: Vec::new(), on_baseline: Vec::new() };
        let Some((plain, others)) = services.split_first() else { return Ok(found) };
        if others.is_empty() {
            return Ok(found);
        }
        let runner = |name: &str, service: &Service, parent| Runner {
            name: name.to_owned(),
            parent,
            arms: vec![self.arm_of(service)],
        };
        let twin = format!("{BASELINE}-twin");
        for workload in &self.experiment.judging {
            let first = self.arm_of(plain);
            let settings =
                &self.rounds_in_budget(steps, [others.len(), services.len() + 1], workload, &first)?;
            let judged = steps.run(Phase::Judge, &format!("judge-{}", workload.name), || {
                let mut variants = vec![runner(BASELINE, plain, None), runner(&twin, plain, None)];
                variants.extend(others.iter().map(|service| runner(&service.name, service, Some(0))));
                let rounds = Rounds {
                    plan: rounds::plan(settings, 1, workload, variants.len()),
                    variants,
                    workload: workload.clone(),
                    bench: self.bench(),
                    folder: self.folder,
                    prefix: format!("judge-{}/", workload.name),
                    fresh_programs: false,
                    limit_s: settings.budget.map(|budget| budget.0 * others.len() as f64),
                    machine: hone_host::observe::machine(Path::new("/")),
                    most_saved: None,
                };
                let judged = judge_rounds(&rounds, self.progress)?;
                let note = judged.edges.iter().map(hone_report::verdict::sentence).collect::<Vec<_>>();
                Ok(Told { note: note.join(" "), command: None, result: judged })
            })?;
            found.edges.extend(judged.edges);
        }
        let place = |name: &str| services.iter().position(|service| service.name == name);
        found.edges.sort_by_key(|comparison| place(&comparison.b));
        Ok(found)
    }

    fn optimization_of(
        &self,
        judged: Judged,
        left_out: &BTreeMap<String, String>,
        started_unix_ms: u64,
    ) -> Optimization {
        let facts = |variant: &Variant| {
            let parent = variant.parent.map(|_| BASELINE);
            let facts = VariantFacts::made(&variant.name, parent);
            match left_out.get(&variant.name) {
                Some(why) => VariantFacts { state: VariantState::LeftOut { why: why.clone() }, ..facts },
                None => facts,
            }
        };
        let mut variants: Vec<VariantFacts> = self.experiment.variants.iter().map(facts).collect();
        let workloads: Vec<&str> = self.experiment.judging.iter().map(|load| load.name.as_str()).collect();
        let best = judge::decide(&mut variants, &judged.edges, &[], &workloads);
        self.record(variants, judged, best, started_unix_ms)
    }
}

/// Keeps variants that only shorten the start, if they were compared and have no drawback. Returns the one that is ready first.
fn keep_for_starts(
    variants: &mut [VariantFacts],
    comparisons: &[Comparison],
    starts: &[JvmStarts],
) -> Option<String> {
    let mut best: Option<(f64, String)> = None;
    for variant in variants.iter_mut().filter(|variant| variant.decision != judge::KEEP) {
        let own: Vec<&Comparison> = comparisons.iter().filter(|one| one.b == variant.name).collect();
        let Some([ratio, low, high]) =
            starts.iter().find(|one| one.variant == variant.name).and_then(shorter)
        else {
            continue;
        };
        if own.is_empty() || judge::drawback(variant, &own).is_some() {
            continue;
        }
        variant.why = format!("it is ready in {ratio:.2} [{low:.2}, {high:.2}] of the time; {}", variant.why);
        variant.decision = judge::KEEP.to_owned();
        if best.as_ref().is_none_or(|(least, _)| ratio < *least) {
            best = Some((ratio, variant.name.clone()));
        }
    }
    best.map(|(_, name)| name)
}

/// The ratio of the time to ready with its interval, if all of it is below 1 and the CPU until ready did not grow.
fn shorter(starts: &JvmStarts) -> Option<[f64; 3]> {
    let cpu_grew = starts.ready_cpu_s.is_some_and(|cpu| cpu.is_more());
    starts.ready_s.filter(|ready| ready.is_less() && !cpu_grew)?.ratio
}

#[cfg(test)]
mod tests {
    use hone_experiment::fixture;
    use hone_record::{OverBaseline, Verdict};

    use super::*;

    fn starts(ready: [f64; 3], cpu: [f64; 3]) -> JvmStarts {
        let over = |ratio| Some(OverBaseline { median: 1.0, ratio: Some(ratio) });
        JvmStarts {
            variant: "aot".to_owned(),
            ready_s: over(ready),
            ready_cpu_s: over(cpu),
            ..JvmStarts::default()
        }
    }

    /// The decision on a variant with this verdict under load.
    fn kept(verdict: Option<Verdict>, starts: JvmStarts) -> bool {
        let mut variants = [VariantFacts::made("aot", Some(BASELINE))];
        let of = |verdict| {
            let mut found = fixture::comparison(Some(Verdict::Equivalent));
            found.judgements[0].verdict = verdict;
            found.b = "aot".to_owned();
            found
        };
        let comparisons: Vec<Comparison> = verdict.into_iter().map(of).collect();
        let best = keep_for_starts(&mut variants, &comparisons, &[starts]);
        assert_eq!(best.is_some(), variants[0].decision == judge::KEEP);
        best.is_some()
    }

    #[test]
    fn a_shorter_start_is_kept_unless_something_got_worse_or_nothing_was_compared() {
        let (less, same, more) = ([0.5, 0.4, 0.6], [1.0, 0.9, 1.1], [1.3, 1.2, 1.4]);
        assert!(kept(Some(Verdict::NotShown), starts(less, same)));
        assert!(kept(Some(Verdict::Equivalent), starts(less, less)));
        assert!(!kept(Some(Verdict::Worse), starts(less, less)));
        assert!(!kept(Some(Verdict::NotShown), starts(same, less)));
        assert!(!kept(Some(Verdict::NotShown), starts(less, more)), "it costs more CPU");
        assert!(!kept(None, starts(less, less)), "nobody knows what it does under load");
    }
}
