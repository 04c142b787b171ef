//! TLS and logins from the wire: what a client can do before it has said who it is, which is little, and that the rest
//! works afterwards as it does in plain.

mod support;

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hone_broker::{Broker, NewUser, Notices, Settings, TlsFiles};
use hone_kafka::Codec;
use kafka_protocol::messages::*;
use kafka_protocol::protocol::Request;
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use ring::{digest, hmac, pbkdf2};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
use support::*;

const PASSWORD: &str = "correct horse = battery, staple";

/// An authority, the broker's certificate and a client's, as PEM files.
struct Papers {
    folder: tempfile::TempDir,
}

impl Papers {
    fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "test authority");
        fs::write(folder.path().join("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        let issuer = Issuer::new(params, key);
        let papers = Self { folder };
        let mut name = DistinguishedName::new();
        name.push(DnType::OrganizationName, "Hone");
        name.push(DnType::CommonName, "alice");
        papers.issue("broker", DistinguishedName::new(), &issuer);
        papers.issue("client", name, &issuer);
        papers
    }

    fn issue(&self, who: &str, name: DistinguishedName, issuer: &Issuer<'_, KeyPair>) {
        let key = KeyPair::generate().unwrap();
        let hosts = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
        let mut params = CertificateParams::new(hosts).unwrap();
        params.distinguished_name = name;
        let certificate = params.signed_by(&key, issuer).unwrap();
        fs::write(self.path(&format!("{who}.pem")), certificate.pem()).unwrap();
        fs::write(self.path(&format!("{who}.key")), key.serialize_pem()).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    fn tls(&self) -> TlsFiles {
        TlsFiles {
            certificate: self.path("broker.pem"),
            key: self.path("broker.key"),
            client_authorities: None,
        }
    }

    /// Of a client that trusts this authority and has a certificate of its own, or of another one, or none.
    fn client(
        &self,
        certificate_of: Option<&Self>,
        versions: &[&'static SupportedProtocolVersion],
    ) -> ClientConnection {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path("ca.pem")).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots);
        let config = match certificate_of {
            None => builder.with_no_client_auth(),
            Some(papers) => {
                let certificate = CertificateDer::from_pem_file(papers.path("client.pem")).unwrap();
                let key = PrivateKeyDer::from_pem_file(papers.path("client.key")).unwrap();
                builder.with_client_auth_cert(vec![certificate], key).unwrap()
            }
        };
        ClientConnection::new(Arc::new(config), ServerName::try_from("localhost").unwrap()).unwrap()
    }

    fn connect_as(&self, address: SocketAddr, certificate_of: Option<&Self>) -> Wire<Tls> {
        Wire::over(StreamOwned::new(self.client(certificate_of, rustls::ALL_VERSIONS), plain(address)))
    }

    fn connect(&self, address: SocketAddr) -> Wire<Tls> {
        self.connect_as(address, None)
    }
}

type Tls = StreamOwned<ClientConnection, TcpStream>;

fn plain(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

/// A client over any stream.
struct Wire<S> {
    stream: S,
    next_id: i32,
}

impl Wire<TcpStream> {
    fn connect(address: SocketAddr) -> Self {
        Self::over(plain(address))
    }
}

impl<S: Read + Write> Wire<S> {
    fn over(stream: S) -> Self {
        Self { stream, next_id: 0 }
    }

    fn send_frame(&mut self, body: &[u8]) {
        let mut frame = (body.len() as u32).to_be_bytes().to_vec();
        frame.extend_from_slice(body);
        self.send_bytes(&frame);
    }

    /// The broker may have closed already, which the next read tells.
    fn send_bytes(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes).and_then(|()| self.stream.flush());
    }

    /// One frame; `None` when the broker has closed the connection.
    fn receive(&mut self) -> Option<Vec<u8>> {
        let mut read = |buffer: &mut [u8]| match self.stream.read_exact(buffer) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                panic!("the broker neither answered nor closed")
            }
            read => read.ok(),
        };
        let mut length = [0; 4];
        read(&mut length)?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        read(&mut body)?;
        Some(body)
    }

    fn try_call<R: Request>(&mut self, version: i16, request: &R) -> Option<R::Response> {
        self.next_id += 1;
        self.send_bytes(&frame(version, self.next_id, request));
        let (id, response) = decode::<R>(version, self.receive()?.into());
        assert_eq!(id, self.next_id);
        Some(response)
    }

    fn call<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        self.try_call(version, request).expect("an answer")
    }

    fn is_closed(&mut self) -> bool {
        self.receive().is_none()
    }

    /// Error code and mechanisms.
    fn handshake(&mut self, mechanism: &str) -> (i16, Vec<String>) {
        let response = self.call(1, &SaslHandshakeRequest::default().with_mechanism(text(mechanism)));
        (response.error_code, response.mechanisms.iter().map(|name| name.to_string()).collect())
    }

    /// Error code and token.
    fn token(&mut self, token: &[u8]) -> (i16, Vec<u8>) {
        let request = SaslAuthenticateRequest::default().with_auth_bytes(token.to_vec().into());
        let response = self.call(2, &request);
        (response.error_code, response.auth_bytes.to_vec())
    }

    fn scram(&mut self, mechanism: Scram, user: &str, password: &str) -> Result<(), i16> {
        match self.handshake(mechanism.name).0 {
            0 => mechanism.exchange(user, password, |token| match self.token(token) {
                (0, answer) => Ok(answer),
                (error, _) => Err(error),
            }),
            error => Err(error),
        }
    }

    fn knows_topics(&mut self) -> bool {
        self.try_call(9, &MetadataRequest::default().with_topics(None)).is_some()
    }

    /// Makes a topic, writes a value to it and reads it back.
    fn check_round_trip(&mut self, name: &str, value: &str) {
        assert_eq!(self.call(5, &create_request(name, 1, &[])).topics[0].error_code, 0);
        let response = self.call(9, &produce_request(name, 0, batch(Codec::None, &[value])));
        assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
        let response = self.call(11, &fetch_request(name, 0, 0));
        let set = response.responses[0].partitions[0].records.clone().unwrap();
        let stored = hone_kafka::batches(&set).next().unwrap().unwrap();
        let record = hone_kafka::records(stored.payload(), 1).next().unwrap().unwrap();
        assert!(record.value.unwrap() == value.as_bytes());
    }
}

