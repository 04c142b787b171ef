//! CreateAcls: new rules, each judged for itself.

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use super::k29_describe_acls::{refusal, unknown};
use super::resource::Refusal;
use crate::code;
use crate::protocol::{Answer, Fields};
use crate::security::acl::{Operation, Pattern, Permission, Resource, Rule};

/// A rule, or why it can't be one.
type Asked = Result<Rule, String>;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    if call.take_answer(answer) {
        return Ok(Outcome::Reply);
    }
    let mut fields = call.fields();
    let mut asked = Vec::new();
    for _ in 0..fields.array("creations")? {
        asked.push(read_rule(&mut fields)?);
        fields.tags()?;
    }
    fields.tags()?;
    if let Some((error, message)) = refusal(call, Operation::Alter) {
        write(answer, asked, Some((error, message.to_owned())));
        return Ok(Outcome::Reply);
    }
    Ok(call.by_clerk(move |node, answer| {
        let rules: Vec<Rule> = asked.iter().filter_map(|rule| rule.clone().ok()).collect();
        let added = node.acls.add(rules);
        write(answer, asked, added.err().map(|error| (code::KAFKA_STORAGE_ERROR, error.to_string())));
    }))
}

fn write(answer: &mut Answer<'_>, asked: Vec<Asked>, failure: Option<Refusal>) {
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
}

fn read_rule(fields: &mut Fields<'_>) -> Result<Asked, WireError> {
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
