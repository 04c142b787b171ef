//! Merges several profiles. Besides the merged profile, only one is in memory at a time. Its size depends on the number of different
//! stacks, not on the number of profiles.

use std::collections::HashMap;

use super::pprof::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};
use crate::weights::nearly_whole_ratio;

/// Sums are kept in units of 2^-64: a weight of 10^-12 is then exact to 3 in 100 million, and an overflowing sum is one that no value of a
/// profile can hold either.
const UNIT_BITS: u32 = 64;

/// One, in these units.
const ONE: f64 = 18_446_744_073_709_551_616.0;

/// Enlarged weights let sums reach half of the largest value, and no more.
const LARGEST_SUM: f64 = (i64::MAX / 2) as f64;

/// The error of a weight in units.
pub(crate) const WEIGHT_OFF: f64 = 0.5 / ONE;

/// A profile that others are added to.
#[derive(Debug, Default)]
pub struct Merger {
    /// Its samples get their values at the end.
    merged: Profile,
    /// For each sample a sum for each type of value, in units.
    sums: Vec<i128>,
    /// The weight of each profile.
    weights: Vec<f64>,
    functions: HashMap<Function, usize>,
    mappings: HashMap<MappingKey, usize>,
    locations: HashMap<Location, usize>,
    samples: HashMap<(Vec<usize>, Vec<Label>), usize>,
}

/// The identity of a mapping, wherever it was loaded: size, offset, and build id or otherwise the file.
type MappingKey = (u64, u64, String);

impl Merger {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a profile, with all its values times `weight`. Weight 1 keeps them exactly. Sums are rounded once, at the end.
    ///
    /// # Errors
    /// In words, when the weight is not above 0, or when the profile counts something else than those before it.
    pub fn add(&mut self, profile: &Profile, weight: f64) -> Result<(), String> {
        if !(weight.is_finite() && weight > 0.0) {
            return Err(format!("a profile has the weight {weight}: it must be a number above 0"));
        }
        self.add_header(profile)?;
        self.weights.push(weight);
        let weight = ((weight * ONE).round() as i128).max(1);
        let functions: Vec<usize> = profile
            .functions
            .iter()
            .map(|function| intern(&mut self.functions, &mut self.merged.functions, function))
            .collect();
        let mappings: Vec<usize> = profile.mappings.iter().map(|mapping| self.mapping(mapping)).collect();
        let locations: Vec<usize> = profile
            .locations
            .iter()
            .map(|location| self.location(location, profile, &functions, &mappings))
            .collect();
        for sample in &profile.samples {
            let stack = sample.stack.iter().map(|&at| locations[at]).collect();
            self.sample(stack, sample, weight);
        }
        Ok(())
    }

    /// The merged profile, without stacks whose values are all 0. Fractional weights become whole numbers in the same proportions, with an
    /// error of at most a thousandth: most stacks of a profile have a count of one or two, and rounding would lose three tenths of them.
    ///
    /// # Errors
    /// Fails when nothing was added.
    pub fn finish(self) -> Result<Profile, String> {
        self.finish_scaled().map(|(merged, _)| merged)
    }

    /// Like [`Merger::finish`], and returns the common factor of all weights.
    ///
    /// # Errors
    /// Fails when nothing was added.
    pub fn finish_scaled(mut self) -> Result<(Profile, f64), String> {
        if self.weights.is_empty() {
            return Err("there is no profile to merge".to_owned());
        }
        let factor = self.factor();
        let sums = self.sums.chunks_exact(self.merged.sample_types.len().max(1));
        for (sample, sums) in self.merged.samples.iter_mut().zip(sums) {
            sample.values = sums.iter().map(|&sum| value_of(sum, factor)).collect();
        }
        self.merged.samples.retain(|sample| sample.values.iter().any(|&value| value != 0));
        Ok((self.merged, factor))
    }

    /// The factor that makes the weights whole numbers, as far as sums have room for it.
    fn factor(&self) -> f64 {
        if self.weights.iter().all(|weight| weight.fract() == 0.0) {
            return 1.0;
        }
        let whole = nearly_whole_ratio(&self.weights);
        let least = whole.into_iter().zip(&self.weights).min_by(|(_, a), (_, b)| a.total_cmp(b));
        let wanted = least.map_or(1.0, |(whole, weight)| whole as f64 / weight);
        let types = self.merged.sample_types.len().max(1);
        let mut totals = vec![0.0; types];
        for sums in self.sums.chunks_exact(types) {
            totals.iter_mut().zip(sums).for_each(|(total, &sum)| *total += sum.unsigned_abs() as f64 / ONE);
        }
        let largest = totals.into_iter().fold(0.0, f64::max);
        wanted.min((LARGEST_SUM / largest).max(1.0))
    }

