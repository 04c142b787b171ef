//! Meaning of a machine and its tools for a measurement: findings with their consequence and advice. The code is pure.

use std::fmt::Write as _;

use hone_record::{Machine, PmuState};
use serde::Serialize;

use crate::tools::{Fit, Need, ToolFinding};

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// No problem.
    Ok,
    /// A limit of the possible results.
    Note,
    /// A problem that spoils a measurement, or blocks a verb.
    Warn,
}

/// A finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its severity.
    pub level: Level,
    /// The finding, with its value.
    pub what: String,
    /// Its consequence.
    pub so_what: String,
    /// The advice, with a command if possible; `None` if nothing needs to be done.
    pub next: Option<String>,
}

impl Finding {
    fn new(level: Level, what: impl Into<String>, so_what: impl Into<String>) -> Self {
        Self { level, what: what.into(), so_what: so_what.into(), next: None }
    }

    fn next(self, next: impl Into<String>) -> Self {
        Self { next: Some(next.into()), ..self }
    }
}

/// All findings: the machine first, then its tools in the given order.
pub fn examine(machine: &Machine, tools: &[ToolFinding]) -> Vec<Finding> {
    let machine_findings = [
        Some(hardware(machine)),
        Some(surroundings(machine)),
        machine.container.as_deref().map(container),
        Some(counters(machine)),
        machine.perf_event_paranoid.and_then(|level| paranoid(machine, level)),
        Some(cores(machine.cores)),
        machine.governor.as_deref().map(governor),
        steal(machine),
        Some(load(machine)),
    ];
    machine_findings.into_iter().flatten().chain(tools.iter().map(tool)).collect()
}

fn hardware(machine: &Machine) -> Finding {
    let or_unknown = |text: &str| if text.is_empty() { "unknown".to_owned() } else { text.to_owned() };
    let mut what = format!("CPU {}, {}", or_unknown(&machine.cpu_model), cores_in_words(machine.cores));
    // Writing to a String can't fail.
    if machine.l1i_bytes > 0 {
        let _ = write!(what, ", L1i {} KiB", machine.l1i_bytes / 1024);
    }
    if machine.memory_bytes > 0 {
        let _ = write!(what, ", {:.1} GiB of memory", machine.memory_bytes as f64 / f64::from(1 << 30));
    }
    let _ = write!(what, "; {}, kernel {}", or_unknown(&machine.os), or_unknown(&machine.kernel));
    Finding::new(Level::Ok, what, "every record carries this; results apply to this machine")
}

fn cores_in_words(cores: u32) -> String {
    match cores {
        0 => "an unknown number of cores".to_owned(),
        1 => "1 core".to_owned(),
        more => format!("{more} cores"),
    }
}

fn surroundings(machine: &Machine) -> Finding {
    match &machine.virtualization {
        None => Finding::new(
            Level::Ok,
            "bare metal",
            "no hypervisor takes CPU time, and the reported cache sizes are real",
        ),
        Some(hypervisor) => Finding::new(
            Level::Note,
            format!("virtual machine ({hypervisor})"),
            "other guests on the same host disturb it, which only steal time shows; the cache sizes that a \
             guest sees may be wrong",
        )
        .next("compare in pairs, and rely on CPU per record more than on latency"),
    }
}

fn container(manager: &str) -> Finding {
    Finding::new(
        Level::Note,
        format!("inside a container ({manager})"),
        "a CPU limit of the container does not show in the number of cores, and settings of the host can't \
         be changed from here",
    )
    .next("measure without a CPU limit; run commands that change kernel settings on the host")
}

