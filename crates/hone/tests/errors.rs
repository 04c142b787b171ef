//! Errors that users provoke have one shape: what failed and where, why in the words of the field, and `next:` as the last line.

use std::fs;
use std::path::Path;

mod stage;
use stage::{Broker, hone_in};

/// Words of the libraries behind the program. No user has to know them.
const FOREIGN: [&str; 12] = [
    "invalid float literal",
    "invalid digit",
    "expected a sequence",
    "expected ident",
    "expected u32",
    "expected u64",
    "expected f64",
    "expected a map",
    "unknown field",
    "missing field",
    "os error",
    "error: ",
];

/// Command lines that fail without any broker, with the exit code and a part of what failed. `|` is between words.
const PROVOKED: [(&str, i32, &str); 56] = [
    ("lod", 2, "`hone` has no verb `lod`"),
    ("load|--ratee|5|b:1", 2, "`hone load` has no argument `--ratee`"),
    ("load", 2, "`hone load` needs BROKER"),
    ("load|b:1|--duration|5x", 2, "--duration `5x`: use a number with ms, s, m or h"),
    ("load|b:1|--duration", 2, "--duration: the value is missing"),
    ("load|b:1|--rate|fast", 2, "--rate `fast`: use a number above zero"),
    ("load|b:1|--rate|0", 2, "0 sends nothing, so it needs `consumers`"),
    ("load|b:1|--records|many", 2, "--records `many`: use a whole number"),
    ("load|b:1|--bytes|1x", 2, "--bytes `1x`"),
    ("load|b:1|--acks|2", 2, "--acks `2`"),
    ("load|b:1|--schedule|poison", 2, "unknown word `poison`"),
    ("load|b:1|--schedule|ramp", 2, "ramp:5000"),
    ("load|b:1|--keys|zipf", 2, "zipf:1000"),
    ("load|b:1|--sizes|uniform:50", 2, "uniform:50-500"),
    ("load|b:1|--compressible|5", 2, "did you mean `5%`?"),
    ("load|b:1|--client-set|linger", 2, "KEY=VALUE"),
    ("load|b:1|--topic-config|x", 2, "KEY=VALUE"),
    ("load|b:1|--require|p99~3ms", 2, "p99~3ms"),
    ("load|b:1|--idle|1ms", 2, "--idle `1ms`"),
    ("load|b:1|--shard|4/4|--store|x", 2, "--shard `4/4`"),
    ("load|b:1|--sasl-mechanism|GSSAPI|--sasl-user|a", 2, "--sasl-mechanism `GSSAPI`: use one of PLAIN"),
    ("load|b:1|--sasl-mechanism|PLAIN", 2, "--sasl-user"),
    ("load|b:1|--connection|nope", 2, "unknown connection `nope`"),
    ("load|b:1|--connection|nope.toml", 1, "nope.toml"),
    ("load|b:1|--file|nope.toml", 1, "nope.toml"),
    ("load|127.0.0.1:1", 1, "no connection to 127.0.0.1:1"),
    ("load|here", 2, "`here`"),
    ("compare", 2, "`hone compare` needs A and B"),
    ("compare|a:1|b:1|--mode|both", 2, "--mode `both`: use one of solo, duet"),
    ("compare|a:1|b:1|--budget|soon", 2, "--budget"),
    ("compare|a:1|b:1|--effect|much", 2, "--effect"),
    ("compare|a:1|b:1|--primary|p98", 2, "--primary `p98`: use one of cpu-per-record"),
    ("compare|a:1|b:1|--pairs|two", 2, "--pairs `two`: use a whole number"),
    ("compare|a:1|b:1|--budget|5m|--pairs|9", 2, "--budget does not go with --pairs"),
    ("compare|a:1|--change|x", 2, "`x`"),
    ("compare|no1.json|no2.json", 1, "no1.json"),
    ("compare|--resume|none", 1, "there is no run folder none"),
    ("compare|--resume", 1, "there is no run of `hone compare`"),
    ("tune", 2, "`hone tune` needs FILE"),
    ("tune|nope.toml", 1, "nope.toml"),
    ("optimize|nope.toml", 1, "nope.toml"),
    ("report|nope.json", 1, "nope.json"),
    ("profile|show|nope.profdata", 1, "nope.profdata"),
    ("profile|merge|a|b|-o|c", 1, "a: No such file"),
    ("diagnose|--read|nope", 1, "nope"),
    ("heatmap|nope", 1, "nope"),
    ("batch|xray", 2, "no broker is named"),
    ("batch|xray|--segments|nope", 1, "nope"),
    ("batch|whatif|b:1", 2, "no topic is named"),
    ("batch|xray|b:1|--read-limit|256", 2, "--read-limit `256`: use at least 1 MiB"),
    ("batch|settings|--linger|5x", 2, "--linger `5x`"),
    ("batch|prove|--steps|nope.toml", 1, "nope.toml"),
    ("host|lint|nope.md", 1, "nope.md"),
    ("host|apply|nope.json", 1, "nope.json"),
    ("ledger|show|nope", 1, "there is no ledger nope"),
    ("merge|nope.json", 1, "nope.json"),
];

