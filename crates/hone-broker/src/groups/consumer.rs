//! A group of the consumer protocol (KIP-848): the broker assigns, and each member walks to its part of the target at
//! its own pace, with heartbeats.
//!
//! Three epochs: the group's goes up with every change that calls for a new assignment; the target assignment has the
//! group epoch it was computed for; a member has the epoch of the target it has reached. A partition is handed over
//! only when its owner has said that it gave it up, so no two members ever hold it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use regex::{Regex, RegexBuilder};

use super::answers::Refusal;
use super::assignor::{Assignor, Partitions, Subscriber};
use super::request::{Beat, Catalogue};
use super::step::{Effects, Now, milliseconds};
use crate::code;

/// The epoch with which a member leaves for good.
pub(super) const LEAVE: i32 = -1;
/// The epoch with which a static member leaves and keeps its place.
pub(super) const LEAVE_STATIC: i32 = -2;
/// A pattern that compiles to more than this is refused.
const MOST_PATTERN_BYTES: usize = 1 << 20;
/// Shortest time between two lookups of topics and pattern matches if no subscription changes. A lookup goes through
/// all names of members or topics.
const REFRESH: Duration = Duration::from_secs(1);

/// A name or a partition in a map, on top of its own bytes.
pub(super) const ENTRY_BYTES: usize = 64;

/// Names in a set.
pub(super) fn names_bytes<'a>(names: impl IntoIterator<Item = &'a String>) -> usize {
    names.into_iter().map(|name| name.len() + ENTRY_BYTES).sum()
}

/// A viewer and a pattern.
pub(super) type MatchKey = (String, String);

/// What a pattern matches among what a viewer may see, and when that was looked up.
#[derive(Debug)]
pub(super) struct Matches {
    pub(super) names: BTreeSet<String>,
    at: Instant,
}

/// Where a member is on its way to the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Nothing to do.
    Stable,
    /// It must give up partitions before it may go on, and has until then.
    Unrevoked { until: Instant },
    /// It waits for partitions that others have not given up.
    Unreleased,
}

/// A member of a consumer group.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) instance: Option<String>,
    pub(super) rack: Option<String>,
    pub(super) client_id: String,
    pub(super) client_host: String,
    pub(super) rebalance_ms: i32,
    pub(super) names: BTreeSet<String>,
    /// What the names take up.
    pub(super) names_bytes: usize,
    pub(super) pattern: Option<String>,
    /// Where its matches are; `None` where it has no pattern, or has not beaten since the start.
    pub(super) matched_as: Option<MatchKey>,
    pub(super) assignor: Option<String>,
    pub(super) epoch: i32,
    pub(super) previous_epoch: i32,
    pub(super) assigned: Partitions,
    /// No longer assigned, and not given up yet.
    pub(super) revoking: Partitions,
    pub(super) target: Partitions,
    phase: Phase,
    expires: Instant,
}

impl Member {
    /// A member that has nothing and is nowhere.
    pub(super) fn new(now: Now) -> Self {
        Self {
            instance: None,
            rack: None,
            client_id: String::new(),
            client_host: String::new(),
            rebalance_ms: -1,
            names: BTreeSet::new(),
            names_bytes: 0,
            pattern: None,
            matched_as: None,
            assignor: None,
            epoch: 0,
            previous_epoch: 0,
            assigned: Partitions::new(),
            revoking: Partitions::new(),
            target: Partitions::new(),
            phase: Phase::Stable,
            expires: now.at,
        }
    }

    fn is_assumed(&self) -> bool {
        self.pattern.is_some() && self.matched_as.is_none()
    }

    fn set_names(&mut self, names: BTreeSet<String>) {
        self.names_bytes = names_bytes(&names);
        self.names = names;
    }

    /// Takes over what a heartbeat says. `true` when the subscription, and with it the target, may change.
    fn update(&mut self, beat: &Beat) -> bool {
        self.client_id.clone_from(&beat.client_id);
        self.client_host.clone_from(&beat.client_host);
        if beat.instance.is_some() {
            self.instance.clone_from(&beat.instance);
        }
        if beat.rack.is_some() {
            self.rack.clone_from(&beat.rack);
        }
        if beat.rebalance_ms >= 0 {
            self.rebalance_ms = beat.rebalance_ms;
        }
        let mut changed = false;
        if let Some(names) = &beat.names {
            let names: BTreeSet<String> = names.iter().cloned().collect();
            changed |= names != self.names;
            self.set_names(names);
        }
        if let Some(pattern) = &beat.pattern {
            // An empty pattern takes the subscription by pattern back.
            let pattern = Some(pattern.clone()).filter(|pattern| !pattern.is_empty());
            changed |= pattern != self.pattern;
            self.pattern = pattern;
        }
        if beat.assignor.is_some() {
            changed |= beat.assignor != self.assignor;
            self.assignor.clone_from(&beat.assignor);
        }
        changed
    }
}

