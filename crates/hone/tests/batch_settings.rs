//! What `hone batch settings` writes is held against the clients themselves: a line that its client refuses is worse than none.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Output;

use serde_json::Value;

mod stage;
use stage::clients::{have, java_jars, program, python, works};
use stage::{Broker, hone};

/// Changes that differ in every setting; together they meet each value that has a word of its own.
const CHANGES: [&[&str]; 6] = [
    &["--linger", "20ms", "--batch-size", "64KiB", "--compression", "lz4"],
    &["--linger", "500us", "--partitioner", "murmur2", "--acks", "all", "--idempotence", "true"],
    &["--acks", "1", "--compression", "none", "--partitioner", "round-robin", "--in-flight", "10"],
    &["--acks", "0", "--compression", "gzip", "--buffer-memory", "64MiB"],
    &[
        "--linger",
        "0",
        "--compression",
        "zstd",
        "--partitioner",
        "sticky",
        "--in-flight",
        "3",
        "--idempotence",
        "false",
    ],
    &[
        "--linger",
        "1s",
        "--batch-size",
        "512",
        "--compression",
        "snappy",
        "--buffer-memory",
        "1GiB",
        "--producer-partitions",
        "12",
    ],
];

#[track_caller]
fn took(what: &str, lines: &[String], output: &Output) {
    let said = [&output.stdout[..], &output.stderr[..]].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{what} refuses:\n{}\n{said}", lines.join("\n"));
}

/// The lines of a client for each of the changes, by place.
fn lines(client: &str, place: &str) -> Vec<Vec<String>> {
    let of = |change: &&[&str]| {
        let ran =
            hone(&[&["batch", "settings", "--json", "--client", client], *change].concat()).expect_code(0);
        let sheet = &ran.json()["body"][0];
        let blocks = sheet["blocks"].as_array().unwrap();
        let block = blocks.iter().find(|block| block["place"].as_str().unwrap().contains(place));
        let text = |line: &Value| line.as_str().unwrap().to_owned();
        block.unwrap_or_else(|| panic!("{sheet}"))["lines"].as_array().unwrap().iter().map(text).collect()
    };
    CHANGES.iter().map(of).collect()
}

