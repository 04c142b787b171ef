//! The cost of a batch: `CPU/s = base + a requests + b batches + c records + d bytes`, fitted to a cluster's own history.
//!
//! The published form has no base. Without one, the CPU time of an idle broker would count as the cost of its batches.
//!
//! Least squares with coefficients that are not negative, because no work gives CPU back. The fit can't separate columns that changed
//! together over the whole history. If the condition index is above 30 (Belsley, Kuh and Welsch, "Regression Diagnostics", 1980, with their
//! decomposition of variances), the least important of them leaves the model, and its cost counts as part of the others. Intervals come
//! from a bootstrap of blocks of neighbouring points (Künsch, 1989), because a broker's load and its noise last longer than one scrape.

use hone_record::{
    BatchCost, BatchWatch, CostForecast, CostInterval, TopicCost, WatchedTopic, WorkCost, WorkTogether,
};
use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore as _, SeedableRng as _};

/// Fewer points do not determine five coefficients.
pub const LEAST_POINTS: usize = 30;
/// More points than this are thinned out: a month at one per minute.
pub const MOST_POINTS: usize = 50_000;
/// A column that a larger share of the points lacks is ignored.
const MOST_HOLES: f64 = 0.1;
/// Above this condition index, columns count as dependent (Belsley, Kuh and Welsch, 1980).
const DEPENDENT: f64 = 30.0;
/// A column takes part in a dependency that contains more than this share of its variance (same source).
const TAKES_PART: f64 = 0.5;
/// Resamples of the bootstrap.
const RESAMPLES: usize = 600;
/// Nominal coverage of the intervals.
const CONFIDENCE: f64 = 0.95;
/// A smaller share of a column is no sign that it changes along.
const TELLING_SHARE: f64 = 0.05;
/// Bytes of a batch's header, which a larger batch saves.
const HEADER_BYTES: f64 = 61.0;

/// The kinds of work, in the order of the columns.
const UNITS: [&str; COLUMNS] = ["base", "request", "batch", "record", "byte"];
/// The same in the plural.
const PLURALS: [&str; COLUMNS] = ["base", "requests", "batches", "records", "bytes"];
const COLUMNS: usize = 5;
const BASE: usize = 0;
const REQUEST: usize = 1;
const BATCH: usize = 2;
const RECORD: usize = 3;
const BYTE: usize = 4;
/// The order in which dependent columns leave the model. Batches are the subject, so they leave last.
const LEAVES_FIRST: [usize; COLUMNS] = [BYTE, RECORD, REQUEST, BASE, BATCH];

/// An interval of the history, with its means.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    /// Its end, in seconds since 1970.
    pub at_s: f64,
    /// CPU of all brokers, cores.
    pub cpu_cores: f64,
    /// Produce requests per second; `None` if not exported.
    pub requests_per_s: Option<f64>,
    /// Batches per second.
    pub batches_per_s: f64,
    /// Records per second.
    pub records_per_s: Option<f64>,
    /// Bytes per second.
    pub bytes_per_s: Option<f64>,
}

impl Point {
    /// The point that a look at the metrics adds to a history; `None` if CPU or batches are not exported.
    pub fn of(watch: &BatchWatch) -> Option<Self> {
        let sum = |of: fn(&hone_record::WatchedInstance) -> hone_record::Figure| -> Option<f64> {
            (!watch.instances.is_empty()).then_some(())?;
            watch.instances.iter().map(|instance| of(instance).known()).sum()
        };
        Some(Self {
            at_s: watch.at_unix_ms as f64 / 1e3,
            cpu_cores: sum(|instance| instance.cpu_cores)?,
            requests_per_s: sum(|instance| instance.requests_per_s),
            batches_per_s: watch.total.batches_per_s.known()?,
            records_per_s: watch.total.records_per_s.known(),
            bytes_per_s: watch.total.bytes_per_s.known(),
        })
    }

