//! `hone host rollout` over three hosts with sshd and a real Apache Kafka of three nodes: each host is a network namespace, whose
//! `net.*` settings are its own and the kernel's real ones. Success, harm on the canary, a controller that is killed.
//!
//! Only with HONE_LONG=1: it wants root, sshd, three JVMs and some minutes. The jars come from `bench/kafka.sh fetch`.

#![expect(clippy::disallowed_methods, reason = "tests start brokers and sshd as their users do")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

mod stage;
use stage::Ran;
use stage::tools::{find, of_checkout, skip};

const HOSTS: usize = 3;
const SSH_PORT: u16 = 2222;
const KAFKA_PORT: u16 = 9092;
const CONTROLLER_PORT: u16 = 9093;

/// A private network of its own namespaces: a hub with a bridge, from which the roll-out is driven, and three hosts.
struct Network {
    /// Names are told apart by the process, so that tests may run beside each other.
    tag: String,
}

fn ip(arguments: &[&str]) -> Output {
    Command::new("ip").args(arguments).output().unwrap()
}

fn ip_ok(arguments: &[&str]) {
    let output = ip(arguments);
    assert!(output.status.success(), "ip {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
}

impl Network {
    fn make() -> Option<Self> {
        let network = Self { tag: format!("hone{}", std::process::id()) };
        let hub = network.hub();
        let made = ip(&["netns", "add", &hub]);
        if !made.status.success() {
            skip(&format!("no network namespace: {}", String::from_utf8_lossy(&made.stderr)));
            return None;
        }
        ip_ok(&["-n", &hub, "link", "set", "lo", "up"]);
        ip_ok(&["-n", &hub, "link", "add", "br0", "type", "bridge"]);
        ip_ok(&["-n", &hub, "addr", "add", "10.213.0.254/24", "dev", "br0"]);
        ip_ok(&["-n", &hub, "link", "set", "br0", "up"]);
        for at in 0..HOSTS {
            let (space, port) = (network.space(at), format!("port{at}"));
            ip_ok(&["netns", "add", &space]);
            ip_ok(&[
                "-n", &hub, "link", "add", &port, "type", "veth", "peer", "name", "eth0", "netns", &space,
            ]);
            ip_ok(&["-n", &hub, "link", "set", &port, "master", "br0", "up"]);
            ip_ok(&["-n", &space, "addr", "add", &format!("{}/24", address(at)), "dev", "eth0"]);
            ip_ok(&["-n", &space, "link", "set", "eth0", "up"]);
            ip_ok(&["-n", &space, "link", "set", "lo", "up"]);
        }
        Some(network)
    }

    fn hub(&self) -> String {
        format!("{}-hub", self.tag)
    }

    fn space(&self, at: usize) -> String {
        format!("{}-{at}", self.tag)
    }

    /// A program inside of a namespace, not started yet.
    fn inside(space: &str, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", space, program]).stdin(Stdio::null());
        command
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for at in 0..HOSTS {
            ip(&["netns", "del", &self.space(at)]);
        }
        ip(&["netns", "del", &self.hub()]);
    }
}

fn address(at: usize) -> String {
    format!("10.213.0.{}", at + 1)
}

/// Processes that end with the test.
struct Running(Vec<Child>);

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// The network, its daemons and its brokers.
struct Lab {
    brokers: Vec<Child>,
    _daemons: Running,
    network: Network,
    folder: tempfile::TempDir,
}

impl Lab {
    fn start() -> Option<Self> {
        // SAFETY: always succeeds.
        if unsafe { libc::geteuid() } != 0 {
            skip("network namespaces with real settings want root");
            return None;
        }
        for tool in ["ip", "ssh", "ssh-keygen", "java"] {
            find(tool)?;
        }
        let sshd = Path::new("/usr/sbin/sshd");
        let libs = of_checkout(".hone/kafka/4.3.1");
        if !sshd.exists() || !libs.is_dir() {
            skip("sshd or Apache Kafka is missing: script/bootstrap --test");
            return None;
        }
        let network = Network::make()?;
        let folder = tempfile::tempdir().unwrap();
        let daemons = Running((0..HOSTS).map(|at| daemon(&network, folder.path(), at, sshd)).collect());
        let mut lab = Self { brokers: Vec::new(), _daemons: daemons, network, folder };
        for at in 0..HOSTS {
            lab.make_root(at);
        }
        lab.write_inventory();
        lab.start_kafka(&libs);
        Some(lab)
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn root(&self, at: usize) -> PathBuf {
        self.path().join(format!("root{at}"))
    }

    /// Journals and files of the next boot lie here; `net.*` is the kernel's own, and another one in each namespace.
    fn make_root(&self, at: usize) {
        for (path, text) in [
            ("proc/sys/kernel/random/boot_id", "first-boot\n"),
            ("proc/sys/kernel/osrelease", "6.1.0\n"),
            ("proc/self/mountinfo", "22 1 259:1 / / rw - ext4 /dev/nvme0n1p1 rw\n"),
            ("proc/meminfo", "SwapTotal:             0 kB\n"),
        ] {
            let path = self.root(at).join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        std::os::unix::fs::symlink("/proc/sys/net", self.root(at).join("proc/sys/net")).unwrap();
    }

    fn write_inventory(&self) {
        let key = self.path().join("key");
        let mut text = format!(
            "[defaults]\nssh = [\"-F\", \"/dev/null\", \"-p\", \"{SSH_PORT}\", \"-i\", \"{}\", \"-oIdentitiesOnly=yes\", \
             \"-oStrictHostKeyChecking=no\", \"-oUserKnownHostsFile=/dev/null\", \"-oLogLevel=ERROR\"]\n",
            key.display()
        );
        for at in 0..HOSTS {
            text += &format!(
                "[[hosts]]\nname = \"root@{}\"\nroot = \"{}\"\n",
                address(at),
                self.root(at).display()
            );
        }
        fs::write(self.path().join("hosts.toml"), text).unwrap();
        for (name, value) in [("good", "2048"), ("evil", "6666")] {
            let wish = |knob: &str, value: &str| {
                format!("[[knobs]]\nname = \"{knob}\"\nvalue = \"{value}\"\nreason = \"r\"\nsource = \"s\"\n")
            };
            let text = format!(
                "about = \"{name}\"\n{}{}",
                wish("net.core.somaxconn", value),
                wish("net.ipv4.tcp_max_syn_backlog", "1500")
            );
            fs::write(self.path().join(format!("{name}.toml")), text).unwrap();
        }
    }

    fn start_kafka(&mut self, libs: &Path) {
        let java = |arguments: &[&str]| {
            let mut words = vec!["-Xmx320m".to_owned(), "-XX:+UseSerialGC".to_owned(), "-cp".to_owned()];
            words.push(format!("{}/*", libs.display()));
            words.extend(arguments.iter().map(|word| (*word).to_owned()));
            words
        };
        for at in 0..HOSTS {
            let properties = self.path().join(format!("{at}.properties"));
            fs::write(&properties, self.properties(at)).unwrap();
            let properties = properties.to_str().unwrap();
            let format = [
                "-XX:TieredStopAtLevel=1",
                "kafka.tools.StorageTool",
                "format",
                "-t",
                "MkU3OEVBNTcwNTJENDM2Qk",
                "-c",
                properties,
            ];
            let formatted = Command::new("java").args(java(&format)).output().unwrap();
            assert!(formatted.status.success(), "{}", String::from_utf8_lossy(&formatted.stderr));
        }
        for at in 0..HOSTS {
            let log = fs::File::create(self.path().join(format!("{at}.log"))).unwrap();
            let mut command = Network::inside(&self.network.space(at), "java");
            let properties = self.path().join(format!("{at}.properties"));
            command.args(java(&["kafka.Kafka", properties.to_str().unwrap()]));
            self.brokers.push(command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap());
        }
        let until = Instant::now() + Duration::from_secs(240);
        // As soon as it is well, with some topics' worth of patience.
        loop {
            let ran = self.hone(&[
                "--gate-only",
                "--bootstrap",
                &self.bootstrap(),
                "--no-canary",
                "--baseline-duration",
                "2s",
                "--health-timeout",
                "20s",
            ]);
            if ran.code == 0 && ran.stdout.matches("broker ").count() >= HOSTS {
                break;
            }
            assert!(Instant::now() < until, "Kafka does not serve: {}{}", ran.stdout, ran.stderr);
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    fn properties(&self, at: usize) -> String {
        let voters: Vec<String> =
            (0..HOSTS).map(|node| format!("{}@{}:{CONTROLLER_PORT}", node + 1, address(node))).collect();
        let (own, id, data) = (address(at), at + 1, self.path().join(format!("data{at}")));
        format!(
            "process.roles=broker,controller\nnode.id={id}\ncontroller.quorum.voters={}\nbroker.rack=rack{at}\n\
             listeners=PLAINTEXT://{own}:{KAFKA_PORT},CONTROLLER://{own}:{CONTROLLER_PORT}\n\
             advertised.listeners=PLAINTEXT://{own}:{KAFKA_PORT}\ncontroller.listener.names=CONTROLLER\n\
             inter.broker.listener.name=PLAINTEXT\nlistener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n\
             log.dirs={}\nmin.insync.replicas=2\ndefault.replication.factor=3\nnum.network.threads=2\nnum.io.threads=2\n\
             offsets.topic.num.partitions=1\nauto.create.topics.enable=false\n",
            voters.join(","),
            data.display(),
        )
    }

    fn bootstrap(&self) -> String {
        (0..HOSTS).map(|at| format!("{}:{KAFKA_PORT}", address(at))).collect::<Vec<_>>().join(",")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Network::inside(&self.network.hub(), env!("CARGO_BIN_EXE_hone"));
        command.args(["host", "rollout"]).args(arguments).current_dir(self.path());
        command
    }

    fn hone(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    fn roll(&self, profile: &str, soak: &str) -> Command {
        let mut command =
            self.command(&["hosts.toml", "--profile", profile, "--bootstrap", &self.bootstrap()]);
        command.args([
            "--soak",
            soak,
            "--baseline-duration",
            "10s",
            "--poll-interval",
            "500ms",
            "--lease",
            "20s",
            "--tolerance",
            "3",
        ]);
        command
    }

    fn value(&self, at: usize, name: &str) -> String {
        let output = Network::inside(&self.network.space(at), "cat")
            .arg(format!("/proc/sys/net/{name}"))
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn values(&self) -> Vec<String> {
        (0..HOSTS)
            .map(|at| {
                format!("{} {}", self.value(at, "core/somaxconn"), self.value(at, "ipv4/tcp_max_syn_backlog"))
            })
            .collect()
    }

    /// While the first host's namespace has this value, its broker stands still for most of each second.
    fn curse(&self, at: usize, value: &str) -> Running {
        let pid = self.brokers[at].id();
        let script = format!(
            "while :; do if [ \"$(cat /proc/sys/net/core/somaxconn)\" = {value} ]; then kill -STOP {pid}; sleep 0.8; kill -CONT {pid}; fi; sleep 0.1; done"
        );
        let mut command = Network::inside(&self.network.space(at), "sh");
        Running(vec![command.args(["-c", &script]).spawn().unwrap()])
    }

    /// By Kafka's own tool.
    fn quorum_leader(&self) -> usize {
        let mut command = Network::inside(&self.network.hub(), "java");
        let libs = of_checkout(".hone/kafka/4.3.1");
        command.args(["-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", &format!("{}/*", libs.display())]);
        command.args([
            "org.apache.kafka.tools.MetadataQuorumCommand",
            "--bootstrap-server",
            &self.bootstrap(),
        ]);
        let ran = Ran::of(command.args(["describe", "--status"]).output().unwrap()).expect_code(0);
        let line = ran
            .stdout
            .lines()
            .find_map(|line| line.strip_prefix("LeaderId:"))
            .unwrap_or_else(|| panic!("{}", ran.stdout));
        line.trim().parse().unwrap()
    }

    fn thaw(&self) {
        for broker in &self.brokers {
            // SAFETY: the child has not been waited for.
            unsafe { libc::kill(broker.id() as i32, libc::SIGCONT) };
        }
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.thaw();
        for broker in &mut self.brokers {
            let _ = broker.kill();
            let _ = broker.wait();
        }
    }
}

/// sshd of a host, with keys and settings of its own.
fn daemon(network: &Network, folder: &Path, at: usize, sshd: &Path) -> Child {
    let path = |name: &str| folder.join(name).display().to_string();
    let key = |name: &str| {
        if !folder.join(name).exists() {
            let made = Command::new("ssh-keygen")
                .args(["-q", "-t", "ed25519", "-N", "", "-f", &path(name)])
                .status()
                .unwrap();
            assert!(made.success());
        }
    };
    key("key");
    key("host_key");
    // Where sshd separates its privileges; Debian's unit makes it.
    fs::create_dir_all("/run/sshd").unwrap();
    let settings = format!(
        "Port {SSH_PORT}\nListenAddress {}\nHostKey {}\nPidFile none\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\n\
         PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin prohibit-password\nAllowTcpForwarding no\n",
        address(at),
        path("host_key"),
        path("key.pub"),
    );
    let file = folder.join(format!("sshd{at}"));
    fs::write(&file, settings).unwrap();
    let log = fs::File::create(folder.join(format!("sshd{at}.log"))).unwrap();
    // A /var/lib of its own, so that each host gets its own copy of the program.
    let own = folder.join(format!("var{at}"));
    fs::create_dir_all(&own).unwrap();
    let mut command = Network::inside(&network.space(at), "sh");
    command.args(["-c", "mount --bind \"$1\" /var/lib && exec \"$2\" -D -e -f \"$3\"", "sh"]).arg(own);
    command.arg(sshd).arg(file).stderr(log).spawn().unwrap()
}

#[track_caller]
fn waits_for(what: &str, is: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(120);
    while !is() {
        assert!(Instant::now() < until, "{what} did not come");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
#[expect(clippy::print_stderr, reason = "a test that does not run must say so")]
fn three_hosts_of_a_real_cluster() {
    if std::env::var_os("HONE_LONG").is_none() {
        eprintln!("skipped: three JVMs and some minutes are for HONE_LONG=1");
        return;
    }
    let Some(lab) = Lab::start() else { return };
    let before = lab.values();

    // Before anything: who would come when. The controller of KRaft is last, whoever it is.
    let dry = Ran::of(lab.roll("good.toml", "12s").arg("--dry-run").output().unwrap()).expect_code(0);
    assert_eq!(lab.values(), before);
    let gates = lab
        .hone(&["--gate-only", "--bootstrap", &lab.bootstrap(), "--no-canary", "--baseline-duration", "2s"])
        .expect_code(0);
    let controller = gates.stdout.lines().find(|line| line.contains(", controller")).unwrap();
    let controller: usize = controller.split_whitespace().nth(1).unwrap().parse().unwrap();
    let order: Vec<usize> = dry
        .stdout
        .lines()
        .filter_map(|line| line.split_once(", broker ")?.1.split(',').next()?.trim().parse().ok())
        .collect();
    assert_eq!((order.len(), order[HOSTS - 1]), (HOSTS, controller), "{}", dry.stdout);
    let canary = order[0] - 1;
    // Somebody else's choice comes first, and the controller last all the same.
    let chosen = order[1];
    let name = dry.stdout.lines().find_map(|line| line.split_once(&format!(", broker {chosen}"))).unwrap().0;
    let name = name.trim().rsplit(' ').next().unwrap();
    let other = lab.roll("good.toml", "12s").args(["--dry-run", "--canary", name]).output().unwrap();
    let other = Ran::of(other).expect_code(0).stdout;
    let first = other.lines().find(|line| line.contains(", broker ")).unwrap();
    assert!(first.contains(&format!("{name}, broker {chosen}")), "{other}");
    assert_eq!(controller, lab.quorum_leader(), "Kafka's own tool names another controller");

    // Harm on the canary: halted, and that host is as it was. The copy of the program goes over the line here.
    let curse = lab.curse(canary, "6666");
    let ran = Ran::of(lab.roll("evil.toml", "30s").output().unwrap()).expect_code(3);
    drop(curse);
    lab.thaw();
    assert!(ran.stdout.contains("worse") && ran.stdout.contains("rolled back"), "{}", ran.stdout);
    assert!(ran.stdout.contains("0 hosts keep their change"), "{}", ran.stdout);
    assert_eq!(lab.values(), before);

    // The controller is killed while the canary soaks.
    let mut child = lab.roll("good.toml", "10m").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    waits_for("the change", || lab.value(canary, "core/somaxconn") == "2048");
    // `ip netns exec` becomes the program: this is hone itself.
    child.kill().unwrap();
    child.wait().unwrap();
    waits_for("the way back", || lab.values() == before);

    // All three.
    let ran = Ran::of(lab.roll("good.toml", "12s").output().unwrap()).expect_code(0);
    assert!(ran.stdout.contains("Done: 3 hosts keep their change"), "{}", ran.stdout);
    assert_eq!(lab.values(), vec!["2048 1500"; HOSTS]);
    assert!(lab.root(0).join("etc/sysctl.d/99-zz-hone.conf").exists());
    let run = lab.path().join("runs/rollout-003");
    let undone = lab.hone(&["--rollback", run.to_str().unwrap()]).expect_code(0);
    assert_eq!(undone.stdout.matches("all values are restored").count(), HOSTS, "{}", undone.stdout);
    assert_eq!(lab.values(), before);
    assert!(!lab.root(0).join("etc/sysctl.d/99-zz-hone.conf").exists());
    let copies = fs::read_dir(lab.path().join("var0/hone/bin")).unwrap().count();
    assert_eq!(copies, 0, "the copy of the program is left behind");
}
