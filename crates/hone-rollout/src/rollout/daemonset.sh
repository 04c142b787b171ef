# Arguments: profile ("-" is /profile/profile.toml), seconds of the watchdog, seconds of soak, then the options of `hone host apply`
# up to the word "--", then those of the gate.
set -eu
profile=$1 guard_s=$2 soak_s=$3
shift 3
host_program=/var/lib/hone/bin/hone-of-daemonset
ready=/run/hone-ready
# The script's own open change. The file is on the node, because a restarted container has no other information.
open=/host/var/lib/hone/open-of-daemonset
# The baseline is in the container's private folder.
before=$(mktemp -d)/before
rm -f "$ready"
mkdir -p /host/var/lib/hone/bin
cp "$(command -v hone)" "/host$host_program.part"
mv "/host$host_program.part" "/host$host_program"
# Runs in the host's own namespaces, where the watchdog survives this pod.
on_host() { nsenter --target 1 --mount --uts --ipc --net --pid -- "$host_program" host "$@"; }
# A pod that must not continue stays, and is not ready. If it exited, it would be restarted and try again.
stay() { echo "$1"; while :; do sleep 3600 & wait $!; done; }
# The id of the change that waits for its confirmation. `--interrupted` also rolls back the rest of a crash.
waiting() { on_host rollback --interrupted --json | tr -d ' \n' | sed -n 's/.*"found":"waiting","id":"\([0-9]*\)".*/\1/p'; }
back() {
  [ -e "$open" ] || return 0
  id=$(waiting)
  kept=$(cat "$open")
  # It must be this script's change. If the script died while it applied, the id is not known, but then no other change waited.
  if [ -n "$id" ] && { [ -z "$kept" ] || [ "$id" = "$kept" ]; }; then on_host rollback --change-id "$id" || return 1; fi
  rm -f "$open"
}
trap 'back || true; exit 1' TERM INT
[ -d /host/run/systemd/system ] || stay "the node has no systemd, so the watchdog would end with this pod; nothing was changed"
# With an open change in force, the baseline would be wrong.
back || stay "an earlier change could not be rolled back; see hone host status on the node"
on_host rollback --interrupted || stay "an earlier change could not be rolled back; see hone host status on the node"
# The words before "--" are for apply, those after it for the gate.
gate() {
  while [ "$1" != -- ]; do shift; done
  shift
  hone host rollout --gate-only "$@"
}
apply() {
  count=$#
  while [ "$count" -gt 0 ]; do
    count=$((count - 1))
    word=$1
    shift
    if [ "$word" = -- ]; then shift "$count"; break; fi
    set -- "$@" "$word"
  done
  if [ "$profile" = - ]; then
    on_host apply - --confirm-within "${guard_s}s" --json "$@" < /profile/profile.toml
  else
    on_host apply "$profile" --confirm-within "${guard_s}s" --json "$@"
  fi
}
gate "$@" --save-baseline "$before" || stay "the cluster was not healthy; nothing was changed"
[ -z "$(waiting)" ] || stay "another change of this node waits for its confirmation; nothing was changed"
: > "$open"
if ! result=$(apply "$@"); then
  rm -f "$open"
  stay "the settings could not be applied"
fi
case $result in
  *'"applied": null'*) rm -f "$open"; touch "$ready"; stay "no change needed" ;;
esac
change=${result##*'"applied": {'}
change=${change#*'"id": "'}
change=${change%%'"'*}
echo "$change" > "$open"
sleep "$soak_s" & wait $!
if gate "$@" --baseline-file "$before" && on_host confirm --change-id "$change" --this-boot; then
  rm -f "$open"
  touch "$ready"
  stay "the settings stay until the next boot"
fi
back || stay "worse, and only partly rolled back; see hone host status on the node"
stay "worse: rolled back; no other node is changed while this pod is not ready"
