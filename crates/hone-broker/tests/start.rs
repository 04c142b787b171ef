//! What a new user meets: how the program takes its arguments, and what it says when it can't start.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::net::TcpListener;
use std::path::Path;
use std::process::Stdio;

use hone_broker::arguments::flags;
use hone_broker::{Settings, SettingsError};
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::{DescribeConfigsRequest, MetadataRequest};
use support::acl::*;
use support::*;

/// Runs the program until it ends by itself: exit code, stdout, stderr.
fn run(arguments: &[&str]) -> (i32, String, String) {
    let output = program(env!("CARGO_BIN_EXE_hone-broker")).args(arguments).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// It ends with this code and one line, perhaps with the next step, that has all of these pieces.
#[track_caller]
fn check_refused(code: i32, arguments: &[&str], pieces: &[&str]) {
    let (found, said, errors) = run(arguments);
    assert_eq!((found, said.as_str()), (code, ""), "{errors}");
    let next: Vec<&str> = errors.lines().skip(1).collect();
    let is_clear = next.is_empty() || next.len() == 1 && next[0].starts_with("  next: ");
    assert!(!errors.is_empty() && is_clear, "one clear line, and the next step: {errors}");
    for piece in pieces {
        assert!(errors.contains(piece), "wanted: {piece}\n{errors}");
    }
}

/// A broker in memory, on free ports unless it is told otherwise.
const IN_MEMORY: [&str; 5] = ["--memory", "--listen", "127.0.0.1:0", "--metrics-listen", "off"];

#[track_caller]
fn check_refused_in_memory(code: i32, more: &[&str], pieces: &[&str]) {
    check_refused(code, &[&IN_MEMORY[..], more].concat(), pieces);
}

/// Starts the program over a folder, has a look at it, and tells what it has said by its end.
fn said_by(data: &Path, more: &[&str], look: impl FnOnce(&Process)) -> String {
    let path = data.with_extension("stderr");
    let broker = Process::start_with(data, more, Stdio::from(fs::File::create(&path).unwrap()));
    look(&broker);
    assert!(broker.terminate().success());
    fs::read_to_string(path).unwrap()
}

#[test]
fn the_help_tells_of_every_flag() {
    let (code, help, errors) = run(&["--help"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    for flag in flags() {
        let line = help.lines().find(|line| line.trim_start().starts_with(&format!("--{} ", flag.name)));
        let line = line.unwrap_or_else(|| panic!("no --{} in {help}", flag.name));
        assert!(line.contains(flag.about.trim_end_matches('.')) && line.contains(flag.default), "{line}");
        assert!(flag.value_name.is_none_or(|name| line.contains(name)), "{line}");
    }
}

#[test]
fn settings_that_can_not_be_meant_are_wrong_usage() {
    for (arguments, pieces) in [
        (&["--thread", "1"][..], &["did you mean --threads?"][..]),
        (
            &["--default-partitions", "20000"],
            &["invalid --default-partitions `20000`: use a whole number from 1 to 10000"],
        ),
        (&["--max-request-bytes", "1"], &["invalid --max-request-bytes `1`", "from 65536 to 2147483647"]),
        (&["--max-connections", "0"], &["invalid --max-connections `0`", "from 1 to 1000000"]),
        (&["--housekeeping-ms", "0"], &["invalid --housekeeping-ms `0`", "from 1 to 3600000"]),
        (&["--max-memory-bytes", "2000000"], &["too small for one request", "--max-request-bytes 33554432"]),
        (&["--property", "num.partition=1"], &["did you mean `num.partitions`?", "--list-properties"]),
        (
            &["--property", "num.partitions=0"],
            &["--property: invalid num.partitions `0`: use a number from 1 to 10000"],
        ),
        (&["--superuser", "User:a"], &["add --authorize"]),
        (
            &["--authorize", "--superuser", "admin"],
            &["--superuser admin has no type\n  next: use --superuser User:admin"],
        ),
        (&["--authorize"], &["--authorize needs a --superuser"]),
        (&["--sasl"], &["there is no user\n  next: add --user NAME:FILE"]),
    ] {
        check_refused_in_memory(2, arguments, pieces);
    }
}

#[test]
fn the_library_tells_wrong_settings_from_other_failures() {
    let mut settings = Settings { threads: 0, ..Settings::in_memory() };
    let error = hone_broker::Broker::start(settings.clone()).err().unwrap();
    assert!(error.is::<SettingsError>(), "{error:#}");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    (settings.threads, settings.listen) = (1, taken.local_addr().unwrap());
    let error = hone_broker::Broker::start(settings).err().unwrap();
    assert!(!error.is::<SettingsError>(), "{error:#}");
}

#[test]
fn the_list_of_properties_is_what_can_be_set() {
    let (code, page, errors) = run(&["--list-properties"]);
    assert_eq!((code, errors.as_str()), (0, ""));
    let listed: BTreeSet<&str> = page
        .lines()
        .skip(2)
        .filter(|line| !line.is_empty() && !line.starts_with(' '))
        .filter_map(|line| line.split(' ').next())
        .collect();
    let broker = hone_broker::Broker::start(Settings::in_memory()).unwrap();
    let of_broker = DescribeConfigsResource::default().with_resource_type(4).with_resource_name(text("1"));
    let request = DescribeConfigsRequest::default().with_resources(vec![of_broker]);
    let described = Client::connect(broker.kafka_addr()).call(4, &request);
    let configs = &described.results[0].configs;
    let settable: BTreeSet<&str> =
        configs.iter().filter(|config| !config.read_only).map(|config| config.name.as_str()).collect();
    assert!(settable.len() > 10 && settable.contains("write_caching_default"));
    assert_eq!(listed, settable);
    broker.stop().unwrap();
}

#[test]
fn clients_are_never_told_of_an_address_that_stands_for_all() {
    let everywhere = ["--memory", "--insecure", "--metrics-listen", "off", "--listen"];
    for address in ["0.0.0.0:0", "[::]:0"] {
        check_refused(2, &[&everywhere[..], &[address]].concat(), &[address, "--advertise HOST:"]);
    }
    check_refused_in_memory(
        2,
        &["--advertise", "0.0.0.0:9092"],
        &["--advertise 0.0.0.0:9092: no client can connect"],
    );
    let folder = tempfile::tempdir().unwrap();
    let more = ["--listen", "0.0.0.0:0", "--insecure", "--advertise", "localhost:0"];
    said_by(&folder.path().join("data"), &more, |broker| {
        let mut client = Client::connect(([127, 0, 0, 1], broker.kafka.port()).into());
        let told = client.call(9, &MetadataRequest::default().with_topics(None)).brokers[0].clone();
        assert_eq!((told.host.as_str(), told.port), ("localhost", i32::from(broker.kafka.port())));
    });
}

#[test]
fn lists_without_a_login_are_refused_unless_they_allow_something() {
    let lists = ["--authorize", "--superuser", "User:admin"];
    check_refused_in_memory(2, &lists, &["User:ANONYMOUS", "--sasl --user NAME:FILE", "--tls-client-ca"]);
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    assert_eq!(said_by(&data, &["--authorize", "--superuser", ANONYMOUS], |_| ()), "");
    let refused = [
        &["--listen", "127.0.0.1:0", "--metrics-listen", "off", "--data", data.to_str().unwrap()],
        &lists[..],
    ]
    .concat();
    check_refused(2, &refused, &["every client is User:ANONYMOUS without rights"]);
    prepare(&data, vec![literal(TOPIC, "t", READ)]);
    assert_eq!(said_by(&data, &lists, |_| ()), "", "a rule for everybody is enough");
}

#[test]
fn a_super_user_without_a_password_is_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let password = folder.path().join("password");
    fs::write(&password, "secret\n").unwrap();
    let alice = format!("alice:{}", password.display());
    let start = |super_user: &str| {
        let more = ["--sasl", "--user", &alice, "--authorize", "--superuser", super_user];
        said_by(&folder.path().join("data"), &more, |_| ())
    };
    let said = start("User:admin");
    assert!(said.contains("User:admin has no password; add one with --user NAME:FILE"), "{said}");
    assert_eq!(start("User:alice"), "");
}

#[test]
fn metrics_for_other_machines_are_asked_for_and_told_of() {
    let everywhere = ["--memory", "--listen", "127.0.0.1:0", "--metrics-listen", "0.0.0.0:0"];
    check_refused(
        2,
        &everywhere,
        &["--metrics-listen 0.0.0.0:0 is open to other machines", "--open-metrics"],
    );
    let folder = tempfile::tempdir().unwrap();
    let said = said_by(
        &folder.path().join("data"),
        &["--metrics-listen", "0.0.0.0:0", "--open-metrics"],
        |broker| {
            let local = ([127, 0, 0, 1], broker.metrics.port()).into();
            assert!(http_get(local, "/ready").ends_with("ready\n"));
        },
    );
    assert!(said.contains("the metrics on 0.0.0.0:0 are open to other machines"), "{said}");
    let named = ["--listen", "localhost:0", "--metrics-listen", "localhost:0"];
    said_by(&folder.path().join("named"), &named, |broker| {
        assert!(broker.kafka.ip().is_loopback() && broker.metrics.ip().is_loopback());
    });
}

#[test]
fn what_is_not_to_be_had_is_told_with_the_flag_and_the_next_step() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("file"), "").unwrap();
    let on = |data: &str, pieces: &[&str]| {
        check_refused(1, &["--listen", "127.0.0.1:0", "--metrics-listen", "off", "--data", data], pieces);
    };
    on(&path("file"), &["file (--data) is not a folder\n  next: use another path"]);
    on(&path("file/below"), &["can't create the data folder", "(--data): "]);
    fs::create_dir_all(path("users/users.json")).unwrap();
    on(&path("users"), &["can't read the users in", "users.json (check the file's permissions)"]);
    for (name, next) in [("acls.json", "to begin without rules"), ("quotas.json", "to begin without quotas")]
    {
        fs::create_dir(path(name)).unwrap();
        fs::write(path(&format!("{name}/{name}")), "{").unwrap();
        on(&path(name), &["can't read", name, next]);
    }

    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    check_refused(
        1,
        &["--memory", "--metrics-listen", "off", "--listen", &taken],
        &[
            &format!("can't listen on {taken} (--listen): another program uses this port"),
            "(0 picks a free one)",
        ],
    );
    check_refused(
        1,
        &["--memory", "--listen", "127.0.0.1:0", "--metrics-listen", &taken],
        &[&format!("can't listen on {taken} (--metrics-listen): another program uses this port")],
    );
    let strange = ["--memory", "--metrics-listen", "off", "--insecure", "--listen", "192.0.2.1:0"];
    let (code, _, errors) = run(&strange);
    assert!(code == 1 && errors.contains("(--listen): this machine has no such address"), "{errors}");
}

