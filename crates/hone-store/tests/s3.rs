//! An object store over the network: a real S3 server on loopback, with signed requests.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc;

use hone_store::{Store, StoreError};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;

const KEY: &str = "test-key";
const SECRET: &str = "test-secret";

/// Serves a folder, each of whose folders is a bucket, until the test ends.
fn serve(folder: &Path) -> SocketAddr {
    let files = FileSystem::new(folder).unwrap();
    let mut service = S3ServiceBuilder::new(files);
    service.set_auth(SimpleAuth::from_single(KEY, SECRET));
    let service = service.build();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            tell.send(listener.local_addr().unwrap()).unwrap();
            loop {
                let (socket, _) = listener.accept().await.unwrap();
                let service = service.clone();
                tokio::spawn(async move {
                    let server = Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
    });
    told.recv().unwrap()
}

fn settings(address: SocketAddr, secret: &str) -> [(String, String); 5] {
    [
        ("AWS_ENDPOINT_URL", format!("http://{address}").as_str()),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ACCESS_KEY_ID", KEY),
        ("AWS_SECRET_ACCESS_KEY", secret),
        ("AWS_REGION", "us-east-1"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
}

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
