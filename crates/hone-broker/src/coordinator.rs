//! What the group coordinator keeps on disk: one journal for groups and their offsets, opened, filled and compacted.

use std::path::Path;
use std::sync::Arc;
use std::{fs, io};

use anyhow::Context;

use crate::groups::{self, Catalogue, Groups, Now, Timing};
use crate::journal::{Damage, Journal};
use crate::notices::Notices;
use crate::offsets::{self, Offsets, SetBack, Store};
use crate::settings::Settings;
use crate::topics::{Topics, random_id};

const JOURNAL_FILE: &str = "groups.journal";
/// Where offsets were before there was a journal.
const OLD_OFFSETS_FILE: &str = "group-offsets.jsonl";
/// Groups and offsets that are looked at under one hold of their locks: clients wait for those.
pub(crate) const AT_ONCE: usize = 1000;

/// The groups and offsets of a data folder.
pub(crate) struct Coordinator {
    pub(crate) journal: Arc<Journal>,
    pub(crate) groups: Groups,
    pub(crate) offsets: Offsets,
}

impl Coordinator {
    /// Reads the journal of a data folder; without a folder everything is in memory.
    pub(crate) fn open(data_dir: Option<&Path>, settings: &Settings) -> anyhow::Result<Self> {
        let salt = random_id().context("can't read random numbers")? as u64;
        let mut groups = Groups::new(timing(settings), salt).limited(settings.limits);
        let mut store = Store::default();
        let Some(data_dir) = data_dir else {
            let journal = Arc::new(Journal::in_memory());
            return Ok(Self {
                offsets: Offsets::new(Arc::clone(&journal), store).limited(settings.limits.offsets),
                journal,
                groups,
            });
        };
        let path = data_dir.join(JOURNAL_FILE);
        let journal = replay(&path, &settings.notices, &mut groups, &mut store)
            .with_context(|| format!("can't open the journal of the groups, {}", path.display()))?;
        let journal = Arc::new(journal);
        let offsets = Offsets::new(Arc::clone(&journal), store).limited(settings.limits.offsets);
        convert(&data_dir.join(OLD_OFFSETS_FILE), &journal, &offsets)?;
        Ok(Self { journal, groups, offsets })
    }

    /// Holds what groups have committed against the logs that a start has found, after an outage of the machine or not.
    pub(crate) fn meet(&self, topics: &Topics, outage: bool, notices: &Notices) -> anyhow::Result<()> {
        let set_back = self.offsets.meet(|name, index| {
            let topic = topics.by_name(name)?;
            let partition = usize::try_from(index).ok().and_then(|index| topic.partitions.get(index));
            // Without an outage no log has lost anything, and clients may commit what they like.
            Some(partition.filter(|_| outage).map_or(i64::MAX, |partition| partition.bounds().next))
        });
        let Some(SetBack { place: (group, topic, index), from, to }) = set_back.first() else {
            return Ok(());
        };
        self.offsets.wait_until_durable().context("can't reset offsets beyond the end of their logs")?;
        notices.say(&format!(
            "the machine crashed, and logs lost records that were not flushed; {} committed offsets were \
             beyond the end of their logs, and the broker reset them to that end, so that their groups \
             skip no new records: group {group}, {topic}-{index} from {from} to {to}{}",
            set_back.len(),
            if set_back.len() > 1 { ", and others" } else { "" },
        ));
        Ok(())
    }
}

fn timing(settings: &Settings) -> Timing {
    let milliseconds = std::time::Duration::from_millis;
    Timing {
        initial_delay: milliseconds(settings.group_initial_delay_ms),
        session: milliseconds(settings.consumer_session_ms),
        heartbeat: milliseconds(settings.consumer_heartbeat_ms),
    }
}

fn replay(path: &Path, notices: &Notices, groups: &mut Groups, store: &mut Store) -> io::Result<Journal> {
    let now = Now::read();
    let mut unread = 0;
    let journal = Journal::open(path, Damage::Skip, notices, |entry| {
        let taken = match entry.split_first() {
            Some((&groups::RECORD, record)) => groups.replay(now, record),
            Some((&offsets::RECORD, record)) => store.replay(record),
            _ => false,
        };
        unread += u32::from(!taken);
    })?;
    if unread > 0 {
        let reason = format!(
            "{unread} whole entries have a kind that this version does not know\n  next: start the version \
             that wrote them, or move the file away, which loses the offsets of all groups"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, reason));
    }
    Ok(journal)
}

/// Takes the offsets of a version before the journal over, once.
fn convert(old: &Path, journal: &Journal, offsets: &Offsets) -> anyhow::Result<()> {
    let bytes = match fs::read(old) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("can't read {}", old.display())),
    };
    let commits = offsets::of_json_lines(&bytes, Now::read().unix_ms);
    offsets.commit(commits, None);
    // An empty change behind the commits: when it is durable, so are they.
    journal.append_and_wait(vec![offsets::RECORD])?;
    fs::remove_file(old).with_context(|| format!("can't remove {}", old.display()))
}