/// A group of the consumer protocol.
#[derive(Debug)]
pub(super) struct Consumer {
    pub(super) id: String,
    pub(super) epoch: i32,
    pub(super) assignment_epoch: i32,
    pub(super) assignor: Option<Assignor>,
    pub(super) members: BTreeMap<String, Member>,
    /// The subscribed topics that exist, as the target was computed for: id and number of partitions.
    pub(super) topics: BTreeMap<String, (u128, i32)>,
    /// The names of those topics.
    names_by_id: HashMap<u128, String>,
    /// Since when it has no members, as wall clock; meaningless while it has some.
    pub(super) empty_since_ms: i64,
    /// The matches of the members' patterns, each with the rights of the member.
    pub(super) matches: BTreeMap<MatchKey, Matches>,
    refreshed_at: Option<Instant>,
    /// The epoch with which it was read from the journal.
    restored_epoch: Option<i32>,
    /// What it took up when it was last weighed.
    pub(super) weighed_bytes: usize,
    /// Who holds a partition: it is assigned, or not given up yet.
    holders: HashMap<(u128, i32), String>,
}

impl Consumer {
    pub(super) fn empty(id: &str, now: Now) -> Self {
        Self {
            id: id.to_owned(),
            epoch: 0,
            assignment_epoch: 0,
            assignor: None,
            members: BTreeMap::new(),
            topics: BTreeMap::new(),
            names_by_id: HashMap::new(),
            empty_since_ms: now.unix_ms,
            matches: BTreeMap::new(),
            refreshed_at: None,
            restored_epoch: None,
            weighed_bytes: 0,
            holders: HashMap::new(),
        }
    }

    /// Says which the subscribed topics are.
    pub(super) fn set_topics(&mut self, topics: BTreeMap<String, (u128, i32)>) {
        self.names_by_id = topics.iter().map(|(name, (id, _))| (*id, name.clone())).collect();
        self.topics = topics;
    }

    /// Adds a member that was read from the journal: it has a whole session to come back.
    pub(super) fn restore_member(&mut self, now: Now, session: Duration, id: String, mut member: Member) {
        member.names_bytes = names_bytes(&member.names);
        member.expires = now.at + session;
        member.phase = if member.epoch == LEAVE_STATIC {
            Phase::Stable
        } else if !member.revoking.is_empty() {
            Phase::Unrevoked { until: now.at + rebalance_limit(&member) }
        } else if member.assigned != member.target {
            Phase::Unreleased
        } else {
            Phase::Stable
        };
        self.restored_epoch = Some(self.epoch);
        self.members.insert(id.clone(), member);
        self.hold(&id);
    }

    /// One heartbeat that passed [`check`]. Marks the group in `effects` when something changed that must be durable before the answer.
    pub(super) fn heartbeat(
        &mut self,
        now: Now,
        session: Duration,
        beat: &Beat,
        new_id: String,
        catalogue: &dyn Catalogue,
        effects: &mut Effects,
    ) -> Result<(String, i32, Option<Partitions>), Refusal> {
        if beat.epoch == LEAVE || beat.epoch == LEAVE_STATIC {
            return self.leave(now, beat, effects);
        }
        let (id, admitted) = self.admit(now, beat, new_id)?;
        let updated = self.members.get_mut(&id).is_some_and(|member| member.update(beat));
        let before = self.position(&id);
        let asked_anew = updated || admitted == Admitted::New;
        let changed = self.match_pattern(now, &id, catalogue, asked_anew) || asked_anew;
        if self.refresh(now, catalogue, changed) || changed {
            self.epoch += 1;
            effects.touch(&self.id);
        }
        if self.epoch > self.assignment_epoch {
            self.assign();
            effects.touch(&self.id);
        }
        self.reconcile(now, &id, beat.owned.as_ref());
        let member = self.members.get_mut(&id).ok_or_else(|| unknown(&id))?;
        member.expires = now.at + session;
        let (epoch, assigned) = (member.epoch, member.assigned.clone());
        if before != self.position(&id) || admitted != Admitted::Known {
            effects.touch(&self.id);
        }
        let subscribes = beat.names.is_some() || beat.pattern.is_some();
        let whole = beat.rebalance_ms >= 0 && subscribes && beat.owned.is_some();
        let tell = beat.epoch == 0 || whole || before.is_none_or(|before| before.1 != assigned);
        Ok((id, epoch, tell.then_some(assigned)))
    }