    fn column(&self, column: usize) -> Option<f64> {
        match column {
            BASE => Some(1.0),
            REQUEST => self.requests_per_s,
            BATCH => Some(self.batches_per_s),
            RECORD => self.records_per_s,
            _ => self.bytes_per_s,
        }
    }
}

/// Why a history gives no costs.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NoCosts {
    /// Too short.
    #[error(
        "{points} points are too few for a history: the model needs at least {LEAST_POINTS}, with different \
         loads\n  next: use a longer history, or one with shorter steps"
    )]
    TooFew {
        /// Complete points.
        points: usize,
    },
    /// Batches never changed, so their cost is undetermined, whatever else changed.
    #[error(
        "batches/s hardly changed in these {points} points (within {spread_percent:.1} %), so Hone can't \
         separate the cost of a batch from the base load\n  next: use a history with a quiet and a busy hour"
    )]
    Unchanging {
        /// Points.
        points: usize,
        /// Spread of batches/s, highest against lowest.
        spread_percent: f64,
    },
    /// No CPU.
    #[error("the CPU is 0 in all {points} points\n  next: check that the CPU metric is the right one")]
    NoCpu {
        /// Points.
        points: usize,
    },
}

/// A fitted model with the resamples for its intervals.
#[derive(Debug, Clone)]
pub struct Model {
    points: usize,
    /// Points that lack a value that the others have.
    holes: usize,
    span_s: f64,
    means: [f64; COLUMNS],
    /// Minimum and maximum of each column.
    ranges: [[f64; 2]; COLUMNS],
    /// Columns that the source has and that are not always 0.
    present: Vec<usize>,
    /// Columns of the fit, and the removed ones with those that they changed along with.
    kept: Vec<usize>,
    left: Vec<Left>,
    coefficients: [f64; COLUMNS],
    resampled: Vec<[f64; COLUMNS]>,
    explained: f64,
    residual_cores: f64,
    condition_index: f64,
}

/// A column that left the model.
#[derive(Debug, Clone)]
struct Left {
    column: usize,
    /// It is approximately the sum of these columns, each times its factor.
    along_with: Vec<(usize, f64)>,
}

impl Left {
    /// The column itself, and those that it changed along with.
    fn group(&self) -> Vec<usize> {
        self.along_with.iter().map(|(column, _)| *column).chain([self.column]).collect()
    }
}

/// Two columns that changed along with the same third one form one group.
fn merged(groups: impl Iterator<Item = Vec<usize>>) -> Vec<Vec<usize>> {
    let mut found: Vec<Vec<usize>> = Vec::new();
    for mut group in groups {
        found.retain(|other| {
            let is_shared = other.iter().any(|column| group.contains(column));
            if is_shared {
                group.extend(other);
            }
            !is_shared
        });
        group.sort_unstable();
        group.dedup();
        found.push(group);
    }
    found
}

/// Fits the model. The same history and seed give the same answer.
///
/// # Errors
/// Fails when the history is too short, or when the load never changed.
pub fn fit(points: &[Point], seed: u64) -> Result<Model, NoCosts> {
    let rows = usable(points);
    let count = rows.len();
    if count < LEAST_POINTS {
        return Err(NoCosts::TooFew { points: count });
    }
    let present = present(&rows);
    let means =
        std::array::from_fn(|column| rows.iter().map(|row| row.x[column]).sum::<f64>() / count as f64);
    let cpu_mean = rows.iter().map(|row| row.cpu).sum::<f64>() / count as f64;
    if cpu_mean <= 0.0 {
        return Err(NoCosts::NoCpu { points: count });
    }
    let all = Gram::of(rows.iter());
    let condition_index = spectrum(&all, &present).condition_index();
    let (kept, left) = independent(&all, &present, &means);
    // Only the base remains if nothing changed.
    if kept.iter().all(|column| *column == BASE) || !kept.contains(&BASE) {
        return Err(NoCosts::Unchanging { points: count, spread_percent: spread_percent(&rows) });
    }
    let coefficients = all.solve(&kept);
    let resampled = resample(&rows, &kept, seed);
    let residual: f64 = rows.iter().map(|row| (row.cpu - row.predicted(&coefficients)).powi(2)).sum();
    let scatter: f64 = rows.iter().map(|row| (row.cpu - cpu_mean).powi(2)).sum();
    let span_s = points.last().map_or(0.0, |last| last.at_s) - points.first().map_or(0.0, |first| first.at_s);
    let thinned = points.len().div_ceil(points.len().div_ceil(MOST_POINTS).max(1));
    Ok(Model {
        points: count,
        holes: thinned - count,
        span_s,
        means,
        ranges: std::array::from_fn(|column| range(&rows, column)),
        present,
        left,
        coefficients,
        resampled,
        explained: if scatter > 0.0 { (1.0 - residual / scatter).clamp(0.0, 1.0) } else { 0.0 },
        residual_cores: (residual / (count - kept.len()).max(1) as f64).sqrt(),
        condition_index,
        kept,
    })
}

