//! The conditions before a host is changed, during the change, and before it is confirmed: the cluster is healthy, the changed
//! broker is not slower relative to its peers, consumers keep up. [`Gate`] observes and samples; [`judge`] computes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use hone_compare::{Count, FEWEST_PAIRS, more_often, shift};
use hone_load::canary::{Canary, Round};
use hone_load::health::{GroupLag, Health, Onlooker};
use hone_load::{LoadError, Security};
use hone_tool::interrupt;
use serde::{Deserialize, Serialize};

/// Shortest time between the canary's records at each broker: it is a probe, not a load.
const ROUND_EVERY: Duration = Duration::from_millis(50);
/// A soak of a day is sampled less often.
const MOST_ROUNDS: u32 = 40_000;
/// A period is divided into blocks of time. Each one gives one value for the estimate.
const BLOCKS: f64 = 20.0;
const SHORTEST_BLOCK_S: f64 = 0.5;
const LONGEST_BLOCK_S: f64 = 10.0;
/// Probability of a false alarm, for all tests of a gate together.
const FALSE_ALARMS: f64 = 0.01;
/// A soak is checked many times, so an early end needs a smaller one.
const FALSE_ALARMS_EARLY: f64 = 0.000_1;
const RESAMPLES: u32 = 2_000;
const SEED: u64 = 0x6A7E;
/// A few failures are normal in any network.
const FEWEST_FAILURES: u64 = 3;
/// Allowed growth of a group's lag during a soak, above the jitter of commits.
const LAG_TIMES: u64 = 2;
const LAG_RECORDS: u64 = 1_000;
/// The first second after a change contains the change's own writes.
pub(crate) const SETTLE: Duration = Duration::from_secs(1);

/// Time limits and tolerances of a gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// Consecutive healthy checks required.
    pub healthy: u32,
    /// Time between two checks, in milliseconds.
    pub every_ms: u64,
    /// Time limit for the cluster to become healthy, in seconds.
    pub wait_s: u64,
    /// Allowed slow-down of a broker relative to its peers, as a factor.
    pub tolerance: f64,
    /// Consumer groups that have to keep up.
    pub groups: Vec<String>,
}

/// A finding at a gate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// Whether it keeps the gate closed.
    pub bad: bool,
    /// In words, with the number of samples.
    pub text: String,
}

impl Finding {
    fn new(bad: bool, text: String) -> Self {
        Self { bad, text }
    }
}

/// A period in which the canary was sampled.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Stretch {
    /// Rounds, each with its time in seconds since the start.
    pub rounds: Vec<(f64, Round)>,
    /// The lags of consumer groups.
    pub lags: Vec<GroupLag>,
    pub(crate) length_s: f64,
}

/// The end of an observation.
#[derive(Debug)]
pub enum Watched {
    /// At its planned time.
    Whole(Stretch),
    /// Early, because the cluster was unhealthy several times in a row, or is clearly worse.
    Early(Stretch, String),
    /// The user interrupted.
    Interrupted,
}

/// Why a gate did not open, before anything was judged.
#[derive(Debug)]
pub enum Closed {
    /// The cluster was not healthy in time.
    Sick(String),
    /// The user interrupted the wait.
    Interrupted,
}

/// An observer of the cluster.
pub struct Gate {
    onlooker: Onlooker,
    canary: Option<Canary>,
    rules: Rules,
    /// Brokers that must be present.
    expected: BTreeSet<i32>,
}

impl Gate {
    /// At the cluster of these addresses. The present brokers must remain.
    pub fn at(bootstrap: &[String], security: &Security, rules: Rules) -> Result<(Self, Health)> {
        let mut onlooker = Onlooker::new(bootstrap, security)?;
        let health = onlooker.look()?;
        let expected = health.brokers.keys().copied().collect();
        Ok((Self { onlooker, canary: None, rules, expected }, health))
    }

    /// These brokers must be present, too.
    pub fn expect(&mut self, brokers: impl Iterator<Item = i32>) {
        self.expected.extend(brokers);
    }

