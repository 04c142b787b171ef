//! Kubernetes manifests: a sharded load (an Indexed Job whose pods are the shards, and a Job that merges their records), and a
//! sampler of profiles on every node (a DaemonSet). Pure.

use std::fmt::Write as _;

/// The comment about credentials for the store, at the top of every manifest.
const CREDENTIALS: &str =
    "# Credentials for the store come from a Secret named hone-store, whose keys are environment variables
# (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION ...); none is needed if the pods' own identity has access.";
/// The same as a member of a container.
const FROM_SECRET: &str = "          envFrom:
            - secretRef:
                name: hone-store
                optional: true";
/// The folder for a secret's files in a pod.
pub const SECRETS: &str = "/security";

/// The name of an option's file in a Kubernetes secret.
pub fn name_in_secret(option: &str) -> &str {
    option.trim_start_matches('-')
}

/// The settings of the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Manifest {
    /// Name of the Job; the merging Job is called `NAME-merge`.
    pub name: String,
    /// Image that has `hone` as its entrypoint.
    pub image: String,
    /// Generators.
    pub shards: u32,
    /// The store of the shards and their records.
    pub store: String,
    /// Seconds that shards wait for each other, and the merge for them, without the load itself.
    pub wait_s: u32,
    /// Seconds of the load.
    pub load_s: u32,
    /// The arguments of `hone load`, without the shard's number.
    pub arguments: Vec<String>,
    /// The requirements for the merged record.
    pub rules: Vec<String>,
    /// Files for TLS and login in the arguments below [`SECRETS`]: their names there, and their current paths.
    pub secrets: Vec<(String, String)>,
}

/// A DNS label: Kubernetes requires one for an object whose pods carry its name. It leaves room for `-merge`.
pub fn check_name(name: &str) -> Result<(), String> {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = name.as_bytes();
    if bytes.len() <= 50 && bytes.iter().all(|byte| plain(*byte)) && ends(bytes.first()) && ends(bytes.last())
    {
        return Ok(());
    }
    Err(format!(
        "invalid Job name `{name}`: use at most 50 lower-case letters, digits and `-`, with no `-` at the \
         ends"
    ))
}