    /// What of a member must be durable.
    fn position(&self, id: &str) -> Option<(i32, Partitions, Partitions)> {
        self.members.get(id).map(|member| (member.epoch, member.assigned.clone(), member.revoking.clone()))
    }

    pub(super) fn instance_owner(&self, instance: &str) -> Option<(String, i32)> {
        let owns = |member: &&Member| member.instance.as_deref() == Some(instance);
        self.members.iter().find(|(_, member)| owns(member)).map(|(id, member)| (id.clone(), member.epoch))
    }

    /// Whether it would be one more.
    pub(super) fn is_stranger(&self, beat: &Beat) -> bool {
        let returns = |instance: &str| self.instance_owner(instance).is_some();
        beat.epoch == 0
            && !self.members.contains_key(&beat.member)
            && !beat.instance.as_deref().is_some_and(returns)
    }

    /// Finds the member, or lets it in.
    fn admit(&mut self, now: Now, beat: &Beat, new_id: String) -> Result<(String, Admitted), Refusal> {
        let id = if beat.member.is_empty() { new_id } else { beat.member.clone() };
        let owner = beat.instance.as_deref().and_then(|instance| self.instance_owner(instance));
        if let Some((owner, owner_epoch)) = owner.filter(|(owner, _)| *owner != id) {
            if beat.epoch > 0 {
                return Err((code::FENCED_INSTANCE_ID, format!("{id} was replaced by another member")));
            }
            if owner_epoch != LEAVE_STATIC {
                let message = format!("{owner} has this instance id and has not released it");
                return Err((code::UNRELEASED_INSTANCE_ID, message));
            }
            self.take_place(&owner, &id);
            return Ok((id, Admitted::InPlaceOfAnother));
        }
        let Some(member) = self.members.get(&id) else {
            if beat.epoch > 0 {
                return Err(unknown(&id));
            }
            self.members.insert(id.clone(), Member::new(now));
            return Ok((id, Admitted::New));
        };
        check_epoch(member, beat)?;
        if beat.epoch == 0 {
            // It begins again with no partitions, regardless of its earlier state.
            self.begin_again(&id);
            return Ok((id, Admitted::Again));
        }
        Ok((id, Admitted::Known))
    }

    /// A static member that had left comes back under another id and finds its place.
    fn take_place(&mut self, old: &str, new: &str) {
        let Some(mut member) = self.members.remove(old) else { return };
        for partition in &member.assigned {
            self.holders.insert(*partition, new.to_owned());
        }
        (member.epoch, member.previous_epoch) = (0, 0);
        self.members.insert(new.to_owned(), member);
    }

    fn begin_again(&mut self, id: &str) {
        self.release(id);
        if let Some(member) = self.members.get_mut(id) {
            member.revoking.clear();
            (member.epoch, member.previous_epoch) = (0, 0);
            member.phase = Phase::Stable;
        }
        self.hold(id);
    }

    fn release(&mut self, id: &str) {
        if let Some(member) = self.members.get(id) {
            for partition in member.assigned.iter().chain(&member.revoking) {
                self.holders.remove(partition);
            }
        }
    }

    fn hold(&mut self, id: &str) {
        if let Some(member) = self.members.get(id) {
            for partition in member.assigned.iter().chain(&member.revoking) {
                self.holders.insert(*partition, id.to_owned());
            }
        }
    }

