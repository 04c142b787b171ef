//! Scenarios of groups.

use std::time::{Duration, Instant};

use super::*;

type Due = Vec<(Ticket, Reply)>;

const TIMING: Timing = Timing {
    initial_delay: Duration::from_millis(50),
    session: Duration::from_secs(45),
    heartbeat: Duration::from_secs(5),
};
const PLAIN: CommitKind = CommitKind::Plain { knows_epochs: false };

fn ticket(connection: usize) -> Ticket {
    Ticket { reactor: 0, connection }
}

fn ask(member: &str) -> Join {
    Join {
        group: "g".into(),
        member: member.into(),
        instance: None,
        client_id: "c".into(),
        client_host: "/127.0.0.1".into(),
        session_ms: 10_000,
        rebalance_ms: 30_000,
        protocol_type: "consumer".into(),
        protocols: vec![("range".into(), vec![1])],
        id_required: false,
        can_skip_assignment: false,
    }
}

fn who<'a>(member: &'a str, generation: i32) -> Who<'a> {
    Who { group: "g", generation, member, instance: None }
}

struct Story {
    groups: Groups,
    start: Instant,
}

impl Story {
    fn new() -> Self {
        Self { groups: Groups::new(TIMING, 7), start: Instant::now() }
    }

    fn at(&self, ms: u64) -> Now {
        Now { at: self.start + Duration::from_millis(ms), unix_ms: ms as i64 }
    }

    fn tick(&mut self, ms: u64) -> Due {
        let mut effects = Effects::default();
        let now = self.at(ms);
        self.groups.tick(now, &mut effects);
        effects.replies
    }

    fn join(&mut self, ms: u64, connection: usize, join: Join) -> (Option<JoinAnswer>, Due) {
        let mut effects = Effects::default();
        let now = self.at(ms);
        (self.groups.join(now, ticket(connection), join, &mut effects), effects.replies)
    }

    fn sync(
        &mut self,
        ms: u64,
        connection: usize,
        who: &Who<'_>,
        plan: Vec<(String, Vec<u8>)>,
    ) -> (Option<SyncAnswer>, Due) {
        let mut effects = Effects::default();
        let now = self.at(ms);
        let protocol = (Some("consumer"), Some("range"));
        (self.groups.sync(now, ticket(connection), who, protocol, plan, &mut effects), effects.replies)
    }

    fn leave(&mut self, ms: u64, leaving: &[(&str, Option<&str>)]) -> (Result<Vec<i16>, i16>, Due) {
        let mut effects = Effects::default();
        let now = self.at(ms);
        (self.groups.leave(now, "g", leaving, &mut effects), effects.replies)
    }

    fn heartbeat(&mut self, ms: u64, who: &Who<'_>) -> i16 {
        let now = self.at(ms);
        self.groups.heartbeat(now, who)
    }

    /// As a broker that is started now finds the groups.
    fn restart(&mut self, ms: u64) {
        let records = self.groups.all_records();
        self.groups = Groups::new(TIMING, 8);
        let now = self.at(ms);
        for record in records {
            assert_eq!(record[0], RECORD);
            assert!(self.groups.replay(now, &record[1..]));
        }
    }

    /// Two members, synced; returns their ids, the leader first.
    fn stable_pair(&mut self) -> (String, String) {
        self.join(0, 1, ask(""));
        self.join(10, 2, ask(""));
        let due = self.tick(50);
        assert_eq!(due.len(), 2);
        let ids: Vec<String> = due.iter().map(|(_, answer)| joined(answer).member.clone()).collect();
        let leader = joined(&due[0].1).leader.clone();
        let other = ids.into_iter().find(|id| *id != leader).unwrap();
        assert_eq!(self.sync(60, 2, &who(&other, 1), vec![]), (None, vec![]));
        let plan = vec![(leader.clone(), vec![10]), (other.clone(), vec![20])];
        let (parked, due) = self.sync(61, 1, &who(&leader, 1), plan);
        assert_eq!(parked, None);
        let assigned: Vec<_> = due.iter().map(|(_, answer)| synced(answer).assignment.clone()).collect();
        assert!(assigned.contains(&vec![10]) && assigned.contains(&vec![20]));
        (leader, other)
    }
}

fn joined(answer: &Reply) -> &JoinAnswer {
    match answer {
        Reply::Join(join) => join,
        other => panic!("wanted a join answer, found {other:?}"),
    }
}

fn synced(answer: &Reply) -> &SyncAnswer {
    match answer {
        Reply::Sync(sync) => sync,
        other => panic!("wanted a sync answer, found {other:?}"),
    }
}