/// The client's side of SCRAM.
#[derive(Clone, Copy)]
struct Scram {
    name: &'static str,
    pbkdf2: pbkdf2::Algorithm,
    hmac: hmac::Algorithm,
    digest: &'static digest::Algorithm,
}

static SCRAM_256: Scram = Scram {
    name: "SCRAM-SHA-256",
    pbkdf2: pbkdf2::PBKDF2_HMAC_SHA256,
    hmac: hmac::HMAC_SHA256,
    digest: &digest::SHA256,
};
static SCRAM_512: Scram = Scram {
    name: "SCRAM-SHA-512",
    pbkdf2: pbkdf2::PBKDF2_HMAC_SHA512,
    hmac: hmac::HMAC_SHA512,
    digest: &digest::SHA512,
};

impl Scram {
    fn sign(self, key: &[u8], message: &str) -> Vec<u8> {
        hmac::sign(&hmac::Key::new(self.hmac, key), message.as_bytes()).as_ref().to_vec()
    }

    fn salted(self, password: &str, salt: &[u8], iterations: u32) -> Vec<u8> {
        let mut salted = vec![0; self.digest.output_len()];
        pbkdf2::derive(self.pbkdf2, iterations.try_into().unwrap(), salt, password.as_bytes(), &mut salted);
        salted
    }

    /// Logs in; the broker's proof is checked, too.
    fn exchange(
        self,
        user: &str,
        password: &str,
        mut send: impl FnMut(&[u8]) -> Result<Vec<u8>, i16>,
    ) -> Result<(), i16> {
        let bare = format!("n={},r=fyko", user.replace('=', "=3D").replace(',', "=2C"));
        let challenge = String::from_utf8(send(format!("n,,{bare}").as_bytes())?).unwrap();
        let field = |name: &str| challenge.split(',').find_map(|field| field.strip_prefix(name)).unwrap();
        let (nonce, salt, iterations) = (field("r="), BASE64.decode(field("s=")).unwrap(), field("i="));
        assert!(nonce.starts_with("fyko") && nonce.len() > 20);
        let salted = self.salted(password, &salt, iterations.parse().unwrap());
        let client_key = self.sign(&salted, "Client Key");
        let stored_key = digest::digest(self.digest, &client_key);
        let signed = format!("{bare},{challenge},c=biws,r={nonce}");
        let signature = self.sign(stored_key.as_ref(), &signed);
        let proof: Vec<u8> =
            client_key.iter().zip(signature).map(|(key, signature)| key ^ signature).collect();
        let last = format!("c=biws,r={nonce},p={}", BASE64.encode(proof));
        let answer = send(last.as_bytes())?;
        let server_key = self.sign(&salted, "Server Key");
        assert_eq!(answer, format!("v={}", BASE64.encode(self.sign(&server_key, &signed))).as_bytes());
        Ok(())
    }
}

fn user(name: &str) -> NewUser {
    NewUser { name: name.to_owned(), password: PASSWORD.to_owned() }
}

fn with_login(settings: &mut Settings) {
    settings.sasl = true;
    settings.users.push(user("alice"));
}