    /// Holds the topics against the pattern of a member, with its own rights. `true` when it, or one that has both in
    /// common with it, matches something else than before.
    fn match_pattern(&mut self, now: Now, id: &str, catalogue: &dyn Catalogue, asked_anew: bool) -> bool {
        let Some(member) = self.members.get(id) else { return false };
        let key = member.pattern.as_ref().map(|pattern| (catalogue.viewer(), pattern.clone()));
        let known = key.as_ref().and_then(|key| self.matches.get(key));
        let fresh = known.is_some_and(|known| now.at < known.at + REFRESH) && !asked_anew;
        if member.matched_as == key && (fresh || key.is_none()) {
            return false;
        }
        let before = self.matched(member).cloned();
        let others_before = known.map(|known| known.names.clone());
        if let Some((_, pattern)) = &key
            && !fresh
        {
            let found = Matches { names: matching(pattern, &catalogue.names()), at: now.at };
            self.matches.insert(key.clone().unwrap_or_default(), found);
        }
        let Some(member) = self.members.get_mut(id) else { return false };
        let begins_after_start = member.is_assumed();
        member.matched_as = key;
        let Some(member) = self.members.get(id) else { return false };
        let after = self.matched(member);
        let others_changed = others_before.as_ref().is_some_and(|others| Some(others) != after);
        let changed = if begins_after_start {
            !self.goes_on_after_start(member, after)
        } else {
            before.as_ref() != after
        };
        changed || others_changed
    }

    /// Whether the target, which was computed before the start, still is what a member is to have.
    fn goes_on_after_start(&self, member: &Member, matched: Option<&BTreeSet<String>>) -> bool {
        let is_subscribed = |name: &String| {
            member.names.contains(name) || matched.is_some_and(|matched| matched.contains(name))
        };
        self.restored_epoch == Some(self.epoch) && self.topics_of_target(member).all(is_subscribed)
    }

    fn matched(&self, member: &Member) -> Option<&BTreeSet<String>> {
        let key = member.matched_as.as_ref()?;
        self.matches.get(key).map(|found| &found.names)
    }

    fn topics_of_target<'a>(&'a self, member: &'a Member) -> impl Iterator<Item = &'a String> {
        member.target.iter().filter_map(|(id, _)| self.names_by_id.get(id))
    }

    /// The assumed matches of a member from the journal until its next heartbeat. Its rights are unknown until then,
    /// and it was allowed to have its old partitions.
    fn assumed<'a>(&'a self, member: &'a Member) -> impl Iterator<Item = &'a String> {
        let assumed = Some(member).filter(|member| member.is_assumed());
        assumed.into_iter().flat_map(|member| self.topics_of_target(member))
    }

    /// Looks the subscribed topics up. `true` when there is something else than before.
    fn refresh(&mut self, now: Now, catalogue: &dyn Catalogue, subscription_changed: bool) -> bool {
        let fresh = self.refreshed_at.is_some_and(|at| now.at < at + REFRESH);
        if fresh && !subscription_changed {
            return false;
        }
        self.refreshed_at = Some(now.at);
        let used: BTreeSet<&MatchKey> =
            self.members.values().filter_map(|member| member.matched_as.as_ref()).collect();
        self.matches.retain(|key, _| used.contains(key));
        let mut topics = BTreeMap::new();
        for name in self.subscribed() {
            if !topics.contains_key(name)
                && let Some(found) = catalogue.topic(name)
            {
                topics.insert(name.clone(), found);
            }
        }
        let changed = topics != self.topics;
        if changed {
            self.set_topics(topics);
        }
        changed
    }

    /// The names of all subscriptions, some of them more than once.
    fn subscribed(&self) -> impl Iterator<Item = &String> {
        let members = self.members.values();
        let own = members.flat_map(|member| member.names.iter().chain(self.assumed(member)));
        own.chain(self.matches.values().flat_map(|found| &found.names))
    }

    /// Computes the target of the group's epoch.
    fn assign(&mut self) {
        let assignor = self.choose_assignor();
        let subscribers: Vec<Subscriber<'_>> =
            self.members.iter().map(|(id, member)| self.subscriber(id, member)).collect();
        let targets = assignor.assign(&subscribers, &self.topics);
        for (member, target) in self.members.values_mut().zip(targets) {
            member.target = target;
        }
        self.assignor = Some(assignor);
        self.assignment_epoch = self.epoch;
    }

