//! The plan of a run: its command lines. It builds, starts and measures nothing.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use hone_binary::perf::Event;
use hone_binary::{BuildRequest, Builder, Guide, ProfileForm};
use hone_record::{Engine, Workload};
use hone_tool::Call;

use super::harm::STARTS;
use super::kinds::{Kind as Kinds, perf};
use super::layouts;
use super::sampling::over;
use crate::job::Job;
use hone_experiment::spec::ProfileWish;
use hone_experiment::variants::{self, BASELINE, Made, Profile, Variant};

/// The plan as a text.
///
/// # Errors
/// Fails when the target can't be built this way, or when a tool is missing. The run itself would fail in the same way.
pub fn plan(job: &Job<'_>) -> Result<String> {
    if let Some(jvm) = crate::jvm::service_of(job) {
        return crate::jvm::plan(job, jvm);
    }
    let builder = job.builder()?;
    let (tools, variants) = job.variants(builder.kind())?;
    let compiler = job.compiler_kind(builder.kind())?;
    job.fits(&*builder, &variants, &compiler)?;
    let mut plan = Plan { job, builder: &*builder, text: String::new() };
    plan.head(&variants);
    plan.baseline(&variants, &compiler)?;
    plan.training(&variants, &compiler)?;
    for variant in variants.iter().skip(1) {
        plan.phase(&format!("build: {}", variant.name));
        match (variant.made, &tools) {
            (Made::Rewritten { from, by }, Some(tools)) => {
                let base = job.kept_program(&variants[from].name);
                let work = job.folder.join("bolt").join(&variant.name);
                let [instrument, rewrite] = tools.plan(&base, &work);
                plan.makes(&work);
                match job.planned_for_bolt(by)? {
                    Kinds::Counts | Kinds::Pprof => {
                        plan.line(&instrument.to_string());
                        plan.trains();
                        if job.experiment.profile == ProfileWish::Auto {
                            plan.line("# or, where perf gives branch records, in place of both:");
                            let data = plan.records(Event::Branches, &work);
                            plan.line(&format!(
                                "# {}",
                                tools.plan_conversion(&base, Event::Branches, &data, &work)?
                            ));
                        }
                    }
                    Kinds::Perf(event) => {
                        let data = plan.samples(&variants[from].name, event, &work);
                        plan.line(&tools.plan_conversion(&base, event, &data, &work)?.to_string());
                    }
                    Kinds::Emulated => {
                        plan.starts(&variants[from].name, None);
                        plan.line(
                            "# under qemu-user with Hone's tracer; Hone turns its output into aggregated \
                             branches for perf2bolt --pa",
                        );
                        plan.trains();
                    }
                    Kinds::Given { file, form } => {
                        plan.line(&format!("# the profile is {form}, {}", file.display()));
                    }
                }
                plan.line(&rewrite.to_string());
                for number in layouts::further(job.experiment.builds) {
                    let [base, made] =
                        [&variants[from].name, &variant.name].map(|name| layouts::name(name, number));
                    plan.line(&format!("# {made}: {base} rewritten in the same way, with the same profile"));
                }
            }
            _ => plan.all_builds(&job.order(variant, &job.work().join("profiles/PROFILE"), &compiler))?,
        }
        plan.check();
        if matches!(variant.made, Made::Rewritten { .. }) {
            plan.provokes();
            plan.line(&format!("# repeated for {} s", job.experiment.soak_s));
        }
    }
    plan.guard_rails();
    plan.judging(&variants);
    Ok(plan.text)
}

/// The plan uses a temporary folder. The printed commands name it by a variable.
pub fn in_runs(text: &str, made_in: &str, runs: &str) -> String {
    // A Java service is not built.
    if !text.contains(made_in) {
        return text.to_owned();
    }
    let head = format!(
        "RUNS={}\n# Folder for runs and builds. You can paste the commands up to the first start of a \
         program as they are: they make the\n# plain build. The later commands use files that a run makes: \
         {{port}} and {{data}} of a start, the merged PROFILE, the object\n# profile_dump.o of an \
         instrumented build, and each built program in bin/, where Hone copies it.\n",
        shlex::try_quote(runs).unwrap_or(runs.into())
    );
    text.lines().fold(head, |all, line| all + &with_variable(line, made_in) + "\n")
}

/// Replaces a path by `"$RUNS"`, also inside a word in single quotes, where a shell expands no variable.
fn with_variable(line: &str, path: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    let (mut is_quoted, mut is_escaped) = (false, false);
    while let Some(letter) = rest.chars().next() {
        if let Some(behind) = rest.strip_prefix(path).filter(|_| !path.is_empty()) {
            out.push_str(if is_quoted { "'\"$RUNS\"'" } else { "\"$RUNS\"" });
            rest = behind;
            continue;
        }
        is_quoted ^= letter == '\'' && !is_escaped;
        is_escaped = letter == '\\' && !is_quoted && !is_escaped;
        out.push(letter);
        rest = &rest[letter.len_utf8()..];
    }
    out
}

struct Plan<'a, 'b> {
    job: &'a Job<'b>,
    builder: &'a dyn Builder,
    text: String,
}

