//! perf: samples of an unchanged program, without an instrumented build.
//!
//! Hone tests what a machine supports. perf lists events by the CPU's model number, but a virtual machine has the number without the
//! counters, and `perf record -e cycles:u` silently takes the clock instead of a missing counter and exits with 0.

pub(crate) mod refusal;

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use hone_record::ToolReceipt;
use hone_tool::{Call, Readiness, Runner, Session, Tool, ToolError, interrupt};
use serde::{Deserialize, Serialize};

use crate::refusal::Refusal;
pub use refusal::{FEWEST_SAMPLES, PerfRefusal};

/// The most samples per second. The odd number avoids beats with periodic work; the kernel takes fewer if sampling would cost too much
/// (`kernel.perf_cpu_time_max_percent`).
const FREQUENCY_HZ: u32 = 4_999;

/// This many samples of all cores together are enough for a profile; with 32 branches each they are some 400 MB of perf's data.
const MOST_SAMPLES: f64 = 500_000.0;

/// The least samples per second, so that almost idle processes also appear.
const LEAST_HZ: u32 = 49;

/// A trial takes a fraction of a second.
const TRIAL_LIMIT: Duration = Duration::from_secs(20);

/// Number of attempts to start perf on processes that come and go.
const STARTS: u32 = 10;

/// perf opens a counter for each thread and CPU before it samples.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Keeps a core busy for some 50 ms, in user mode.
const BUSY: &str = "i=0; while [ $i -lt 40000 ]; do i=$((i+1)); done";

/// The sampled event, always in user mode: a build can't change anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// Cycles, each with the branches before it.
    Branches,
    /// Cycles.
    Cycles,
    /// The clock, which needs no counter.
    Clock,
}

impl Event {
    fn name(self) -> &'static str {
        match self {
            Self::Branches | Self::Cycles => "cycles:u",
            Self::Clock => "cpu-clock:u",
        }
    }

    /// Its common name.
    pub fn text(self) -> &'static str {
        match self {
            Self::Branches => "branch records",
            Self::Cycles => "samples of cycles",
            Self::Clock => "samples of the clock",
        }
    }
}

/// perf, found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Perf {
    program: PathBuf,
    receipt: ToolReceipt,
    frequency_hz: u32,
}

impl Perf {
    /// Finds it; `HONE_PERF` names another one.
    ///
    /// # Errors
    /// When it is not there; with the package.
    pub fn find() -> Result<Self> {
        let found = Tool::new("perf", "HONE_PERF").debian("linux-perf").locate(&[])?;
        Ok(Self {
            program: found.path().to_path_buf(),
            receipt: found.receipt()?,
            frequency_hz: FREQUENCY_HZ,
        })
    }

    /// With a sampling rate at which `cores` busy cores give at most half a million samples in `duration_s`.
    #[must_use]
    pub fn over(self, cores: u32, duration_s: f64) -> Self {
        let wanted = MOST_SAMPLES / (f64::from(cores.max(1)) * duration_s.max(1.0));
        // Odd again.
        let wanted = (wanted as u32) | 1;
        Self { frequency_hz: wanted.clamp(LEAST_HZ, FREQUENCY_HZ), ..self }
    }

    /// Its receipt.
    pub fn receipt(&self) -> &ToolReceipt {
        &self.receipt
    }

