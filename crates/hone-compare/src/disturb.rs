//! When neighbours exclude a pair: a rule over the other processes of the machine, fixed before the first window.

use hone_record::{Disturbance, EventKind, Mode, Window};

/// The activity of neighbours during one window. Nothing in it comes from the arm itself.
///
/// The pressure of CPU and of storage is absent on purpose: a target that works more, or syncs more, raises both, so a rule over them would
/// exclude the pairs in which the arms differ.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Neighbours {
    /// Share of all cores that the hypervisor gave to other guests, 0 to 1.
    pub steal_share: f64,
    /// Share of all cores that other processes used, 0 to 1.
    pub others_share: f64,
    /// Share of the window in which some task waited for memory, if known.
    pub memory_pressure: Option<f64>,
    /// Delay of the window's start after its agreed time.
    pub start_slip_ms: f64,
}

impl Neighbours {
    /// The neighbours of a window.
    pub fn of(window: &Window) -> Self {
        let pressure = window.environment.as_ref().map(|environment| &environment.pressure);
        Self {
            steal_share: window.facts.steal_share,
            others_share: window.facts.others_share,
            memory_pressure: pressure.and_then(|pressure| pressure.get("memory").copied()),
            start_slip_ms: window.facts.start_slip_ms,
        }
    }
}

/// Half of the 20 ms between the starts of the arms of a duet: a later arm may run in step with the other one.
const START_SLIP_MOST_MS: f64 = 10.0;

/// Events of an arm's own connections, leaders and topic during a window. The window's latencies include the outage, so such a window is
/// valid. Hone compares how often each arm had such events.
pub fn own_events(window: &Window) -> Vec<String> {
    let own = |kind: EventKind| match kind {
        EventKind::ConnectionLost
        | EventKind::LeaderMoved
        | EventKind::TopicDeleted
        | EventKind::FaultInjected => true,
        // Only the loss is reported, because the recovery adds nothing. A record kept in memory is a record. A late start has its own
        // limit.
        EventKind::Reconnected
        | EventKind::Rebalanced
        | EventKind::RecordingFailed
        | EventKind::Interrupted
        | EventKind::StartSlipped => false,
    };
    let events = window.events.iter().filter(|event| own(event.kind));
    events.map(|event| format!("{} at {:.1} s", event.what, event.at_s)).collect()
}

/// The rule with its usual thresholds.
///
/// For sequential windows, the *difference* between them spoils a pair: a permanent neighbour costs both the same. A quarter of all cores
/// is more than the arms' own difference can take from a greedy neighbour, as long as they differ by less than that. In a duet both arms
/// meet the same neighbours. There, only two things count: theft so large that little of the machine was left, and pressure for memory.
pub fn disturbance(mode: Mode) -> Disturbance {
    let (steal_difference, others_difference) = match mode {
        Mode::Solo => (0.05, 0.25),
        Mode::Duet => (1.0, 1.0),
    };
    let mut rule = Disturbance {
        steal_difference,
        steal_most: 0.30,
        others_difference,
        memory_pressure_most: 0.20,
        words: String::new(),
        start_slip_most_ms: (mode == Mode::Duet).then_some(START_SLIP_MOST_MS),
    };
    rule.words = words(&rule, mode);
    rule
}

fn words(rule: &Disturbance, mode: Mode) -> String {
    let percent = |share: f64| (share * 100.0).round();
    let differences = match mode {
        Mode::Duet => String::new(),
        Mode::Solo => format!(
            " its two windows differ by more than {} % of all cores in what neighbours used, or by more than {} % in what the \
             hypervisor took,",
            percent(rule.others_difference),
            percent(rule.steal_difference)
        ),
    };
    let slip = rule.start_slip_most_ms.map_or(String::new(), |most_ms| {
        format!(" an arm began more than {most_ms} ms after its agreed start,")
    });
    format!(
        "A pair is excluded if{differences}{slip} the hypervisor took more than {} %, or tasks waited for \
         memory more than {} % of a window. The rule ignores latency, the targets' own CPU and their \
         connections.",
        percent(rule.steal_most),
        percent(rule.memory_pressure_most)
    )
}

