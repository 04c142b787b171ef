//! One cluster or two: what a larger flow needs from one cluster, and whether one cluster holds it.
//!
//! Batches come from [`crate::whatif`], CPU comes from [`crate::cost`]: this module predicts nothing a second time. There are two cases. If
//! the same producers send more, their batches grow, so their number grows less than the flow. If new producers like today's come, the
//! number of batches grows with the flow, and nothing is gained. A flow that can't be replayed counts as if new producers brought it, which
//! is the upper limit.

use hone_record::{
    BatchPlan, BatchWatch, CostInterval, Figure, Foreseen, PlanAnswer, PlanAssumption, PlannedClusters,
    PlannedResource, PlannedTopic, PlannedWork, WatchedInstance, WatchedTopic, WhatIf,
};

use crate::cost::{Change, Model};

pub mod looks;

/// Kinds of work with a predicted growth; records grow with the flow.
const REQUESTS: usize = 0;
const BATCHES: usize = 1;
const BYTES: usize = 2;
const KINDS: usize = 3;
/// Topics with a larger share of the cluster's batches count as the whole cluster.
const ALL: f64 = 0.995;

/// The question, with facts that only the user knows.
#[derive(Debug, Clone)]
pub struct PlanSettings {
    /// The cluster.
    pub target: String,
    /// This multiple of today's flow.
    pub grow: f64,
    /// New producers bring it.
    pub new_producers: bool,
    /// Share of the cores that the mean flow may use.
    pub max_cpu: f64,
    /// Cores of all brokers.
    pub cores: Option<f64>,
    /// Network of a broker in one direction, bytes per second.
    pub network: Option<f64>,
    /// Disk of a broker, bytes per second.
    pub disk: Option<f64>,
    /// How often consumers read each byte.
    pub fan_out: Option<f64>,
    /// Replicas of a partition, including the leader.
    pub replicas: f64,
    /// Brokers, according to the leaders.
    pub brokers: f64,
}

/// The data and the measurements.
#[derive(Debug, Clone, Copy)]
pub struct Known<'a> {
    /// The topics, each replayed with the larger flow of the same producers.
    pub topics: &'a [WhatIf],
    /// The cost of work.
    pub model: Option<&'a Model>,
    /// The cluster's counters.
    pub watch: Option<&'a BatchWatch>,
}

/// The end of a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Low,
    Value,
    High,
}

fn at(range: Foreseen, end: End) -> f64 {
    match end {
        End::Low => range.low,
        End::Value => range.value,
        End::High => range.high,
    }
}

fn exactly(value: f64) -> Foreseen {
    Foreseen { value, low: value, high: value }
}

/// Answers the question.
pub fn plan(asked: &PlanSettings, known: &Known<'_>) -> BatchPlan {
    let same = growth(asked.grow, known);
    let new = [exactly(asked.grow); KINDS];
    let question = Question { asked, known, same, new };
    let resources = question.resources();
    let answer = together(&resources);
    let assumptions = question.assumptions();
    let other = PlanSettings { new_producers: !asked.new_producers, ..asked.clone() };
    let otherwise = together(&Question { asked: &other, ..question }.resources());
    let turns = (otherwise != answer).then(|| turns(other.new_producers, otherwise));
    BatchPlan {
        target: asked.target.clone(),
        grow: asked.grow,
        new_producers: asked.new_producers,
        answer,
        next: question.next(answer, &resources),
        notes: turns.into_iter().chain(question.notes()).collect(),
        work: question.work(),
        resources,
        clusters: question.clusters(),
        assumptions,
        topics: known.topics.iter().map(|topic| planned(topic, asked.grow)).collect(),
    }
}

/// A topic's rates now, and if the same producers send more.
fn grown(topic: &WhatIf, grow: f64) -> [(f64, Foreseen); KINDS] {
    let (batches, bytes) = (topic.today.batches_per_s, topic.today.bytes_per_s);
    // Without a replay, assume a batch per request: these values are only weights.
    let requests = topic.replayed.as_ref().and_then(|replayed| replayed.requests_per_s).unwrap_or(batches);
    let (Some(replayed), Some(then), None) = (&topic.replayed, &topic.predicted, &topic.refused) else {
        // No fewer than today, because more records end no batch later; and no more than with new producers.
        let unknown = |now: f64| (now, Foreseen { value: now * grow, low: now, high: now * grow });
        return [unknown(requests), unknown(batches), (bytes, exactly(bytes * grow))];
    };
    let scaled = |now: f64, from: f64, then: Foreseen| {
        let by = if from > 0.0 { now / from } else { 0.0 };
        (now, Foreseen { value: by * then.value, low: by * then.low, high: by * then.high })
    };
    [
        scaled(requests, requests, then.requests_per_s),
        scaled(batches, replayed.batches_per_s, then.batches_per_s),
        scaled(bytes, replayed.bytes_per_s, then.bytes_per_s),
    ]
}

