//! A cold JVM: its first seconds cost several times what it costs once it is warm. The warm-up lasts until then, and a window that does not wait
//! for it is called what it is.

#![expect(clippy::disallowed_methods, reason = "tests start servers as their users do")]

use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

mod stage;
use stage::tools::{of_checkout, skip};
use stage::{Broker, free_port, hone_command, hone_in};

/// A JVM in front of a broker; both are killed on drop.
struct Front {
    java: Child,
    address: String,
    _broker: Broker,
}

impl Drop for Front {
    fn drop(&mut self) {
        let _ = self.java.kill();
        let _ = self.java.wait();
    }
}

/// The compiled class; `None` where no JDK is there.
fn compiled(folder: &Path) -> Option<()> {
    let source = of_checkout("crates/hone/tests/warm/Front.java");
    let Ok(made) = Command::new("javac").arg("-d").arg(folder).arg(source).output() else {
        skip("javac is not there");
        return None;
    };
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    Some(())
}

fn cold(folder: &Path) -> Front {
    let port = free_port().to_string();
    let address = format!("127.0.0.1:{port}");
    let broker = Broker::start_as(hone_command().args(["broker", "--advertise", &address]));
    let behind = broker.address.rsplit_once(':').unwrap().1;
    let java = Command::new("java")
        .args(["-Xmx128m", "-XX:+UseSerialGC", "-cp"])
        .arg(folder)
        .args(["Front", &port, behind])
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while TcpStream::connect(&address).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(60), "the JVM does not listen");
        std::thread::sleep(Duration::from_millis(50));
    }
    Front { java, address, _broker: broker }
}

fn cpu_us_per_record(window: &serde_json::Value) -> f64 {
    let facts = &window["body"]["facts"];
    facts["target_cpu"]["total_s"].as_f64().unwrap() * 1e6 / facts["acked_records"].as_f64().unwrap()
}

#[test]
fn a_cold_jvm_is_warmed_up_until_it_is_steady_and_a_cold_window_is_not_called_so() {
    let folder = tempfile::tempdir().unwrap();
    let Some(()) = compiled(folder.path()) else { return };
    let load = ["--rate", "400", "--duration", "4", "--max-lateness", "2s", "--quiet", "--json"];

    let front = cold(folder.path());
    let not_warmed = ["load", &front.address, "--warmup", "100", "--warmup-limit", "0"];
    let ran = hone_in(folder.path(), &[&not_warmed[..], &load].concat()).expect_code(1);
    let cold_window = ran.json();
    assert!(!cold_window["body"]["outcome"]["warming"].is_null(), "{}", cold_window["body"]["outcome"]);
    assert!(cold_window["body"]["facts"]["compiling_share"].as_f64().unwrap() > 0.1);
    drop(front);

    let front = cold(folder.path());
    let ran = hone_in(folder.path(), &[&["load", &front.address][..], &load].concat()).expect_code(0);
    let warm_window = ran.json();
    let warm_up = &warm_window["body"]["facts"]["warm_up"];
    assert_eq!(
        (&warm_window["body"]["outcome"], &warm_up["end"]),
        (&"steady".into(), &"steady".into()),
        "{warm_up}"
    );
    let [cold, warm] = [&cold_window, &warm_window].map(cpu_us_per_record);
    assert!(cold > 1.5 * warm, "{cold} µs a record cold, {warm} warm");
}
