//! What a call of `hone load` hands on to the pods that send the load.

use hone_record::{Payload, Schedule, Workload};

use crate::kubernetes::{SECRETS, name_in_secret};

/// What a load needs that is on this machine alone, with the way out.
pub fn only_here(pid: Option<u32>, workload: &Workload) -> Option<&'static str> {
    if pid.is_some() {
        return Some(
            "--pid is a process of this machine, and none of theirs\n  next: leave it out, or measure the target's CPU on its own machine",
        );
    }
    match (&workload.schedule, &workload.payload) {
        (Schedule::Replay { source, .. }, _) if !source.starts_with("topic ") => Some(
            "they have no file of --schedule replay:FILE\n  next: replay a topic (replay:topic:NAME), or print the manifest without it, and give \
             its load the option and a volume with the file",
        ),
        (_, Payload::File { .. }) => Some(
            "they have no file of --payload file:PATH\n  next: take another payload, or print the manifest without it, and give its load the \
             option and a volume with the file",
        ),
        _ => None,
    }
}

/// What the pods need of this call.
#[derive(Debug, PartialEq, Eq)]
pub struct Handed {
    /// The arguments of the load.
    pub load: Vec<String>,
    /// The rules, which only the merge can judge.
    pub rules: Vec<String>,
}

/// Tells them apart in the command line of this call. `files` are options that name a file, which the pods have out of a secret.
pub fn handed_on(arguments: impl Iterator<Item = String>, files: &[&str]) -> Handed {
    const WITH_VALUE: [&str; 11] = [
        "--emit",
        "--shards",
        "--image",
        "--job-name",
        "--store",
        "--wait",
        "--output",
        "-o",
        "--series",
        "--hgrm",
        "--raw",
    ];
    let mut arguments = arguments.skip_while(|argument| argument != "load").skip(1);
    let mut handed = Handed { load: Vec::new(), rules: Vec::new() };
    while let Some(argument) = arguments.next() {
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            // The value of a short option may be joined to it.
            None if argument.starts_with("-o") => {
                ("-o", argument.strip_prefix("-o").filter(|file| !file.is_empty()).map(str::to_owned))
            }
            None => (argument.as_str(), None),
        };
        if name == "--require" {
            handed.rules.extend(value.or_else(|| arguments.next()));
        } else if files.contains(&name) {
            handed.load.extend([name.to_owned(), format!("{SECRETS}/{}", name_in_secret(name))]);
            if value.is_none() {
                arguments.next();
            }
        } else if !WITH_VALUE.contains(&name) {
            handed.load.push(argument);
        } else if value.is_none() {
            arguments.next();
        }
    }
    handed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shards_get_the_load_and_not_the_manifest() {
        let call = "--quiet load k:9092 --rate 5 --emit kubernetes --store=s3://b/p --shards 2 --acks=1 --image i -o f -of --json \
                    --require p99<3ms --require=lag<=2 --raw r.csv --raw=r --tls-ca ca.pem --sasl-password-file=secret --tls";
        let handed = handed_on(call.split(' ').map(str::to_owned), &["--tls-ca", "--sasl-password-file"]);
        let files = ["--tls-ca", "/security/tls-ca", "--sasl-password-file", "/security/sasl-password-file"];
        let load = [&["k:9092", "--rate", "5", "--acks=1", "--json"][..], &files, &["--tls"]].concat();
        assert_eq!(handed.load, load);
        assert_eq!(handed.rules, ["p99<3ms", "lag<=2"]);
    }
}
