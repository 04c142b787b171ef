//! Kafka's access control lists: which principal may do which operation on which resource, from which host.
//!
//! A rule names a pattern of resources (one name, all names of a prefix, or `*` for every name), a principal (or `User:*`),
//! a host (or `*`), an operation and whether it is allowed or denied. The broker rejects an operation that no rule allows. A rule
//! that denies wins over all rules that allow. Super users have all rights. Without authorization, everything is allowed.
//!
//! A client without the right gets the error of the resource and nothing else. So it can't find out whether a topic, a
//! group or a transactional id exists. Lists omit resources that the client did not request by name. Each handler checks
//! the rights at its beginning. If the clerk writes the answer, the decision goes along with the request.
//!
//! | API | operation on resource |
//! |---|---|
//! | Produce | Write on the topic; with a transactional id, Write on that id |
//! | Fetch | Read on the topic |
//! | ListOffsets | Describe on the topic |
//! | Metadata | Describe on the topic; to make one, Create on the cluster or the topic |
//! | OffsetCommit | Read on the group, Read on the topic |
//! | TxnOffsetCommit | Write on the transactional id, Read on the group, Read on the topic |
//! | OffsetFetch | Describe on the group, Describe on the topic |
//! | FindCoordinator | Describe on the group or the transactional id |
//! | JoinGroup, SyncGroup, Heartbeat, LeaveGroup | Read on the group |
//! | DescribeGroups | Describe on the group |
//! | ListGroups | Describe on the cluster or the group |
//! | SaslHandshake, SaslAuthenticate, ApiVersions | none |
//! | CreateTopics | Create on the cluster or the topic; to see the configuration, DescribeConfigs on the topic |
//! | DeleteTopics | Delete on the topic; to learn the name of an id, Describe on the topic |
//! | DeleteRecords | Delete on the topic |
//! | InitProducerId | Write on the transactional id; without one, IdempotentWrite on the cluster or Write on any topic |
//! | OffsetForLeaderEpoch | Describe on the topic, or ClusterAction on the cluster |
//! | AddPartitionsToTxn | Write on the transactional id, Write on the topic; between brokers, ClusterAction on the cluster |
//! | AddOffsetsToTxn | Write on the transactional id, Read on the group |
//! | EndTxn | Write on the transactional id |
//! | WriteTxnMarkers | Alter or ClusterAction on the cluster |
//! | DescribeAcls | Describe on the cluster |
//! | CreateAcls, DeleteAcls | Alter on the cluster |
//! | DescribeConfigs | DescribeConfigs on the topic or the cluster |
//! | AlterConfigs, IncrementalAlterConfigs | AlterConfigs on the topic or the cluster |
//! | DescribeLogDirs | Describe on the cluster |
//! | CreatePartitions | Alter on the topic |
//! | DeleteGroups | Delete on the group |
//! | AlterPartitionReassignments | Alter on the cluster |
//! | ListPartitionReassignments | Describe on the cluster |
//! | OffsetDelete | Delete on the group, Read on the topic |
//! | DescribeClientQuotas | DescribeConfigs on the cluster |
//! | AlterClientQuotas | AlterConfigs on the cluster |
//! | DescribeUserScramCredentials | Describe on the cluster |
//! | AlterUserScramCredentials | Alter on the cluster |
//! | DescribeCluster | none; to see what is allowed, Describe on the cluster |
//! | DescribeProducers | Read on the topic |
//! | DescribeTransactions, ListTransactions | Describe on the transactional id; topics in it, Describe on the topic |
//! | ConsumerGroupHeartbeat | Read on the group; Describe on the topics, and those a pattern finds |
//! | ConsumerGroupDescribe | Describe on the group and on every topic that it reads |
//! | DescribeTopicPartitions | Describe on the topic |

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, RwLock};

use anyhow::{Context, bail};
use serde_json::{Value, json};

use crate::durable::replace_file;

/// The one resource of the type cluster.
pub(crate) const CLUSTER: &str = "kafka-cluster";
/// Every name, every host.
const WILDCARD: &str = "*";
const EVERYONE: &str = "User:*";
const ACL_FILE: &str = "acls.json";
/// Version of `acls.json`.
const FORMAT_VERSION: u64 = 1;
/// Rules above this are refused: each look-up of `*` walks those for every name.
const MOST_RULES: usize = 100_000;