    /// Creates the canary's topic.
    pub fn with_canary(&mut self, topic: &str, health: &Health, security: &Security) -> Result<()> {
        let brokers: BTreeMap<i32, String> =
            health.brokers.iter().map(|(id, node)| (*id, node.address.clone())).collect();
        match Canary::make(topic, &brokers, security) {
            Ok(canary) => {
                self.onlooker.ignore(topic);
                self.canary = Some(canary);
                Ok(())
            }
            Err(error) => Err(anyhow::Error::from(error).context(format!(
                "the canary's topic {topic} can't be created; grant the right to create it, or check without one \
                 (--no-canary)"
            ))),
        }
    }

    /// Deletes the canary's topic, if there is one, and returns its name.
    ///
    /// # Errors
    /// The reason, in words.
    pub fn close(&mut self) -> Result<Option<String>, String> {
        let Some(canary) = self.canary.take() else { return Ok(None) };
        let topic = canary.topic().to_owned();
        match canary.delete() {
            Ok(()) => Ok(Some(topic)),
            Err(error) => Err(format!("can't delete the topic {topic}: {error}")),
        }
    }

    /// The broker that is the controller. If it is not known yet, the check repeats until the time limit: a wrong answer would
    /// change the controller's host before its turn.
    pub fn controller(&mut self) -> Result<i32, Closed> {
        let Self { onlooker, rules, .. } = self;
        let mut look = || match onlooker.look() {
            Ok(health) => health.controller.ok_or_else(|| "the cluster has no controller".to_owned()),
            Err(error) => Err(format!("no broker answers: {error}")),
        };
        let (wait, every) = (Duration::from_secs(rules.wait_s), Duration::from_millis(rules.every_ms));
        told_in_time(&mut look, wait, every)
    }

    /// The current state of the cluster. No answer is a state, too.
    pub fn look(&mut self) -> Result<Health, LoadError> {
        self.onlooker.look()
    }

    fn faults(&mut self) -> (Option<Health>, Vec<String>) {
        match self.onlooker.look() {
            Ok(health) => {
                let faults = health.faults(&self.expected);
                (Some(health), faults)
            }
            Err(error) => (None, vec![format!("no broker answers: {error}")]),
        }
    }

    /// Waits for the required number of consecutive healthy checks. `alive` is called regularly.
    pub fn until_well(&mut self, alive: &mut dyn FnMut()) -> Result<Health, Closed> {
        let deadline = Instant::now() + Duration::from_secs(self.rules.wait_s);
        let mut in_a_row = 0;
        loop {
            alive();
            let (health, faults) = self.faults();
            in_a_row = if faults.is_empty() { in_a_row + 1 } else { 0 };
            if let Some(health) = health.filter(|_| in_a_row >= self.rules.healthy) {
                return Ok(health);
            }
            if interrupt::requested() {
                return Err(Closed::Interrupted);
            }
            if Instant::now() >= deadline {
                let last = if faults.is_empty() {
                    "healthy only now and then".to_owned()
                } else {
                    faults.join("; ")
                };
                return Err(Closed::Sick(format!(
                    "the cluster did not pass {} consecutive health checks within {} s: {last}",
                    self.rules.healthy, self.rules.wait_s
                )));
            }
            pause(Duration::from_millis(self.rules.every_ms), alive);
        }
    }