impl Plan<'_, '_> {
    fn line(&mut self, line: &str) {
        // Every line of a message must be a comment.
        let line = if line.starts_with('#') { line.replace('\n', "\n# ") } else { line.to_owned() };
        // Writing into a text never fails.
        let _ = writeln!(self.text, "{line}");
    }

    fn phase(&mut self, name: &str) {
        self.line(&format!("\n# {name}"));
    }

    fn head(&mut self, variants: &[Variant]) {
        let kind = self.builder.kind();
        let names: Vec<&str> = variants.iter().map(|variant| variant.name.as_str()).collect();
        self.line(&format!("# {}: {kind}; variants {}", self.job.experiment.name, names.join(", ")));
        for tool in self.builder.receipts() {
            self.line(&format!("# {}: {} ({})", tool.name, tool.version, tool.path));
        }
        self.line(
            "# Hone fills in {port}, {port2} and {data} at each start, and PROFILE after it has merged and \
             verified the profile.",
        );
    }

    fn builds(&mut self, order: &BuildRequest) -> Result<()> {
        for command in self.builder.commands(order)? {
            self.line(&command);
        }
        Ok(())
    }

    /// The first build of a variant, and its builds with other layouts.
    fn all_builds(&mut self, first: &BuildRequest) -> Result<()> {
        self.builds(first)?;
        for number in layouts::further(self.job.experiment.builds) {
            self.line(&format!("# with another layout: {}", layouts::name(&first.variant, number)));
            self.builds(&layouts::order(first, number))?;
        }
        Ok(())
    }

    fn baseline(&mut self, variants: &[Variant], compiler: &Kinds) -> Result<()> {
        self.phase("baseline");
        self.all_builds(&self.job.order(&variants[0], Path::new(""), compiler))?;
        self.starts(BASELINE, None);
        let experiment = self.job.experiment;
        if self.job.target().check.is_some() {
            self.check();
        }
        if variants::needs_bolt(variants) {
            self.provokes();
        }
        self.loads("probed for its ceiling", experiment.judging.iter());
        if experiment.diagnose {
            let load = experiment.training.iter().map(|training| &training.workload).take(1);
            self.loads("traced under qemu-user, if present, to find why it stalls,", load);
        }
        Ok(())
    }

    fn training(&mut self, variants: &[Variant], compiler: &Kinds) -> Result<()> {
        let profiles = variants::profiles(variants);
        if profiles.is_empty() {
            return Ok(());
        }
        self.phase("train");
        let experiment = self.job.experiment;
        let training = || experiment.training.iter().map(|training| &training.workload);
        match compiler {
            // An emulator's trace contains nothing for a compiler.
            Kinds::Counts | Kinds::Emulated => {}
            Kinds::Pprof => {
                self.starts(BASELINE, None);
                let windows = experiment.go.windows;
                self.loads(&format!("profiled by net/http/pprof in windows ({windows})"), training());
                return Ok(());
            }
            Kinds::Perf(event) => {
                self.builds(&BuildRequest::plain("traceable").guided(Guide::Traceable))?;
                let folder = self.job.folder.join("profile-raw/first");
                let data = self.samples("traceable", *event, &folder);
                let program = self.job.kept_program("traceable");
                let line = self.builder.converter()?.plan(&data, &program, &folder.join("branches.prof"));
                self.line(&line);
                return Ok(());
            }
            Kinds::Given { file, form } => {
                self.line(&format!("# the profile is {form}, {}", file.display()));
                if *form == ProfileForm::Counts {
                    self.builds(&BuildRequest::plain("instrumented").guided(Guide::Generate))?;
                }
                return Ok(());
            }
        }
        self.builds(&BuildRequest::plain("instrumented").guided(Guide::Generate))?;
        self.starts("instrumented", Some(&self.job.folder.join("profile-raw/first")));
        self.loads("trained", training());
        if profiles.contains(&Profile::Second) {
            let first = self.job.work().join("profiles/PROFILE");
            self.builds(&BuildRequest::plain("cs-instrumented").guided(Guide::CsGenerate(first)))?;
            self.starts("cs-instrumented", Some(&self.job.folder.join("profile-raw/second")));
            self.loads("trained", training());
        }
        Ok(())
    }

    fn trains(&mut self) {
        let experiment = self.job.experiment;
        self.loads("trained", experiment.training.iter().map(|training| &training.workload));
    }

    fn makes(&mut self, folder: &Path) {
        let call = Call::new("make-folder", "mkdir", "/").args(["-p", "--"]).arg(folder);
        self.line(&call.to_string());
    }

    /// perf's command line.
    fn recording(&self, event: Event, data: &Path) -> Result<String> {
        let first = self.job.experiment.training.first();
        let perf = first.into_iter().fold(perf()?, |perf, training| over(perf, &training.workload));
        let line = perf.record(event, &[], data).to_string();
        Ok(format!("{}PID", line.trim_end_matches("''")))
    }

    /// Samples a program under load. Returns the place of perf's data.
    fn samples(&mut self, variant: &str, event: Event, folder: &Path) -> PathBuf {
        self.makes(folder);
        self.starts(variant, None);
        let data = folder.join("perf.data");
        match self.recording(event, &data) {
            Ok(line) => self.line(&line),
            Err(error) => self.line(&format!("# {error:#}")),
        }
        self.trains();
        data
    }