/// A broker and what it says.
fn broker_that_speaks(
    data_dir: &Path,
    change: impl FnOnce(&mut Settings),
) -> (Broker, Arc<Mutex<Vec<String>>>) {
    let said = Arc::new(Mutex::new(Vec::new()));
    let sink = Arc::clone(&said);
    let broker = broker_with(data_dir, |settings| {
        settings.notices = Notices::to(move |line| sink.lock().unwrap().push(line.to_owned()));
        change(settings);
    });
    (broker, said)
}

fn wait_for(said: &Mutex<Vec<String>>, piece: &str) {
    let start = Instant::now();
    while !said.lock().unwrap().iter().any(|line| line.contains(piece)) {
        assert!(start.elapsed() < PATIENCE, "no `{piece}` in {:?}", said.lock().unwrap());
        std::thread::yield_now();
    }
}

#[test]
fn records_go_through_tls_in_both_versions_and_in_any_size() {
    let (folder, papers) = (tempfile::tempdir().unwrap(), Papers::make());
    let broker = broker_with(folder.path(), |settings| settings.tls = Some(papers.tls()));
    let large = "x".repeat(1_000_000);
    for (index, value) in ["small", large.as_str()].into_iter().enumerate() {
        papers.connect(broker.kafka_addr()).check_round_trip(&format!("t{index}"), value);
    }
    let tls = papers.client(None, &[&rustls::version::TLS12]);
    let mut old = Wire::over(StreamOwned::new(tls, plain(broker.kafka_addr())));
    old.check_round_trip("t12", &large);
    assert_eq!(old.stream.conn.protocol_version(), Some(rustls::ProtocolVersion::TLSv1_2));
    broker.stop().unwrap();
}

/// Many answers pile up before the client reads the first: what TLS holds back must go out as the client takes it.
#[test]
fn answers_that_a_slow_client_leaves_waiting_all_arrive_in_order() {
    let (folder, papers) = (tempfile::tempdir().unwrap(), Papers::make());
    let broker = broker_with(folder.path(), |settings| settings.tls = Some(papers.tls()));
    let mut client = papers.connect(broker.kafka_addr());
    client.check_round_trip("t", &"y".repeat(1_000_000));
    let fetches = 24;
    for id in 0..fetches {
        client.send_bytes(&frame(11, id, &fetch_request("t", 0, 0)));
    }
    for id in 0..fetches {
        let (answered, response) = decode::<FetchRequest>(11, client.receive().unwrap().into());
        let set = response.responses[0].partitions[0].records.clone().unwrap();
        assert!(answered == id && set.len() > 1_000_000, "{id}");
    }
    broker.stop().unwrap();
}

#[test]
fn both_mechanisms_of_scram_log_in_and_wrong_ones_do_not() {
    let folder = tempfile::tempdir().unwrap();
    let (broker, said) = broker_that_speaks(folder.path(), |settings| {
        with_login(settings);
        settings.users.push(user("a,b=c"));
    });
    let address = broker.kafka_addr();
    for mechanism in [SCRAM_256, SCRAM_512] {
        for name in ["alice", "a,b=c"] {
            let mut client = Wire::connect(address);
            assert_eq!(
                client
                    .call(3, &ApiVersionsRequest::default().with_client_software_name(text("x")))
                    .error_code,
                0
            );
            assert_eq!(client.scram(mechanism, name, PASSWORD), Ok(()));
            assert!(client.knows_topics());
            // Once is enough.
            assert_eq!(client.handshake("SCRAM-SHA-256").0, 34);
            assert_eq!(client.token(b"n,,n=alice,r=x").0, 34);
            assert!(client.knows_topics());
        }
        for (name, password) in [("alice", "wrong"), ("nobody", PASSWORD), ("alice", "")] {
            let mut client = Wire::connect(address);
            assert_eq!(client.scram(mechanism, name, password), Err(58), "{name}");
            assert!(client.is_closed());
        }
    }
    wait_for(&said, "its login failed");
    assert!(!said.lock().unwrap().iter().any(|line| line.contains(PASSWORD) || line.contains("wrong")));
    broker.stop().unwrap();
}