    /// Samples the canary for this long, and checks the cluster meanwhile. `alive` is called regularly, and `early` may end it.
    pub fn watch(
        &mut self,
        length: Duration,
        alive: &mut dyn FnMut(),
        early: &dyn Fn(&Stretch) -> Option<String>,
    ) -> Watched {
        let round_every = ROUND_EVERY.max(length / MOST_ROUNDS);
        let look_every = Duration::from_millis(self.rules.every_ms);
        // A check computes, which must not delay the rounds.
        let judge_every = look_every.max(length / 20);
        let begun = Instant::now();
        let (mut looked, mut judged) = (begun, begun);
        let mut sick_in_a_row = 0;
        let mut stretch = Stretch::default();
        while begun.elapsed() < length {
            let round_begun = Instant::now();
            stretch.length_s = begun.elapsed().as_secs_f64();
            if let Some(canary) = &mut self.canary {
                stretch.rounds.push((stretch.length_s, canary.round()));
            }
            if interrupt::requested() {
                return Watched::Interrupted;
            }
            alive();
            if looked.elapsed() >= look_every {
                looked = Instant::now();
                let (_, faults) = self.faults();
                sick_in_a_row = if faults.is_empty() { 0 } else { sick_in_a_row + 1 };
                if sick_in_a_row >= self.rules.healthy {
                    let why = format!("unhealthy {sick_in_a_row} times in a row: {}", faults.join("; "));
                    return Watched::Early(stretch, why);
                }
            }
            if judged.elapsed() >= judge_every {
                judged = Instant::now();
                if let Some(why) = early(&stretch) {
                    return Watched::Early(stretch, why);
                }
            }
            std::thread::sleep(round_every.saturating_sub(round_begun.elapsed()).min(length));
        }
        stretch.length_s = begun.elapsed().as_secs_f64();
        Watched::Whole(stretch)
    }

    /// The lags of the groups.
    pub fn lags(&mut self) -> Result<Vec<GroupLag>, LoadError> {
        let groups = self.rules.groups.clone();
        groups.iter().map(|group| self.onlooker.lag(group)).collect()
    }

    /// The reason of the canary's last failed record.
    pub(crate) fn last_failure(&self) -> Option<&str> {
        self.canary.as_ref().and_then(Canary::last_failure)
    }
}

/// Repeats a check until it has a result.
fn told_in_time(
    look: &mut dyn FnMut() -> Result<i32, String>,
    wait: Duration,
    every: Duration,
) -> Result<i32, Closed> {
    let deadline = Instant::now() + wait;
    loop {
        let why = match look() {
            Ok(told) => return Ok(told),
            Err(why) => why,
        };
        if interrupt::requested() {
            return Err(Closed::Interrupted);
        }
        if Instant::now() >= deadline {
            return Err(Closed::Sick(format!("the controller is not known: {why}")));
        }
        pause(every, &mut || ());
    }
}

/// Waits at most one second at a time: it has to renew a lease and to notice an interruption.
fn pause(length: Duration, alive: &mut dyn FnMut()) {
    let until = Instant::now() + length;
    while !interrupt::requested() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        std::thread::sleep(left.min(Duration::from_secs(1)));
        alive();
    }
}

/// The value of a block that is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    /// The median: the usual time of a record.
    Typical,
    /// The mean, which a stall increases.
    Mean,
}

impl Side {
    const ALL: [Self; 2] = [Self::Typical, Self::Mean];

    fn word(self) -> &'static str {
        match self {
            Self::Typical => "median",
            Self::Mean => "mean",
        }
    }

    fn reduce(self, mut values: Vec<f64>) -> Option<f64> {
        if values.is_empty() {
            return None;
        }
        match self {
            Self::Mean => Some(values.iter().sum::<f64>() / values.len() as f64),
            Self::Typical => {
                values.sort_unstable_by(f64::total_cmp);
                values.get(values.len() / 2).copied()
            }
        }
    }
}

/// Both sides, and the number of failures: all of them share the error.
const TESTS_OF_A_BROKER: usize = Side::ALL.len() + 1;

/// For each block of time the ratio of a broker to its peers; without peers its own value.
fn ratios(stretch: &Stretch, block_s: f64, broker: i32, peers: &BTreeSet<i32>, side: Side) -> Vec<f64> {
    let mut blocks: BTreeMap<u64, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for (at_s, round) in &stretch.rounds {
        let (own, others) = blocks.entry((at_s / block_s) as u64).or_default();
        for (id, sample) in round {
            // No record takes less than a microsecond, and 0 has no logarithm.
            let us = sample.read_us.max(1) as f64;
            if *id == broker {
                own.push(us);
            } else if peers.contains(id) {
                others.push(us);
            }
        }
    }
    let ratio = |(own, others): (Vec<f64>, Vec<f64>)| {
        let own = side.reduce(own)?;
        if peers.is_empty() { Some(own) } else { Some(own / side.reduce(others)?) }
    };
    blocks.into_values().filter_map(ratio).collect()
}

