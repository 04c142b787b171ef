//! Scenarios of consumer groups, and random walks through them.

use proptest::prelude::*;

use super::*;

const SESSION: Duration = Duration::from_secs(45);

impl Catalogue for BTreeMap<String, (u128, i32)> {
    fn topic(&self, name: &str) -> Option<(u128, i32)> {
        self.get(name).copied()
    }

    fn names(&self) -> Vec<String> {
        self.keys().cloned().collect()
    }

    fn viewer(&self) -> String {
        String::new()
    }
}

struct Story {
    group: Consumer,
    topics: BTreeMap<String, (u128, i32)>,
    start: Instant,
    ms: u64,
}

/// A member on the client's side: its partitions, and its target.
#[derive(Debug, Clone, Default)]
struct Client {
    id: String,
    instance: Option<String>,
    names: Vec<String>,
    epoch: i32,
    owned: Partitions,
    told: Partitions,
    /// An answer was lost, so it sends its full state, and gets a full answer.
    lost: bool,
}

fn client(id: &str, names: &[&str]) -> Client {
    Client {
        id: id.into(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        ..Client::default()
    }
}

impl Client {
    fn join(&self) -> Beat {
        Beat {
            member: self.id.clone(),
            instance: self.instance.clone(),
            rebalance_ms: 30_000,
            names: Some(self.names.clone()),
            owned: Some(Partitions::new()),
            names_itself: true,
            ..Beat::default()
        }
    }

    fn beat(&self) -> Beat {
        Beat {
            member: self.id.clone(),
            epoch: self.epoch,
            rebalance_ms: if self.lost { 30_000 } else { -1 },
            names: self.lost.then(|| self.names.clone()),
            instance: self.instance.clone(),
            owned: Some(self.owned.clone()),
            names_itself: true,
            ..Beat::default()
        }
    }

    fn hear(&mut self, (_, epoch, assignment): (String, i32, Option<Partitions>)) {
        self.epoch = epoch;
        self.lost = false;
        if let Some(assignment) = assignment {
            self.told = assignment;
        }
    }

    /// Releases and takes partitions to reach its target.
    fn obey(&mut self) {
        self.owned = self.told.clone();
    }
}

impl Story {
    fn new(topics: &[(&str, i32)]) -> Self {
        let topics = topics
            .iter()
            .enumerate()
            .map(|(at, (name, count))| ((*name).to_owned(), (at as u128 + 1, *count)));
        let now = Now { at: Instant::now(), unix_ms: 0 };
        Self { group: Consumer::empty("g", now), topics: topics.collect(), start: now.at, ms: 0 }
    }

    fn now(&self) -> Now {
        Now { at: self.start + Duration::from_millis(self.ms), unix_ms: self.ms as i64 }
    }

    fn send(&mut self, beat: &Beat) -> Result<(String, i32, Option<Partitions>), i16> {
        super::check(beat).map_err(|(error, _)| error)?;
        let (now, mut effects) = (self.now(), Effects::default());
        let beaten = self.group.heartbeat(now, SESSION, beat, "given".into(), &self.topics, &mut effects);
        self.check();
        beaten.map_err(|(error, _)| error)
    }

    fn join(&mut self, client: &mut Client) {
        client.owned.clear();
        let heard = self.send(&client.join()).unwrap();
        client.hear(heard);
    }

    fn beat(&mut self, client: &mut Client) -> Result<(), i16> {
        let heard = self.send(&client.beat())?;
        client.hear(heard);
        Ok(())
    }

    /// Beats round until nothing moves any more.
    fn settle(&mut self, clients: &mut [Client]) {
        for _ in 0..10 {
            for client in clients.iter_mut() {
                client.obey();
                self.beat(client).unwrap();
            }
        }
        clients.iter_mut().for_each(Client::obey);
        assert_eq!(self.group.state_name(), "Stable");
        let all: Partitions = clients.iter().flat_map(|client| client.owned.clone()).collect();
        assert_eq!(all.len(), clients.iter().map(|client| client.owned.len()).sum::<usize>());
        let wanted: usize = self.group.topics.values().map(|(_, count)| *count as usize).sum();
        assert_eq!(all.len(), wanted, "everything is assigned");
    }

    fn tick(&mut self, ms: u64) {
        self.ms += ms;
        let now = self.now();
        self.group.tick(now, &mut Effects::default());
        self.check();
    }

    /// What must hold at any time.
    fn check(&self) {
        let mut seen = Partitions::new();
        for member in self.group.members.values() {
            for partition in member.assigned.iter().chain(&member.revoking) {
                assert!(seen.insert(*partition), "{partition:?} is held twice");
            }
        }
        assert_eq!(seen, self.group.holders.keys().copied().collect());
    }
}

#[test]
fn a_newcomer_waits_until_partitions_are_given_up() {
    let mut story = Story::new(&[("t", 4)]);
    let (mut one, mut two) = (client("one", &["t"]), client("two", &["t"]));
    story.join(&mut one);
    assert_eq!((one.epoch, one.told.len()), (1, 4));
    one.obey();
    story.join(&mut two);
    assert_eq!((two.epoch, two.told.len()), (2, 0), "nothing is free yet");
    assert_eq!(story.group.state_name(), "Reconciling");
    story.beat(&mut one).unwrap();
    assert_eq!((one.epoch, one.told.len()), (1, 2), "it must give up two, and stays where it is");
    story.beat(&mut two).unwrap();
    assert!(two.told.is_empty());
    story.beat(&mut one).unwrap();
    assert_eq!(one.epoch, 1, "it still has them");
    one.obey();
    story.beat(&mut one).unwrap();
    assert_eq!(one.epoch, 2);
    story.beat(&mut two).unwrap();
    assert_eq!(two.told.len(), 2);
    story.settle(&mut [one, two]);
}

#[test]
fn who_does_not_give_up_in_time_is_out() {
    let mut story = Story::new(&[("t", 4)]);
    let (mut one, mut two) = (client("one", &["t"]), client("two", &["t"]));
    story.join(&mut one);
    one.obey();
    story.join(&mut two);
    for _ in 0..4 {
        story.tick(10_000);
        let _ = story.beat(&mut one);
        story.beat(&mut two).unwrap();
    }
    assert_eq!(story.beat(&mut one), Err(code::UNKNOWN_MEMBER_ID));
    story.beat(&mut two).unwrap();
    assert_eq!(two.told.len(), 4);
}

#[test]
fn silence_ends_a_membership() {
    let mut story = Story::new(&[("t", 4)]);
    let (mut one, mut two) = (client("one", &["t"]), client("two", &["t"]));
    story.join(&mut one);
    story.join(&mut two);
    let mut both = [one, two];
    story.settle(&mut both);
    story.tick(44_000);
    story.beat(&mut both[1]).unwrap();
    story.tick(2_000);
    story.beat(&mut both[1]).unwrap();
    assert_eq!(both[1].told.len(), 4);
    assert_eq!(story.beat(&mut both[0]), Err(code::UNKNOWN_MEMBER_ID));
}

#[test]
fn a_wrong_epoch_is_fenced_and_a_lost_answer_is_not() {
    let mut story = Story::new(&[("t", 4)]);
    let (mut one, mut two) = (client("one", &["t"]), client("two", &["t"]));
    story.join(&mut one);
    one.obey();
    story.join(&mut two);
    let ahead = Beat { epoch: 9, ..one.beat() };
    assert_eq!(story.send(&ahead), Err(code::FENCED_MEMBER_EPOCH));
    story.beat(&mut one).unwrap();
    one.obey();
    let before = one.clone();
    story.beat(&mut one).unwrap();
    assert_eq!((before.epoch, one.epoch), (1, 2));
    assert!(story.send(&before.beat()).is_ok(), "it did not get the answer");
    let too_much = Beat { owned: Some([(1, 0), (1, 1), (1, 2), (1, 3)].into()), ..before.beat() };
    assert_eq!(story.send(&too_much), Err(code::FENCED_MEMBER_EPOCH));
    story.beat(&mut one).unwrap();
    story.join(&mut one);
    assert_eq!((one.epoch, one.told.len()), (2, 2), "a member that begins again gets its full assignment");
}

#[test]
fn a_static_member_leaves_for_a_while_and_finds_its_place() {
    let mut story = Story::new(&[("t", 4)]);
    let named = |id: &str| Client { instance: Some("one".into()), ..client(id, &["t"]) };
    let (mut one, mut two) = (named("one-a"), client("two", &["t"]));
    story.join(&mut one);
    story.join(&mut two);
    let mut both = [one, two];
    story.settle(&mut both);
    let epoch = story.group.epoch;
    let mut again = named("one-b");
    assert_eq!(story.send(&again.join()), Err(code::UNRELEASED_INSTANCE_ID));
    let leaves = Beat { epoch: LEAVE_STATIC, ..both[0].beat() };
    assert_eq!(story.send(&leaves), Ok(("one-a".into(), LEAVE_STATIC, None)));
    story.beat(&mut both[1]).unwrap();
    assert_eq!(both[1].told.len(), 2, "no member takes what it left");
    story.join(&mut again);
    assert_eq!((again.told.clone(), story.group.epoch), (both[0].owned.clone(), epoch));
    assert_eq!(story.send(&both[0].beat()), Err(code::FENCED_INSTANCE_ID));
    let stranger = Beat { instance: Some("three".into()), epoch: LEAVE, ..both[0].beat() };
    assert_eq!(story.send(&stranger), Err(code::UNKNOWN_MEMBER_ID));
    story.send(&Beat { epoch: LEAVE, ..again.beat() }).unwrap();
    story.beat(&mut both[1]).unwrap();
    assert_eq!(both[1].told.len(), 4);
}

#[test]
fn new_partitions_and_topics_are_found() {
    let mut story = Story::new(&[("t-1", 2), ("u", 3)]);
    let mut one = client("one", &[]);
    let pattern = |pattern: &str| Beat { pattern: Some(pattern.into()), ..client("one", &[]).join() };
    assert_eq!(story.send(&pattern("t-(")), Err(code::INVALID_REGULAR_EXPRESSION));
    let heard = story.send(&pattern("t-.")).unwrap();
    one.hear(heard);
    assert_eq!(one.told.len(), 2);
    story.topics.insert("t-1".into(), (1, 5));
    story.topics.insert("t-2".into(), (7, 1));
    story.topics.insert("not-t-3".into(), (8, 1));
    story.ms += 1_000;
    one.obey();
    story.beat(&mut one).unwrap();
    assert_eq!(one.told.len(), 6, "whole names match, parts do not");
    story.topics.remove("t-1");
    story.ms += 1_000;
    one.obey();
    story.beat(&mut one).unwrap();
    assert_eq!(one.told, [(7, 0)].into());
}

#[test]
fn the_assignor_is_what_most_members_ask_for() {
    let mut story = Story::new(&[("t", 4)]);
    let unknown = Beat { assignor: Some("magic".into()), ..client("x", &["t"]).join() };
    assert_eq!(story.send(&unknown), Err(code::UNSUPPORTED_ASSIGNOR));
    story.send(&Beat { assignor: Some("range".into()), ..client("one", &["t"]).join() }).unwrap();
    assert_eq!(story.group.assignor, Some(Assignor::Range));
    for id in ["two", "three"] {
        story.send(&Beat { assignor: Some("uniform".into()), ..client(id, &["t"]).join() }).unwrap();
    }
    assert_eq!(story.group.assignor, Some(Assignor::Uniform));
}

#[test]
fn heartbeats_that_make_no_sense_are_refused() {
    let mut story = Story::new(&[("t", 4)]);
    let join = client("one", &["t"]).join();
    for wrong in [
        Beat { epoch: -3, ..join.clone() },
        Beat { member: String::new(), ..join.clone() },
        Beat { rebalance_ms: -1, ..join.clone() },
        Beat { names: None, ..join.clone() },
        Beat { owned: None, ..join.clone() },
        Beat { owned: Some([(1, 1)].into()), ..join.clone() },
        Beat { instance: Some(String::new()), ..join.clone() },
        Beat { epoch: LEAVE_STATIC, ..join.clone() },
    ] {
        assert_eq!(story.send(&wrong), Err(code::INVALID_REQUEST), "{wrong:?}");
    }
    assert_eq!(story.send(&Beat { epoch: 1, ..join.clone() }), Err(code::UNKNOWN_MEMBER_ID));
    let nameless = Beat { member: String::new(), names_itself: false, ..join };
    assert_eq!(story.send(&nameless).unwrap().0, "given");
}

/// The topics as one user may see them, and how often they were asked for.
struct View<'a> {
    topics: &'a BTreeMap<String, (u128, i32)>,
    user: &'a str,
    sees: &'a [&'a str],
    asked: std::cell::Cell<usize>,
}

