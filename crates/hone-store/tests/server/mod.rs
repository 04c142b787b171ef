//! A real S3 server on loopback, with signed requests: each folder of its folder is a bucket.

#![allow(unreachable_pub, dead_code, reason = "each test uses its part of the server")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;

pub const KEY: &str = "test-key";
pub const SECRET: &str = "test-secret";

/// Serves a folder until the test ends.
pub fn serve(folder: &Path) -> SocketAddr {
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

/// Serves an empty bucket, kept below a folder, and answers the settings that a client needs to get in.
pub fn bucket(folder: &Path, name: &str) -> Vec<(String, String)> {
    let buckets = folder.join("buckets");
    std::fs::create_dir_all(buckets.join(name)).unwrap();
    settings(serve(&buckets), SECRET).to_vec()
}

/// The settings that a client needs to get in.
pub fn settings(address: SocketAddr, secret: &str) -> [(String, String); 5] {
    [
        ("AWS_ENDPOINT_URL", format!("http://{address}").as_str()),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ACCESS_KEY_ID", KEY),
        ("AWS_SECRET_ACCESS_KEY", secret),
        ("AWS_REGION", "us-east-1"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
}