#[test]
fn two_members_get_their_assignments() {
    let mut story = Story::new();
    let (leader, other) = story.stable_pair();
    let now = story.at(70);
    assert_eq!(story.groups.heartbeat(now, &who(&leader, 1)), code::NONE);
    assert_eq!(story.groups.heartbeat(now, &who(&other, 0)), code::ILLEGAL_GENERATION);
    assert_eq!(story.groups.heartbeat(now, &who("stranger", 1)), code::UNKNOWN_MEMBER_ID);
}

#[test]
fn only_the_leader_learns_the_members() {
    let mut story = Story::new();
    story.join(0, 1, ask(""));
    story.join(10, 2, ask(""));
    let due = story.tick(50);
    for (_, answer) in &due {
        let answer = joined(answer);
        let wanted = if answer.member == answer.leader { 2 } else { 0 };
        assert_eq!(answer.members.len(), wanted);
        assert_eq!((answer.generation, answer.protocol.as_deref()), (1, Some("range")));
    }
}

#[test]
fn a_newcomer_makes_everyone_join_again() {
    let mut story = Story::new();
    let (leader, other) = story.stable_pair();
    let (parked, due) = story.join(100, 3, ask(""));
    assert!(parked.is_none() && due.is_empty());
    let now = story.at(110);
    assert_eq!(story.groups.heartbeat(now, &who(&other, 1)), code::REBALANCE_IN_PROGRESS);
    assert_eq!(story.join(120, 1, ask(&leader)).1, vec![]);
    let (_, due) = story.join(130, 2, ask(&other));
    assert_eq!(due.len(), 3, "the last one in closes the rebalance");
    assert!(due.iter().all(|(_, answer)| joined(answer).generation == 2));
}

#[test]
fn a_member_that_falls_silent_is_out_and_the_others_go_on() {
    let mut story = Story::new();
    let (leader, other) = story.stable_pair();
    let now = story.at(9_000);
    assert_eq!(story.groups.heartbeat(now, &who(&leader, 1)), code::NONE);
    story.tick(10_100);
    let now = story.at(10_200);
    assert_eq!(story.groups.heartbeat(now, &who(&other, 1)), code::UNKNOWN_MEMBER_ID);
    assert_eq!(story.groups.heartbeat(now, &who(&leader, 1)), code::REBALANCE_IN_PROGRESS);
    let (_, due) = story.join(10_300, 1, ask(&leader));
    assert_eq!(joined(&due[0].1).generation, 2);
}

#[test]
fn a_leader_that_never_syncs_does_not_hold_the_others() {
    let mut story = Story::new();
    story.join(0, 1, ask(""));
    story.join(10, 2, ask(""));
    let due = story.tick(50);
    let leader = joined(&due[0].1).leader.clone();
    let other = due.iter().map(|(_, answer)| joined(answer).member.clone()).find(|id| *id != leader).unwrap();
    assert_eq!(story.sync(60, 2, &who(&other, 1), vec![]).0, None);
    let due = story.tick(10_100);
    assert_eq!(due.len(), 1);
    assert_eq!(synced(&due[0].1).error, code::REBALANCE_IN_PROGRESS);
}

#[test]
fn a_stranger_of_a_newer_version_comes_back_with_its_id() {
    let mut story = Story::new();
    let (answer, _) = story.join(0, 1, Join { id_required: true, ..ask("") });
    let answer = answer.unwrap();
    assert_eq!(answer.error, code::MEMBER_ID_REQUIRED);
    let (parked, _) = story.join(5, 1, Join { id_required: true, ..ask(&answer.member) });
    assert!(parked.is_none());
    assert_eq!(story.tick(60).len(), 1);
    let (unknown, _) = story.join(70, 2, Join { id_required: true, ..ask("made-up") });
    assert_eq!(unknown.unwrap().error, code::UNKNOWN_MEMBER_ID);
}

#[test]
fn the_last_one_to_leave_ends_the_group() {
    let mut story = Story::new();
    let (leader, other) = story.stable_pair();
    assert_eq!(story.leave(100, &[(&other, None)]).0, Ok(vec![code::NONE]));
    let (left, _) = story.leave(110, &[(&leader, None), (&leader, None), ("stranger", None)]);
    assert_eq!(left, Ok(vec![code::NONE, code::UNKNOWN_MEMBER_ID, code::UNKNOWN_MEMBER_ID]));
    story.tick(200);
    assert!(story.groups.is_idle());
    assert_eq!(story.groups.list()[0].state, "Empty");
}

