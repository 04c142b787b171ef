//! What the tests of the broker share: the broker as a process, a client that speaks through the kafka-protocol
//! crate (foreign bytes on both ways), and ready requests.

#![allow(dead_code, reason = "each test file is a crate of its own and uses a part")]

pub(crate) mod acl;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hone_broker::{Broker, Settings};
use hone_kafka::{BatchBuilder, Codec};
use kafka_protocol::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::produce_response::PartitionProduceResponse;
use kafka_protocol::messages::{
    CreateTopicsRequest, FetchRequest, ProduceRequest, RequestHeader, ResponseHeader, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};

/// Long enough for a loaded machine; a test that reaches it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A program other than the broker under test.
#[expect(clippy::disallowed_methods, reason = "real clients are started by tests, outside of Hone's door")]
pub(crate) fn program(name: impl AsRef<std::ffi::OsStr>) -> Command {
    Command::new(name)
}

/// Whether a tool is there. A missing one is a printed skip, or a failure under HONE_REQUIRE_TOOLS=1.
#[expect(clippy::print_stderr, reason = "a skip must be seen")]
pub(crate) fn have(tool: &str, probe: &mut Command) -> bool {
    let works =
        probe.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success());
    if !works {
        assert!(std::env::var("HONE_REQUIRE_TOOLS").as_deref() != Ok("1"), "{tool} is required and missing");
        eprintln!("skipped: {tool} is not installed");
    }
    works
}

/// `hone-broker` as a process; killed when dropped.
pub(crate) struct Process {
    child: Child,
    pub(crate) kafka: SocketAddr,
    pub(crate) metrics: SocketAddr,
}

impl Process {
    pub(crate) fn start(data_dir: &Path, more: &[&str]) -> Self {
        Self::start_with(data_dir, more, Stdio::inherit())
    }

    pub(crate) fn start_with(data_dir: &Path, more: &[&str], stderr: Stdio) -> Self {
        Self::start_in(data_dir, more, stderr, &[])
    }

    pub(crate) fn start_in(
        data_dir: &Path,
        more: &[&str],
        stderr: Stdio,
        environment: &[(&str, &str)],
    ) -> Self {
        let mut child = Self::command(data_dir, more)
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let field = |name: &str| {
            let found = line.split_whitespace().find_map(|word| word.strip_prefix(name));
            found.unwrap_or_else(|| panic!("no {name} in `{line}`")).to_owned()
        };
        assert_eq!(field("pid="), child.id().to_string());
        let (kafka, metrics) = (field("kafka=").parse().unwrap(), field("metrics=").parse().unwrap());
        Self { child, kafka, metrics }
    }

    /// What starts it, on free ports.
    pub(crate) fn command(data_dir: &Path, more: &[&str]) -> Command {
        let mut command = program(env!("CARGO_BIN_EXE_hone-broker"));
        command.args(["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0", "--data"]);
        command.arg(data_dir).args(more);
        command
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn kill_9(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM.
    pub(crate) fn ask_to_stop(&self) {
        let kill = program("kill").arg(self.id().to_string()).status().unwrap();
        assert!(kill.success());
    }

    pub(crate) fn terminate(mut self) -> ExitStatus {
        self.ask_to_stop();
        self.child.wait().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A broker inside the test's process, on free ports.
pub(crate) fn broker(data_dir: &Path) -> Broker {
    broker_with(data_dir, |_| ())
}

pub(crate) fn broker_with(data_dir: &Path, change: impl FnOnce(&mut Settings)) -> Broker {
    let mut settings = Settings::new(data_dir);
    settings.listen.set_port(0);
    settings.metrics_listen = Some(settings.listen);
    settings.threads = 2;
    change(&mut settings);
    Broker::start(settings).unwrap()
}

/// A client over one connection.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    next_id: i32,
}

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, next_id: 100 }
    }

    /// Sends without waiting; returns the correlation id.
    pub(crate) fn send<R: Request>(&mut self, version: i16, request: &R) -> i32 {
        self.next_id += 1;
        self.stream.write_all(&frame(version, self.next_id, request)).unwrap();
        self.next_id
    }

    /// Reads one frame's body; `None` when the broker has closed the connection.
    pub(crate) fn receive(&mut self) -> Option<Bytes> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length).ok()?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut body).ok()?;
        Some(body.into())
    }

    pub(crate) fn receive_as<R: Request>(&mut self, version: i16) -> (i32, R::Response) {
        decode::<R>(version, self.receive().expect("an answer"))
    }

    /// As [`Client::call`], on a connection that may break: `None` when it has.
    pub(crate) fn stream_call<R: Request>(&mut self, version: i16, request: &R) -> Option<R::Response> {
        self.next_id += 1;
        self.stream.write_all(&frame(version, self.next_id, request)).ok()?;
        Some(decode::<R>(version, self.receive()?).1)
    }

    pub(crate) fn call<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        let id = self.send(version, request);
        let (answered, response) = self.receive_as::<R>(version);
        assert_eq!(answered, id);
        response
    }
}

pub(crate) fn decode<R: Request>(version: i16, mut body: Bytes) -> (i32, R::Response) {
    let header = ResponseHeader::decode(&mut body, R::Response::header_version(version)).unwrap();
    let response = R::Response::decode(&mut body, version).unwrap();
    assert!(body.is_empty(), "{} bytes behind the answer to key {} v{version}", body.len(), R::KEY);
    (header.correlation_id, response)
}

