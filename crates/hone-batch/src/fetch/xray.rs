//! What is wrong with a consumer group, from several looks at it. Pure.
//!
//! Positions are committed offsets. Clients commit every 5 seconds unless told otherwise (`auto.commit.interval.ms`), so a lag rises and falls
//! with each commit. Trends are straight lines through all looks for that reason, and a partition counts as stuck only after three commits.

use std::collections::{BTreeMap, BTreeSet};

use hone_record::{GroupMember, GroupNow, TopicPartition};
use serde::Serialize;

use super::counters::FetchRate;

/// Kafka's `auto.commit.interval.ms`.
pub const COMMIT_EVERY_S: f64 = 5.0;
/// A partition without a commit for this long, while records arrive, is stuck.
const STUCK_AFTER_S: f64 = 3.0 * COMMIT_EVERY_S;
/// A group falls behind if its lag grows by this share of what is written. Less is within the noise of the commits.
const GROWS_FROM: f64 = 0.1;
/// A member is slow below this share of what is written to its partitions.
const SLOW_BELOW: f64 = 0.9;
/// A partition, or a member, with this many times its fair share is skewed.
const SKEWED_FROM: f64 = 2.0;
/// Records older than this are often no longer in the page cache, so reads compete for the disk.
const OLD_FROM_S: f64 = 60.0;
/// Fewer records per second than this are too few for a verdict about rates.
const LEAST_PER_S: f64 = 1.0;
/// A convention: fewer Fetch requests than this cost little, whatever their size.
const MANY_PER_S: f64 = 100.0;
/// A convention: an answer below one page of memory is small.
const SMALL_BYTES: f64 = 4_096.0;
/// Names in a list.
const MOST_NAMED: usize = 8;

/// One look at a group.
#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// Time since the first look.
    pub at_s: f64,
    /// The group.
    pub group: GroupNow,
}

/// A group over some time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupXray {
    /// Its name.
    pub group: String,
    /// Its last state.
    pub state: String,
    /// Time from the first look to the last.
    pub watched_s: f64,
    /// Number of members at the last look.
    pub members: usize,
    /// Number of partitions that it reads.
    pub partitions: usize,
    /// Records per second that are written to its partitions.
    pub written_per_s: f64,
    /// Records per second that it commits.
    pub read_per_s: f64,
    /// Unread records at the last look.
    pub lag_records: u64,
    /// Change of the lag, records per second.
    pub lag_per_s: f64,
    /// Changes of members or of their partitions.
    pub rebalances: u64,
    /// Everything that is wrong with it, the worst first. Empty when nothing was found.
    pub findings: Vec<Finding>,
}

/// The consumers of a cluster over some time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FetchXray {
    /// Its broker, as the user named it.
    pub source: String,
    /// The groups, those with the worst findings first.
    pub groups: Vec<GroupXray>,
    /// Groups that could not be examined, with the reason.
    pub unknown: Vec<UnknownGroup>,
    /// Fetch requests of all consumers. `None` without metrics pages.
    pub fetches: Option<FetchRate>,
}

/// A group without a verdict.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnknownGroup {
    /// Its name.
    pub group: String,
    /// Why.
    pub why: String,
}

impl FetchXray {
    /// Whether consumers ask for so little so often that larger limits save CPU.
    pub fn has_small_fetches(&self) -> bool {
        self.fetches.is_some_and(|rate| {
            rate.requests_per_s >= MANY_PER_S
                && rate.bytes_per_request.is_some_and(|bytes| bytes < SMALL_BYTES)
        })
    }
}

/// Something that is wrong with a group.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Finding {
    /// Records are deleted before the group has read them.
    DeletedUnread {
        /// Number of records between the committed offset and the beginning of the log.
        records: u64,
        /// Some of the partitions.
        partitions: Vec<String>,
    },
    /// There is a lag, and no member.
    NobodyReads,
    /// Partitions that no member has, although there are members.
    Unassigned {
        /// Some of them.
        partitions: Vec<String>,
        /// Their number.
        count: usize,
    },
    /// Partitions without a commit, although records arrive.
    Stuck {
        /// Some of them.
        partitions: Vec<String>,
        /// Their number.
        count: usize,
        /// Members that have them.
        members: Vec<String>,
    },
    /// One member is slower than what is written to its partitions, and the others are not.
    SlowMember {
        /// Its `client.id` and machine.
        member: String,
        /// Records per second that it commits.
        read_per_s: f64,
        /// Records per second that are written to its partitions.
        written_per_s: f64,
    },
    /// The whole group is slower than what is written.
    FallsBehind {
        /// Records per second by which the lag grows.
        lag_per_s: f64,
    },
    /// Rebalances stop the group again and again.
    Rebalances {
        /// Number per minute.
        per_minute: f64,
    },
    /// One partition gets far more records than its fair share.
    SkewedPartition {
        /// The partition.
        partition: String,
        /// Its share of the records.
        share: f64,
        /// A fair share.
        fair_share: f64,
    },
    /// One member gets far more records than its fair share.
    SkewedMember {
        /// Its `client.id` and machine.
        member: String,
        /// Its share of the records.
        share: f64,
        /// A fair share.
        fair_share: f64,
    },
    /// The oldest unread record is so old that reads go to the disk.
    ReadsOldRecords {
        /// About how old it is.
        age_s: f64,
    },
    /// Members without a partition.
    IdleMembers {
        /// Their number.
        count: usize,
    },
}