impl Catalogue for View<'_> {
    fn topic(&self, name: &str) -> Option<(u128, i32)> {
        self.asked.set(self.asked.get() + 1);
        self.topics.topic(name)
    }

    fn names(&self) -> Vec<String> {
        self.asked.set(self.asked.get() + 1);
        self.topics.keys().filter(|name| self.sees.contains(&name.as_str())).cloned().collect()
    }

    fn viewer(&self) -> String {
        self.user.to_owned()
    }
}

impl Story {
    /// Beats as a user. Returns whether the group was written to the journal.
    fn beat_as(&mut self, client: &mut Client, beat: &Beat, user: &str, sees: &[&str]) -> bool {
        let view = View { topics: &self.topics, user, sees, asked: 0.into() };
        let (now, mut effects) = (self.now(), Effects::default());
        let heard = self.group.heartbeat(now, SESSION, beat, "given".into(), &view, &mut effects).unwrap();
        client.hear(heard);
        client.obey();
        self.check();
        let ids: Vec<u128> = sees.iter().map(|name| self.topics[*name].0).collect();
        assert!(client.told.iter().all(|(id, _)| ids.contains(id)), "{user} may not see {:?}", client.told);
        !effects.touched.is_empty()
    }
}

#[test]
fn one_pattern_with_different_rights_comes_to_rest_and_gives_nobody_what_it_may_not_see() {
    // There is nothing left for one of them: that is no reason to begin again, either.
    let mut story = Story::new(&[("open", 1), ("secret", 1)]);
    let users: [(&str, &[&str]); 3] =
        [("admin", &["open", "secret"]), ("guest", &["open"]), ("visitor", &["open"])];
    let mut clients = ["one", "two", "three"].map(|id| client(id, &[]));
    for (client, (user, sees)) in clients.iter_mut().zip(users) {
        let join = Beat { pattern: Some(".*".into()), ..client.join() };
        story.beat_as(client, &join, user, sees);
    }
    let mut round = |story: &mut Story| {
        story.ms += 1_000;
        let mut written = false;
        for (client, (user, sees)) in clients.iter_mut().zip(users) {
            let beat = client.beat();
            written |= story.beat_as(client, &beat, user, sees);
        }
        (written, clients.iter().map(|client| client.owned.len()).sum::<usize>())
    };
    for _ in 0..5 {
        round(&mut story);
    }
    let epoch = story.group.epoch;
    for _ in 0..5 {
        assert_eq!(round(&mut story), (false, 2), "nothing has changed");
    }
    // A start knows no rights, and changes nothing.
    let (now, empty) = (story.now(), Consumer::empty("g", story.now()));
    story.group = restarted(std::mem::replace(&mut story.group, empty), now);
    for _ in 0..3 {
        assert_eq!(round(&mut story), (false, 2));
    }
    assert_eq!(story.group.epoch, epoch);
}

