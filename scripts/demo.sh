# What `./run --demo` does; ./run sources this file and gives $belfry. A server with a data directory of its own, a sink that
# shows what it gets, and a living system (demo-system.sh): a few calls a second, and something on every page of the
# dashboard. Everything is on free ports and goes away with Ctrl-C.
# shellcheck shell=bash

if (($#)); then
    echo "run: --demo takes no further words" >&2
    exit 2
fi
data=$(mktemp -d "${TMPDIR:-/tmp}/belfry-demo.XXXXXX")
pids=()

# Servers drain when they are told to end: they are waited for before their files go.
clean_up() {
    trap '' INT TERM
    local running
    mapfile -t running < <(jobs -p)
    ((${#running[@]} == 0)) || kill "${running[@]}" 2>/dev/null || true
    wait || true
    rm -rf "$data"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# first_url FILE PID - waits until the program has written where it listens.
first_url() {
    local url tries
    for ((tries = 0; tries < 100; tries++)); do
        url=$(grep -o -m 1 'http://127\.0\.0\.1:[0-9]*' "$1" 2>/dev/null) && echo "$url" && return
        kill -0 "$2" 2>/dev/null || break
        sleep 0.05
    done
    cat "$1" >&2
    return 1
}

# A line a call, from the sink's JSON lines: when it came, which task, which attempt, what it was answered.
show_calls() {
    local line us path attempt status
    while IFS= read -r line; do
        us=${line#*\"received_us\":} us=${us%%,*}
        path=${line#*\"path\":\"} path=${path%%\"*}
        attempt=${line#*\"attempt\":} attempt=${attempt%%,*}
        status=${line#*\"status\":} status=${status%%,*}
        printf '%(%T)T.%03d  %-14s attempt %s, answered with %s\n' \
            "$((us / 1000000))" "$((us / 1000 % 1000))" "$path" "${attempt/null/-}" "$status"
    done
}

"$belfry" sink --listen 127.0.0.1:0 --log - > >(show_calls) 2>"$data/sink.log" &
pids+=($!)
sink=$(first_url "$data/sink.log" $!)
"$belfry" serve --login-link --allow-loopback --listen 127.0.0.1:0 --data-dir "$data" 2>"$data/server.log" &
pids+=($!)
server=$(first_url "$data/server.log" $!)
cat "$data/server.log"
unset BELFRY_KEY BELFRY_SERVER # of another server
. "$root/scripts/demo-system.sh"
cat <<END

What the sink receives: /tick every 2 seconds, /minute each minute, /flaky/fail/2 every 15 seconds, which fails twice and is
tried again, and more. The link above opens the dashboard, once and within a minute; this prints another:

  $belfry dashboard --server $server --data-dir $data

Ctrl-C ends it all and removes its data.

END
wait "${pids[1]}"
