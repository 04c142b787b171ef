//! The CPU sampler against processes whose CPU time is known: each burns until its own CPU clocks say so, and reports
//! what the kernel accounted to it and to its children.

#![expect(clippy::disallowed_methods, reason = "starts copies of this test as the processes to be sampled")]

use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use hone_host::HostError;
use hone_host::cpu::{self, CpuSample};

/// Variable with the workload for a copy of this test.
const PLAN: &str = "HONE_TEST_BURN";
/// Stands before what a copy says, because the test harness writes to the same pipe.
const MARK: &str = "burned-ns:";

/// A copy of this test that does one plan, says what it burned, and waits until its input ends.
struct Burner {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Burner {
    fn start(plan: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["burner", "--exact", "--ignored", "--nocapture", "--test-threads=1"])
            .env(PLAN, plan)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut burner = Self { child, input, output };
        // The first report says that it stands ready.
        burner.report();
        burner
    }

    /// Nanoseconds of CPU that the copy used so far, children included, as it says itself.
    fn report(&mut self) -> u64 {
        let mut line = String::new();
        loop {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the burner ended early");
            if let Some((_, number)) = line.split_once(MARK) {
                return number.trim().parse().unwrap();
            }
        }
    }

    fn go(&mut self) -> u64 {
        self.input.as_mut().unwrap().write_all(b"go\n").unwrap();
        self.report()
    }

    fn sample(&self) -> CpuSample {
        cpu::sample(self.child.id()).unwrap()
    }

    fn end(mut self) -> u32 {
        drop(self.input.take());
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success());
        self.child.id()
    }
}

/// Samples around one plan; gives the sampled seconds, the user share, and the seconds that the copy said it burned.
fn measure(plan: &str) -> (f64, Option<f64>, f64) {
    let mut burner = Burner::start(plan);
    let ready_ns = burner.sample();
    let (first, second) = (burner.go(), burner.sample());
    let used = cpu::between(&ready_ns, &second);
    burner.end();
    (used.total_s, used.user_share, first as f64 / 1e9)
}

/// Ticks round down, on both sides and for each process; the rest is what the copy needs for its pipes.
const TOLERANCE_S: f64 = 0.05;

#[track_caller]
fn agrees(sampled_s: f64, burned_s: f64, at_least_s: f64) {
    assert!(burned_s >= at_least_s, "the burner burned only {burned_s} s");
    assert!((sampled_s - burned_s).abs() < TOLERANCE_S, "sampled {sampled_s} s, burned {burned_s} s");
}

#[test]
fn one_thread_is_counted_and_is_user_time() {
    let (sampled, user_share, burned) = measure("self 300");
    agrees(sampled, burned, 0.3);
    assert!(user_share.unwrap() > 0.8, "{user_share:?}");
}

#[test]
fn time_in_the_kernel_is_not_user_time() {
    let (sampled, user_share, burned) = measure("kernel 300");
    agrees(sampled, burned, 0.3);
    assert!(user_share.unwrap() < 0.5, "{user_share:?}");
}

#[test]
fn threads_that_ended_are_counted() {
    let (sampled, _, burned) = measure("threads 100");
    agrees(sampled, burned, 0.3);
}

#[test]
fn a_child_that_ended_and_was_waited_for_is_counted() {
    let (sampled, user_share, burned) = measure("reaped 300");
    agrees(sampled, burned, 0.3);
    assert!(user_share.unwrap() > 0.7, "{user_share:?}");
}

#[test]
fn a_child_that_lives_is_counted_and_a_child_of_its_own_too() {
    let (sampled, _, burned) = measure("living 150");
    agrees(sampled, burned, 0.3);
}

#[test]
fn an_idle_process_uses_nothing_and_an_ended_one_has_vanished() {
    let burner = Burner::start("self 0");
    let used = cpu::between(&burner.sample(), &burner.sample());
    assert!(used.total_s < TOLERANCE_S && used.user_share.is_none(), "{used:?}");
    let pid = burner.end();
    let error = cpu::sample(pid).unwrap_err();
    assert!(matches!(error, HostError::Vanished { pid: found } if found == pid), "{error}");
}

