#!/usr/bin/env bash
# A worker in bash and curl: claims a task, keeps its lease while a program runs, reports how it ended.
# The program gets the payload on stdin and the task's name as $1. What it prints is the result; any exit code but 0
# is a failure, which is tried again.
#
#   HOLDFAST_API=http://127.0.0.1:7777 [HOLDFAST_KEY=hf_...] ./worker.sh PROGRAM [QUEUE] [--drain]
set -uo pipefail

program=$1 queue=${2:-default} drain=${3:-}
me="bash-$(hostname)-$$" lease_seconds=30

call() { # PATH BODY: the answer's body, then its status on a line of its own
  curl -sS -m 20 -w '\n%{http_code}' ${HOLDFAST_KEY:+-H "Authorization: Bearer $HOLDFAST_KEY"} \
    --data-binary "$2" "${HOLDFAST_API:-http://127.0.0.1:7777}/internal/$1"
}
field() { sed -E "s/.*\"$1\":\"?([^\",}]*)\"?.*/\1/" <<<"$2"; }
quoted() { sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/\t/\\t/g' | tr -d '\000-\010\013-\037' | sed -e ':a;N;$!ba;s/\n/\\n/g'; }

while :; do
  claimed=$(call task-claim "{\"worker_id\":\"$me\",\"queues\":[\"$queue\"],\"lease_seconds\":$lease_seconds}")
  case ${claimed##*$'\n'} in
    200) ;;
    204) [ "$drain" ] && exit 0; sleep 1; continue ;;
    *) echo "no answer: $claimed" >&2; sleep 3; continue ;;
  esac
  claimed=${claimed%$'\n'*}
  payload=${claimed#*\"payload\":} # the last field of the answer
  claimed=${claimed%%,\"payload\":*}
  proof="\"task_id\":\"$(field task_id "$claimed")\",\"attempt\":$(field attempt "$claimed"),\"lease_token\":\"$(field lease_token "$claimed")\""

  while sleep $((lease_seconds / 3)); do call heartbeat "{$proof,\"lease_seconds\":$lease_seconds}"; done &>/dev/null &
  keeper=$!
  if said=$("$program" "$(field task "$claimed")" <<<"${payload%\}}" 2>&1); then
    report="\"status\":\"completed\",\"result\":\"$(quoted <<<"$said")\""
  else
    report="\"status\":\"failed\",\"error\":{\"kind\":\"Transient\",\"message\":\"$(tail -c 2000 <<<"$said" | quoted)\"}"
  fi
  kill "$keeper" 2>/dev/null; wait "$keeper" 2>/dev/null
  # Safe to repeat until there is an answer: a completion counts once. 409 says that the task is somebody else's now.
  until answer=$(call task-complete "{$proof,$report}") && [ "${answer##*$'\n'}" -lt 500 ]; do sleep 1; done
  echo "$(field task_id "$claimed") ${answer##*$'\n'} $(field state "$answer")"
done