    /// The perf commands, as comments. Returns the place of perf's data.
    fn records(&mut self, event: Event, folder: &Path) -> PathBuf {
        let data = folder.join("perf.data");
        let said = self.recording(event, &data).unwrap_or_else(|error| format!("{error:#}"));
        self.line(&format!("# {said}"));
        data
    }

    /// The start command of a variant.
    fn starts(&mut self, variant: &str, raw: Option<&Path>) {
        let target = self.job.target();
        let program = self.job.kept_program(variant);
        let mut call = Call::new("start", program, "{data}").args(target.args.iter().cloned());
        for (name, value) in &target.env {
            call = call.env(name, value);
        }
        for (name, value) in raw.map(|raw| self.builder.training_env(raw)).unwrap_or_default() {
            call = call.env(name, value);
        }
        self.line(&call.to_string());
    }

    fn loads<'w>(&mut self, what: &str, workloads: impl Iterator<Item = &'w Workload>) {
        for workload in workloads {
            if let Engine::Tool { populate, warmup, .. } = &workload.engine {
                for (what, words) in [("filled", populate), ("warmed", warmup)] {
                    if let Some(words) = words {
                        self.line(&format!("# {what} by: {}", words.join(" ")));
                    }
                }
            }
            self.line(&format!(
                "# {what} with {}: {}",
                workload.name,
                hone_report::load::load_text(workload)
            ));
        }
    }

    fn check(&mut self) {
        let check = self.job.target().check.as_ref().map(|words| words.join(" "));
        self.line(&match check {
            Some(words) => format!("# checked by every judging workload, and by: {words}"),
            None => "# checked by every judging workload".to_owned(),
        });
    }

    fn provokes(&mut self) {
        if let Some(by) = self.job.provoked_by() {
            self.line(&format!("# provoked under load by: {by}"));
        }
    }

    fn guard_rails(&mut self) {
        let Some(workload) = self.job.experiment.judging.first() else { return };
        let (starts, start_up) = match self.job.serves() {
            true => (format!("started {STARTS} times, and "), "start-up, "),
            false => (String::new(), ""),
        };
        self.line(&format!(
            "\n# each variant is {starts}loaded with {}: {start_up}memory, code size and file size compared \
             with the baseline's",
            workload.name
        ));
    }

    fn judging(&mut self, variants: &[Variant]) {
        self.phase("judge");
        let settings = &self.job.experiment.compare;
        for workload in &self.job.experiment.judging {
            let how = match (workload.engine.operations(), settings.budget) {
                (_, Some(budget)) => {
                    format!("at most {} for each comparison", hone_format::duration(budget.0))
                }
                (None, None) => {
                    format!("{} pairs and {} of the control", settings.pairs, settings.control_pairs)
                }
                (Some(_), None) => format!("{} rounds, all variants in each", settings.rounds),
            };
            self.line(&format!("# {}: {how}; {}", workload.name, hone_report::load::load_text(workload)));
        }
        for variant in variants.iter().filter(|variant| variant.judged) {
            if let Some(parent) = variant.parent {
                self.line(&format!("# {} compared with {}", variant.name, variants[parent].name));
            }
        }
        if let Some(bench) = &self.job.experiment.go.bench {
            self.line(&format!(
                "# without and with the profile, by Go's own benchmarks: {}, pattern {}, {} rounds of {}",
                bench.packages.join(" "),
                bench.pattern,
                bench.rounds,
                bench.benchtime
            ));
        }
        if self.job.experiment.go.place {
            self.line(
                "# if pgo is kept, Hone places the profile in the main package's folder as default.pgo",
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_goes_is_a_variable_also_in_quotes() {
        let text = "# plan\ncd /tmp/x/a && A='/tmp/x/%m b' /tmp/x/run '/tmp/x' é";
        let said = in_runs(text, "/tmp/x", "my runs");
        let lines: Vec<&str> = said.lines().collect();
        assert_eq!(lines[0], "RUNS='my runs'");
        assert_eq!(lines[5], "cd \"$RUNS\"/a && A=''\"$RUNS\"'/%m b' \"$RUNS\"/run ''\"$RUNS\"'' é");
    }

    /// As a shell understands it.
    #[test]
    fn what_is_pasted_means_the_same() {
        use hone_tool::{Call, Runner as _, System};
        let dir = tempfile::tempdir().unwrap();
        let system = System::new(dir.path().join("log")).unwrap();
        let call =
            Call::new("echo", "/bin/echo", "/").arg("/tmp/x/%m b'c /tmp/x").arg("/tmp/x/d").arg("{port}");
        let text = in_runs(&call.to_string(), "/tmp/x", "/var/my runs");
        let shell = Call::new("pasted", "/bin/sh", "/").args(["-c", &text]);
        let said = system.run(&shell).unwrap().stdout_text().unwrap();
        assert_eq!(said, "/var/my runs/%m b'c /var/my runs /var/my runs/d {port}\n");
    }
}
