//! DeleteAcls: removes the rules that match the filters, and lists them.

use hone_kafka::WireError;

use super::call::{Call, Outcome};
use super::k29_describe_acls::{read_filter, refusal};
use super::resource::Refusal;
use crate::code;
use crate::protocol::Answer;
use crate::security::acl::{Filter, Operation, Rule};

/// The broker compares each filter with every rule, and lists the matches of each.
const MOST_FILTERS: usize = 1000;

pub(crate) fn serve(call: &mut Call<'_>, answer: &mut Answer<'_>) -> Result<Outcome, WireError> {
    if call.take_answer(answer) {
        return Ok(Outcome::Reply);
    }
    let mut fields = call.fields();
    let mut asked = Vec::new();
    for _ in 0..fields.array("filters")? {
        asked.push(read_filter(&mut fields)?);
        fields.tags()?;
    }
    fields.tags()?;
    if asked.len() > MOST_FILTERS {
        let message = format!("{} filters in one request; use at most {MOST_FILTERS}", asked.len());
        write(answer, asked, Err((code::INVALID_REQUEST, message)));
        return Ok(Outcome::Reply);
    }
    if let Some((error, message)) = refusal(call, Operation::Alter) {
        write(answer, asked, Err((error, message.to_owned())));
        return Ok(Outcome::Reply);
    }
    Ok(call.by_clerk(move |node, answer| {
        let filters: Vec<Filter> = asked.iter().filter_map(|filter| filter.clone().ok()).collect();
        let removed = node.acls.remove(&filters);
        write(answer, asked, removed.map_err(|error| (code::KAFKA_STORAGE_ERROR, error.to_string())));
    }))
}

fn write(
    answer: &mut Answer<'_>,
    asked: Vec<Result<Filter, String>>,
    removed: Result<Vec<Vec<Rule>>, Refusal>,
) {
    answer.i32(0);
    answer.array(asked.len());
    let (mut removed, failure) = match removed {
        Ok(removed) => (removed.into_iter(), None),
        Err(failure) => (Vec::new().into_iter(), Some(failure)),
    };
    for filter in asked {
        let (error, message, rules) = match (&failure, filter) {
            (Some((error, message)), _) => (*error, Some(message.clone()), Vec::new()),
            (None, Err(message)) => (code::INVALID_REQUEST, Some(message), Vec::new()),
            // Only good filters were carried out, in their order.
            (None, Ok(_)) => (code::NONE, None, removed.next().unwrap_or_default()),
        };
        answer.i16(error);
        answer.nullable_string(message.as_deref());
        write_rules(answer, &rules);
        answer.tags();
    }
    answer.tags();
}

fn write_rules(answer: &mut Answer<'_>, rules: &[Rule]) {
    answer.array(rules.len());
    for rule in rules {
        answer.i16(code::NONE);
        answer.nullable_string(None);
        answer.i8(rule.resource.number());
        answer.string(&rule.name);
        answer.i8(rule.pattern.number());
        answer.string(&rule.principal);
        answer.string(&rule.host);
        answer.i8(rule.operation.number());
        answer.i8(rule.permission.number());
        answer.tags();
    }
}
