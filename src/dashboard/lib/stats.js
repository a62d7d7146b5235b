// What happened lately, as series: from /v1/stats if the server has it, else from the latest attempts.
import { parse } from './time.js';

const BUCKETS = 60, HOUR_MS = 3600000, LEAST_MS = 300000;

/**
 * Counts are a bucket's; rates come from dividing by its length.
 * @typedef {{times: number[], bucketMs: number, created: number[] | null, started: number[], completed: number[], failed: number[], retried: number[],
 *     dead: number[] | null, p50: (number | null)[], p99: (number | null)[], exact: boolean}} History
 */

/** @param {number[]} sorted @param {number} p */
export const percentile = (sorted, p) => sorted.length ? sorted[Math.min(sorted.length - 1, Math.ceil(p * sorted.length) - 1)] : null;

/**
 * The latest attempts in 60 buckets over the last hour, or over the time that they cover.
 * @param {any[]} executions newest first @param {boolean} cut whether there were more @param {number} now @returns {History}
 */
export function historyOfExecutions(executions, cut, now) {
    const ended = executions.filter(e => e.completed_at);
    const oldest = ended.length ? parse(ended[ended.length - 1].completed_at) : now - HOUR_MS;
    const from = Math.max(Math.min(oldest, cut ? now : now - LEAST_MS), now - HOUR_MS), bucketMs = Math.max(1, (now - from) / BUCKETS);
    const zeros = () => Array.from({ length: BUCKETS }, () => 0);
    /** @type {number[][]} */
    const delays = Array.from({ length: BUCKETS }, () => []);
    const history = { times: Array.from({ length: BUCKETS }, (_, i) => from + i * bucketMs), bucketMs, created: null, started: zeros(),
        completed: zeros(), failed: zeros(),
        retried: zeros(), dead: null, p50: /** @type {(number | null)[]} */ ([]), p99: /** @type {(number | null)[]} */ ([]),
            exact: false };
    for (const e of ended) {
        const i = Math.min(BUCKETS - 1, Math.floor((parse(e.completed_at) - from) / bucketMs));
        if (i < 0) continue;
        history.started[i]++;
        if (e.status === 'COMPLETED') history.completed[i]++;
        else history.failed[i]++;
        if (e.attempt_number > 1) history.retried[i]++;
        else if (e.delay_ms !== null && !HELD.has(e.delay_cause)) delays[i].push(e.delay_ms);
    }
    for (const list of delays) {
        list.sort((a, b) => a - b);
        history.p50.push(percentile(list, .5));
        history.p99.push(percentile(list, .99));
    }
    return history;
}

// A delay that a gate made says nothing about the scheduler.
const HELD = new Set(['PAUSED', 'CREATED', 'SPREAD', 'SLOT', 'KEY', 'LIMIT', 'BREAKER', 'RETRY_AFTER', 'HOST']);

// From the figures of minutes. None, if fewer minutes than `least` are over since the first that counted something.
/** @param {any} stats the answer of /v1/stats @param {number} [least] @returns {History | null} */
export function historyOfStats(stats, least = 3) {
    const all = stats?.points, first = Array.isArray(all) ? all.findIndex(p => p.executed || p.created) : -1;
    if (first < 0 || all.length < 2 || all.length - first < least) return null;
    /** @type {any[]} */
    const points = all.slice(Math.max(0, Math.min(first, all.length - 6))); // a young system has no hour to show
    /** @param {(p: any) => number} value */
    const series = value => points.map(value);
    /** @param {'p50' | 'p99'} name */
    const delays = name => points.map(p => p.delay_seconds.count ? p.delay_seconds[name] * 1000 : null);
    return { times: points.map(p => parse(p.at)), bucketMs: stats.step_seconds * 1000, created: series(p => p.created),
        started: series(p => p.executed), completed: series(p => p.completed),
        failed: series(p => p.failed + p.retried), retried: series(p => p.retried), dead: series(p => p.failed), p50: delays('p50'),
            p99: delays('p99'), exact: true };
}

// Attempts that failed, by what they said, the most frequent first.
/** @param {any[]} executions */
export function causesOf(executions) {
    /** @type {Map<string, {error: string, said: string | null, queue: string, count: number, last: string, task: string}>} */
    const causes = new Map();
    for (const e of executions) {
        if (e.status !== 'FAILED' && e.status !== 'LOST') continue;
        const error = e.error_message ?? (e.status === 'LOST' ? 'lost: its worker went away' : 'failed'), key = error + '\u0000' + e.queue;
        const found = causes.get(key);
        if (found) found.count++;
        else causes.set(key, { error, said: e.error_message ?? null, queue: e.queue ?? '', count: 1, last: e.completed_at, task: e.task_id });
    }
    return [...causes.values()].sort((a, b) => b.count - a.count);
}
