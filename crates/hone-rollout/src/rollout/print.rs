//! The steps of a roll-out for other tools: an Ansible play, a Kubernetes DaemonSet. Pure.
//!
//! The user's texts are quoted values in them, never a part of a script or a template.

use std::fmt::Write as _;

use anyhow::{Result, bail};
use hone_host::rollout::inventory::Host;

use super::{Settings, gate};
use crate::kubernetes::{SECRETS, escaped, secret_made};
use hone_experiment::ending::Usage;

/// A watchdog waits a day at most.
const LONGEST_GUARD_S: u64 = 86_400;
/// Time between the steps: ssh, the scheduler of pods.
const SPARE_S: u64 = 300;

/// These tools renew no lease, so the watchdog must wait for all steps.
fn guard_s(settings: &Settings) -> u64 {
    let gates_s = 2 * (settings.rules.wait_s + settings.baseline_s);
    settings.soak_s + gates_s + SPARE_S + gate::SETTLE.as_secs()
}

/// Rejects settings that exceed the watchdog's time limit: it would roll back a harmless change in the middle of its soak.
pub fn check(settings: &Settings) -> Result<()> {
    let needed_s = guard_s(settings);
    if needed_s <= LONGEST_GUARD_S {
        return Ok(());
    }
    bail!(Usage(format!(
        "the files of --emit renew no lease, and a watchdog waits {LONGEST_GUARD_S} s at most, but a soak of \
         {} s with both gates takes up to {needed_s} s\n  next: shorten --soak, --health-timeout or \
         --baseline-duration by {} s together, or run the roll-out without --emit",
        settings.soak_s,
        needed_s - LONGEST_GUARD_S
    )))
}

/// JSON strings are YAML strings.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// A YAML list on one line.
fn list<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<String> = words.into_iter().map(quoted).collect();
    format!("[{}]", words.join(", "))
}

/// The options of a gate, without the files of the baseline.
fn gate_options(settings: &Settings, security: &[String]) -> Vec<String> {
    let mut words = vec!["--bootstrap".to_owned(), settings.bootstrap.join(",")];
    let mut add = |name: &str, value: String| words.extend([name.to_owned(), value]);
    add("--baseline-duration", format!("{}s", settings.baseline_s));
    add("--healthy-checks", settings.rules.healthy.to_string());
    add("--poll-interval", format!("{}ms", settings.rules.every_ms));
    add("--health-timeout", format!("{}s", settings.rules.wait_s));
    add("--tolerance", settings.rules.tolerance.to_string());
    for group in &settings.rules.groups {
        add("--group", group.clone());
    }
    if settings.no_canary {
        words.push("--no-canary".to_owned());
    }
    words.extend(security.iter().cloned());
    words
}

/// An Ansible play.
#[derive(Debug)]
pub struct Play<'a> {
    /// The profile's name.
    pub profile: &'a str,
    /// The profile's text, unless it is a built-in one.
    pub profile_text: Option<&'a str>,
    /// The hosts, in their order.
    pub hosts: &'a [Host],
    /// The broker's data folder.
    pub data: Option<&'a str>,
    /// Rules, waits and leases.
    pub settings: &'a Settings,
    /// Options for TLS and login. Their files are on the machine that runs the play.
    pub security: &'a [String],
}