impl Manifest {
    /// The YAML text: two documents.
    pub fn text(&self) -> String {
        let mut load = vec!["load".to_owned()];
        load.extend(self.arguments.iter().map(|argument| escaped(argument)));
        // Kubernetes fills this in for each pod, from the variable below.
        load.extend(["--shard".to_owned(), format!("$(JOB_COMPLETION_INDEX)/{}", self.shards)]);
        load.extend([
            "--store".to_owned(),
            escaped(&self.store),
            "--wait".to_owned(),
            self.wait_s.to_string(),
        ]);
        let mut merge = vec![
            "merge".to_owned(),
            "--store".to_owned(),
            escaped(&self.store),
            "--shards".to_owned(),
            self.shards.to_string(),
            "--wait".to_owned(),
            self.wait_s.saturating_mul(2).saturating_add(self.load_s).to_string(),
        ];
        merge.extend(self.rules.iter().flat_map(|rule| ["--require".to_owned(), escaped(rule)]));
        let mut text = String::new();
        let _ = write!(
            text,
            "# A load from {shards} generators, and the step that merges their records. Written by `hone load --emit kubernetes`.
{CREDENTIALS}
{login}apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
  labels:
    app.kubernetes.io/name: hone
    app.kubernetes.io/component: load
spec:
  completionMode: Indexed
  completions: {shards}
  # All start at the same time: a shard that starts later is not part of the load.
  parallelism: {shards}
  # A failed shard can't run again alone.
  backoffLimit: 0
  template:
    metadata:
      labels:
        app.kubernetes.io/name: hone
        app.kubernetes.io/component: load
    spec:
      restartPolicy: Never
      topologySpreadConstraints:
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              app.kubernetes.io/name: hone
              app.kubernetes.io/component: load
{load}          env:
            - name: JOB_COMPLETION_INDEX
              valueFrom:
                fieldRef:
                  fieldPath: metadata.annotations['batch.kubernetes.io/job-completion-index']
{secrets}---
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}-merge
  labels:
    app.kubernetes.io/name: hone
    app.kubernetes.io/component: merge
spec:
  backoffLimit: 2
  template:
    metadata:
      labels:
        app.kubernetes.io/name: hone
        app.kubernetes.io/component: merge
    spec:
      restartPolicy: Never
{merge}",
            shards = self.shards,
            name = self.name,
            login = self.login(),
            secrets = self.mounted(),
            load = self.container("load", &load, "2", "1Gi"),
            merge = self.container("merge", &merge, "500m", "512Mi"),
        );
        text
    }

    /// The sources of the pods' files for TLS and login, and of a password without a file.
    fn login(&self) -> String {
        let mut text = String::new();
        let says = |option: &str| self.arguments.iter().any(|word| word.split('=').next() == Some(option));
        if says("--sasl-user") && !says("--sasl-password-file") {
            text.push_str("# The password of the login is another key of that Secret: HONE_SASL_PASSWORD.\n");
        }
        if !self.secrets.is_empty() {
            text.push_str(&secret_made(&self.secret_name(), &self.secrets));
        }
        text
    }

    fn secret_name(&self) -> String {
        format!("{}-security", self.name)
    }

    /// The files for TLS and login as members of the load's container and pod. Its user is not root, so every user in it may read
    /// them.
    fn mounted(&self) -> String {
        if self.secrets.is_empty() {
            return String::new();
        }
        format!(
            "          volumeMounts:
            - {{name: security, mountPath: {SECRETS}, readOnly: true}}
      volumes:
        - {{name: security, secret: {{secretName: {}}}}}
",
            self.secret_name()
        )
    }

    /// Requests equal limits, with whole cores for the load, so that the kubelet may give the pod exclusive cores.
    fn container(&self, name: &str, arguments: &[String], cpu: &str, memory: &str) -> String {
        let mut text = format!(
            "      containers:
        - name: {name}
          image: {image}
          args:
",
            image = quoted(&self.image)
        );
        for argument in arguments {
            let _ = writeln!(text, "            - {}", quoted(argument));
        }
        let _ = write!(
            text,
            "{FROM_SECRET}
          resources:
            requests: {{cpu: \"{cpu}\", memory: {memory}}}
            limits: {{cpu: \"{cpu}\", memory: {memory}}}
          securityContext:
            allowPrivilegeEscalation: false
            capabilities: {{drop: [ALL]}}
"
        );
        text
    }
}

/// The settings of a sampler's manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sampler {
    /// Name of the DaemonSet.
    pub name: String,
    /// Image that has `hone` as its entrypoint.
    pub image: String,
    /// The address of the profiles, of the service on the same node.
    pub url: String,
    /// Placeholder for the node's address in it. Without one it is an address of the node's loopback.
    pub node_ip: Option<&'static str>,
    /// The store for the profiles.
    pub store: String,
    /// Length of a window.
    pub seconds: u32,
    /// Seconds between two windows.
    pub every_s: u64,
    /// The build, if the profile does not name it.
    pub build_id: Option<String>,
}

impl Sampler {
    /// The YAML text.
    pub fn text(&self) -> String {
        let url = match self.node_ip {
            Some(word) => escaped(&self.url).replacen(word, "$(NODE_IP)", 1),
            None => escaped(&self.url),
        };
        let mut arguments = ["profile", "sample"].map(str::to_owned).to_vec();
        arguments.push(url);
        arguments.extend(["--store".to_owned(), escaped(&self.store)]);
        arguments.extend(["--host".to_owned(), "$(NODE_NAME)".to_owned()]);
        arguments.extend(["--duration".to_owned(), format!("{}s", self.seconds)]);
        arguments.extend(["--every".to_owned(), format!("{}s", self.every_s)]);
        arguments.extend(self.build_id.iter().flat_map(|id| ["--build-id".to_owned(), escaped(id)]));
        let arguments: String =
            arguments.iter().map(|argument| format!("            - {}\n", quoted(argument))).collect();
        // The node's loopback is that of a pod in the node's network.
        let network = match self.node_ip {
            Some(_) => "",
            None => "      hostNetwork: true\n      dnsPolicy: ClusterFirstWithHostNet\n",
        };
        format!(
            "# A sampler of profiles on every node. Written by `hone profile sample --emit kubernetes`.
{CREDENTIALS}
# They need the rights to list and to write, but not to read.
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {name}
  labels:
    app.kubernetes.io/name: hone
    app.kubernetes.io/component: sample
spec:
  selector:
    matchLabels:
      app.kubernetes.io/name: hone
      app.kubernetes.io/component: sample
      app.kubernetes.io/instance: {name}
  template:
    metadata:
      labels:
        app.kubernetes.io/name: hone
        app.kubernetes.io/component: sample
        app.kubernetes.io/instance: {name}
    spec:
{network}      containers:
        - name: sample
          image: {image}
          args:
{arguments}          env:
            - name: NODE_NAME
              valueFrom:
                fieldRef:
                  fieldPath: spec.nodeName
            - name: NODE_IP
              valueFrom:
                fieldRef:
                  fieldPath: status.hostIP
            - name: TMPDIR
              value: /scratch
{FROM_SECRET}
          volumeMounts:
            - name: scratch
              mountPath: /scratch
          resources:
            requests: {{cpu: \"10m\", memory: 64Mi}}
            limits: {{cpu: \"500m\", memory: 512Mi}}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            runAsNonRoot: true
            runAsUser: 10001
            capabilities: {{drop: [ALL]}}
      volumes:
        - name: scratch
          emptyDir: {{sizeLimit: 1Gi}}
",
            name = self.name,
            image = quoted(&self.image),
        )
    }
}

/// JSON strings are YAML strings.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Kubernetes replaces `$(NAME)` in arguments if there is such a variable, and turns two dollar signs into one everywhere.
pub fn escaped(argument: &str) -> String {
    argument.replace('$', "$$")
}

/// The command that creates a secret from files, as a comment of two lines.
pub(crate) fn secret_made(secret: &str, files: &[(String, String)]) -> String {
    let files: Vec<String> = files.iter().map(|(name, path)| format!("--from-file={name}={path}")).collect();
    let words = ["kubectl", "create", "secret", "generic", secret].into_iter();
    let words = words.chain(files.iter().map(String::as_str));
    let line = shlex::try_join(words).unwrap_or_default().replace(['\n', '\r'], " ");
    format!("# The files for TLS and login come from a secret:\n#   {line}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked() {
        for name in ["load", "load-42", "a"] {
            check_name(name).unwrap();
        }
        for name in ["", "-load", "load-", "Load", "a_b", &"x".repeat(51)] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    fn manifest() -> Manifest {
        Manifest {
            name: "load".to_owned(),
            image: "registry/hone:1".to_owned(),
            shards: 3,
            store: "s3://b/p".to_owned(),
            wait_s: 60,
            load_s: 10,
            arguments: vec![
                "kafka:9092".to_owned(),
                "--topic-config".to_owned(),
                "a=$(HOME) \"x\" $$5".to_owned(),
            ],
            rules: Vec::new(),
            secrets: Vec::new(),
        }
    }

    #[test]
    fn what_the_user_wrote_is_not_filled_in_by_kubernetes() {
        let text = manifest().text();
        assert!(text.contains(r#"- "a=$$(HOME) \"x\" $$$$5""#), "{text}");
        assert!(text.contains(r#"- "$(JOB_COMPLETION_INDEX)/3""#), "{text}");
        assert!(text.contains(r#"- "130""#), "{text}");
        let patient = Manifest { wait_s: u32::MAX, ..manifest() }.text();
        assert!(patient.contains(&format!("- \"{}\"\n          envFrom", u32::MAX)), "{patient}");
    }
}