/// A request with its length.
pub(crate) fn frame<R: Request>(version: i16, correlation_id: i32, request: &R) -> Vec<u8> {
    let header = RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(text("test")));
    let mut body = BytesMut::new();
    header.encode(&mut body, R::header_version(version)).unwrap();
    request.encode(&mut body, version).unwrap();
    let mut bytes = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend_from_slice(&body);
    bytes
}

pub(crate) fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

pub(crate) fn topic(name: &str) -> TopicName {
    TopicName(text(name))
}

/// One batch of values, made now: retention by age would drop older ones within a second.
pub(crate) fn batch(codec: Codec, values: &[&str]) -> Vec<u8> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    batch_at(codec, values, since.as_millis() as i64)
}

/// One batch of values, a millisecond apart.
pub(crate) fn batch_at(codec: Codec, values: &[&str], first_ms: i64) -> Vec<u8> {
    let mut builder = BatchBuilder::new(codec);
    for (index, value) in values.iter().enumerate() {
        builder.push(Some(b"key"), Some(value.as_bytes()), first_ms + index as i64);
    }
    builder.build().unwrap()
}

pub(crate) fn produce_request(name: &str, partition: i32, batch: Vec<u8>) -> ProduceRequest {
    let data = PartitionProduceData::default().with_index(partition).with_records(Some(batch.into()));
    let topics = TopicProduceData::default().with_name(topic(name)).with_partition_data(vec![data]);
    ProduceRequest::default().with_acks(-1).with_timeout_ms(1000).with_topic_data(vec![topics])
}

/// Produces one batch with version 9; returns what is said about its partition.
pub(crate) fn produce(client: &mut Client, name: &str, batch: Vec<u8>) -> PartitionProduceResponse {
    let response = client.call(9, &produce_request(name, 0, batch));
    response.responses[0].partition_responses[0].clone()
}

pub(crate) fn create_request(name: &str, partitions: i32, configs: &[(&str, &str)]) -> CreateTopicsRequest {
    let configs = configs
        .iter()
        .map(|(name, value)| {
            CreatableTopicConfig::default().with_name(text(name)).with_value(Some(text(value)))
        })
        .collect();
    let wanted = CreatableTopic::default()
        .with_name(topic(name))
        .with_num_partitions(partitions)
        .with_replication_factor(-1)
        .with_configs(configs);
    CreateTopicsRequest::default().with_topics(vec![wanted]).with_timeout_ms(1000)
}

/// Makes a topic; returns error code and message.
pub(crate) fn create(client: &mut Client, name: &str, configs: &[(&str, &str)]) -> (i16, String) {
    let response = client.call(5, &create_request(name, 1, configs));
    let result = &response.topics[0];
    (result.error_code, result.error_message.as_deref().unwrap_or_default().to_owned())
}

pub(crate) fn fetch_request(name: &str, offset: i64, max_wait_ms: i32) -> FetchRequest {
    let partition = FetchPartition::default().with_fetch_offset(offset).with_partition_max_bytes(8 << 20);
    let topics = FetchTopic::default().with_topic(topic(name)).with_partitions(vec![partition]);
    FetchRequest::default()
        .with_max_wait_ms(max_wait_ms)
        .with_min_bytes(1)
        .with_max_bytes(8 << 20)
        .with_topics(vec![topics])
}

/// Fetches once from partition 0, without waiting; returns the record set.
pub(crate) fn fetch(client: &mut Client, name: &str, offset: i64) -> Bytes {
    fetch_from(client, name, 0, offset)
}

fn fetch_from(client: &mut Client, name: &str, partition: i32, offset: i64) -> Bytes {
    let mut request = fetch_request(name, offset, 0);
    request.topics[0].partitions[0].partition = partition;
    let response = client.call(11, &request);
    let partition = &response.responses[0].partitions[0];
    assert_eq!(partition.error_code, 0);
    partition.records.clone().unwrap_or_default()
}

/// Every value of partition 0 from the start.
pub(crate) fn read_all(client: &mut Client, name: &str) -> Vec<String> {
    values_of(client, name, 0)
}

/// Every value of a partition from the start.
pub(crate) fn values_of(client: &mut Client, name: &str, partition: i32) -> Vec<String> {
    let mut values = Vec::new();
    loop {
        let set = fetch_from(client, name, partition, values.len() as i64);
        if set.is_empty() {
            return values;
        }
        for batch in hone_kafka::batches(&set) {
            let batch = batch.unwrap();
            let plain =
                hone_kafka::codec::decompress(batch.header.codec(), batch.payload(), 64 << 20).unwrap();
            let records = hone_kafka::records(&plain, batch.header.record_count);
            values.extend(records.map(|record| {
                String::from_utf8(record.unwrap().value.unwrap_or_default().to_vec()).unwrap()
            }));
        }
    }
}

/// GET over HTTP; the whole response.
pub(crate) fn http_get(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

/// The value of a series, by the beginning of its line on the page.
pub(crate) fn metric(address: SocketAddr, series: &str) -> f64 {
    let page = http_get(address, "/metrics");
    let line = page.lines().find_map(|line| line.strip_prefix(series));
    let line = line.unwrap_or_else(|| panic!("no {series} in {page}"));
    line.split_whitespace().last().unwrap().parse().unwrap()
}
