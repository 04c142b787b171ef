//! `hone optimize` on a Java service with real virtual machines: a cache is trained, used, and trained again when its jar changes. The rounds are far
//! too few for a verdict that means anything; what is tested is the way, and what the record says.

use std::fs;
use std::path::{Path, PathBuf};

use hone_record::{Envelope, JvmStarts, Optimization, VariantState};
use hone_tool::{Call, Runner as _, System};

mod stage;
use stage::tools::{jdks, of_checkout, skip};
use stage::{Ran, hone_in, processes_with};

const EXPERIMENT: &str = r#"
name = "orders"
[target]
kind = "jvm"
java = "JAVA"
options = [OPTIONS]
jar = "service.jar"
args = ["{port}"]
ready = { http = "/health" }
[optimize]
train = "few"
judge = ["more"]
variants = [VARIANTS]
[compare]
least_window_s = 0
counts = false
rounds = 5
block_rounds = 1
[workload.few]
command = "./drive.py {port} {operations} 1"
operations = 300
[workload.more]
command = "./drive.py {port} {operations} 2"
operations = 300
"#;

/// Without a compiler, so that a service is as warm as it gets at once.
const PLAIN: &str = r#""-Xmx64m", "-Xint", "-Dsun.net.httpserver.nodelay=true""#;

/// A folder with the example's service, compiled.
struct Shop(tempfile::TempDir);

impl Shop {
    fn new(javac: &Path) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let example = of_checkout("examples/java-service");
        for file in ["Service.java", "drive.py", "build.sh"] {
            fs::copy(example.join(file), dir.path().join(file)).unwrap();
        }
        let shop = Self(dir);
        shop.compile(javac);
        shop
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn compile(&self, home: &Path) {
        let runner = System::new(self.path("logs")).unwrap();
        let call = Call::new("compile", self.path("build.sh"), self.0.path()).env("JAVA_HOME", home);
        runner.run(&call).unwrap();
    }

    fn write(&self, java: &str, options: &str, variants: &str) {
        let text = EXPERIMENT.replace("JAVA", java).replace("OPTIONS", options).replace("VARIANTS", variants);
        fs::write(self.path("hone.toml"), text).unwrap();
    }

    fn hone(&self, more: &[&str]) -> Ran {
        hone_in(self.0.path(), &[&["optimize", "hone.toml", "-o", "runs"], more].concat())
    }

    /// A new run up to its caches.
    fn trained(&self) -> Ran {
        self.hone(&["--phase", "baseline"]).expect_code(0);
        self.hone(&["--phase", "train"]).expect_code(0)
    }

    fn judged(&self, number: u32) -> (Ran, Optimization) {
        let ran = self.hone(&[]);
        assert!([0, 3].contains(&ran.code), "{}\n{}", ran.stdout, ran.stderr);
        assert_eq!(processes_with(&self.path("service.jar").display().to_string()), Vec::<u32>::new());
        let record = self.path(&format!("runs/orders-{number:03}/optimization.json"));
        (ran, Envelope::parse(&fs::read_to_string(record).unwrap()).unwrap())
    }
}

fn starts<'a>(found: &'a Optimization, variant: &str) -> &'a JvmStarts {
    let account = found.jvm.as_ref().unwrap();
    account.starts.iter().find(|starts| starts.variant == variant).unwrap()
}

