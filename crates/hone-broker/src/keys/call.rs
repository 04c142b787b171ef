//! A request on its way through a handler, and what came of it.

use std::collections::HashSet;
use std::hash::Hash;
use std::net::IpAddr;
use std::panic::resume_unwind;
use std::sync::Arc;

use hone_kafka::{RequestHead, WireError};

use super::park::{Attempt, Park};
use super::produce_walk::Walk;
use crate::appends::Appends;
use crate::code;
use crate::groups::Who;
use crate::mailbox::Letter;
use crate::node::Node;
use crate::protocol::{Answer, Fields};
use crate::quotas::Metering;
use crate::reply::Reply;
use crate::security::acl::{CLUSTER, Operation, Resource};
use crate::security::session::Session;
use crate::ticket::Ticket;
use crate::topics::Topic;
use crate::transactions::FreshId;

/// The text of the error for an operation that the client may not do with the cluster.
pub(super) const NOT_ALLOWED: &str = "not allowed on the cluster";
/// Where a client did not ask what it may do, or there is nothing to do something with.
pub(super) const NOT_ASKED: i32 = i32::MIN;

/// First version of Produce and of Fetch that names topics by their ids.
const TOPIC_IDS: i16 = 13;

/// Topics, partitions and the like that one Produce or Fetch may name, if there are not more partitions than that: far
/// above what any client sends, and what is served in one turn of a reactor.
const MOST_ENTRIES: usize = 20_000;

/// What came of a request.
pub(crate) enum Outcome {
    /// The answer is written.
    Reply,
    /// The answer is complete except for the outcome of this number of batches, whose bytes are held until then.
    Later { waiting: usize, bytes: usize },
    /// There is no answer (acks=0). This number of batches, whose bytes are held until then, is in progress.
    Silent { waiting: usize, bytes: usize },
    /// It continues in the next turn, with the partial answer. This number of batches, whose bytes are held until then,
    /// is in progress.
    Pause { waiting: usize, bytes: usize, silent: bool, walk: Box<Walk> },
    /// There is none, and the connection is closed over this error.
    Fail(i16),
    /// The answer is written, and the connection ends behind it.
    Last,
    /// There is no answer, and the connection ends.
    Close,
    /// The answer comes later; nothing was written that counts.
    Park(Park),
}

impl Outcome {
    /// Whether the request is served again.
    pub(crate) fn is_unfinished(&self) -> bool {
        matches!(self, Self::Park(_) | Self::Pause { .. })
    }
}

/// Buffers of a reactor that live longer than a request.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    /// Decompressed records.
    pub(crate) plain: Vec<u8>,
    /// Bytes of records that the turn may still look into before it leaves the rest to the next one.
    pub(crate) unpack_left_bytes: usize,
    /// Who waits for what was just written.
    pub(crate) wake: Vec<Ticket>,
    /// The one reactor that the batches of the request belong to, if it is one.
    pub(crate) owner: Option<usize>,
}

/// A request on its way through a handler.
pub(crate) struct Call<'a> {
    pub(crate) node: &'a Arc<Node>,
    /// Who asks.
    pub(crate) session: &'a mut Session,
    pub(crate) work: &'a mut Workspace,
    /// The log side of this reactor.
    pub(crate) appends: &'a mut Appends,
    /// The whole frame; batches in it are patched in place.
    pub(crate) frame: &'a mut [u8],
    /// Where the request begins in it, behind its header.
    pub(crate) body_at: usize,
    pub(crate) version: i16,
    pub(crate) flexible: bool,
    /// `false` only for ApiVersions in a version that is not served; its answer then says so.
    pub(crate) version_known: bool,
    pub(crate) ticket: Ticket,
    /// The number of the answer, should it have to wait.
    pub(crate) slot: u64,
    /// Where the answer begins in its buffer.
    pub(crate) answer_at: usize,
    pub(crate) attempt: Attempt,
    /// From where.
    pub(crate) host: IpAddr,
}