#[test]
fn a_process_that_ended_but_was_not_waited_for_still_gives_its_numbers() {
    let mut burner = Burner::start("self 200");
    let before = burner.sample();
    let burned = burner.go();
    drop(burner.input.take());
    let mut rest = String::new();
    burner.output.read_to_string(&mut rest).unwrap();
    wait_until_zombie(burner.child.id());
    let used = cpu::between(&before, &burner.sample());
    agrees(used.total_s, burned as f64 / 1e9, 0.2);
    burner.end();
}

/// Returns when the process has ended; no parent waits for it, so it stays in the table.
fn wait_until_zombie(pid: u32) {
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        if stat.rsplit(')').next().unwrap().trim_start().starts_with('Z') {
            return;
        }
        std::thread::yield_now();
    }
}

/// The machine's counters are sampled by the clock tick and hold stolen time apart, so they agree only roughly.
#[test]
fn the_machine_was_about_as_busy_as_the_process_at_least() {
    let before = cpu::system().unwrap();
    let (sampled, _, _) = measure("self 300");
    let used = cpu::system_between(&before, &cpu::system().unwrap());
    let wanted_s = used.busy_s + used.steal_share * used.total_s;
    assert!(wanted_s > sampled / 2.0, "{used:?}, the process used {sampled} s");
    assert!(used.total_s >= used.busy_s, "{used:?}");
}

/// Not a test of its own: the process that the others start.
#[test]
#[ignore = "started by the other tests of this file"]
fn burner() {
    let Ok(plan) = std::env::var(PLAN) else { return };
    let (what, milliseconds) = plan.split_once(' ').unwrap();
    let ns = milliseconds.parse::<u64>().unwrap() * 1_000_000;
    let before = used_ns();
    say(0);
    let mut input = std::io::stdin().lines();
    if input.next().is_none() {
        return;
    }
    // Kept until the end of the input, so that living children can be sampled.
    let children = burn(what, milliseconds, ns);
    let living: u64 = children.iter().map(|(_, burned)| burned).sum();
    say(used_ns() - before + living);
    assert!(input.next().is_none());
    for (child, _) in children {
        child.end();
    }
}

fn burn(what: &str, milliseconds: &str, ns: u64) -> Vec<(Burner, u64)> {
    match what {
        "self" => spin(ns),
        "kernel" => read_zeros(ns),
        "threads" => {
            for _ in 0..3 {
                std::thread::spawn(move || spin(ns)).join().unwrap();
            }
        }
        "reaped" => {
            let mut child = Burner::start(&format!("self {milliseconds}"));
            child.go();
            child.end();
        }
        "living" => {
            // The child burns as much as this process, and both live on. Its start costs CPU that it does not report.
            spin(ns);
            let mut child = Burner::start(&format!("self {milliseconds}"));
            let burned = child.go();
            return vec![(child, burned)];
        }
        other => panic!("unknown plan {other}"),
    }
    Vec::new()
}

fn spin(ns: u64) {
    let end = thread_ns() + ns;
    while thread_ns() < end {
        for step in 0..10_000_u64 {
            black_box(step);
        }
    }
}

fn read_zeros(ns: u64) {
    let mut zeros = std::fs::File::open("/dev/zero").unwrap();
    let mut buffer = vec![0_u8; 1 << 20];
    let end = thread_ns() + ns;
    while thread_ns() < end {
        zeros.read_exact(&mut buffer).unwrap();
    }
}

fn thread_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call only writes a time to the given place.
    assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) }, 0);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// CPU of this process and of the children that it has waited for, by the kernel's other interface.
fn used_ns() -> u64 {
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN].into_iter().map(rusage_ns).sum()
}

fn rusage_ns(who: libc::c_int) -> u64 {
    // SAFETY: all bytes zero is a valid value of this plain structure.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the call only writes to the given place.
    assert_eq!(unsafe { libc::getrusage(who, &raw mut usage) }, 0);
    let ns = |time: libc::timeval| time.tv_sec as u64 * 1_000_000_000 + time.tv_usec as u64 * 1000;
    ns(usage.ru_utime) + ns(usage.ru_stime)
}

fn say(ns: u64) {
    let mut output = std::io::stdout().lock();
    writeln!(output, "\n{MARK} {ns}").unwrap();
    output.flush().unwrap();
}