fn counters(machine: &Machine) -> Finding {
    match machine.pmu {
        PmuState::CountersAndBranches => Finding::new(
            Level::Ok,
            "hardware counters and branch records are available",
            "top-down analysis can be measured, and profiles can be sampled from an unchanged binary",
        ),
        PmuState::Counters => Finding::new(
            Level::Note,
            "hardware counters are available, branch records are not",
            "top-down analysis can be measured; a profile needs an instrumented build, because sampling \
             needs branch records",
        ),
        PmuState::Forbidden => forbidden(machine),
        PmuState::None => {
            let finding = Finding::new(
                Level::Note,
                "no hardware counters (opening one failed, or it stayed at zero)",
                "top-down analysis (TMA) can't be measured here: evidence about the CPU's front end is \
                 simulated and marked so; instrumented profiles, CPU time and latency need no counters",
            );
            match machine.virtualization {
                Some(_) => finding.next(
                    "for measured evidence use bare metal, or a type of virtual machine that passes the PMU \
                     through",
                ),
                None => finding,
            }
        }
    }
}

fn forbidden(machine: &Machine) -> Finding {
    let so_what = "it is unknown whether there is a PMU: top-down analysis is not measured until counters \
        may be opened";
    let finding = |what: String| Finding::new(Level::Warn, what, so_what);
    match (machine.perf_event_paranoid, machine.container.as_deref()) {
        (Some(level), _) if level > USER_MODE_LEVEL => {
            finding(format!("hardware counters are forbidden (kernel.perf_event_paranoid is {level})"))
                .next("lower kernel.perf_event_paranoid, see below")
        }
        (_, Some(manager)) => finding(format!(
            "hardware counters are forbidden, probably by the system-call filter of the container ({manager})"
        ))
        .next("start the container with `--cap-add=PERFMON`, or with `--security-opt seccomp=unconfined` where that is not enough"),
        _ => finding("hardware counters are forbidden, but not by kernel.perf_event_paranoid".to_owned())
            .next("check for a security module or a system-call filter (`grep Seccomp /proc/self/status`), \
                or run as root"),
    }
}

/// Up to this level of `kernel.perf_event_paranoid` every user may count user mode of their own processes. The mainline kernel has no
/// higher level; Debian's 3 and Ubuntu's 4 forbid everything (Documentation/admin-guide/sysctl/kernel.rst).
const USER_MODE_LEVEL: i32 = 2;
/// From this level down, users may also count the kernel's part of their own processes.
const KERNEL_LEVEL: i32 = 1;

fn paranoid(machine: &Machine, level: i32) -> Option<Finding> {
    let command = format!("sudo sysctl -w kernel.perf_event_paranoid={USER_MODE_LEVEL}");
    let where_to = if machine.container.is_some() { " on the host, outside of the container" } else { "" };
    let open = matches!(machine.pmu, PmuState::Counters | PmuState::CountersAndBranches);
    if level <= USER_MODE_LEVEL {
        if machine.pmu == PmuState::Forbidden {
            let what = format!("kernel.perf_event_paranoid is {level}");
            return Some(Finding::new(
                Level::Ok,
                what,
                "this setting is not the one that forbids the counters",
            ));
        }
        let reach = if level <= KERNEL_LEVEL { "user and kernel mode" } else { "user mode" };
        return Some(Finding::new(
            Level::Ok,
            format!("kernel.perf_event_paranoid is {level}"),
            format!("every user may count and sample own processes in {reach}"),
        ));
    }
    let level_of_finding = if machine.pmu == PmuState::Forbidden { Level::Warn } else { Level::Note };
    let so_what = if open {
        "only root and users with CAP_PERFMON may count and sample; this works now".to_owned()
    } else {
        "only root and users with CAP_PERFMON may count and sample, which includes sampling by the clock"
            .to_owned()
    };
    Some(
        Finding::new(
            level_of_finding,
            format!(
                "kernel.perf_event_paranoid is {level}, but ordinary users need {USER_MODE_LEVEL} or lower"
            ),
            so_what,
        )
        .next(format!("`{command}`{where_to} (until the next boot)")),
    )
}

/// Cores for the target's busy thread and its helpers, and equally many for the generator.
const CORES_WANTED: u32 = 4;