/// Each release makes its own kind of cache, and the record says how much of a start comes from it.
#[test]
fn a_cache_is_trained_proven_in_use_and_trained_again_when_its_jar_changes() {
    let jdks = jdks();
    let Some((_, compiler)) = jdks.first() else { return skip("a JDK in /usr/lib/jvm") };
    for (feature, home) in jdks.iter().filter(|(feature, _)| *feature >= 13) {
        let shop = Shop::new(compiler);
        shop.write(&home.display().to_string(), PLAIN, r#""aot", "serial""#);
        let (ran, found) = shop.judged(1);
        let account = found.jvm.as_ref().unwrap();
        assert!(account.jdk.starts_with(&format!("JDK {feature}.")), "{}", account.jdk);
        assert_eq!(account.flags["MaxHeapSize"], (64 << 20).to_string());
        let [cache] = &account.caches[..] else { panic!("{:?}", found.variants) };
        let [cached, all] = cache.classes;
        assert!(all > 300 && cached * 20 > all, "JDK {feature}: {cached} of {all}");
        assert!(Path::new(&cache.path).is_file() && cache.bytes > 10_000);
        assert_eq!(cache.trained_by, ["few"]);
        let own = starts(&found, "aot");
        assert!(own.command.contains(&cache.path) && own.ready_s.unwrap().ratio.is_some(), "{own:?}");
        assert!(starts(&found, "baseline").ready_cpu_s.unwrap().median > 0.05);
        assert!(starts(&found, "serial").command.contains("-XX:+UseSerialGC"));
        assert_eq!(found.comparisons.len(), 2);
        assert!(
            ran.stdout.contains("time to ready") && ran.stdout.contains("The virtual machine"),
            "{}",
            ran.stdout
        );

        // A second run takes it. JDK 25 would also take the cache of a jar that has changed; Hone does not.
        shop.trained().expect_error("which an earlier run has trained");
        let text = fs::read_to_string(shop.path("Service.java")).unwrap();
        fs::write(shop.path("Service.java"), text.replace("\"up\"", "\"well\"")).unwrap();
        shop.compile(compiler);
        let ran = shop.trained();
        assert!(!ran.stderr.contains("which an earlier run has trained"), "{}", ran.stderr);
        assert_ne!(hone_binary::lock::sha256_of(Path::new(&cache.path)).unwrap().0, cache.sha256);
    }
}

#[test]
fn what_can_not_be_is_told_before_anything_starts_or_left_out_with_its_reason() {
    let jdks = jdks();
    let Some((feature, home)) = jdks.first() else { return skip("a JDK in /usr/lib/jvm") };
    let java = home.display().to_string();
    let shop = Shop::new(home);
    let refused = |options: &str, variants: &str, code: i32, told: &str| {
        shop.write(&java, options, variants);
        shop.hone(&[]).expect_code(code).expect_error(told).expect_error("next:");
    };
    refused(PLAIN, r#""zgcc""#, 2, "did you mean `zgc`");
    refused(PLAIN, r#""heap=lots""#, 2, "invalid size `lots`: use a number");
    refused(
        r#""-Xms2g", "-Xmx1g""#,
        r#""serial""#,
        2,
        "-Xms2g and -Xmx1g of the target contradict each other",
    );
    refused(r#""-XX:+UseG1GC", "-XX:+UseSerialGC""#, r#""zgc""#, 2, "does not start with two collectors");
    shop.write("/bin/sh", PLAIN, r#""serial""#);
    shop.hone(&[]).expect_code(2).expect_error("belongs to no JDK");
    shop.write(&java, PLAIN, r#""serial""#);
    fs::rename(shop.path("service.jar"), shop.path("gone.jar")).unwrap();
    shop.hone(&[]).expect_code(1).expect_error("target.jar names ./service.jar, which does not exist");
    fs::rename(shop.path("gone.jar"), shop.path("service.jar")).unwrap();

    // The plan names the variants that this JDK does not have.
    shop.write(&java, PLAIN, r#""aot", "compact-headers""#);
    let plan = shop.hone(&["--dry-run"]).expect_code(0).stdout;
    assert!(plan.contains("-jar ") && plan.contains("trains a cache"), "{plan}");
    assert_eq!(plan.contains("compact-headers is left out: JDK"), *feature < 24, "{plan}");
}

/// The options, the jar and the port of a process become a file that `hone optimize` reads as it stands.
#[test]
fn a_running_service_gets_its_file() {
    let jdks = jdks();
    let Some((feature, home)) = jdks.first() else { return skip("a JDK in /usr/lib/jvm") };
    let shop = Shop::new(home);
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let runner = System::new(shop.path("logs")).unwrap();
    let call = Call::new("service", home.join("bin/java"), shop.0.path()).args([
        "-Xmx64m",
        "-XX:+UseSerialGC",
        "-jar",
        "service.jar",
        &port.to_string(),
    ]);
    let service = runner.start(&call).unwrap();
    while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let pid = service.pid().to_string();
    hone_in(shop.0.path(), &["init", "--pid", &pid]).expect_code(0);
    let text = fs::read_to_string(shop.path("hone.toml")).unwrap();
    assert!(text.contains("options = [\"-Xmx64m\", \"-XX:+UseSerialGC\"]"), "{text}");
    assert!(text.contains("args = [\"{port}\"]") && text.contains(&format!("# JDK {feature}.")), "{text}");
    let plan = hone_in(shop.0.path(), &["optimize", "hone.toml", "--dry-run"]).expect_code(0).stdout;
    assert!(plan.contains("service.jar") && plan.contains("-XX:+UseParallelGC"), "{plan}");
    hone_in(shop.0.path(), &["init", "--pid", &pid]).expect_code(1).expect_error("exists already");
    let own = std::process::id().to_string();
    let refused = hone_in(shop.0.path(), &["init", "--pid", &own, "-o", "own.toml"]).expect_code(2);
    refused.expect_error("and not a Java virtual machine");
}

/// A virtual machine that is killed as it stops writes no cache: the variant is left out, and the others are measured.
#[test]
fn a_cache_that_is_not_written_leaves_out_its_variant() {
    let jdks = jdks();
    let Some((_, home)) = jdks.last() else { return skip("a JDK in /usr/lib/jvm") };
    let shop = Shop::new(home);
    // Without its signal handlers, SIGTERM ends it at once.
    shop.write(&home.display().to_string(), &format!("{PLAIN}, \"-Xrs\""), r#""aot", "serial""#);
    let (_, found) = shop.judged(1);
    let left = found.variants.iter().find(|variant| variant.name == "aot").unwrap();
    let VariantState::LeftOut { why } = &left.state else { panic!("{left:?}") };
    assert!(why.contains("wrote no cache as it ended") && why.contains("SIGTERM"), "{why}");
    assert_eq!(found.comparisons.len(), 1);
}