#[derive(Debug, Clone, Copy)]
struct Row {
    x: [f64; COLUMNS],
    cpu: f64,
}

impl Row {
    fn predicted(&self, coefficients: &[f64; COLUMNS]) -> f64 {
        self.x.iter().zip(coefficients).map(|(x, coefficient)| x * coefficient).sum()
    }
}

/// A column with too few values is 0 throughout, and therefore absent. A column with occasional holes stays, and the points without a value
/// are left out.
fn usable(points: &[Point]) -> Vec<Row> {
    let holes = |column| {
        let lacks = |point: &&Point| !point.column(column).is_some_and(f64::is_finite);
        points.iter().filter(lacks).count()
    };
    let has: [bool; COLUMNS] =
        std::array::from_fn(|column| holes(column) as f64 <= MOST_HOLES * points.len() as f64);
    let step = points.len().div_ceil(MOST_POINTS).max(1);
    let value = |point: &Point, column| match has[column] {
        true => point.column(column).unwrap_or(f64::NAN),
        false => 0.0,
    };
    let row =
        |point: &Point| Row { x: std::array::from_fn(|column| value(point, column)), cpu: point.cpu_cores };
    let is_sane =
        |row: &Row| row.cpu.is_finite() && row.cpu >= 0.0 && row.x.iter().all(|x| x.is_finite() && *x >= 0.0);
    points.iter().step_by(step).map(row).filter(is_sane).collect()
}

fn present(rows: &[Row]) -> Vec<usize> {
    (0..COLUMNS).filter(|column| rows.iter().any(|row| row.x[*column] > 0.0)).collect()
}

/// Minimum and maximum of a column.
fn range(rows: &[Row], column: usize) -> [f64; 2] {
    let values = || rows.iter().map(|row| row.x[column]);
    [values().fold(f64::INFINITY, f64::min), values().fold(0.0, f64::max)]
}

fn spread_percent(rows: &[Row]) -> f64 {
    let [low, high] = range(rows, BATCH);
    if high > 0.0 { 100.0 * (high - low) / high } else { 0.0 }
}

/// Sums of products: everything that least squares needs from a history.
#[derive(Debug, Clone)]
struct Gram {
    products: [[f64; COLUMNS]; COLUMNS],
    with_cpu: [f64; COLUMNS],
    cpu_squared: f64,
}