macro_rules! numbered {
    ($(#[$about:meta])* $name:ident { $($variant:ident = $number:literal $text:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub(crate) enum $name { $($variant = $number,)+ }

        impl $name {
            #[cfg(test)]
            pub(crate) const ALL: &[Self] = &[$(Self::$variant,)+];

            /// From the protocol's number.
            pub(crate) fn from_number(number: i8) -> Option<Self> {
                match number { $($number => Some(Self::$variant),)+ _ => None }
            }

            /// The protocol's number.
            pub(crate) fn number(self) -> i8 {
                self as i8
            }

            /// The name in `acls.json`, which is Kafka's.
            fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)+ }
            }

            fn from_name(name: &str) -> Option<Self> {
                match name { $($text => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

numbered! {
    /// What a rule is about.
    Resource {
        Topic = 2 "TOPIC",
        Group = 3 "GROUP",
        Cluster = 4 "CLUSTER",
        TransactionalId = 5 "TRANSACTIONAL_ID",
        DelegationToken = 6 "DELEGATION_TOKEN",
        User = 7 "USER",
    }
}

numbered! {
    /// What someone wants to do; `All` only stands in rules.
    Operation {
        All = 2 "ALL",
        Read = 3 "READ",
        Write = 4 "WRITE",
        Create = 5 "CREATE",
        Delete = 6 "DELETE",
        Alter = 7 "ALTER",
        Describe = 8 "DESCRIBE",
        ClusterAction = 9 "CLUSTER_ACTION",
        DescribeConfigs = 10 "DESCRIBE_CONFIGS",
        AlterConfigs = 11 "ALTER_CONFIGS",
        IdempotentWrite = 12 "IDEMPOTENT_WRITE",
        CreateTokens = 13 "CREATE_TOKENS",
        DescribeTokens = 14 "DESCRIBE_TOKENS",
        TwoPhaseCommit = 15 "TWO_PHASE_COMMIT",
    }
}

numbered! {
    /// Whether a rule allows or denies.
    Permission {
        Deny = 2 "DENY",
        Allow = 3 "ALLOW",
    }
}

numbered! {
    /// How the name in a rule stands for resources.
    Pattern {
        Literal = 3 "LITERAL",
        Prefixed = 4 "PREFIXED",
    }
}

impl Resource {
    /// The operations that make sense on such a resource.
    fn operations(self) -> &'static [Operation] {
        use Operation::*;
        match self {
            Self::Topic => &[Read, Write, Create, Describe, Delete, Alter, DescribeConfigs, AlterConfigs],
            Self::Group => &[Read, Describe, Delete, DescribeConfigs, AlterConfigs],
            Self::Cluster => {
                &[Create, ClusterAction, DescribeConfigs, AlterConfigs, IdempotentWrite, Alter, Describe]
            }
            Self::TransactionalId => &[Describe, Write, TwoPhaseCommit],
            Self::DelegationToken => &[Describe],
            Self::User => &[CreateTokens, DescribeTokens],
        }
    }
}

impl Operation {
    /// Whether a rule for this operation is about `wanted`. Who may do something with a resource may also see it; but
    /// to be denied one of these does not hide it.
    fn covers(self, permission: Permission, wanted: Self) -> bool {
        use Operation::*;
        if self == All || self == wanted {
            return true;
        }
        permission == Permission::Allow
            && match wanted {
                Describe => matches!(self, Read | Write | Delete | Alter),
                DescribeConfigs => self == AlterConfigs,
                _ => false,
            }
    }
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Rule {
    pub(crate) resource: Resource,
    pub(crate) pattern: Pattern,
    pub(crate) name: String,
    pub(crate) principal: String,
    pub(crate) host: String,
    pub(crate) operation: Operation,
    pub(crate) permission: Permission,
}

impl Rule {
    /// Checks the rule. The error is for the client that sent it.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.name.is_empty() {
            return Err("the resource of a rule has no name; `*` stands for every name".to_owned());
        }
        if self.resource == Resource::Cluster && self.name != CLUSTER {
            return Err(format!("the only resource of the type cluster is `{CLUSTER}`, not `{}`", self.name));
        }
        let named =
            self.principal.split_once(':').is_some_and(|(kind, name)| !kind.is_empty() && !name.is_empty());
        if !named {
            return Err(format!(
                "invalid principal `{}`: use TYPE:NAME, for example User:alice",
                self.principal
            ));
        }
        if self.operation != Operation::All && !self.resource.operations().contains(&self.operation) {
            return Err(format!("{} has no operation {}", self.resource.name(), self.operation.name()));
        }
        match self.host.as_str() {
            "" => Err("the host of a rule is empty; `*` stands for every host".to_owned()),
            WILDCARD => Ok(()),
            host if host.parse::<IpAddr>().is_ok() => Ok(()),
            host => Err(format!("invalid host `{host}` of a rule: use an IP address or `*`")),
        }
    }

    /// With its host in the form in which the hosts of clients are compared: a rule for `2001:DB8::1` or
    /// `::ffff:10.0.0.5` must find them.
    pub(crate) fn canonical(self) -> Self {
        Self { host: canonical_host(self.host), ..self }
    }

    fn is_for(&self, principal: &str, host: &str) -> bool {
        (self.principal == EVERYONE || self.principal == principal)
            && (self.host == WILDCARD || self.host == host)
    }

    fn to_json(&self) -> Value {
        json!({
            "resource": self.resource.name(),
            "pattern": self.pattern.name(),
            "name": self.name,
            "principal": self.principal,
            "host": self.host,
            "operation": self.operation.name(),
            "permission": self.permission.name(),
        })
    }

    fn from_json(value: &Value) -> Option<Self> {
        let text = |field| value.get(field).and_then(Value::as_str);
        let rule = Self {
            resource: Resource::from_name(text("resource")?)?,
            pattern: Pattern::from_name(text("pattern")?)?,
            name: text("name")?.to_owned(),
            principal: text("principal")?.to_owned(),
            host: text("host")?.to_owned(),
            operation: Operation::from_name(text("operation")?)?,
            permission: Permission::from_name(text("permission")?)?,
        };
        rule.check().is_ok().then(|| rule.canonical())
    }
}

/// An address in its one canonical form; other text as it is.
pub(crate) fn canonical_host(host: String) -> String {
    host.parse().map_or(host, |address: IpAddr| address.to_canonical().to_string())
}

/// How a filter looks at patterns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PatternFilter {
    Any,
    /// Every pattern that stands for the resource of the filter's name.
    Match,
    Is(Pattern),
}

impl PatternFilter {
    /// From the protocol's number.
    pub(crate) fn from_number(number: i8) -> Option<Self> {
        match number {
            1 => Some(Self::Any),
            2 => Some(Self::Match),
            other => Pattern::from_number(other).map(Self::Is),
        }
    }
}

/// Chooses rules; `None` takes every value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Filter {
    pub(crate) resource: Option<Resource>,
    pub(crate) pattern: PatternFilter,
    pub(crate) name: Option<String>,
    pub(crate) principal: Option<String>,
    pub(crate) host: Option<String>,
    pub(crate) operation: Option<Operation>,
    pub(crate) permission: Option<Permission>,
}

