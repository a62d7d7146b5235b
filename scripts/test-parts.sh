# The parts of ./test, which sources this file and gives $root and $parts. A part is a function part_NAME; what it finds goes
# line by line (passed, failed or skipped; a tab; a name) into $results/NAME, and the summary counts those lines.
# shellcheck shell=bash

cd "$root" || exit 1
# Each of the processes that run end-to-end tests imports all of them: to compile them takes longer than many a test.
export LC_ALL=C.UTF-8 PYTHONPYCACHEPREFIX=$root/build-pycache
unset PYTHONDONTWRITEBYTECODE
# AddressSanitizer, besides looking for leaks:
#  - A report shows 10 frames of where memory was allocated or freed, not 30: each allocation walks the stack for them.
#  - A process keeps the last 4 MB of freed memory back from use, not 256: in ./test long a hundred servers run at once, and memory
#    that is used again is there already.
#  - New memory is filled for 256 bytes, not 4,096: filling it touched a third of all pages of a server that starts.
#  - Undefined behaviour traps (build_tests), which is reported as an illegal instruction.
export ASAN_OPTIONS=detect_leaks=1:strict_string_checks=1:abort_on_error=0:malloc_context_size=10:quarantine_size_mb=4:max_malloc_fill_size=256:handle_sigill=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 # of the fuzzers
python=/usr/bin/python3 # not the first in PATH: Debian's has Debian's pytest
pytest=("$python" -m pytest -q -p no:cacheprovider)

# What tests write need not reach a disk: a crash of a process is the worst that they bring about.
scratch=/tmp
if [[ -w /dev/shm ]] && (($(df --output=avail -k /dev/shm | tail -1) > 4 << 20)); then
    scratch=$(mktemp -d /dev/shm/belfry-test-XXXXXX) && chmod 755 "$scratch" # PostgreSQL is another user
fi
clean_up() {
    local group
    for group in "${aside_of[@]}"; do kill -- "-$group" 2>/dev/null; done
    [[ $scratch == /tmp ]] || rm -rf "$scratch"
}
trap clean_up EXIT
trap 'exit 130' INT TERM # meson and pytest handle an interrupt: without this, the next part begins

at_once=$((2 * $(nproc))) # most tests wait rather than compute
patience=$([[ ${BELFRY_TEST_LONG:-} ]] && echo 4 || echo 2) # times the time that meson.build allows; ./test long has longer tests

coverage_lines_min=95
coverage_branches_min=90

results=$root/build-results
rm -rf "$results"
mkdir -p "$results"
log=$results/log

# ----------------------------------------------------------------------------------------------------------------------
# Helpers

now_us() { echo "${EPOCHREALTIME/./}"; }

# 12.3, of a start time
seconds_since() {
    local tenths=$((($(now_us) - $1) / 100000))
    echo "$((tenths / 10)).$((tenths % 10))"
}

record() { printf '%s\t%s\n' "$1" "$2" >>"$results/$part"; }

# check NAME COMMAND… - one check: a line when it passes, all its words when it fails.
check() {
    local name=$1 start
    shift
    start=$(now_us)
    if "$@" >"$log" 2>&1 </dev/null; then
        record passed "$name"
        echo "  ok      $name ($(seconds_since "$start") s)"
    else
        record failed "$name"
        cat "$log"
        echo "  FAILED  $name ($(seconds_since "$start") s)"
        return 1
    fi
}

# configure FOLDER COMPILER MESON-OPTIONS… - anew only when there is no build yet or the options have changed.
configure() {
    local folder=$1 compiler=$2 wanted="${*:2}"
    [[ -f $folder/build.ninja && -f $folder/.setup && $(<"$folder/.setup") == "$wanted" ]] && return
    rm -rf "${root:?}/$folder"
    CC=$compiler meson setup "${@:3}" "$folder" && echo "$wanted" >"$folder/.setup"
}