    fn add_header(&mut self, profile: &Profile) -> Result<(), String> {
        let merged = &mut self.merged;
        if self.weights.is_empty() {
            merged.sample_types.clone_from(&profile.sample_types);
            merged.period_type = profile.period_type.clone();
            merged.period = profile.period;
            merged.time_ns = profile.time_ns;
            merged.default_kind.clone_from(&profile.default_kind);
            merged.drop_frames.clone_from(&profile.drop_frames);
            merged.keep_frames.clone_from(&profile.keep_frames);
            merged.doc_url.clone_from(&profile.doc_url);
        } else if merged.sample_types != profile.sample_types {
            let (a, b) = (names(&merged.sample_types), names(&profile.sample_types));
            return Err(format!("profiles of {a} and of {b} can't be merged: use profiles of one kind"));
        }
        merged.period = merged.period.max(profile.period);
        merged.time_ns = match (merged.time_ns, profile.time_ns) {
            (0, time) | (time, 0) => time,
            (a, b) => a.min(b),
        };
        merged.duration_ns = merged.duration_ns.saturating_add(profile.duration_ns);
        for comment in &profile.comments {
            if !merged.comments.contains(comment) {
                merged.comments.push(comment.clone());
            }
        }
        Ok(())
    }

    fn mapping(&mut self, mapping: &Mapping) -> usize {
        let name = if mapping.build_id.is_empty() { &mapping.file } else { &mapping.build_id };
        let key = (mapping.limit.wrapping_sub(mapping.start), mapping.offset, name.clone());
        *self.mappings.entry(key).or_insert_with(|| {
            self.merged.mappings.push(mapping.clone());
            self.merged.mappings.len() - 1
        })
    }

    /// Addresses are compared relative to the start of their mapping, which differs from process to process.
    fn location(
        &mut self,
        location: &Location,
        from: &Profile,
        functions: &[usize],
        mappings: &[usize],
    ) -> usize {
        let mapping = location.mapping.map(|at| mappings[at]);
        let moved = match (location.mapping, mapping) {
            (Some(at), Some(to)) => self.merged.mappings[to].start.wrapping_sub(from.mappings[at].start),
            _ => 0,
        };
        let lines = location.lines.iter().map(|line| Line { function: functions[line.function], ..*line });
        let location = Location {
            mapping,
            address: location.address.wrapping_add(moved),
            lines: lines.collect(),
            folded: location.folded,
        };
        intern(&mut self.locations, &mut self.merged.locations, &location)
    }

    /// The weight is in units.
    fn sample(&mut self, stack: Vec<usize>, sample: &Sample, weight: i128) {
        let (merged, sums) = (&mut self.merged, &mut self.sums);
        let types = merged.sample_types.len();
        let at = *self.samples.entry((stack, sample.labels.clone())).or_insert_with_key(|(stack, labels)| {
            merged.samples.push(Sample { stack: stack.clone(), values: Vec::new(), labels: labels.clone() });
            sums.resize(merged.samples.len() * types, 0);
            merged.samples.len() - 1
        });
        for (sum, &value) in sums[at * types..][..types].iter_mut().zip(&sample.values) {
            *sum = sum.saturating_add(i128::from(value).saturating_mul(weight));
        }
    }
}

/// The weights with which profiles with these totals get these shares of the merged one. The largest weight is 1, so that no sample counts
/// more than once: a window under little load is then not outweighed by one under much.
///
/// # Errors
/// Fails when a total or a share is not above 0.
pub fn weights_for_shares(totals: &[i64], shares: &[f64]) -> Result<Vec<f64>, String> {
    if totals.len() != shares.len() {
        return Err(format!("there are {} profiles and {} shares", totals.len(), shares.len()));
    }
    let raw: Vec<f64> = totals.iter().zip(shares).map(|(&total, share)| share / total as f64).collect();
    match raw.iter().position(|weight| !(weight.is_finite() && *weight > 0.0)) {
        Some(at) => Err(format!(
            "profile {} has the total {} and the share {}: both must be above 0",
            at + 1,
            totals[at],
            shares[at]
        )),
        None => {
            let largest = raw.iter().copied().fold(0.0, f64::max);
            Ok(raw.into_iter().map(|weight| weight / largest).collect())
        }
    }
}