/// A stable pair of static members `one` (leads) and `two`; returns their ids.
fn static_pair(story: &mut Story) -> (String, String) {
    story.join(0, 1, named("", "one"));
    story.join(10, 2, named("", "two"));
    let due = story.tick(50);
    let leader = joined(&due[0].1).leader.clone();
    let other = due.iter().map(|(_, answer)| joined(answer).member.clone()).find(|id| *id != leader).unwrap();
    let plan = vec![(leader.clone(), vec![10]), (other.clone(), vec![20])];
    story.sync(60, 2, &who(&other, 1), vec![]);
    assert_eq!(story.sync(60, 1, &who(&leader, 1), plan).1.len(), 2);
    (leader, other)
}

fn named(member: &str, instance: &str) -> Join {
    Join { instance: Some(instance.into()), ..ask(member) }
}

#[test]
fn a_static_member_that_restarts_keeps_its_assignment_and_fences_its_old_self() {
    let mut story = Story::new();
    let (leader, other) = static_pair(&mut story);
    let (parked, due) = story.join(100, 3, named("", "two"));
    assert!(parked.is_none(), "the answer waits for the journal");
    let answer = joined(&due[0].1).clone();
    assert_eq!((due.len(), answer.error, answer.generation), (1, code::NONE, 1), "no rebalance");
    assert_ne!(answer.member, other);
    let again = Who { instance: Some("two"), ..who(&answer.member, 1) };
    assert_eq!(story.sync(110, 3, &again, vec![]).0.unwrap().assignment, [20]);
    let stale = Who { instance: Some("two"), ..who(&other, 1) };
    assert_eq!(story.heartbeat(120, &stale), code::FENCED_INSTANCE_ID);
    assert_eq!(story.join(130, 2, named(&other, "two")).0.unwrap().error, code::FENCED_INSTANCE_ID);
    assert_eq!(story.heartbeat(140, &who(&leader, 1)), code::NONE);
}

#[test]
fn a_static_leader_that_restarts_is_not_made_to_assign_again() {
    for can_skip in [false, true] {
        let mut story = Story::new();
        let (leader, _) = static_pair(&mut story);
        let (_, due) = story.join(100, 3, Join { can_skip_assignment: can_skip, ..named("", "one") });
        let answer = joined(&due[0].1);
        assert_eq!(answer.skip_assignment, can_skip);
        assert_eq!(answer.members.len(), if can_skip { 2 } else { 0 });
        assert_eq!(answer.leader == answer.member, can_skip, "an older client does not learn that it leads");
        assert_eq!(answer.leader == leader, !can_skip);
    }
}

#[test]
fn a_static_member_with_another_protocol_makes_all_join_again() {
    let mut story = Story::new();
    let both = vec![("range".to_owned(), vec![1]), ("sticky".to_owned(), vec![1])];
    let both = |member: &str, instance: &str| Join { protocols: both.clone(), ..named(member, instance) };
    story.join(0, 1, both("", "one"));
    story.join(1, 2, both("", "two"));
    let due = story.tick(50);
    let leader = joined(&due[0].1).leader.clone();
    // The most votes of equals are for the last by name.
    let answer = |join: &JoinAnswer| join.protocol.clone().unwrap();
    let chosen = answer(joined(&due[0].1));
    let mut effects = Effects::default();
    let now = story.at(60);
    story.groups.sync(now, ticket(1), &who(&leader, 1), (None, None), vec![], &mut effects);
    let other = if chosen == "range" { "sticky" } else { "range" };
    let only = Join { protocols: vec![(other.to_owned(), vec![1])], ..named("", "two") };
    let (parked, due) = story.join(70, 3, only);
    assert!(parked.is_none() && due.is_empty(), "it waits for the others");
    assert_eq!(story.groups.list()[0].state, "PreparingRebalance");
}

#[test]
fn a_static_member_is_away_for_its_whole_session_through_a_rebalance() {
    let mut story = Story::new();
    let (leader, other) = static_pair(&mut story);
    let limit = Join { rebalance_ms: 1_000, ..named(&leader, "one") };
    let (parked, _) = story.join(9_000, 1, limit);
    assert!(parked.is_none(), "the leader asks for a new assignment");
    assert!(story.tick(9_500).is_empty());
    // The other one's rebalance timeout of 30 s counts, its session of 10 s ends before.
    let due = story.tick(10_100);
    let answer = joined(&due[0].1);
    assert_eq!((answer.generation, answer.members.len()), (2, 1));
    assert_eq!(story.heartbeat(10_200, &who(&other, 2)), code::UNKNOWN_MEMBER_ID);
}