impl Gram {
    fn of<'a>(rows: impl Iterator<Item = &'a Row>) -> Self {
        let mut gram =
            Self { products: [[0.0; COLUMNS]; COLUMNS], with_cpu: [0.0; COLUMNS], cpu_squared: 0.0 };
        for row in rows {
            for (one, x) in row.x.iter().enumerate() {
                gram.with_cpu[one] += x * row.cpu;
                for (other, y) in row.x.iter().enumerate() {
                    gram.products[one][other] += x * y;
                }
            }
            gram.cpu_squared += row.cpu * row.cpu;
        }
        gram
    }

    /// The length of a column.
    fn length(&self, column: usize) -> f64 {
        self.products[column][column].sqrt()
    }

    /// The cosine between two columns.
    fn cosine(&self, one: usize, other: usize) -> f64 {
        self.products[one][other] / (self.length(one) * self.length(other)).max(f64::MIN_POSITIVE)
    }

    /// Coefficients that are not negative and minimise the squares. The best fit has some set of columns above 0 and is the plain least
    /// squares fit of those. With five columns the code tries all 32 sets, which needs no convergence proof.
    fn solve(&self, columns: &[usize]) -> [f64; COLUMNS] {
        let mut best = ([0.0; COLUMNS], self.cpu_squared);
        for set in 1_u32..1 << columns.len() {
            let chosen: Vec<usize> = columns
                .iter()
                .enumerate()
                .filter(|(at, _)| set >> at & 1 == 1)
                .map(|(_, column)| *column)
                .collect();
            let Some(found) = self.plain(&chosen) else { continue };
            let rest = self.rest(&found);
            if found.iter().all(|coefficient| *coefficient >= 0.0) && rest < best.1 {
                best = (found, rest);
            }
        }
        best.0
    }

    fn rest(&self, coefficients: &[f64; COLUMNS]) -> f64 {
        let mut rest = self.cpu_squared;
        for (one, a) in coefficients.iter().enumerate() {
            rest -= 2.0 * a * self.with_cpu[one];
            for (other, b) in coefficients.iter().enumerate() {
                rest += a * b * self.products[one][other];
            }
        }
        rest
    }

    /// Least squares of these columns, by elimination of the scaled normal equations; `None` if they are dependent.
    fn plain(&self, columns: &[usize]) -> Option<[f64; COLUMNS]> {
        let lengths: Vec<f64> = columns.iter().map(|column| self.length(*column)).collect();
        let mut system: Vec<Vec<f64>> = columns
            .iter()
            .zip(&lengths)
            .map(|(one, length)| {
                let right = self.with_cpu[*one] / length;
                columns.iter().map(|other| self.cosine(*one, *other)).chain([right]).collect()
            })
            .collect();
        let solved = eliminate(&mut system)?;
        let mut found = [0.0; COLUMNS];
        for ((column, length), value) in columns.iter().zip(&lengths).zip(solved) {
            found[*column] = value / length;
        }
        Some(found)
    }

    /// A column as a sum of others: their factors.
    fn as_sum_of(&self, column: usize, others: &[usize]) -> Vec<(usize, f64)> {
        let as_cpu = Self {
            products: self.products,
            with_cpu: self.products[column],
            cpu_squared: self.products[column][column],
        };
        let found = as_cpu.plain(others).unwrap_or_default();
        others.iter().map(|other| (*other, found[*other])).collect()
    }
}

/// Gaussian elimination with pivots; the right side is the last column of the matrix.
fn eliminate(system: &mut [Vec<f64>]) -> Option<Vec<f64>> {
    let size = system.len();
    for column in 0..size {
        let pivot = (column..size)
            .max_by(|one, other| system[*one][column].abs().total_cmp(&system[*other][column].abs()))?;
        if system[pivot][column].abs() < 1e-12 {
            return None;
        }
        system.swap(column, pivot);
        let (above, below) = system.split_at_mut(column + 1);
        let top = above.get(column)?;
        for row in below {
            let factor = row[column] / top[column];
            row.iter_mut().zip(top).skip(column).for_each(|(own, of_top)| *own -= factor * of_top);
        }
    }
    let mut solved = vec![0.0; size];
    for row in (0..size).rev() {
        let known: f64 = (row + 1..size).map(|column| system[row][column] * solved[column]).sum();
        solved[row] = (system[row][size] - known) / system[row][row];
    }
    Some(solved)
}

/// Eigenvalues and eigenvectors of the products of the scaled columns.
struct Spectrum {
    values: Vec<f64>,
    /// One vector per value, over the columns.
    vectors: Vec<Vec<f64>>,
}