/// Examines a group. `None` with fewer than two looks.
pub fn xray(looks: &[Look]) -> Option<GroupXray> {
    let ([first, .., last], Some(_)) = (looks, looks.get(1)) else { return None };
    let watched_s = last.at_s - first.at_s;
    if watched_s <= 0.0 {
        return None;
    }
    let series = Series::new(looks, watched_s);
    let mut found = GroupXray {
        group: last.group.group.clone(),
        state: last.group.state.clone(),
        watched_s,
        members: last.group.members.len(),
        partitions: last.group.partitions.len(),
        written_per_s: series.flows.values().map(|flow| flow.written_per_s).sum(),
        read_per_s: series.flows.values().map(|flow| flow.read_per_s).sum(),
        lag_records: lag(&last.group),
        lag_per_s: slope(looks.iter().map(|look| (look.at_s, lag(&look.group) as f64))),
        rebalances: rebalances(looks),
        findings: Vec::new(),
    };
    found.findings = findings(&found, &series, &last.group);
    Some(found)
}

/// What flows through each partition.
struct Series {
    flows: BTreeMap<TopicPartition, Flow>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Flow {
    written_per_s: f64,
    read_per_s: f64,
    /// Longest time up to the last look without a commit, while records were unread.
    quiet_s: f64,
}

impl Series {
    fn new(looks: &[Look], watched_s: f64) -> Self {
        let (first, last) = (&looks[0], &looks[looks.len() - 1]);
        let flow = |(partition, now): (&TopicPartition, &hone_record::Position)| {
            let before = first.group.partitions.get(partition).copied().unwrap_or_default();
            let per_s = |from: Option<i64>, to: Option<i64>| {
                from.zip(to).map_or(0.0, |(from, to)| (to - from).max(0) as f64 / watched_s)
            };
            let is_there = |look: &&Look| {
                look.group.partitions.get(partition).is_some_and(|at| at.committed == now.committed)
            };
            let since_s = looks.iter().rev().take_while(is_there).last().map_or(last.at_s, |look| look.at_s);
            let unread = now.end.zip(now.committed).is_some_and(|(end, committed)| end > committed);
            let flow = Flow {
                written_per_s: per_s(before.end, now.end),
                read_per_s: per_s(before.committed, now.committed),
                quiet_s: if unread { last.at_s - since_s } else { 0.0 },
            };
            (partition.clone(), flow)
        };
        Self { flows: last.group.partitions.iter().map(flow).collect() }
    }

