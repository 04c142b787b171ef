//! The topics that a load creates, and deletes in the end.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hone_record::Workload;

use crate::admin::{Admin, TopicLayout, remember};
use crate::error::LoadError;
use crate::security::Access;
use crate::settings::{Settings, Topic};
use crate::topic_set::TopicSet;

/// A broker that hangs must not delay the deletion of the load's own topic.
const REMOVAL_LIMIT: Duration = Duration::from_secs(5);
/// After this time no other broker is asked.
const REMOVAL_PATIENCE: Duration = Duration::from_secs(15);

/// The load's own topics, which are deleted when the load ends, for any reason.
#[derive(Debug)]
pub(crate) struct OwnTopics {
    /// Brokers that can delete them, the one that the user named first.
    addresses: Vec<String>,
    access: Access,
    names: Vec<String>,
}

impl OwnTopics {
    pub(crate) fn at(address: &str, access: &Access) -> Self {
        Self { addresses: vec![address.to_owned()], access: access.clone(), names: Vec::new() }
    }

    /// These brokers may delete them, too.
    pub(super) fn remember(&mut self, addresses: impl IntoIterator<Item = String>) {
        remember(&mut self.addresses, addresses);
    }

    /// Asks one broker after the other until one has deleted them, since the first may be the failed one. The error is the first broker's.
    pub(super) fn remove(&mut self) -> Result<(), LoadError> {
        let names = std::mem::take(&mut self.names);
        if names.is_empty() {
            return Ok(());
        }
        let begun = Instant::now();
        let mut failed = None;
        for address in &self.addresses {
            if failed.is_some() && begun.elapsed() > REMOVAL_PATIENCE {
                break;
            }
            let deleted = Admin::enter(address, self.access.clone(), REMOVAL_LIMIT)
                .and_then(|mut admin| admin.delete_topics(&names));
            match deleted {
                Ok(()) => return Ok(()),
                // An earlier broker deleted them, but its answer was lost.
                Err(LoadError::Refused { error: "UNKNOWN_TOPIC_OR_PARTITION", .. }) if failed.is_some() => {
                    return Ok(());
                }
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(()), Err)
    }
}

impl Drop for OwnTopics {
    fn drop(&mut self) {
        // This happens only after another error, and that error is reported.
        let _ = self.remove();
    }
}

/// The partitions of the load's topic. The load's own topic is created first.
pub(crate) fn layout_of(
    wanted: &Topic,
    workload: &Workload,
    admin: &mut Admin,
    own: &mut OwnTopics,
) -> Result<TopicLayout, LoadError> {
    let only_one = |problem: &str| LoadError::Setting { name: "topics", problem: problem.to_owned() };
    let (name, goes_again) = match wanted {
        Topic::Existing(name) if workload.topics.count() == 1 => {
            return admin.layout(&name.as_str().into(), None);
        }
        Topic::Existing(_) => {
            return Err(only_one("are topics that Hone creates; leave out --topics or --topic"));
        }
        Topic::Shared(_) if workload.topics.count() > 1 => {
            return Err(only_one("must be 1 for several generators"));
        }
        Topic::Shared(name) => (name.clone(), false),
        Topic::Named { prefix, keep } => (fresh_name(prefix), !*keep),
        Topic::Fresh => (fresh_name("hone-load-"), true),
    };
    // The name is stored before the request, since a slow cluster creates the topic even after a timeout.
    let topics = TopicSet::of_load(&name, workload);
    if goes_again {
        own.names = topics.names().to_vec();
    }
    create(&topics, workload, admin)?;
    admin.layout(&topics, Some(workload.all_partitions()))
}

/// The topics that processors write to, with as many partitions. `None` without processors.
pub(crate) fn output_of(
    settings: &Settings,
    workload: &Workload,
    input: &TopicLayout,
    admin: &mut Admin,
    own: &mut OwnTopics,
) -> Result<Option<TopicLayout>, LoadError> {
    if workload.processing.processors == 0 {
        return Ok(None);
    }
    if settings.shard.is_some() {
        let problem = "must be 0 for several generators".to_owned();
        return Err(LoadError::Setting { name: "processors", problem });
    }
    // A name of a run keeps its beginning, by which the run finds what is left of it.
    let is_fresh = !matches!(settings.topic, Topic::Existing(_));
    let name = if is_fresh { input.topics.first().to_owned() } else { fresh_name("hone-load-") };
    let topics = TopicSet::of_load(&format!("{name}-out"), workload);
    own.names.extend_from_slice(topics.names());
    create(&topics, workload, admin)?;
    admin.layout(&topics, Some(workload.all_partitions())).map(Some)
}

fn create(topics: &TopicSet, workload: &Workload, admin: &mut Admin) -> Result<(), LoadError> {
    for name in topics.names() {
        match admin.create_topic_of(name, workload) {
            // Another generator may have created a shared topic, and this process a fresh one, whose name is unique: a broker that forwards
            // the request to a slow controller repeats it and then receives this answer.
            Err(LoadError::Refused { error: "TOPIC_ALREADY_EXISTS", .. }) => {}
            made => made?,
        }
    }
    Ok(())
}

fn fresh_name(prefix: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    format!("{prefix}{now:x}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex, PoisonError};

    use hone_record::Schedule;
    use kafka_protocol::messages::create_topics_response::CreatableTopicResult;
    use kafka_protocol::messages::metadata_response::{
        MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
    };
    use kafka_protocol::messages::{CreateTopicsResponse, DeleteTopicsResponse, MetadataResponse, TopicName};
    use kafka_protocol::protocol::{Encodable as _, StrBytes};

    use crate::schedule::tests::workload;
    use crate::stand_in::serve;

    /// A cluster whose CreateTopics answers this code. It records the topics that it was asked to delete.
    fn cluster(create: i16) -> (String, Arc<Mutex<Vec<Vec<u8>>>>) {
        let deleted = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&deleted);
        let port = serve(move |port, body| {
            let (key, mut answer) = (body[1], Vec::new());
            match key {
                19 => {
                    let result = CreatableTopicResult::default().with_error_code(create);
                    let told = CreateTopicsResponse::default().with_topics(vec![result]);
                    told.encode(&mut answer, 4).unwrap();
                }
                20 => {
                    list.lock().unwrap_or_else(PoisonError::into_inner).push(body);
                    DeleteTopicsResponse::default().encode(&mut answer, 3).unwrap();
                }
                _ => one_partition(port).encode(&mut answer, 7).unwrap(),
            }
            answer
        });
        (format!("127.0.0.1:{port}"), deleted)
    }

    fn one_partition(port: u16) -> MetadataResponse {
        let broker = MetadataResponseBroker::default()
            .with_node_id(1.into())
            .with_host(StrBytes::from_static_str("127.0.0.1"))
            .with_port(port.into());
        let partition = MetadataResponsePartition::default().with_leader_id(1.into());
        let name = TopicName(StrBytes::from_static_str("t"));
        let topic = MetadataResponseTopic::default().with_name(Some(name)).with_partitions(vec![partition]);
        MetadataResponse::default().with_brokers(vec![broker]).with_topics(vec![topic])
    }

    fn made_at(address: &str) -> (Result<TopicLayout, LoadError>, OwnTopics) {
        let mut admin = Admin::enter(address, Access::plain(), REMOVAL_LIMIT).unwrap();
        let mut own = OwnTopics::at(address, &Access::plain());
        let load = workload(Schedule::Uniform, 1.0, 1);
        let made = layout_of(&Topic::Fresh, &load, &mut admin, &mut own);
        (made, own)
    }

    fn was_deleted(deleted: &Mutex<Vec<Vec<u8>>>, name: &str) -> bool {
        let deleted = deleted.lock().unwrap_or_else(PoisonError::into_inner);
        deleted.iter().any(|body| body.windows(name.len()).any(|part| part == name.as_bytes()))
    }

    #[test]
    fn a_fresh_topic_that_is_there_already_was_made() {
        let (address, deleted) = cluster(36);
        let (made, mut own) = made_at(&address);
        assert_eq!(made.unwrap().leaders, [(address, vec![0])]);
        let name = own.names[0].clone();
        own.remove().unwrap();
        assert!(was_deleted(&deleted, &name));
    }

    #[test]
    fn a_topic_that_may_come_later_is_deleted_all_the_same() {
        // REQUEST_TIMED_OUT.
        let (address, deleted) = cluster(7);
        let (made, own) = made_at(&address);
        assert!(made.unwrap_err().to_string().contains("REQUEST_TIMED_OUT"));
        let name = own.names[0].clone();
        drop(own);
        assert!(was_deleted(&deleted, &name));
    }

    #[test]
    fn another_broker_is_asked_where_the_first_has_died() {
        let (address, deleted) = cluster(0);
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let mut own = OwnTopics::at(&nobody, &Access::plain());
        own.names = vec!["left".to_owned()];
        own.remember([nobody.clone(), address]);
        assert_eq!(own.addresses.len(), 2);
        own.remove().unwrap();
        assert!(was_deleted(&deleted, "left"));
        // No broker answers.
        let mut own = OwnTopics::at(&nobody, &Access::plain());
        own.names = vec!["left".to_owned()];
        assert!(own.remove().unwrap_err().to_string().contains(&nobody));
    }
}