#[test]
fn nothing_is_served_to_a_stranger() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker_with(folder.path(), with_login);
    let address = broker.kafka_addr();
    assert!(!Wire::connect(address).knows_topics());
    let mut between = Wire::connect(address);
    assert_eq!(between.handshake("SCRAM-SHA-512").0, 0);
    assert!(!between.knows_topics());
    let mut halfway = Wire::connect(address);
    halfway.handshake("SCRAM-SHA-256");
    assert_eq!(halfway.token(b"n,,n=alice,r=x").0, 0);
    assert!(!halfway.knows_topics());
    let produce = produce_request("t", 0, batch(Codec::None, &["x"]));
    assert!(Wire::connect(address).try_call(9, &produce).is_none());
    let alter = AlterUserScramCredentialsRequest::default();
    assert!(Wire::connect(address).try_call(0, &alter).is_none());
    // A request behind a failed login is not served in its shadow.
    let mut hasty = Wire::connect(address);
    hasty.handshake("SCRAM-SHA-256");
    let garbage = SaslAuthenticateRequest::default().with_auth_bytes("garbage".into());
    let mut both = frame(2, 7, &garbage);
    both.extend(frame(5, 8, &create_request("made", 1, &[])));
    hasty.send_bytes(&both);
    let (id, refused) = decode::<SaslAuthenticateRequest>(2, hasty.receive().unwrap().into());
    assert_eq!((id, refused.error_code), (7, 58));
    assert!(hasty.is_closed());
    let mut client = Wire::connect(address);
    client.scram(SCRAM_256, "alice", PASSWORD).unwrap();
    let topics = client.call(9, &MetadataRequest::default().with_topics(None)).topics;
    assert!(topics.is_empty(), "{topics:?}");
    broker.stop().unwrap();
}

#[test]
fn mechanisms_that_are_not_offered_are_refused_with_those_that_are() {
    let (folder, papers) = (tempfile::tempdir().unwrap(), Papers::make());
    let broker = broker_with(folder.path(), with_login);
    for mechanism in ["PLAIN", "GSSAPI", "", "scram-sha-256"] {
        let mut client = Wire::connect(broker.kafka_addr());
        let offered = vec!["SCRAM-SHA-256".to_owned(), "SCRAM-SHA-512".to_owned()];
        assert_eq!(client.handshake(mechanism), (33, offered));
        assert!(client.is_closed());
    }
    broker.stop().unwrap();
    let broker = broker_with(folder.path(), |settings| {
        with_login(settings);
        settings.tls = Some(papers.tls());
    });
    assert!(papers.connect(broker.kafka_addr()).handshake("GSSAPI").1.contains(&"PLAIN".to_owned()));
    broker.stop().unwrap();
}

#[test]
fn plain_inside_tls_logs_in_and_tells_nobody_apart() {
    let (folder, papers) = (tempfile::tempdir().unwrap(), Papers::make());
    let broker = broker_with(folder.path(), |settings| {
        with_login(settings);
        settings.tls = Some(papers.tls());
    });
    let login = |token: &str| {
        let mut client = papers.connect(broker.kafka_addr());
        assert_eq!(client.handshake("PLAIN").0, 0);
        let answer = client.token(token.as_bytes());
        (answer.0, if answer.0 == 0 { client.knows_topics() } else { client.is_closed() })
    };
    assert_eq!(login(&format!("\0alice\0{PASSWORD}")), (0, true));
    for wrong in ["\0alice\0wrong", "\0nobody\0wrong", "", "\0\0", &format!("root\0alice\0{PASSWORD}")] {
        assert_eq!(login(wrong), (58, true), "{wrong:?}");
    }
    broker.stop().unwrap();
}

#[test]
fn tokens_without_requests_around_them_follow_the_oldest_handshake() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker_with(folder.path(), |settings| {
        with_login(settings);
        settings.insecure = true;
    });
    let begin = |mechanism: &str| {
        let mut client = Wire::connect(broker.kafka_addr());
        let request = SaslHandshakeRequest::default().with_mechanism(text(mechanism));
        assert_eq!(client.call(0, &request).error_code, 0);
        client
    };
    let send = |client: &mut Wire<TcpStream>, token: &[u8]| {
        client.send_frame(token);
        client.receive().ok_or(0)
    };
    let mut client = begin("SCRAM-SHA-256");
    assert_eq!(SCRAM_256.exchange("alice", PASSWORD, |token| send(&mut client, token)), Ok(()));
    assert!(client.knows_topics());
    let mut client = begin("PLAIN");
    assert_eq!(send(&mut client, format!("\0alice\0{PASSWORD}").as_bytes()), Ok(Vec::new()));
    assert!(client.knows_topics());
    for wrong in [&b"\0alice\0wrong"[..], b"", &frame(9, 1, &MetadataRequest::default())[4..]] {
        assert_eq!(send(&mut begin("PLAIN"), wrong), Err(0), "{wrong:?}");
    }
    broker.stop().unwrap();
}