/// Length of the blocks in both periods. It is the same, so that their medians have similar sample counts.
fn block_s(before: &Stretch, after: &Stretch) -> f64 {
    (before.length_s.min(after.length_s) / BLOCKS).clamp(SHORTEST_BLOCK_S, LONGEST_BLOCK_S)
}

/// The comparisons that judge a change of one broker: it relative to all others, and each other one relative to the rest. If the
/// changed broker is not known, each one relative to all others.
fn questions(brokers: &BTreeSet<i32>, changed: Option<i32>) -> Vec<(i32, BTreeSet<i32>)> {
    let Some(changed) = changed else {
        let rest = |id: &i32| brokers.iter().copied().filter(|other| other != id).collect();
        return brokers.iter().map(|id| (*id, rest(id))).collect();
    };
    let others: BTreeSet<i32> = brokers.iter().copied().filter(|id| *id != changed).collect();
    let mut questions = vec![(changed, others.clone())];
    for other in &others {
        let rest: BTreeSet<i32> = others.iter().copied().filter(|id| id != other).collect();
        // Without peers, another broker's drift would look like a drift of all.
        if !rest.is_empty() {
            questions.push((*other, rest));
        }
    }
    questions
}

/// The canary's result for a change of one broker. Bad is a slow-down that exceeds the tolerance significantly.
fn latency(
    before: &Stretch,
    after: &Stretch,
    changed: Option<i32>,
    tolerance: f64,
    alarms: f64,
) -> Vec<Finding> {
    let brokers: BTreeSet<i32> = before.rounds.iter().flat_map(|(_, round)| round.keys().copied()).collect();
    let questions = questions(&brokers, changed);
    let confidence = 1.0 - alarms / (questions.len() * TESTS_OF_A_BROKER) as f64;
    let block_s = block_s(before, after);
    let mut findings = Vec::new();
    for (broker, peers) in &questions {
        for side in Side::ALL {
            let of = |stretch: &Stretch| ratios(stretch, block_s, *broker, peers, side);
            let who = match changed {
                Some(changed) if changed == *broker => "the changed broker",
                Some(_) => "another broker,",
                None => "broker",
            };
            let beside = if peers.is_empty() { "relative to itself before" } else { "relative to its peers" };
            let word = side.word();
            let finding = match shift(&of(before), &of(after), confidence, RESAMPLES, SEED) {
                Ok(found) => Finding::new(
                    found.low > tolerance,
                    format!(
                        "{who} {broker} {beside}, {word} of write and read: x{:.2} ({:.2} to {:.2} at {:.3} \
                         %; {} and {} blocks of {block_s:.1} s, {} and {} rounds; detectable from x{:.2})",
                        found.ratio,
                        found.low,
                        found.high,
                        100.0 * confidence,
                        found.before,
                        found.after,
                        before.rounds.len(),
                        after.rounds.len(),
                        // Harm is a shift that significantly exceeds the tolerance.
                        found.detectable_ratio * tolerance,
                    ),
                ),
                Err(why) => Finding::new(
                    false,
                    format!(
                        "{who} {broker} {beside}, {word}: inconclusive, {why} (at least {FEWEST_PAIRS} \
                         blocks)"
                    ),
                ),
            };
            findings.push(finding);
        }
    }
    findings
}

/// Failed records at a broker, of all its records. Rounds in which all brokers failed do not count, since no single broker caused
/// them.
fn failed(stretch: &Stretch, broker: i32) -> Count {
    let is_own = |round: &&Round| round.len() < 2 || !round.values().all(|sample| sample.failed);
    let own =
        stretch.rounds.iter().map(|(_, round)| round).filter(is_own).filter_map(|round| round.get(&broker));
    own.fold(Count { hits: 0, trials: 0 }, |count, sample| Count {
        hits: count.hits + u64::from(sample.failed),
        trials: count.trials + 1,
    })
}