#[test]
fn static_members_leave_by_their_instance() {
    let mut story = Story::new();
    let (leader, other) = static_pair(&mut story);
    let (left, _) =
        story.leave(100, &[("", Some("three")), (&leader, Some("two")), ("", Some("two")), (&other, None)]);
    let unknown = code::UNKNOWN_MEMBER_ID;
    assert_eq!(left, Ok(vec![unknown, code::FENCED_INSTANCE_ID, code::NONE, unknown]));
    let now = story.at(110);
    assert_eq!(story.groups.leave(now, "h", &[("x", None)], &mut Effects::default()), Err(unknown));
}

#[test]
fn a_member_that_never_asks_for_its_assignment_is_out_although_it_beats() {
    let mut story = Story::new();
    story.join(0, 1, ask(""));
    story.join(10, 2, ask(""));
    let due = story.tick(50);
    let leader = joined(&due[0].1).leader.clone();
    let other = due.iter().map(|(_, answer)| joined(answer).member.clone()).find(|id| *id != leader).unwrap();
    story.sync(60, 1, &who(&leader, 1), vec![]);
    for ms in (5_000..30_000).step_by(5_000) {
        assert_eq!(story.heartbeat(ms, &who(&leader, 1)), code::NONE);
        assert_eq!(story.heartbeat(ms, &who(&other, 1)), code::NONE);
        story.tick(ms);
    }
    story.tick(30_100);
    assert_eq!(story.heartbeat(30_200, &who(&other, 1)), code::UNKNOWN_MEMBER_ID);
    assert_eq!(story.heartbeat(30_200, &who(&leader, 1)), code::REBALANCE_IN_PROGRESS);
}

#[test]
fn a_group_survives_a_restart_and_its_members_have_a_session_to_come_back() {
    let mut story = Story::new();
    let (leader, other) = story.stable_pair();
    story.restart(60_000);
    assert_eq!(story.groups.list()[0].state, "Stable");
    assert_eq!(story.heartbeat(65_000, &who(&leader, 1)), code::NONE);
    assert_eq!(story.sync(65_000, 1, &who(&leader, 1), vec![]).0.unwrap().assignment, [10]);
    story.tick(70_100);
    assert_eq!(story.heartbeat(70_200, &who(&other, 1)), code::UNKNOWN_MEMBER_ID);
    assert_eq!(story.heartbeat(70_200, &who(&leader, 1)), code::REBALANCE_IN_PROGRESS);
    story.restart(70_300);
    assert_eq!(story.heartbeat(70_400, &who(&leader, 1)), code::NONE, "the last settled state counts");
}

#[test]
fn member_ids_are_not_given_again_after_a_restart() {
    let mut story = Story::new();
    let id = |story: &mut Story| story.join(0, 1, Join { id_required: true, ..ask("") }).0.unwrap().member;
    let (first, second) = (id(&mut story), id(&mut story));
    story.restart(10);
    let third = id(&mut story);
    assert!(first != second && second != third && first != third);
}

#[test]
fn the_wrong_protocol_is_refused_at_the_sync() {
    let mut story = Story::new();
    let (leader, _) = story.stable_pair();
    let now = story.at(100);
    for protocol in [(Some("connect"), Some("range")), (Some("consumer"), Some("sticky"))] {
        let mut effects = Effects::default();
        let answer = story.groups.sync(now, ticket(1), &who(&leader, 1), protocol, vec![], &mut effects);
        assert_eq!(answer.unwrap().error, code::INCONSISTENT_GROUP_PROTOCOL);
    }
}

#[test]
fn groups_are_deleted_and_their_offsets_guarded_by_their_members() {
    let mut story = Story::new();
    // A subscription to the topic `t`.
    let subscribed = vec![("range".to_owned(), [&[0, 1, 0, 0, 0, 1, 0, 1][..], b"t", &[0; 4]].concat())];
    story.join(0, 1, Join { protocols: subscribed, ..ask("") });
    let member = joined(&story.tick(50)[0].1).member.clone();
    let asked = BTreeSet::from(["t", "u"]);
    assert_eq!(story.groups.guarded("g", &asked), Ok(BTreeSet::from(["t"])));
    assert_eq!(story.groups.delete("g", &mut Effects::default()), code::NON_EMPTY_GROUP);
    assert_eq!(story.groups.empty_since_ms("g"), None);
    assert!(story.leave(100, &[(&member, None)]).0.is_ok());
    assert_eq!(story.groups.empty_since_ms("g"), Some(100));
    assert_eq!(story.groups.guarded("g", &asked), Ok(BTreeSet::new()));
    assert_eq!(story.groups.delete("g", &mut Effects::default()), code::NONE);
    assert_eq!(story.groups.delete("g", &mut Effects::default()), code::GROUP_ID_NOT_FOUND);
}

