#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# First contact: installs what is missing, builds, starts a broker, runs the examples through it, and leaves the
# broker running until Ctrl-C. --demo ends by itself: 0 when the data arrived intact.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")"
source deploy/setup.sh

demo=
for argument in "$@"; do
  case $argument in
    --demo) demo=1 ;;
    --deb)
      install_packages
      install_packages deploy/debian/packages.txt
      exec deploy/debian/build.sh
      ;;
    -h | --help)
      echo "usage: ./run.sh [--demo | --deb]"
      echo "  --demo   end after the examples: 0 when the data arrived intact"
      echo "  --deb    build the Debian packages in build/deb/packages, and check them"
      exit 0
      ;;
    *) die "unknown argument '$argument'; see ./run.sh --help" ;;
  esac
done

install_packages
build_targets OFF ndbrokerd ndctl example_ping_pong example_remote_memory
bin=$build/bin

broker=
scratch=$(mktemp -d "${TMPDIR:-/tmp}/ndbroker-run-XXXXXX")
cleanup() {
  trap '' INT TERM
  jobs -p | xargs -r kill 2> /dev/null || true
  [ -z "$broker" ] || wait "$broker" 2> /dev/null || true
  rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Starts ndbrokerd with these options and waits until it serves; its exit code otherwise.
start_broker() {
  : > "$scratch/ready"
  "$bin/ndbrokerd" --log-level warning "$@" > "$scratch/ready" 2> "$scratch/log" &
  broker=$!
  until grep -q '^READY ' "$scratch/ready"; do
    if ! kill -0 "$broker" 2> /dev/null; then
      local status=0
      wait "$broker" || status=$?
      broker=
      return "$status"
    fi
    sleep 0.02
  done
  NDBROKER_DIR=$(sed -n 's/^READY //p' "$scratch/ready")
  export NDBROKER_DIR
}

# Another broker on this host may have the wire's usual port.
options=()
if [ -n "$(ss -ltnH 'sport = :4794' 2> /dev/null)" ]; then
  port=4795
  while [ -n "$(ss -ltnH "sport = :$port")" ]; do port=$((port + 1)); done
  say "TCP port 4794 is in use; this broker takes $port"
  options+=(--tcp-port "$port")
fi
status=0
start_broker "${options[@]}" || status=$?
if [ "$status" -eq 3 ]; then
  say "a broker of yours runs already; this one gets a directory of its own"
  status=0
  start_broker "${options[@]}" --dir "$scratch/broker" || status=$?
fi
if [ "$status" -ne 0 ]; then
  cat "$scratch/log" >&2
  die "ndbrokerd did not start"
fi
say "ndbrokerd (pid $broker) serves $NDBROKER_DIR"

failed=
# One example as two processes that meet at an address.
run_example() {
  local program=$1 address=$2 server status=0
  say "$program: a server and a client process, connected through the broker"
  "$bin/$program" server "$address" > "$scratch/server" 2>&1 &
  server=$!
  until [ -n "$("$bin/ndctl" listener list -o name --filter "local=$address" --filter state=listening)" ]; do
    kill -0 "$server" 2> /dev/null || break
    sleep 0.02
  done
  timeout 60 "$bin/$program" client "$address" 2>&1 | sed 's/^/   client: /' || status=$?
  # The server ends when its client is gone.
  timeout 60 tail --pid="$server" -f /dev/null || kill "$server" 2> /dev/null || true
  wait "$server" || status=$?
  sed 's/^/   server: /' "$scratch/server"
  if [ "$status" -ne 0 ]; then
    echo "   FAILED ($status)"
    failed=1
  fi
}

run_example example_ping_pong 127.0.0.1:7471
run_example example_remote_memory 127.0.0.1:7472

# A pair of processes that lives while ndctl shows it.
say "what an operator sees while two processes exchange messages"
"$bin/ndctl" ping --serve 127.0.0.1:7473 --count 1 > /dev/null 2> "$scratch/pair" &
server=$!
until [ -n "$("$bin/ndctl" listener list -o name --filter local=127.0.0.1:7473 --filter state=listening)" ]; do
  kill -0 "$server" 2> /dev/null || break
  sleep 0.02
done
"$bin/ndctl" ping 127.0.0.1:7473 --count 100000000 --size 4096 > /dev/null 2>> "$scratch/pair" &
pair=$!
for ((i = 0; i < 500; i++)); do
  kill -0 "$pair" 2> /dev/null || break
  [ "$("$bin/ndctl" connection list -o name --filter state=Connected | wc -l)" -lt 2 ] || break
  sleep 0.02
done
echo '$ ndctl status'
"$bin/ndctl" status || failed=1
echo
echo '$ ndctl connection list'
"$bin/ndctl" connection list | tee "$scratch/list" || failed=1
if [ "$(grep -c Connected "$scratch/list")" -lt 2 ]; then
  cat "$scratch/pair" >&2
  failed=1
fi
kill "$pair" "$server" 2> /dev/null || true
wait "$pair" "$server" 2> /dev/null || true
echo

if [ -n "$failed" ]; then
  cat "$scratch/log" >&2
  die "FAILED: the data did not arrive, or not intact"
fi
say "all data arrived intact"
[ -z "$demo" ] || exit 0

cat << END
== The broker goes on until Ctrl-C. In another terminal, for example:
   export NDBROKER_DIR=$NDBROKER_DIR
   $bin/ndctl status
   $bin/ndctl events
   $bin/example_ping_pong server 127.0.0.1:7471 &
   $bin/example_ping_pong client 127.0.0.1:7471
   $bin/ndctl ping --serve 127.0.0.1:7473 &
   $bin/ndctl ping 127.0.0.1:7473
END
wait "$broker"