/// Failures are part of the latencies above; here they are counted. Bad is a count that chance can't explain: more than before,
/// and more than the peers have now.
fn failures(before: &Stretch, after: &Stretch, changed: Option<i32>, alarms: f64) -> Vec<Finding> {
    let brokers: BTreeSet<i32> = before.rounds.iter().flat_map(|(_, round)| round.keys().copied()).collect();
    let questions = questions(&brokers, changed);
    let finding = |broker: &i32| {
        let (was, is) = (failed(before, *broker), failed(after, *broker));
        let all =
            after.rounds.iter().filter(|(_, round)| round.get(broker).is_some_and(|sample| sample.failed));
        let all = all.count();
        let question = questions.iter().find(|(id, _)| id == broker);
        let accident = question.map(|(_, peers)| {
            let of_peers =
                peers.iter().map(|id| failed(after, *id)).fold(Count { hits: 0, trials: 0 }, |sum, one| {
                    Count { hits: sum.hits + one.hits, trials: sum.trials + one.trials }
                });
            let beside_peers = if peers.is_empty() { 0.0 } else { more_often(of_peers, is) };
            more_often(was, is).max(beside_peers)
        });
        let told = match accident {
            Some(accident) => format!("the probability by chance is {accident:.1e}"),
            None => "there is no third broker to compare with".to_owned(),
        };
        let share = alarms / (questions.len() * TESTS_OF_A_BROKER) as f64;
        let is_shown = accident.is_some_and(|accident| accident < share);
        (all > 0).then(|| {
            Finding::new(
                is.hits >= FEWEST_FAILURES && is_shown,
                format!(
                    "broker {broker}: {all} of {} records failed, {} of them at this broker alone; before \
                     the change {} of {}; {told}",
                    after.rounds.len(),
                    is.hits,
                    was.hits,
                    before.rounds.len()
                ),
            )
        })
    };
    brokers.iter().filter_map(finding).collect()
}

fn lags(before: &[GroupLag], after: &[GroupLag]) -> Vec<Finding> {
    let finding = |now: &GroupLag| {
        let was = before.iter().find(|was| was.group == now.group)?;
        let most = was.lag.saturating_mul(LAG_TIMES).saturating_add(LAG_RECORDS);
        Some(Finding::new(
            now.lag > most,
            format!(
                "group {}: lag of {} records, before the change {} (at most {most})",
                now.group, now.lag, was.lag
            ),
        ))
    };
    after.iter().filter_map(finding).collect()
}

/// The findings of both periods and of the last check for a change of one broker.
pub fn judge(before: &Stretch, after: &Stretch, changed: Option<i32>, tolerance: f64) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !before.rounds.is_empty() {
        findings.extend(latency(before, after, changed, tolerance, FALSE_ALARMS));
        findings.extend(failures(before, after, changed, FALSE_ALARMS));
    }
    findings.extend(lags(&before.lags, &after.lags));
    findings
}

/// Whether a soak may end early, because the harm is obvious.
pub(crate) fn plain_harm(
    before: &Stretch,
    after: &Stretch,
    changed: Option<i32>,
    tolerance: f64,
) -> Option<String> {
    if before.rounds.is_empty() {
        return None;
    }
    let mut findings = latency(before, after, changed, tolerance, FALSE_ALARMS_EARLY);
    findings.extend(failures(before, after, changed, FALSE_ALARMS_EARLY));
    findings.into_iter().find(|finding| finding.bad).map(|finding| finding.text)
}

/// A check of a healthy cluster, in words.
pub fn well(health: &Health, rules: &Rules) -> Finding {
    let mut text = format!(
        "passed {} consecutive health checks: {} brokers, {} partitions with a leader and in sync",
        rules.healthy,
        health.brokers.len(),
        health.partitions
    );
    if health.at_min_isr > 0 {
        text.push_str(&format!(
            "; {} of them reject acks=all when they lose one more replica, because of their own settings",
            health.at_min_isr
        ));
    }
    if health.min_isr_unknown > 0 {
        text.push_str(&format!("; min.insync.replicas of {} topics is not known", health.min_isr_unknown));
    }
    Finding::new(false, text)
}