/// Why a pair is excluded; `None` if its neighbours were quiet, or alike.
pub fn disturbed(rule: &Disturbance, windows: [&Neighbours; 2]) -> Option<String> {
    let percent = |share: f64| share * 100.0;
    let [first, second] = windows;
    let slip_ms = first.start_slip_ms.max(second.start_slip_ms);
    if let Some(most_ms) = rule.start_slip_most_ms.filter(|most_ms| slip_ms > *most_ms) {
        return Some(format!(
            "an arm began {slip_ms:.0} ms after its agreed start, the limit is {most_ms} ms"
        ));
    }
    let most = |value: fn(&Neighbours) -> f64| value(first).max(value(second));
    let apart = |value: fn(&Neighbours) -> f64| (value(first) - value(second)).abs();
    let steal = |seen: &Neighbours| seen.steal_share;
    let others = |seen: &Neighbours| seen.others_share;
    let memory = |seen: &Neighbours| seen.memory_pressure.unwrap_or(0.0);
    let both = |value: fn(&Neighbours) -> f64| {
        format!("{:.0} % and {:.0} %", percent(value(first)), percent(value(second)))
    };
    if most(steal) > rule.steal_most {
        return Some(format!(
            "the hypervisor took {:.0} % of all cores, the limit is {:.0} %",
            percent(most(steal)),
            percent(rule.steal_most)
        ));
    }
    if apart(steal) > rule.steal_difference {
        return Some(format!("the hypervisor took {} of all cores in its two windows", both(steal)));
    }
    if apart(others) > rule.others_difference {
        return Some(format!("neighbours used {} of all cores in its two windows", both(others)));
    }
    (most(memory) > rule.memory_pressure_most)
        .then(|| format!("tasks waited for memory {:.0} % of a window", percent(most(memory))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet() -> Neighbours {
        Neighbours { steal_share: 0.01, others_share: 0.05, memory_pressure: Some(0.0), start_slip_ms: 0.3 }
    }

    fn check(mode: Mode, second: Neighbours, expected: Option<&str>) {
        let rule = disturbance(mode);
        for windows in [[&quiet(), &second], [&second, &quiet()]] {
            let found = disturbed(&rule, windows);
            match (&found, expected) {
                (Some(reason), Some(expected)) => assert!(reason.contains(expected), "{reason}"),
                _ => assert_eq!(found.is_some(), expected.is_some(), "{mode:?} {second:?}: {found:?}"),
            }
        }
    }

    #[test]
    fn what_disturbs_one_half_of_a_solo_pair_drops_it_whichever_half_it_is() {
        use Mode::{Duet, Solo};
        check(Solo, quiet(), None);
        check(Solo, Neighbours { others_share: 0.29, ..quiet() }, None);
        check(Solo, Neighbours { others_share: 0.40, ..quiet() }, Some("neighbours used"));
        check(Duet, Neighbours { others_share: 0.40, ..quiet() }, None);
        check(Solo, Neighbours { steal_share: 0.10, ..quiet() }, Some("the hypervisor took"));
        check(Duet, Neighbours { steal_share: 0.10, ..quiet() }, None);
        check(Duet, Neighbours { steal_share: 0.40, ..quiet() }, Some("the limit is 30 %"));
        check(Duet, Neighbours { memory_pressure: Some(0.5), ..quiet() }, Some("waited for memory 50 %"));
        check(Solo, Neighbours { memory_pressure: None, ..quiet() }, None);
        check(Duet, Neighbours { start_slip_ms: 9.0, ..quiet() }, None);
        let late = "an arm began 11 ms after its agreed start, the limit is 10 ms";
        check(Duet, Neighbours { start_slip_ms: 11.0, ..quiet() }, Some(late));
        check(Solo, Neighbours { start_slip_ms: 11.0, ..quiet() }, None);
        assert!(disturbance(Duet).words.contains("more than 10 ms after its agreed start"));
    }
}
