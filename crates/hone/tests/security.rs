//! TLS and logins of the load, against the embedded broker: what is let in does the same work as in plain, and each way of
//! being refused is told in words that lead on.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;

mod stage;
use stage::papers::Papers;
use stage::{Broker, Ran, hone, hone_command};

const PASSWORD: &str = "correct horse = battery, staple";

fn broker(args: &[&str]) -> Broker {
    Broker::start_as(hone_command().arg("broker").args(args))
}

fn load(address: &str, security: &[&str]) -> Ran {
    let load = ["load", address, "--rate", "400", "--duration", "1", "--warmup", "50", "--json", "--quiet"];
    hone(&[&load[..], security].concat())
}

#[track_caller]
fn expect_whole(ran: Ran) {
    let record = ran.expect_code(0).json();
    let facts = &record["body"]["facts"];
    assert_eq!(facts["acked_requests"], facts["requests"], "{facts:#}");
    assert!(facts["requests"].as_u64().unwrap() > 200, "{facts:#}");
    // The kernel begins to stamp a moment after the first socket asks for it, by the window's first half at the latest.
    let times = ["answers", "stamped"].map(|name| facts["answer_times"][name].as_u64().unwrap());
    assert!(times[0] >= facts["requests"].as_u64().unwrap() && times[1] * 2 > times[0], "{facts:#}");
}

#[test]
fn inside_tls_everything_works_as_in_plain() {
    let papers = Papers::make();
    let (certificate, key, ca) =
        (papers.text("broker.pem"), papers.text("broker.key"), papers.text("ca.pem"));
    let broker = broker(&["--tls-cert", &certificate, "--tls-key", &key]);
    expect_whole(load(&broker.address, &["--tls-ca", &ca]));
    expect_whole(load(
        &broker.address,
        &["--tls-ca", &ca, "--acks", "1", "--records", "200", "--bytes", "1000"],
    ));
    expect_whole(load(&broker.address, &["--tls-insecure-skip-verify"]));
    let consumed = load(&broker.address, &["--tls-ca", &ca, "--consumers", "2"]).expect_code(0).json();
    let seen = &consumed["body"]["end_to_end"];
    assert_eq!((&seen["consumers"], &seen["missing"]), (&2.into(), &0.into()), "{seen:#}");
    assert_eq!(consumed["body"]["environment"]["security"], "tls");
    expect_whole(load(&broker.address, &["--tls-ca", &ca, "--tls-server-name", "localhost"]));
}

#[test]
fn a_refused_certificate_says_which_way_to_go() {
    let papers = Papers::make();
    let strangers = Papers::make();
    let (certificate, key) = (papers.text("broker.pem"), papers.text("broker.key"));
    let broker = broker(&["--tls-cert", &certificate, "--tls-key", &key]);
    load(&broker.address, &["--tls-ca", &strangers.text("ca.pem")])
        .expect_code(1)
        .expect_error("invalid peer certificate")
        .expect_error("pass the CA that signed the broker's certificate (--tls-ca FILE)");
    load(&broker.address, &["--tls-ca", &papers.text("ca.pem"), "--tls-server-name", "broker.example"])
        .expect_code(1)
        .expect_error("no TLS with")
        .expect_error("--tls-server-name NAME");
    load(&broker.address, &["--tls-ca", "/no/such/file"]).expect_code(1).expect_error("/no/such/file");
    load(&broker.address, &["--tls-ca", &papers.text("ca.pem"), "--tls-cert", &papers.text("client.pem")])
        .expect_code(2);
    let (cert, key) = (papers.text("client.pem"), strangers.text("client.key"));
    load(&broker.address, &["--tls-ca", &papers.text("ca.pem"), "--tls-cert", &cert, "--tls-key", &key])
        .expect_code(1)
        .expect_error("does not fit the certificate");
}

#[test]
fn a_broker_that_wants_a_certificate_gets_one_or_says_so() {
    let papers = Papers::make();
    let strangers = Papers::make();
    let (certificate, key, ca) =
        (papers.text("broker.pem"), papers.text("broker.key"), papers.text("ca.pem"));
    let broker = broker(&["--tls-cert", &certificate, "--tls-key", &key, "--tls-client-ca", &ca]);
    let own = |papers: &Papers| [papers.text("client.pem"), papers.text("client.key")];
    let [cert, key] = own(&papers);
    expect_whole(load(&broker.address, &["--tls-ca", &ca, "--tls-cert", &cert, "--tls-key", &key]));
    load(&broker.address, &["--tls-ca", &ca])
        .expect_code(1)
        .expect_error("requires a client certificate")
        .expect_error("--tls-cert FILE --tls-key FILE");
    let [cert, key] = own(&strangers);
    load(&broker.address, &["--tls-ca", &ca, "--tls-cert", &cert, "--tls-key", &key])
        .expect_code(1)
        .expect_error("rejects this client's certificate");
}

