//! An object store over the network.

use std::collections::BTreeSet;

use hone_store::{Store, StoreError};

mod server;
use server::{SECRET, serve, settings};

#[test]
fn records_go_to_a_bucket_and_come_back() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("runs")).unwrap();
    let address = serve(folder.path());
    let store = Store::open_with("s3://runs/today/one", settings(address, SECRET)).unwrap();
    assert_eq!(store.get("shard-0.json").unwrap(), None);
    for shard in 0..3 {
        store.put(&format!("shard-{shard}.json"), format!("record {shard}").into_bytes()).unwrap();
    }
    let names: BTreeSet<String> = store.names().unwrap().into_iter().collect();
    assert_eq!(names, (0..3).map(|shard| format!("shard-{shard}.json")).collect());
    assert_eq!(store.get("shard-2.json").unwrap().unwrap(), b"record 2");
    assert!(folder.path().join("runs/today/one/shard-1.json").exists(), "the server has no file");
    let other = Store::open_with("s3://runs/today/two", settings(address, SECRET)).unwrap();
    assert_eq!(other.names().unwrap(), Vec::<String>::new());
}

#[test]
fn a_wrong_secret_is_told_in_the_servers_words_and_without_the_secret() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("runs")).unwrap();
    let store = Store::open_with("s3://runs/x", settings(serve(folder.path()), "wrong-secret")).unwrap();
    let error = store.put("a.json", b"x".to_vec()).unwrap_err();
    assert!(matches!(error, StoreError::Failed { .. }), "{error}");
    let text = format!("{error} {store:?}");
    assert!(text.contains("writing a.json in s3://runs/x failed"), "{text}");
    assert!(text.contains("SignatureDoesNotMatch") || text.contains("403"), "{text}");
    assert!(!text.contains("wrong-secret"), "{text}");
}