    fn subscriber<'a>(&'a self, id: &'a str, member: &'a Member) -> Subscriber<'a> {
        let matched = self.matched(member).into_iter().flatten().chain(self.assumed(member));
        let topics = member.names.iter().chain(matched).map(String::as_str).collect();
        Subscriber { order: member.instance.as_deref().unwrap_or(id), topics, before: &member.target }
    }

    /// The one that most members ask for; who asks for none is content with any.
    fn choose_assignor(&self) -> Assignor {
        let mut votes: BTreeMap<Assignor, usize> = BTreeMap::new();
        let asked = self.members.values().filter_map(|member| member.assignor.as_deref());
        for assignor in asked.filter_map(Assignor::of_name) {
            *votes.entry(assignor).or_default() += 1;
        }
        votes.into_iter().rev().max_by_key(|(_, count)| *count).map_or(Assignor::Uniform, |(found, _)| found)
    }

    /// Takes a member as far towards its target as the others let it.
    fn reconcile(&mut self, now: Now, id: &str, owned: Option<&Partitions>) {
        let Some(member) = self.members.get(id) else { return };
        match member.phase {
            Phase::Stable if member.epoch == self.assignment_epoch => return,
            Phase::Unrevoked { .. } if still_owns(owned, &member.revoking) => return,
            _ => (),
        }
        let (kept, lost): (Partitions, Partitions) =
            member.assigned.iter().partition(|partition| member.target.contains(partition));
        let mut next = member.clone();
        self.release(id);
        if !lost.is_empty() && still_owns(owned, &lost) {
            next.phase = Phase::Unrevoked { until: now.at + rebalance_limit(&next) };
            (next.assigned, next.revoking) = (kept, lost);
        } else {
            let wanted = next.target.difference(&kept).copied();
            let (free, held): (Vec<_>, Vec<_>) =
                wanted.partition(|partition| !self.holders.contains_key(partition));
            next.assigned = kept;
            next.assigned.extend(free);
            next.revoking.clear();
            next.phase = if held.is_empty() { Phase::Stable } else { Phase::Unreleased };
            if next.epoch != self.assignment_epoch {
                next.previous_epoch = next.epoch;
                next.epoch = self.assignment_epoch;
            }
        }
        self.members.insert(id.to_owned(), next);
        self.hold(id);
    }

    fn leave(
        &mut self,
        now: Now,
        beat: &Beat,
        effects: &mut Effects,
    ) -> Result<(String, i32, Option<Partitions>), Refusal> {
        let id = beat.member.clone();
        if let Some(instance) = &beat.instance {
            let (owner, _) = self.instance_owner(instance).ok_or_else(|| unknown(instance))?;
            if owner != id {
                return Err((code::FENCED_INSTANCE_ID, format!("{id} was replaced by another member")));
            }
        }
        let member = self.members.get_mut(&id).ok_or_else(|| unknown(&id))?;
        if beat.epoch == LEAVE_STATIC {
            member.epoch = LEAVE_STATIC;
            member.phase = Phase::Stable;
            let revoking = std::mem::take(&mut member.revoking);
            self.holders.retain(|partition, _| !revoking.contains(partition));
            effects.touch(&self.id);
        } else {
            self.remove(now, &id, effects);
        }
        Ok((id, beat.epoch, None))
    }

    fn remove(&mut self, now: Now, id: &str, effects: &mut Effects) {
        self.release(id);
        if self.members.remove(id).is_some() {
            self.epoch += 1;
            self.refreshed_at = None;
            if self.members.is_empty() {
                // No member can get an assignment.
                self.assignment_epoch = self.epoch;
                self.set_topics(BTreeMap::new());
                self.matches.clear();
                self.empty_since_ms = now.unix_ms;
            }
            effects.touch(&self.id);
        }
    }

    /// Time has passed: sessions end, and so does the time to give up partitions.
    pub(super) fn tick(&mut self, now: Now, effects: &mut Effects) {
        let over = |member: &Member| {
            let too_slow = matches!(member.phase, Phase::Unrevoked { until } if until <= now.at);
            too_slow || member.expires <= now.at
        };
        let gone: Vec<String> =
            self.members.iter().filter(|(_, member)| over(member)).map(|(id, _)| id.clone()).collect();
        for id in gone {
            self.remove(now, &id, effects);
        }
    }

    /// Whether a member may commit or fetch offsets with this epoch. Returns an error code.
    pub(super) fn check_member(&self, member: &str, epoch: i32, wrong_epoch: i16) -> i16 {
        match self.members.get(member) {
            None => code::UNKNOWN_MEMBER_ID,
            Some(member) if member.epoch != epoch => wrong_epoch,
            Some(_) => code::NONE,
        }
    }

    /// Whether a member is subscribed to a topic, or was when the topics were last looked up.
    pub(super) fn guarded<'a>(&self, asked: &BTreeSet<&'a str>) -> BTreeSet<&'a str> {
        self.subscribed().filter_map(|name| asked.get(name.as_str())).copied().collect()
    }

    /// As Kafka names it.
    pub(super) fn state_name(&self) -> &'static str {
        let settled = |member: &Member| {
            member.phase == Phase::Stable
                && (member.epoch == self.assignment_epoch || member.epoch == LEAVE_STATIC)
        };
        if self.members.is_empty() {
            "Empty"
        } else if self.epoch > self.assignment_epoch {
            "Assigning"
        } else if self.members.values().all(settled) {
            "Stable"
        } else {
            "Reconciling"
        }
    }
}

