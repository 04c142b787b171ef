//! `hone broker` has the flags of the program `hone-broker`.

mod stage;

use hone_broker::arguments::flags;
use hone_tool::{Call, Runner as _, System};
use stage::{Broker, hone, hone_command};

#[test]
fn the_help_tells_of_every_flag_of_the_room() {
    let help = hone(&["broker", "--help"]).expect_code(0).stdout;
    // Wrapped as the terminal is wide, and with a capital at the beginning.
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ").to_lowercase();
    for flag in flags() {
        let named = match flag.value_name {
            Some(value) => format!("--{} <{value}> {}", flag.name, flag.about.trim_end_matches('.')),
            None => format!("--{} {}", flag.name, flag.about.trim_end_matches('.')),
        };
        assert!(words.contains(&named.to_lowercase()), "wanted: {named}\n{help}");
        assert!(words.contains(&flag.remarks.to_lowercase()), "wanted: {}\n{help}", flag.remarks);
        assert!(words.contains(flag.default), "wanted: {}\n{help}", flag.default);
    }
}

#[test]
fn wrong_usage_is_code_2_and_says_what_is_wanted() {
    let refused = |more: &[&str], wanted: &str| {
        let quiet = ["broker", "--memory", "--listen", "127.0.0.1:0", "--metrics-listen", "off"];
        hone(&[&quiet[..], more].concat()).expect_code(2).expect_error(wanted);
    };
    hone(&["broker"])
        .expect_code(2)
        .expect_error("--data FOLDER is missing\n  next: add --data FOLDER, or --memory");
    refused(&["--data", "x"], "--data and --memory exclude each other");
    refused(&["--thread", "1"], "--threads");
    refused(&["--threads", "0"], "invalid --threads `0`: use a whole number from 1 to 1024");
    let partitions = "invalid --default-partitions `20000`: use a whole number from 1 to 10000";
    refused(&["--partitions", "20000"], partitions);
    refused(&["--default-partitions", "20000"], partitions);
    refused(&["--property", "num.partition=1"], "did you mean `num.partitions`?");
    refused(
        &["--authorize", "--superuser", "admin"],
        "--superuser admin has no type\n  next: use --superuser User:admin",
    );
    refused(&["--listen", "0.0.0.0:0"], "or add --insecure to do without both");
    refused(&["--tls-cert", "x"], "TLS needs both --tls-cert FILE and --tls-key FILE");
}

#[test]
fn properties_are_listed() {
    let page = hone(&["broker", "--list-properties"]).expect_code(0).stdout;
    assert!(page.contains("\nwrite_caching_default\n"), "{page}");
}

#[test]
fn flags_that_only_tests_need_are_taken_too() {
    let record = tempfile::tempdir().unwrap();
    let more = ["--max-request-bytes", "1000000", "--housekeeping-ms", "20", "--record-fsyncs"];
    let mut broker =
        Broker::start_as(hone_command().args([&["broker"][..], &more].concat()).arg(record.path()));
    assert!(broker.address.starts_with("127.0.0.1:"));
    assert!(record.path().join("fsyncs").exists());
    broker.signal(libc::SIGTERM);
    assert!(broker.child.wait().unwrap().success());
}

/// What walks its ways of errors does it no harm, and each kind of it is heard.
#[test]
fn a_broker_stands_what_provokes_it() {
    let mut broker = Broker::start();
    let provoked = hone_load::provoke(&broker.address, 5, || false).unwrap();
    assert!(provoked.connections >= 10 && provoked.answered >= 4, "{provoked:?}");
    assert!(broker.child.try_wait().unwrap().is_none(), "it has ended");
    hone_load::Admin::ready(&broker.address, std::time::Duration::from_secs(5)).unwrap();
}

/// A program with relocations that becomes this broker: one that was linked without them is refused before it runs.
fn linked_for_bolt(folder: &std::path::Path) -> Option<std::path::PathBuf> {
    let compiler = stage::tools::find("cc")?;
    let text = format!(
        "#include <unistd.h>\nint main(int count, char **words) {{ execv(\"{}\", words); return count > 99; }}\n",
        env!("CARGO_BIN_EXE_hone")
    );
    let (source, program) = (folder.join("becomes.c"), folder.join("becomes"));
    std::fs::write(&source, text).unwrap();
    let call = Call::new("compile", &compiler, folder).args(["-O1", "-Wl,--emit-relocs", "-o"]).arg(&program);
    System::new(folder.join("log")).unwrap().run(&call.arg(&source).produces(&program)).unwrap();
    Some(program)
}

/// Before anything is rewritten, and without being asked for.
#[test]
fn a_broker_that_bolt_is_to_rewrite_is_provoked_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let Some(program) = linked_for_bolt(dir.path()) else { return };
    let load = "requests_per_s = 200\nrecord_bytes = 100\nwarmup_requests = 20\nduration_s = 1\n";
    let text = format!(
        "name = \"plain\"\n[target]\nbinary = \"{}\"\n\
         args = [\"broker\", \"--listen\", \"127.0.0.1:{{port}}\", \"--metrics\", \"off\", \"--data\", \"{{data}}\"]\n\
         [optimize]\ntrain = \"train\"\njudge = [\"judge\"]\n[compare]\nlateness_limit_ms = 5000\n\
         [workload.train]\nseed = 7\n{load}[workload.judge]\nseed = 8\n{load}",
        program.display()
    );
    std::fs::write(dir.path().join("hone.toml"), text).unwrap();
    let ran = stage::hone_in(dir.path(), &["optimize", "hone.toml", "--phase", "baseline"]);
    if ran.stderr.contains("llvm-bolt not found") {
        assert!(std::env::var_os("HONE_REQUIRE_TOOLS").is_none_or(|value| value != "1"), "{}", ran.stderr);
        return;
    }
    ran.expect_code(0).expect_error("provoke-baseline").expect_error("times under load");
}