#[test]
fn frames_and_tokens_of_strangers_are_short() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker_with(folder.path(), with_login);
    let mut announced = Wire::connect(broker.kafka_addr());
    announced.send_bytes(&1_048_576_i32.to_be_bytes());
    assert!(announced.is_closed());
    let mut client = Wire::connect(broker.kafka_addr());
    client.handshake("SCRAM-SHA-256");
    assert_eq!(client.token(format!("n,,n=alice,r={}", "x".repeat(20_000)).as_bytes()).0, 58);
    assert!(client.is_closed());
    // Whoever has logged in may send more.
    let mut client = Wire::connect(broker.kafka_addr());
    client.scram(SCRAM_512, "alice", PASSWORD).unwrap();
    client.check_round_trip("t", &"x".repeat(1_000_000));
    broker.stop().unwrap();
}

#[test]
fn damaged_messages_of_a_login_close_their_connection_and_reach_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let broker = broker_with(folder.path(), with_login);
    let first = b"n,,n=alice,r=fyko".to_vec();
    let last = b"c=biws,r=fyko,p=AAAA".to_vec();
    let mut tokens: Vec<Vec<u8>> = (0..first.len()).map(|length| first[..length].to_vec()).collect();
    tokens.extend((0..last.len()).map(|length| last[..length].to_vec()));
    for position in 0..first.len() {
        let mut damaged = first.clone();
        damaged[position] ^= 0x80;
        tokens.push(damaged);
    }
    // At once, or each refusal's delay would be waited for.
    let mut clients = Vec::new();
    for token in &tokens {
        let mut client = Wire::connect(broker.kafka_addr());
        client.handshake("SCRAM-SHA-256");
        let request = SaslAuthenticateRequest::default().with_auth_bytes(token.clone().into());
        client.send_bytes(&frame(2, 1, &request));
        clients.push(client);
    }
    for (mut client, token) in clients.into_iter().zip(&tokens) {
        let (_, response) = decode::<SaslAuthenticateRequest>(2, client.receive().unwrap().into());
        let is_a_shorter_nonce = first.starts_with(token) && token.len() > first.len() - 4;
        assert_eq!(response.error_code, if is_a_shorter_nonce { 0 } else { 58 }, "{token:?}");
        assert!(is_a_shorter_nonce || client.is_closed());
    }
    let metrics = broker.metrics_addr().unwrap();
    for shard in 0..2 {
        assert_eq!(metric(metrics, &format!("hone_broker_handler_failures_total{{shard=\"{shard}\"}}")), 0.0);
    }
    broker.stop().unwrap();
}

#[test]
fn users_are_made_listed_changed_and_removed_by_admin_clients_and_survive() {
    use kafka_protocol::messages::alter_user_scram_credentials_request::{
        ScramCredentialDeletion, ScramCredentialUpsertion,
    };
    use kafka_protocol::messages::describe_user_scram_credentials_request::UserName;
    let upsert = |name: &str, iterations: i32| {
        let salt = b"some salt".to_vec();
        let salted = SCRAM_512.salted("new", &salt, iterations.unsigned_abs());
        ScramCredentialUpsertion::default()
            .with_name(text(name))
            .with_mechanism(2)
            .with_iterations(iterations)
            .with_salt(salt.into())
            .with_salted_password(salted.into())
    };
    let folder = tempfile::tempdir().unwrap();
    let (broker, said) = broker_that_speaks(folder.path(), with_login);
    let mut client = Wire::connect(broker.kafka_addr());
    client.scram(SCRAM_256, "alice", PASSWORD).unwrap();
    let request = AlterUserScramCredentialsRequest::default()
        .with_upsertions(vec![upsert("bob", 8192), upsert("carol", 1000)])
        .with_deletions(vec![
            ScramCredentialDeletion::default().with_name(text("nobody")).with_mechanism(1),
            ScramCredentialDeletion::default().with_name(text("dave")).with_mechanism(9),
        ]);
    let results = client.call(0, &request).results;
    let codes: Vec<_> = results.iter().map(|result| (result.user.to_string(), result.error_code)).collect();
    let expected = [("bob", 0), ("carol", 93), ("dave", 33), ("nobody", 91)];
    assert_eq!(codes, expected.map(|(name, code)| (name.to_owned(), code)));
    wait_for(&said, "User:alice changed the logins of 1 users");
    let describe = |client: &mut Wire<TcpStream>, users: &[&str]| {
        let users = users.iter().map(|name| UserName::default().with_name(text(name))).collect();
        let request = DescribeUserScramCredentialsRequest::default().with_users(Some(users));
        let response = client.call(0, &request);
        assert_eq!(response.error_code, 0);
        let results = response.results.iter();
        results
            .map(|user| {
                let infos = user.credential_infos.iter();
                let infos: Vec<_> = infos.map(|info| (info.mechanism, info.iterations)).collect();
                (user.user.to_string(), user.error_code, infos)
            })
            .collect::<Vec<_>>()
    };
    let alice = ("alice".to_owned(), 0, vec![(1, 4096), (2, 4096)]);
    let bob = ("bob".to_owned(), 0, vec![(2, 8192)]);
    assert_eq!(describe(&mut client, &[]), [alice.clone(), bob.clone()]);
    assert_eq!(
        describe(&mut client, &["bob", "nobody", "alice", "alice"]),
        [("alice".to_owned(), 92, vec![]), bob.clone(), ("nobody".to_owned(), 91, vec![])]
    );
    assert_eq!(Wire::connect(broker.kafka_addr()).scram(SCRAM_512, "bob", "new"), Ok(()));
    assert_eq!(Wire::connect(broker.kafka_addr()).scram(SCRAM_256, "bob", "new"), Err(58));
    broker.stop().unwrap();
    // Alice stays without being given again.
    let broker = broker_with(folder.path(), |settings| settings.sasl = true);
    assert_eq!(Wire::connect(broker.kafka_addr()).scram(SCRAM_512, "bob", "new"), Ok(()));
    let mut client = Wire::connect(broker.kafka_addr());
    client.scram(SCRAM_512, "alice", PASSWORD).unwrap();
    let removed = ScramCredentialDeletion::default().with_name(text("bob")).with_mechanism(2);
    let request = AlterUserScramCredentialsRequest::default().with_deletions(vec![removed]);
    assert_eq!(client.call(0, &request).results[0].error_code, 0);
    assert_eq!(describe(&mut client, &[]), [alice]);
    assert_eq!(Wire::connect(broker.kafka_addr()).scram(SCRAM_512, "bob", "new"), Err(58));
    broker.stop().unwrap();
}