/// The growth of the cluster's work if the same producers send more: factors by kind.
fn growth(grow: f64, known: &Known<'_>) -> [Foreseen; KINDS] {
    let topics: Vec<_> = known.topics.iter().map(|topic| grown(topic, grow)).collect();
    std::array::from_fn(|kind| {
        let now: f64 = topics.iter().map(|topic| topic[kind].0).sum();
        let share = if now > 0.0 { covered(known, kind) } else { 0.0 };
        let of = |end: End, rest: f64| {
            let then: f64 = topics.iter().map(|topic| at(topic[kind].1, end)).sum();
            share * then / now.max(f64::MIN_POSITIVE) + (1.0 - share) * rest
        };
        let least = if kind == BYTES { grow } else { 1.0 };
        Foreseen { value: of(End::Value, grow), low: of(End::Low, least), high: of(End::High, grow) }
    })
}

/// Share of the cluster's work in the topics that Hone read; all of it if no counter shows otherwise.
fn covered(known: &Known<'_>, kind: usize) -> f64 {
    let of = |topic: &WatchedTopic| match kind {
        BYTES => topic.bytes_per_s.known(),
        _ => topic.batches_per_s.known(),
    };
    let Some((watch, total)) = known.watch.and_then(|watch| Some((watch, of(&watch.total)?))) else {
        return 1.0;
    };
    let is_read = |topic: &&WatchedTopic| known.topics.iter().any(|read| read.topic == topic.topic);
    let read: f64 = watch.topics.iter().filter(is_read).filter_map(of).sum();
    if total > 0.0 { (read / total).min(1.0) } else { 1.0 }
}

fn planned(topic: &WhatIf, grow: f64) -> PlannedTopic {
    let [_, (batches_now, batches), _] = grown(topic, grow);
    let now = topic.today.records_per_batch;
    PlannedTopic {
        topic: topic.topic.clone(),
        batches_now,
        batches_same_producers: batches,
        batches_new_producers: batches_now * grow,
        records_per_batch_now: now,
        records_per_batch_then: now * grow * batches_now / batches.value.max(f64::MIN_POSITIVE),
        refused: match (&topic.refused, &topic.predicted) {
            (Some(why), _) => Some(why.clone()),
            (None, None) => Some("the replay did not finish".to_owned()),
            (None, Some(_)) => None,
        },
    }
}

/// The worst answer of all resources with a ceiling. Without the CPU, no answer is certain.
fn together(resources: &[PlannedResource]) -> PlanAnswer {
    let is = |answer| resources.iter().any(|resource| resource.answer == Some(answer));
    let has_cpu = resources.iter().any(|each| each.resource == "cpu" && each.answer.is_some());
    match () {
        () if is(PlanAnswer::DoesNotHold) => PlanAnswer::DoesNotHold,
        () if is(PlanAnswer::Inconclusive) || !has_cpu => PlanAnswer::Inconclusive,
        () => PlanAnswer::Holds,
    }
}

/// Notes that the other assumption about who brings the flow changes the answer.
fn turns(new_producers: bool, otherwise: PlanAnswer) -> String {
    let who = if new_producers { "new producers bring" } else { "the same producers bring" };
    let answer = match otherwise {
        PlanAnswer::Holds => "one cluster holds it",
        PlanAnswer::DoesNotHold => "one cluster does not hold it",
        PlanAnswer::Inconclusive => "the answer is inconclusive",
    };
    format!("if {who} the flow, {answer}")
}

/// Whether the mean flow stays below a share of a ceiling, and the busiest point below the ceiling.
fn judged(resource: &PlannedResource) -> Option<PlanAnswer> {
    let ceiling = resource.ceiling?;
    let limits = [(Some(resource.then), resource.most_share * ceiling), (resource.busiest, ceiling)];
    let known = || limits.iter().filter_map(|(of, limit)| Some((of.as_ref()?, *limit)));
    Some(if known().any(|(of, limit)| of.low > limit) {
        PlanAnswer::DoesNotHold
    } else if known().all(|(of, limit)| of.high <= limit) {
        PlanAnswer::Holds
    } else {
        PlanAnswer::Inconclusive
    })
}

