//! Where the corpora begin: real requests of every API in every version from a foreign encoder, and the files of a
//! broker that has served some.
//!
//! Run by hand, after an API has changed, from the root of the repository:
//! `cargo test -p hone-broker --lib fuzzing::seeds -- --ignored`

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use hone_kafka::{BatchBuilder, Codec, batch, codec};
use kafka_protocol::messages::*;
use kafka_protocol::protocol::{Decodable, Encodable};

use super::batch::{BATCH, PLAIN, RECORDS, SEALED_BATCH};
use super::journal::{FILES, FRAMED};
use super::recovery::{KINDS, SEALED, seal_batches};
use super::requests::BARE;
use super::samples::{self, Sample};
use super::world::{PASSWORD, SALT, USER};
use crate::Broker;
use crate::journal::{Damage, Journal};
use crate::keys::{self, APIS};
use crate::notices::Notices;
use crate::partition::{Ack, Marker, Opening, Partition, Storage};
use crate::settings::{NewUser, Settings};

/// Kinds of broker: without authorization, with every client as a super user, and with a login.
const OPEN: u8 = 0;
const AUTHORIZING: u8 = 1;
const LOGIN: u8 = 2;
const PRODUCE: i16 = 0;
const PRODUCE_NAMES: i16 = 3;
/// Larger inputs slow the fuzzer down more than they show.
const MOST_BYTES: usize = 6_000;

#[test]
#[ignore = "writes the corpora"]
fn write_the_corpora() {
    write("requests", requests());
    write("connection", connections());
    let (journals, logs) = of_a_broker();
    write("journal", journals);
    write("recovery", [logs, written_logs()].concat());
    write("scram", logins());
    write("batch", packed());
    write("compaction", lives());
}

type Seed = (String, Vec<u8>);

fn write(target: &str, seeds: Vec<Seed>) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    fs::create_dir_all(&folder).unwrap();
    for (name, bytes) in seeds {
        assert!(bytes.len() <= MOST_BYTES, "{target}/{name} has {} bytes", bytes.len());
        fs::write(folder.join(name), bytes).unwrap();
    }
}

fn body(request: &Sample, version: i16) -> Option<Vec<u8>> {
    // The foreign encoder begins with version 3 of Produce, where a name for transactions came in front of the rest.
    let before_names = request.key == PRODUCE && version < PRODUCE_NAMES;
    let mut bytes = BytesMut::new();
    let encoded = request.kind.encode(&mut bytes, if before_names { PRODUCE_NAMES } else { version });
    encoded.ok().map(|()| bytes[if before_names { 2 } else { 0 }..].to_vec())
}

fn piece(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat()
}

/// One request of an input for `requests`.
fn element(request: &Sample, version: i16) -> Option<Vec<u8>> {
    let key = u8::try_from(request.key).unwrap();
    let head = [key, u8::try_from(version).unwrap()];
    Some([&head[..], &piece(&body(request, version)?)].concat())
}

fn requests() -> Vec<Seed> {
    let mut seeds = Vec::new();
    let samples = samples::all(SALT);
    for api in APIS {
        for version in api.min..=api.max {
            let of_key = samples.iter().filter(|request| request.key == api.key);
            let elements: BTreeSet<_> = of_key.filter_map(|request| element(request, version)).collect();
            assert!(!elements.is_empty(), "no sample of {} v{version}", api.name);
            let input = [vec![AUTHORIZING], elements.into_iter().collect::<Vec<_>>().concat()].concat();
            seeds.push((format!("{}-v{version}", api.name), input));
        }
    }
    for (name, story) in samples::stories(SALT) {
        let elements = story.iter().map(|(version, request)| element(request, *version).unwrap());
        seeds.push((name.to_owned(), [vec![OPEN], elements.collect::<Vec<_>>().concat()].concat()));
    }
    seeds.extend(login_requests());
    seeds
}