impl Filter {
    pub(crate) fn takes(&self, rule: &Rule) -> bool {
        self.resource.is_none_or(|wanted| wanted == rule.resource)
            && self.takes_name(rule)
            && self.principal.as_ref().is_none_or(|wanted| *wanted == rule.principal)
            && self.host.as_ref().is_none_or(|wanted| *wanted == rule.host)
            && self.operation.is_none_or(|wanted| wanted == rule.operation)
            && self.permission.is_none_or(|wanted| wanted == rule.permission)
    }

    fn takes_name(&self, rule: &Rule) -> bool {
        if let PatternFilter::Is(wanted) = self.pattern
            && wanted != rule.pattern
        {
            return false;
        }
        let Some(name) = &self.name else { return true };
        match (self.pattern, rule.pattern) {
            (PatternFilter::Match, Pattern::Prefixed) => name.starts_with(&rule.name),
            (PatternFilter::Match, Pattern::Literal) => *name == rule.name || rule.name == WILDCARD,
            _ => *name == rule.name,
        }
    }
}

/// The rules of one type of resource, found by the name of a resource.
#[derive(Debug, Default)]
struct Index {
    literal: HashMap<String, Vec<Rule>>,
    prefixed: HashMap<String, Vec<Rule>>,
    /// Lengths of the prefixes there are, with how many have it: those are looked up, not every prefix of a name.
    prefix_lengths: BTreeMap<usize, usize>,
}

impl Index {
    fn add(&mut self, rule: Rule) {
        match rule.pattern {
            Pattern::Literal => self.literal.entry(rule.name.clone()).or_default().push(rule),
            Pattern::Prefixed => {
                *self.prefix_lengths.entry(rule.name.len()).or_default() += 1;
                self.prefixed.entry(rule.name.clone()).or_default().push(rule);
            }
        }
    }