impl Call<'_> {
    /// The fields of the request.
    pub(crate) fn fields(&self) -> Fields<'_> {
        self.fields_at(self.body_at)
    }

    /// Has the clerk write the answer: what has to wait for the disk must not hold up a reactor. Whether the client may
    /// do what it asks for is decided before, since the clerk knows nothing of it.
    pub(crate) fn by_clerk(&self, work: impl FnOnce(&Node, &mut Answer<'_>) + Send + 'static) -> Outcome {
        self.node.desk.leave(self.ticket, self.flexible, work);
        Outcome::Park(Park::Reply)
    }

    /// Runs a step that may take a fresh producer id. When none is left the step has failed and changed nothing; the
    /// clerk then reserves some and has the request served again, which is said as the step says that it waits: `None`.
    pub(crate) fn with_fresh_ids<T>(
        &self,
        step: impl FnOnce(FreshId<'_>) -> Result<Option<T>, i16>,
    ) -> Result<Option<T>, i16> {
        let mut dry = false;
        let outcome = step(&mut || {
            let fresh = self.node.fresh_producer_id();
            dry = fresh.is_none();
            fresh.ok_or(code::COORDINATOR_LOAD_IN_PROGRESS)
        });
        if !dry {
            return outcome;
        }
        let ticket = self.ticket;
        self.node.desk.leave_chore(move |node| {
            let reply = node.reserve_producer_ids().map_or_else(Reply::Code, |()| Reply::Resume);
            node.post(ticket, Letter::Reply(ticket.connection, reply));
        });
        Ok(None)
    }

    /// Whether the clerk has written the answer; then it is there.
    pub(crate) fn take_answer(&self, answer: &mut Answer<'_>) -> bool {
        match &self.attempt {
            Attempt::Answered(Reply::Body(body)) => {
                answer.buffer().extend_from_slice(body);
                true
            }
            // The panic of the background task continues here, as if it had happened here.
            Attempt::Answered(Reply::Failed) => resume_unwind(Box::new("a background task failed")),
            _ => false,
        }
    }

    /// The fields from a place in the frame on.
    pub(crate) fn fields_at(&self, at: usize) -> Fields<'_> {
        Fields::new(self.frame.get(at..).unwrap_or_default(), self.flexible)
    }

    /// Whether the client may do something with the resource of a name. What each API asks is in `security/acl.rs`.
    pub(crate) fn allows(&self, operation: Operation, resource: Resource, name: &str) -> bool {
        self.node.acls.allows(self.session.principal(), self.host, operation, resource, name)
    }

    /// Whether there is any resource of a type with which the client may do something.
    pub(crate) fn allows_any(&self, operation: Operation, resource: Resource) -> bool {
        self.node.acls.allows_any(self.session.principal(), self.host, operation, resource)
    }

    /// Reads the topic of Produce or Fetch, by id from [`TOPIC_IDS`] on and by name before, and writes it to the
    /// answer. `Err` has the error code for a client without the right to the operation.
    pub(crate) fn asked_topic(
        &self,
        fields: &mut Fields<'_>,
        answer: &mut Answer<'_>,
        operation: Operation,
    ) -> Result<Result<Option<Arc<Topic>>, i16>, WireError> {
        let (topic, allowed) = if self.version >= TOPIC_IDS {
            let id = fields.uuid("topic id")?;
            answer.uuid(id);
            let topic = self.node.topics.by_id(id);
            let allowed = topic.as_ref().is_none_or(|topic| self.allows_topic(operation, &topic.name));
            (topic, allowed)
        } else {
            let name = fields.string("topic")?;
            answer.string(name);
            (self.node.topics.by_name(name), self.allows_topic(operation, name))
        };
        Ok(if allowed { Ok(topic) } else { Err(code::TOPIC_AUTHORIZATION_FAILED) })
    }

    /// Most entries of one Produce or Fetch.
    pub(crate) fn most_entries(&self) -> usize {
        MOST_ENTRIES.max(self.node.settings.limits.partitions)
    }

    /// The error for a topic of Produce or Fetch that is not there.
    pub(crate) fn unknown_topic(&self) -> i16 {
        if self.version >= TOPIC_IDS { code::UNKNOWN_TOPIC_ID } else { code::UNKNOWN_TOPIC_OR_PARTITION }
    }

    /// Whether the client may do something with a topic.
    pub(crate) fn allows_topic(&self, operation: Operation, name: &str) -> bool {
        self.allows(operation, Resource::Topic, name)
    }

    /// The error for a client that may not do something with a topic.
    pub(crate) fn topic_refusal(&self, operation: Operation, name: &str) -> Option<i16> {
        (!self.allows_topic(operation, name)).then_some(code::TOPIC_AUTHORIZATION_FAILED)
    }

    /// The error for a client that may not do something with a group.
    pub(crate) fn group_refusal(&self, operation: Operation, group: &str) -> Option<i16> {
        (!self.allows(operation, Resource::Group, group)).then_some(code::GROUP_AUTHORIZATION_FAILED)
    }

    /// The error for a client that may not do something with a transactional id.
    pub(crate) fn transaction_refusal(&self, operation: Operation, name: &str) -> Option<i16> {
        let allowed = self.allows(operation, Resource::TransactionalId, name);
        (!allowed).then_some(code::TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    }

    /// Whether the client may do something with the cluster.
    pub(crate) fn allows_cluster(&self, operation: Operation) -> bool {
        self.allows(operation, Resource::Cluster, CLUSTER)
    }

    /// The error for a client that may not do something with the cluster.
    pub(crate) fn cluster_refusal(&self, operation: Operation) -> Option<i16> {
        (!self.allows_cluster(operation)).then_some(code::CLUSTER_AUTHORIZATION_FAILED)
    }

    /// Most bytes of records that its quota lets a Fetch bring at once, if there is one.
    pub(crate) fn fetch_limit_bytes(&self) -> Option<usize> {
        let metered = self.node.quotas.metering() != Metering::Off;
        metered
            .then(|| self.node.quotas.fetch_limit_bytes(self.session.principal(), self.client_id()))
            .flatten()
    }

    /// The rights of the client on a resource, as the bits of an answer. They are computed only if the client asks for
    /// them.
    pub(crate) fn operations(&self, asked: bool, resource: Resource, name: &str) -> i32 {
        if !asked {
            return NOT_ASKED;
        }
        self.node.acls.operations(self.session.principal(), self.host, resource, name)
    }

    /// The same for the cluster: who may not see it learns that nothing is allowed.
    pub(crate) fn cluster_operations(&self, asked: bool) -> i32 {
        let hidden = asked && !self.allows_cluster(Operation::Describe);
        if hidden { 0 } else { self.operations(asked, Resource::Cluster, CLUSTER) }
    }

    /// What the client calls itself.
    pub(crate) fn client_id(&self) -> &str {
        RequestHead::parse(self.frame).ok().and_then(|head| head.client_id).unwrap_or_default()
    }

    /// Where the client is, as group coordinators write it.
    pub(crate) fn client_host(&self) -> String {
        format!("/{}", self.host)
    }
}

/// The member that speaks: the same fields begin several requests of groups.
pub(crate) fn member_identity<'a>(
    fields: &mut Fields<'a>,
    with_instance: bool,
) -> Result<Who<'a>, WireError> {
    Ok(Who {
        group: fields.string("group id")?,
        generation: fields.i32("generation id or member epoch")?,
        member: fields.string("member id")?,
        instance: if with_instance { fields.nullable_string("group instance id")? } else { None },
    })
}

/// Each once, in the order of the request: described over and over, a name of a few bytes would make an answer of
/// gigabytes.
pub(super) fn once<T: Hash + Eq + Copy>(mut all: Vec<T>) -> Vec<T> {
    let mut seen = HashSet::new();
    all.retain(|one| seen.insert(*one));
    all
}
