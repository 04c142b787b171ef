//! The broker's small files with anything in them: to open one never panics; it is taken, cut at its torn tail, or
//! refused with a reason. What was taken once is taken again, and says the same.
//!
//! An input is a byte for the kind of file, then its contents; for a journal whose frames are to be right, entries
//! behind 16-bit lengths.

use std::fs;
use std::path::Path;

use super::cursor::Cursor;
use crate::coordinator::Coordinator;
use crate::endpoint::Endpoint;
use crate::journal::{Damage, Journal};
use crate::notices::Notices;
use crate::partition::Storage;
use crate::properties::broker::BrokerProperties;
use crate::quotas::Quotas;
use crate::security::Security;
use crate::security::acl::{Acls, Filter, PatternFilter};
use crate::settings::Settings;
use crate::topics::Topics;
use crate::transactions::Transactions;

/// File names by kind; the last bits of the kind say which, [`FRAMED`] says that it is a journal to be framed rightly.
pub(super) const FILES: [&str; 6] =
    ["groups.journal", "transactions.journal", "cluster.json", "acls.json", "quotas.json", "users.json"];
pub(super) const FRAMED: u8 = 0x80;
const MOST_ENTRIES: usize = 64;

const EVERY_RULE: Filter = Filter {
    resource: None,
    pattern: PatternFilter::Any,
    name: None,
    principal: None,
    host: None,
    operation: None,
    permission: None,
};

/// Runs an input.
pub fn journal(data: &[u8]) {
    let mut input = Cursor::new(data);
    let kind = input.u8();
    let name = FILES[usize::from(kind & !FRAMED) % FILES.len()];
    let folder = super::folder();
    let path = folder.path().join(name);
    // Where the topics of a cluster.json have their logs.
    fs::create_dir(folder.path().join("log")).expect("the folder of the logs");
    if kind & FRAMED != 0 && name.ends_with(".journal") {
        frame(&path, &mut input);
    } else {
        fs::write(&path, input.rest()).expect("the file");
    }
    let Ok(first) = open(name, folder.path()) else { return };
    let second = open(name, folder.path())
        .unwrap_or_else(|error| panic!("{name} is refused the second time: {error}"));
    assert_eq!(first, second, "{name} says something else the second time");
    if name == FILES[0] {
        fs::remove_file(&path).expect("the journal");
        write(&path, first.clone());
        let rewritten = open(name, folder.path()).expect("what the broker wrote itself");
        assert_eq!(first, rewritten, "{name} differs after it is rewritten");
    }
}

fn frame(path: &Path, input: &mut Cursor<'_>) {
    let mut entries = Vec::new();
    while entries.len() < MOST_ENTRIES && !input.is_empty() {
        entries.push(input.piece().to_vec());
    }
    write(path, entries);
}

fn write(path: &Path, entries: Vec<Vec<u8>>) {
    let journal = Journal::open(path, Damage::Skip, &Notices::nowhere(), |_| ()).expect("a new journal");
    entries.into_iter().for_each(|entry| journal.append(entry, None));
    journal.close();
}

/// What the file says.
fn open(name: &str, folder: &Path) -> Result<Vec<Vec<u8>>, String> {
    let data_dir = Some(folder);
    let said = |mut all: Vec<String>| {
        all.sort();
        all.into_iter().map(String::into_bytes).collect()
    };
    let opened = match name {
        "groups.journal" => Coordinator::open(data_dir, &Settings::new(folder)).map(|coordinator| {
            let mut records = coordinator.groups.all_records();
            records.extend(coordinator.offsets.begin_records());
            coordinator.offsets.add_records(usize::MAX, &mut records);
            records
        }),
        "transactions.journal" => Transactions::open(data_dir, &Notices::nowhere())
            .map(|all| said(all.list(|name, transaction| Some(format!("{name}: {transaction:?}")))))
            .map_err(Into::into),
        "cluster.json" => topics(folder).map(|topics| {
            let shown = |topic: &crate::topics::Topic| format!("{} {}", topic.name, topic.partitions.len());
            said(topics.all().iter().map(|topic| shown(topic)).collect())
        }),
        "acls.json" => Acls::open(data_dir, true, &["User:admin".to_owned()])
            .map(|acls| said(acls.find(&EVERY_RULE).iter().map(|rule| format!("{rule:?}")).collect())),
        "quotas.json" => Quotas::open(data_dir)
            .map(|quotas| said(quotas.all().iter().map(|row| format!("{row:?}")).collect())),
        _ => Security::open(&Settings::new(folder), data_dir).map(|(security, _)| {
            let users = &security.users;
            said(users.names().iter().map(|name| format!("{name}: {:?}", users.describe(name))).collect())
        }),
    };
    opened.map_err(|error| {
        let error = format!("{error:#}");
        assert!(error.contains(name), "which file is bad is not said: {error}");
        error
    })
}

fn topics(folder: &Path) -> anyhow::Result<Topics> {
    let advertised = Endpoint { host: "localhost".to_owned(), port: 9092 };
    let started_with = BrokerProperties::fixed(&Settings::new(folder), &advertised).expect("properties");
    Topics::open(Some(folder.to_owned()), &started_with, Storage::on_disk(Notices::nowhere()))
}