    /// What flows through the partitions of a member: written, read.
    fn flow_of(&self, member: &GroupMember) -> (f64, f64) {
        let flows = member.partitions.iter().filter_map(|partition| self.flows.get(partition));
        flows.fold((0.0, 0.0), |(written, read), flow| (written + flow.written_per_s, read + flow.read_per_s))
    }
}

/// Unread records of all partitions with a committed offset. What was deleted is not unread.
fn lag(group: &GroupNow) -> u64 {
    let of = |position: &hone_record::Position| {
        let from = position.committed?.max(position.begin.unwrap_or(0));
        u64::try_from(position.end?.saturating_sub(from)).ok()
    };
    group.partitions.values().filter_map(of).sum()
}

/// Slope of the straight line through points, by least squares.
fn slope(points: impl Iterator<Item = (f64, f64)> + Clone) -> f64 {
    let count = points.clone().count().max(1) as f64;
    let (sum_x, sum_y) = points.clone().fold((0.0, 0.0), |(x, y), point| (x + point.0, y + point.1));
    let (mean_x, mean_y) = (sum_x / count, sum_y / count);
    let (above, below) = points.fold((0.0, 0.0), |(above, below), (x, y)| {
        (above + (x - mean_x) * (y - mean_y), below + (x - mean_x) * (x - mean_x))
    });
    if below > 0.0 { above / below } else { 0.0 }
}

/// Times at which the assignment was another than at the look before. Looks within a rebalance belong to one.
fn rebalances(looks: &[Look]) -> u64 {
    let is_settled = |look: &&Look| matches!(look.group.state.as_str(), "Stable" | "Empty" | "Dead");
    let settled: Vec<&Look> = looks.iter().filter(is_settled).collect();
    let assignment = |look: &Look| {
        let members = look.group.members.iter().map(|member| {
            (member.member.clone(), member.partitions.iter().cloned().collect::<BTreeSet<_>>())
        });
        (look.group.epoch, members.collect::<BTreeMap<_, _>>())
    };
    let changed = settled.windows(2).filter(|pair| assignment(pair[0]) != assignment(pair[1])).count() as u64;
    // It began, and no look shows its end.
    let is_in_one = looks.last().is_some_and(|look| !is_settled(&look));
    changed + u64::from(is_in_one)
}

fn findings(found: &GroupXray, series: &Series, now: &GroupNow) -> Vec<Finding> {
    let mut all = Vec::new();
    all.extend(deleted(now));
    // Members that assign their partitions themselves are none to the broker, and they commit all the same.
    let is_quiet = |flow: &Flow| flow.read_per_s == 0.0 || flow.quiet_s >= STUCK_AFTER_S;
    if now.members.is_empty() && found.lag_records > 0 && series.flows.values().all(is_quiet) {
        all.push(Finding::NobodyReads);
    }
    all.extend(unassigned(now));
    let stuck = stuck(series, now);
    let is_stuck = stuck.is_some();
    all.extend(stuck);
    let slow = slow_member(series, now).filter(|_| !is_stuck);
    let falls_behind = found.written_per_s >= LEAST_PER_S
        && !now.members.is_empty()
        && found.lag_per_s > GROWS_FROM * found.written_per_s;
    if falls_behind && slow.is_none() && !is_stuck {
        all.push(Finding::FallsBehind { lag_per_s: found.lag_per_s });
    }
    all.extend(slow);
    if found.rebalances >= 2 {
        all.push(Finding::Rebalances { per_minute: 60.0 * found.rebalances as f64 / found.watched_s });
    }
    all.extend(skewed_partition(series));
    all.extend(skewed_member(series, now));
    let age_s = found.lag_records as f64 / found.written_per_s.max(1e-9);
    if found.written_per_s >= LEAST_PER_S && age_s > OLD_FROM_S && !now.members.is_empty() {
        all.push(Finding::ReadsOldRecords { age_s });
    }
    let idle = now.members.iter().filter(|member| member.partitions.is_empty()).count();
    if idle > 0 && idle < now.members.len() {
        all.push(Finding::IdleMembers { count: idle });
    }
    all
}

fn named(partition: &TopicPartition) -> String {
    format!("{}/{}", partition.0, partition.1)
}

fn some_of<'a>(partitions: impl Iterator<Item = &'a TopicPartition>) -> Vec<String> {
    partitions.take(MOST_NAMED).map(named).collect()
}

fn of_member(member: &GroupMember) -> String {
    format!("{} on {}", member.client, member.host)
}

fn deleted(now: &GroupNow) -> Option<Finding> {
    let gone = |position: &hone_record::Position| {
        position.begin.zip(position.committed).map_or(0, |(begin, committed)| begin.saturating_sub(committed))
    };
    let hit = || now.partitions.iter().filter(|(_, position)| gone(position) > 0);
    let records = hit().map(|(_, position)| gone(position).unsigned_abs()).sum();
    (records > 0)
        .then(|| Finding::DeletedUnread { records, partitions: some_of(hit().map(|(name, _)| name)) })
}

fn unassigned(now: &GroupNow) -> Option<Finding> {
    let held: BTreeSet<&TopicPartition> = now.members.iter().flat_map(|member| &member.partitions).collect();
    // A group whose members assign partitions themselves has none in the broker's sense.
    if held.is_empty() || now.state != "Stable" {
        return None;
    }
    // Topics that nobody reads any more keep their offsets.
    let topics: BTreeSet<&str> = held.iter().map(|(topic, _)| topic.as_str()).collect();
    let free =
        || now.partitions.keys().filter(|name| topics.contains(name.0.as_str()) && !held.contains(name));
    let count = free().count();
    (count > 0).then(|| Finding::Unassigned { partitions: some_of(free()), count })
}

