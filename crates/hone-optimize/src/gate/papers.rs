//! A gate's result in the formats of CI systems: JUnit XML and SARIF 2.1.0. Pure.

use hone_record::{CommitGate, GateFinding, GateOutcome, GateState};
use quick_xml::Writer;
use quick_xml::events::BytesText;
use serde_json::{Value, json};

use hone_report::gate as show;

/// The result of a run.
#[derive(Debug, Clone, Copy)]
pub enum Came<'a> {
    /// The gate's record.
    Found(&'a CommitGate),
    /// The run failed: nothing was built, or no program sustained the load.
    Failed {
        /// The experiment's name, if known.
        name: &'a str,
        /// The experiment file, by its path in the repository.
        file: &'a str,
        /// The reason.
        error: &'a str,
    },
}

/// One case per finding: worse is a failure, a metric without data is skipped, a failed run is an error.
///
/// # Errors
/// Never fails for texts; the writer's interface requires it.
pub fn junit(came: Came<'_>) -> std::io::Result<String> {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    let name = match came {
        Came::Found(found) => found.name.as_str(),
        Came::Failed { name, .. } => name,
    };
    let suite = clean(&format!("hone gate {name}"));
    let count =
        |wanted: &[Kind]| cases(came).iter().filter(|case| wanted.contains(&case.kind)).count().to_string();
    let (failures, errors, skipped) =
        (count(&[Kind::Failure]), count(&[Kind::Error]), count(&[Kind::Skipped]));
    let all = cases(came);
    let total = all.len().to_string();
    let counts = [
        ("name", suite.as_str()),
        ("tests", total.as_str()),
        ("failures", failures.as_str()),
        ("errors", errors.as_str()),
    ];
    writer.create_element("testsuites").with_attributes(counts).write_inner_content(|writer| {
        let suite = writer.create_element("testsuite").with_attributes(counts);
        suite
            .with_attribute(("skipped", skipped.as_str()))
            .write_inner_content(|writer| all.iter().try_for_each(|case| case.write(writer)))?;
        Ok(())
    })?;
    let body = String::from_utf8_lossy(&writer.into_inner()).into_owned();
    Ok(format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n{body}\n"))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Passed,
    Failure,
    Error,
    Skipped,
}

struct Case {
    class: String,
    name: String,
    time_s: f64,
    kind: Kind,
    /// After a case that did not pass: its message; after one that passed: its output.
    message: String,
    text: String,
}

impl Case {
    fn write(&self, writer: &mut Writer<Vec<u8>>) -> std::io::Result<()> {
        let time = format!("{:.3}", self.time_s);
        let attributes =
            [("classname", self.class.as_str()), ("name", self.name.as_str()), ("time", time.as_str())];
        let case = writer.create_element("testcase").with_attributes(attributes);
        let tag = match self.kind {
            Kind::Passed => "system-out",
            Kind::Failure => "failure",
            Kind::Error => "error",
            Kind::Skipped => "skipped",
        };
        case.write_inner_content(|writer| {
            let inner = writer.create_element(tag);
            let inner = match self.kind {
                Kind::Passed => inner,
                _ => inner.with_attribute(("message", self.message.as_str())),
            };
            inner.write_text_content(BytesText::new(&self.text))?;
            Ok(())
        })?;
        Ok(())
    }
}

fn cases(came: Came<'_>) -> Vec<Case> {
    match came {
        Came::Failed { name, error, .. } => vec![Case {
            class: clean(name),
            name: "gate".to_owned(),
            time_s: 0.0,
            kind: Kind::Error,
            message: clean(error.lines().next().unwrap_or_default()),
            text: clean(error),
        }],
        Came::Found(found) if found.findings.is_empty() => vec![Case {
            class: clean(&found.name),
            name: "program".to_owned(),
            time_s: 0.0,
            kind: Kind::Passed,
            message: String::new(),
            text: clean(&show::sentence(found)),
        }],
        Came::Found(found) => found.findings.iter().map(|finding| case(found, finding)).collect(),
    }
}

fn case(found: &CommitGate, finding: &GateFinding) -> Case {
    let comparison = found.comparisons.iter().find(|one| one.workload.name == finding.workload);
    let pairs = comparison.map(|one| one.pairs.as_slice()).unwrap_or_default();
    let kind = match finding.state {
        _ if found.failures().any(|failed| failed == finding) => match found.outcome {
            GateOutcome::TooLittlePower | GateOutcome::NotSeen => Kind::Error,
            _ => Kind::Failure,
        },
        GateState::NotSeen => Kind::Skipped,
        _ => Kind::Passed,
    };
    let told = clean(&show::finding(found, finding));
    Case {
        class: clean(&format!("{}.{}", found.name, finding.workload)),
        name: finding.metric.name().to_owned(),
        // All metrics come from the same pairs.
        time_s: if finding.primary { pairs.iter().map(|pair| pair.took_s).sum() } else { 0.0 },
        kind,
        message: told.clone(),
        text: clean(&format!("{told}\n{}", finding.why)),
    }
}

/// Removes characters that XML 1.0 does not allow: compilers print colour codes.
fn clean(text: &str) -> String {
    let is_known = |letter: &char| {
        matches!(letter, '\t' | '\n' | '\r') || (*letter >= ' ' && !matches!(letter, '\u{fffe}' | '\u{ffff}'))
    };
    text.chars().filter(is_known).collect()
}

/// The schema of the file.
const SCHEMA: &str =
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json";