# Built for speed of the whole run:
#  - -g1: stack traces need line numbers only. -O1 compiles in half the time of -O2. gold links in half the time of ld.
#  - The tests' own code is not optimized, which halves its compile time. ./test long optimizes it, for the warnings of the optimizer.
#  - no-pie: a program at a fixed address need not relocate the tables of the sanitizers, so it starts a quarter sooner.
#  - Undefined behaviour traps. The report then says ILL, with the stack, and not what was undefined. The messages alone were half of the binary
#    and a third of its start. To read one, build without -fsanitize-undefined-trap-on-error.
build_tests() {
    configure build-test gcc -Dwerror=true -Dtests=enabled -Db_sanitize=address,undefined -Doptimization=1 -Db_pie=false -Db_staticpic=false \
        -Dtests_optimization="$([[ ${BELFRY_TEST_LONG:-} ]] && echo 1 || echo 0)" -Dc_args='-g1 -fno-pie -fsanitize-undefined-trap-on-error' -Dc_link_args='-fuse-ld=gold -no-pie' &&
        ninja -C build-test
}
# The second compiler is asked for its warnings alone, which clang-tidy tells as well: it builds, and sees the tests too, when there is time.
build_clang() {
    local -a wanted=()
    configure build-clang clang -Dwerror=true -Doptimization=0 -Dtests="$([[ ${BELFRY_TEST_LONG:-} ]] && echo enabled || echo disabled)" || return
    [[ ${BELFRY_TEST_LONG:-} ]] || mapfile -t wanted < <(ninja -C build-clang -t targets rule CUSTOM_COMMAND | grep '^src/')
    ninja -C build-clang "${wanted[@]}"
}
# A binary that needs nobody's server says so when it is asked for one.
build_alone() {
    configure build-alone gcc -Dwerror=true -Dtests=disabled -Dpostgres=disabled -Dkafka=disabled -Drabbitmq=disabled -Dredis=disabled -Dyaml=disabled &&
        ninja -C build-alone belfry &&
        build-alone/belfry worker --queue redis://localhost --events kafka://localhost 2>&1 | grep "needs Redis, which this belfry was built without"
}
# With the simulator, most seeds of which run without sanitizers.
build_release() {
    configure build-release gcc -Dwerror=true -Dtests=enabled --buildtype=release -Dtests_optimization=1 && ninja -C build-release belfry tests/sim/sim
}
build_coverage() { configure build-coverage gcc -Dtests=enabled --buildtype=debug -Db_coverage=true -Dc_args=-fprofile-update=atomic && ninja -C build-coverage; }
build_fuzzers() {
    configure build-fuzz clang -Dfuzzers=true -Dtests=disabled -Db_sanitize=address,undefined -Db_lundef=false &&
        ninja -C build-fuzz
}

# needs NAME COMMAND - builds what a part stands on; only a failure counts.
needs() {
    "$2" >"$log" 2>&1 </dev/null && return
    record failed "$1"
    cat "$log"
    echo "  FAILED  $1"
    return 1
}

has_suite() { grep -qE "\"[a-z]+:$1\"" "$2/meson-info/intro-tests.json"; }

none_yet() { echo "  none yet: $1"; }

beside=() # programs that start a server for all tests of a suite

# Work that only computes (compilers, simulator) runs beside the parts that mostly wait for servers and clocks, at the lowest priority.
# begin_aside NAME COMMAND… - its output goes to $results/aside-NAME, its records to the part that began it.
declare -A aside_of=()

begin_aside() {
    local name=$1
    shift
    set -m # a process group of its own, which clean_up ends
    (
        set +m
        renice -n 19 -p "$BASHPID" >/dev/null
        log=$results/log-$name
        "$@"
    ) >"$results/aside-$name" 2>&1 </dev/null &
    aside_of[$name]=$!
    set +m
}

# end_aside NAME - waits for it. If it failed without a record, records the failure.
end_aside() {
    local status=0
    wait "${aside_of[$1]}" || status=$?
    unset "aside_of[$1]"
    [[ $status -eq 0 ]] || grep -q ^failed "$results/$part" || record failed "$1, status $status"
}

