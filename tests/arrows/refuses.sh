#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The check finds an include against the arrows, a library where it may not be, an arrow without an include, a
# file in no room, a folder table in the documentation that differs, and a header of the operating system where it
# may not be.
set -euo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The tree with one line added to a file (or one file added), and a sentence that the check must print.
refuses() {
  local file=$1 line=$2 sentence=$3 check=${4:-check.py} out
  rm -rf "$work/tree"
  mkdir "$work/tree"
  (cd "$source" && find proto base session provider daemon client-lib cli tests docs/architecture.md \
    \( -name '*.h' -o -name '*.cc' -o -name arrows.txt -o -name architecture.md \) -print0 |
    xargs -0 cp --parents -t "$work/tree")
  mkdir -p "$(dirname "$work/tree/$file")"
  printf '%s\n' "$line" >> "$work/tree/$file"
  if out=$("$source/tests/arrows/$check" "$work/tree"); then
    echo "not found: $sentence"
    exit 1
  fi
  grep -qF "$sentence" <<< "$out" || {
    printf 'expected: %s\nprinted:\n%s\n' "$sentence" "$out"
    exit 1
  }
}

refuses provider/soft/wire/crc32c.h '#include "daemon/core/impl.h"' 'provider/soft/wire may not include daemon/core'
refuses daemon/core/policy.h '#include <grpcpp/grpcpp.h>' 'daemon/core may not include grpc'
refuses daemon/core/policy.h '#include <unistd.h>' 'daemon/core may not include os'
refuses client-lib/core/broker_session.h '#include "nd/connector.h"' 'client-lib/core may not include client-lib/include'
refuses cli/noun.h '#include "ndbroker/v1/admin.grpc.pb.h"' 'cli may not include grpc'
refuses base/clock.h '#include "tests/testing/daemon.h"' 'which belongs to a test'
refuses base/clock.h '#include <boost/asio.hpp>' 'is in no group'
refuses daemon/other/new.h '' 'in no room'
refuses tests/arrows/arrows.txt 'daemon/core/lease | one file | cli |' 'delete the arrow'
refuses tests/arrows/arrows.txt 'daemon/core/lease | one file | cli |' 'docs/architecture.md: its folder table'
refuses base/clock.h '#include <sys/socket.h>' 'base/clock.h: includes <sys/socket.h>; use base/os/' os_headers.py
refuses daemon/ops/new.cc '#include <poll.h>' 'daemon/ops/new.cc: includes <poll.h>' os_headers.py
echo "every wrong include is found"