fn pairs(lines: &[String]) -> BTreeMap<String, String> {
    lines
        .iter()
        .map(|line| line.split_once('=').unwrap())
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

#[test]
fn librdkafka_takes_its_lines() {
    for lines in lines("librdkafka", "properties") {
        let mut config = rdkafka::ClientConfig::new();
        pairs(&lines).iter().for_each(|(name, value)| {
            config.set(name, value);
        });
        let made = config.create::<rdkafka::producer::BaseProducer>();
        assert!(made.is_ok(), "{lines:?}: {:?}", made.err());
        let native = config.create_native_config().unwrap();
        for (name, value) in pairs(&lines) {
            // It knows enumerations by its own names, and floats with a dot.
            let found = native.get(&name).unwrap();
            let same = found == value
                || found
                    .parse::<f64>()
                    .ok()
                    .zip(value.parse().ok())
                    .is_some_and(|(found, value): (f64, f64)| found == value)
                || (name == "acks" && (found.as_str(), value.as_str()) == ("-1", "all"));
            assert!(same, "{name}: {value} became {found}");
        }
    }
}

#[test]
fn the_java_client_takes_its_lines_as_code_and_as_properties() {
    let Some(jars) = java_jars() else { return };
    let folder = tempfile::tempdir().unwrap();
    let (code, properties) = (lines("java", "Java"), lines("java", "producer.properties"));
    let spring = lines("spring", "application.properties");
    let connect = lines("connect", "for one");
    let mut bodies = String::new();
    for (index, code) in code.iter().enumerate() {
        let stripped = |line: &String| line.strip_prefix("producer.override.").unwrap().to_owned();
        assert_eq!(connect[index].iter().map(stripped).collect::<Vec<_>>(), properties[index]);
        assert_eq!(spring[index].len(), properties[index].len());
        let text = properties[index].join("\\n");
        bodies.push_str(&format!(
            "{{ var properties = base();\n{}\ncheck(properties, \"{text}\"); }}\n",
            code.join("\n")
        ));
    }
    let source = folder.path().join("Lines.java");
    fs::write(
        &source,
        format!(
            "import java.io.StringReader; import java.util.Properties; import org.apache.kafka.clients.producer.*;
public class Lines {{
  static Properties base() {{
    var base = new Properties();
    base.put(\"bootstrap.servers\", \"127.0.0.1:1\");
    for (var of : new String[] {{\"key\", \"value\"}})
      base.put(of + \".serializer\", \"org.apache.kafka.common.serialization.ByteArraySerializer\");
    return base;
  }}
  static void check(Properties code, String text) throws Exception {{
    var lines = base();
    lines.load(new StringReader(text));
    if (!lines.equals(code)) throw new Exception(lines + \" and \" + code);
    for (var name : lines.stringPropertyNames())
      if (!ProducerConfig.configNames().contains(name)) throw new Exception(name + \" is no setting\");
    new KafkaProducer<byte[], byte[]>(lines).close(java.time.Duration.ZERO);
  }}
  public static void main(String[] words) throws Exception {{
{bodies}  }}
}}
"
        ),
    )
    .unwrap();
    let output =
        program("java").arg("-cp").arg(format!("{}/*", jars.display())).arg(&source).output().unwrap();
    took("kafka-clients", &code.concat(), &output);
}

#[test]
fn franz_go_and_sarama_take_their_lines() {
    if !have("Go", works(program("go").arg("version"))) {
        return;
    }
    let module = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/go");
    let (options, settings) = (lines("franz-go", "options"), lines("sarama", "Go"));
    for (options, settings) in options.iter().zip(&settings) {
        let folder = tempfile::tempdir().unwrap();
        for file in ["go.mod", "go.sum", "main.go"] {
            fs::copy(module.join(file), folder.path().join(file)).unwrap();
        }
        let lines = format!(
            "package main\n\nimport (\n\t\"time\"\n\n\t\"github.com/IBM/sarama\"\n\t\"github.com/twmb/franz-go/pkg/kgo\"\n)\n\n\
             var _ = time.Millisecond\n\nfunc options() []kgo.Opt {{\n\treturn []kgo.Opt{{\n{}\n\t}}\n}}\n\n\
             func configure(config *sarama.Config) {{\n{}\n}}\n",
            options.join("\n"),
            settings.join("\n")
        );
        fs::write(folder.path().join("lines.go"), lines).unwrap();
        let output =
            program("go").args(["run", "-mod=readonly", "."]).current_dir(folder.path()).output().unwrap();
        took("Go", &[&options[..], &settings[..]].concat(), &output);
    }
}

#[test]
fn kafka_python_takes_its_lines() {
    let Some(python) = python() else { return };
    let broker = Broker::start();
    let mut source = "from kafka import KafkaProducer\nfrom kafka.partitioner import DefaultPartitioner, StickyPartitioner\n".to_owned();
    let all = lines("kafka-python", "KafkaProducer");
    for lines in &all {
        // What only other clients have is no line here.
        source.push_str(&format!(
            "KafkaProducer(bootstrap_servers='{}',\n{}\n).close()\n",
            broker.address,
            lines.join("\n")
        ));
    }
    let output = program(python.to_str().unwrap()).args(["-c", &source]).output().unwrap();
    took("kafka-python", &all.concat(), &output);
}

#[test]
fn contradictions_and_values_that_are_none_are_usage_errors() {
    for (words, expected) in [
        (&["--idempotence", "true", "--acks", "1"][..], "idempotence needs acks=all"),
        (&["--linger", "5"], "--linger `5`: use a number with ms"),
        (&["--client", "jave", "--linger", "5ms"], "use one of java, librdkafka"),
        (&["--batch-size", "64kib"], "--batch-size `64kib`: use a whole number with B, KiB, MiB or GiB"),
        (&[], "nothing to change"),
    ] {
        hone(&[&["batch", "settings"], words].concat()).expect_code(2).expect_error(expected);
    }
}