impl Spectrum {
    fn index(&self, at: usize) -> f64 {
        let most = self.values.iter().copied().fold(0.0, f64::max);
        (most / self.values[at].max(most * 1e-16)).sqrt()
    }

    fn condition_index(&self) -> f64 {
        (0..self.values.len()).map(|at| self.index(at)).fold(1.0, f64::max)
    }

    /// The share of the columns' variances in weak directions.
    fn dependent_share(&self) -> Vec<f64> {
        let most = self.values.iter().copied().fold(0.0, f64::max);
        let part =
            |at: usize, column: usize| self.vectors[at][column].powi(2) / self.values[at].max(most * 1e-16);
        let weak = |at: &usize| self.index(*at) > DEPENDENT;
        let count = self.values.len();
        (0..count)
            .map(|column| {
                let all: f64 = (0..count).map(|at| part(at, column)).sum();
                (0..count).filter(weak).map(|at| part(at, column)).sum::<f64>() / all.max(f64::MIN_POSITIVE)
            })
            .collect()
    }
}

/// By Jacobi rotations, which are accurate enough for five-by-five matrices.
fn spectrum(gram: &Gram, columns: &[usize]) -> Spectrum {
    let size = columns.len();
    let mut matrix: Vec<Vec<f64>> =
        columns.iter().map(|one| columns.iter().map(|other| gram.cosine(*one, *other)).collect()).collect();
    let mut vectors: Vec<Vec<f64>> =
        (0..size).map(|one| (0..size).map(|other| if one == other { 1.0 } else { 0.0 }).collect()).collect();
    for _ in 0..60 {
        for one in 0..size {
            for other in one + 1..size {
                rotate(&mut matrix, &mut vectors, one, other);
            }
        }
    }
    Spectrum { values: (0..size).map(|at| matrix[at][at].max(0.0)).collect(), vectors }
}

fn rotate(matrix: &mut [Vec<f64>], vectors: &mut [Vec<f64>], one: usize, other: usize) {
    if matrix[one][other].abs() < 1e-18 {
        return;
    }
    let angle = (matrix[other][other] - matrix[one][one]) / (2.0 * matrix[one][other]);
    let tangent = angle.signum() / (angle.abs() + (1.0 + angle * angle).sqrt());
    let tangent = if angle == 0.0 { 1.0 } else { tangent };
    let cosine = 1.0 / (1.0 + tangent * tangent).sqrt();
    let sine = tangent * cosine;
    let turn = |a: f64, b: f64| (cosine * a - sine * b, sine * a + cosine * b);
    for row in matrix.iter_mut() {
        (row[one], row[other]) = turn(row[one], row[other]);
    }
    for pair in [matrix, vectors] {
        let (upper, lower) = pair.split_at_mut(other);
        let (Some(upper), Some(lower)) = (upper.get_mut(one), lower.first_mut()) else { return };
        for (a, b) in upper.iter_mut().zip(lower) {
            (*a, *b) = turn(*a, *b);
        }
    }
}

/// Removes dependent columns, one after the other, until the rest is independent.
fn independent(gram: &Gram, present: &[usize], means: &[f64; COLUMNS]) -> (Vec<usize>, Vec<Left>) {
    let (mut kept, mut left) = (present.to_vec(), Vec::new());
    loop {
        let spectrum = spectrum(gram, &kept);
        if spectrum.condition_index() <= DEPENDENT || kept.len() < 2 {
            break;
        }
        let share = spectrum.dependent_share();
        let takes_part = |column: &usize| {
            kept.iter().position(|own| own == column).is_some_and(|at| share[at] > TAKES_PART)
        };
        let Some(leaving) = LEAVES_FIRST.into_iter().find(takes_part) else { break };
        kept.retain(|column| *column != leaving);
        left.push(leaving);
    }
    let told = |column: usize| {
        let mut along_with = gram.as_sum_of(column, &kept);
        along_with.retain(|(other, factor)| {
            (factor * means[*other]).abs() > TELLING_SHARE * means[column].max(f64::MIN_POSITIVE)
        });
        Left { column, along_with }
    };
    let left = left.into_iter().map(told).collect();
    (kept, left)
}