/// One result per failing metric, at the line of the experiment file that asks for its load. No line of the sources can be blamed, so the
/// result names none.
pub fn sarif(came: Came<'_>) -> Value {
    let (name, results, notifications) = match came {
        Came::Found(found) => {
            let results: Vec<Value> = found.failures().map(|finding| result(found, finding)).collect();
            (found.name.as_str(), results, Vec::new())
        }
        Came::Failed { name, file, error } => {
            let location = json!({"physicalLocation": {"artifactLocation": artifact(file)}});
            let told = json!({"level": "error", "message": {"text": clean(error)}, "locations": [location]});
            (name, Vec::new(), vec![told])
        }
    };
    let mut metrics: Vec<&GateFinding> = Vec::new();
    if let Came::Found(found) = came {
        for finding in &found.findings {
            if !metrics.iter().any(|known| known.metric == finding.metric) {
                metrics.push(finding);
            }
        }
    }
    let rules: Vec<Value> = metrics.into_iter().map(rule).collect();
    json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": {"driver": {
                "name": "hone gate",
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "rules": rules,
            }},
            "automationDetails": {"id": format!("hone-gate/{name}/")},
            "columnKind": "unicodeCodePoints",
            "invocations": [{
                "executionSuccessful": matches!(came, Came::Found(_)),
                "toolExecutionNotifications": notifications,
            }],
            "results": results,
        }],
    })
}

fn rule_id(finding: &GateFinding) -> String {
    format!("gate/{}", finding.metric.name())
}

fn rule(finding: &GateFinding) -> Value {
    let label = finding.metric.label();
    json!({
        "id": rule_id(finding),
        "shortDescription": {"text": format!("{label} of a commit, compared with its base")},
        "fullDescription": {"text": format!(
            "Fails if {label} is worse than at the base, by {} or more. Hone builds base and head alike and \
             loads them in pairs on one machine.",
            hone_format::exact_percent(finding.worse_by)
        )},
        "defaultConfiguration": {"level": "error"},
    })
}

fn result(found: &CommitGate, finding: &GateFinding) -> Value {
    let region = finding.line.map_or_else(|| json!({"startLine": 1}), |line| json!({"startLine": line}));
    let level = if finding.state == GateState::Worse { "error" } else { "warning" };
    json!({
        "ruleId": rule_id(finding),
        "level": level,
        "kind": "fail",
        "message": {"text": clean(&show::finding(found, finding))},
        "locations": [{"physicalLocation": {"artifactLocation": artifact(&found.file), "region": region}}],
        "partialFingerprints": {
            "honeGate/v1": format!("{}/{}/{}", found.name, finding.workload, finding.metric.name()),
        },
    })
}

/// A URI relative to the root of the sources.
fn artifact(file: &str) -> Value {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~/".contains(byte);
    let uri: String = file
        .bytes()
        .map(|byte| if is_plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect();
    json!({"uri": uri, "uriBaseId": "%SRCROOT%"})
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_experiment::fixture::gate;

    #[test]
    fn each_outcome_has_its_place_in_junit() {
        use GateOutcome::{NotSeen, Passed, SameProgram, TooLittlePower, Worse};
        for (outcome, state, counts, tag) in [
            (Worse, GateState::Worse, "failures=\"1\" errors=\"0\"", "<failure message="),
            (Passed, GateState::Held, "failures=\"0\" errors=\"0\"", "<system-out>"),
            (Passed, GateState::NotSeen, "failures=\"0\" errors=\"0\"", "<skipped message="),
            (TooLittlePower, GateState::NotShown, "failures=\"0\" errors=\"1\"", "<error message="),
            (NotSeen, GateState::NotSeen, "failures=\"0\" errors=\"1\"", "<error message="),
            (SameProgram, GateState::Held, "failures=\"0\" errors=\"0\"", "byte for byte"),
        ] {
            let text = junit(Came::Found(&gate(outcome, state))).unwrap();
            assert!(text.contains("tests=\"1\"") && text.contains(counts) && text.contains(tag), "{text}");
        }
    }

    #[test]
    fn what_a_compiler_says_stays_xml() {
        let error = "error: \u{1b}[31m`a < b && c` is \"no\"\u{0} number ]]>";
        let text = junit(Came::Failed { name: "x", file: "hone.toml", error }).unwrap();
        let mut reader = quick_xml::Reader::from_str(&text);
        let mut said = String::new();
        loop {
            match reader.read_event().unwrap() {
                quick_xml::events::Event::Eof => break,
                quick_xml::events::Event::Text(part) => said.push_str(&part.decode().unwrap()),
                quick_xml::events::Event::GeneralRef(part) => said.push_str(&part.decode().unwrap()),
                _ => {}
            }
        }
        assert!(said.contains("number") && !text.contains('\u{1b}') && !text.contains('\u{0}'), "{text}");
    }

    #[test]
    fn sarif_names_the_file_and_no_line_of_the_sources() {
        let log = sarif(Came::Found(&gate(GateOutcome::Worse, GateState::Worse)));
        let results = log["runs"][0]["results"].as_array().unwrap();
        let place = &results[0]["locations"][0]["physicalLocation"];
        assert_eq!((results.len(), &place["artifactLocation"]["uri"]), (1, &"load/hone.toml".into()));
        assert_eq!(place["region"]["startLine"], 12);
        assert_eq!(results[0]["ruleId"], log["runs"][0]["tool"]["driver"]["rules"][0]["id"]);
        let passed = sarif(Came::Found(&gate(GateOutcome::Passed, GateState::Held)));
        assert_eq!(passed["runs"][0]["results"], json!([]));
        assert_eq!(artifact("my load/ä.toml")["uri"], "my%20load/%C3%A4.toml");
    }
}
