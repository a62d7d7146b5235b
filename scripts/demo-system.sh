# The living system of `./run --demo`; demo.sh sources this file and gives $belfry, $server, $data and $sink. Three tenants,
# schedules in three zones, a calendar, workflows, gates that hold tasks back, and failures of several kinds. Every part is
# made with the command line, as a user would make it.
# shellcheck shell=bash

b() { "$belfry" "$@" --server "$server" --data-dir "$data"; }
add() { b add --quiet "$@" >/dev/null; }

# What runs again and again, and never rests for more than a few seconds.
demo_traffic() {
    add --every 2s --name tick "$sink/tick"
    add --every 15s --name flaky --backoff fixed --retry-delay 2s "$sink/flaky/fail/2" # its first two calls get 500
    add --every 5s --name index-orders --queue rollups "$sink/delay/800/index"
    add --cron '* * * * *' --name minute "$sink/minute"
    add --every 90s --name late-invoice --queue billing --max-attempts 1 "$sink/status/422/invoices"
}

# The last Sunday of a month at 02:30 is, twice a year, the night in which clocks change.
demo_schedules() {
    local n
    b calendar set ledger-days --description 'days on which the ledger is open' \
        --exclude "$(date -d '+4 days' +%F) Founders day" --exclude "$(date -d '+9 days' +%F) Stocktaking" >/dev/null
    add --cron '30 2 * * *' --tz Europe/Berlin --calendar ledger-days --name nightly-ledger --queue ledger --timeout 15m \
        --set 'payload={"book": "EU", "post": true}' "$sink/close-day"
    add --cron '30 2 * * SUNL' --tz Europe/Berlin --name clock-change-audit "$sink/audit"
    add --cron '*/15 8-20 * * *' --tz America/New_York --name invoice-batch-us --queue billing "$sink/invoices"
    add --cron '0 10 * * MON-FRI' --tz Asia/Tokyo --name stock-sync-tyo "$sink/stock"
    add --cron '*/2 * * * *' --tz Asia/Tokyo --name tick-rollup --queue rollups "$sink/rollup"
    for n in {1..24}; do
        add --cron "0 $((n % 6 == 0 ? 3 : n % 4 == 0 ? 8 : 6)) * * *" --tz Europe/Berlin --name "report-$n" --queue reports "$sink/report"
    done
}

# A slot that is taken, a paused queue, a paused task, a queue with limits.
demo_gates() {
    local id n
    add --name month-close-eu --concurrency-key ledger-eu --queue ledger --timeout 50m "$sink/delay/2400000/close"
    add --in 2s --name ledger-of-today --concurrency-key ledger-eu --queue ledger "$sink/close-day"
    b queue pause mail --reason 'provider maintenance' --for 2h >/dev/null
    for n in 1 2 3 4; do
        add --name "mailing-$n" --queue mail "$sink/mail"
    done
    id=$(b add --quiet --in 1h --name export-of-old-bucket "$sink/export")
    b pause "$id" >/dev/null
    b queue set billing --rate 20 --concurrent 8 >/dev/null
}

# Dead letters of three causes, and calls of a host that is down: its breaker opens.
demo_failures() {
    local n
    for n in {1..12}; do
        add --name "charge-order-$((991200 + n))" --queue payments --max-attempts 30 --retry-delay 300ms --retry-max-delay 20s \
            http://127.0.0.1:9/charge
    done
    for n in {1..6}; do
        add --name "invoice-$((48200 + n))" --queue billing --max-attempts 1 -d "{\"order\": $((7000 + n))}" "$sink/status/422/invoices"
    done
    for n in 1 2 3; do
        add --name "export-$n" --queue reports --max-attempts 1 --timeout 100ms "$sink/delay/3000/export"
    done
    for n in 1 2; do
        add --name "hook-$n" --max-attempts 1 "$sink/status/410/hook"
    done
}

# One run with a map at work, one that waits for two people, one that has failed.
demo_workflows() {
    b workflow apply --name settlement - >/dev/null <<END
steps:
  - {name: fetch-trades, target_type: HTTP_CALLBACK, target_config: {url: "$sink/delay/300/trades"}}
  - {name: validate, depends_on: [fetch-trades], target_type: HTTP_CALLBACK, target_config: {url: "$sink/delay/500/validate"}}
  - {name: load-holidays, depends_on: [fetch-trades], target_type: NOOP}
  - name: price
    depends_on: [validate, load-holidays]
    map: {over: {\$ref: /input/items}, max_concurrent: 2}
    target_type: HTTP_CALLBACK
    target_config: {url: "$sink/delay/4000/price"}
  - {name: risk-report, depends_on: [price], target_type: NOOP}
  - {name: alert, depends_on: [{step: price, type: MUST_FAIL}], target_type: NOOP}
  - {name: sign-off, depends_on: [risk-report], await: {signal: sign-off, timeout: 20m, on_timeout: {signed: false}}}
  - {name: post-ledger, depends_on: [sign-off], target_type: NOOP}
END
    b workflow run settlement --quiet --input '{"items": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20,
        21, 22, 23, 24, 25, 26, 27, 28, 29, 30]}' >/dev/null
    add --every 5m --overlap allow --name settlement-again --workflow settlement --input '{"items": [1, 2, 3, 4, 5, 6, 7, 8]}'
    b workflow apply --name erase-customer - >/dev/null <<'END'
steps:
  - {name: legal-ok, await: {signal: legal-ok, approvals: 2, timeout: 8h}}
  - {name: erase, depends_on: [legal-ok], target_type: NOOP}
END
    b workflow run erase-customer --quiet --name erase-customer-8812 >/dev/null
    b workflow apply --name nightly-import - >/dev/null <<END
steps:
  - {name: download, target_type: NOOP}
  - {name: parse, depends_on: [download], target_type: HTTP_CALLBACK, retry: {max_attempts: 1}, target_config: {url: "$sink/status/404/parse"}}
  - {name: load, depends_on: [parse], target_type: NOOP}
END
    b workflow run nightly-import --quiet >/dev/null
}

# Two more tenants, with keys, limits and tasks of their own.
demo_tenants() {
    local tenant key
    for tenant in acme globex; do
        b tenant create "$tenant" --max-pending 10000 --max-running 20 >/dev/null
        key=$(b key create "$tenant-deploy" --scopes tasks:read,tasks:write --tenant "$tenant" 2>"$data/key.log")
        BELFRY_KEY=$key add --every 10s --name sync-catalogue "$sink/$tenant/sync"
        BELFRY_KEY=$key add --cron '0 7 * * MON-FRI' --tz America/New_York --name morning-digest "$sink/$tenant/digest"
    done
}

b notify add ops --on failure,dead_letter,recovered --wait 1s --webhook "$sink/told" >/dev/null
demo_parts=()
for part in traffic failures gates workflows schedules tenants; do
    "demo_$part" &
    demo_parts+=($!)
done
for part in "${demo_parts[@]}"; do
    wait "$part"
done
