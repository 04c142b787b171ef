//! Replays today with the settings that the batches suggest, and measures how far the replay is from the written batches.
//!
//! All settings that explain today equally well are kept: a prediction uses each of them, and they widen its range.

use hone_kafka::batch::HEADER_BYTES;
use hone_kafka::codec::Codec;

use super::client::{Client, Rules};
use super::infer::{ClosedLoop, Signs, is_usual, signs};
use super::shrink::Shrink;
use super::simulate::{Brokers, Made, Placing, Plan, Replay, replay};
use super::stream::{Producer, Stream, Written};

/// The most that a replay of today may be off. Beyond it, there is no prediction.
pub const MOST_OFF: f64 = 0.15;
/// Number of records in the search for settings; the final replay of today uses all.
const SEARCH_RECORDS: usize = 200_000;
/// The default time of an answer.
const USUAL_RTT_US: u64 = 1_000;
/// Round trips to try if no linger explains the batches.
const RTTS_US: [u64; 9] = [200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000];
/// Timer delays, tried with lingers somewhat below the longest spans.
const LATES_US: [u64; 5] = [500, 1_000, 2_000, 3_000, 4_000];
/// Costs of a request for the sender, tried with them.
const TURNS_US: [u64; 3] = [0, 50, 200];
/// Fits that are as good as the best one.
const AS_GOOD: f64 = 0.03;
/// The advantage that a less likely client needs.
const UNLIKELY: f64 = 0.015;
/// A replay this close needs no other round trips.
const NEAR: f64 = 0.05;
/// The most fits that are kept.
const MOST_FITS: usize = 4;
/// Producers with their own search; the others are tried with the settings of these.
pub const MOST_EXPLAINED: usize = 64;

/// Known settings; they override inferred ones.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// The client.
    pub client: Option<Client>,
    /// `linger.ms`, in microseconds.
    pub linger_us: Option<u64>,
    /// `batch.size`.
    pub batch_bytes: Option<u32>,
    /// From a request to its answer, in microseconds.
    pub rtt_us: Option<u64>,
    /// Senders do not wait for answers, whatever the batches suggest.
    pub is_open_loop: bool,
}

/// The difference between a replay of today and today.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Misfit {
    /// Batches of the replay over written batches, minus 1.
    pub batches: f64,
    /// Distance between both distributions of records' bytes in a batch, over the mean (Wasserstein).
    pub sizes: f64,
    /// Batches too many or too few, partition by partition, over all.
    pub partitions: f64,
    /// Share of the written batches that begin at a record where a batch of the replay begins, too.
    pub boundaries: f64,
}

impl Misfit {
    /// The value that is compared with [`MOST_OFF`].
    pub fn off(&self) -> f64 {
        self.batches.abs().max(self.sizes)
    }

    fn score(&self) -> f64 {
        self.batches.abs() + self.sizes + 0.5 * self.partitions
    }
}

/// Tried settings, and how well they explain today.
#[derive(Debug, Clone)]
pub struct Fit {
    /// The settings.
    pub rules: Rules,
    /// The brokers.
    pub brokers: Brokers,
    /// The difference.
    pub misfit: Misfit,
    /// The number of likelier clients or settings.
    unlikely: u32,
}

impl Fit {
    /// The same for a producer with another codec.
    #[must_use]
    pub fn with_codec(&self, codec: Codec) -> Self {
        Self { rules: self.rules.clone().with_codec(codec), ..self.clone() }
    }

    fn weighed(&self) -> f64 {
        self.misfit.score() + UNLIKELY * f64::from(self.unlikely)
    }
}

/// In words, if whole milliseconds show it.
fn hardly_below(gap_ms: f64) -> String {
    if gap_ms < 1.0 { String::new() } else { format!(", rarely below {gap_ms:.1} ms") }
}

