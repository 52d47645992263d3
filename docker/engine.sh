#!/bin/sh
# A private Docker engine, started by hand: for machines without systemd, and for CI. It has its own socket, data, state
# and pid file, all in one folder, so it is kept apart from any other engine on disk and leaves nothing but that folder.
#
#     eval "$(docker/engine.sh start FOLDER)"      # start it, wait until it answers, set DOCKER_HOST
#     docker/engine.sh status FOLDER
#     docker/engine.sh stop FOLDER [--remove]      # and remove the folder, with every image and container
#
# Needs root, and the packages docker.io and iptables (Debian: apt-get install --no-install-recommends docker.io iptables).
# On the network engines are not kept apart: they share the bridge docker0 and the packet filter's chains. So start one
# only where none is running. It sets net.ipv4.ip_forward and the policy of FORWARD, and leaves them so when it is stopped.
set -eu

START_S=60 # an engine is ready in about a second; a first start on a slow disk takes longer
STOP_S=60  # it stops its containers first
LONGEST_SOCKET=107

fail() {
    echo "error: $1" >&2
    [ -z "${2:-}" ] || echo "hint: $2" >&2
    exit 1
}

usage() {
    sed -n '2,/^set -eu/{/^set -eu/d;s/^# \{0,1\}//;p;}' "$0" >&2
    exit 2
}

running_pid() { # of the engine in this folder; nothing when it is not running (the file may be that of a crash)
    [ -s "$folder/docker.pid" ] || return 1
    pid=$(cat "$folder/docker.pid")
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = dockerd ] || return 1
    # One that died stays as a zombie until the first process of the machine reaps it.
    ! grep -q '^State:[[:space:]]*Z' "/proc/$pid/status" 2>/dev/null || return 1
    echo "$pid"
}

answers() { docker --host "unix://$socket" version --format '{{.Server.Version}}' 2>/dev/null; }

# Asks a condition ten times a second until it holds, at most $1 seconds long.
wait_for() {
    tries=$(($1 * 10))
    shift
    until "$@" >/dev/null; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || return 1
        sleep 0.1
    done
}

ready_or_dead() { answers || ! kill -0 "$started" 2>/dev/null; }
gone() { ! running_pid; }

start() {
    if running_pid >/dev/null; then
        answers >/dev/null || fail "the engine of $folder runs but does not answer" "see $folder/dockerd.log"
        echo "export DOCKER_HOST=unix://$socket"
        return
    fi
    for program in dockerd docker iptables; do
        command -v "$program" >/dev/null ||
            fail "$program is not on the PATH" "apt-get install --no-install-recommends docker.io iptables"
    done
    [ "$(id -u)" = 0 ] || fail "an engine started this way needs root" "use sudo, or an engine that runs already"
    [ "${#socket}" -le "$LONGEST_SOCKET" ] || fail "$socket: too long for a socket" "name a shorter folder"
    mkdir -p "$folder"
    rm -f "$folder/docker.pid"
    # A session of its own: Ctrl-C in this terminal is not meant for it.
    setsid dockerd --host "unix://$socket" --data-root "$folder/data" --exec-root "$folder/exec" \
        --pidfile "$folder/docker.pid" >"$folder/dockerd.log" 2>&1 </dev/null &
    started=$!
    if ! wait_for "$START_S" ready_or_dead || ! answers >/dev/null; then
        tail -n 5 "$folder/dockerd.log" >&2
        ! kill "$started" 2>/dev/null || wait_for "$STOP_S" gone || true
        fail "the engine did not answer within $START_S s" "the lines above are the end of $folder/dockerd.log"
    fi
    echo "export DOCKER_HOST=unix://$socket"
}

stop() {
    if pid=$(running_pid); then
        kill "$pid"
        wait_for "$STOP_S" gone || fail "the engine (pid $pid) did not stop within $STOP_S s" "see $folder/dockerd.log"
        echo "stopped"
    else
        echo "not running"
    fi
    if [ "${1:-}" = --remove ]; then
        # An engine that crashed leaves its mounts, some of them one over another.
        awk -v below="$folder/" 'index($2, below) == 1 { print $2 }' /proc/mounts | sort -r |
            while read -r mounted; do umount "$mounted"; done
        # Only what an engine made here, and nothing that is still mounted below it.
        rm -rf --one-file-system "$folder/data" "$folder/exec" "$folder/docker.sock" "$folder/docker.pid" \
            "$folder/dockerd.log"
        [ ! -d "$folder" ] || rmdir "$folder"
        echo "removed $folder"
    fi
}

status() {
    if running_pid >/dev/null && version=$(answers); then
        echo "Docker $version answers at unix://$socket"
    else
        echo "not running"
        return 1
    fi
}

[ $# -ge 2 ] || usage
folder=$(realpath -m "$2")
socket=$folder/docker.sock
case $1 in
start) start ;;
stop) stop "${3:-}" ;;
status) status ;;
*) usage ;;
esac
