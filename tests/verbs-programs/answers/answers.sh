# SPDX-License-Identifier: Apache-2.0
# Sourced by run.sh: the answers of verbs_answers and the exit statuses of pairs.txt on a broker, compared with those of the
# kernel's rxe and siw, which tests/vm/run.sh answers has stored in rxe.txt and siw.txt.
answers_of() { # roce|iwarp one|two
  local as=$1 where=$2 address passive kind=rxe status=0
  [ $as = iwarp ] && kind=siw
  address=$near passive=() server=
  if [ $where = two ]; then
    address=$far passive=(--here $near --passive-by "${in_second[*]} env NDBROKER_DIR=$work/far") server="${in_second[*]} "
  fi
  NDBROKER_DIR=$work/near "$ndctl" run --as $as -- "$build/bin/verbs_answers" $address 10.91.0.77 --at-once 8 "${passive[@]}" \
    > "$work/answers" 2> "$work/answers.err"
  ADDRESS=$address AT_ONCE=4 FIRST_PORT=18600 WITHOUT_CM="-g 0" LISTENS="$here/answers/listens.sh $ndctl $work $(side_of $where) $second" \
    SERVER_BY="${server}env NDBROKER_DIR=$work/$(side_of $where) $ndctl run --as $as --" \
    CLIENT_BY="env NDBROKER_DIR=$work/near $ndctl run --as $as --" "$here/answers/pairs.sh" >> "$work/answers"
  [ -z "${NDBROKER_ANSWERS:-}" ] || cp "$work/answers" "$NDBROKER_ANSWERS/$as-$where.txt"
  /usr/bin/python3 "$here/answers/compare.py" $as-$where "$here/answers/$kind.txt" "$work/answers" \
    "$here/answers/differences.txt" > "$work/compared" || { status=1; cp "$work/answers.err" "$work/server.log"; }
  cat "$work/compared"
  grep '^FAIL' "$work/compared" > "$work/client.log"
  return $status
}
answers() {
  local as where run status=0
  for as in roce iwarp; do
    for where in one two; do
      # Programs of the distribution have time-outs of their own, which a busy machine reaches: a difference counts when it
      # comes twice.
      for run in 1 2; do
        answers_of $as $where && break
        [ $run = 1 ] || status=1
      done
    done
  done
  verdict "the same answers as the kernel's devices, one and two broker(s)" $status
}
selected answers apart && installed "$build/bin/verbs_answers" && answers