fn login_requests() -> Vec<Seed> {
    let plain = format!("\0{USER}\0{PASSWORD}").into_bytes();
    let first = format!("n,,n={USER},r=fyko").into_bytes();
    let handshake = |mechanism: &str| {
        samples::sample(SaslHandshakeRequest::default().with_mechanism(samples::text(mechanism)))
    };
    let token = |bytes: &[u8]| {
        samples::sample(SaslAuthenticateRequest::default().with_auth_bytes(Bytes::copy_from_slice(bytes)))
    };
    let versions = samples::sample(ApiVersionsRequest::default());
    let ask = |request: &Sample, version| element(request, version).unwrap();
    let bare = |bytes: &[u8]| [&[BARE, 0][..], &piece(bytes)].concat();
    let inputs = [
        ("login-plain", vec![ask(&handshake("PLAIN"), 1), ask(&token(&plain), 2), ask(&versions, 3)]),
        ("login-plain-bare", vec![ask(&handshake("PLAIN"), 0), bare(&plain), ask(&versions, 3)]),
        (
            "login-scram",
            vec![
                ask(&handshake("SCRAM-SHA-256"), 1),
                ask(&token(&first), 1),
                ask(&token(b"c=biws,r=f,p=AA=="), 1),
            ],
        ),
        (
            "login-scram-bare",
            vec![ask(&handshake("SCRAM-SHA-512"), 0), bare(&first), bare(b"c=biws,r=f,p=AA==")],
        ),
    ];
    inputs.map(|(name, elements)| (name.to_owned(), [vec![LOGIN], elements.concat()].concat())).into()
}

/// A request with header and length, as a client sends it.
fn frame(request: &Sample, version: i16, correlation_id: i32) -> Vec<u8> {
    let key = request.key;
    let header = RequestHeader::default()
        .with_request_api_key(key)
        .with_request_api_version(version)
        .with_correlation_id(correlation_id)
        .with_client_id(Some(samples::text("f")));
    let mut bytes = BytesMut::new();
    let api = ApiKey::try_from(key).unwrap();
    header.encode(&mut bytes, api.request_header_version(version)).unwrap();
    request.kind.encode(&mut bytes, version).unwrap();
    [&u32::try_from(bytes.len()).unwrap().to_be_bytes()[..], &bytes].concat()
}

fn connections() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for (name, story) in samples::stories(SALT) {
        let frames = story.iter().zip(1..).map(|((version, request), id)| frame(request, *version, id));
        let stream = frames.collect::<Vec<_>>().concat();
        for (how, sizes) in [("whole", [255; 7]), ("pieces", [0, 3, 40, 7, 1, 100, 19])] {
            seeds.push((format!("{name}-{how}"), [&[OPEN][..], &sizes, &stream].concat()));
        }
    }
    seeds
}

/// Files that a broker leaves behind which has done a bit of everything.
fn of_a_broker() -> (Vec<Seed>, Vec<Seed>) {
    let folder = tempfile::tempdir().unwrap();
    let mut settings = Settings::new(folder.path());
    settings.listen.set_port(0);
    settings.metrics_listen = None;
    settings.threads = 1;
    settings.default_partitions = 2;
    settings.authorize = true;
    settings.super_users = vec!["User:ANONYMOUS".to_owned()];
    settings.group_initial_delay_ms = 0;
    let broker = Broker::start(settings).unwrap();
    let mut stream = TcpStream::connect(broker.kafka_addr()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    for (version, request) in samples::filling() {
        ask(&mut stream, &request, version);
    }
    let member = join(&mut stream);
    for (version, request) in samples::membership(&member) {
        ask(&mut stream, &request, version);
    }
    drop(stream);
    broker.stop().unwrap();
    let mut users = Settings::in_memory();
    users.users = vec![NewUser { name: USER.to_owned(), password: PASSWORD.to_owned() }];
    crate::security::Security::open(&users, Some(folder.path())).unwrap();
    let mut journals = Vec::new();
    for (kind, name) in (0..).zip(FILES) {
        let path = folder.path().join(name);
        let contents = fs::read(&path).unwrap_or_else(|error| panic!("{name}: {error}"));
        journals.push((name.replace('.', "-"), [&[kind][..], &contents].concat()));
        if name.ends_with(".journal") {
            let mut framed = vec![kind | FRAMED];
            Journal::open(&path, Damage::Skip, &Notices::nowhere(), |entry| framed.extend(piece(entry)))
                .unwrap();
            assert!(framed.len() > 100, "{name} has nearly nothing");
            journals.push((format!("{}-framed", name.replace('.', "-")), framed));
        }
    }
    let logs = files_below(folder.path())
        .into_iter()
        .filter(|path| path.extension().is_some_and(|kind| kind == "log"))
        .map(|path| path.parent().unwrap().to_owned())
        .collect::<BTreeSet<_>>();
    let log =
        |(number, folder): (usize, PathBuf)| (format!("broker-{number}"), packed_folder(&folder, 0, SEALED));
    let logs: Vec<_> = logs.into_iter().enumerate().map(log).collect();
    assert!(!logs.is_empty(), "the broker has written no log");
    (journals, logs)
}

fn join(stream: &mut TcpStream) -> String {
    let answer = ask(stream, &samples::first_join(), 3);
    let ResponseKind::JoinGroup(answer) = answer else { panic!("{answer:?}") };
    assert_eq!(answer.error_code, 0);
    answer.member_id.to_string()
}

fn ask(stream: &mut TcpStream, request: &Sample, version: i16) -> ResponseKind {
    stream.write_all(&frame(request, version, 1)).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut answer).unwrap();
    let mut answer = Bytes::from(answer);
    let key = ApiKey::try_from(request.key).unwrap();
    ResponseHeader::decode(&mut answer, key.response_header_version(version)).unwrap();
    ResponseKind::decode(key, &mut answer, version).unwrap()
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files.sort();
    files
}