    /// Starts [`Perf::record`], and waits until it samples. perf exits if a listed process has ended meanwhile: Hone then starts it again
    /// with a new list.
    ///
    /// # Errors
    /// [`PerfRefusal::Broke`] if it exits each time; otherwise the errors of `pids`, and when `data` can't be removed.
    pub fn watch(
        &self,
        runner: &dyn Runner,
        event: Event,
        pids: impl Fn() -> Result<Vec<u32>>,
        data: &Path,
    ) -> Result<Session> {
        let mut said = String::new();
        for _ in 0..STARTS {
            if data.exists() {
                fs::remove_file(data).with_context(|| format!("{} can't be removed", data.display()))?;
            }
            let mut session = runner.start(&self.record(event, &pids()?, data))?;
            // perf writes the head of its data after it has opened all counters.
            let looks_on = || match data.metadata() {
                Ok(facts) if facts.len() > 0 => Readiness::Ready,
                _ => Readiness::NotYet("its data has no header yet".to_owned()),
            };
            match session.wait_until(START_LIMIT, looks_on) {
                Ok(()) => return Ok(session),
                Err(ToolError::Died { scene, status, .. }) => {
                    said = format!("{} ({status})", words_of_refusal(&scene.stderr));
                }
                Err(error) => return Err(error.into()),
            }
        }
        let said = format!("it ended {STARTS} times as it began to sample; the last time: {said}");
        Err(Refusal::from(PerfRefusal::Broke { data: data.to_path_buf(), said }).into())
    }

    /// Records running processes until SIGTERM, or until they end.
    pub fn record(&self, event: Event, pids: &[u32], data: &Path) -> Call {
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        let folder = data.parent().unwrap_or(Path::new("/"));
        Call::new("perf-record", &self.program, folder)
            .args(self.arguments(event, data))
            .arg("-p")
            .arg(pids.join(","))
    }

    /// The words before a program that is recorded from start to end: perf, and its arguments.
    pub fn around(&self, event: Event, data: &Path) -> (PathBuf, Vec<OsString>) {
        let mut words = self.arguments(event, data);
        words.push("--".into());
        (self.program.clone(), words)
    }

    /// Records a shell that keeps a core busy, and checks the data. The inner error is why there is none.
    ///
    /// # Errors
    /// Fails when `scratch` can't be written, or when Hone is interrupted.
    pub fn tries(
        &self,
        runner: &dyn Runner,
        scratch: &Path,
        event: Event,
    ) -> Result<Result<(), PerfRefusal>> {
        fs::create_dir_all(scratch).with_context(|| format!("{} can't be made", scratch.display()))?;
        let data = scratch.join("perf-trial.data");
        let (perf, words) = self.around(event, &data);
        let call = Call::new("perf-trial", perf, scratch).args(words).args(["/bin/sh", "-c", BUSY]);
        let tried = runner.run(&call.limit(TRIAL_LIMIT).produces(&data));
        let said = match tried {
            Ok(_) => self.lacks(runner, scratch, event, &data)?,
            Err(error) if interrupt::requested() => return Err(error.into()),
            Err(ToolError::Failed { scene, .. }) => Some(words_of_refusal(&scene.stderr)),
            Err(error) => Some(error.to_string().lines().next().unwrap_or_default().to_owned()),
        };
        let _ = fs::remove_file(&data);
        Ok(match said {
            None => Ok(()),
            Some(said) if event == Event::Branches => Err(PerfRefusal::NoBranches { said }),
            Some(said) => Err(PerfRefusal::NoSamples { said }),
        })
    }

    /// The event for plain samples: cycles if they are counted, otherwise the clock.
    ///
    /// # Errors
    /// As [`Perf::tries`]; the inner one if there is neither.
    pub fn plain_event(&self, runner: &dyn Runner, scratch: &Path) -> Result<Result<Event, PerfRefusal>> {
        if self.tries(runner, scratch, Event::Cycles)?.is_ok() {
            return Ok(Ok(Event::Cycles));
        }
        Ok(self.tries(runner, scratch, Event::Clock)?.map(|()| Event::Clock))
    }