    /// Every rule whose pattern stands for `name`.
    fn of<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Rule> {
        let exact = self.literal.get(name);
        let every = if name == WILDCARD { None } else { self.literal.get(WILDCARD) };
        let prefixes = self
            .prefix_lengths
            .range(..=name.len())
            .filter_map(move |(length, _)| self.prefixed.get(name.get(..*length)?));
        exact.into_iter().chain(every).chain(prefixes).flatten()
    }
}

/// All rules.
#[derive(Debug, Default)]
struct Rules {
    all: BTreeSet<Rule>,
    by_resource: HashMap<Resource, Index>,
}

impl Rules {
    fn from_all(all: BTreeSet<Rule>) -> Self {
        let mut by_resource: HashMap<Resource, Index> = HashMap::new();
        for rule in &all {
            by_resource.entry(rule.resource).or_default().add(rule.clone());
        }
        Self { all, by_resource }
    }

    fn allow(
        &self,
        principal: &str,
        host: &str,
        operation: Operation,
        resource: Resource,
        name: &str,
    ) -> bool {
        let Some(index) = self.by_resource.get(&resource) else { return false };
        let mut allowed = false;
        for rule in index.of(name) {
            if rule.is_for(principal, host) && rule.operation.covers(rule.permission, operation) {
                match rule.permission {
                    Permission::Deny => return false,
                    Permission::Allow => allowed = true,
                }
            }
        }
        allowed
    }

    /// Whether there can be a name on which the operation is allowed.
    fn allow_any(&self, principal: &str, host: &str, operation: Operation, resource: Resource) -> bool {
        let mut denied_names = HashSet::new();
        let mut denied_prefixes = Vec::new();
        let mut allowed = Vec::new();
        for rule in self.all.iter().filter(|rule| rule.resource == resource && rule.is_for(principal, host)) {
            if !(rule.operation == Operation::All || rule.operation == operation) {
                continue;
            }
            match (rule.permission, rule.pattern) {
                (Permission::Deny, Pattern::Literal) if rule.name == WILDCARD => return false,
                (Permission::Deny, Pattern::Literal) => drop(denied_names.insert(rule.name.as_str())),
                (Permission::Deny, Pattern::Prefixed) => denied_prefixes.push(rule.name.as_str()),
                (Permission::Allow, _) => allowed.push(rule),
            }
        }
        allowed.into_iter().any(|rule| {
            let everything = rule.pattern == Pattern::Literal && rule.name == WILDCARD;
            let denied = rule.pattern == Pattern::Literal && denied_names.contains(rule.name.as_str());
            everything || !denied && !denied_prefixes.iter().any(|prefix| rule.name.starts_with(prefix))
        })
    }
}

/// The access control lists of a broker.
#[derive(Debug)]
pub(crate) struct Acls {
    /// Fixed at the start of the broker, so that no request pays for a check that can't change.
    enforced: bool,
    super_users: HashSet<String>,
    rules: RwLock<Rules>,
    /// Held while file and rules change together.
    changing: Mutex<()>,
    /// `None` keeps them in memory.
    file: Option<PathBuf>,
}

impl Acls {
    /// Everyone may do everything.
    #[cfg(test)]
    pub(crate) fn off() -> Self {
        Self::with(false, &[], BTreeSet::new(), None)
    }

    /// The rules of a data folder; in memory without one.
    pub(crate) fn open(
        data_dir: Option<&Path>,
        enforced: bool,
        super_users: &[String],
    ) -> anyhow::Result<Self> {
        let file = data_dir.map(|folder| folder.join(ACL_FILE));
        let all = match &file {
            Some(file) => read(file).with_context(|| {
                format!("can't read {} (restore it, or remove it to begin without rules)", file.display())
            })?,
            None => BTreeSet::new(),
        };
        Ok(Self::with(enforced, super_users, all, file))
    }

    fn with(enforced: bool, super_users: &[String], all: BTreeSet<Rule>, file: Option<PathBuf>) -> Self {
        Self {
            enforced,
            super_users: super_users.iter().cloned().collect(),
            rules: RwLock::new(Rules::from_all(all)),
            changing: Mutex::new(()),
            file,
        }
    }

    /// Whether there is anything that a principal is allowed.
    pub(crate) fn may_allow(&self, principal: &str) -> bool {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        let allows = |rule: &Rule| {
            rule.permission == Permission::Allow && [principal, EVERYONE].contains(&rule.principal.as_str())
        };
        !self.enforced || self.super_users.contains(principal) || rules.all.iter().any(allows)
    }

    /// Whether anyone is asked at all.
    pub(crate) fn are_enforced(&self) -> bool {
        self.enforced
    }

