//! Real clients: their jars, programs and interpreters, built or found once.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use super::Broker;
use super::tools::{of_checkout, skip};

/// Whether a tool is there. A missing one is a printed skip, or a failure under HONE_REQUIRE_TOOLS=1.
pub fn have(what: &str, is_there: bool) -> bool {
    if !is_there {
        skip(&format!("{what} is not there"));
    }
    is_there
}

pub fn program(name: &str) -> Command {
    Command::new(name)
}

pub fn works(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}

/// The command line of the franz-go example, built once.
pub fn franz_go() -> Option<String> {
    static BUILT: OnceLock<Option<String>> = OnceLock::new();
    let build = || {
        if !have("Go", works(program("go").arg("version"))) {
            return None;
        }
        let binary = Path::new(env!("CARGO_TARGET_TMPDIR")).join("client-franz-go");
        let mut build = program("go");
        build
            .args(["build", "-mod=readonly", "-o"])
            .arg(&binary)
            .current_dir(of_checkout("examples/clients/franz-go"));
        let built = build.output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        Some(binary.display().to_string())
    };
    BUILT.get_or_init(build).clone()
}

/// The folder with the Java client's jars: those of script/bootstrap --test, or HONE_JAVA_JARS.
pub fn java_jars() -> Option<PathBuf> {
    let jars = std::env::var_os("HONE_JAVA_JARS").map_or_else(|| of_checkout(".hone/java"), PathBuf::from);
    let there = works(program("java").arg("-version")) && jars.join("kafka-clients.jar").is_file();
    have("Java with the jars of script/bootstrap --test", there).then_some(jars)
}

/// The Python with kafka-python.
pub fn python() -> Option<PathBuf> {
    let python =
        std::env::var_os("HONE_PYTHON").map_or_else(|| of_checkout(".hone/venv/bin/python"), PathBuf::from);
    let there = works(Command::new(&python).args(["-c", "import kafka"]));
    have("Python with kafka-python (script/bootstrap --test)", there).then_some(python)
}

/// What closes a batch is a matter of milliseconds, so tests that write don't disturb each other.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes topics whose acknowledgements don't wait for a disk, which would be one more thing that closes batches; `false` when
/// there is no Python with kafka-python.
pub fn make_topics_of_memory(broker: &Broker, topics: &[(&str, u32)]) -> bool {
    let program = "import sys\nfrom kafka.admin import KafkaAdminClient, NewTopic\n\
                   admin = KafkaAdminClient(bootstrap_servers=sys.argv[1])\n\
                   admin.create_topics([NewTopic(*(lambda n, p: (n, int(p), 1))(*one.split(':')), \
                   topic_configs={'write.caching': 'true'}) for one in sys.argv[2:]])";
    let wanted = topics.iter().map(|(name, partitions)| format!("{name}:{partitions}"));
    let Some(python) = python() else { return false };
    let made = Command::new(python).args(["-c", program, &broker.address]).args(wanted).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    true
}