#[track_caller]
fn check(folder: &Path, words: &[&str], code: i32, failed: &str) {
    let ran = hone_in(folder, words).expect_code(code).expect_error(failed);
    let line = words.join(" ");
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert!(lines[0].starts_with("hone: "), "{line}: {}", ran.stderr);
    let next = lines.iter().filter(|line| line.trim_start().starts_with("next: ")).count();
    assert!(next >= 1, "{line}: no next step\n{}", ran.stderr);
    assert!(
        lines.last().unwrap().starts_with("  next: "),
        "{line}: the next step is not last\n{}",
        ran.stderr
    );
    for word in FOREIGN {
        assert!(!ran.stderr.contains(word), "{line}: `{word}`\n{}", ran.stderr);
    }
}

#[test]
fn provoked_errors_have_one_shape() {
    let folder = tempfile::tempdir().unwrap();
    for (line, code, failed) in PROVOKED {
        let words: Vec<&str> = line.split('|').collect();
        check(folder.path(), &words, code, failed);
    }
}

/// Files with a mistake: the error names the file and the line.
#[test]
fn files_with_mistakes_are_named_with_their_line() {
    let folder = tempfile::tempdir().unwrap();
    for (verb, text, failed) in [
        (
            &["tune", "x.toml"][..],
            "name = \"x\"\n[tune]\nbudget = 30\n[workload.a]\n",
            "x.toml:3: 30 is a whole number; write a text",
        ),
        (
            &["tune", "x.toml"],
            "name = \"x\"\n[tune]\nbogus = 1\n[workload.a]\n",
            "x.toml:3: unknown key `bogus`",
        ),
        (&["optimize", "x.toml"], "name = \"x\"\n[target]\nbogus = 1\n", "x.toml:3: unknown key `bogus`"),
        (
            &["load", "--file", "x.toml"],
            "[workload]\nrecords_per_batch = \"two\"\n",
            "x.toml:2: \"two\" is a text; write a whole number",
        ),
        (
            &["load", "b:1", "--connection", "x.toml"],
            "bootstrap = 1\n",
            "x.toml:1: 1 is a whole number; write a list",
        ),
        (
            &["batch", "prove", "--steps", "x.toml"],
            "[[step]]\nset = 5\n",
            "x.toml:2: 5 is a whole number; write a text",
        ),
        (
            &["tune", "x.toml"],
            "name = \"x\"\n[tune]\n[[tune.candidate]]\nset = 5\n[workload.a]\n",
            "x.toml:4: write a text, or a list of texts",
        ),
        (
            &["host", "plan", "x.toml"],
            "about = \"a\"\n[[knobs]]\nname = 5\n",
            "x.toml:3: 5 is a whole number; write a text",
        ),
        (
            &["host", "plan", "x.toml"],
            "about = \"a\"\n[[knobs]]\nname = \"vm.swappiness\"\n",
            "the key `value` is missing",
        ),
        (
            &["host", "rollout", "x.toml", "--profile", "latency", "--bootstrap", "b:1", "--dry-run"],
            "[[hosts]]\nname = \"a\"\ncolor = \"red\"\n",
            "x.toml:3: unknown key `color`",
        ),
    ] {
        fs::write(folder.path().join("x.toml"), text).unwrap();
        check(folder.path(), verb, 2, failed);
    }
}

#[test]
fn what_a_broker_refuses_ends_with_a_next_step() {
    let broker = Broker::start();
    let folder = tempfile::tempdir().unwrap();
    check(folder.path(), &["batch", "whatif", &broker.address, "nope"], 1, "nope");
    check(folder.path(), &["load", &broker.address, "--topic", "a b"], 1, "a b");
    check(folder.path(), &["load", &broker.address, "--tls"], 1, "TLS");
}
