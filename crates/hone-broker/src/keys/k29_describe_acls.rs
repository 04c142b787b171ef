//! DescribeAcls: the rules that a filter takes.

use std::collections::BTreeMap;

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use crate::code;
use crate::protocol::{Answer, Fields};
use crate::security::acl::{
    Filter, Operation, Pattern, PatternFilter, Permission, Resource, Rule, canonical_host,
};

/// "Any" in the protocol's numbers.
const ANY: i8 = 1;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let mut fields = call.fields();
    let filter = read_filter(&mut fields)?;
    fields.tags()?;
    let found = match (refusal(call, Operation::Describe), filter) {
        (Some((error, message)), _) => Err((error, message.to_owned())),
        (None, Err(message)) => Err((code::INVALID_REQUEST, message)),
        (None, Ok(filter)) => Ok(call.node.acls.find(&filter)),
    };
    answer.i32(0);
    match found {
        Ok(rules) => {
            answer.i16(code::NONE);
            answer.nullable_string(None);
            write_resources(answer, &rules);
        }
        Err((error, message)) => {
            answer.i16(error);
            answer.nullable_string(Some(&message));
            answer.array(0);
        }
    }
    answer.tags();
    Ok(Outcome::Reply)
}

/// The reason why the client can neither see nor change rules, if there is one.
pub(super) fn refusal(call: &Call<'_>, operation: Operation) -> Option<(i16, &'static str)> {
    if !call.node.acls.are_enforced() {
        return Some((code::SECURITY_DISABLED, "authorization is off; start the broker with --authorize"));
    }
    let denied = !call.allows_cluster(operation);
    denied.then_some((code::CLUSTER_AUTHORIZATION_FAILED, "not allowed on the cluster"))
}

/// A filter, or what it asks for that does not exist.
pub(super) fn read_filter(fields: &mut Fields<'_>) -> Result<Result<Filter, String>, WireError> {
    let resource = fields.i8("resource type filter")?;
    let name = fields.nullable_string("resource name filter")?.map(str::to_owned);
    let pattern = fields.i8("pattern type filter")?;
    let principal = fields.nullable_string("principal filter")?.map(str::to_owned);
    let host = fields.nullable_string("host filter")?.map(|host| canonical_host(host.to_owned()));
    let operation = fields.i8("operation")?;
    let permission = fields.i8("permission type")?;
    Ok((|| {
        Ok(Filter {
            resource: one_or_any("resource type", resource, Resource::from_number)?,
            pattern: PatternFilter::from_number(pattern).ok_or_else(|| unknown("pattern type", pattern))?,
            name,
            principal,
            host,
            operation: one_or_any("operation", operation, Operation::from_number)?,
            permission: one_or_any("permission type", permission, Permission::from_number)?,
        })
    })())
}

fn one_or_any<T>(what: &str, number: i8, from_number: impl Fn(i8) -> Option<T>) -> Result<Option<T>, String> {
    match number {
        ANY => Ok(None),
        _ => from_number(number).map(Some).ok_or_else(|| unknown(what, number)),
    }
}

pub(super) fn unknown(what: &str, number: i8) -> String {
    format!("there is no {what} {number}")
}

fn write_resources(answer: &mut Answer<'_>, rules: &[Rule]) {
    let mut resources: BTreeMap<(Resource, Pattern, &str), Vec<&Rule>> = BTreeMap::new();
    for rule in rules {
        resources.entry((rule.resource, rule.pattern, &rule.name)).or_default().push(rule);
    }
    answer.array(resources.len());
    for ((resource, pattern, name), rules) in resources {
        answer.i8(resource.number());
        answer.string(name);
        answer.i8(pattern.number());
        answer.array(rules.len());
        for rule in rules {
            answer.string(&rule.principal);
            answer.string(&rule.host);
            answer.i8(rule.operation.number());
            answer.i8(rule.permission.number());
            answer.tags();
        }
        answer.tags();
    }
}
