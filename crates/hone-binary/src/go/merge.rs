//! Several profiles made one. One profile is held at a time beside the merged one, whose size depends on how many
//! different stacks there are, not on how many profiles come in.

use std::collections::HashMap;

use super::pprof::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};

/// A profile that others are added to.
#[derive(Debug, Default)]
pub struct Merger {
    merged: Profile,
    profiles: u32,
    functions: HashMap<Function, usize>,
    mappings: HashMap<MappingKey, usize>,
    locations: HashMap<Location, usize>,
    samples: HashMap<(Vec<usize>, Vec<Label>), usize>,
}

/// What makes two mappings the same, wherever they were loaded: size, offset, and build id or else the file.
type MappingKey = (u64, u64, String);

impl Merger {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a profile, all its values times `weight`. Weight 1 keeps them exactly; otherwise each value is rounded.
    ///
    /// # Errors
    /// In words, when the weight is not above 0, or when the profile counts something else than those before it.
    pub fn add(&mut self, profile: &Profile, weight: f64) -> Result<(), String> {
        if !(weight.is_finite() && weight > 0.0) {
            return Err(format!("a profile has the weight {weight}: it must be a number above 0"));
        }
        self.add_header(profile)?;
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
        self.profiles += 1;
        Ok(())
    }

    /// The merged profile, without stacks whose values are all 0.
    ///
    /// # Errors
    /// When nothing was added.
    pub fn finish(mut self) -> Result<Profile, String> {
        if self.profiles == 0 {
            return Err("there is no profile to merge".to_owned());
        }
        self.merged.samples.retain(|sample| sample.values.iter().any(|&value| value != 0));
        Ok(self.merged)
    }

    fn add_header(&mut self, profile: &Profile) -> Result<(), String> {
        let merged = &mut self.merged;
        if self.profiles == 0 {
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
            return Err(format!("profiles of {a} and of {b} can't be merged: take all of the same kind"));
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

    /// Addresses are compared as seen from the start of their mapping, which differs from process to process.
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

    fn sample(&mut self, stack: Vec<usize>, sample: &Sample, weight: f64) {
        let merged = &mut self.merged;
        let at = *self.samples.entry((stack, sample.labels.clone())).or_insert_with_key(|(stack, labels)| {
            let values = vec![0; sample.values.len()];
            merged.samples.push(Sample { stack: stack.clone(), values, labels: labels.clone() });
            merged.samples.len() - 1
        });
        for (sum, &value) in merged.samples[at].values.iter_mut().zip(&sample.values) {
            *sum = sum.saturating_add(weighted(value, weight));
        }
    }
}

/// The weights by which profiles with these totals get these shares of the merged one. The largest weight is 1, so that
/// no sample counts for more than it was: a window under little load is then not drowned by one under much.
///
/// # Errors
/// When a total or a share is not above 0.
pub fn weights_for_shares(totals: &[i64], shares: &[f64]) -> Result<Vec<f64>, String> {
    if totals.len() != shares.len() {
        return Err(format!("there are {} profiles and {} shares", totals.len(), shares.len()));
    }
    let raw: Vec<f64> = totals.iter().zip(shares).map(|(&total, share)| share / total as f64).collect();
    match raw.iter().position(|weight| !(weight.is_finite() && *weight > 0.0)) {
        Some(at) => Err(format!(
            "profile {} has the total {} and is to have the share {}: both must be above 0",
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

fn weighted(value: i64, weight: f64) -> i64 {
    // Beyond 2^53 a value passes through the float with its last digits rounded; beyond the type it stays at the end.
    if weight == 1.0 { value } else { (value as f64 * weight).round() as i64 }
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
        assert_eq!(values, [30, 30, 5], "f at 7, g (5 + 25), f at 8");
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

    proptest! {
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
