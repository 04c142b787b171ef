//! An object store over the network.

use std::collections::BTreeSet;
use std::net::TcpListener;

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

/// The server holds a writing against what was seen; where it can't, a look right before does.
#[test]
fn what_was_written_since_is_not_written_over() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("runs")).unwrap();
    let address = serve(folder.path());
    let without = ("AWS_CONDITIONAL_PUT".to_owned(), "disabled".to_owned());
    for (place, more) in [("s3://runs/with", None), ("s3://runs/without", Some(without))] {
        let store = Store::open_with(place, settings(address, SECRET).into_iter().chain(more)).unwrap();
        assert!(store.put_over("a", None, b"1".to_vec()).unwrap(), "{place}");
        assert!(!store.put_over("a", None, b"2".to_vec()).unwrap(), "{place}: another writer was first");
        let seen = store.look("a").unwrap().unwrap();
        store.put("a", b"3".to_vec()).unwrap();
        assert!(!store.put_over("a", Some(&seen), b"4".to_vec()).unwrap(), "{place}");
        let seen = store.look("a").unwrap().unwrap();
        assert!(store.put_over("a", Some(&seen), b"5".to_vec()).unwrap(), "{place}");
        assert_eq!(store.get("a").unwrap().unwrap(), b"5", "{place}");
    }
}

/// More than the usual client takes, so by the other one.
#[test]
fn a_large_object_goes_there_and_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("runs")).unwrap();
    let store = Store::open_with("s3://runs/x", settings(serve(folder.path()), SECRET)).unwrap();
    let bytes: Vec<u8> = (0..9_u32 << 20).map(|at| (at >> 8) as u8).collect();
    store.put("large", bytes.clone()).unwrap();
    assert!(store.get("large").unwrap().unwrap() == bytes, "another content came back");
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
    assert!(text.contains("next: check that the credentials in the environment are valid"), "{text}");
}

#[test]
fn a_store_that_can_not_be_had_is_told_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("runs")).unwrap();
    let address = serve(folder.path());
    let fails = |bucket: &str, settings: Vec<(String, String)>| {
        let place = format!("s3://{bucket}/x");
        let error = Store::open_with(&place, settings).unwrap().names().unwrap_err().to_string();
        assert!(error.starts_with(&format!("listing in {place} failed: ")), "{error}");
        error
    };
    let here = || settings(address, SECRET).to_vec();
    let error = fails("ruins", here());
    assert!(error.contains("next: check the spelling of the bucket"), "{error}");
    let with_tls_alone = here().into_iter().filter(|(name, _)| name != "AWS_ALLOW_HTTP").collect();
    let error = fails("runs", with_tls_alone);
    assert!(error.contains("next: set AWS_ALLOW_HTTP=true"), "{error}");
    // Nothing listens there any more.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let error = fails("runs", settings(gone, SECRET).to_vec());
    assert!(error.contains("refused") && error.contains("next: check that the store runs"), "{error}");
    let mut nobody: Vec<_> = here().into_iter().filter(|(name, _)| !name.contains("ACCESS")).collect();
    nobody.push(("AWS_METADATA_ENDPOINT".to_owned(), format!("http://{gone}")));
    let error = fails("runs", nobody);
    assert!(error.contains("next: set AWS_ACCESS_KEY_ID"), "{error}");
}