#[test]
fn members_of_the_other_protocol_are_refused_until_the_group_is_empty() {
    let mut story = Story::new();
    let catalogue = std::collections::BTreeMap::from([("t".to_owned(), (1, 2))]);
    let beat = Beat {
        group: "g".into(),
        member: "m".into(),
        rebalance_ms: 1000,
        names: Some(vec!["t".into()]),
        owned: Some(BTreeSet::new()),
        ..Beat::default()
    };
    let (leader, other) = story.stable_pair();
    let now = story.at(100);
    let mut effects = Effects::default();
    let mut beat_now = |story: &mut Story, beat: &Beat| {
        let answer = story.groups.consumer_heartbeat(now, ticket(9), beat, &catalogue, &mut effects);
        answer.map(|answer| answer.error)
    };
    assert_eq!(beat_now(&mut story, &beat), Some(code::GROUP_ID_NOT_FOUND));
    assert!(story.leave(110, &[(&leader, None), (&other, None)]).0.is_ok());
    assert_eq!(beat_now(&mut story, &beat), None, "an empty group changes its kind");
    assert_eq!(story.groups.list()[0].kind, "consumer");
    for member in ["", "x"] {
        assert_eq!(story.join(120, 1, ask(member)).0.unwrap().error, code::INCONSISTENT_GROUP_PROTOCOL);
    }
    assert_eq!(story.heartbeat(120, &who("m", 1)), code::UNKNOWN_MEMBER_ID);
    let plain = |epochs| CommitKind::Plain { knows_epochs: epochs };
    let now = story.at(130);
    assert_eq!(story.groups.commit(now, &who("m", 1), plain(true)), code::NONE);
    assert_eq!(story.groups.commit(now, &who("m", 0), plain(true)), code::STALE_MEMBER_EPOCH);
    assert_eq!(story.groups.commit(now, &who("m", 1), plain(false)), code::UNSUPPORTED_VERSION);
    assert_eq!(story.groups.commit(now, &who("x", 1), plain(true)), code::UNKNOWN_MEMBER_ID);
    assert_eq!(story.groups.commit(now, &who("m", 7), CommitKind::Transactional), code::ILLEGAL_GENERATION);
    assert_eq!(story.groups.fetch_offsets("g", Some("m"), 1), code::NONE);
    assert_eq!(story.groups.fetch_offsets("g", Some("m"), 2), code::STALE_MEMBER_EPOCH);
    assert_eq!(story.groups.fetch_offsets("g", None, -1), code::NONE);
    let goes = Beat { epoch: -1, ..beat.clone() };
    assert_eq!(beat_now(&mut story, &goes), None);
    assert!(story.join(140, 1, ask("")).0.is_none(), "and back again");
    assert_eq!(story.groups.list()[0].kind, "classic");
}

#[test]
fn requests_that_make_no_sense_are_refused() {
    let mut story = Story::new();
    let refused = |story: &mut Story, join| story.join(0, 1, join).0.unwrap().error;
    assert_eq!(refused(&mut story, Join { group: String::new(), ..ask("") }), code::INVALID_GROUP_ID);
    assert_eq!(refused(&mut story, Join { session_ms: 0, ..ask("") }), code::INVALID_SESSION_TIMEOUT);
    assert_eq!(refused(&mut story, Join { protocols: vec![], ..ask("") }), code::INCONSISTENT_GROUP_PROTOCOL);
    story.join(0, 1, ask(""));
    let other = Join { protocols: vec![("sticky".into(), vec![])], ..ask("") };
    assert_eq!(refused(&mut story, other), code::INCONSISTENT_GROUP_PROTOCOL);
}

#[test]
fn commits_are_checked_against_the_generation() {
    let mut story = Story::new();
    let now = story.at(0);
    assert_eq!(story.groups.commit(now, &who("", -1), PLAIN), code::NONE, "a consumer without a group");
    assert_eq!(story.groups.commit(now, &who("x", 3), PLAIN), code::ILLEGAL_GENERATION);
    let (leader, _) = story.stable_pair();
    let now = story.at(100);
    assert_eq!(story.groups.commit(now, &who(&leader, 1), PLAIN), code::NONE);
    assert_eq!(story.groups.commit(now, &who(&leader, 2), PLAIN), code::ILLEGAL_GENERATION);
    assert_eq!(story.groups.commit(now, &who("", -1), PLAIN), code::UNKNOWN_MEMBER_ID);
}

fn speaks(member: &str, generation: i32) -> Who<'_> {
    who(member, generation)
}