/// Why a producer's batches can't be explained.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Unexplained {
    /// It waits for answers.
    #[error(
        "an open-loop replay is wrong here: the batches look like {} that wait for every answer ({gap_ms:.1} \
         ms from send to send{}); more linger would only make each send slower. Make the sends asynchronous, \
         or use --open-loop if a timer sends them",
        threads.map_or_else(|| "threads".to_owned(), |threads| format!("{threads} thread(s)")),
        hardly_below(*least_gap_ms)
    )]
    ClosedLoop {
        /// Threads that wait; `None` if their number is unknown.
        threads: Option<usize>,
        /// Median time between sends.
        gap_ms: f64,
        /// 5 % are below.
        least_gap_ms: f64,
    },
    /// The best settings give another number of batches.
    #[error(
        "can't reproduce today's batches: {written} batches were written and the replay makes {replayed} \
         ({client}, linger {linger_ms} ms, batch size {batch_bytes}); it is off by {off:.0} %. Unexplained: \
         {factor}"
    )]
    Off {
        /// Batches that were written.
        written: u64,
        /// Batches of the best replay.
        replayed: u64,
        /// Its client.
        client: &'static str,
        /// Its linger.
        linger_ms: f64,
        /// Its batch size.
        batch_bytes: u32,
        /// Percent.
        off: f64,
        /// The possible reason.
        factor: String,
    },
    /// Too little evidence.
    #[error(
        "only {batches} of its batches are in the window, too few to infer its settings; read a longer time \
         (--last)"
    )]
    TooFew {
        /// Batches.
        batches: u64,
    },
    /// It is not among the largest, and their settings do not explain it.
    #[error(
        "Hone infers the settings of only the {most} largest producers, and these do not reproduce its \
         {batches} batches; give its settings (--today-client, --today-linger, --today-batch-size), or read \
         a shorter time with fewer producers (--last)"
    )]
    NotTried {
        /// Producers with their own search.
        most: usize,
        /// Batches.
        batches: u64,
    },
    /// The search was stopped.
    #[error("the replay stopped before it had explained today's batches (interrupted, or --replay-timeout)")]
    Stopped,
}

/// Finds settings that explain a producer's batches.
///
/// # Errors
/// Fails when none does, with the unexplained reason; or when it was stopped.
pub fn calibrate(
    producer: &Producer,
    told: &Told,
    brokers: &[Brokers],
    shrink: &Shrink,
    go_on: &dyn Fn() -> bool,
) -> Result<Vec<Fit>, Unexplained> {
    let signs = readable(producer, told)?;
    let sample = head_of(producer);
    let mut fits = search(&sample, told, &signs, brokers, shrink, go_on);
    if !go_on() {
        return Err(Unexplained::Stopped);
    }
    fits.truncate(MOST_FITS * 2);
    for fit in &mut fits {
        if !go_on() {
            return Err(Unexplained::Stopped);
        }
        fit.misfit = misfit(producer, &today(&producer.stream, fit, shrink));
    }
    sort(&mut fits);
    let Some(best) = fits.first().cloned() else {
        return Err(Unexplained::TooFew { batches: producer.written.len() as u64 });
    };
    if best.misfit.off() > MOST_OFF {
        return Err(unexplained(producer, &best, &signs, shrink));
    }
    fits.retain(|fit| fit.misfit.off() <= MOST_OFF && fit.misfit.score() <= best.misfit.score() + AS_GOOD);
    fits.truncate(MOST_FITS);
    Ok(fits)
}

/// The signs of a producer that can be replayed at all.
fn readable(producer: &Producer, told: &Told) -> Result<Signs, Unexplained> {
    /// Fewer batches have no distribution.
    const FEWEST: usize = 30;
    if producer.written.len() < FEWEST {
        return Err(Unexplained::TooFew { batches: producer.written.len() as u64 });
    }
    let signs = signs(producer);
    match signs.closed_loop.filter(|_| !told.is_open_loop) {
        Some(ClosedLoop { threads, gap_ms, least_gap_ms }) => {
            Err(Unexplained::ClosedLoop { threads, gap_ms, least_gap_ms })
        }
        None => Ok(signs),
    }
}

/// Tries the settings of other producers on a producer's own batches, without its own search.
///
/// # Errors
/// Fails when it waits for answers, when it has too few batches, or when no settings explain it.
pub fn borrow(
    producer: &Producer,
    told: &Told,
    lenders: &[Fit],
    shrink: &Shrink,
) -> Result<Fit, Unexplained> {
    readable(producer, told)?;
    let tried = lenders.iter().map(|lender| {
        let misfit = misfit(producer, &today(&producer.stream, lender, shrink));
        Fit { misfit, ..lender.clone() }
    });
    let best = tried.min_by(|one, other| one.misfit.score().total_cmp(&other.misfit.score()));
    best.filter(|best| best.misfit.off() <= MOST_OFF)
        .ok_or(Unexplained::NotTried { most: MOST_EXPLAINED, batches: producer.written.len() as u64 })
}