# run_suite FOLDER SUITE [NAME…] - meson's tests of a suite, each test inside a program counted.
run_suite() {
    local folder=$1 suite=$2 found=$results/found
    shift 2
    rm -f "$folder"/meson-logs/testlog*
    TMPDIR=$scratch "${beside[@]}" meson test -C "$folder" --no-rebuild --print-errorlogs --timeout-multiplier "$patience" --num-processes "$at_once" --suite "$suite" "$@" 2>&1 |
        grep -vE "^(ninja: .*|(Ok|Expected Fail|Fail|Unexpected Pass|Skipped|Timeout): .*|Full log written to .*|)$"
    local status=${PIPESTATUS[0]}
    if [[ ! -f $folder/meson-logs/testlog.junit.xml ]]; then
        [[ $status -eq 0 ]] || record failed "$suite: meson test, status $status, left no results"
        return 1
    fi
    scripts/test-results meson "$folder/meson-logs" >"$found" || record failed "$suite: meson's results are unreadable"
    cat "$found" >>"$results/$part"
    if [[ $status -ne 0 ]] && ! grep -q ^failed "$found"; then
        record failed "$suite: meson test, status $status"
    fi
    [[ $status -eq 0 ]]
}

# run_pytest ARGUMENTS… - its words as they come, its tests counted. Status 5 is "no test matched": nothing ran.
run_pytest() {
    local status=0
    rm -f "$results/junit.xml"
    "${pytest[@]}" --junitxml="$results/junit.xml" "$@" || status=$?
    scripts/test-results junit "$results/junit.xml" >"$results/found" || record failed "pytest left no results"
    cat "$results/found" >>"$results/$part"
    if [[ $status -ne 0 && $status -ne 5 ]] && ! grep -q ^failed "$results/found"; then
        record failed "pytest, status $status"
    fi
    [[ $status -eq 0 ]]
}

# ----------------------------------------------------------------------------------------------------------------------
# tidy

layout() { find src tests -name '*.[ch]' -print0 | xargs -0 -n 50 -P "$(nproc)" clang-format --dry-run --Werror; }