/// A classic consumer that does what is its turn.
#[derive(Debug, Default)]
struct Actor {
    member: String,
    joined: Option<JoinAnswer>,
    assignment: Option<Vec<u8>>,
    parked: Option<usize>,
}

struct Walk {
    story: Story,
    actors: Vec<Actor>,
    ms: u64,
    tickets: usize,
}

impl Walk {
    fn deliver(&mut self, due: Due) {
        for (ticket, reply) in due {
            let actor = self.actors.iter_mut().find(|actor| actor.parked == Some(ticket.connection));
            // No other request waits: an answer to a ticket that is not parked is a second answer.
            let Some(actor) = actor else { panic!("{ticket:?} is answered twice") };
            actor.parked = None;
            match reply {
                Reply::Join(join) => actor.hear_join(join),
                Reply::Sync(sync) => actor.hear_sync(sync),
                other => panic!("{other:?}"),
            }
        }
    }

    fn act(&mut self, who: usize) {
        let actor = &self.actors[who];
        if actor.parked.is_some() {
            return;
        }
        self.tickets += 1;
        let ticket = self.tickets;
        let member = actor.member.clone();
        match (&actor.joined, &actor.assignment) {
            (None, _) => {
                self.actors[who].parked = Some(ticket);
                let (answer, due) =
                    self.story.join(self.ms, ticket, Join { id_required: true, ..ask(&member) });
                if let Some(join) = answer {
                    self.actors[who].parked = None;
                    self.actors[who].hear_join(join);
                }
                self.deliver(due);
            }
            (Some(joined), None) => {
                let plan =
                    joined.members.iter().zip(0..).map(|((id, _, _), at)| (id.clone(), vec![at])).collect();
                let generation = joined.generation;
                self.actors[who].parked = Some(ticket);
                let (answer, due) = self.story.sync(self.ms, ticket, &speaks(&member, generation), plan);
                if let Some(sync) = answer {
                    self.actors[who].parked = None;
                    self.actors[who].hear_sync(sync);
                }
                self.deliver(due);
            }
            (Some(joined), Some(_)) => {
                let generation = joined.generation;
                let error = self.story.heartbeat(self.ms, &speaks(&member, generation));
                self.actors[who].hear_error(error);
            }
        }
    }

    fn leave(&mut self, who: usize) {
        let member = std::mem::take(&mut self.actors[who].member);
        if self.actors[who].parked.is_none() {
            let (_, due) = self.story.leave(self.ms, &[(&member, None)]);
            self.actors[who] = Actor::default();
            self.deliver(due);
        } else {
            self.actors[who].member = member;
        }
    }

    fn wait(&mut self, ms: u64) {
        self.ms += ms;
        let due = self.story.tick(self.ms);
        self.deliver(due);
    }

    /// No two members of the current generation have the same assignment.
    fn check(&self) {
        let Some(Group::Classic(group)) = self.story.groups.groups.get("g") else { return };
        let mut seen = BTreeSet::new();
        for actor in &self.actors {
            let current = actor.joined.as_ref().is_some_and(|joined| joined.generation == group.generation);
            if current && group.members.contains_key(&actor.member) {
                for assigned in actor.assignment.iter().filter(|assigned| !assigned.is_empty()) {
                    assert!(seen.insert(assigned.clone()), "{assigned:?} is assigned twice");
                }
            }
        }
    }
}

impl Actor {
    fn hear_join(&mut self, join: JoinAnswer) {
        match join.error {
            code::NONE => {
                self.member.clone_from(&join.member);
                (self.joined, self.assignment) = (Some(join), None);
            }
            code::MEMBER_ID_REQUIRED => self.member = join.member,
            error => self.hear_error(error),
        }
    }

    fn hear_sync(&mut self, sync: SyncAnswer) {
        match sync.error {
            code::NONE => self.assignment = Some(sync.assignment),
            error => self.hear_error(error),
        }
    }

    fn hear_error(&mut self, error: i16) {
        match error {
            code::NONE => (),
            code::REBALANCE_IN_PROGRESS | code::ILLEGAL_GENERATION => {
                (self.joined, self.assignment) = (None, None)
            }
            code::UNKNOWN_MEMBER_ID => *self = Self::default(),
            other => panic!("a correct member gets {other}"),
        }
    }
}

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..proptest::test_runner::Config::default() })]

    #[test]
    fn every_request_is_answered_once_and_in_the_end_each_member_has_its_own_part(
        steps in proptest::collection::vec((0..12_usize, 0..4_usize, 1..8_000_u64), 1..120),
    ) {
        let actors = (0..4).map(|_| Actor::default()).collect();
        let mut walk = Walk { story: Story::new(), actors, ms: 0, tickets: 0 };
        for (step, who, ms) in steps {
            match step {
                0 => walk.leave(who),
                1 => walk.wait(ms),
                _ => walk.act(who),
            }
            walk.check();
        }
        // Ids that were asked for and never used hold a rebalance up until they expire.
        for _ in 0..200 {
            for who in 0..4 {
                walk.act(who);
            }
            walk.wait(400);
            walk.check();
        }
        let mut parts: Vec<_> = walk.actors.iter().map(|actor| actor.assignment.clone()).collect();
        parts.sort();
        proptest::prop_assert_eq!(parts, (0..4).map(|at| Some(vec![at])).collect::<Vec<_>>());
        proptest::prop_assert_eq!(walk.story.groups.list()[0].state, "Stable");
    }
}