#[derive(Clone, Copy)]
struct Question<'a> {
    asked: &'a PlanSettings,
    known: &'a Known<'a>,
    same: [Foreseen; KINDS],
    new: [Foreseen; KINDS],
}

impl Question<'_> {
    fn factors(&self) -> &[Foreseen; KINDS] {
        if self.asked.new_producers { &self.new } else { &self.same }
    }

    /// A mix of work for the cost model; `busy` times the mean flow.
    fn mix(&self, factors: &[Foreseen; KINDS], end: End, busy: f64) -> Change {
        Change {
            requests: busy * at(factors[REQUESTS], end),
            batches: busy * at(factors[BATCHES], end),
            records: busy * self.asked.grow,
            bytes: Some(busy * at(factors[BYTES], end)),
        }
    }

    fn cores(&self, model: &Model, factors: &[Foreseen; KINDS], busy: f64) -> CostInterval {
        let of = |end| model.forecast(self.mix(factors, end, busy), "").cores_then;
        CostInterval { value: of(End::Value).value, low: of(End::Low).low, high: of(End::High).high }
    }

    /// Requests, batches, records and bytes per second, today: from the history, from the last look at the counters, or else from the
    /// topics' windows.
    fn rates(&self) -> [f64; 4] {
        let read: Vec<_> = self.known.topics.iter().map(|topic| grown(topic, 1.0)).collect();
        let sum = |kind: usize| read.iter().map(|topic| topic[kind].0).sum::<f64>();
        let today = self.known.topics.iter().map(|topic| &topic.today);
        let records = today.map(|today| today.batches_per_s * today.records_per_batch).sum();
        let of_topics = [sum(REQUESTS), sum(BATCHES), records, sum(BYTES)];
        let of_history = self.known.model.map_or([0.0; 4], Model::mean_rates);
        let of_counters = self.counted().unwrap_or_default();
        let known = |kind: usize| [of_history[kind], of_counters[kind]].into_iter().find(|rate| *rate > 0.0);
        std::array::from_fn(|kind| known(kind).unwrap_or(of_topics[kind]))
    }

    /// The same by the counters; a request per batch without such a counter.
    fn counted(&self) -> Option<[f64; 4]> {
        let total = &self.known.watch?.total;
        let batches = total.batches_per_s.known()?;
        let requests = self.instances().iter().map(|one| one.requests_per_s.known()).sum::<Option<f64>>();
        Some([requests.unwrap_or(batches), batches, total.records_per_s.known()?, total.bytes_per_s.known()?])
    }

    fn work(&self) -> Vec<PlannedWork> {
        let [requests, batches, bytes] = *self.factors();
        let factors = [requests, batches, exactly(self.asked.grow), bytes];
        let rows = ["requests", "batches", "records", "bytes"].into_iter().zip(self.rates()).zip(factors);
        rows.map(|((unit, now), by)| PlannedWork {
            unit: unit.to_owned(),
            now,
            then: Foreseen { value: now * by.value, low: now * by.low, high: now * by.high },
        })
        .collect()
    }

    fn busiest(&self) -> Option<f64> {
        self.known.model.map(Model::busiest)
    }

    fn resources(&self) -> Vec<PlannedResource> {
        let mut all: Vec<PlannedResource> =
            self.known.model.map(|model| self.cpu(model)).into_iter().collect();
        let (replicas, fan_out) = (self.asked.replicas, self.fan_out().unwrap_or(1.0));
        let amplification = self.write_amplification();
        let one = CostInterval { value: 1.0, low: 1.0, high: 1.0 };
        let per_byte = |times: f64| CostInterval { value: times, low: times, high: times };
        let disk = CostInterval {
            value: replicas * amplification.unwrap_or(self.amplification_most()),
            low: replicas * amplification.unwrap_or(one.low),
            high: replicas * amplification.unwrap_or(self.amplification_most()),
        };
        all.push(self.flow("network-in", per_byte(replicas), self.asked.network));
        all.push(self.flow("network-out", per_byte(replicas - 1.0 + fan_out), self.asked.network));
        all.push(self.flow("disk", disk, self.asked.disk));
        all.iter_mut().for_each(|resource| resource.answer = judged(resource));
        all
    }

    fn cpu(&self, model: &Model) -> PlannedResource {
        let cores = |instance: &WatchedInstance| instance.cores.known();
        let counted = || self.instances().iter().map(cores).sum::<Option<f64>>().filter(|cores| *cores > 0.0);
        PlannedResource {
            resource: "cpu".to_owned(),
            now: model.forecast(Change::default(), "").cores_now.value,
            then: self.cores(model, self.factors(), 1.0),
            busiest: Some(self.cores(model, self.factors(), model.busiest())),
            ceiling: self.asked.cores.or_else(counted),
            most_share: self.asked.max_cpu,
            answer: None,
        }
    }

    /// Bytes per second through each broker for the bytes that producers send.
    fn flow(&self, resource: &str, per_byte: CostInterval, ceiling: Option<f64>) -> PlannedResource {
        let each = self.rates()[3] / self.brokers();
        let grow = self.factors()[BYTES];
        let then = |busy: f64| CostInterval {
            value: busy * each * per_byte.value * grow.value,
            low: busy * each * per_byte.low * grow.low,
            high: busy * each * per_byte.high * grow.high,
        };
        PlannedResource {
            resource: resource.to_owned(),
            now: each * per_byte.value,
            then: then(1.0),
            busiest: self.busiest().map(then),
            ceiling,
            most_share: 1.0,
            answer: None,
        }
    }

    fn instances(&self) -> &[WatchedInstance] {
        self.known.watch.map_or(&[], |watch| &watch.instances)
    }

    fn brokers(&self) -> f64 {
        match self.instances().len() {
            0 => self.asked.brokers.max(1.0),
            counted => counted as f64,
        }
    }

    /// As the user gave it, or bytes sent to clients over bytes received.
    fn fan_out(&self) -> Option<f64> {
        let sum = |of: fn(&WatchedInstance) -> Figure| {
            self.instances().iter().map(|instance| of(instance).known()).sum::<Option<f64>>()
        };
        let measured = || {
            let received =
                sum(|instance| instance.received_bytes_per_s).filter(|received| *received > 0.0)?;
            Some(sum(|instance| instance.sent_bytes_per_s)? / received)
        };
        self.asked.fan_out.or_else(measured)
    }

    /// Bytes on disk per byte, as counted; the mean of the brokers.
    fn write_amplification(&self) -> Option<f64> {
        let all: Vec<f64> =
            self.instances().iter().filter_map(|instance| instance.write_amplification.known()).collect();
        (!all.is_empty()).then(|| all.iter().sum::<f64>() / all.len() as f64)
    }

    /// The same if each batch was flushed alone.
    fn amplification_most(&self) -> f64 {
        let of = |topic: &WhatIf| match &topic.predicted {
            Some(then) if !self.asked.new_producers => then.figures.write_amplification_most,
            _ => topic.today.write_amplification_most,
        };
        let topics = || self.known.topics.iter();
        let bytes: f64 = topics().map(|topic| topic.today.bytes_per_s).sum();
        let written: f64 = topics().map(|topic| topic.today.bytes_per_s * of(topic)).sum();
        if bytes > 0.0 { (written / bytes).max(1.0) } else { 1.0 }
    }

    /// Several clusters that split the larger flow into flows of today's size, with the same producers: each has today's batches.
    fn clusters(&self) -> Option<PlannedClusters> {
        let (model, grow) = (self.known.model?, self.asked.grow);
        let clusters = (grow - 1e-9).ceil();
        let each = Change { requests: grow, batches: grow, records: grow, bytes: Some(grow) };
        let saved = |end| model.saved(self.mix(self.factors(), end, 1.0), clusters, each);
        Some(PlannedClusters {
            clusters,
            cores: model.clusters(clusters, each),
            saved: CostInterval {
                value: saved(End::Value).value,
                low: saved(End::High).low,
                high: saved(End::Low).high,
            },
        })
    }

    /// The assumptions that change the headline most: cores, or batches/s if the CPU is unknown.
    fn assumptions(&self) -> Vec<PlanAssumption> {
        let who = "who brings the flow: the same producers, or new ones";
        let replay = "the range of the replay";
        let [_, batches, _, _] = self.rates();
        let unit = if self.known.model.is_some() { "cores" } else { "batches/s" };
        let headline = |factors: &[Foreseen; KINDS], end: End| match self.known.model {
            Some(model) => model.forecast(self.mix(factors, end, 1.0), "").cores_then.value,
            None => batches * at(factors[BATCHES], end),
        };
        let chosen = self.factors();
        let mut all = vec![
            (who, [headline(&self.same, End::Value), headline(&self.new, End::Value)]),
            (replay, [headline(chosen, End::Low), headline(chosen, End::High)]),
        ];
        if let Some(model) = self.known.model {
            let fitted = model.forecast(self.mix(chosen, End::Value, 1.0), "").cores_then;
            all.push((COSTS, [fitted.low, fitted.high]));
        }
        let width = |ends: &[f64; 2]| (ends[1] - ends[0]).abs();
        all.retain(|(_, ends)| width(ends) > 0.0);
        all.sort_by(|one, other| width(&other.1).total_cmp(&width(&one.1)));
        let told = |(assumption, ends): (&str, [f64; 2])| PlanAssumption {
            assumption: assumption.to_owned(),
            ends,
            unit: unit.to_owned(),
        };
        all.into_iter().map(told).collect()
    }

    fn next(&self, answer: PlanAnswer, resources: &[PlannedResource]) -> Option<String> {
        let target = &self.asked.target;
        let spans = |name: &str| {
            resources
                .iter()
                .any(|each| each.resource.starts_with(name) && each.answer == Some(PlanAnswer::Inconclusive))
        };
        let text = match answer {
            PlanAnswer::Holds => return None,
            PlanAnswer::DoesNotHold => {
                format!("find the topics whose larger batches save most: `hone batch xray {target}`")
            }
            _ if self.known.model.is_none() => format!(
                "measure the CPU: `{KEEP}` (6 h, with a quiet and a busy hour), then add --history looks.jsonl"
            ),
            _ if resources.iter().any(|each| each.resource == "cpu" && each.ceiling.is_none()) => {
                "add --cores N, the number of cores of all brokers (no measurement)".to_owned()
            }
            _ if spans("cpu") && !self.is_widest_by_replay() => format!(
                "narrow the cost of work: `{}` (24 h, with a quiet and a busy hour), then add --history \
                 looks.jsonl",
                KEEP.replace("6h", "24h")
            ),
            _ if spans("disk") && self.write_amplification().is_none() => {
                format!("measure the write amplification: `{KEEP}` (6 h), then add --history looks.jsonl")
            }
            _ => "narrow the range of the replay: repeat it with --last 30m (some minutes)".to_owned(),
        };
        Some(text)
    }

    /// Whether the replay changes the CPU more than the costs do.
    fn is_widest_by_replay(&self) -> bool {
        let own = self.assumptions();
        let place = |name: &str| own.iter().position(|each| each.assumption == name).unwrap_or(usize::MAX);
        place("the range of the replay") < place(COSTS)
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.known.model.is_none() {
            notes.push(
                "no CPU prediction: it needs a history of the cluster with enough points (--prometheus or \
                 --history)"
                    .to_owned(),
            );
        }
        if let Some(model) = self.known.model {
            notes.extend(model.forecast(self.mix(self.factors(), End::Value, 1.0), "").notes);
            notes.extend(model.record("").notes);
        }
        let share = covered(self.known, BATCHES);
        if share < ALL {
            notes.push(format!(
                "Hone read topics with {:.0} % of the cluster's batches; it counts the others as if new \
                 producers brought their flow",
                100.0 * share
            ));
        }
        if self.fan_out().is_none() {
            notes.push(
                "the consumer fan-out is unknown: Hone assumes that consumers read each byte once (--fan-out)"
                    .to_owned(),
            );
        }
        if self.write_amplification().is_none() {
            notes.push(
                "no counter shows the write amplification: the disk range goes from whole batches to one \
                 page per batch"
                    .to_owned(),
            );
        }
        if !self.asked.new_producers {
            notes.push(
                "the same producers send more: Hone divides the gaps between their records. Larger bursts \
                 instead would make batches larger still"
                    .to_owned(),
            );
        }
        notes.push("Hone assumes that brokers share the flow evenly".to_owned());
        notes
    }
}

/// The name of the fit's uncertainty.
const COSTS: &str = "the cost of work";
/// The command that records a history.
const KEEP: &str = "hone batch watch --metrics BROKER:9644 --every 30s --duration 6h --output looks.jsonl";

#[cfg(test)]
mod tests;
