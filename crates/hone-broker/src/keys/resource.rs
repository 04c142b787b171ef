//! What has properties: topics, this broker, and the cluster, which in the protocol is a broker without a name.

use std::collections::{BTreeMap, HashSet};
use std::hash::Hash;

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use crate::code;
use crate::endpoint::NODE_ID;
use crate::node::Node;
use crate::properties::Owner;
use crate::properties::broker::Scope;
use crate::properties::definition::Definition;
use crate::protocol::{Answer, Fields};
use crate::security::acl::Operation;
use crate::topics::ChangeError;

const TOPIC: i8 = 2;
const BROKER: i8 = 4;

/// An error code and what is to be said with it.
pub(super) type Refusal = (i16, String);

/// What occurs more than once. A request may name thousands of things, so they are not compared pair by pair.
pub(super) fn repeated<T: Hash + Eq + Copy>(all: impl Iterator<Item = T>) -> HashSet<T> {
    let mut seen = HashSet::new();
    all.filter(|one| !seen.insert(*one)).collect()
}

/// Something with properties.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Resource {
    Topic(String),
    Broker(Scope),
}

impl Resource {
    pub(super) fn find(kind: i8, name: &str) -> Result<Self, Refusal> {
        match kind {
            TOPIC => Ok(Self::Topic(name.to_owned())),
            BROKER if name.is_empty() => Ok(Self::Broker(Scope::Cluster)),
            BROKER if name == NODE_ID.to_string() => Ok(Self::Broker(Scope::Broker)),
            BROKER => {
                let message = format!(
                    "there is no broker `{name}`; use {NODE_ID} for this broker, or an empty name \
                             for all"
                );
                Err((code::INVALID_REQUEST, message))
            }
            _ => {
                let message =
                    format!("resources of type {kind} have no properties; use topics (2) or brokers (4)");
                Err((code::INVALID_REQUEST, message))
            }
        }
    }

    /// Says whether a client may do something with the properties; those of brokers are the cluster's.
    pub(super) fn check(&self, call: &Call<'_>, operation: Operation) -> Result<(), Refusal> {
        let (error, what) = match self {
            Self::Topic(name) => (call.topic_refusal(operation, name), "topic"),
            Self::Broker(_) => (call.cluster_refusal(operation), "cluster"),
        };
        error.map_or(Ok(()), |error| Err((error, format!("not allowed on the {what}"))))
    }

    /// Changes the properties: `change` gets those that are given, and a look-up of values in force for lists.
    pub(super) fn alter(
        &self,
        node: &Node,
        only_ask: bool,
        change: impl FnOnce(
            &BTreeMap<String, String>,
            Owner,
            &dyn Fn(&'static Definition) -> String,
        ) -> Result<BTreeMap<String, String>, String>,
    ) -> Result<(), Refusal> {
        let changed = match self {
            Self::Topic(name) => node.topics.alter(name, only_ask, |topic, broker| {
                let properties = &topic.properties;
                change(&properties.given, Owner::Topic, &|definition| properties.in_force(definition, broker))
            }),
            Self::Broker(scope) => node.topics.alter_broker(*scope, only_ask, |properties| {
                let in_force = |definition: &'static Definition| properties.value(definition.name).to_owned();
                change(properties.given(*scope), Owner::Broker, &in_force)
            }),
        };
        changed.map_err(|error| refusal(node, &error))
    }
}

/// A change of the properties of a resource, as it is asked for.
pub(super) struct Asked<C> {
    kind: i8,
    name: String,
    /// What it stands for, if that may be changed: decided before the clerk gets the request.
    resource: Result<Resource, Refusal>,
    pub(super) changes: Vec<C>,
}

impl<C> Asked<C> {
    pub(super) fn resource(&self) -> Result<Resource, Refusal> {
        self.resource.clone()
    }
}

/// Serves both ways to alter: resources, each with changes that `read` reads, are altered one by one by the clerk.
pub(super) fn serve_alterations<C: Send + 'static>(
    call: &mut Call<'_>,
    answer: &mut Answer<'_>,
    read: fn(&mut Fields<'_>) -> Result<C, WireError>,
    alter: fn(&Node, &Asked<C>, bool) -> Result<(), Refusal>,
) -> Result<Outcome, WireError> {
    if call.take_answer(answer) {
        return Ok(Outcome::Reply);
    }
    let mut fields = call.fields();
    let mut asked = Vec::new();
    for _ in 0..fields.array("resources")? {
        let kind = fields.i8("resource type")?;
        let name = fields.string("resource name")?.to_owned();
        let mut changes = Vec::new();
        for _ in 0..fields.array("configs")? {
            changes.push(read(&mut fields)?);
            fields.tags()?;
        }
        fields.tags()?;
        let resource = alterable(call, kind, &name);
        asked.push(Asked { kind, name, resource, changes });
    }
    let validate_only = fields.bool("validate only")?;
    fields.tags()?;
    Ok(call.by_clerk(move |node, answer| {
        let repeated = repeated(asked.iter().map(|one| (one.kind, one.name.as_str())));
        answer.i32(0);
        answer.array(asked.len());
        for one in &asked {
            let outcome = if repeated.contains(&(one.kind, one.name.as_str())) {
                Err((code::INVALID_REQUEST, "the resource appears more than once in the request".to_owned()))
            } else {
                alter(node, one, validate_only)
            };
            write_outcome(answer, one.kind, &one.name, outcome);
        }
        answer.tags();
    }))
}

fn alterable(call: &Call<'_>, kind: i8, name: &str) -> Result<Resource, Refusal> {
    let resource = Resource::find(kind, name)?;
    resource.check(call, Operation::AlterConfigs)?;
    Ok(resource)
}

fn write_outcome(answer: &mut Answer<'_>, kind: i8, name: &str, outcome: Result<(), Refusal>) {
    answer.i16(outcome.as_ref().map_or_else(|(error, _)| *error, |()| code::NONE));
    answer.nullable_string(outcome.err().map(|(_, message)| message).as_deref());
    answer.i8(kind);
    answer.string(name);
    answer.tags();
}

/// The answer for a change that was not made.
pub(super) fn refusal(node: &Node, error: &ChangeError) -> Refusal {
    let code = match error {
        ChangeError::Unknown(_) => code::UNKNOWN_TOPIC_OR_PARTITION,
        ChangeError::Partitions { .. } => code::INVALID_PARTITIONS,
        ChangeError::Full(_) => code::POLICY_VIOLATION,
        ChangeError::Property(_) => code::INVALID_CONFIG,
        ChangeError::Storage(error) => {
            node.settings.notices.say(&format!("{error:#}"));
            code::KAFKA_STORAGE_ERROR
        }
    };
    (code, error.to_string())
}

/// Whether a partition may be placed on these brokers: there is one.
pub(super) fn check_replicas(brokers: &[i32]) -> Result<(), Refusal> {
    match brokers {
        [NODE_ID] => Ok(()),
        _ => {
            let message =
                format!("a partition on brokers {brokers:?}; this cluster has only broker {NODE_ID}");
            Err((code::INVALID_REPLICA_ASSIGNMENT, message))
        }
    }
}
