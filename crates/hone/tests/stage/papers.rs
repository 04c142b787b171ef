//! Certificates of an authority of our own, as PEM files.

use std::fs;
use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// An authority, a broker's certificate for localhost and 127.0.0.1, and a client's.
pub struct Papers {
    folder: tempfile::TempDir,
}

impl Papers {
    pub fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "test authority");
        let papers = Self { folder };
        fs::write(papers.path("ca.pem"), params.self_signed(&key).unwrap().pem()).unwrap();
        let issuer = Issuer::new(params, key);
        for (who, hosts) in [
            ("broker", vec!["localhost", "127.0.0.1"]),
            ("elsewhere", vec!["broker.example"]),
            ("client", vec!["client"]),
        ] {
            let key = KeyPair::generate().unwrap();
            let hosts: Vec<String> = hosts.into_iter().map(str::to_owned).collect();
            let certificate = CertificateParams::new(hosts).unwrap().signed_by(&key, &issuer).unwrap();
            fs::write(papers.path(&format!("{who}.pem")), certificate.pem()).unwrap();
            fs::write(papers.path(&format!("{who}.key")), key.serialize_pem()).unwrap();
        }
        papers
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// A file with one line.
    pub fn note(&self, name: &str, line: &str) -> String {
        fs::write(self.path(name), format!("{line}\n")).unwrap();
        self.text(name)
    }
}