impl Play<'_> {
    /// The YAML text.
    pub fn text(&self) -> String {
        format!("{}{}{PLAY_TASKS}", self.head(), self.profile_tasks())
    }

    /// The head: the hosts and the variables of the tasks.
    fn head(&self) -> String {
        let names: Vec<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
        let pattern = if names.is_empty() { "hone_rollout".to_owned() } else { names.join(",") };
        let remote_profile =
            if self.profile_text.is_some() { "/etc/hone/profile.toml" } else { self.profile };
        let mut apply: Vec<String> = Vec::new();
        if self.settings.all {
            apply.push("--all".to_owned());
        }
        let confirm = if self.settings.this_boot { list(["--this-boot"]) } else { "[]".to_owned() };
        format!(
            "# Kernel settings, one host at a time, if the health of the cluster allows it. Written by `hone host rollout --emit ansible`.
# The hosts and the machine that runs this play need `hone` in PATH. The play follows the order of the inventory: put the host of the
# cluster's controller last.
#   ansible-playbook -i INVENTORY THIS_FILE
- name: Kernel settings, if the health of the cluster allows it
  hosts: {pattern}
  order: inventory
  serial: 1
  any_errors_fatal: true
  gather_facts: false
  become: true
  vars:
    hone_profile: !unsafe {profile}
    # Seconds after which a host's watchdog rolls its change back, even if this play has died.
    hone_guard_s: {guard_s}
    hone_soak_s: {soak_s}
    hone_apply_options: !unsafe {apply}
    hone_confirm_options: {confirm}
    hone_gate_options: !unsafe {gate}
    # The change's id, after it is applied. This play leaves other changes of the host alone.
    hone_change: \"{{{{ ((hone_applied.stdout | default('') or '{{}}') | from_json).get('body', {{}}).get('applied', {{}}).get('id', '') if hone_applied is succeeded else '' }}}}\"
    hone_data: {data}
    hone_broker: {broker}
    # The folder is private: another user who can write this file could falsify the result.
    hone_before: \"{{{{ hone_folder.path }}}}/before.json\"
  tasks:
",
            pattern = quoted(&pattern),
            profile = quoted(remote_profile),
            guard_s = guard_s(self.settings),
            soak_s = self.settings.soak_s,
            apply = list(apply.iter().map(String::as_str)),
            gate = list(gate_options(self.settings, self.security).iter().map(String::as_str)),
            data = self.by_host(|host| host.data.as_ref().map(|data| quoted(&data.display().to_string())), self.data),
            broker = self.by_host(|host| host.broker.map(|broker| quoted(&broker.to_string())), None),
        )
    }

    /// Copies the profile to the host, unless it is one of Hone's own.
    fn profile_tasks(&self) -> String {
        let Some(profile) = self.profile_text else { return String::new() };
        format!(
            "    - name: Create the profile's folder
      ansible.builtin.file: {{path: /etc/hone, state: directory, mode: \"0755\"}}
    - name: Copy the profile
      ansible.builtin.copy: {{dest: /etc/hone/profile.toml, mode: \"0644\", content: !unsafe {}}}
",
            quoted(profile)
        )
    }

    /// An expression that gives a value by the host's name, and a default for others.
    fn by_host(&self, value: impl Fn(&Host) -> Option<String>, default: Option<&str>) -> String {
        let known: Vec<String> = self
            .hosts
            .iter()
            .filter_map(|host| Some(format!("{}: {}", quoted(&host.name), value(host)?)))
            .collect();
        let default = default.map_or("''".to_owned(), |default| {
            format!("'{}'", default.replace('\\', "\\\\").replace('\'', "\\'"))
        });
        let map = format!("{{{}}}", known.join(", "));
        quoted(&format!("{{{{ ({map}).get(inventory_hostname, {default}) }}}}"))
    }
}

const PLAY_TASKS: &str = r#"    - name: Create a folder for the baseline
      ansible.builtin.tempfile: {state: directory, prefix: hone-}
      register: hone_folder
      delegate_to: localhost
      become: false
      changed_when: false
    - name: Check the gate before the change, and save the baseline
      ansible.builtin.command:
        argv: "{{ ['hone', 'host', 'rollout', '--gate-only', '--save-baseline', hone_before] + hone_gate_options }}"
      delegate_to: localhost
      become: false
      changed_when: false
    - name: Change, soak, gate, confirm
      block:
        - name: Apply with a rollback watchdog
          ansible.builtin.command:
            argv: "{{ ['hone', 'host', 'apply', hone_profile, '--json', '--confirm-within', hone_guard_s ~ 's'] + hone_apply_options + (['--data', hone_data] if hone_data else []) }}"
          register: hone_applied
          changed_when: hone_applied.rc == 0 and (hone_applied.stdout | from_json).body.applied is not none
        - name: Soak
          ansible.builtin.pause: {seconds: "{{ hone_soak_s | int }}"}
          when: hone_applied is changed
        - name: Check the gate after the change
          ansible.builtin.command:
            argv: "{{ ['hone', 'host', 'rollout', '--gate-only', '--baseline-file', hone_before] + (['--changed', hone_broker] if hone_broker else []) + hone_gate_options }}"
          delegate_to: localhost
          become: false
          changed_when: false
          when: hone_applied is changed
        - name: Confirm
          ansible.builtin.command:
            argv: "{{ ['hone', 'host', 'confirm', '--change-id', hone_change] + hone_confirm_options }}"
          when: hone_applied is changed
      rescue:
        - name: Roll the change back
          ansible.builtin.command:
            argv: [hone, host, rollback, --change-id, "{{ hone_change }}"]
          when: hone_applied is changed and hone_applied is succeeded
        - name: Halt
          ansible.builtin.fail:
            msg: "{{ inventory_hostname }} {{ 'was rolled back' if hone_applied is changed and hone_applied is succeeded else 'was not changed, or its watchdog rolls it back' }}: {{ ansible_failed_result.stdout | default(ansible_failed_result.msg | default('')) }}"
      always:
        - name: Remove the folder
          ansible.builtin.file: {path: "{{ hone_folder.path }}", state: absent}
          delegate_to: localhost
          become: false
          changed_when: false
"#;

/// A Kubernetes DaemonSet.
#[derive(Debug)]
pub struct Kubernetes<'a> {
    /// The profile's name.
    pub profile: &'a str,
    /// The profile's text, unless it is a built-in one.
    pub profile_text: Option<&'a str>,
    /// The container's image.
    pub image: &'a str,
    /// The broker's data folder.
    pub data: Option<&'a str>,
    /// Rules, waits and leases.
    pub settings: &'a Settings,
    /// Options for TLS and login, whose files are in [`SECRETS`].
    pub security: &'a [String],
    /// Those files: their names there, and their current paths.
    pub secrets: &'a [(String, String)],
}

/// The script of the container; the settings are its arguments.
const SCRIPT: &str = include_str!("daemonset.sh");

impl Kubernetes<'_> {
    /// The YAML text.
    pub fn text(&self) -> String {
        let mut text = String::from(DAEMONSET_HEAD);
        if !self.secrets.is_empty() {
            text.push_str(&secret_made("hone-host-security", self.secrets));
        }
        if let Some(profile) = self.profile_text {
            let _ = write!(
                text,
                "apiVersion: v1
kind: ConfigMap
metadata:
  name: hone-host-profile
data:
  profile.toml: {}
---
",
                quoted(profile)
            );
        }
        text.push_str(DAEMONSET_BODY);
        let _ = writeln!(text, "          image: {}", quoted(self.image));
        text.push_str("          command: [sh, -c]\n          args:\n            - |\n");
        for line in SCRIPT.lines() {
            let _ = writeln!(text, "              {}", of_script(line));
        }
        for word in self.arguments() {
            let _ = writeln!(text, "            - {}", quoted(&escaped(&word)));
        }
        text.push_str("          volumeMounts:\n            - {name: host, mountPath: /host}\n");
        if self.profile_text.is_some() {
            text.push_str("            - {name: profile, mountPath: /profile, readOnly: true}\n");
        }
        if !self.secrets.is_empty() {
            let _ = writeln!(text, "            - {{name: security, mountPath: {SECRETS}, readOnly: true}}");
        }
        text.push_str("      volumes:\n        - {name: host, hostPath: {path: /, type: Directory}}\n");
        if self.profile_text.is_some() {
            text.push_str("        - {name: profile, configMap: {name: hone-host-profile}}\n");
        }
        if !self.secrets.is_empty() {
            text.push_str(
                "        - {name: security, secret: {secretName: hone-host-security, defaultMode: 0400}}\n",
            );
        }
        text
    }

    fn arguments(&self) -> Vec<String> {
        let profile = if self.profile_text.is_some() { "-" } else { self.profile };
        // The first is the script's name.
        let mut words = ["hone", profile].map(str::to_owned).to_vec();
        words.extend([guard_s(self.settings).to_string(), self.settings.soak_s.to_string()]);
        if let Some(data) = self.data {
            words.extend(["--data".to_owned(), data.to_owned()]);
        }
        if self.settings.all {
            words.push("--all".to_owned());
        }
        words.push("--".to_owned());
        words.extend(gate_options(self.settings, self.security));
        words
    }
}

/// A line of the script. It has no two adjacent dollar signs, so only Kubernetes variables need escaping, and the script stays
/// readable.
fn of_script(line: &str) -> String {
    line.replace("$(", "$$(")
}

const DAEMONSET_HEAD: &str = "# Kernel settings of nodes, one node at a time, if the health of the cluster allows it. Written by `hone host rollout --emit daemonset`.
# Settings of memory and disks belong to the node, so the pod is privileged and works in the node's own namespaces. It runs as root,
# whatever user the image names: a privileged container of another user does not have root's rights. A DaemonSet starts on all of its
# nodes at once. A label lets the nodes in one by one, and a pod is ready when its node keeps the settings:
#   for node in NODES; do
#     kubectl label node $node hone.dev/host-settings=apply && kubectl rollout status daemonset/hone-host-settings --timeout=2h || break
#   done
# Put the node of the cluster's controller last. To roll back a node:
#   kubectl label node $node hone.dev/host-settings-   and on the node:   /var/lib/hone/bin/hone-of-daemonset host rollback
# The image needs hone, sh and nsenter (util-linux), and the node needs systemd. The rollback watchdog is a systemd unit of the node and
# survives the pod. Without systemd it would end with the pod's control group, so the pod does not change such a node.
";

const DAEMONSET_BODY: &str = "apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: hone-host-settings
  labels: {app.kubernetes.io/name: hone, app.kubernetes.io/component: host-settings}
spec:
  selector:
    matchLabels: {app.kubernetes.io/name: hone, app.kubernetes.io/component: host-settings}
  updateStrategy:
    type: RollingUpdate
    rollingUpdate: {maxUnavailable: 1}
  template:
    metadata:
      labels: {app.kubernetes.io/name: hone, app.kubernetes.io/component: host-settings}
    spec:
      nodeSelector: {hone.dev/host-settings: apply}
      tolerations: [{operator: Exists}]
      # The rollback watchdog is a process of the node, and survives the pod.
      hostPID: true
      hostNetwork: true
      dnsPolicy: ClusterFirstWithHostNet
      automountServiceAccountToken: false
      terminationGracePeriodSeconds: 60
      containers:
        - name: settings
          securityContext: {privileged: true, runAsUser: 0}
          readinessProbe:
            exec: {command: [test, -f, /run/hone-ready]}
            periodSeconds: 5
          resources:
            requests: {cpu: 100m, memory: 128Mi}
            limits: {memory: 512Mi}
";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rollout::gate::Rules;
    use hone_host::rollout::inventory::named;

    fn settings() -> Settings {
        Settings {
            bootstrap: vec!["k1:9092".to_owned(), "k2:9092".to_owned()],
            rules: Rules {
                healthy: 3,
                every_ms: 2_000,
                wait_s: 600,
                tolerance: 1.25,
                groups: vec!["{{ evil }}".to_owned()],
            },
            soak_s: 600,
            baseline_s: 60,
            lease_s: 120,
            no_canary: false,
            first: None,
            this_boot: false,
            all: false,
            remote_hone: None,
        }
    }

    #[test]
    fn what_a_user_wrote_is_never_a_template_or_a_variable() {
        let settings = settings();
        let hosts = named(&["k1".to_owned()]).unwrap();
        let play = Play {
            profile: "mine.toml",
            profile_text: Some("about = \"{{ x }}\""),
            hosts: &hosts,
            data: Some("/d'x"),
            settings: &settings,
            security: &[],
        };
        let text = play.text();
        assert!(text.contains("content: !unsafe \"about = \\\"{{ x }}\\\"\""), "{text}");
        assert!(text.contains("hone_gate_options: !unsafe [\"--bootstrap\", \"k1:9092,k2:9092\""), "{text}");
        let manifest = Kubernetes {
            profile: "latency",
            profile_text: None,
            image: "i: \"x\"",
            data: Some("/$(HOME)/$$5"),
            settings: &settings,
            security: &[],
            secrets: &[("tls-ca".to_owned(), "/a b\nkind: evil".to_owned())],
        };
        let text = manifest.text();
        assert!(text.contains("- \"/$$(HOME)/$$$$5\""), "{text}");
        assert!(!SCRIPT.contains("$$"), "two dollars of the script would become one");
        assert!(text.contains("image: \"i: \\\"x\\\"\""), "{text}");
        assert!(!text.lines().any(|line| line.starts_with("kind: evil")), "{text}");
        assert!(
            !text.lines().any(|line| line.contains("$(command") && !line.contains("$$(command")),
            "{text}"
        );
    }

    #[test]
    fn the_guard_outlives_everything_that_may_come() {
        assert_eq!(guard_s(&settings()), 600 + 2 * 660 + 300 + 1);
        check(&settings()).unwrap();
        let longest = Settings { soak_s: 86_400 - 2 * 660 - 300 - 1, ..settings() };
        check(&longest).unwrap();
        let too_long = Settings { soak_s: 86_400, ..settings() };
        let refused = check(&too_long).unwrap_err();
        assert!(refused.is::<Usage>(), "{refused:#}");
        assert!(
            refused.to_string().contains("takes up to 88021 s") && refused.to_string().contains("by 1621 s"),
            "{refused}"
        );
    }

    /// Hone's image has a user of its own, who has no rights on the node, privileged or not.
    #[test]
    fn the_pod_is_of_root() {
        let settings = settings();
        let manifest = Kubernetes {
            profile: "latency",
            profile_text: None,
            image: "hone:latest",
            data: None,
            settings: &settings,
            security: &[],
            secrets: &[],
        };
        let text = manifest.text();
        assert!(text.contains("securityContext: {privileged: true, runAsUser: 0}\n"), "{text}");
    }
}