#[test]
fn a_client_s_certificate_is_demanded_and_names_it() {
    let (folder, papers) = (tempfile::tempdir().unwrap(), Papers::make());
    let (broker, said) = broker_that_speaks(folder.path(), |settings| {
        settings.tls = Some(TlsFiles { client_authorities: Some(papers.path("ca.pem")), ..papers.tls() });
    });
    assert!(!papers.connect(broker.kafka_addr()).knows_topics());
    wait_for(&said, "TLS failed: peer sent no certificates");
    let mut client = papers.connect_as(broker.kafka_addr(), Some(&papers));
    client.check_round_trip("t", "x");
    client.call(0, &AlterUserScramCredentialsRequest::default());
    wait_for(&said, "User:CN=alice,O=Hone changed the logins of 0 users");
    // From another authority of the same name.
    let others = Papers::make();
    assert!(!papers.connect_as(broker.kafka_addr(), Some(&others)).knows_topics());
    broker.stop().unwrap();
}

#[test]
fn who_talks_the_wrong_way_is_cut_off_and_its_owner_told_why() {
    let (folder, papers) = (tempfile::tempdir().unwrap(), Papers::make());
    let (broker, said) = broker_that_speaks(folder.path(), |settings| settings.tls = Some(papers.tls()));
    let mut client = Wire::connect(broker.kafka_addr());
    client.send_bytes(&frame(0, 1, &ApiVersionsRequest::default()));
    // What comes is TLS's own alert, which is no answer.
    let mut rest = Vec::new();
    let _ = client.stream.read_to_end(&mut rest);
    assert!(rest.len() < 16, "{rest:?}");
    wait_for(&said, "security.protocol to SSL or SASL_SSL");
    papers.connect(broker.kafka_addr()).check_round_trip("t", "x");
    broker.stop().unwrap();

    let (broker, said) = broker_that_speaks(folder.path(), |_| ());
    assert!(!papers.connect(broker.kafka_addr()).knows_topics());
    wait_for(&said, "security.protocol to PLAINTEXT or SASL_PLAINTEXT");
    broker.stop().unwrap();
}