/// Coefficients of histories that are composed of blocks of this one.
fn resample(rows: &[Row], kept: &[usize], seed: u64) -> Vec<[f64; COLUMNS]> {
    let count = rows.len();
    // Long enough to contain the correlation of neighbouring points, short enough that there are many blocks.
    let block = (2.0 * (count as f64).cbrt()).ceil() as usize;
    let blocks = count.div_ceil(block);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    (0..RESAMPLES)
        .map(|_| {
            let starts: Vec<usize> =
                (0..blocks).map(|_| (random.next_u64() % count as u64) as usize).collect();
            let chosen = starts
                .iter()
                .flat_map(|start| (*start..*start + block).filter_map(|at| rows.get(at % count)));
            Gram::of(chosen.take(count)).solve(kept)
        })
        .collect()
}

/// The amount of each kind of work, relative to now.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// Requests, times this.
    pub requests: f64,
    /// Batches, times this.
    pub batches: f64,
    /// Records, times this.
    pub records: f64,
    /// Bytes, times this; `None`: like records, except for the batch headers.
    pub bytes: Option<f64>,
}

impl Default for Change {
    fn default() -> Self {
        Self { requests: 1.0, batches: 1.0, records: 1.0, bytes: None }
    }
}

impl Model {
    /// The results as a record; the caller adds topics and the forecast.
    pub fn record(&self, source: &str) -> BatchCost {
        BatchCost {
            source: source.to_owned(),
            points: self.points as u64,
            span_s: self.span_s,
            explained: self.explained,
            residual_cores: self.residual_cores,
            condition_index: self.condition_index,
            confidence: CONFIDENCE,
            costs: self.present.iter().map(|column| self.cost(*column)).collect(),
            together: self.together(),
            topics: Vec::new(),
            forecast: None,
            notes: self.notes(),
        }
    }

    fn cost(&self, column: usize) -> WorkCost {
        let us = |coefficients: &[f64; COLUMNS]| 1e6 * coefficients[column];
        let includes =
            self.left.iter().filter(|left| left.along_with.iter().any(|(other, _)| *other == column));
        WorkCost {
            unit: UNITS[column].to_owned(),
            us: self.kept.contains(&column).then(|| self.interval(us)),
            includes: includes.map(|left| UNITS[left.column].to_owned()).collect(),
            mean_per_s: self.means[column],
        }
    }

    fn together(&self) -> Vec<WorkTogether> {
        let groups = merged(self.left.iter().map(Left::group));
        let cores = |group: &[usize]| {
            self.interval(|coefficients| {
                group.iter().map(|column| coefficients[*column] * self.means[*column]).sum()
            })
        };
        groups
            .into_iter()
            .map(|group| WorkTogether {
                cores: cores(&group),
                units: group.iter().map(|column| UNITS[*column].to_owned()).collect(),
            })
            .collect()
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.explained < 0.5 {
            notes.push(format!(
                "the model explains {:.0} % of the changes of the CPU: something else uses it (consumers, \
                 compaction, other services), and the costs below may be wrong",
                100.0 * self.explained
            ));
        }
        if self.holes > 0 {
            notes.push(format!("{} points lack a value that the others have, and are left out", self.holes));
        }
        let absent: Vec<&str> = (0..COLUMNS)
            .filter(|column| !self.present.contains(column))
            .map(|column| UNITS[column])
            .collect();
        if !absent.is_empty() {
            notes.push(format!(
                "the history has no values of these, so their cost is part of the others: {}",
                absent.join(", ")
            ));
        }
        notes
    }