/// The first records of a producer, with their batches.
fn head_of(producer: &Producer) -> Producer {
    let stream = &producer.stream;
    if stream.len() <= SEARCH_RECORDS {
        return producer.clone();
    }
    let until_us = stream.at_us.get(SEARCH_RECORDS).copied().unwrap_or(u64::MAX);
    let count = stream.at_us.partition_point(|at_us| *at_us < until_us);
    let cut = |values: &[u32]| values.get(..count).unwrap_or(values).to_vec();
    let head = Stream {
        at_us: stream.at_us.get(..count).unwrap_or(&stream.at_us).to_vec(),
        partition: cut(&stream.partition),
        body_bytes: cut(&stream.body_bytes),
        key_hash: cut(&stream.key_hash),
        commits: stream.commits.iter().copied().filter(|place| (*place as usize) < count).collect(),
    };
    let written = producer.written.iter().filter(|batch| batch.begin_us < until_us).copied().collect();
    Producer { who: producer.who, stream: head, written, kept: Default::default() }
}

/// First lingers, caps and clients; then, for the best of them, the times of answers and requests.
fn search(
    producer: &Producer,
    told: &Told,
    signs: &Signs,
    brokers: &[Brokers],
    shrink: &Shrink,
    go_on: &dyn Fn() -> bool,
) -> Vec<Fit> {
    let clients: Vec<Client> = match told.client {
        Some(client) => vec![client],
        None => signs.clients.iter().map(|(client, _)| *client).collect(),
    };
    let mut fits = Vec::new();
    for (rank, client) in clients.into_iter().enumerate() {
        let defaults = client.defaults().with_codec(signs.codec);
        let defaults = match producer.who {
            super::stream::Who::Id(_) => defaults.idempotent(),
            super::stream::Who::AtLeast(_) => defaults,
        };
        let defaults = match signs.counted_at {
            Some(records) if client == Client::Librdkafka => defaults.with_batch_records(records),
            _ => defaults,
        };
        let lingers =
            told.linger_us.map_or_else(|| with_first(&signs.lingers_us, defaults.linger_us), |us| vec![us]);
        let caps = told.batch_bytes.map_or_else(|| caps_of(&defaults, signs), |bytes| vec![bytes]);
        for linger_us in &lingers {
            for cap in &caps {
                for leads in brokers {
                    if !go_on() {
                        return fits;
                    }
                    let rtt_us = told.rtt_us.unwrap_or(USUAL_RTT_US);
                    let brokers = Brokers { rtt_us, ..leads.clone() };
                    let mut rules = defaults.clone().with_linger_us(*linger_us).with_batch_bytes(*cap);
                    rules.client = without_linger(client, *linger_us, told);
                    let unlikely = 2 * rank as u32 + u32::from(*linger_us != defaults.linger_us);
                    fits.push(fit(producer, rules, brokers, shrink, unlikely));
                }
            }
        }
    }
    fits.extend(late(producer, signs, &fits, shrink, go_on));
    sort(&mut fits);
    let is_near = fits.first().is_some_and(|fit| fit.misfit.score() < NEAR);
    let mut best: Vec<Fit> = fits.iter().take(if is_near { 0 } else { 3 }).cloned().collect();
    // Slow answers without a linger look like none of the above.
    best.extend(fits.iter().find(|fit| fit.rules.linger_us == 0 && !is_near).cloned());
    for found in best {
        for rtt_us in told.rtt_us.map_or(RTTS_US.to_vec(), |us| vec![us]) {
            for turn_us in TURNS_US {
                // A long linger hides both.
                let is_hidden = found.rules.linger_us > 4 * rtt_us && turn_us == 0;
                if !is_hidden && go_on() {
                    let brokers = Brokers { rtt_us, turn_us, ..found.brokers.clone() };
                    fits.push(fit(producer, found.rules.clone(), brokers, shrink, found.unlikely));
                }
            }
        }
    }
    sort(&mut fits);
    // The best of equal settings.
    let mut kept: Vec<Fit> = Vec::new();
    for fit in fits {
        if !kept.iter().any(|other| other.rules == fit.rules) {
            kept.push(fit);
        }
    }
    kept
}