#[test]
fn groups_and_members_are_limited_and_those_that_are_there_go_on() {
    let mut story = Story::new();
    let limits = Limits { groups: 1, group_members: 2, ..Limits::default() };
    story.groups = Groups::new(TIMING, 7).limited(limits);
    let named = Join { id_required: true, ..ask("") };
    let id = story.join(0, 1, named.clone()).0.unwrap().member;
    assert_eq!(story.join(1, 2, ask("")), (None, vec![]));
    let error = |answer: (Option<JoinAnswer>, Due)| answer.0.unwrap().error;
    assert_eq!(error(story.join(2, 3, named)), code::GROUP_MAX_SIZE_REACHED, "an id that was given counts");
    assert_eq!(error(story.join(2, 3, ask(""))), code::GROUP_MAX_SIZE_REACHED);
    assert_eq!(error(story.join(3, 4, Join { group: "h".into(), ..ask("") })), code::POLICY_VIOLATION);
    assert_eq!(story.join(4, 1, ask(&id)), (None, vec![]), "who was given an id comes in");
    assert_eq!(story.tick(60).len(), 2);
}

impl Story {
    /// What is counted is what is there.
    fn check_bytes(&mut self) {
        let counted = self.groups.held_bytes;
        let ids: Vec<String> = self.groups.groups.keys().cloned().collect();
        ids.iter().for_each(|id| self.groups.weigh(id));
        assert_eq!(self.groups.held_bytes, counted);
    }
}

fn limited_to(group_bytes: usize) -> Story {
    let limits = Limits { group_bytes, ..Limits::default() };
    Story { groups: Groups::new(TIMING, 7).limited(limits), ..Story::new() }
}

#[test]
fn metadata_of_all_groups_is_bounded_and_who_adds_nothing_goes_on() {
    let mut story = limited_to(20_000);
    let with = |group: &str, member: &str, bytes: usize| Join {
        group: group.into(),
        protocols: vec![("range".into(), vec![1; bytes])],
        ..ask(member)
    };
    assert_eq!(story.join(0, 1, with("g", "", 10_000)), (None, vec![]));
    let due = story.tick(50);
    let id = joined(&due[0].1).member.clone();
    let error = |answer: (Option<JoinAnswer>, Due)| answer.0.unwrap().error;
    assert_eq!(error(story.join(60, 2, with("h", "", 10_000))), code::POLICY_VIOLATION);
    assert!(!story.groups.contains("h"), "nothing is kept of what was refused");
    assert_eq!(error(story.join(60, 2, with("g", "", 10_000))), code::POLICY_VIOLATION);
    assert_eq!(error(story.join(60, 2, with("g", "stranger", 10_000))), code::UNKNOWN_MEMBER_ID);
    story.check_bytes();
    // The same again replaces itself, more does not fit, less leaves room for others.
    assert_eq!(error(story.join(70, 1, with("g", &id, 10_000))), code::NONE);
    assert_eq!(error(story.join(70, 1, with("g", &id, 20_000))), code::POLICY_VIOLATION);
    assert_eq!(story.heartbeat(70, &who(&id, 1)), code::NONE);
    let (_, due) = story.join(80, 1, with("g", &id, 100));
    assert_eq!(joined(&due[0].1).error, code::NONE);
    assert_eq!(story.join(90, 2, with("h", "", 10_000)), (None, vec![]));
    story.check_bytes();
    // What leaves makes room, by itself or by silence, and a group that is deleted all of it.
    story.leave(95, &[(&id, None)]).0.unwrap();
    story.tick(200);
    story.tick(60_000);
    story.tick(120_000);
    story.check_bytes();
    for group in ["g", "h"] {
        assert_eq!(story.groups.delete(group, &mut Effects::default()), code::NONE);
    }
    assert_eq!(story.groups.held_bytes, 0);
}

