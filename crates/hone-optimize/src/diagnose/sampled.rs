//! The results of samples: the time by thread and function. Samples do not show the reason, so there is no verdict about the frontend.

use std::collections::HashMap;
use std::fs::File;
use std::path::Path;

use anyhow::{Context as _, Result};
use hone_diagnose::model::{self, PAGE_BITS, Run};
use hone_diagnose::perf::{self, Samples, Split};
use hone_format::count;
use hone_record::{
    CodeSplit, Diagnosis, Evidence, Footprint, Remedy, Watched, WatchedFunction, WatchedThread, demangled,
};

use super::found::notes_of;
use hone_experiment::emulated::image;

/// The most threads in a report.
pub(super) const MOST_THREADS: usize = 8;
/// The most functions in a report.
const MOST_FUNCTIONS: usize = 10;
/// From this share on, the kernel is the first thing to look at: no build changes it.
pub(super) const KERNEL_FIRST: f64 = 0.5;
/// With fewer samples per line, the program has more lines than the samples show.
const SAMPLES_OF_A_LINE: u64 = 35;
/// From this number of samples on, the number of pages hardly changes.
const SAMPLES_FOR_PAGES: u64 = 4_000;

/// Reads the output of `perf record`.
pub fn read(path: &Path) -> Result<Samples> {
    let cannot = || format!("{} can't be read as perf's data", path.display());
    let file = File::open(path).with_context(cannot)?;
    perf::read(file).with_context(cannot)
}

/// How reliable the footprint of samples is.
pub(crate) fn bias(run: &Run) -> String {
    let whole = run.whole();
    let samples = whole.instructions(run);
    let lines = model::heat(run, &whole, hone_diagnose::cache::LINE_BITS).len() as u64;
    let trust = match samples {
        few if few < SAMPLES_FOR_PAGES => "below 4,000 samples, numbers of lines and pages are a lower bound",
        some if some < SAMPLES_OF_A_LINE * lines => {
            "below 35 per line, the number of lines is a lower bound; the number of pages is reliable"
        }
        _ => "the numbers of lines and pages are reliable",
    };
    format!("{} samples of user code in {} lines of 64 B: {trust}", count(samples), count(lines))
}

/// A diagnosis from perf data alone.
pub fn of_data(samples: &Samples, name: &str) -> Diagnosis {
    let program = program_of(samples);
    let mut threads = threads_of(samples, program.as_deref());
    bound(&mut threads);
    let run = samples.run(image);
    let whole = code_split(samples, samples.whole(program.as_deref()));
    let mut watched = Watched {
        window_s: samples.span_ns as f64 / 1e9,
        threads,
        ..described(samples, &run, program.as_deref())
    };
    watched.next = next(share_of_kernel(&whole), "`hone diagnose hone.toml`");
    let mut notes = samples.notes.clone();
    notes.extend(notes_of_samples(samples, &run));
    Diagnosis {
        evidence: Evidence::Sampled,
        source: format!("{name}, {} samples of {}", count(samples.samples), samples.event),
        user_share: user_share(samples, &whole),
        parts: Vec::new(),
        shifts: Vec::new(),
        watched: Some(watched),
        notes,
    }
}

/// Notes about samples, for every diagnosis.
pub fn notes_of_samples(samples: &Samples, run: &Run) -> Vec<String> {
    let mut notes = Vec::new();
    if !samples.is_time {
        notes.push(format!(
            "samples of {} are not shares of time: record with -e cpu-clock for those",
            samples.event
        ));
    }
    if !samples.sees_kernel {
        notes.push(
            "only user mode was sampled: the kernel's share is unknown (that needs \
             kernel.perf_event_paranoid 1 or less, or CAP_PERFMON)"
                .to_owned(),
        );
    }
    notes.push(bias(run));
    notes.extend(unknown_builds(&samples.of_unknown_builds(run)));
    notes.extend(notes_of(run));
    notes
}