/// Java without a linger has the name of the version with that default: 4.x with `linger.ms=0` writes the same batches.
fn without_linger(client: Client, linger_us: u64, told: &Told) -> Client {
    let is_inferred = client == Client::Java4 && told.client.is_none();
    if is_inferred && linger_us == 0 { Client::Java3 } else { client }
}

/// Late timers make spans longer than the linger.
fn late(
    producer: &Producer,
    signs: &Signs,
    fits: &[Fit],
    shrink: &Shrink,
    go_on: &dyn Fn() -> bool,
) -> Vec<Fit> {
    let seen_us = signs.span_ms_p99.unwrap_or(0) * 1_000;
    let most_us = LATES_US.iter().copied().max().unwrap_or(0);
    let may = |fit: &&Fit| {
        let linger_us = fit.rules.linger_us;
        linger_us > 0 && linger_us + most_us >= seen_us && linger_us <= seen_us + 1_000 && is_usual(linger_us)
    };
    let with = |fit: &Fit, late_us: u64| {
        let brokers = Brokers { late_us, ..fit.brokers.clone() };
        self::fit(producer, fit.rules.clone(), brokers, shrink, fit.unlikely)
    };
    let lates = fits.iter().filter(may).flat_map(|fit| LATES_US.iter().map(move |late_us| (fit, *late_us)));
    lates.take_while(|_| go_on()).map(|(fit, late_us)| with(fit, late_us)).collect()
}

/// The best first; a likelier client, and a client's own default, win if others explain today hardly better. Millisecond resolution causes
/// such differences.
fn sort(fits: &mut [Fit]) {
    fits.sort_by(|one, other| one.weighed().total_cmp(&other.weighed()));
}

fn with_first(values: &[u64], first: u64) -> Vec<u64> {
    let fits = values.contains(&first);
    let rest = values.iter().copied().filter(|value| *value != first);
    std::iter::once(first).filter(|_| fits).chain(rest).collect()
}

fn caps_of(defaults: &Rules, signs: &Signs) -> Vec<u32> {
    let default = defaults.batch_bytes;
    let least = signs.caps.first().copied().unwrap_or(default);
    match signs.clipped_at {
        Some(_) => signs.caps.clone(),
        // No batch was cut off, so any larger cap is possible: the default, if it is one of those.
        None if default >= least => vec![default],
        None => vec![least],
    }
}

fn fit(producer: &Producer, rules: Rules, brokers: Brokers, shrink: &Shrink, unlikely: u32) -> Fit {
    let none = Misfit { batches: 0.0, sizes: 0.0, partitions: 0.0, boundaries: 0.0 };
    let mut fit = Fit { rules, brokers, misfit: none, unlikely };
    fit.misfit = misfit(producer, &today(&producer.stream, &fit, shrink));
    fit
}

fn today(stream: &Stream, fit: &Fit, shrink: &Shrink) -> Replay {
    let plan = Plan {
        rules: &fit.rules,
        brokers: &fit.brokers,
        shrink,
        placing: Placing::AsToday,
        window_us: stream.at_us.last().copied().unwrap_or(0),
        blocks: 1,
        keeps_batches: true,
    };
    replay(stream, &plan)
}

/// Compares a replay of today with today.
pub fn misfit(producer: &Producer, replayed: &Replay) -> Misfit {
    let written = &producer.written;
    let mut real: Vec<u32> = written.iter().map(|batch| batch.plain_bytes).collect();
    let mut made: Vec<u32> = replayed.made.iter().map(|batch| batch.plain_bytes).collect();
    real.sort_unstable();
    made.sort_unstable();
    let partitions = producer.stream.partitions() as usize;
    let (mut counts, mut boundaries) = (vec![0_i64; partitions], 0_u64);
    let (starts, starts_made) = (starts(written, partitions), starts_made(&replayed.made, partitions));
    for (partition, (real, made)) in starts.iter().zip(&starts_made).enumerate() {
        if let Some(count) = counts.get_mut(partition) {
            *count = made.len() as i64 - real.len() as i64;
        }
        boundaries += real.iter().filter(|start| made.binary_search(start).is_ok()).count() as u64;
    }
    let all = written.len().max(1) as f64;
    Misfit {
        batches: made.len() as f64 / all - 1.0,
        sizes: distance(&real, &made),
        partitions: counts.iter().map(|count| count.unsigned_abs()).sum::<u64>() as f64 / all,
        boundaries: boundaries as f64 / all,
    }
}

