//! What faults at known times did to a load.

use serde::{Deserialize, Serialize};

use crate::stall::Stalls;

/// The faults of a window, and what became of its records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outage {
    /// Faults in order of their times.
    pub faults: Vec<Fault>,
    /// Longest time without an acknowledgement of a partition.
    pub acks: Option<Gap>,
    /// Longest time without a record of a partition at any consumer. `None` without consumers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<Gap>,
    /// Acknowledged records with an offset.
    pub acked_records: u64,
    /// Acknowledged records that the topic no longer has. It is a lower bound. `None` if the ends of the partitions can't be read.
    pub lost_records: Option<u64>,
    /// Stored records without an acknowledgement, for example of requests that were sent twice. `None` if others may write to the topic, or
    /// if its ends can't be read.
    pub unacked_records: Option<u64>,
}

/// A fault, and how the load got over it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fault {
    /// When it was due, from the window's start.
    pub due_s: f64,
    /// When it was carried out. `None` if it was not.
    pub at_s: Option<f64>,
    /// What it was, in words.
    pub what: String,
    /// Why it was not carried out, or how it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Longest time without an acknowledgement of a partition, from this fault until the next.
    pub acks: Option<Gap>,
    /// When requests were answered as before.
    pub recovery: Recovery,
}

/// When requests were answered as before a fault.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Recovery {
    /// No request waited [`crate::STALL_FROM_MS`] or longer.
    Undisturbed,
    /// The last of these requests ended this many seconds after the fault.
    AfterS(f64),
    /// Requests still waited when the window ended, and did not end by themselves.
    NotYet,
}

/// A time without an event of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Gap {
    /// The partition.
    pub partition: i32,
    /// The last event before it, from the window's start.
    pub from_s: f64,
    /// Its length.
    pub length_s: f64,
}

impl Gap {
    /// When it ended, from the window's start.
    pub fn end_s(&self) -> f64 {
        self.from_s + self.length_s
    }
}

impl Outage {
    /// Assigns gaps and stalls of the window to its faults. A fault lasts until the next one. Requests that were given up at the end of a window
    /// of `duration_s` did not recover.
    pub fn assign(&mut self, gaps: &[Gap], stalls: &Stalls, (duration_s, gave_up): (f64, bool)) {
        let longest = |left: &&Gap, right: &&Gap| left.length_s.total_cmp(&right.length_s);
        self.acks = gaps.iter().max_by(longest).copied();
        let begins: Vec<Option<f64>> = self.faults.iter().map(|fault| fault.at_s).collect();
        for (index, fault) in self.faults.iter_mut().enumerate() {
            let Some(at_s) = fault.at_s else { continue };
            let next_s = begins[index + 1..].iter().flatten().copied().fold(f64::INFINITY, f64::min);
            // What begins before the next fault is of this one, even if it ends later.
            let is_of = |from_s: f64, end_s: f64| end_s > at_s && from_s < next_s;
            fault.acks = gaps.iter().filter(|gap| is_of(gap.from_s, gap.end_s())).max_by(longest).copied();
            let ends =
                stalls.kept.iter().map(|stall| (stall.begin_ns as f64 / 1e9, stall.end_ns as f64 / 1e9));
            let last = ends.filter(|(from_s, end_s)| is_of(*from_s, *end_s)).map(|(_, end_s)| end_s);
            fault.recovery = match last.reduce(f64::max) {
                None => Recovery::Undisturbed,
                Some(end_s) if gave_up && end_s > duration_s => Recovery::NotYet,
                Some(end_s) => Recovery::AfterS(end_s - at_s),
            };
        }
    }

    /// The longest recovery of all faults, in seconds. `None` without one, or if one is not over.
    pub fn recovery_s(&self) -> Option<f64> {
        let each =
            self.faults.iter().filter(|fault| fault.at_s.is_some()).map(|fault| match fault.recovery {
                Recovery::Undisturbed => Some(0.0),
                Recovery::AfterS(after_s) => Some(after_s),
                Recovery::NotYet => None,
            });
        each.collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(at_s: Option<f64>) -> Fault {
        let what = "kill".to_owned();
        Fault { due_s: 1.0, at_s, what, problem: None, acks: None, recovery: Recovery::Undisturbed }
    }

    fn stalls(of_s: &[(u64, u64)]) -> Stalls {
        let mut stalls = Stalls::default();
        of_s.iter().for_each(|(due_s, end_s)| stalls.ended(due_s * 1_000_000_000, end_s * 1_000_000_000));
        stalls
    }

    fn outage(at_s: &[Option<f64>]) -> Outage {
        Outage {
            faults: at_s.iter().map(|at_s| fault(*at_s)).collect(),
            acks: None,
            reads: None,
            acked_records: 0,
            lost_records: None,
            unacked_records: None,
        }
    }

    #[test]
    fn each_fault_has_its_own_gap_and_its_own_end() {
        let gap = |partition, from_s, length_s| Gap { partition, from_s, length_s };
        let gaps = [gap(0, 0.2, 0.3), gap(1, 4.9, 2.0), gap(0, 11.0, 5.0)];
        let mut outage = outage(&[Some(5.0), None, Some(10.0)]);
        outage.assign(&gaps, &stalls(&[(1, 2), (5, 8), (11, 16)]), (30.0, false));
        assert_eq!(outage.acks, Some(gaps[2]));
        let acks: Vec<_> = outage.faults.iter().map(|fault| fault.acks).collect();
        assert_eq!(acks, [Some(gaps[1]), None, Some(gaps[2])]);
        let recovery: Vec<_> = outage.faults.iter().map(|fault| fault.recovery).collect();
        assert_eq!(recovery, [Recovery::AfterS(3.0), Recovery::Undisturbed, Recovery::AfterS(6.0)]);
        assert_eq!(outage.recovery_s(), Some(6.0));
    }

    #[test]
    fn what_was_given_up_behind_the_window_is_no_recovery() {
        let mut outage = outage(&[Some(5.0)]);
        outage.assign(&[], &stalls(&[(6, 12)]), (10.0, true));
        assert_eq!((outage.faults[0].recovery, outage.recovery_s()), (Recovery::NotYet, None));
        outage.assign(&[], &stalls(&[(6, 12)]), (10.0, false));
        assert_eq!(outage.recovery_s(), Some(7.0));
    }
}
