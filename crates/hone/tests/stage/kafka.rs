//! Real Apache Kafka.

use std::process::{Child, Command, Stdio};

use super::tools::{of_checkout, skip};
use super::{field, first_line, free_port};

/// Apache Kafka by `bench/kafka.sh`, with the JMX exporter; ended on drop.
pub struct Kafka {
    pub child: Child,
    pub address: String,
    pub metrics: String,
    pub data: tempfile::TempDir,
}

impl Kafka {
    /// `None` is a skip.
    pub fn start() -> Option<Self> {
        if !of_checkout(".hone/kafka/jmx-exporter").exists() {
            skip("Apache Kafka and the JMX exporter are not in .hone/kafka: bench/kafka.sh fetch");
            return None;
        }
        let data = tempfile::tempdir().unwrap();
        let metrics_port = free_port();
        let mut child = Command::new(of_checkout("bench/kafka.sh"))
            .arg("run")
            .arg(data.path())
            .env("METRICS_PORT", metrics_port.to_string())
            .env("KAFKA_HEAP", "400M")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let address = field(&first_line(&mut child), "kafka=");
        Some(Self { child, address, metrics: format!("127.0.0.1:{metrics_port}"), data })
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        // SAFETY: the child has not been waited for, so its pid is its own.
        unsafe { libc::kill(self.child.id() as i32, libc::SIGTERM) };
        let _ = self.child.wait();
    }
}