#[test]
fn what_is_replayed_counts_even_beyond_the_limit() {
    let mut story = limited_to(1 << 20);
    story.join(0, 1, Join { protocols: vec![("range".into(), vec![1; 5_000])], ..ask("") });
    story.tick(50);
    let (record, held) = (story.groups.all_records().remove(0), story.groups.held_bytes);
    let mut again = limited_to(1_000);
    let now = again.at(0);
    for _ in 0..2 {
        assert!(again.groups.replay(now, &record[1..]));
        assert_eq!(again.groups.held_bytes, held);
    }
    assert_eq!(again.join(1, 2, ask("")).0.unwrap().error, code::POLICY_VIOLATION);
}

#[test]
fn the_metadata_and_the_assignment_of_one_member_are_bounded() {
    let mut story = Story::new();
    let many = Join { protocols: vec![("range".into(), vec![0; 1 << 20])], ..ask("") };
    assert_eq!(story.join(0, 1, many).0.unwrap().error, code::POLICY_VIOLATION);
    story.join(0, 1, ask(""));
    let due = story.tick(50);
    let id = joined(&due[0].1).member.clone();
    let plan = |bytes| vec![(id.clone(), vec![7; bytes])];
    let refused = story.sync(60, 1, &who(&id, 1), plan((1 << 20) + 1)).0.unwrap();
    assert_eq!(refused.error, code::POLICY_VIOLATION);
    assert_eq!(story.sync(60, 1, &who(&id, 1), plan(1 << 20)).1.len(), 1, "the leader may try again");
    story.check_bytes();
}

#[test]
fn assignments_count_with_all_groups() {
    let mut story = limited_to(20_000);
    story.join(0, 1, ask(""));
    let due = story.tick(50);
    let id = joined(&due[0].1).member.clone();
    let plan = |bytes| vec![(id.clone(), vec![7; bytes]), ("nobody".to_owned(), vec![7; 100_000])];
    let refused = story.sync(60, 1, &who(&id, 1), plan(20_000)).0.unwrap();
    assert_eq!(refused.error, code::POLICY_VIOLATION);
    assert_eq!(story.sync(60, 1, &who(&id, 1), plan(10_000)).1.len(), 1);
    story.check_bytes();
    assert!(story.groups.held_bytes > 10_000);
}

#[test]
fn names_and_patterns_of_consumers_count() {
    let mut story = limited_to(20_000);
    let topics = BTreeMap::from([("t".to_owned(), (1, 3))]);
    let join = |group: &str, member: &str, names: usize| Beat {
        group: group.into(),
        member: member.into(),
        rebalance_ms: 30_000,
        names: Some((0..names).map(|name| format!("{name:036}")).collect()),
        owned: Some(BTreeSet::new()),
        names_itself: true,
        ..Beat::default()
    };
    let beat = |story: &mut Story, beat: &Beat| {
        let (now, mut effects) = (story.at(0), Effects::default());
        let beaten = story.groups.consumer_heartbeat(now, ticket(1), beat, &topics, &mut effects);
        story.check_bytes();
        match (beaten, effects.replies.pop()) {
            (Some(answer), _) | (None, Some((_, Reply::Beat(answer)))) => (answer.error, answer.message),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(beat(&mut story, &join("g", "one", 100)).0, code::NONE);
    let (error, message) = beat(&mut story, &join("h", "two", 100));
    assert_eq!(error, code::POLICY_VIOLATION);
    assert!(message.unwrap().contains("of at most 20000"));
    assert!(!story.groups.contains("h"));
    assert_eq!(beat(&mut story, &join("g", "one", 100)).0, code::NONE, "it adds nothing");
    let more = Beat { epoch: 1, owned: None, rebalance_ms: -1, ..join("g", "one", 200) };
    assert_eq!(beat(&mut story, &more).0, code::POLICY_VIOLATION);
    let long = Beat { names: None, client_id: "x".repeat(20_000), ..more.clone() };
    assert_eq!(beat(&mut story, &long).0, code::POLICY_VIOLATION);
    assert_eq!(beat(&mut story, &Beat { names: None, ..more.clone() }).0, code::NONE);
    let pattern = Beat { pattern: Some("x".repeat(10_000)), ..join("h", "two", 0) };
    assert_eq!(beat(&mut story, &pattern).0, code::POLICY_VIOLATION);
    assert_eq!(beat(&mut story, &Beat { names: Some(vec![]), ..more }).0, code::NONE);
    assert_eq!(beat(&mut story, &pattern).0, code::NONE);
    // One member by itself, however much room there is.
    let mut story = Story::new();
    assert_eq!(beat(&mut story, &join("g", "one", 11_000)).0, code::POLICY_VIOLATION);
}