    fn interval(&self, of: impl Fn(&[f64; COLUMNS]) -> f64) -> CostInterval {
        let mut values: Vec<f64> = self.resampled.iter().map(&of).collect();
        values.sort_by(f64::total_cmp);
        let tail = (1.0 - CONFIDENCE) / 2.0;
        let at = |share: f64| {
            let place = (share * (values.len().saturating_sub(1)) as f64).round() as usize;
            values.get(place).copied().unwrap_or(f64::NAN)
        };
        let value = of(&self.coefficients);
        CostInterval { value, low: at(tail).min(value), high: at(1.0 - tail).max(value) }
    }

    /// The CPU for another mix of work, with everything else unchanged.
    pub fn forecast(&self, change: Change, asked: &str) -> CostForecast {
        let factors = self.factors(change);
        let mut notes = Vec::new();
        let outside = self.undecided(&factors);
        let now = self.interval(|coefficients| self.cores(coefficients, &[1.0; COLUMNS]));
        let mut then = self.interval(|coefficients| self.cores(coefficients, &factors));
        let ends = self.between(&factors, &outside);
        (then.low, then.high) = (then.low.min(ends.low), then.high.max(ends.high));
        for group in outside {
            let names: Vec<&str> = group.iter().map(|column| UNITS[*column]).collect();
            notes.push(format!(
                "in the history, {} always changed together, so the interval covers every split of their \
                 cost",
                names.join(", ")
            ));
        }
        if change.requests == 1.0 && change.batches != 1.0 && self.present.contains(&REQUEST) {
            notes
                .push("requests stay unchanged; add requests=... if they would become fewer, too".to_owned());
        }
        notes.extend(self.beyond(&factors));
        CostForecast { asked: asked.to_owned(), cores_now: now, cores_then: then, notes }
    }

    /// The mean rate of each kind of work over the history, per second: requests, batches, records, bytes; 0 if absent.
    pub fn mean_rates(&self) -> [f64; 4] {
        [REQUEST, BATCH, RECORD, BYTE].map(|column| self.means[column])
    }

    /// The peak of records per second in the history over their mean; of batches if records are absent.
    pub fn busiest(&self) -> f64 {
        let column = if self.present.contains(&RECORD) { RECORD } else { BATCH };
        (self.ranges[column][1] / self.means[column].max(f64::MIN_POSITIVE)).max(1.0)
    }

    /// Cores of this number of clusters with the same mix of work: each has the base.
    pub fn clusters(&self, count: f64, change: Change) -> CostInterval {
        self.interval(|coefficients| self.cores(coefficients, &self.shared(count, change)))
    }

    /// Cores that one cluster saves, compared with several that share another mix of work.
    pub fn saved(&self, one: Change, count: f64, between_them: Change) -> CostInterval {
        let (alone, many) = (self.factors(one), self.shared(count, between_them));
        self.interval(|coefficients| self.cores(coefficients, &many) - self.cores(coefficients, &alone))
    }

    fn shared(&self, count: f64, change: Change) -> [f64; COLUMNS] {
        let mut factors = self.factors(change);
        factors[BASE] = count;
        factors
    }

    fn factors(&self, change: Change) -> [f64; COLUMNS] {
        let mut factors = [1.0, change.requests, change.batches, change.records, 1.0];
        factors[BYTE] = change.bytes.unwrap_or_else(|| {
            let (bytes, headers) = (self.means[BYTE], HEADER_BYTES * self.means[BATCH]);
            if bytes > headers {
                ((bytes - headers) * change.records + headers * change.batches) / bytes
            } else {
                change.records
            }
        });
        factors
    }

    /// Reports extrapolation: work outside the range of the history.
    fn beyond(&self, factors: &[f64; COLUMNS]) -> Option<String> {
        let outside = self.present.iter().copied().filter(|column| {
            let [low, high] = self.ranges[*column];
            *column != BASE && !(low..=high).contains(&(self.means[*column] * factors[*column]))
        });
        let told: Vec<String> = outside
            .map(|column| {
                let [low, high] = self.ranges[column];
                let then = self.means[column] * factors[column];
                format!("{then:.0} {}/s, the history has {low:.0} to {high:.0}", PLURALS[column])
            })
            .collect();
        (!told.is_empty()).then(|| format!("extrapolated beyond the history: {}", told.join("; ")))
    }