    /// Whether a principal, connected from a host, may do something with the resource of a name.
    pub(crate) fn allows(
        &self,
        principal: &str,
        host: IpAddr,
        operation: Operation,
        resource: Resource,
        name: &str,
    ) -> bool {
        self.ask(principal, host, |rules, host| rules.allow(principal, host, operation, resource, name))
    }

    /// Whether there is any name of a resource that allows the operation.
    pub(crate) fn allows_any(
        &self,
        principal: &str,
        host: IpAddr,
        operation: Operation,
        resource: Resource,
    ) -> bool {
        self.ask(principal, host, |rules, host| rules.allow_any(principal, host, operation, resource))
    }

    /// What a principal may do with a resource, one bit for each operation's number.
    pub(crate) fn operations(&self, principal: &str, host: IpAddr, resource: Resource, name: &str) -> i32 {
        let allowed = |operation: &&Operation| self.allows(principal, host, **operation, resource, name);
        resource.operations().iter().filter(allowed).fold(0, |bits, operation| bits | 1 << operation.number())
    }

    fn ask(&self, principal: &str, host: IpAddr, question: impl FnOnce(&Rules, &str) -> bool) -> bool {
        if !self.enforced || self.super_users.contains(principal) {
            return true;
        }
        // An IPv4 client of an IPv6 socket is known by its IPv4 address.
        let host = host.to_canonical().to_string();
        question(&self.rules.read().unwrap_or_else(PoisonError::into_inner), &host)
    }

    /// The rules that a filter takes, in order.
    pub(crate) fn find(&self, filter: &Filter) -> Vec<Rule> {
        let rules = self.rules.read().unwrap_or_else(PoisonError::into_inner);
        rules.all.iter().filter(|rule| filter.takes(rule)).cloned().collect()
    }

    /// Adds rules; they are on disk before they count.
    pub(crate) fn add(&self, more: Vec<Rule>) -> io::Result<()> {
        self.change(|all| {
            all.extend(more.into_iter().map(Rule::canonical));
            if all.len() > MOST_RULES {
                return Err(io::Error::other(format!("more than {MOST_RULES} rules")));
            }
            Ok(())
        })
    }

    /// Removes what each filter takes; returns it filter by filter.
    pub(crate) fn remove(&self, filters: &[Filter]) -> io::Result<Vec<Vec<Rule>>> {
        self.change(|all| {
            let taken =
                |filter: &Filter| all.iter().filter(|rule| filter.takes(rule)).cloned().collect::<Vec<_>>();
            let removed: Vec<_> = filters.iter().map(taken).collect();
            all.retain(|rule| !filters.iter().any(|filter| filter.takes(rule)));
            Ok(removed)
        })
    }

    fn change<T>(&self, step: impl FnOnce(&mut BTreeSet<Rule>) -> io::Result<T>) -> io::Result<T> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = self.rules.read().unwrap_or_else(PoisonError::into_inner).all.clone();
        let result = step(&mut all)?;
        if let Some(file) = &self.file {
            replace_file(file, to_text(&all).as_bytes())?;
        }
        *self.rules.write().unwrap_or_else(PoisonError::into_inner) = Rules::from_all(all);
        Ok(result)
    }
}

fn to_text(all: &BTreeSet<Rule>) -> String {
    let rules: Vec<_> = all.iter().map(Rule::to_json).collect();
    format!("{:#}\n", json!({ "hone_broker_acls": FORMAT_VERSION, "rules": rules }))
}