fn stuck(series: &Series, now: &GroupNow) -> Option<Finding> {
    let is_stuck = |(_, flow): &(&TopicPartition, &Flow)| {
        flow.quiet_s >= STUCK_AFTER_S && flow.written_per_s * flow.quiet_s >= 1.0
    };
    let hit: BTreeSet<&TopicPartition> = series.flows.iter().filter(is_stuck).map(|(name, _)| name).collect();
    if hit.is_empty() || now.members.is_empty() {
        return None;
    }
    let has_one = |member: &&GroupMember| member.partitions.iter().any(|name| hit.contains(name));
    let members: BTreeSet<String> = now.members.iter().filter(has_one).map(of_member).collect();
    Some(Finding::Stuck {
        partitions: some_of(hit.iter().copied()),
        count: hit.len(),
        members: members.into_iter().take(MOST_NAMED).collect(),
    })
}

fn slow_member(series: &Series, now: &GroupNow) -> Option<Finding> {
    let share = |member: &GroupMember| {
        let (written, read) = series.flow_of(member);
        (written >= LEAST_PER_S).then(|| read / written)
    };
    let busy: Vec<(&GroupMember, f64)> =
        now.members.iter().filter_map(|member| Some((member, share(member)?))).collect();
    let (slowest, least) = busy.iter().copied().min_by(|left, right| left.1.total_cmp(&right.1))?;
    let others_keep_up =
        busy.iter().filter(|(member, _)| member != &slowest).all(|(_, share)| *share >= SLOW_BELOW);
    if busy.len() < 2 || least >= SLOW_BELOW || !others_keep_up {
        return None;
    }
    let (written_per_s, read_per_s) = series.flow_of(slowest);
    Some(Finding::SlowMember { member: of_member(slowest), read_per_s, written_per_s })
}

fn skewed_partition(series: &Series) -> Option<Finding> {
    let (count, all): (usize, f64) =
        (series.flows.len(), series.flows.values().map(|flow| flow.written_per_s).sum());
    let most =
        series.flows.iter().max_by(|left, right| left.1.written_per_s.total_cmp(&right.1.written_per_s));
    let (name, flow) = most.filter(|_| count >= 2 && all >= LEAST_PER_S)?;
    let (share, fair_share) = (flow.written_per_s / all, 1.0 / count as f64);
    // With two partitions, twice the fair share is everything.
    let is_skewed = share >= SKEWED_FROM * fair_share || count == 2 && share >= 0.8;
    is_skewed.then(|| Finding::SkewedPartition { partition: named(name), share, fair_share })
}

fn skewed_member(series: &Series, now: &GroupNow) -> Option<Finding> {
    let busy: Vec<(&GroupMember, f64)> = now
        .members
        .iter()
        .filter(|member| !member.partitions.is_empty())
        .map(|member| (member, series.flow_of(member).0))
        .collect();
    let all: f64 = busy.iter().map(|(_, written)| written).sum();
    let most = busy.iter().max_by(|left, right| left.1.total_cmp(&right.1));
    let (member, written) = most.filter(|_| busy.len() >= 2 && all >= LEAST_PER_S)?;
    let (share, fair_share) = (written / all, 1.0 / busy.len() as f64);
    let is_skewed = share >= SKEWED_FROM * fair_share || busy.len() == 2 && share >= 0.8;
    is_skewed.then(|| Finding::SkewedMember { member: of_member(member), share, fair_share })
}

#[cfg(test)]
mod tests {
    use hone_record::Position;

    use super::*;

    /// Two members with two partitions each. By partition: written per second, read per second.
    fn looks(flows: [(f64, f64); 4], seconds: u32, change: impl Fn(u32, &mut GroupNow)) -> Vec<Look> {
        let orders = |partition| ("orders".to_owned(), partition);
        let member = |number: i32| GroupMember {
            member: format!("m-{number}"),
            client: format!("reader-{number}"),
            host: "10.0.0.7".to_owned(),
            partitions: vec![orders(2 * number), orders(2 * number + 1)],
        };
        let look = |second: u32| {
            // Clients commit every five seconds.
            let committed = f64::from(second / 5 * 5);
            let position = |(partition, (written, read)): (i32, (f64, f64))| {
                let position = Position {
                    committed: Some(1_000 + (committed * read) as i64),
                    begin: Some(0),
                    end: Some(1_000 + (f64::from(second) * written) as i64),
                };
                (orders(partition), position)
            };
            let mut group = GroupNow {
                group: "billing".to_owned(),
                state: "Stable".to_owned(),
                epoch: None,
                members: vec![member(0), member(1)],
                partitions: (0..).zip(flows).map(position).collect(),
            };
            change(second, &mut group);
            Look { at_s: f64::from(second), group }
        };
        (0..=seconds).map(look).collect()
    }