fn cores(cores: u32) -> Finding {
    match cores {
        0 => Finding::new(
            Level::Note,
            "the number of cores is unknown",
            "it is unknown whether the generator has enough cores",
        ),
        1 => Finding::new(
            Level::Warn,
            "1 core",
            "target and generator share it: latency then shows the scheduler more than the target",
        )
        .next("judge by CPU per record, at a low rate; use a machine with 4 or more cores for latency"),
        2..CORES_WANTED => Finding::new(
            Level::Note,
            format!("{cores} cores"),
            "fewer than two are left for the generator next to a busy target: latencies at high rates \
             contain both",
        )
        .next(
            "use CPU per record as the primary metric; compare latency in sequential pairs (solo), at a \
            moderate rate",
        ),
        _ => Finding::new(Level::Ok, format!("{cores} cores"), "target and generator have enough cores"),
    }
}

fn governor(governor: &str) -> Finding {
    if governor == "performance" {
        return Finding::new(
            Level::Ok,
            "CPU frequency governor is performance",
            "the clock frequency does not follow the load beyond the hardware's own control",
        );
    }
    Finding::new(
        Level::Warn,
        format!("CPU frequency governor is {governor}"),
        "the clock frequency follows the load: a variant that needs less CPU may run at a lower frequency \
         and look slower",
    )
    .next("`echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor` (until the next boot)")
}

/// Hone's own thresholds. A share of one in a hundred is as large as the effects of interest. At five, the windows of a pair can differ by
/// more than the gain of a whole optimization.
const STEAL_NOTED: f64 = 0.01;
const STEAL_HIGH: f64 = 0.05;

fn steal(machine: &Machine) -> Option<Finding> {
    let share = machine.steal_share;
    let what = format!("{:.1} % of the CPU time since boot was stolen by the hypervisor", share * 100.0);
    if share < STEAL_NOTED {
        return machine
            .virtualization
            .is_some()
            .then(|| Finding::new(Level::Ok, what, "the hypervisor provides all of the cores' time"));
    }
    let level = if share < STEAL_HIGH { Level::Note } else { Level::Warn };
    let so_what =
        "other guests run on these cores: latency and throughput vary for reasons outside the target";
    let next = "compare in concurrent pairs (duet), which other guests hit alike; use a dedicated host for \
        tail latencies";
    Some(Finding::new(level, what, so_what).next(next))
}

/// Hone's own thresholds, as shares of all cores.
const LOAD_NOTED: f64 = 0.25;
const LOAD_HIGH: f64 = 0.75;

fn load(machine: &Machine) -> Finding {
    let per_core = machine.load_average_1m / f64::from(machine.cores.max(1));
    let what = format!(
        "load average of the last minute is {:.2} on {}",
        machine.load_average_1m,
        cores_in_words(machine.cores)
    );
    if per_core < LOAD_NOTED {
        return Finding::new(Level::Ok, what, "the machine is quiet");
    }
    let level = if per_core < LOAD_HIGH { Level::Note } else { Level::Warn };
    Finding::new(level, what, "another program is running: it takes CPU and cache from target and generator")
        .next("find it with `top`, and wait for its end or stop it")
}