fn read(file: &Path) -> anyhow::Result<BTreeSet<Rule>> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeSet::new()),
        Err(error) => return Err(error.into()),
    };
    let value: Value = serde_json::from_str(&text)?;
    let version =
        value.get("hone_broker_acls").and_then(Value::as_u64).context("`hone_broker_acls` is missing")?;
    if version > FORMAT_VERSION {
        bail!("it has version {version}, this broker reads up to {FORMAT_VERSION}; use a newer hone-broker");
    }
    let rules = value.get("rules").and_then(Value::as_array).context("`rules` is missing")?;
    // A rule that can't be read may be one that denies, so none is passed over.
    rules
        .iter()
        .map(|rule| Rule::from_json(rule).with_context(|| format!("a rule is damaged: {rule}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HOST: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    /// `TOPIC LITERAL orders User:alice * READ ALLOW`
    fn rule(line: &str) -> Rule {
        let words: Vec<_> = line.split(' ').collect();
        Rule {
            resource: Resource::from_name(words[0]).unwrap(),
            pattern: Pattern::from_name(words[1]).unwrap(),
            name: words[2].to_owned(),
            principal: words[3].to_owned(),
            host: words[4].to_owned(),
            operation: Operation::from_name(words[5]).unwrap(),
            permission: Permission::from_name(words[6]).unwrap(),
        }
    }

    fn acls(lines: &[&str]) -> Acls {
        let acls = Acls::open(None, true, &["User:root".to_owned()]).unwrap();
        acls.add(lines.iter().map(|line| rule(line)).collect()).unwrap();
        acls
    }

    fn reads(acls: &Acls, who: &str, topic: &str) -> bool {
        acls.allows(who, HOST, Operation::Read, Resource::Topic, topic)
    }

    #[test]
    fn what_no_rule_allows_is_refused_but_not_to_super_users_or_when_off() {
        let acls = acls(&[]);
        assert!(!reads(&acls, "User:alice", "orders"));
        assert!(reads(&acls, "User:root", "orders"));
        assert!(reads(&Acls::off(), "User:alice", "orders"));
        assert!(acls.find(&anything()).is_empty());
    }

    #[test]
    fn patterns_stand_for_names() {
        let acls = acls(&[
            "TOPIC LITERAL orders User:alice * READ ALLOW",
            "TOPIC PREFIXED or User:bob * READ ALLOW",
            "TOPIC LITERAL * User:carol * READ ALLOW",
            "TOPIC LITERAL open User:* * READ ALLOW",
        ]);
        for (who, topic, wanted) in [
            ("User:alice", "orders", true),
            ("User:alice", "orders2", false),
            ("User:bob", "orders", true),
            ("User:bob", "or", true),
            ("User:bob", "o", false),
            ("User:carol", "anything", true),
            ("User:nobody", "open", true),
            ("User:alic", "orders", false),
        ] {
            assert_eq!(reads(&acls, who, topic), wanted, "{who} {topic}");
        }
    }

    #[test]
    fn to_deny_wins() {
        let acls = acls(&[
            "TOPIC LITERAL * User:alice * ALL ALLOW",
            "TOPIC PREFIXED secret User:* * READ DENY",
            "TOPIC LITERAL orders User:alice 10.0.0.1 ALL DENY",
        ]);
        assert!(reads(&acls, "User:alice", "plain"));
        assert!(!reads(&acls, "User:alice", "secret-plans"));
        // Denied to read is not denied to see.
        assert!(acls.allows("User:alice", HOST, Operation::Describe, Resource::Topic, "secret-plans"));
        assert!(reads(&acls, "User:alice", "orders"));
        let there = "10.0.0.1".parse().unwrap();
        assert!(!acls.allows("User:alice", there, Operation::Describe, Resource::Topic, "orders"));
        let mapped = "::ffff:10.0.0.1".parse().unwrap();
        assert!(!acls.allows("User:alice", mapped, Operation::Read, Resource::Topic, "orders"));
    }

    #[test]
    fn an_address_may_be_written_in_any_form() {
        let denied = [
            ("2001:DB8:0:0:0:0:0:1", "2001:db8::1"),
            ("2001:db8::1", "2001:db8::1"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("10.0.0.1", "::ffff:10.0.0.1"),
        ];
        for (written, connected) in denied {
            let deny = format!("TOPIC LITERAL orders User:alice {written} READ DENY");
            let acls = acls(&["TOPIC LITERAL * User:alice * ALL ALLOW", &deny]);
            let host = connected.parse().unwrap();
            assert!(
                !acls.allows("User:alice", host, Operation::Read, Resource::Topic, "orders"),
                "{written}"
            );
            assert!(acls.allows("User:alice", HOST, Operation::Read, Resource::Topic, "orders"));
            // Written to disk and read again, it is the same rule.
            let read = Rule::from_json(&rule(&deny).to_json()).unwrap();
            assert!(acls.find(&anything()).contains(&read));
            let filter = Filter { host: Some(canonical_host(written.to_owned())), ..anything() };
            assert_eq!(acls.find(&filter), [read]);
        }
    }

    #[test]
    fn some_operations_imply_to_see() {
        for operation in Operation::ALL {
            let acls = acls(&[&format!("TOPIC LITERAL t User:a * {} ALLOW", operation.name())]);
            let may = |wanted| acls.allows("User:a", HOST, wanted, Resource::Topic, "t");
            use Operation::*;
            assert_eq!(may(Describe), matches!(operation, All | Read | Write | Delete | Alter | Describe));
            assert_eq!(may(DescribeConfigs), matches!(operation, All | AlterConfigs | DescribeConfigs));
            assert_eq!(may(Write), matches!(operation, All | Write));
        }
    }

    #[test]
    fn operations_are_bits_of_what_is_allowed() {
        let acls =
            acls(&["TOPIC LITERAL t User:a * READ ALLOW", "TOPIC LITERAL t User:a * ALTER_CONFIGS ALLOW"]);
        let bits = acls.operations("User:a", HOST, Resource::Topic, "t");
        assert_eq!(bits, 1 << 3 | 1 << 8 | 1 << 10 | 1 << 11);
        assert_eq!(
            Acls::off().operations("User:a", HOST, Resource::Group, "g"),
            1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
        );
    }

    #[test]
    fn some_name_is_allowed_unless_all_of_them_are_denied() {
        let any = |lines: &[&str]| acls(lines).allows_any("User:a", HOST, Operation::Write, Resource::Topic);
        assert!(!any(&[]));
        assert!(any(&["TOPIC LITERAL t User:a * WRITE ALLOW"]));
        assert!(!any(&["TOPIC LITERAL t User:a * READ ALLOW"]));
        assert!(!any(&["GROUP LITERAL t User:a * ALL ALLOW"]));
        assert!(!any(&["TOPIC LITERAL t User:a * ALL ALLOW", "TOPIC LITERAL t User:* * WRITE DENY"]));
        assert!(any(&["TOPIC LITERAL * User:a * ALL ALLOW", "TOPIC LITERAL t User:* * WRITE DENY"]));
        assert!(!any(&["TOPIC PREFIXED team User:a * ALL ALLOW", "TOPIC PREFIXED te User:* * ALL DENY"]));
        assert!(!any(&["TOPIC LITERAL t User:a * ALL ALLOW", "TOPIC LITERAL * User:* * WRITE DENY"]));
    }

    fn anything() -> Filter {
        Filter {
            resource: None,
            pattern: PatternFilter::Any,
            name: None,
            principal: None,
            host: None,
            operation: None,
            permission: None,
        }
    }

    #[test]
    fn filters_choose_by_pattern() {
        let acls = acls(&[
            "TOPIC LITERAL orders User:a * READ ALLOW",
            "TOPIC PREFIXED ord User:a * READ ALLOW",
            "TOPIC LITERAL * User:a * READ ALLOW",
            "GROUP LITERAL orders User:a * READ DENY",
        ]);
        let count = |pattern, name: Option<&str>| {
            let filter = Filter {
                pattern,
                name: name.map(str::to_owned),
                resource: Some(Resource::Topic),
                ..anything()
            };
            acls.find(&filter).len()
        };
        assert_eq!(count(PatternFilter::Any, None), 3);
        assert_eq!(count(PatternFilter::Match, Some("orders")), 3);
        assert_eq!(count(PatternFilter::Match, Some("ord")), 2);
        assert_eq!(count(PatternFilter::Any, Some("orders")), 1);
        assert_eq!(count(PatternFilter::Is(Pattern::Prefixed), Some("orders")), 0);
        assert_eq!(count(PatternFilter::Is(Pattern::Prefixed), Some("ord")), 1);
        assert_eq!(count(PatternFilter::Is(Pattern::Literal), None), 2);
        let denied = Filter { permission: Some(Permission::Deny), ..anything() };
        assert_eq!(
            acls.remove(&[denied.clone(), denied]).unwrap().iter().map(Vec::len).collect::<Vec<_>>(),
            [1, 1]
        );
        assert_eq!(acls.find(&anything()).len(), 3);
    }

    #[test]
    fn rules_survive_a_restart_and_a_damaged_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = ["User:root".to_owned()];
        let line = "TRANSACTIONAL_ID PREFIXED tx User:a 10.0.0.1 WRITE DENY";
        Acls::open(Some(folder.path()), true, &root).unwrap().add(vec![rule(line)]).unwrap();
        let again = Acls::open(Some(folder.path()), true, &root).unwrap();
        assert_eq!(again.find(&anything()), [rule(line)]);
        let file = folder.path().join(ACL_FILE);
        let text = fs::read_to_string(&file).unwrap();
        for (from, to, wanted) in [
            ("DENY", "DENI", "damaged"),
            ("tx", "", "damaged"),
            (": 1", ": 2", "newer"),
            ("{", "", "can't read"),
        ] {
            fs::write(&file, text.replacen(from, to, 1)).unwrap();
            let error = format!("{:#}", Acls::open(Some(folder.path()), true, &root).unwrap_err());
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn a_principal_may_be_allowed_something_by_a_rule_for_it_or_for_everyone() {
        let with = |lines: &[&str], super_user: &str| {
            let all = lines.iter().map(|line| rule(line)).collect();
            Acls::with(true, &[super_user.to_owned()], all, None).may_allow("User:a")
        };
        assert!(!with(&[], "User:b") && with(&[], "User:a") && Acls::off().may_allow("User:a"));
        assert!(!with(&["TOPIC LITERAL t User:b * READ ALLOW"], "User:b"));
        assert!(!with(&["TOPIC LITERAL t User:a * READ DENY"], "User:b"));
        assert!(with(&["TOPIC LITERAL t User:a * READ ALLOW"], "User:b"));
        assert!(with(&["TOPIC LITERAL t User:* * READ ALLOW"], "User:b"));
    }

    #[test]
    fn rules_that_make_no_sense_are_refused() {
        for (line, wanted) in [
            ("TOPIC LITERAL  User:a * READ ALLOW", "no name"),
            ("CLUSTER LITERAL other User:a * ALTER ALLOW", "kafka-cluster"),
            ("TOPIC LITERAL t alice * READ ALLOW", "invalid principal"),
            ("TOPIC LITERAL t User: * READ ALLOW", "invalid principal"),
            ("GROUP LITERAL g User:a * WRITE ALLOW", "no operation WRITE"),
            ("TOPIC LITERAL t User:a example.org READ ALLOW", "IP address"),
        ] {
            let error = rule(line).check().unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
        assert!(rule("CLUSTER LITERAL kafka-cluster User:a ::1 ALL ALLOW").check().is_ok());
    }

    fn some_rule() -> impl Strategy<Value = Rule> {
        let names = prop_oneof![Just("*"), Just("a"), Just("ab"), Just("abc"), Just("ä"), Just("b")];
        let principals = prop_oneof![Just("User:*"), Just("User:x"), Just("User:y")];
        let hosts = prop_oneof![Just("*"), Just("127.0.0.1"), Just("10.0.0.1")];
        (
            prop::sample::select(&Resource::ALL[..2]),
            prop::sample::select(Pattern::ALL),
            names,
            principals,
            hosts,
            prop::sample::select(Operation::ALL),
            prop::sample::select(Permission::ALL),
        )
            .prop_map(|(resource, pattern, name, principal, host, operation, permission)| Rule {
                resource,
                pattern,
                name: name.to_owned(),
                principal: principal.to_owned(),
                host: host.to_owned(),
                operation,
                permission,
            })
    }

    /// The definition, word for word and rule by rule.
    fn naive(all: &[Rule], who: &str, operation: Operation, resource: Resource, name: &str) -> bool {
        use Operation::*;
        let about = |rule: &&Rule| {
            let resource_fits = rule.resource == resource
                && match rule.pattern {
                    Pattern::Literal => rule.name == "*" || rule.name == name,
                    Pattern::Prefixed => name.starts_with(rule.name.as_str()),
                };
            let person_fits = rule.principal == "User:*" || rule.principal == who;
            resource_fits && person_fits && (rule.host == "*" || rule.host == "127.0.0.1")
        };
        let fitting: Vec<_> = all.iter().filter(about).collect();
        let denied = fitting.iter().any(|rule| {
            rule.permission == Permission::Deny && (rule.operation == All || rule.operation == operation)
        });
        let implied: &[Operation] = match operation {
            Describe => &[Describe, Read, Write, Delete, Alter],
            DescribeConfigs => &[DescribeConfigs, AlterConfigs],
            _ => std::slice::from_ref(&operation),
        };
        let allowed = fitting.iter().any(|rule| {
            rule.permission == Permission::Allow
                && (rule.operation == All || implied.contains(&rule.operation))
        });
        allowed && !denied
    }

    proptest! {
        #[test]
        fn look_ups_agree_with_the_definition(
            all in prop::collection::vec(some_rule(), 0..12),
            who in prop::sample::select(&["User:x", "User:y", "User:z"][..]),
            operation in prop::sample::select(&Operation::ALL[1..]),
            resource in prop::sample::select(&Resource::ALL[..2]),
            name in prop::sample::select(&["*", "a", "ab", "abcd", "äb", "c", ""][..]),
        ) {
            let acls = Acls::open(None, true, &["User:root".to_owned()]).unwrap();
            acls.add(all.clone()).unwrap();
            let wanted = naive(&all, who, operation, resource, name);
            prop_assert_eq!(acls.allows(who, HOST, operation, resource, name), wanted);
        }
    }
}