/// A partition's folder as an input of `recovery`.
fn packed_folder(folder: &Path, topic: u8, seal: u8) -> Vec<u8> {
    let mut input = vec![topic];
    for path in files_below(folder) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let (base, kind) =
            name.split_once('.').map_or((0, name), |(base, kind)| (base.parse().unwrap(), kind));
        let Some(number) = KINDS.iter().position(|known| *known == kind) else { continue };
        input.push(u8::try_from(number).unwrap() | seal);
        input.extend(u16::try_from(base).unwrap().to_be_bytes());
        input.extend(piece(&fs::read(&path).unwrap()));
    }
    input
}

/// Logs in several states: stopped, killed, compacted, with open and ended transactions.
fn written_logs() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for (compact, stops, housekeeps) in [
        (false, false, false),
        (false, true, false),
        (false, false, true),
        (true, false, true),
        (true, true, true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("t-0");
        let config = super::recovery::config(compact);
        let opening = Opening { topic: "t".to_owned(), index: 0, folder: place.clone(), config };
        let log = Partition::open(opening, &Storage::on_disk(Notices::nowhere())).unwrap();
        fill(&log, housekeeps);
        if stops {
            log.close().unwrap();
        }
        let name = format!(
            "log{}{}{}",
            ["", "-compacted"][usize::from(compact)],
            ["-killed", "-stopped"][usize::from(stops)],
            ["", "-kept"][usize::from(housekeeps)]
        );
        for (how, seal) in [("", 0), ("-sealed", SEALED)] {
            seeds.push((format!("{name}{how}"), packed_folder(&place, u8::from(compact), seal)));
        }
    }
    seeds
}

fn fill(log: &Partition, housekeeps: bool) {
    let mut now_ms = 1_700_000_000_000;
    for step in 0..14_i32 {
        now_ms += 1_000;
        let mut builder = BatchBuilder::new(Codec::ALL[step as usize % 5]);
        builder.push(Some(&[b'k', step as u8 % 3]), (step % 4 != 0).then_some(&[7; 60][..]), now_ms);
        builder.push(Some(b"other"), Some(&[step as u8; 40]), now_ms);
        let mut bytes = builder.build().unwrap();
        if step % 3 == 0 {
            batch::set_producer(&mut bytes, 5, 0, step / 3 * 2).unwrap();
            bytes[22] |= 1 << 4;
            seal_batches(&mut bytes);
        }
        log.append(&mut bytes, Ack::Relaxed, now_ms, &mut Vec::new()).unwrap();
        if step % 6 == 3 {
            let marker = if step == 3 { Marker::Abort } else { Marker::Commit };
            log.append_marker(5, 0, marker, 0, now_ms, &mut Vec::new()).unwrap();
        }
        if housekeeps && step % 5 == 4 {
            log.housekeep(now_ms).unwrap();
        }
    }
    log.flush().unwrap();
}