/// A rebuilt file has other functions at the same places, and perf's data does not show it.
fn unknown_builds(paths: &[&str]) -> Option<String> {
    let (first, more) = paths.split_first()?;
    let more = if more.is_empty() { String::new() } else { format!(" and of {} more files", more.len()) };
    Some(format!(
        "the data does not identify the build of {first}{more}: the names are right if that build is still \
         there (perf record without -B keeps build IDs, a link with -Wl,--build-id makes them)"
    ))
}

/// The figures that do not depend on `/proc`.
pub(super) fn described(samples: &Samples, run: &Run, program: Option<&str>) -> Watched {
    let whole = run.whole();
    let pages = model::heat(run, &whole, PAGE_BITS);
    Watched {
        program: program.map(str::to_owned),
        event: Some(samples.event.clone()),
        samples: Some(code_split(samples, samples.whole(program))),
        functions: functions(samples, run, program),
        footprints: vec![Footprint { unit_bytes: 1 << PAGE_BITS, units: model::curve(&pages) }],
        ..Watched::default()
    }
}

/// The program of the busiest thread.
fn program_of(samples: &Samples) -> Option<String> {
    let program = samples.threads.iter().find_map(|thread| thread.program)?;
    samples.paths.get(program as usize).cloned()
}

/// Threads with their samples.
pub(super) fn threads_of(samples: &Samples, program: Option<&str>) -> Vec<WatchedThread> {
    let thread = |thread: &perf::Thread| WatchedThread {
        name: thread.name.clone(),
        tid: Some(thread.tid),
        threads: 1,
        samples: Some(code_split(samples, samples.split(thread, program))),
        ..WatchedThread::default()
    };
    samples.threads.iter().map(thread).collect()
}

pub(super) fn code_split(samples: &Samples, split: Split) -> CodeSplit {
    CodeSplit {
        program: split.program,
        libraries: split.libraries,
        generated: split.generated,
        kernel: samples.sees_kernel.then_some(split.kernel),
        unknown: split.unknown,
    }
}

/// The program's own share of the CPU, if the samples measure it.
pub(super) fn user_share(samples: &Samples, whole: &CodeSplit) -> Option<f64> {
    whole.share(whole.program).filter(|_| samples.is_time && samples.sees_kernel)
}

pub(super) fn share_of_kernel(whole: &CodeSplit) -> Option<f64> {
    whole.share(whole.kernel?)
}

/// Functions of the program, and of the code that it made; the hottest first.
fn functions(samples: &Samples, run: &Run, program: Option<&str>) -> Vec<WatchedFunction> {
    let own = run.objects.iter().position(|object| Some(object.path.as_str()) == program);
    let own = own.map(|index| index as u32);
    let whole = run.whole();
    let mut sums: HashMap<&str, u64> = HashMap::new();
    for (index, block) in
        run.blocks.iter().enumerate().filter(|(_, block)| own.is_some() && block.object == own)
    {
        if let Some(name) = run.function_of(block) {
            *sums.entry(name).or_insert(0) += whole.count(index);
        }
    }
    for (name, count) in samples.threads.iter().flat_map(|thread| samples.names_of_generated(thread)) {
        *sums.entry(name).or_insert(0) += count;
    }
    let mut found: Vec<(&str, u64)> = sums.into_iter().collect();
    found.sort_by(|left, right| right.1.cmp(&left.1).then(left.0.cmp(right.0)));
    let told = found.into_iter().take(MOST_FUNCTIONS).map(|(name, count)| WatchedFunction {
        name: demangled(name),
        share: count as f64 / samples.samples.max(1) as f64,
    });
    told.collect()
}

/// The busiest threads first, and all further ones as one.
pub(super) fn bound(threads: &mut Vec<WatchedThread>) {
    let weight = |thread: &WatchedThread| {
        let samples = thread.samples.map_or(0, |split| split.all());
        (thread.cpu_s.unwrap_or(0.0), samples)
    };
    threads.sort_by(|left, right| {
        let (left_weight, right_weight) = (weight(left), weight(right));
        right_weight
            .0
            .total_cmp(&left_weight.0)
            .then(right_weight.1.cmp(&left_weight.1))
            .then(left.tid.cmp(&right.tid))
    });
    // One thread deserves its own line.
    if threads.len() > MOST_THREADS + 1 {
        let rest = threads.split_off(MOST_THREADS);
        threads.push(rest.into_iter().fold(WatchedThread::default(), and));
    }
}