    const EVEN: (f64, f64) = (100.0, 100.0);

    fn found(flows: [(f64, f64); 4], change: impl Fn(u32, &mut GroupNow)) -> GroupXray {
        xray(&looks(flows, 60, change)).unwrap()
    }

    fn kinds(found: &GroupXray) -> Vec<String> {
        let kind =
            |finding: &Finding| serde_json::to_value(finding).unwrap()["kind"].as_str().unwrap().to_owned();
        found.findings.iter().map(kind).collect()
    }

    #[test]
    fn a_group_that_keeps_up_has_no_findings() {
        let quiet = found([EVEN; 4], |_, _| {});
        assert_eq!(kinds(&quiet), [""; 0]);
        assert!((quiet.written_per_s - 400.0).abs() < 1.0 && (quiet.read_per_s - 400.0).abs() < 1.0);
        // Between two commits, up to five seconds are unread. That is no trend.
        assert!(quiet.lag_per_s.abs() < 0.05 * quiet.written_per_s, "{}", quiet.lag_per_s);
        for seconds in [30, 33, 38, 61, 64] {
            let looks = looks([EVEN; 4], seconds, |_, _| {});
            assert_eq!(kinds(&xray(&looks).unwrap()), [""; 0], "{seconds} s");
        }
    }

    #[test]
    fn what_is_planted_is_named() {
        let slow = (100.0, 70.0);
        let of = |flows| kinds(&found(flows, |_, _| {}));
        assert_eq!(of([slow; 4]), ["falls-behind"]);
        assert_eq!(of([slow, slow, EVEN, EVEN]), ["slow-member"]);
        assert_eq!(of([(100.0, 0.0), EVEN, EVEN, EVEN]), ["stuck"]);
        assert_eq!(of([(1_000.0, 1_000.0), EVEN, EVEN, EVEN]), ["skewed-partition", "skewed-member"]);
        assert_eq!(of([(0.0, 0.0); 4]), [""; 0]);
    }

    #[test]
    fn members_and_their_partitions_are_looked_at() {
        let of = |change: &dyn Fn(u32, &mut GroupNow)| kinds(&found([EVEN; 4], change));
        let nobody = |_: u32, group: &mut GroupNow| {
            group.members.clear();
            group.partitions.values_mut().for_each(|position| position.committed = Some(900));
        };
        assert_eq!(of(&nobody), ["nobody-reads"]);
        // Its members assign their partitions themselves.
        assert_eq!(of(&|_, group| group.members.clear()), [""; 0]);
        assert_eq!(of(&|_, group| drop(group.members[0].partitions.pop())), ["unassigned"]);
        let idle = |_, group: &mut GroupNow| {
            let all = group.members[1].partitions.split_off(0);
            group.members[0].partitions.extend(all);
        };
        assert_eq!(of(&idle), ["idle-members"]);
        let gone = |_, group: &mut GroupNow| {
            group
                .partitions
                .values_mut()
                .for_each(|position| position.begin = position.committed.map(|at| at + 5));
        };
        assert_eq!(of(&gone), ["deleted-unread"]);
        let old = |_, group: &mut GroupNow| {
            group
                .partitions
                .values_mut()
                .for_each(|position| position.end = position.end.map(|at| at + 9_000));
        };
        assert_eq!(of(&old), ["reads-old-records"]);
    }

    #[test]
    fn rebalances_are_counted_once_each() {
        // At 10, 25 and 40 s a member joins anew; two looks show the group between.
        let again = |second: u32, group: &mut GroupNow| {
            let number = [10, 25, 40].iter().filter(|at| second >= **at).count();
            group.members[0].member = format!("m-0-{number}");
            if [10, 11, 25, 26, 40, 41].contains(&second) {
                group.state = "PreparingRebalance".to_owned();
                group.members.iter_mut().for_each(|member| member.partitions.clear());
            }
        };
        let found = found([EVEN; 4], again);
        assert_eq!((found.rebalances, kinds(&found)), (3, vec!["rebalances".to_owned()]));
        let Finding::Rebalances { per_minute } = found.findings[0] else { panic!() };
        assert!((per_minute - 3.0).abs() < 1e-9);
    }

    #[test]
    fn one_look_is_none() {
        assert_eq!(xray(&looks([EVEN; 4], 0, |_, _| {})), None);
        assert_eq!(xray(&[]), None);
    }
}