#[test]
fn rights_that_change_are_seen_by_the_member_that_has_them() {
    let mut story = Story::new(&[("open", 2), ("secret", 4)]);
    let (mut one, mut two) = (client("one", &[]), client("two", &["secret"]));
    let join = Beat { pattern: Some(".*".into()), ..one.join() };
    let second = two.join();
    story.beat_as(&mut two, &second, "admin", &["secret"]);
    story.beat_as(&mut one, &join, "guest", &["open"]);
    assert_eq!(one.owned.len(), 2);
    let mut told = Vec::new();
    for sees in [&["open", "secret"][..], &["open"]] {
        for _ in 0..4 {
            story.ms += 1_000;
            let (first, second) = (one.beat(), two.beat());
            story.beat_as(&mut two, &second, "admin", &["secret"]);
            // The next check sees removed rights. The answer then no longer lists the released partitions.
            story.beat_as(&mut one, &first, "guest", sees);
        }
        told.push((one.owned.len(), two.owned.len()));
    }
    assert_eq!(told, [(3, 3), (2, 4)]);
}

#[test]
fn a_beat_that_says_nothing_new_looks_nothing_up() {
    let mut story = Story::new(&[("t", 10)]);
    let now = story.now();
    for number in 0..1_000 {
        let mut member = Member::new(now);
        member.set_names(["t".to_owned()].into());
        story.group.restore_member(now, SESSION, format!("m{number}"), member);
    }
    let mut one = client("one", &["t"]);
    story.join(&mut one);
    let view = View { topics: &story.topics, user: "", sees: &["t"], asked: 0.into() };
    for _ in 0..10 {
        let (beat, mut effects) = (one.beat(), Effects::default());
        let heard = story.group.heartbeat(now, SESSION, &beat, String::new(), &view, &mut effects).unwrap();
        assert!(effects.touched.is_empty());
        one.hear(heard);
    }
    assert_eq!(view.asked.get(), 0);
}