/// The records, by partition, that begin a batch, by number.
fn starts(written: &[Written], partitions: usize) -> Vec<Vec<u64>> {
    let pairs = written.iter().map(|batch| (batch.partition, batch.records));
    starts_of(pairs, partitions)
}

fn starts_made(made: &[Made], partitions: usize) -> Vec<Vec<u64>> {
    starts_of(made.iter().map(|batch| (batch.partition, batch.records)), partitions)
}

fn starts_of(batches: impl Iterator<Item = (u32, u32)>, partitions: usize) -> Vec<Vec<u64>> {
    let mut starts = vec![Vec::new(); partitions];
    let mut so_far = vec![0_u64; partitions];
    for (partition, records) in batches {
        let index = partition as usize;
        if let (Some(starts), Some(so_far)) = (starts.get_mut(index), so_far.get_mut(index)) {
            starts.push(*so_far);
            *so_far += u64::from(records);
        }
    }
    starts
}

/// Mean difference of both at the same quantiles, over the mean of the first.
fn distance(real: &[u32], made: &[u32]) -> f64 {
    const STEPS: usize = 200;
    if real.is_empty() || made.is_empty() {
        return f64::from(u8::from(real.len() != made.len()));
    }
    let at = |sorted: &[u32], step: usize| {
        let index = (2 * step + 1) * sorted.len() / (2 * STEPS);
        f64::from(sorted.get(index.min(sorted.len() - 1)).copied().unwrap_or(0))
    };
    let (mut apart, mut sum) = (0.0, 0.0);
    for step in 0..STEPS {
        apart += (at(real, step) - at(made, step)).abs();
        sum += at(real, step);
    }
    apart / f64::max(sum, 1.0)
}

fn unexplained(producer: &Producer, best: &Fit, signs: &Signs, shrink: &Shrink) -> Unexplained {
    let replayed = today(&producer.stream, best, shrink);
    let written = producer.written.len() as u64;
    Unexplained::Off {
        written,
        replayed: replayed.total.batches,
        client: best.rules.client.name(),
        linger_ms: best.rules.linger_us as f64 / 1e3,
        batch_bytes: best.rules.batch_bytes,
        off: best.misfit.off() * 100.0,
        factor: factor(producer, best, signs),
    }
}

/// What the tested rules lack, by the direction of the error and by other evidence.
fn factor(producer: &Producer, best: &Fit, signs: &Signs) -> String {
    let transactional = producer.written.iter().filter(|batch| batch.is_transactional).count();
    if let Some(count) = signs.flushed_after {
        return format!(
            "every batch has {count} records: the application flushes after that number, or passes that many \
             at once"
        );
    }
    if transactional * 2 > producer.written.len() {
        return "transactions: their end closes batches, whatever the linger".to_owned();
    }
    if best.misfit.batches < -MOST_OFF {
        return "batches end earlier than by size or linger: partitions of other topics on the same brokers, \
                which are ready first and take these along, flush(), or several producers in one stream \
                without ids"
            .to_owned();
    }
    if best.misfit.batches > MOST_OFF {
        return "batches are larger than size and linger make them: slow answers (all in-flight requests are \
                in use), a busy sender, or bursts of records within a millisecond"
            .to_owned();
    }
    "as many batches, but with other sizes: settings that changed within the window, or an application that \
     sends in bursts within a millisecond"
        .to_owned()
}