    fn cores(&self, coefficients: &[f64; COLUMNS], factors: &[f64; COLUMNS]) -> f64 {
        (0..COLUMNS).map(|column| coefficients[column] * self.means[column] * factors[column]).sum()
    }

    /// Groups of columns that always changed together, but that this change separates.
    fn undecided(&self, factors: &[f64; COLUMNS]) -> Vec<Vec<usize>> {
        let holds = |left: &Left| {
            let as_ever: f64 =
                left.along_with.iter().map(|(column, by)| by * self.means[*column] * factors[*column]).sum();
            let asked = self.means[left.column] * factors[left.column];
            (as_ever - asked).abs() <= TELLING_SHARE * asked.abs().max(as_ever.abs())
        };
        merged(self.left.iter().filter(|left| !holds(left)).map(Left::group))
    }

    /// The costs of topics, the most expensive first. No counter has requests by topic, so they follow the batches.
    pub fn topics(&self, topics: &[WatchedTopic]) -> Vec<TopicCost> {
        let mut costs: Vec<TopicCost> = topics.iter().filter_map(|topic| self.topic(topic)).collect();
        costs.sort_by(|one, other| {
            other.cores.value.total_cmp(&one.cores.value).then(one.topic.cmp(&other.topic))
        });
        costs
    }

    fn topic(&self, topic: &WatchedTopic) -> Option<TopicCost> {
        let batches = topic.batches_per_s.known()?;
        let requests_a_batch =
            if self.means[BATCH] > 0.0 { self.means[REQUEST] / self.means[BATCH] } else { 0.0 };
        let of_batches =
            |all: &[f64; COLUMNS]| all[REQUEST] * batches * requests_a_batch + all[BATCH] * batches;
        let (records, bytes) = (topic.records_per_s.known(), topic.bytes_per_s.known());
        let share = |rate: Option<f64>, column: usize| match self.means[column] > 0.0 {
            true => rate.unwrap_or(0.0) / self.means[column],
            false => 0.0,
        };
        let of_all = share(Some(batches), BATCH);
        // The base does not belong to any topic.
        let shares = [0.0, of_all, of_all, share(records, RECORD), share(bytes, BYTE)];
        let groups = self.undecided(&shares);
        let hides_others = self.cost(BATCH).includes.iter().any(|unit| unit != UNITS[REQUEST]);
        let is_known = self.kept.contains(&BATCH) && !hides_others;
        Some(TopicCost {
            topic: topic.topic.clone(),
            cores: self.between(&shares, &groups),
            cores_of_batches: is_known.then(|| of_batches(&self.coefficients)),
        })
    }

    /// Cores for a mix of work. For kinds that always changed together, only the sum of the costs is known, and any of them may have all of
    /// it. So the ends are the smallest and the largest of their factors, and the estimate is the middle.
    fn between(&self, factors: &[f64; COLUMNS], groups: &[Vec<usize>]) -> CostInterval {
        let with = |of_group: &dyn Fn(&[usize]) -> f64| {
            let mut all = *factors;
            for group in groups {
                let factor = of_group(group);
                group.iter().for_each(|column| all[*column] = factor);
            }
            self.interval(|coefficients| self.cores(coefficients, &all))
        };
        let least =
            |group: &[usize]| group.iter().map(|column| factors[*column]).fold(f64::INFINITY, f64::min);
        let most = |group: &[usize]| group.iter().map(|column| factors[*column]).fold(0.0, f64::max);
        let middle = with(&|group| f64::midpoint(least(group), most(group)));
        CostInterval { value: middle.value, low: with(&least).low, high: with(&most).high }
    }
}

#[cfg(test)]
mod tests;
