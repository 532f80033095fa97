# SPDX-License-Identifier: Apache-2.0
# Sourced by the end-to-end scripts: a broker of their own, and checks that print the expected value.
# $1 of each script is the directory of the binaries.
set -euo pipefail

bin=$(readlink -f "${1:?directory of the binaries}")
e2e=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
work=$(mktemp -d "${TMPDIR:-/tmp}/nd-e2e-XXXXXX")
checks=0
unset "${!NDCTL_@}" NO_COLOR CLICOLOR_FORCE PAGER
export NDBROKER_DIR=$work/broker

cleanup() {
  local status=$?
  trap '' INT TERM
  jobs -p | xargs -r kill 2> /dev/null || true
  wait 2> /dev/null || true
  [ "$status" -eq 0 ] || tail -n 100 "$work"/*.log 2> /dev/null || true
  rm -rf "$work"
  exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

fail() {
  echo "FAILED: $*" >&2
  exit 1
}

# until_true WHAT COMMAND...: repeats the command until it succeeds; fails after 20 seconds.
until_true() {
  local what=$1 end=$((SECONDS + 20))
  shift
  until "$@"; do
    [ "$SECONDS" -lt "$end" ] || fail "$what did not happen within 20 seconds"
    sleep 0.02
  done
}

# Prints a TCP port that is free now, outside the ephemeral range.
free_port() {
  local port
  for _ in $(seq 200); do
    port=$((20000 + RANDOM % 12000))
    if [ -z "$(ss -ltnH "sport = :$port")" ]; then
      echo "$port"
      return
    fi
  done
  fail "no free TCP port"
}

# Starts the broker on 127.0.0.2 with these further options and sets $broker to its pid. Uses $work/config.toml if it
# exists.
start_broker() {
  : > "$work/broker.out"
  local config=()
  [ ! -e "$work/config.toml" ] || config=(--config "$work/config.toml")
  "$bin/ndbrokerd" --dir "$NDBROKER_DIR" --adapter-address 127.0.0.2 --tcp-port "$(free_port)" "${config[@]}" "$@" \
    > "$work/broker.out" 2>> "$work/broker.log" &
  broker=$!
  until_true "the broker's start" broker_ready
}
broker_ready() {
  kill -0 "$broker" 2> /dev/null || fail "ndbrokerd ended: $(cat "$work/broker.log")"
  grep -q '^READY ' "$work/broker.out"
}

ndctl() { "$bin/ndctl" "$@"; }

# expect CODE COMMAND...: runs it; stdout in $out, stderr in $err.
expect() {
  local code=$1 got=0
  shift
  "$@" > "$work/out" 2> "$work/err" < /dev/null || got=$?
  out=$(cat "$work/out")
  err=$(cat "$work/err")
  checks=$((checks + 1))
  [ "$got" -eq "$code" ] || fail "'$*' ended with $got instead of $code; stdout: $out; stderr: $err"
}

# contains TEXT PART
contains() {
  checks=$((checks + 1))
  [[ $1 == *"$2"* ]] || fail "'$2' is not in: $1"
}

# json TEXT FILTER: the jq filter must be true of the text.
json() {
  checks=$((checks + 1))
  jq -e "$2" <<< "$1" > /dev/null || fail "not true: jq '$2' of: $1"
}

# count_is NUMBER LIST-ARGUMENTS...: the list has that many objects.
count_is() {
  local number=$1
  shift
  [ "$(ndctl "$@" -o name | wc -l)" -eq "$number" ]
}

# golden NAME TEXT: the text equals golden/NAME.json after values that change from run to run are masked.
# NDBROKER_GOLDEN=write writes the file again.
golden() {
  local file=$e2e/golden/$1.json masked
  masked=$(jq -S '
    def mask($names): walk(if type == "object" then with_entries(
      if .key as $k | $names | index($k) then .value |= (type | "<" + . + ">") else . end) else . end);
    mask(["id", "pid", "uid", "since", "started", "age_seconds", "uptime_seconds", "boot_epoch", "directory",
          "config_file", "version", "ndctl", "broker", "open_fds", "fd_limit", "resident_bytes", "holder", "through",
          "tcp_port", "operations", "oldest_pending_seconds", "adapter_id", "tx_bytes", "rx_bytes", "tx_messages",
          "rx_messages", "min_us", "avg_us", "max_us", "time", "object", "command",
          "unit", "container", "cgroup", "traffic", "seconds", "reads_in_flight", "reads_in_flight_max",
          "lasted_seconds", "total_seconds", "ended", "established", "connection", "grpc"])' <<< "$2")
  if [ "${NDBROKER_GOLDEN:-}" = write ]; then
    printf '%s\n' "$masked" > "$file"
  fi
  checks=$((checks + 1))
  diff -u "$file" - <<< "$masked" || fail "$1 differs from $file"
}

done_well() { echo "$checks checks"; }