#[derive(Debug, Clone)]
enum Step {
    Join(usize, bool),
    Beat(usize),
    LoseAnswer(usize),
    Obey(usize),
    Leave(usize),
    Wait(u64),
    Grow(bool),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (0..5_usize, any::<bool>()).prop_map(|(who, both)| Step::Join(who, both)),
        6 => (0..5_usize).prop_map(Step::Beat),
        1 => (0..5_usize).prop_map(Step::LoseAnswer),
        6 => (0..5_usize).prop_map(Step::Obey),
        1 => (0..5_usize).prop_map(Step::Leave),
        1 => (1..20_000_u64).prop_map(Step::Wait),
        1 => any::<bool>().prop_map(Step::Grow),
        1 => Just(Step::Restart),
    ]
}

/// The group as a broker that is started now finds it in the journal.
fn restarted(group: Consumer, now: Now) -> Consumer {
    let record = super::super::record::write("g", Some(&super::super::Group::Consumer(group)));
    match super::super::record::read(now, SESSION, &record[1..]) {
        Some((_, Some(super::super::Group::Consumer(group)))) => group,
        other => panic!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_partition_has_two_owners_and_in_the_end_each_has_one(steps in proptest::collection::vec(step(), 1..80)) {
        let mut story = Story::new(&[("t", 7), ("u", 4)]);
        let mut clients: Vec<Option<Client>> = vec![None; 5];
        let mut lives = 0;
        for step in steps {
            match step {
                Step::Join(who, both) => {
                    let names: &[&str] = if both { &["t", "u"] } else { &["t"] };
                    lives += 1;
                    if let Some(old) = clients[who].take() {
                        let _ = story.send(&Beat { epoch: LEAVE, ..old.beat() });
                    }
                    let mut new = client(&format!("{who}-{lives}"), names);
                    story.join(&mut new);
                    clients[who] = Some(new);
                }
                Step::Beat(who) => {
                    if let Some(mut client) = clients[who].take() {
                        // A removed member releases everything at once, and begins again if it may.
                        clients[who] = match story.beat(&mut client) {
                            Ok(()) => Some(client),
                            Err(code::FENCED_MEMBER_EPOCH) => {
                                story.join(&mut client);
                                Some(client)
                            }
                            Err(_) => None,
                        };
                    }
                }
                Step::LoseAnswer(who) => {
                    if let Some(client) = &mut clients[who] {
                        let _ = story.send(&client.beat());
                        client.lost = true;
                    }
                }
                Step::Obey(who) => clients[who].iter_mut().for_each(Client::obey),
                Step::Leave(who) => {
                    if let Some(client) = clients[who].take() {
                        let _ = story.send(&Beat { epoch: LEAVE, ..client.beat() });
                    }
                }
                Step::Wait(ms) => story.tick(ms),
                Step::Grow(first) => {
                    let name = if first { "t" } else { "u" };
                    story.topics.entry(name.into()).and_modify(|topic| topic.1 += 1);
                }
                Step::Restart => {
                    let now = story.now();
                    let empty = Consumer::empty("g", now);
                    story.group = restarted(std::mem::replace(&mut story.group, empty), now);
                    story.check();
                }
            }
            // Of two members that are at their current epochs, no two use a partition. One that is behind is
            // fenced at its next heartbeat.
            let current = |client: &&Client| {
                let member = story.group.members.get(&client.id);
                member.is_some_and(|member| member.epoch == client.epoch)
            };
            let mut used = Partitions::new();
            for client in clients.iter().flatten().filter(current) {
                for partition in &client.owned {
                    prop_assert!(used.insert(*partition), "{:?} is used twice", partition);
                }
            }
        }
        let mut alive = Vec::new();
        for mut client in clients.into_iter().flatten() {
            match story.beat(&mut client) {
                Ok(()) => alive.push(client),
                Err(code::FENCED_MEMBER_EPOCH) => {
                    story.join(&mut client);
                    alive.push(client);
                }
                Err(error) => prop_assert_eq!(error, code::UNKNOWN_MEMBER_ID),
            }
        }
        // Those who are silent for ever are put out; the rest settles.
        let known: Vec<String> = alive.iter().map(|client| client.id.clone()).collect();
        prop_assert!(story.group.members.keys().all(|id| known.contains(id)), "no member is left behind");
        if !alive.is_empty() {
            story.settle(&mut alive);
        }
    }
}
