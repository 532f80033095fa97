#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# listens.sh NDCTL FOLDER near|far NAMESPACE PORT: whether a program listens at the port, by a broker or by TCP.
enter=()
[ "$3" = far ] && enter=(nsenter --target "$4" --net)
"${enter[@]}" env "NDBROKER_DIR=$2/$3" "$1" -o csv port list | grep -q ":$5\b.*[Ll]isten" || "${enter[@]}" ss -Hltn "sport = :$5" | grep -q .