/// Latencies of a period by broker: count, median and 99th percentile in microseconds.
pub fn by_broker(stretch: &Stretch) -> BTreeMap<i32, (usize, u64, u64)> {
    let mut values: BTreeMap<i32, Vec<u64>> = BTreeMap::new();
    for (id, sample) in stretch.rounds.iter().flat_map(|(_, round)| round) {
        values.entry(*id).or_default().push(sample.read_us);
    }
    let summary = |mut us: Vec<u64>| {
        us.sort_unstable();
        let at =
            |share: f64| us.get(((us.len() as f64 * share) as usize).min(us.len() - 1)).copied().unwrap_or(0);
        (us.len(), at(0.5), at(0.99))
    };
    values.into_iter().map(|(id, us)| (id, summary(us))).collect()
}

/// Rejects rules that no cluster can meet.
pub fn check(rules: &Rules) -> Result<()> {
    if !(rules.tolerance >= 1.0 && rules.tolerance.is_finite()) {
        bail!(hone_experiment::ending::Usage(
            "invalid --tolerance: use a factor of 1 or more, for example \
             1.25"
                .to_owned()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_load::canary::Sample;

    /// Rounds of three brokers over some seconds; `us` gives the time of each.
    fn stretch(seconds: u32, us: impl Fn(i32, u32) -> u64) -> Stretch {
        let sample = |us: u64| Sample { ack_us: us, read_us: us, failed: us >= 2_000_000 };
        let rounds = (0..seconds * 20)
            .map(|at| (f64::from(at) / 20.0, (1..4).map(|id| (id, sample(us(id, at)))).collect()))
            .collect();
        Stretch { rounds, lags: Vec::new(), length_s: f64::from(seconds) }
    }

    /// Deterministic, and different for each broker.
    fn noise(id: i32, at: u32) -> u64 {
        let mixed =
            (u64::from(at) * 31 + u64::from(id.unsigned_abs()) * 17).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        900 + (mixed >> 40) % 200
    }

    fn bad(findings: &[Finding]) -> Vec<&str> {
        findings.iter().filter(|finding| finding.bad).map(|finding| finding.text.as_str()).collect()
    }

    #[test]
    fn nothing_changed_is_nothing_found() {
        let before = stretch(10, noise);
        let after = stretch(10, |id, at| noise(id, at + 1_000));
        let findings = judge(&before, &after, Some(2), 1.25);
        assert_eq!(bad(&findings), Vec::<&str>::new());
        assert_eq!(findings.len(), 6, "three brokers, median and mean: {findings:?}");
        assert!(findings[0].text.contains("200 and 200 rounds"), "{}", findings[0].text);
    }

    #[test]
    fn what_slows_all_of_them_is_not_the_changes_doing() {
        let findings = judge(&stretch(10, noise), &stretch(10, |id, at| 5 * noise(id, at)), Some(2), 1.25);
        assert_eq!(bad(&findings), Vec::<&str>::new());
    }

    #[test]
    fn a_slower_canary_is_found_also_by_its_stalls_alone() {
        let before = stretch(10, noise);
        let slow = stretch(10, |id, at| if id == 2 { 2 * noise(id, at) } else { noise(id, at) });
        assert!(bad(&judge(&before, &slow, Some(2), 1.25))[0].contains("the changed broker 2"));
        assert!(plain_harm(&before, &slow, Some(2), 1.25).is_some());
        // One record in ten takes 80 ms, which the median does not show.
        let stalls = stretch(10, |id, at| if id == 2 && at % 10 == 0 { 80_000 } else { noise(id, at) });
        let findings = judge(&before, &stalls, Some(2), 1.25);
        let told = bad(&findings);
        assert!(told.len() == 1 && told[0].contains("mean of write and read"), "{told:?}");
    }

    #[test]
    fn harm_to_another_broker_is_found() {
        let hurt = stretch(10, |id, at| if id == 3 { 3 * noise(id, at) } else { noise(id, at) });
        let findings = judge(&stretch(10, noise), &hurt, Some(2), 1.25);
        assert!(bad(&findings).iter().any(|text| text.contains("another broker, 3")), "{findings:?}");
    }

    #[test]
    fn a_single_broker_is_held_against_itself() {
        let one = |factor: u64| {
            let mut stretch = stretch(10, |id, at| factor * noise(id, at));
            stretch.rounds.iter_mut().for_each(|(_, round)| round.retain(|id, _| *id == 1));
            stretch
        };
        assert_eq!(bad(&judge(&one(1), &one(1), Some(1), 1.25)), Vec::<&str>::new());
        assert!(bad(&judge(&one(1), &one(2), Some(1), 1.25))[0].contains("relative to itself before"));
    }

    /// Like `noise`, with a regular failure of the records of these brokers.
    fn failing(brokers: &'static [i32], every: u32) -> Stretch {
        stretch(
            10,
            move |id, at| {
                if brokers.contains(&id) && at % every == 0 { 2_000_000 } else { noise(id, at) }
            },
        )
    }

    fn bad_failures(after: &Stretch) -> Vec<String> {
        let findings = judge(&stretch(10, noise), after, Some(2), 1e6);
        bad(&findings).into_iter().filter(|text| text.contains("records failed")).map(str::to_owned).collect()
    }

    #[test]
    fn failures_are_harm_where_they_can_not_be_an_accident() {
        // 3 of 200 after none of 200: the probability by chance is one in eight.
        assert_eq!(bad_failures(&failing(&[2], 80)), Vec::<String>::new());
        let told = bad_failures(&failing(&[2], 10));
        assert!(told.len() == 1 && told[0].contains("broker 2: 20 of 200 records failed"), "{told:?}");
        assert!(bad_failures(&failing(&[1], 10))[0].contains("broker 1"), "harm to another one");
        // A failure of all of them is not the change's fault.
        assert_eq!(bad_failures(&failing(&[1, 2, 3], 10)), Vec::<String>::new());
    }

    /// A thousand soaks with random failures and three brokers each: the share of false alarms is at most the promised one.
    #[test]
    fn accidents_are_seldom_called_harm() {
        let mut seed = 7_u64;
        let mut chance = move || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as f64 / f64::from(1_u32 << 31)
        };
        let mut by_accident = || {
            let sample = |failed: bool| Sample { ack_us: 900, read_us: 900, failed };
            let rounds = (0..100)
                .map(|at| (f64::from(at) / 10.0, (1..4).map(|id| (id, sample(chance() < 0.03))).collect()))
                .collect();
            Stretch { rounds, lags: Vec::new(), length_s: 10.0 }
        };
        let mut alarms = 0;
        for _ in 0..1_000 {
            let (before, after) = (by_accident(), by_accident());
            alarms += usize::from(
                failures(&before, &after, Some(2), FALSE_ALARMS).iter().any(|finding| finding.bad),
            );
        }
        assert!(alarms <= 20, "{alarms} of 1000, where 10 were promised");
    }

    #[test]
    fn a_controller_that_nobody_tells_is_asked_for_again() {
        let mut answers = vec![Ok(3), Err("an election".to_owned()), Err("no answer".to_owned())];
        let moment = Duration::from_millis(1);
        let mut look = || answers.pop().unwrap();
        assert_eq!(told_in_time(&mut look, Duration::from_secs(60), moment).unwrap(), 3);
        let never = told_in_time(&mut || Err("no answer".to_owned()), moment, moment);
        assert!(matches!(never, Err(Closed::Sick(why)) if why.contains("no answer")));
    }

    #[test]
    fn lag_is_counted() {
        let lag = |lag: u64| vec![GroupLag { group: "g".to_owned(), lag, partitions: 1 }];
        assert!(!lags(&lag(10), &lag(1_020))[0].bad);
        assert!(lags(&lag(10), &lag(1_021))[0].bad);
    }

    #[test]
    fn too_short_a_stretch_says_so() {
        let short = stretch(1, noise);
        let findings = judge(&short, &short, Some(1), 1.25);
        assert!(findings.iter().all(|finding| !finding.bad && finding.text.contains("inconclusive")));
    }
}
