# Arguments: profile ("-" is /profile/profile.toml), seconds of guard, seconds of soak, then the options of `hone host apply`
# up to a word "--", then those of the gate.
set -eu
profile=$1 guard_s=$2 soak_s=$3
shift 3
host_program=/var/lib/hone/bin/hone-of-daemonset
ready=/run/hone-ready
# A change of this script's that is not confirmed. It is kept on the node: a container that was started again knows nothing else.
open=/host/var/lib/hone/open-of-daemonset
# What was seen before is nobody else's business: the container's own folder.
before=$(mktemp -d)/before
rm -f "$ready"
mkdir -p /host/var/lib/hone/bin
cp "$(command -v hone)" "/host$host_program.part"
mv "/host$host_program.part" "/host$host_program"
# In the host's own namespaces: the guard outlives this pod there.
on_host() { nsenter --target 1 --mount --uts --ipc --net --pid -- "$host_program" host "$@"; }
# A pod that may not go on stays, and is not ready: one that ended would be started again, and try again.
stay() { echo "$1"; while :; do sleep 3600 & wait $!; done; }
# The name of the change that waits for its confirmation; what a crash has left is taken back along the way.
waiting() { on_host recover --json | tr -d ' \n' | sed -n 's/.*"found":"waiting","id":"\([0-9]*\)".*/\1/p'; }
back() {
  [ -e "$open" ] || return 0
  id=$(waiting)
  kept=$(cat "$open")
  # Unless it is somebody else's. Of one that ended while it was made the name is not known; nothing waited before it.
  if [ -n "$id" ] && { [ -z "$kept" ] || [ "$id" = "$kept" ]; }; then on_host revert --change "$id" || return 1; fi
  rm -f "$open"
}
trap 'back || true; exit 1' TERM INT
[ -d /host/run/systemd/system ] || stay "the node has no systemd, whose unit the guard would be: it would end with this pod; nothing was changed"
# Measured with it in force, nothing could be told from before.
back || stay "an earlier change could not be taken back; look with hone host status on the node"
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
gate "$@" --keep "$before" || stay "the cluster was not well; nothing was changed"
[ -z "$(waiting)" ] || stay "another change of this node waits for its confirmation; nothing was changed"
: > "$open"
if ! result=$(apply "$@"); then
  rm -f "$open"
  stay "the settings could not be applied"
fi
case $result in
  *'"applied": null'*) rm -f "$open"; touch "$ready"; stay "nothing to change" ;;
esac
change=${result##*'"applied": {'}
change=${change#*'"id": "'}
change=${change%%'"'*}
echo "$change" > "$open"
sleep "$soak_s" & wait $!
if gate "$@" --against "$before" && on_host confirm --change "$change" --this-boot; then
  rm -f "$open"
  touch "$ready"
  stay "the settings stay until the next boot"
fi
back || stay "worse, and not taken back as a whole; look with hone host status on the node"
stay "worse: taken back; no other node is changed while this pod is not ready"
