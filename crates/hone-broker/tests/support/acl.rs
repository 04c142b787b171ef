//! Rules on the wire, and brokers that ask for them.

use std::path::Path;

use hone_broker::Broker;
use hone_kafka::Codec;
use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::messages::{CreateAclsRequest, DeleteAclsRequest, MetadataRequest};

use super::*;

// The protocol's numbers.
pub(crate) const TOPIC: i8 = 2;
pub(crate) const GROUP: i8 = 3;
pub(crate) const CLUSTER: i8 = 4;
pub(crate) const TRANSACTIONAL_ID: i8 = 5;
pub(crate) const LITERAL: i8 = 3;
pub(crate) const PREFIXED: i8 = 4;
pub(crate) const ANY: i8 = 1;
pub(crate) const MATCH: i8 = 2;
pub(crate) const ALLOW: i8 = 3;
pub(crate) const DENY: i8 = 2;
pub(crate) const READ: i8 = 3;
pub(crate) const WRITE: i8 = 4;
pub(crate) const CREATE: i8 = 5;
pub(crate) const DELETE: i8 = 6;
pub(crate) const ALTER: i8 = 7;
pub(crate) const DESCRIBE: i8 = 8;
pub(crate) const DESCRIBE_CONFIGS: i8 = 10;
pub(crate) const ALTER_CONFIGS: i8 = 11;
pub(crate) const IDEMPOTENT_WRITE: i8 = 12;

const DELEGATION_TOKEN: i8 = 6;

pub(crate) const ANONYMOUS: &str = "User:ANONYMOUS";

/// A broker for which whoever connects without a name is a super user.
pub(crate) fn administered(folder: &Path) -> Broker {
    broker_with(folder, |settings| {
        settings.authorize = true;
        settings.super_users = vec![ANONYMOUS.to_owned()];
    })
}

/// The same for everyone else: whoever connects must be allowed.
pub(crate) fn guarded(folder: &Path) -> Broker {
    broker_with(folder, |settings| {
        settings.authorize = true;
        settings.super_users = vec!["User:admin".to_owned()];
        settings.group_initial_delay_ms = 0;
    })
}

pub(crate) fn creation(resource: i8, name: &str, pattern: i8, operation: i8, permission: i8) -> AclCreation {
    AclCreation::default()
        .with_resource_type(resource)
        .with_resource_name(text(name))
        .with_resource_pattern_type(pattern)
        .with_principal(text(ANONYMOUS))
        .with_host(text("*"))
        .with_operation(operation)
        .with_permission_type(permission)
}

pub(crate) fn literal(resource: i8, name: &str, operation: i8) -> AclCreation {
    creation(resource, name, LITERAL, operation, ALLOW)
}

/// Writes rules with a broker that lets anyone do so; the topic `t` is there afterwards.
///
/// One rule more is about nothing that there is: without any that allows something a broker without logins does not start.
pub(crate) fn prepare(folder: &Path, mut rules: Vec<AclCreation>) {
    rules.push(literal(DELEGATION_TOKEN, "unused", DESCRIBE));
    let broker = administered(folder);
    let mut client = Client::connect(broker.kafka_addr());
    let existing = client.call(9, &MetadataRequest::default().with_topics(None)).topics.len();
    if existing == 0 {
        assert_eq!(create(&mut client, "t", &[]).0, 0);
        assert_eq!(produce(&mut client, "t", batch(Codec::None, &["first"])).error_code, 0);
    }
    let all = DeleteAclsFilter::default()
        .with_resource_type_filter(ANY)
        .with_pattern_type_filter(ANY)
        .with_operation(ANY)
        .with_permission_type(ANY)
        .with_resource_name_filter(None)
        .with_principal_filter(None)
        .with_host_filter(None);
    let deleted = client.call(3, &DeleteAclsRequest::default().with_filters(vec![all]));
    assert_eq!(deleted.filter_results[0].error_code, 0);
    let made = client.call(3, &CreateAclsRequest::default().with_creations(rules));
    assert!(made.results.iter().all(|result| result.error_code == 0), "{made:?}");
    broker.stop().unwrap();
}