/// Several threads as one with this name.
pub(super) fn together(name: &str, threads: impl Iterator<Item = WatchedThread>) -> WatchedThread {
    WatchedThread { name: name.to_owned(), ..threads.fold(WatchedThread::default(), and) }
}

fn and(sum: WatchedThread, other: WatchedThread) -> WatchedThread {
    let seconds = |one: Option<f64>, other: Option<f64>| match (one, other) {
        (Some(one), Some(other)) => Some(one + other),
        (one, other) => one.or(other),
    };
    let counts = |one: Option<u64>, other: Option<u64>| match (one, other) {
        (Some(one), Some(other)) => Some(one + other),
        (one, other) => one.or(other),
    };
    let samples = match (sum.samples, other.samples) {
        (Some(one), Some(other)) => Some(CodeSplit {
            program: one.program + other.program,
            libraries: one.libraries + other.libraries,
            generated: one.generated + other.generated,
            kernel: counts(one.kernel, other.kernel),
            unknown: one.unknown + other.unknown,
        }),
        (one, other) => one.or(other),
    };
    let threads = sum.threads + other.threads;
    WatchedThread {
        name: format!("{threads} other threads"),
        tid: None,
        threads,
        cpu_s: seconds(sum.cpu_s, other.cpu_s),
        system_s: seconds(sum.system_s, other.system_s),
        queued_s: seconds(sum.queued_s, other.queued_s),
        switches_voluntary: counts(sum.switches_voluntary, other.switches_voluntary),
        switches_involuntary: counts(sum.switches_involuntary, other.switches_involuntary),
        page_faults: counts(sum.page_faults, other.page_faults),
        samples,
    }
}

/// The next step, and how to do it.
pub(super) fn next(kernel_share: Option<f64>, emulated: &str) -> String {
    match kernel_share {
        Some(share) if share >= KERNEL_FIRST => Remedy::Kernel.advice().to_owned(),
        _ => format!(
            "run it under the emulator, which shows what misses and whether a layout helps: {emulated}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_busiest_are_told_alone_and_the_rest_as_one() {
        let thread = |at: u32| WatchedThread {
            name: format!("t{at}"),
            tid: Some(at),
            threads: 1,
            cpu_s: Some(f64::from(at)),
            samples: Some(CodeSplit { program: 1, kernel: Some(2), ..CodeSplit::default() }),
            ..WatchedThread::default()
        };
        let mut threads: Vec<WatchedThread> = (0..12).map(thread).collect();
        bound(&mut threads);
        assert_eq!((threads.len(), threads[0].name.as_str()), (MOST_THREADS + 1, "t11"));
        let rest = threads.last().unwrap();
        assert_eq!((rest.name.as_str(), rest.threads, rest.cpu_s), ("4 other threads", 4, Some(6.0)));
        assert_eq!(rest.samples.unwrap().all(), 12);
        let mut few: Vec<WatchedThread> = (0..9).map(thread).collect();
        bound(&mut few);
        assert_eq!(few.last().unwrap().name, "t0", "nine are no more lines than eight and a rest");
    }

    #[test]
    fn names_of_an_unknown_build_are_told() {
        assert_eq!(unknown_builds(&[]), None);
        assert!(unknown_builds(&["/a"]).unwrap().contains("identify the build of /a:"));
        assert!(
            unknown_builds(&["/a", "/b"]).unwrap().contains("identify the build of /a and of 1 more files:")
        );
    }

    #[test]
    fn half_of_it_in_the_kernel_is_the_kernels() {
        assert!(next(Some(0.5), "x").starts_with("the kernel: "));
        assert!(next(Some(0.49), "hone diagnose x").ends_with("hone diagnose x"));
        assert!(next(None, "y").contains("emulator"));
    }
}