# clang-tidy over the product (the tests run under sanitizers instead), but only over what has changed since it was last
# found clean: a stamp bears the hash of the file and of everything else that has a say. Its analyzer takes most of the
# time, and its turn is ./test long.
clang_tidy() {
    local stamps=build-clang/tidy-stamps common hash file stamp checks=-clang-analyzer-*
    [[ ${BELFRY_TEST_LONG:-} ]] && checks=
    local -a sources=() todo=()
    mkdir -p "$stamps"
    mapfile -t sources < <(grep -o '"file": "[^"]*"' build-clang/compile_commands.json | cut -d'"' -f4 | grep '^\.\./src/' | cut -c4- | sort -u)
    common=$({ echo "$checks" && clang-tidy --version && cat .clang-tidy meson.build && find src -name '*.h' -print0 | sort -z | xargs -0 cat; } |
        sha256sum | cut -c1-16)
    while read -r hash file; do
        stamp=$stamps/${file//\//_}.${hash:0:16}.$common
        [[ -f $stamp ]] || todo+=("$file" "$stamp")
    done < <(sha256sum "${sources[@]}")
    [[ ${#todo[@]} -eq 0 ]] && return
    export checks
    printf '%s\0' "${todo[@]}" | xargs -0 -P "$(nproc)" -n 60 bash -c 'clang_tidy_of "$@"' bash
}

# clang_tidy_of FILE STAMP… - one process for many files, because clang-tidy takes as long to start as to judge a file.
clang_tidy_of() {
    local -a files=() stamps=()
    while [[ $# -gt 0 ]]; do
        files+=("$1") stamps+=("$2")
        shift 2
    done
    clang-tidy --quiet --checks="$checks" -p build-clang "${files[@]}" 2>&1 && touch "${stamps[@]}"
}
export -f clang_tidy_of

# What the flags promise is looked up in what they made. The static libraries are asked for the calls that the compiler
# puts in, so that this holds however little the binary itself links.
hardening() {
    local binary=build-release/belfry status=0 headers dynamic symbols
    headers=$(readelf -hlW "$binary") && dynamic=$(readelf -dW "$binary") || return
    symbols=$(find build-release/src -name '*.o' -print0 | xargs -0 readelf -sW) || return
    promise() { grep -qE "$2" <<<"$3" || { echo "$binary: $1 is missing; see 'hardening' in meson.build" && status=1; }; }
    promise "PIE" "Type: +DYN" "$headers"
    promise "PIE" "FLAGS_1.*PIE" "$dynamic"
    promise "RELRO" "GNU_RELRO" "$headers"
    promise "BIND_NOW" "BIND_NOW|FLAGS.*NOW" "$dynamic"
    promise "a stack that is not executable" "GNU_STACK.* RW +0x" "$headers"
    promise "the stack protector" "__stack_chk_fail" "$symbols"
    promise "FORTIFY" "__v?snprintf_chk|__memcpy_chk" "$symbols"
    if [[ $(uname -m) == x86_64 ]]; then
        promise "control-flow protection" "IBT" "$(find build-release/src -name '*.o' -print0 | xargs -0 readelf -nW)"
    fi
    return "$status"
}

part_tidy() {
    begin_aside release release_checks # most of these checks need one core
    check "rules of the tree (tools/tidy)" tools/tidy
    echo "  tests of the tools:"
    run_pytest tools
    check "layout (clang-format)" layout
    end_aside release
    cat "$results/aside-release"
    if [[ ${#parts[@]} -eq 1 ]]; then compilers; else begin_aside compilers compilers; fi
}

release_checks() { check "release build, warnings are errors" build_release && check "hardening of the release build" hardening; }

compilers() {
    check "build with clang" build_clang && check "warnings of clang, and bugs (clang-tidy)" clang_tidy
    [[ ! ${BELFRY_TEST_LONG:-} ]] || check "build without any server's library" build_alone
}

# The checks that part_tidy started beside the other parts.
rest_of_tidy() {
    local part=tidy start
    [[ ${aside_of[compilers]:-} ]] || return 0
    start=$(now_us)
    echo "== tidy: the compilers"
    end_aside compilers
    cat "$results/aside-compilers"
    seconds_of[tidy]+=+$(seconds_since "$start")
}

# ----------------------------------------------------------------------------------------------------------------------
# unit, conformance, end to end

part_unit() {
    needs "build with sanitizers" build_tests || return
    run_suite build-test unit "$@"
}

part_conformance() {
    needs "build with sanitizers" build_tests || return
    has_suite conformance build-test || { none_yet "no port has a suite in tests/conformance" && return; }
    local -a beside=()
    local at_once=$((at_once + 2))
    if [[ $# -eq 0 ]]; then
        [[ " ${parts[*]} " != *" sim "* ]] || begin_sim # these mostly wait for servers
        beside=(tests/support/with-postgres tests/support/with-rabbitmq tests/support/with-kafka)
        export BELFRY_TEST_KAFKA_STAND_IN=$root/build-test/tests/support/kafka_mock
    fi
    run_suite build-test conformance "$@"
}

# sim_range BUILD SEEDS - what the simulator says of a range of seeds, and whether it ended well.
sim_range() {
    local sim=$1/tests/sim/sim
    "$sim" --tap "$2" && echo "ok - $sim --tap $2" || echo "not ok - $sim --tap $2"
}

count_tap() {
    local line
    while read -r line; do
        case $line in
        "ok "*) record passed "sim: ${line#* - }" ;;
        "not ok "*) record failed "sim: ${line#* - }" && echo "  FAILED  ${line#* - }" ;;
        1..*) ;;
        *) echo "  $line" ;;
        esac
    done
}

# Two ranges of seeds at once; planted bugs go with the first. A seed takes four times as long with sanitizers, which all have in ./test long only.
begin_sim() {
    if [[ -n ${BELFRY_TEST_LONG:-} ]]; then
        begin_aside sim-first sim_range build-test 1-9000
        begin_aside sim-rest sim_range build-test 9001-20000
    else
        needs "release build" build_release || return
        begin_aside sim-first sim_range build-release 1-1100
        begin_aside sim-rest sim_range build-test 1101-1500
    fi
}

# Seeds are numbers, so that a run can be told again: ./test sim 731 -v.
part_sim() {
    local sim=build-test/tests/sim/sim
    needs "build with sanitizers" build_tests || return
    if [[ $# -gt 0 ]]; then
        "$sim" "$@" && record passed "sim: $*" || record failed "sim: $*"
        return
    fi
    [[ ${aside_of[sim-first]:-} ]] || begin_sim || return
    end_aside sim-first
    end_aside sim-rest
    count_tap < <(cat "$results/aside-sim-first" "$results/aside-sim-rest")
    ! grep -q ^failed "$results/$part"
}

# The tests find the binaries in $BELFRY_BUILD. Of several nodes or workers only the first has sanitizers; the others are the release
# build, unless BELFRY_TEST_LONG is set.
part_e2e() {
    local argument passed resume=${resume:-}
    local -a where=(tests/e2e) words=()
    needs "build with sanitizers" build_tests || return
    [[ -n $(find tests/e2e -name 'test_*.py' -print -quit 2>/dev/null) ]] || { none_yet "no test_*.py in tests/e2e" && return; }
    for argument in "$@"; do
        [[ $argument == --resume ]] && resume=true && continue
        [[ -e ${argument%%::*} ]] && where=()
        words+=("$argument")
    done
    # pytest compiles the tests when it imports them. Each of its processes would do so in a fresh clone.
    "${pytest[@]}" --collect-only -q tests/e2e >/dev/null 2>&1 &
    scripts/install-python-tools || true # the test that needs them says that it was skipped
    wait $!
    local -x TMPDIR=$scratch BELFRY_BUILD=$root/build-test
    if [[ ! ${BELFRY_TEST_LONG:-} ]]; then
        needs "release build" build_release || return
        local -x BELFRY_TEST_RELEASE=$root/build-release
    fi
    passed=$(file_of_passed) && words=("--passed=$passed" "${words[@]}")
    [[ ! ${resume:-} ]] || leave_out_passed
    if [[ ${BELFRY_TEST_LONG:-} ]]; then
        # Clusters under faults have deadlines, and six of them at once leave no core to meet these. Each process that runs tests has
        # a server of every topology for tests that share one: fewer processes than in ./test.
        run_pytest --phase=light -n "$at_once" "${where[@]}" "${words[@]}"
        run_pytest --phase=heavy -n "$(nproc)" "${where[@]}" "${words[@]}"
    else
        run_pytest -n $((2 * at_once)) "${where[@]}" "${words[@]}"
    fi
}

# Where end-to-end tests that passed are written down: a file for each tree, binary and kind of run.
file_of_passed() {
    local tree
    tree=$({ find . \( -path './build*' -o -path ./.git -o -path ./data -o -name __pycache__ \) -prune -o -type f -print0 | sort -z | xargs -0 cat &&
        cat build-test/belfry; } | sha256sum | cut -c1-16)
    mkdir -p build-passed
    find build-passed -type f ! -name "$tree*" -delete
    touch "build-passed/$tree${BELFRY_TEST_LONG:+-long}"
    echo "$root/build-passed/$tree${BELFRY_TEST_LONG:+-long}"
}

# What has passed before counts in the summary, unless only some tests were asked for.
leave_out_passed() {
    local before=$results/passed-before
    awk -F'\t' '{ last[$2] = $1 } END { for (test in last) if (last[test] == "passed") print "passed\t" test }' "$passed" >"$before"
    [[ ${#words[@]} -gt 1 ]] || cat "$before" >>"$results/$part"
    echo "  $(wc -l <"$before") tests have passed before in this tree: they are left out"
    words+=("--leave-out=$before")
}

# ----------------------------------------------------------------------------------------------------------------------
# fuzz, coverage

# What a run finds worth keeping goes to build-fuzz/corpus, what breaks a target to build-fuzz/findings.
fuzz_one() {
    local name=$1 seconds=$2 seeds=tests/fuzz/corpus/$1 dictionary=tests/fuzz/$1.dict
    mkdir -p "build-fuzz/corpus/$name" "build-fuzz/findings/$name"
    local -a arguments=(-max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -verbosity=1 -print_final_stats=1
        -artifact_prefix="build-fuzz/findings/$name/")
    [[ -f $dictionary ]] && arguments+=(-dict="$dictionary")
    arguments+=("build-fuzz/corpus/$name")
    [[ -d $seeds ]] && arguments+=("$seeds")
    "build-fuzz/tests/fuzz/fuzz_$name" "${arguments[@]}"
}

part_fuzz() {
    local target name seconds=${1:-${fuzz_seconds:-10}} any=false
    if ! [[ $seconds =~ ^[1-9][0-9]*$ ]]; then
        record failed "'$seconds' is no number of seconds"
        return 1
    fi
    needs "build of the fuzzers" build_fuzzers || return
    for target in build-fuzz/tests/fuzz/fuzz_*; do
        [[ -f $target && -x $target ]] || continue
        any=true name=${target##*/fuzz_}
        check "fuzz $name" fuzz_one "$name" "$seconds" && grep -E "number_of_executed_units|average_exec" "$log" | sed 's/^stat::/         /'
    done
    $any || none_yet "no target in tests/fuzz"
}

# Lines with an assert have a branch that a sound program never takes, so their branches are left out.
part_coverage() {
    local report=$results/coverage.json lines branches suite
    needs "build for coverage" build_coverage || return
    find build-coverage -name '*.gcda' -delete
    for suite in unit conformance; do
        has_suite "$suite" build-coverage || continue
        if ! meson test -C build-coverage --no-rebuild --suite "$suite" >"$log" 2>&1; then
            cat "$log"
            record failed "tests for coverage"
            return 1
        fi
    done
    if ! gcovr -r . -f src/base/ -f src/core/ --exclude-branches-by-pattern '.*\bassert\(.*' \
        --json-summary "$report" --txt "$results/coverage.txt" build-coverage >"$log" 2>&1; then
        cat "$log"
        record failed "gcovr"
        return 1
    fi
    read -r lines branches < <("$python" -c 'import json, sys
r = json.load(open(sys.argv[1]))
print(*(100 * r[k + "_covered"] // max(r[k + "_total"], 1) for k in ("line", "branch")))' "$report")
    echo "  base and core: $lines % of lines ($coverage_lines_min wanted), $branches % of branches ($coverage_branches_min wanted)"
    check "coverage of lines" test "$lines" -ge "$coverage_lines_min"
    check "coverage of branches" test "$branches" -ge "$coverage_branches_min"
    if grep -q ^failed "$results/$part"; then cat "$results/coverage.txt"; fi
}

# ----------------------------------------------------------------------------------------------------------------------
# Running and summing up

declare -A seconds_of

run_part() {
    part=$1
    local start
    shift
    start=$(now_us)
    : >"$results/$part"
    echo "== $part"
    "part_$part" "$@"
    seconds_of[$part]=$(seconds_since "$start")
}

count() { cat "${@:2}" | grep -c "^$1"; }

summary() {
    local name passed failed skipped
    local -a files=("${parts[@]/#/$results/}")
    echo
    printf '%-12s %7s %7s %7s %8s\n' part passed failed skipped seconds
    for name in "${parts[@]}"; do
        printf '%-12s %7s %7s %7s %8s\n' "$name" "$(count passed "$results/$name")" "$(count failed "$results/$name")" \
            "$(count skipped "$results/$name")" "${seconds_of[$name]}"
    done
    echo
    grep -h ^skipped "${files[@]}"
    grep -h ^failed "${files[@]}"
    passed=$(count passed "${files[@]}") failed=$(count failed "${files[@]}") skipped=$(count skipped "${files[@]}")
    [[ $((passed + failed)) -gt 0 ]] || echo "nothing ran"
    echo "$passed passed, $failed failed, $skipped skipped"
    [[ $failed -eq 0 && $passed -gt 0 ]]
}