/// A sum in units as a rounded value. A value above 0 stays above 0, and one that is too large stays at the maximum.
fn value_of(sum: i128, factor: f64) -> i64 {
    let whole = if factor == 1.0 {
        let half = 1_u128 << (UNIT_BITS - 1);
        // At most 2^63.
        ((sum.unsigned_abs() + half) >> UNIT_BITS) as i128 * sum.signum()
    } else {
        // Beyond 2^53 the last digits are rounded.
        (sum as f64 / ONE * factor).round() as i128
    };
    let whole = if whole == 0 { sum.signum() } else { whole };
    whole.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

fn intern<T: Clone + Eq + std::hash::Hash>(
    places: &mut HashMap<T, usize>,
    into: &mut Vec<T>,
    thing: &T,
) -> usize {
    if let Some(&known) = places.get(thing) {
        return known;
    }
    into.push(thing.clone());
    places.insert(thing.clone(), into.len() - 1);
    into.len() - 1
}

fn names(types: &[ValueType]) -> String {
    types.iter().map(|found| format!("{}/{}", found.kind, found.unit)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::pprof::tests::{cpu, of_kind, small};
    use super::*;

    fn merge(profiles: &[(&Profile, f64)]) -> Result<Profile, String> {
        let mut merger = Merger::new();
        for (profile, weight) in profiles {
            merger.add(profile, *weight)?;
        }
        merger.finish()
    }

    #[test]
    fn the_same_stacks_are_added_with_their_weights() {
        let a = cpu(&[("main.main:3>main.f:7", 30), ("main.main:4>main.g:9", 5)]);
        let b = cpu(&[("main.main:4>main.g:9", 10), ("main.main:3>main.f:8", 2)]);
        let merged = merge(&[(&a, 1.0), (&b, 2.5)]).unwrap();
        let values: Vec<i64> = merged.samples.iter().map(|sample| sample.values[0]).collect();
        assert_eq!(values, [60, 60, 10], "f at 7, g (5 + 25), f at 8, each twice, since a weight is a half");
        assert_eq!((merged.functions.len(), merged.locations.len()), (3, 5));
        assert_eq!((merged.duration_ns, merged.period), (2_000_000_000, 10_000_000));
    }

    #[test]
    fn one_profile_stays_what_it_was() {
        assert_eq!(merge(&[(&small(), 1.0)]).unwrap(), small());
        let twice = merge(&[(&small(), 1.0), (&small(), 1.0)]).unwrap();
        assert_eq!((twice.samples.len(), twice.total(0)), (2, 56));
        assert_eq!(twice.comments, ["one", "two"]);
    }

    #[test]
    fn a_program_loaded_elsewhere_is_the_same_program() {
        let mut moved = small();
        moved.mappings[0].start += 0x1000;
        moved.mappings[0].limit += 0x1000;
        moved.locations[0].address += 0x1000;
        let merged = merge(&[(&small(), 1.0), (&moved, 1.0)]).unwrap();
        assert_eq!((merged.mappings.len(), merged.samples.len()), (1, 2));
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let heap = of_kind("alloc_space", "bytes", &[("main.main:3", 1)]);
        let error = merge(&[(&small(), 1.0), (&heap, 1.0)]).unwrap_err();
        assert!(error.contains("profiles of cpu/nanoseconds and of alloc_space/bytes"), "{error}");
        for weight in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(merge(&[(&small(), weight)]).unwrap_err().contains("above 0"));
        }
        assert!(merge(&[]).is_err());
    }

    #[test]
    fn shares_are_reached_whatever_the_windows_gave() {
        let weights = weights_for_shares(&[1000, 10], &[0.5, 0.5]).unwrap();
        assert_eq!(weights, [0.01, 1.0]);
        let weights = weights_for_shares(&[100, 100], &[2.0, 1.0]).unwrap();
        assert_eq!(weights, [1.0, 0.5]);
        assert!(
            weights_for_shares(&[0, 10], &[0.5, 0.5]).unwrap_err().starts_with("profile 1 has the total 0")
        );
        assert!(weights_for_shares(&[1], &[]).is_err());
    }

    /// Of two kinds of value, as Go's profiles of CPU have them: samples, and nanoseconds at 100 of them a second.
    fn sampled(stacks: &[(&str, i64)]) -> Profile {
        let mut profile = of_kind("samples", "count", stacks);
        profile.sample_types.push(ValueType { kind: "cpu".into(), unit: "nanoseconds".into() });
        profile.samples.iter_mut().for_each(|sample| sample.values.push(sample.values[0] * 10_000_000));
        profile
    }

    #[test]
    fn no_stack_of_a_light_profile_is_rounded_away() {
        let heavy = sampled(&[("main.main:1>main.heavy:2", 1_000)]);
        let light = sampled(&[("main.main:1>main.f:2", 1), ("main.main:1>main.g:3", 4)]);
        let mut merger = Merger::new();
        merger.add(&heavy, 1.0).unwrap();
        merger.add(&light, 0.01).unwrap();
        let (merged, factor) = merger.finish_scaled().unwrap();
        let counts: Vec<i64> = merged.samples.iter().map(|sample| sample.values[0]).collect();
        assert_eq!((counts.as_slice(), factor), ([100_000, 1, 4].as_slice(), 100.0));
        assert_eq!(merged.total(1), merged.total(0) * 10_000_000, "both kinds of value alike");
        assert_eq!(merge(&[(&light, 0.3)]).unwrap(), light, "one alone is what it was");
    }

    /// Rounded one by one, a hundred halves are nothing, or twice what they are.
    #[test]
    fn single_samples_of_many_hosts_add_up() {
        for weight in [0.49, 0.51] {
            let single = sampled(&[("main.main:1", 1)]);
            let once = sampled(&[("main.other:1", 100)]);
            let mut all = vec![(&single, weight); 100];
            all.push((&once, 1.0));
            let merged = merge(&all).unwrap();
            let [single, once] = [0, 1].map(|at| merged.samples[at].values[0] as f64);
            assert!((single / once / weight - 1.0).abs() < 0.005, "{weight}: {single} of {once}");
        }
    }

    #[test]
    fn what_can_not_become_larger_keeps_what_was_counted() {
        let full = cpu(&[("main.main:1", i64::MAX / 2), ("main.f:1", 3)]);
        let merged = merge(&[(&full, 1.0), (&cpu(&[("main.g:1", 7)]), 1e-3)]).unwrap();
        let values: Vec<i64> = merged.samples.iter().map(|sample| sample.values[0]).collect();
        assert_eq!(values, [i64::MAX / 2, 3, 1], "no room for a factor, and g was counted");
        let most = cpu(&[("main.main:1", i64::MAX)]);
        assert_eq!(merge(&[(&most, 1.0)]).unwrap(), most);
        assert_eq!(merge(&[(&most, 1e6), (&most, 2.0)]).unwrap().total(0), i64::MAX, "no wrap");
        let least = cpu(&[("main.main:1", i64::MIN)]);
        assert_eq!(merge(&[(&least, 1.0), (&least, 1.0)]).unwrap().total(0), i64::MIN);
    }

    proptest! {
        #[test]
        fn shares_are_those_of_the_weights(a in prop::collection::vec(1..1_000_i64, 1..20),
                                           b in prop::collection::vec(1..1_000_i64, 1..20), weight in 1e-6..1.0_f64) {
            let make = |name: &str, values: &[i64]| {
                let stacks: Vec<String> = (0..values.len()).map(|at| format!("main.{name}{at}:1")).collect();
                cpu(&stacks.iter().map(String::as_str).zip(values.iter().copied()).collect::<Vec<_>>())
            };
            let (one, other) = (make("a", &a), make("b", &b));
            let merged = merge(&[(&one, 1.0), (&other, weight)]).unwrap();
            prop_assert_eq!(merged.samples.len(), a.len() + b.len(), "no stack is lost");
            let of_b: i64 = merged.samples[a.len()..].iter().map(|sample| sample.values[0]).sum();
            let found = of_b as f64 / (merged.total(0) - of_b) as f64;
            let wanted = other.total(0) as f64 * weight / one.total(0) as f64;
            prop_assert!((found / wanted - 1.0).abs() < 2e-3, "{} and not {}", found, wanted);
        }

        #[test]
        fn totals_add_up(a in prop::collection::vec((0..4_usize, 1..1_000_i64), 1..20),
                         b in prop::collection::vec((0..4_usize, 1..1_000_i64), 1..20)) {
            let stacks = ["main.main:1", "main.main:1>main.f:2", "main.main:1>main.f:3", "main.g:1>main.f:2"];
            let make = |parts: &[(usize, i64)]| {
                cpu(&parts.iter().map(|&(at, value)| (stacks[at], value)).collect::<Vec<_>>())
            };
            let (a, b) = (make(&a), make(&b));
            let merged = merge(&[(&a, 1.0), (&b, 3.0)]).unwrap();
            prop_assert_eq!(merged.total(0), a.total(0) + 3 * b.total(0));
            prop_assert!(merged.samples.len() <= 4);
        }
    }
}
