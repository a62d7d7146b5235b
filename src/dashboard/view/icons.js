// Icons of 16 × 16, as paths. Each state has a silhouette of its own, so that it is told apart without colour.
import { h } from '../lib/dom.js';

const RING = 'M8 2.75a5.25 5.25 0 1 1 0 10.5 5.25 5.25 0 0 1 0-10.5z';
/** @type {Record<string, [string, string?][]>} */
const PATHS = {
    scheduled: [[RING], ['M8 5v3l2 1.5']],
    blocked: [['M4.5 2.5h7M4.5 13.5h7M5.5 2.5v2L8 8l2.5-3.5v-2M5.5 13.5v-2L8 8l2.5 3.5v2']],
    paused: [['M5.5 3.5v9M10.5 3.5v9', 'bold']],
    running: [['M4.5 2.8v10.4L13 8z', 'solid']],
    completed: [['M2.8 8.6l3.3 3.3L13.2 4.6', 'bold']],
    failed: [['M4 4l8 8M12 4l-8 8', 'bold']],
    cancelled: [[RING], ['M4.4 11.6l7.2-7.2']],
    skipped: [['M3.5 4l5 4-5 4zM12 4v8']],
    expired: [['M8 2.75A5.25 5.25 0 1 0 13.25 8'], ['M8 5v3h2.5']],
    breaker: [['M1 11.5h3.5M11.5 11.5H15M4.5 11.5L11 5', 'bold']],
    approval: [['M8 8.2a2.6 2.6 0 1 0 0-5.2 2.6 2.6 0 0 0 0 5.2zM3 13.5c.6-2.4 2.5-3.6 5-3.6s4.4 1.2 5 3.6']],
    late: [['M8 2.5l6 10.5H2zM8 6.5v3M8 11.2v.1']],
    search: [['M7 2.8a4.2 4.2 0 1 1 0 8.4 4.2 4.2 0 0 1 0-8.4zM10.2 10.2l3.3 3.3']],
    copy: [['M5.5 5.5h7v7h-7zM10.5 5.5v-2h-7v7h2']],
    menu: [['M2.5 4.5h11M2.5 8h11M2.5 11.5h11']],
    close: [['M4 4l8 8M12 4l-8 8']],
    plus: [['M8 3v10M3 8h10']],
    down: [['M4 6l4 4 4-4']],
    right: [['M6 4l4 4-4 4']],
    left: [['M10 4L6 8l4 4']],
    theme: [[RING], ['M8 2.75a5.25 5.25 0 0 1 0 10.5z', 'solid']],
    dot: [['M8 5a3 3 0 1 1 0 6 3 3 0 0 1 0-6z', 'solid']],
    map: [['M2.5 5.5h8v8h-8zM5 3h8v8']],
    bell: [['M8 2v1.5M4 11.5c1-1 .9-2.5 .9-4a3.1 3.1 0 0 1 6.2 0c0 1.5-.1 3 .9 4zM7 13.5h2']],
};

/** @param {string} name @param {Record<string, any>} [props] */
export const icon = (name, props = {}) => h('svg.icon', { viewBox: '0 0 16 16', 'aria-hidden': 'true', ...props },
    (PATHS[name] ?? PATHS.dot).map(([d, kind]) => h('path', { d, class: kind ?? null })));

export const brand = () => h('svg', { viewBox: '0 0 18 18', 'aria-hidden': 'true' },
    h('path', { d: 'M3 16V8l6-5 6 5v8M1.5 16h15M9 3V1M6.5 13c1-1 .8-2 .8-3a1.7 1.7 0 0 1 3.4 0c0 1-.2 2 .8 3zM9 13v1' }));

// status → [icon, word, tone]. A tone of fail or hold says that somebody may have to act.
/** @type {Record<string, [string, string, string]>} */
const STATES = {
    SCHEDULED: ['scheduled', 'Scheduled', 'idle'],
    BLOCKED: ['blocked', 'Blocked', 'hold'],
    PAUSED: ['paused', 'Paused', 'idle'],
    RUNNING: ['running', 'Running', 'running'],
    COMPLETED: ['completed', 'Completed', 'ok'],
    FAILED: ['failed', 'Failed', 'fail'],
    LOST: ['failed', 'Lost', 'fail'],
    CANCELLED: ['cancelled', 'Cancelled', 'idle'],
    SKIPPED: ['skipped', 'Skipped', 'idle'],
    EXPIRED: ['expired', 'Expired', 'hold'],
    OPEN: ['breaker', 'Breaker open', 'fail'],
    HALF_OPEN: ['breaker', 'Breaker tries', 'hold'],
    CLOSED: ['completed', 'Breaker closed', 'ok'],
    APPROVAL: ['approval', 'Approval', 'hold'],
    LATE: ['late', 'Late', 'hold'],
    WAITING: ['blocked', 'Waiting', 'idle'],
    DONE: ['completed', 'Done', 'ok'],
    STOPPED: ['failed', 'Stopped', 'fail'],
    open: ['completed', 'Open', 'ok'],
    paused: ['paused', 'Paused', 'hold'],
    throttled: ['blocked', 'Throttled', 'hold'],
};

/** @param {string} status */
export const stateOf = status => STATES[status] ?? ['dot', status, 'idle'];

/**
 * A state as icon, word and colour. calm: it waits, and that is normal.
 * @param {string} status @param {{word?: any, calm?: boolean, class?: string}} [how]
 */
export function badge(status, how = {}) {
    const [name, word, tone] = stateOf(status);
    return h('span.state', { 'data-tone': how.calm && tone === 'hold' ? 'idle' : tone, class: how.class ?? null }, icon(name),
        h('span', how.word ?? word));
}