#[test]
fn papers_that_do_not_fit_are_told_by_file_and_flag() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (certificate, key, other) = (path("cert.pem"), path("key.pem"), path("other.pem"));
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&key, made.signing_key.serialize_pem()).unwrap();
    fs::write(&other, rcgen::KeyPair::generate().unwrap().serialize_pem()).unwrap();
    let none = path("none.pem");
    let refused = |certificate: &str, key: &str, more: &[&str], pieces: &[&str]| {
        let given = [&["--tls-cert", certificate, "--tls-key", key], more].concat();
        check_refused_in_memory(1, &given, pieces);
    };
    refused(&none, &key, &[], &["can't read", "none.pem", "(--tls-cert)"]);
    refused(&certificate, &none, &[], &["can't read", "none.pem", "(--tls-key)"]);
    refused(&key, &key, &[], &["there is no certificate in", "key.pem", "(--tls-cert)"]);
    refused(&certificate, &certificate, &[], &["cert.pem (--tls-key)", "private key"]);
    refused(
        &certificate,
        &other,
        &[],
        &["cert.pem (--tls-cert)", "other.pem (--tls-key)", "needs its own key"],
    );
    refused(&certificate, &key, &["--tls-client-ca", &none], &["none.pem", "(--tls-client-ca)"]);
    check_refused_in_memory(2, &["--tls-cert", &certificate], &["both --tls-cert FILE and --tls-key FILE"]);
}

#[test]
fn a_reader_of_the_ready_line_may_go_away() {
    let mut child = program(env!("CARGO_BIN_EXE_hone-broker"))
        .args(IN_MEMORY)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 6];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    assert_eq!(&first, b"ready ");
    assert!(program("kill").arg(child.id().to_string()).status().unwrap().success());
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty());
}