    /// Refuses data with hardly any samples, whatever each of them contains: a profile of branch records counts branches, up to 32 per
    /// sample.
    ///
    /// # Errors
    /// [`PerfRefusal::Thin`]; otherwise when perf can't read the data.
    pub fn enough(&self, runner: &dyn Runner, data: &Path) -> Result<()> {
        let folder = data.parent().unwrap_or(Path::new("/"));
        let call =
            Call::new("perf-samples", &self.program, folder).args(["script", "-F", "ip", "-i"]).arg(data);
        let finished = runner.run(&call)?;
        let path = &finished.stdout_path;
        let listed = fs::File::open(path).with_context(|| format!("{} can't be read", path.display()))?;
        let mut samples = 0;
        for line in BufReader::new(listed).split(b'\n') {
            samples += u64::from(!line?.trim_ascii().is_empty());
            if samples == FEWEST_SAMPLES {
                break;
            }
        }
        // Larger data has enough samples in any case, so Hone need not count them.
        let _ = fs::remove_file(path);
        Ok(enough(data, samples)?)
    }

    fn arguments(&self, event: Event, data: &Path) -> Vec<OsString> {
        let mut words: Vec<OsString> = ["record", "-e", event.name()].map(OsString::from).to_vec();
        if event == Event::Branches {
            words.extend(["-j", "any,u"].map(OsString::from));
        }
        // Keeps build-ids, which bind perf's data to a program: of all mapped files, so that perf does not read its data once more at its
        // end. It keeps no copies of the programs below ~/.debug.
        let frequency = self.frequency_hz.to_string();
        words.extend(["-N", "--buildid-all", "-F", &frequency, "-o"].map(OsString::from));
        words.push(data.as_os_str().to_owned());
        words
    }

    /// The requested event that perf's data lacks.
    fn lacks(&self, runner: &dyn Runner, folder: &Path, event: Event, data: &Path) -> Result<Option<String>> {
        let asked = |what: &str, words: &[&str]| {
            let call = Call::new(what, &self.program, folder).args(words.iter().copied()).arg("-i").arg(data);
            let finished = runner.run(&call.limit(TRIAL_LIMIT))?;
            Ok::<_, anyhow::Error>(finished.stdout_text()?)
        };
        let events = asked("perf-evlist", &["evlist"])?;
        if let Some(other) = other_event(&events, event) {
            return Ok(Some(format!("Hone requested {}, but perf recorded {other}", event.name())));
        }
        let fields = if event == Event::Branches { "brstack" } else { "ip" };
        let text = asked("perf-script", &["script", "-F", fields])?;
        let is_there = match event {
            Event::Branches => has_branches(&text),
            Event::Cycles | Event::Clock => !text.trim().is_empty(),
        };
        Ok((!is_there).then(|| format!("perf succeeded, but its data has no {}", event.text())))
    }
}

/// Another event than the requested one, from `perf evlist`. Modifiers after the second `:` are perf's own (`cpu-clock:uH`).
fn other_event(listed: &str, wanted: Event) -> Option<String> {
    let plain = |name: &str| name.split(':').next().unwrap_or_default().trim().to_owned();
    let wanted = plain(wanted.name());
    let recorded = listed.lines().map(plain).find(|name| !name.is_empty() && !name.starts_with('#'));
    match recorded {
        // A hybrid CPU writes `cpu_core/cycles/u`.
        Some(name) if name == wanted || name.contains(&format!("/{wanted}/")) => None,
        Some(name) => Some(name),
        None => Some("nothing".to_owned()),
    }
}

/// A call whose PATH begins with this folder, with a link to the perf that records: perf2bolt and llvm-profgen look for `perf` in PATH,
/// where there may be none, or one that can't read this data. Unchanged if Hone finds no perf, which text input does not need.
///
/// # Errors
/// Fails when the link can't be made.
pub(crate) fn with_perf(call: Call, folder: &Path) -> Result<Call> {
    match Perf::find() {
        Ok(perf) => Ok(call.env("PATH", path_with(&perf.program, folder)?)),
        Err(_) => Ok(call),
    }
}

fn path_with(program: &Path, folder: &Path) -> Result<OsString> {
    let link = folder.join("perf");
    let told = || format!("{} can't be linked to {}", link.display(), program.display());
    symlink(std::path::absolute(program).with_context(told)?, &link).with_context(told)?;
    let own = env::var_os("PATH").unwrap_or_default();
    Ok(env::join_paths(std::iter::once(folder.to_path_buf()).chain(env::split_paths(&own)))?)
}