fn logins() -> Vec<Seed> {
    let names = ["user", "a=2Cb=3D", "\u{e4}\u{f6}"];
    let mut seeds = Vec::new();
    for (number, name) in names.iter().enumerate() {
        for choice in 0..4_u8 {
            let first = format!("n,,n={name},r=rOprNGfwEbeRWgbNEkqO");
            let last = "c=biws,r=rOprNGfwEbeRWgbNEkqO3rfcNHYJY1ZVvWVs7j,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";
            let input = [&[choice][..], &piece(first.as_bytes()), last.as_bytes()].concat();
            seeds.push((format!("name-{number}-{choice}"), input));
        }
    }
    let first = piece(b"y,a=user,n=user,r=x,ext=1");
    seeds.push(("as-oneself".to_owned(), [&[2][..], &first].concat()));
    seeds.push(("plain".to_owned(), [&[0][..], &piece(b"user\0user\0pencil")].concat()));
    seeds
}

fn packed() -> Vec<Seed> {
    let plain: Vec<u8> = (0..500_u32).flat_map(|word| (word * word % 61).to_be_bytes()).collect();
    let mut seeds = Vec::new();
    for (number, codec) in (0..).zip(Codec::ALL) {
        let name = codec.name();
        let stream = codec::compress(codec, &plain).unwrap();
        seeds.push((format!("stream-{name}"), [&[number][..], &stream].concat()));
        let twice = [stream.as_slice(), stream.as_slice()].concat();
        seeds.push((format!("streams-{name}"), [&[number][..], &twice].concat()));
        let short = codec::compress(codec, b"some text, some text, some text").unwrap();
        seeds.push((format!("short-{name}"), [&[number][..], &short].concat()));
        seeds.push((format!("plain-{name}"), [&[PLAIN + number][..], &plain[..600]].concat()));
        let built = samples::batch(codec);
        seeds.push((format!("batch-{name}"), [&[BATCH][..], &built].concat()));
        seeds.push((format!("sealed-{name}"), [&[SEALED_BATCH][..], &built, &built].concat()));
    }
    let raw = snap::raw::Encoder::new().compress_vec(&plain).unwrap();
    seeds.push(("stream-snappy-raw".to_owned(), [&[2][..], &raw].concat()));
    seeds.extend(lz4_shapes(&plain));
    let built = samples::batch(Codec::None);
    let records = &built[batch::HEADER_BYTES..];
    seeds.push(("records".to_owned(), [&[RECORDS, 3][..], records].concat()));
    seeds
}

fn lz4_shapes(plain: &[u8]) -> Vec<Seed> {
    use lz4_flex::frame::{BlockMode, FrameEncoder, FrameInfo};
    let mut seeds = Vec::new();
    for (name, mode) in [("linked", BlockMode::Linked), ("independent", BlockMode::Independent)] {
        let info = FrameInfo::new()
            .block_mode(mode)
            .block_checksums(true)
            .content_checksum(true)
            .content_size(Some(plain.len() as u64));
        let mut encoder = FrameEncoder::with_frame_info(info, Vec::new());
        for piece in plain.chunks(500) {
            encoder.write_all(piece).unwrap();
            encoder.flush().unwrap();
        }
        seeds.push((format!("stream-lz4-{name}"), [&[3][..], &encoder.finish().unwrap()].concat()));
    }
    seeds
}

/// Lives of a log, drawn by a generator without a memory of anything but its last number.
fn lives() -> Vec<Seed> {
    let mut seeds = Vec::new();
    for choice in 0..8_u8 {
        let mut state = u32::from(choice) + 1;
        let mut draw = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let mut input = vec![choice];
        for _ in 0..60 {
            let step = draw();
            input.push(step);
            match step % 8 {
                0..=4 => {
                    let count = draw() % 4;
                    input.push(count);
                    (0..=count).for_each(|_| input.extend([draw() % 5, draw() % 60]));
                }
                6 => input.extend(piece(&[8, 0, 0, 0, 2, b'k'])),
                _ => (),
            }
        }
        seeds.push((format!("life-{choice}"), input));
    }
    seeds
}

#[test]
fn every_api_has_samples_in_every_version() {
    let samples = samples::all(SALT);
    let mut missing = Vec::new();
    for api in APIS {
        assert!(keys::find(api.key).is_some());
        for version in api.min..=api.max {
            let one =
                samples.iter().any(|request| request.key == api.key && body(request, version).is_some());
            if !one {
                missing.push((api.name, version));
            }
        }
    }
    assert_eq!(missing, [], "requests without a sample");
}
