# Arguments: profile ("-" is /profile/profile.toml), seconds of guard, seconds of soak, then the options of `hone host apply`
# up to a word "--", then those of the gate.
set -eu
profile=$1 guard_s=$2 soak_s=$3
shift 3
host_program=/var/lib/hone/bin/hone-of-daemonset
ready=/run/hone-ready
rm -f "$ready"
mkdir -p /host/var/lib/hone/bin
cp "$(command -v hone)" "/host$host_program.part"
mv "/host$host_program.part" "/host$host_program"
# In the host's own namespaces: the guard outlives this pod there.
on_host() { nsenter --target 1 --mount --uts --ipc --net --pid -- "$host_program" host "$@"; }
# A pod that may not go on stays, and is not ready: one that ended would be started again, and try again.
stay() { echo "$1"; while :; do sleep 3600 & wait $!; done; }
# The change's name, once there is one: whatever else is changed on this node is not ours.
change=
back() { [ -z "$change" ] || on_host revert --change "$change" || true; }
trap 'back; exit 1' TERM INT
on_host recover || stay "an earlier change could not be taken back; look with hone host status on the node"
# The words before "--" are of apply, those behind it of the gate.
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
gate "$@" --keep /tmp/before || stay "the cluster was not well; nothing was changed"
result=$(apply "$@") || stay "the settings could not be applied"
case $result in
  *'"applied": null'*) touch "$ready"; stay "nothing to change" ;;
esac
change=${result##*'"applied": {'}
change=${change#*'"id": "'}
change=${change%%'"'*}
sleep "$soak_s" & wait $!
if gate "$@" --against /tmp/before && on_host confirm --change "$change" --this-boot; then
  change=
  touch "$ready"
  stay "the settings stay until the next boot"
fi
back
change=
stay "worse: taken back; no other node is changed while this pod is not ready"