#[test]
fn every_mechanism_logs_in_and_a_wrong_password_is_named() {
    let papers = Papers::make();
    let (certificate, key, ca) =
        (papers.text("broker.pem"), papers.text("broker.key"), papers.text("ca.pem"));
    let (right, wrong) = (papers.note("right", PASSWORD), papers.note("wrong", "battery horse"));
    let user = format!("ada:{right}");
    let broker = broker(&["--tls-cert", &certificate, "--tls-key", &key, "--sasl", "--user", &user]);
    let login = |mechanism: &str, file: &str| {
        load(
            &broker.address,
            &[
                "--tls-ca",
                &ca,
                "--sasl-mechanism",
                mechanism,
                "--sasl-user",
                "ada",
                "--sasl-password-file",
                file,
            ],
        )
    };
    for mechanism in ["PLAIN", "SCRAM-SHA-256", "scram-sha-512"] {
        expect_whole(login(mechanism, &right));
        login(mechanism, &wrong)
            .expect_code(1)
            .expect_error("refused the login of `ada` by")
            .expect_error("SASL_AUTHENTICATION_FAILED")
            .expect_error("--sasl-password-file");
    }
    // Nobody has told this broker who asks.
    load(&broker.address, &["--tls-ca", &ca])
        .expect_code(1)
        .expect_error("--sasl-mechanism if it wants a login");
    login("SCRAM-SHA-256", "/no/such/file").expect_code(1).expect_error("/no/such/file");
    load(&broker.address, &["--tls-ca", &ca, "--sasl-mechanism", "PLAIN", "--sasl-user", "ada"])
        .expect_code(2)
        .expect_error("HONE_SASL_PASSWORD");
    load(&broker.address, &["--sasl-mechanism", "GSSAPI", "--sasl-user", "ada"])
        .expect_code(2)
        .expect_error("SCRAM-SHA-512");
}

#[test]
fn a_mechanism_that_the_broker_does_not_offer_is_told_with_those_that_it_does() {
    let papers = Papers::make();
    let right = papers.note("right", PASSWORD);
    let user = format!("ada:{right}");
    // Without TLS it takes no passwords in plain.
    let broker = broker(&["--sasl", "--user", &user]);
    let login = |mechanism: &str| {
        load(
            &broker.address,
            &["--sasl-mechanism", mechanism, "--sasl-user", "ada", "--sasl-password-file", &right],
        )
    };
    expect_whole(login("SCRAM-SHA-256"));
    login("PLAIN").expect_code(1).expect_error("does not support PLAIN").expect_error("SCRAM-SHA-256");
}

#[test]
fn tls_to_a_plain_port_and_the_reverse_are_told_apart_from_a_broken_broker() {
    let papers = Papers::make();
    let plain = Broker::start();
    load(&plain.address, &["--tls-ca", &papers.text("ca.pem")])
        .expect_code(1)
        .expect_error("no TLS with")
        .expect_error("leave out --tls");
    let (certificate, key) = (papers.text("broker.pem"), papers.text("broker.key"));
    let tls = broker(&["--tls-cert", &certificate, "--tls-key", &key]);
    let ran = load(&tls.address, &[]).expect_code(1);
    assert!(ran.stderr.contains("next: add --tls"), "{}", ran.stderr);
}

/// A TLS library that answers a foreign first message as most do: with an alert.
#[test]
fn an_alert_in_answer_to_a_plain_question_is_recognised() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1024]);
        stream.write_all(&[21, 3, 3, 0, 2, 2, 70]).unwrap();
    });
    load(&address, &[]).expect_code(1).expect_error("speaks TLS").expect_error("next: add --tls");
    server.join().unwrap();
}

/// A comparison and a duet talk to their brokers the same way.
#[test]
fn compare_takes_the_same_options() {
    let papers = Papers::make();
    let (certificate, key, ca) =
        (papers.text("broker.pem"), papers.text("broker.key"), papers.text("ca.pem"));
    let runs = papers.text("runs");
    let command = format!(
        "{} broker --memory --listen 127.0.0.1:{{port}} --metrics-listen off --tls-cert {certificate} --tls-key {key}",
        env!("CARGO_BIN_EXE_hone")
    );
    let ran = hone(&[
        "compare",
        &command,
        &command,
        "--rate",
        "300",
        "--duration",
        "0.5",
        "--warmup",
        "20",
        "--pairs",
        "5",
        "--control-pairs",
        "0",
        "--no-pinning",
        "--no-counts",
        "--output",
        &runs,
        "--quiet",
        "--tls-ca",
        &ca,
    ]);
    assert!(matches!(ran.code, 0 | 3), "{}\n{}", ran.stdout, ran.stderr);
}
