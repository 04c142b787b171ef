//! CreateAcls: new rules, each judged for itself.

use hone_kafka::WireError;

use super::k29_describe_acls::{refusal, unknown};
use super::{Attempt, Call, Outcome};
use crate::code;
use crate::mailbox::Reply;
use crate::protocol::{Answer, Fields};
use crate::security::acl::{Operation, Pattern, Permission, Resource, Rule};

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    let mut fields = call.fields();
    let mut asked = Vec::new();
    for _ in 0..fields.array("creations")? {
        asked.push(read_rule(&mut fields)?);
        fields.tags()?;
    }
    fields.tags()?;
    let failure = match &call.attempt {
        Attempt::Answered(Reply::Acls(done)) => {
            done.as_ref().err().map(|error| (code::KAFKA_STORAGE_ERROR, error.clone()))
        }
        _ => match refusal(call, Operation::Alter) {
            Some((error, message)) => Some((error, message.to_owned())),
            None => {
                let rules: Vec<Rule> = asked.iter().filter_map(|rule| rule.clone().ok()).collect();
                let add = |node: &crate::node::Node| {
                    Reply::Acls(node.acls.add(rules).map(|()| Vec::new()).map_err(|error| error.to_string()))
                };
                match call.aside(add) {
                    Some(parked) => return Ok(parked),
                    None => Some((code::KAFKA_STORAGE_ERROR, "no thread to write with".to_owned())),
                }
            }
        },
    };
    answer.i32(0);
    answer.array(asked.len());
    for rule in asked {
        let (error, message) = match (&failure, rule) {
            (Some((error, message)), _) => (*error, Some(message.clone())),
            (None, Err(message)) => (code::INVALID_REQUEST, Some(message)),
            (None, Ok(_)) => (code::NONE, None),
        };
        answer.i16(error);
        answer.nullable_string(message.as_deref());
        answer.tags();
    }
    answer.tags();
    Ok(Outcome::Reply)
}

/// A rule, or why it can't be one.
fn read_rule(fields: &mut Fields<'_>) -> Result<Result<Rule, String>, WireError> {
    let resource = fields.i8("resource type")?;
    let name = fields.string("resource name")?.to_owned();
    let pattern = fields.i8("pattern type")?;
    let principal = fields.string("principal")?.to_owned();
    let host = fields.string("host")?.to_owned();
    let operation = fields.i8("operation")?;
    let permission = fields.i8("permission type")?;
    Ok((|| {
        let rule = Rule {
            resource: Resource::from_number(resource).ok_or_else(|| unknown("resource type", resource))?,
            pattern: Pattern::from_number(pattern).ok_or_else(|| unknown("pattern type", pattern))?,
            name,
            principal,
            host,
            operation: Operation::from_number(operation).ok_or_else(|| unknown("operation", operation))?,
            permission: Permission::from_number(permission)
                .ok_or_else(|| unknown("permission type", permission))?,
        };
        rule.check().map(|()| rule)
    })())
}