/// Rewrites the journal when it has grown. Changes continue meanwhile. The journal has them after the entries that are
/// gathered here, and a repeated change has no effect. `groups` returns the next entries of groups after an id.
pub(crate) fn compact_if_grown(
    journal: &Journal,
    offsets: &Offsets,
    mut groups: impl FnMut(Option<&str>) -> Vec<(String, Vec<u8>)>,
) {
    if !journal.wants_rewrite() {
        return;
    }
    let mut records = offsets.begin_records();
    offsets.add_records(AT_ONCE, &mut records);
    let mut last: Option<String> = None;
    loop {
        let mut next = groups(last.as_deref());
        let Some((id, _)) = next.last() else { break };
        last = Some(id.clone());
        records.extend(next.drain(..).map(|(_, record)| record));
    }
    journal.rewrite(records);
}

impl Catalogue for Topics {
    fn topic(&self, name: &str) -> Option<(u128, i32)> {
        let topic = self.by_name(name)?;
        Some((topic.id, i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX)))
    }

    fn names(&self) -> Vec<String> {
        self.all().iter().map(|topic| topic.name.clone()).collect()
    }

    /// All are seen.
    fn viewer(&self) -> String {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups::{Join, Who};
    use crate::reply::Reply;
    use crate::ticket::Ticket;

    fn settings(folder: &Path) -> Settings {
        Settings { group_initial_delay_ms: 0, ..Settings::new(folder) }
    }

    fn place(partition: i32) -> offsets::Place {
        ("g".to_owned(), "t".to_owned(), partition)
    }

    #[test]
    fn offsets_of_before_the_journal_are_taken_over_once() {
        let folder = tempfile::tempdir().unwrap();
        let old = folder.path().join(OLD_OFFSETS_FILE);
        fs::write(&old, "[\"g\",\"t\",0,5,0,\"m\"]\n[\"g\",\"t\",1,7,0,\"\"]\n").unwrap();
        for _ in 0..2 {
            let coordinator = Coordinator::open(Some(folder.path()), &settings(folder.path())).unwrap();
            assert_eq!(coordinator.offsets.of(&place(0)).unwrap().offset, 5);
            assert_eq!(coordinator.offsets.of(&place(1)).unwrap().offset, 7);
            assert!(!old.exists());
            coordinator.journal.close();
        }
    }

    #[test]
    fn a_grown_journal_is_compacted_and_says_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let coordinator = Coordinator::open(Some(folder.path()), &settings(folder.path())).unwrap();
        let Coordinator { journal, groups, offsets } = coordinator;
        let text = "x".repeat(4000);
        let mut last = 0;
        while !journal.wants_rewrite() {
            last += 1;
            let committed =
                offsets::Committed { offset: last, leader_epoch: -1, metadata: text.clone(), at_ms: 0 };
            offsets.commit(vec![(place((last % 3) as i32), committed)], None);
        }
        compact_if_grown(&journal, &offsets, |after| groups.records_behind(after, AT_ONCE));
        journal.append_and_wait(vec![offsets::RECORD]).unwrap();
        journal.close();
        let size = fs::metadata(folder.path().join(JOURNAL_FILE)).unwrap().len();
        assert!(size < 20_000, "{size} bytes");
        let again = Coordinator::open(Some(folder.path()), &settings(folder.path())).unwrap();
        assert_eq!(again.offsets.of(&place((last % 3) as i32)).unwrap().offset, last);
        assert_eq!(again.offsets.of_group("g").len(), 3);
    }

    #[test]
    fn an_entry_of_an_unknown_kind_stops_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(JOURNAL_FILE);
        Journal::open(&path, Damage::Skip, &Notices::nowhere(), |_| ())
            .unwrap()
            .append_and_wait(vec![b'?'])
            .unwrap();
        let error = Coordinator::open(Some(folder.path()), &settings(folder.path())).err().unwrap();
        assert!(format!("{error:#}").contains("1 whole entries"), "{error:#}");
    }

    /// One member, synced, and then the broker is gone.
    #[test]
    fn a_group_goes_on_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let ticket = Ticket { reactor: 0, connection: 1 };
        let now = Now::read();
        let mut coordinator = Coordinator::open(Some(folder.path()), &settings(folder.path())).unwrap();
        let join = Join {
            group: "g".into(),
            member: String::new(),
            instance: None,
            client_id: "c".into(),
            client_host: "/127.0.0.1".into(),
            session_ms: 10_000,
            rebalance_ms: 10_000,
            protocol_type: "consumer".into(),
            protocols: vec![("range".into(), vec![1])],
            id_required: false,
            can_skip_assignment: false,
        };
        let mut effects = groups::Effects::default();
        assert_eq!(coordinator.groups.join(now, ticket, join, &mut effects), None);
        let Some((_, Reply::Join(joined))) = effects.replies.pop() else { panic!("no answer") };
        let who = Who { group: "g", generation: 1, member: &joined.member, instance: None };
        let plan = vec![(joined.member.clone(), vec![42])];
        coordinator.groups.sync(now, ticket, &who, (None, None), plan.clone(), &mut effects);
        for record in coordinator.groups.records(&effects) {
            coordinator.journal.append_and_wait(record).unwrap();
        }
        drop(coordinator);
        let mut coordinator = Coordinator::open(Some(folder.path()), &settings(folder.path())).unwrap();
        let now = Now::read();
        assert_eq!(coordinator.groups.heartbeat(now, &who), crate::code::NONE);
        let mut effects = groups::Effects::default();
        let synced = coordinator.groups.sync(now, ticket, &who, (None, None), Vec::new(), &mut effects);
        assert_eq!(synced.unwrap().assignment, [42]);
    }
}
