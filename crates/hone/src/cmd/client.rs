//! Options for what sends the load, and for who reads it; shared by `load` and `compare`.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use clap::Args;
use hone_record::Engine;

use crate::Usage;

/// Who sends and who reads.
#[derive(Debug, Args)]
#[command(next_help_heading = "Clients")]
pub(crate) struct ClientOptions {
    /// What sends: `wire` (Hone's own frames: the batch is an input), `librdkafka` (the batch is an output, and a request
    /// of the schedule is one record), or a command that speaks the line protocol of docs/client-protocol.md.
    #[arg(long, default_value = "wire", value_name = "CLIENT")]
    pub(crate) client: String,
    /// Setting of the client, for example linger.ms=5; may be repeated. All others are the client's own defaults.
    #[arg(long = "client-set", value_name = "KEY=VALUE")]
    client_set: Vec<String>,
    /// Consumers, each of which reads everything; gives the latency from end to end.
    #[arg(long, default_value_t = 0)]
    pub(crate) consumers: u32,
    /// Let the consumers share the partitions as one group, and commit their offsets.
    #[arg(long)]
    pub(crate) consumer_group: bool,
}

impl ClientOptions {
    /// The settings as pairs.
    pub(crate) fn settings(&self) -> Result<BTreeMap<String, String>> {
        let pair = |pair: &String| match pair.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.to_owned())),
            _ => bail!(Usage(format!("--client-set `{pair}` is no KEY=VALUE, for example linger.ms=5"))),
        };
        self.client_set.iter().map(pair).collect()
    }
}

/// The engine of a name or of a command line, which is split as a shell would and never given to one.
pub(crate) fn engine(client: &str, settings: BTreeMap<String, String>) -> Result<Engine, String> {
    match client {
        "wire" if settings.is_empty() => Ok(Engine::Wire),
        "wire" => {
            Err("the wire engine has no client settings; its requests are described by the workload's own \
                       (records, connections, in-flight ...). Settings are for `librdkafka` or a command"
                .to_owned())
        }
        "librdkafka" => Ok(Engine::Librdkafka { settings }),
        line => {
            let command =
                shlex::split(line).ok_or_else(|| format!("the client `{line}` has an unclosed quote"))?;
            if command.is_empty() {
                return Err("the client is empty; there are `wire`, `librdkafka`, or a command".to_owned());
            }
            Ok(Engine::Command { command, settings })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_commands_are_told_apart() {
        let linger = BTreeMap::from([("linger.ms".to_owned(), "5".to_owned())]);
        assert_eq!(engine("wire", BTreeMap::new()).unwrap(), Engine::Wire);
        assert!(engine("wire", linger.clone()).unwrap_err().contains("no client settings"));
        assert_eq!(engine("librdkafka", linger.clone()).unwrap(), Engine::Librdkafka { settings: linger });
        let Ok(Engine::Command { command, .. }) = engine("java -cp 'a b' Client", BTreeMap::new()) else {
            panic!("no command");
        };
        assert_eq!(command, ["java", "-cp", "a b", "Client"]);
        assert!(engine("'", BTreeMap::new()).unwrap_err().contains("unclosed quote"));
        assert!(engine(" ", BTreeMap::new()).unwrap_err().contains("empty"));
    }
}