/// Ratio of compressed to plain bytes of today's batches, by size: for topics whose records are not recompressed.
pub fn shrink_of_today<'a>(producers: impl Iterator<Item = &'a Producer>, codec: Codec) -> Shrink {
    let mut sums = [(0_u64, 0_u64); 32];
    let all = producers.flat_map(|producer| &producer.written).filter(|batch| batch.codec == codec);
    for batch in all {
        let log = batch.plain_bytes.max(1).ilog2() as usize;
        if let Some(sum) = sums.get_mut(log) {
            sum.0 += u64::from(batch.plain_bytes);
            sum.1 += u64::from(batch.wire_bytes).saturating_sub(HEADER_BYTES as u64);
        }
    }
    let points = sums.iter().enumerate().filter(|(_, sum)| sum.0 > 0);
    Shrink::of_points(
        points.map(|(log, sum)| (1.5 * f64::powi(2.0, log as i32), sum.1 as f64 / sum.0 as f64)).collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::whatif::Dice;
    use crate::whatif::stream::{NO_KEY, Who};

    fn poisson(rates: &[f64], seconds: f64) -> Stream {
        let mut arrivals = Vec::new();
        for (partition, rate) in rates.iter().enumerate() {
            let mut dice = Dice::new(11 + partition as u64);
            let mut at = 0.0;
            while at < seconds {
                at -= (1.0 - dice.unit()).ln() / rate;
                arrivals.push(((at * 1e6) as u64, partition as u32));
            }
        }
        arrivals.sort_unstable();
        let mut stream = Stream::default();
        arrivals.iter().for_each(|(at_us, partition)| stream.push(*at_us, *partition, 105, NO_KEY));
        stream
    }

    /// What a client would have written: its batches with the milliseconds that are left of their times.
    fn written_by(rules: &Rules, brokers: &Brokers, stream: &Stream) -> Producer {
        let plan = Plan {
            rules,
            brokers,
            shrink: &Shrink::none(),
            placing: Placing::AsToday,
            window_us: 1,
            blocks: 1,
            keeps_batches: true,
        };
        let done = replay(stream, &plan);
        let mut times: Vec<Vec<u64>> = vec![Vec::new(); stream.partitions() as usize];
        stream
            .at_us
            .iter()
            .zip(&stream.partition)
            .for_each(|(at, partition)| times[*partition as usize].push(*at));
        let mut gone = vec![0_usize; times.len()];
        let mut written: Vec<Written> = done
            .made
            .iter()
            .map(|made| {
                let partition = made.partition as usize;
                let own = &times[partition][gone[partition]..gone[partition] + made.records as usize];
                gone[partition] += made.records as usize;
                Written {
                    partition: made.partition,
                    begin_us: own[0] / 1_000 * 1_000,
                    span_ms: own[own.len() - 1] / 1_000 - own[0] / 1_000,
                    records: made.records,
                    wire_bytes: made.plain_bytes + 61,
                    plain_bytes: made.plain_bytes,
                    codec: Codec::None,
                    is_transactional: false,
                }
            })
            .collect();
        written.sort_by_key(|batch| batch.begin_us);
        let who = if rules.client == Client::Librdkafka { Who::AtLeast(0) } else { Who::Id(5) };
        Producer { who, stream: stream.clone(), written, kept: Default::default() }
    }

    fn found(
        rules: &Rules,
        brokers: &Brokers,
        stream: &Stream,
        told: &Told,
    ) -> Result<Vec<Fit>, Unexplained> {
        let producer = written_by(rules, brokers, stream);
        calibrate(
            &producer,
            told,
            std::slice::from_ref(&Brokers { rtt_us: 1, turn_us: 0, ..brokers.clone() }),
            &Shrink::none(),
            &|| true,
        )
    }

    #[test]
    fn a_linger_is_found_again() {
        let brokers = Brokers { rtt_us: 1_000, ..Brokers::one() };
        for (rates, linger_ms) in
            [(vec![500.0; 4], 10), (vec![100.0; 8], 50), (vec![3_000.0], 5), (vec![400.0], 20)]
        {
            for client in [Client::Java4, Client::Librdkafka] {
                let rules = client.defaults().with_linger_us(linger_ms * 1_000);
                let fits = found(&rules, &brokers, &poisson(&rates, 60.0), &Told::default()).unwrap();
                let best = &fits[0];
                assert_eq!(
                    best.rules.linger_us,
                    linger_ms * 1_000,
                    "{} {rates:?}: {:?}",
                    client.name(),
                    best.misfit
                );
                assert!(best.misfit.off() < 0.05 && best.misfit.boundaries > 0.5, "{:?}", best.misfit);
            }
        }
    }

    #[test]
    fn timers_that_are_late_are_no_longer_linger() {
        let late = Brokers { rtt_us: 1_000, late_us: 2_000, ..Brokers::one() };
        let rules = Client::Librdkafka.defaults();
        let producer = written_by(&rules, &late, &poisson(&[400.0; 6], 40.0));
        let fits =
            calibrate(&producer, &Told::default(), &[Brokers::one()], &Shrink::none(), &|| true).unwrap();
        let best = &fits[0];
        assert_eq!(
            (best.rules.client, best.rules.linger_us),
            (Client::Librdkafka, 5_000),
            "{:?}",
            best.misfit
        );
        assert_eq!(best.brokers.late_us, 2_000);
    }

    #[test]
    fn a_cap_is_found_again() {
        let rules = Client::Java4.defaults().with_linger_us(100_000).with_batch_bytes(32_768);
        let fits = found(&rules, &Brokers::one(), &poisson(&[20_000.0], 10.0), &Told::default()).unwrap();
        assert_eq!(fits[0].rules.batch_bytes, 32_768);
    }

    #[test]
    fn round_trips_explain_batches_without_a_linger() {
        let brokers = Brokers { rtt_us: 10_000, ..Brokers::one() };
        let rules = Client::Java3.defaults();
        let told = Told { client: Some(Client::Java3), ..Told::default() };
        let fits = found(&rules, &brokers, &poisson(&[5_000.0], 30.0), &told).unwrap();
        let explains = fits.iter().any(|fit| fit.rules.linger_us == 0 && fit.brokers.rtt_us == 10_000);
        assert!(explains, "{fits:?}");
    }

    #[test]
    fn what_was_told_wins() {
        let rules = Client::Java4.defaults().with_linger_us(10_000);
        let told = Told { linger_us: Some(100_000), ..Told::default() };
        let error = found(&rules, &Brokers::one(), &poisson(&[500.0; 4], 30.0), &told).unwrap_err();
        assert!(matches!(error, Unexplained::Off { linger_ms: 100.0, .. }), "{error}");
        let text = error.to_string();
        assert!(text.contains("Unexplained: batches end earlier"), "{text}");
    }

    #[test]
    fn what_no_rule_explains_is_refused_with_a_factor() {
        let rules = Client::Java4.defaults().with_linger_us(20_000);
        let mut producer = written_by(&rules, &Brokers::one(), &poisson(&[1_000.0], 30.0));
        // Someone closes every batch at ten records, by a flush.
        let stream = producer.stream.clone();
        producer.written = stream
            .at_us
            .chunks(10)
            .map(|times| Written {
                partition: 0,
                begin_us: times[0] / 1_000 * 1_000,
                span_ms: times[times.len() - 1] / 1_000 - times[0] / 1_000,
                records: times.len() as u32,
                wire_bytes: 61 + 110 * times.len() as u32,
                plain_bytes: 110 * times.len() as u32,
                codec: Codec::None,
                is_transactional: times.len() == 10,
            })
            .collect();
        let told = Told { linger_us: Some(20_000), client: Some(Client::Java4), ..Told::default() };
        let error = calibrate(&producer, &told, &[Brokers::one()], &Shrink::none(), &|| true).unwrap_err();
        assert!(error.to_string().contains("every batch has 10 records: the application flushes"), "{error}");
        for batch in &mut producer.written {
            batch.records -= u32::from(batch.begin_us % 7_000 == 0);
        }
        let error = calibrate(&producer, &told, &[Brokers::one()], &Shrink::none(), &|| true).unwrap_err();
        assert!(error.to_string().contains("transactions"), "{error}");
    }

    #[test]
    fn closed_loops_and_few_batches_are_refused() {
        let mut dice = Dice::new(5);
        let mut at = 0.0;
        let batches: Vec<_> = (0..500)
            .map(|_| {
                at += 6.0 + 2.0 * dice.unit();
                (at as u64, 1, 0)
            })
            .collect();
        let producer = crate::whatif::infer::tests::producer(Who::Id(1), &batches);
        let error =
            calibrate(&producer, &Told::default(), &[Brokers::one()], &Shrink::none(), &|| true).unwrap_err();
        assert!(error.to_string().starts_with("an open-loop replay is wrong here"), "{error}");
        let told = Told { is_open_loop: true, ..Told::default() };
        assert!(calibrate(&producer, &told, &[Brokers::one()], &Shrink::none(), &|| true).is_ok());
        let few = crate::whatif::infer::tests::producer(Who::Id(1), &batches[..20]);
        let error =
            calibrate(&few, &Told::default(), &[Brokers::one()], &Shrink::none(), &|| true).unwrap_err();
        assert_eq!(error, Unexplained::TooFew { batches: 20 });
    }
}