#[test]
fn garbage_instead_of_a_handshake_closes_its_connection_and_no_other() {
    let (folder, papers) = (tempfile::tempdir().unwrap(), Papers::make());
    let broker = broker_with(folder.path(), |settings| settings.tls = Some(papers.tls()));
    let mut bystander = papers.connect(broker.kafka_addr());
    bystander.check_round_trip("t", "x");
    let hello = client_hello(&papers);
    let mut cases: Vec<Vec<u8>> =
        vec![vec![0xff; 64], vec![0; 5], vec![0x16, 3, 1, 0xff, 0xff], b"GET / HTTP/1.1\r\n\r\n".to_vec()];
    for position in (0..hello.len()).step_by(7) {
        let mut damaged = hello.clone();
        damaged[position] ^= 0xff;
        cases.push(damaged);
        cases.push(hello[..position].to_vec());
    }
    for bytes in cases {
        let mut stream = plain(broker.kafka_addr());
        let _ = stream.write_all(&bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let ended = stream.read_to_end(&mut Vec::new());
        let timed_out = ended.is_err_and(|error| error.kind() == ErrorKind::WouldBlock);
        assert!(!timed_out, "neither answered nor closed: {bytes:?}");
    }
    assert!(bystander.knows_topics());
    broker.stop().unwrap();
}

fn client_hello(papers: &Papers) -> Vec<u8> {
    let mut tls = papers.client(None, rustls::ALL_VERSIONS);
    let mut hello = Vec::new();
    while tls.wants_write() {
        tls.write_tls(&mut hello).unwrap();
    }
    hello
}

#[test]
fn a_greeting_that_stops_half_way_ends_and_one_that_is_done_does_not() {
    let (folder, papers) = (tempfile::tempdir().unwrap(), Papers::make());
    let (broker, said) = broker_that_speaks(folder.path(), |settings| {
        with_login(settings);
        settings.tls = Some(papers.tls());
        settings.greeting_ms = 3_000;
    });
    let mut done = papers.connect(broker.kafka_addr());
    done.scram(SCRAM_256, "alice", PASSWORD).unwrap();
    let silent = plain(broker.kafka_addr());
    let mut half = plain(broker.kafka_addr());
    half.write_all(&client_hello(&papers)[..100]).unwrap();
    let mut unknown = papers.connect(broker.kafka_addr());
    unknown.handshake("SCRAM-SHA-256");
    for mut stream in [silent, half] {
        let ended = stream.read_to_end(&mut Vec::new());
        assert!(!ended.is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
    }
    assert!(unknown.is_closed());
    wait_for(&said, "did not finish TLS or its login in time");
    assert!(done.knows_topics());
    broker.stop().unwrap();
}

/// The value of a gauge without labels.
fn gauge(address: SocketAddr, name: &str) -> usize {
    let page = http_get(address, "/metrics");
    let value = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.expect("the gauge").parse().unwrap()
}

#[test]
fn strangers_with_unfinished_frames_take_no_memory_from_those_who_have_logged_in() {
    const STRANGERS: usize = 600;
    const STRANGER_MEMORY: &str = "hone_broker_stranger_memory_bytes";
    let folder = tempfile::tempdir().unwrap();
    let broker = broker_with(folder.path(), |settings| {
        with_login(settings);
        (settings.max_memory_bytes, settings.max_request_bytes) = (8 << 20, 2 << 20);
        // Nobody is closed for being late: who has to wait, waits for good.
        (settings.stall_ms, settings.short_stall_ms, settings.greeting_ms) = (600_000, 600_000, 600_000);
    });
    let (address, metrics) = (broker.kafka_addr(), broker.metrics_addr().unwrap());
    let held = || gauge(metrics, STRANGER_MEMORY);
    let mut client = Wire::connect(address);
    client.scram(SCRAM_256, "alice", PASSWORD).unwrap();
    client.check_round_trip("before", "x");
    // Together they send more than all clients may hold.
    let mut half = (16_u32 << 10).to_be_bytes().to_vec();
    half.resize(16 << 10, 0);
    let strangers: Vec<TcpStream> = (0..STRANGERS)
        .map(|_| {
            let mut stranger = plain(address);
            stranger.write_all(&half).unwrap();
            stranger
        })
        .collect();
    let begun = Instant::now();
    while held() < 1 << 20 {
        assert!(begun.elapsed() < PATIENCE, "{} bytes are counted for strangers", held());
        std::thread::yield_now();
    }
    let large = "x".repeat(900_000);
    for round in 0..20 {
        client.check_round_trip(&format!("t{round}"), &large);
    }
    // Whoever comes now can log in.
    let mut comer = Wire::connect(address);
    comer.scram(SCRAM_256, "alice", PASSWORD).unwrap();
    comer.check_round_trip("later", &large);
    // An eighth of the memory, and what was read of each before or in spite of it.
    assert!(held() < (1 << 20) + STRANGERS * (5 << 10), "{} bytes", held());
    drop((client, comer));
    let begun = Instant::now();
    while gauge(metrics, "hone_broker_client_memory_bytes") > 0 {
        assert!(begun.elapsed() < PATIENCE, "bytes are left of clients that logged in");
        std::thread::yield_now();
    }
    drop(strangers);
    broker.stop().unwrap();
}

#[expect(clippy::type_complexity, reason = "a table of what is wrong and what is said")]
#[test]
fn settings_that_can_t_be_meant_are_refused_at_start() {
    let (folder, papers) = (tempfile::tempdir().unwrap(), Papers::make());
    let cases: [(&dyn Fn(&mut Settings), &str); 4] = [
        (&|settings| settings.listen = "0.0.0.0:0".parse().unwrap(), "or add --insecure to do without both"),
        (&|settings| settings.sasl = true, "there is no user\n  next: add --user NAME:FILE"),
        (&|settings| settings.users.push(user("alice")), "add --sasl"),
        (
            &|settings| settings.tls = Some(TlsFiles { key: papers.path("client.key"), ..papers.tls() }),
            "KeyMismatch",
        ),
    ];
    for (change, piece) in cases {
        let mut settings = Settings::new(folder.path());
        settings.listen.set_port(0);
        settings.metrics_listen = None;
        change(&mut settings);
        let error = format!("{:#}", Broker::start(settings).err().expect("a refusal"));
        assert!(error.contains(piece), "{error}");
        assert!(error.lines().skip(1).all(|line| line.starts_with("  next: ")), "{error}");
    }
}

fn start(folder: &Path, papers: &Papers, more: &[&str]) -> Process {
    let password = folder.join("password");
    fs::write(&password, format!("{PASSWORD}\n")).unwrap();
    let user = format!("alice:{}", password.display());
    let (certificate, key) = (papers.text("broker.pem"), papers.text("broker.key"));
    let mut arguments = vec!["--sasl", "--user", &user, "--tls-cert", &certificate, "--tls-key", &key];
    arguments.extend(more);
    Process::start(&folder.join("data"), &arguments)
}

#[test]
fn the_program_refuses_other_machines_and_names_the_next_step() {
    let folder = tempfile::tempdir().unwrap();
    let output = program(env!("CARGO_BIN_EXE_hone-broker"))
        .args(["--listen", "0.0.0.0:0", "--metrics-listen", "off", "--data"])
        .arg(folder.path().join("data"))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 2), "{said}");
    assert!(said.contains("--tls-cert") && said.contains("--sasl") && said.contains("--insecure"), "{said}");
    for wrong in
        [&["--tls-cert", "x"][..], &["--tls-client-ca", "x"], &["--user", "alice"], &["--user", "a:/none"]]
    {
        let output =
            program(env!("CARGO_BIN_EXE_hone-broker")).args(["--data", "x"]).args(wrong).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}

#[test]
fn kcat_logs_in_by_every_mechanism_inside_tls() {
    if !have("kcat", program("kcat").arg("-V")) {
        return;
    }
    let (folder, papers) = (tempfile::tempdir().unwrap(), Papers::make());
    let broker = start(folder.path(), &papers, &[]);
    let input = folder.path().join("input.txt");
    let lines: String = (0..10_000).map(|index| format!("record number {index}\n")).collect();
    fs::write(&input, &lines).unwrap();
    let config = folder.path().join("kcat.conf");
    let kcat = |mechanism: &str, password: &str, arguments: &[&str]| {
        let authority = papers.text("ca.pem");
        // In a file, because an argument's comma would end the password.
        let lines = format!(
            "security.protocol=SASL_SSL\nssl.ca.location={authority}\nsasl.mechanism={mechanism}\n\
             sasl.username=alice\nsasl.password={password}\nmessage.timeout.ms=20000\n"
        );
        fs::write(&config, lines).unwrap();
        let address = format!("localhost:{}", broker.kafka.port());
        program("kcat")
            .args(["-b", &address, "-X", "broker.address.family=v4", "-F", config.to_str().unwrap()])
            .args(arguments)
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"] {
        let written = kcat(mechanism, PASSWORD, &["-t", mechanism, "-P", "-l", input.to_str().unwrap()]);
        assert!(written.status.success(), "{mechanism}: {}", String::from_utf8_lossy(&written.stderr));
        let read = kcat(mechanism, PASSWORD, &["-t", mechanism, "-C", "-e", "-q"]);
        assert!(read.stdout == lines.as_bytes(), "{mechanism}: {}", String::from_utf8_lossy(&read.stderr));
        let refused = kcat(mechanism, "wrong", &["-L", "-m", "3"]);
        let errors = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && errors.contains("the login failed"), "{mechanism}: {errors}");
    }
}

#[test]
fn librdkafka_logs_in_and_manages_users() {
    let python = std::env::var("HONE_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    if !have("Python's confluent_kafka", program(&python).args(["-c", "import confluent_kafka"])) {
        return;
    }
    let (folder, papers) = (tempfile::tempdir().unwrap(), Papers::make());
    let authority = papers.text("ca.pem");
    let broker = start(folder.path(), &papers, &["--tls-client-ca", &authority]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/librdkafka_login.py");
    let output = program(&python)
        .arg(script)
        .arg(broker.kafka.to_string())
        .args([authority, papers.text("client.pem"), papers.text("client.key")])
        .arg(PASSWORD)
        .output()
        .unwrap();
    let (said, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.trim_end().ends_with("all good"), "{said}\n{errors}");
}