/// Whether a line of `perf script -F brstack` has a branch: `0x1234/0x1250/P/-/-/0`.
fn has_branches(text: &str) -> bool {
    let is_branch = |word: &str| {
        let mut ends = word.split('/').take(2);
        let mut is_address =
            || ends.next().and_then(|end| end.strip_prefix("0x")).is_some_and(|hex| !hex.is_empty());
        is_address() && is_address()
    };
    text.split_whitespace().any(is_branch)
}

/// perf prints `Error:`, and then the reason.
fn words_of_refusal(lines: &[String]) -> String {
    let said = lines.iter().map(|line| line.trim()).find(|line| !line.is_empty() && *line != "Error:");
    said.map_or_else(|| "it failed without a message".to_owned(), |said| format!("perf reports \"{said}\""))
}

/// Refuses a profile with hardly any samples.
///
/// # Errors
/// [`PerfRefusal::Thin`].
pub fn enough(data: &Path, samples: u64) -> Result<(), Refusal> {
    if samples < FEWEST_SAMPLES {
        return Err(PerfRefusal::Thin { data: data.to_path_buf(), samples }.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::thread;

    use hone_tool::System;

    use super::*;

    /// Recorded from perf 6.1 on a virtual machine.
    #[test]
    fn the_clock_in_place_of_a_counter_is_seen() {
        assert_eq!(other_event("cpu-clock:uH\n", Event::Cycles), Some("cpu-clock".to_owned()));
        assert_eq!(other_event("cpu-clock:u\n", Event::Clock), None);
        assert_eq!(other_event("cycles:u\n# Tip: x\n", Event::Branches), None);
        assert_eq!(other_event("cpu_core/cycles/u\n", Event::Cycles), None);
        assert_eq!(other_event("", Event::Clock), Some("nothing".to_owned()));
    }

    #[test]
    fn branches_are_told_from_samples_without_them() {
        assert!(has_branches("  0x40062f/0x4005b0/P/-/-/9  0x400645/0x4005ff/P/-/-/1\n"));
        for none in ["", "\n \n", "     7f045d1f191c\n", "0x/0x/P", "0x12/34/P"] {
            assert!(!has_branches(none), "{none}");
        }
    }

    #[test]
    fn perf_is_quoted_behind_its_first_word() {
        let lines =
            ["Error:", "cpu-clock:uH: PMU Hardware or event type doesn't support branch stack sampling."];
        let said = words_of_refusal(&lines.map(str::to_owned));
        assert!(said.starts_with("perf reports \"cpu-clock:uH: PMU Hardware"), "{said}");
        assert_eq!(words_of_refusal(&[]), "it failed without a message");
    }

    /// Next to none of a program that ends at once, and hundreds of one that keeps a core busy.
    #[test]
    fn samples_are_counted_and_not_what_each_of_them_holds() {
        let skip = |why: &str| {
            assert!(std::env::var_os("HONE_REQUIRE_TOOLS").is_none_or(|value| value != "1"), "{why}");
        };
        let Ok(perf) = Perf::find() else { return skip("perf is missing") };
        let dir = tempfile::tempdir().unwrap();
        let system = hone_tool::System::new(dir.path().join("log")).unwrap();
        if perf.tries(&system, dir.path(), Event::Clock).unwrap().is_err() {
            return skip("perf can't sample here");
        }
        let recorded = |script: &str| {
            let data = dir.path().join("perf.data");
            let (program, words) = perf.around(Event::Clock, &data);
            let call = Call::new("record", program, dir.path()).args(words).args(["/bin/sh", "-c", script]);
            system.run(&call.produces(&data)).unwrap();
            perf.enough(&system, &data).map_err(|error| error.to_string())
        };
        let thin = recorded(":").unwrap_err();
        assert!(thin.contains("do not show which code is hot"), "{thin}");
        recorded(&BUSY.replace("40000", "400000")).unwrap();
    }

    #[test]
    #[expect(clippy::print_stderr, reason = "a test that does not run must say so")]
    fn a_process_that_ended_as_perf_began_is_left_out() {
        let perf = match Perf::find() {
            Ok(perf) => perf,
            Err(error) => {
                let must = std::env::var_os("HONE_REQUIRE_TOOLS").is_some_and(|value| value == "1");
                assert!(!must, "{error:#}");
                return eprintln!("skipped: {error:#}");
            }
        };
        let dir = tempfile::tempdir().unwrap();
        let system = System::new(dir.path().join("log")).unwrap();
        let sh = |body: &str| Call::new("busy", "/bin/sh", dir.path()).args(["-c", body]);
        let busy = system.start(&sh("while :; do :; done")).unwrap();
        let gone = system.start(&sh("true")).unwrap();
        let gone_pid = gone.pid();
        drop(gone);
        let data = dir.path().join("perf.data");

        let looks = Cell::new(0);
        let pids = || {
            looks.set(looks.get() + 1);
            Ok(if looks.get() == 1 { vec![busy.pid(), gone_pid] } else { vec![busy.pid()] })
        };
        let session = perf.watch(&system, Event::Clock, pids, &data).unwrap();
        assert_eq!(looks.get(), 2, "perf takes no list with a process that has gone");
        thread::sleep(Duration::from_millis(500));
        session.stop(TRIAL_LIMIT).unwrap();
        assert_eq!(perf.lacks(&system, dir.path(), Event::Clock, &data).unwrap(), None);

        let refused = perf.watch(&system, Event::Clock, || Ok(vec![gone_pid]), &data).unwrap_err();
        let told = refused.to_string();
        assert!(told.contains("ended too early") && told.contains("10 times"), "{told}");
        assert!(!told.contains("branch records"), "{told}");
    }

    #[test]
    fn a_call_names_all_processes() {
        let perf = Perf {
            program: PathBuf::from("/usr/bin/perf"),
            receipt: ToolReceipt {
                name: "perf".to_owned(),
                path: "/usr/bin/perf".to_owned(),
                version: "perf version 6.1".to_owned(),
            },
            frequency_hz: FREQUENCY_HZ,
        };
        let line = perf.record(Event::Branches, &[7, 9], Path::new("/w/perf.data")).to_string();
        assert_eq!(
            line,
            "cd /w && /usr/bin/perf record -e cycles:u -j any,u -N --buildid-all -F 4999 -o /w/perf.data -p 7,9"
        );
        let (_, words) = perf.around(Event::Clock, Path::new("/w/d"));
        assert_eq!(words.join(" ".as_ref()), "record -e cpu-clock:u -N --buildid-all -F 4999 -o /w/d --");
        let hz = |cores, duration_s| perf.clone().over(cores, duration_s).frequency_hz;
        assert_eq!([hz(2, 10.0), hz(64, 120.0), hz(1_000, 3_600.0)], [4_999, 65, 49]);
        assert_eq!(hz(0, 0.0), 4_999);
    }

    /// Asked as the tools ask.
    #[test]
    fn the_perf_that_records_is_the_first_in_path() {
        let dir = tempfile::tempdir().unwrap();
        let other = dir.path().join("perf-of-mine");
        fs::copy("/bin/true", &other).unwrap();
        let links = dir.path().join("links");
        fs::create_dir(&links).unwrap();
        let path = path_with(&other, &links).unwrap();
        let system = hone_tool::System::new(dir.path().join("log")).unwrap();
        let call = Call::new("which", "/bin/sh", dir.path()).args(["-c", "command -v perf"]);
        let said = system.run(&call.env("PATH", path)).unwrap().stdout_text().unwrap();
        assert_eq!(said.trim(), links.join("perf").to_str().unwrap());
        assert_eq!(fs::canonicalize(said.trim()).unwrap(), fs::canonicalize(&other).unwrap());
    }
}