fn tool(tool: &ToolFinding) -> Finding {
    let seen = tool.found.as_ref().map(|found| format!("{}: {} ({})", tool.name, found.version, found.path));
    let what = seen.unwrap_or_else(|| format!("{}: not found", tool.name));
    let wanted = format!("wanted for {}", tool.wanted_for);
    let grave = if tool.need == Need::Required { Level::Warn } else { Level::Note };
    match &tool.fits {
        Fit::Fits => Finding::new(Level::Ok, what, wanted),
        Fit::Mismatch { why } => Finding::new(grave, what, format!("{wanted}; {why}")).next(&tool.install),
        Fit::Missing => Finding::new(Level::Warn, what, wanted).next(&tool.install),
        Fit::NotNeeded => Finding::new(Level::Note, what, wanted).next(&tool.install),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn quiet() -> Machine {
        Machine {
            cpu_model: "Example 9".into(),
            cores: 8,
            virtualization: Some("kvm".into()),
            ..Machine::default()
        }
    }

    /// The finding about a machine whose `what` holds a word.
    #[track_caller]
    fn about(machine: &Machine, word: &str) -> Finding {
        let mut findings = examine(machine, &[]);
        findings.retain(|finding| finding.what.contains(word));
        assert_eq!(findings.len(), 1, "{word}: {findings:?}");
        findings.remove(0)
    }

    #[test]
    fn levels_change_at_their_thresholds() {
        let steal = |share| about(&Machine { steal_share: share, ..quiet() }, "stolen").level;
        assert_eq!([steal(0.009), steal(0.01), steal(0.05)], [Level::Ok, Level::Note, Level::Warn]);
        let load = |load| about(&Machine { load_average_1m: load, ..quiet() }, "load average").level;
        assert_eq!([load(1.99), load(2.0), load(6.0)], [Level::Ok, Level::Note, Level::Warn]);
        let with_cores = |cores| super::cores(cores).level;
        assert_eq!([with_cores(1), with_cores(2), with_cores(3)], [Level::Warn, Level::Note, Level::Note]);
        assert_eq!([with_cores(4), with_cores(0)], [Level::Ok, Level::Note]);
        let governor =
            |name: &str| about(&Machine { governor: Some(name.into()), ..quiet() }, "governor").level;
        assert_eq!([governor("performance"), governor("powersave")], [Level::Ok, Level::Warn]);
    }

    #[test]
    fn steal_is_no_topic_on_bare_metal_unless_there_is_some() {
        let bare = Machine { virtualization: None, ..quiet() };
        assert!(examine(&bare, &[]).iter().all(|finding| !finding.what.contains("stolen")));
        about(&Machine { steal_share: 0.02, ..bare }, "stolen");
    }

    #[test]
    fn forbidden_counters_name_the_rule_that_forbids_them() {
        let forbidden = Machine { pmu: PmuState::Forbidden, ..quiet() };
        let check = |level: Option<i32>, container: Option<&str>, words: &str| {
            let machine = Machine {
                perf_event_paranoid: level,
                container: container.map(str::to_owned),
                ..forbidden.clone()
            };
            let finding = about(&machine, "counters are forbidden");
            assert_eq!(finding.level, Level::Warn);
            assert!(finding.next.clone().unwrap().contains(words), "{finding:?}");
        };
        check(Some(4), None, "kernel.perf_event_paranoid");
        check(Some(3), Some("docker"), "kernel.perf_event_paranoid");
        check(Some(2), Some("docker"), "--cap-add=PERFMON");
        check(Some(2), None, "security module");
        check(None, None, "security module");
    }

    #[test]
    fn the_setting_is_shown_with_its_value_the_value_needed_and_the_command() {
        let machine = Machine { perf_event_paranoid: Some(4), pmu: PmuState::Forbidden, ..quiet() };
        let finding = about(&machine, "perf_event_paranoid is 4, but ordinary users need 2 or lower");
        assert!(finding.next.unwrap().contains("`sudo sysctl -w kernel.perf_event_paranoid=2`"));
        let inside = Machine { container: Some("docker".into()), ..machine };
        let finding = about(&inside, "perf_event_paranoid is 4, but");
        assert!(finding.next.unwrap().contains("on the host"));
    }

    proptest! {
        #[test]
        fn every_machine_gets_whole_sentences(
            cores: u32, paranoid: Option<i32>, load in any::<f64>(), steal in any::<f64>(), pmu in 0..4_usize,
            container: Option<bool>, governor: Option<bool>,
        ) {
            let states =
                [PmuState::CountersAndBranches, PmuState::Counters, PmuState::Forbidden, PmuState::None];
            let machine = Machine {
                cores,
                perf_event_paranoid: paranoid,
                load_average_1m: load,
                steal_share: steal,
                pmu: states[pmu],
                container: container.map(|_| "docker".to_owned()),
                governor: governor.map(|_| "ondemand".to_owned()),
                ..Machine::default()
            };
            for finding in examine(&machine, &[]) {
                prop_assert!(!finding.what.is_empty() && !finding.so_what.is_empty());
                prop_assert!(finding.level != Level::Warn || finding.next.is_some(), "{:?}", finding);
            }
        }
    }
}
