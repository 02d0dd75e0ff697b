use std::fs;

use rcgen::{CertificateParams, KeyPair};
use tempfile::TempDir;

use super::*;

/// The files of a port, in a folder of their own.
struct Folder {
    folder: TempDir,
}

impl Folder {
    fn new() -> Self {
        let folder = Self { folder: TempDir::new().unwrap() };
        let (certificate, key) = identity();
        folder.write("crt", &certificate);
        folder.write("key", &key);
        folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn files(&self) -> TlsFiles {
        TlsFiles {
            flags: "--grpc-tls",
            certificate: self.path("crt"),
            key: self.path("key"),
            client_authorities: None,
            client_names: Vec::new(),
            lets_strangers_in: false,
            protocols: &[b"h2"],
        }
    }

    fn fault(&self, files: TlsFiles) -> String {
        let fault = load(files).unwrap_err();
        fault.replace(self.folder.path().to_str().unwrap(), "FOLDER")
    }
}

fn load(files: TlsFiles) -> Result<ServerTls, String> {
    ServerTls::load(files, Arc::new(Clock::start()))
}

/// A certificate and its key.
fn identity() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

fn counts(tls: &ServerTls) -> (u64, u64) {
    (tls.loads.good.get(), tls.loads.bad.get())
}

#[test]
fn faults_name_the_flag_and_the_file() {
    let folder = Folder::new();
    let files = folder.files();
    let nowhere = |name| folder.path(name);
    let fault = folder.fault(TlsFiles { certificate: nowhere("gone"), ..files.clone() });
    assert!(fault.starts_with("--grpc-tls-cert: FOLDER/gone: No such file"), "{fault}");
    let fault = folder.fault(TlsFiles { key: nowhere("crt"), ..files.clone() });
    assert_eq!(fault, "--grpc-tls-key: FOLDER/crt: it holds no private key in the PEM format");
    let fault = folder.fault(TlsFiles { client_authorities: Some(nowhere("key")), ..files.clone() });
    assert_eq!(fault, "--grpc-tls-client-ca: FOLDER/key: it holds no certificate in the PEM format");
    let fault = folder.fault(TlsFiles { client_authorities: Some(nowhere("crt")), ..files.clone() });
    assert!(
        fault.starts_with("--grpc-tls-client-ca: FOLDER/crt: it holds certificates, and none of an authority"),
        "{fault}"
    );
    folder.write("damaged", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    let fault = folder.fault(TlsFiles { certificate: nowhere("damaged"), ..files.clone() });
    assert!(fault.starts_with("--grpc-tls-cert: FOLDER/damaged: a certificate in it is damaged"), "{fault}");
    let fault = folder.fault(TlsFiles { client_authorities: Some(nowhere("damaged")), ..files.clone() });
    assert!(fault.starts_with("--grpc-tls-client-ca: FOLDER/damaged: a certificate in it is damaged"), "{fault}");
    folder.write("key", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n");
    let fault = folder.fault(files.clone());
    assert!(fault.starts_with("--grpc-tls-key: FOLDER/key: its key is none that can be used"), "{fault}");
    folder.write("key", &identity().1);
    let fault = folder.fault(files);
    assert!(fault.starts_with("--grpc-tls-key: FOLDER/key: it is not the key of FOLDER/crt"), "{fault}");
}

#[test]
fn a_chain_begins_with_the_certificate_of_the_key() {
    let folder = Folder::new();
    let (own, other) = (fs::read_to_string(folder.path("crt")).unwrap(), identity().0);
    folder.write("crt", &format!("{own}{other}"));
    assert!(load(folder.files()).is_ok());
    folder.write("crt", &format!("{other}{own}"));
    let fault = folder.fault(folder.files());
    assert!(fault.starts_with("--grpc-tls-cert: FOLDER/crt: its certificates are in the wrong order"), "{fault}");
}

#[test]
fn what_has_changed_is_taken_when_it_is_whole() {
    let folder = Folder::new();
    let tls = load(folder.files()).unwrap();
    let first = tls.config();
    tls.look();
    assert!(Arc::ptr_eq(&tls.config(), &first), "nothing has changed");
    assert_eq!(counts(&tls), (1, 0));

    let (certificate, key) = identity();
    folder.write("crt", &certificate);
    tls.look();
    tls.look();
    assert!(Arc::ptr_eq(&tls.config(), &first), "the key is still that of the old one");
    assert_eq!(counts(&tls), (1, 1), "a fault counts once");

    folder.write("key", &key);
    tls.look();
    assert!(!Arc::ptr_eq(&tls.config(), &first));
    assert_eq!((counts(&tls), tls.fault.lock().take()), ((2, 1), None));
}

#[test]
fn what_is_mended_to_what_it_was_is_no_fault_any_more() {
    let folder = Folder::new();
    let tls = load(folder.files()).unwrap();
    let certificate = fs::read_to_string(folder.path("crt")).unwrap();
    folder.write("crt", &certificate[..certificate.len() / 2]);
    tls.look();
    assert!(tls.fault.lock().is_some());
    folder.write("crt", &certificate);
    tls.look();
    assert_eq!((counts(&tls), tls.fault.lock().take()), ((1, 1), None));
}

#[test]
fn the_end_of_the_certificate_is_known() {
    let folder = Folder::new();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(["localhost".to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(2100, 1, 1);
    folder.write("crt", &params.self_signed(&key).unwrap().pem());
    folder.write("key", &key.serialize_pem());
    assert_eq!(load(folder.files()).unwrap().expires(), 4_102_444_800);
}
