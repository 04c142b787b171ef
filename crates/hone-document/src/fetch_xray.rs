//! The consumers of a cluster, as text.

use hone_batch::fetch::xray::{FetchXray, Finding, GroupXray};
use hone_format::{bytes, count, counted, duration, measured, percent};

use crate::table::table;
use crate::wrapped;

/// The complete text.
pub fn text(found: &FetchXray) -> String {
    let mut out = format!("{}\n\n", wrapped(&headline(found)));
    if !found.groups.is_empty() {
        out.push_str(&table(&rows(found)));
    }
    for group in &found.groups {
        for finding in &group.findings {
            out.push_str(&format!("\n{}\n", wrapped(&format!("{}: {}", group.group, sentence(finding)))));
            out.push_str(&format!(
                "{}\n",
                wrapped(&format!("  next: {}", next(finding, group, &found.source)))
            ));
        }
    }
    for unknown in &found.unknown {
        out.push_str(&format!(
            "\n{}\n",
            wrapped(&format!("{}: not examined: {}", unknown.group, unknown.why))
        ));
    }
    if let Some(rate) = found.fetches {
        let size =
            rate.bytes_per_request.map_or_else(String::new, |size| format!(" of {}", bytes(size as u64)));
        out.push_str(&format!(
            "\n{}\n",
            wrapped(&format!(
                "All consumers: {} Fetch requests/s{size} on average.",
                measured(rate.requests_per_s)
            ))
        ));
        if found.has_small_fetches() {
            out.push_str(&format!(
                "{}\n",
                wrapped(&format!(
                    "  next: the answers are small; `hone fetch whatif {} TOPIC --consumers N` finds limits with fewer requests",
                    found.source
                ))
            ));
        }
    }
    let watched_s = found.groups.iter().map(|group| group.watched_s).fold(0.0, f64::max);
    let evidence = match found.groups.is_empty() {
        true => "  Evidence: none, because no group was examined.".to_owned(),
        false => format!("  Evidence: committed offsets and members over {}.", duration(watched_s)),
    };
    out.push_str(&format!("\n{evidence}\n"));
    out
}

fn headline(found: &FetchXray) -> String {
    let ill = found.groups.iter().filter(|group| !group.findings.is_empty());
    let worst = ill.clone().next().and_then(|group| Some((group, group.findings.first()?)));
    let groups = counted(found.groups.len() as u64, "group", "groups");
    match worst {
        Some((group, finding)) => format!(
            "{} of {groups} at {} with findings. {}: {}",
            ill.count(),
            found.source,
            group.group,
            sentence(finding)
        ),
        None if found.groups.is_empty() && found.unknown.is_empty() => {
            format!("{} has no consumer group.", found.source)
        }
        None if found.groups.is_empty() => format!("No group at {} could be examined.", found.source),
        None => format!("No findings for {groups} at {}.", found.source),
    }
}

fn rows(found: &FetchXray) -> Vec<Vec<String>> {
    let head = [
        "group",
        "state",
        "members",
        "partitions",
        "written/s",
        "read/s",
        "lag",
        "lag/s",
        "rebalances",
        "findings",
    ];
    let row = |group: &GroupXray| {
        vec![
            group.group.clone(),
            group.state.clone(),
            group.members.to_string(),
            group.partitions.to_string(),
            measured(group.written_per_s),
            measured(group.read_per_s),
            count(group.lag_records),
            signed(group.lag_per_s),
            group.rebalances.to_string(),
            group.findings.len().to_string(),
        ]
    };
    std::iter::once(head.map(str::to_owned).to_vec()).chain(found.groups.iter().map(row)).collect()
}

fn signed(value: f64) -> String {
    // A tenth of a record per second is the noise of the commits.
    match value.abs() < 0.1 {
        true => "0".to_owned(),
        false if value > 0.0 => format!("+{}", measured(value)),
        false => format!("-{}", measured(-value)),
    }
}

/// What is wrong.
fn sentence(finding: &Finding) -> String {
    let list = |names: &[String], count: usize| {
        let more = count.saturating_sub(names.len());
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        format!("{}{more}", names.join(", "))
    };
    match finding {
        Finding::DeletedUnread { records, partitions } => format!(
            "retention deleted {} before the group read them ({}).",
            counted(*records, "record", "records"),
            partitions.join(", ")
        ),
        Finding::NobodyReads => "there are unread records, and the group has no member.".to_owned(),
        Finding::Unassigned { partitions, count } => {
            format!("no member reads {}.", list(partitions, *count))
        }
        Finding::Stuck { partitions, count, members } => format!(
            "no progress on {}, although records arrive; read by {}.",
            list(partitions, *count),
            members.join(", ")
        ),
        Finding::SlowMember { member, read_per_s, written_per_s } => format!(
            "{member} reads {} of {} records/s; the other members keep up.",
            measured(*read_per_s),
            measured(*written_per_s)
        ),
        Finding::FallsBehind { lag_per_s } => {
            format!("the group is too slow: the lag grows by {} records/s.", measured(*lag_per_s))
        }
        Finding::Rebalances { per_minute } => {
            format!("{} rebalances a minute stop the members again and again.", measured(*per_minute))
        }
        Finding::SkewedPartition { partition, share, fair_share } => format!(
            "{partition} gets {} of the records; a fair share is {}.",
            percent(*share),
            percent(*fair_share)
        ),
        Finding::SkewedMember { member, share, fair_share } => {
            format!(
                "{member} gets {} of the records; a fair share is {}.",
                percent(*share),
                percent(*fair_share)
            )
        }
        Finding::ReadsOldRecords { age_s } => format!(
            "it reads records that are about {} old. Such reads often go to the disk, and they push newer records out of the page cache.",
            duration(age_s.round())
        ),
        Finding::IdleMembers { count } => {
            format!("{} no partition.", counted(*count as u64, "member has", "members have"))
        }
    }
}

