//! Maps brokers to hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, ToSocketAddrs as _};

use anyhow::{Result, bail};
use hone_host::rollout::inventory::Host;
use hone_load::health::Node;

use hone_experiment::ending::Usage;

/// Finds the broker and the rack of each host that does not name its own.
pub(crate) fn placed(hosts: Vec<Host>, brokers: &BTreeMap<i32, Node>) -> Result<Vec<Host>> {
    let place = |mut host: Host| {
        let id = match host.broker {
            Some(id) => id,
            None => broker_of(&host.name, brokers)?,
        };
        let Some(node) = brokers.get(&id) else {
            bail!(Usage(format!(
                "{}: the cluster has no broker {id}; it has {}",
                host.name,
                listed(brokers.keys())
            )));
        };
        host.broker = Some(id);
        host.rack = host.rack.or_else(|| node.rack.clone());
        Ok(host)
    };
    let hosts: Vec<Host> = hosts.into_iter().map(place).collect::<Result<_>>()?;
    let distinct: BTreeSet<Option<i32>> = hosts.iter().map(|host| host.broker).collect();
    if distinct.len() < hosts.len() {
        bail!(Usage(
            "two hosts of the inventory have the same broker\n  next: write `broker = ID` for each of them \
             into the inventory"
                .to_owned()
        ));
    }
    Ok(hosts)
}

fn listed<'a>(ids: impl Iterator<Item = &'a i32>) -> String {
    ids.map(i32::to_string).collect::<Vec<_>>().join(", ")
}

/// By the broker's advertised address: the name itself, or one of its IP addresses.
pub(crate) fn broker_of(name: &str, brokers: &BTreeMap<i32, Node>) -> Result<i32> {
    let name = name.rsplit_once('@').map_or(name, |(_, host)| host);
    let host_of =
        |node: &Node| node.address.rsplit_once(':').map_or(String::new(), |(host, _)| host.to_owned());
    let only = |found: Vec<i32>| match found.as_slice() {
        [one] => Some(*one),
        _ => None,
    };
    let by_name =
        brokers.iter().filter(|(_, node)| host_of(node).eq_ignore_ascii_case(name)).map(|(id, _)| *id);
    if let Some(id) = only(by_name.collect()) {
        return Ok(id);
    }
    let addresses = |host: &str| -> BTreeSet<IpAddr> {
        (host, 0)
            .to_socket_addrs()
            .map(|found| found.map(|address| address.ip()).collect())
            .unwrap_or_default()
    };
    let own = addresses(name);
    let shares = |node: &Node| addresses(&host_of(node)).intersection(&own).next().is_some();
    let by_address = brokers.iter().filter(|(_, node)| shares(node)).map(|(id, _)| *id).collect();
    only(by_address).ok_or_else(|| {
        let known: Vec<String> =
            brokers.iter().map(|(id, node)| format!("{id} at {}", node.address)).collect();
        Usage(format!(
            "no broker's address matches host {name} ({})\n  next: write `broker = ID` into the inventory",
            known.join(", ")
        ))
        .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hone_host::rollout::inventory::named;

    fn brokers() -> BTreeMap<i32, Node> {
        let node = |address: &str, rack: &str| Node {
            address: address.to_owned(),
            rack: Some(rack.to_owned()),
            silent: None,
        };
        BTreeMap::from([
            (1, node("kafka-1.example:9092", "a")),
            (2, node("127.0.0.2:9092", "b")),
            (3, node("127.0.0.3:9092", "b")),
            (4, node("127.0.0.3:9093", "b")),
        ])
    }

    fn found(names: &[&str]) -> Result<Vec<(Option<i32>, Option<String>)>> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let hosts = placed(named(&names).unwrap(), &brokers())?;
        Ok(hosts.into_iter().map(|host| (host.broker, host.rack)).collect())
    }

    #[test]
    fn brokers_are_found_by_name_or_address_and_never_guessed() {
        let rack = |rack: &str| Some(rack.to_owned());
        assert_eq!(
            found(&["root@KAFKA-1.example", "127.0.0.2"]).unwrap(),
            [(Some(1), rack("a")), (Some(2), rack("b"))]
        );
        // Two brokers at one address, and a host without a broker.
        for name in ["127.0.0.3", "127.0.0.9"] {
            assert!(found(&[name]).unwrap_err().to_string().contains("broker = ID"), "{name}");
        }
        assert!(found(&["127.0.0.2", "x@127.0.0.2"]).unwrap_err().to_string().contains("the same broker"));
        let mut host = named(&["h".to_owned()]).unwrap();
        host[0].broker = Some(9);
        assert!(placed(host, &brokers()).unwrap_err().to_string().contains("it has 1, 2, 3, 4"));
    }
}
