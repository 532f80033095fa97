# SPDX-License-Identifier: Apache-2.0
# For tests/windows/run.sh: pairs of processes with real brokers. Sets `failed` to 1 for a pair that fails.
declare -A broker_directory broker_system broker_address

# broker NAME windows|linux ADDRESS PORT [DIRECTORY]: starts one and waits until it serves.
broker() {
  local name=$1 log=$build/broker-$1.log
  broker_system[$name]=$2
  broker_address[$name]=$3
  rm -f "$log"
  mkdir -p "$WINEPREFIX/drive_c/brokers"
  if [ "$2" = windows ]; then
    broker_directory[$name]=${5:-C:\\brokers\\$name}
    wine "$build/bin/ndbrokerd.exe" --dir "${broker_directory[$name]}" --adapter-address "$3" --tcp-port "$4" \
      --log-level debug < /dev/null > "$log" 2>&1 &
  else
    broker_directory[$name]=$WINEPREFIX/$name
    "$linux/bin/ndbrokerd" --dir "${broker_directory[$name]}" --adapter-address "$3" --tcp-port "$4" \
      --log-level debug < /dev/null > "$log" 2>&1 &
  fi
  broker_pid[$name]=$!
  await "$log" '^READY ' || { echo "broker $name does not serve:" && cat "$log" && exit 1; }
}

# await FILE PATTERN: at most a minute.
await() {
  local _
  for _ in $(seq 600); do
    ! grep -q "$2" "$1" 2> /dev/null || return 0
    sleep 0.1
  done
  return 1
}

# end BROKER ARGUMENT...: nd_pair of the broker's system, or nd_exchange.exe for nd:BROKER. Replaces this process.
end() {
  local name=${1#nd:} to=${3%:*} port=${3##*:}
  export NDBROKER_DIR=${broker_directory[$name]}
  if [ "$1" != "$name" ]; then
    [ "$2" = listen ] || to="${broker_address[$name]} $to"
    # shellcheck disable=SC2086 # Two addresses are two arguments.
    exec timeout 300 wine "$build/bin/nd_exchange.exe" "$2" $to "$port" "$(wine_path "$build/bin/ndbrokernd.dll")"
  elif [ "${broker_system[$name]}" = windows ]; then
    exec timeout 300 wine "$build/bin/nd_pair.exe" "${@:2}"
  fi
  exec timeout 300 "$linux/bin/nd_pair" "${@:2}"
}

# exchange NAME LISTENER CONNECTOR ADDRESS:PORT, with ends as end() takes them
exchange() {
  local log=$build/$1.log listener
  result=ok
  rm -f "$log"
  (end "$2" listen "$4") < /dev/null > "$log" 2>&1 &
  listener=$!
  await "$log" '^waiting' || result=FAILED
  (end "$3" connect "$4") < /dev/null >> "$log" 2>&1 || result=FAILED
  wait "$listener" || result=FAILED
  sed -i /^waiting/d "$log"
  report "$1"
}