/// How a member came to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Admitted {
    Known,
    Again,
    InPlaceOfAnother,
    New,
}

/// Without a word about what a member owns, it may own all of it.
fn still_owns(owned: Option<&Partitions>, lost: &Partitions) -> bool {
    owned.is_none_or(|owned| !owned.is_disjoint(lost))
}

fn rebalance_limit(member: &Member) -> Duration {
    milliseconds(member.rebalance_ms)
}

fn unknown(member: &str) -> Refusal {
    (code::UNKNOWN_MEMBER_ID, format!("{member} is not a member of this group"))
}

/// A member may be one answer behind: it did not get the one with its new epoch. What it owns shows that.
fn check_epoch(member: &Member, beat: &Beat) -> Result<(), Refusal> {
    let behind = beat.epoch == member.previous_epoch
        && beat.owned.as_ref().is_some_and(|owned| owned.is_subset(&member.assigned));
    if beat.epoch == member.epoch || beat.epoch == 0 || behind && beat.epoch < member.epoch {
        return Ok(());
    }
    let message = format!("the member is at epoch {}, not {}; it must join again", member.epoch, beat.epoch);
    Err((code::FENCED_MEMBER_EPOCH, message))
}

/// What makes no sense whatever the group is.
pub(super) fn check(beat: &Beat) -> Result<(), Refusal> {
    let invalid = |message: &str| Err((code::INVALID_REQUEST, message.to_owned()));
    let is_empty = |text: &Option<String>| text.as_deref() == Some("");
    if beat.epoch < LEAVE_STATIC {
        return invalid("a member epoch is -2 or more");
    }
    if beat.member.is_empty() && (beat.names_itself || beat.epoch != 0) {
        return invalid("the member id is missing");
    }
    if is_empty(&beat.instance) || is_empty(&beat.rack) {
        return invalid("an instance id or a rack id that is given can't be empty");
    }
    if beat.epoch == LEAVE_STATIC && beat.instance.is_none() {
        return invalid("only a member with an instance id can leave for a while");
    }
    if beat.epoch == 0 {
        if beat.rebalance_ms < 0 {
            return invalid("a joining member must send its rebalance timeout");
        }
        if beat.owned.as_ref().is_none_or(|owned| !owned.is_empty()) {
            return invalid("a joining member must send an empty list of partitions");
        }
        if beat.names.is_none() && beat.pattern.is_none() {
            return invalid("a joining member must send topic names or a pattern");
        }
    }
    if let Some(assignor) = beat.assignor.as_deref().filter(|name| Assignor::of_name(name).is_none()) {
        let message = format!("unknown assignor {assignor}: use uniform or range");
        return Err((code::UNSUPPORTED_ASSIGNOR, message));
    }
    match beat.pattern.as_deref().filter(|pattern| !pattern.is_empty()).map(compile) {
        Some(Err(error)) => Err((code::INVALID_REGULAR_EXPRESSION, error.to_string())),
        _ => Ok(()),
    }
}

/// Those of the names that a pattern matches.
fn matching(pattern: &str, names: &[String]) -> BTreeSet<String> {
    // A pattern is compiled before it is let in, so this one does compile.
    let Ok(pattern) = compile(pattern) else { return BTreeSet::new() };
    names.iter().filter(|name| pattern.is_match(name)).cloned().collect()
}

/// Patterns stand for whole topic names.
fn compile(pattern: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(&format!("^(?:{pattern})$")).size_limit(MOST_PATTERN_BYTES).build()
}

#[cfg(test)]
mod tests;