/// What to do about it.
fn next(finding: &Finding, group: &GroupXray, source: &str) -> String {
    match finding {
        Finding::DeletedUnread { .. } => {
            "read faster, or raise retention.ms and retention.bytes of the topic".to_owned()
        }
        Finding::NobodyReads => "start its members, or delete the group if nobody needs it".to_owned(),
        Finding::Unassigned { .. } => "see why its members do not subscribe to the topic, or assign too few partitions".to_owned(),
        Finding::Stuck { .. } => "look at that application: it hangs, fails on a record again and again, or does not commit".to_owned(),
        Finding::SlowMember { .. } => {
            "compare that machine with the others (hone diagnose --pid), or give the group more members".to_owned()
        }
        Finding::FallsBehind { .. } if group.members < group.partitions => {
            format!("add members: {} can share its partitions", counted(group.partitions as u64, "member", "members"))
        }
        Finding::FallsBehind { .. } => {
            format!("make the application faster, or add partitions: each of the {} has a member", group.partitions)
        }
        Finding::Rebalances { .. } => "look for members that restart or take longer than max.poll.interval.ms; set group.instance.id, or use the cooperative or the KIP-848 protocol".to_owned(),
        Finding::SkewedPartition { .. } => format!("see which key or producer writes so much: hone batch xray {source} TOPIC"),
        Finding::SkewedMember { .. } => "spread the partitions by another assignor, or spread the keys".to_owned(),
        Finding::ReadsOldRecords { .. } => "let it catch up with more members, and limit it by a consumer quota if others suffer".to_owned(),
        Finding::IdleMembers { .. } => "stop those members, or add partitions".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use hone_batch::fetch::counters::FetchRate;
    use hone_batch::fetch::xray::UnknownGroup;

    use super::*;

    fn group(findings: Vec<Finding>) -> GroupXray {
        GroupXray {
            group: "billing".to_owned(),
            state: "Stable".to_owned(),
            watched_s: 60.0,
            members: 2,
            partitions: 4,
            written_per_s: 400.0,
            read_per_s: 300.0,
            lag_records: 6_000,
            lag_per_s: 100.0,
            rebalances: 0,
            findings,
        }
    }

    fn xray(groups: Vec<GroupXray>) -> FetchXray {
        FetchXray { source: "b:9092".to_owned(), groups, unknown: Vec::new(), fetches: None }
    }

    #[test]
    fn the_worst_finding_is_in_the_first_line_with_the_way_on() {
        let slow =
            Finding::SlowMember { member: "r on h".to_owned(), read_per_s: 70.0, written_per_s: 100.0 };
        let mut found = xray(vec![group(vec![slow]), group(Vec::new())]);
        found.fetches = Some(FetchRate { requests_per_s: 900.0, bytes_per_request: Some(300.0) });
        found.unknown =
            vec![UnknownGroup { group: "secret".to_owned(), why: "GROUP_AUTHORIZATION_FAILED".to_owned() }];
        let text = text(&found);
        let first = text.split("\n\n").next().unwrap().replace("\n  ", " ");
        assert!(
            first.starts_with("1 of 2 groups at b:9092 with findings. billing: r on h reads 70"),
            "{text}"
        );
        for wanted in [
            "next: compare that machine",
            "secret: not examined",
            "900 Fetch requests/s of 300 B",
            "hone fetch whatif b:9092",
        ] {
            assert!(text.contains(wanted), "no `{wanted}` in\n{text}");
        }
        assert!(text.ends_with("over 1 min.\n") || text.ends_with("over 60 s.\n"), "{text}");
    }

    #[test]
    fn no_group_and_no_finding_are_not_the_same() {
        assert!(text(&xray(vec![group(Vec::new())])).starts_with("No findings for 1 group at b:9092."));
        assert!(text(&xray(Vec::new())).starts_with("b:9092 has no consumer group."));
        let hidden = UnknownGroup { group: "secret".to_owned(), why: "x".to_owned() };
        let found = FetchXray { unknown: vec![hidden], ..xray(Vec::new()) };
        assert!(text(&found).starts_with("No group at b:9092 could be examined."));
    }
}
