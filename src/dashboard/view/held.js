// What holds tasks, for lists: queues that are paused and breakers that are open, read once for all rows.
import { h } from '../lib/dom.js';
import { fieldProblem, isOperator, maybe, request } from '../lib/api.js';
import { link } from '../lib/router.js';
import { count, duration, parse } from '../lib/time.js';
import { instant, userText } from './parts.js';

/** @typedef {import('../lib/app.js').Context} Context */
/** @typedef {{at: number, paused: Map<string, any>, breakers: any[] | null}} Gates */

const EVERY_MS = 10000, SEEN = 500, BREAKER = /circuit breaker of (\S+)/;

/** @param {Context} ctx @param {Gates | null | undefined} before @returns {Promise<Gates>} */
export async function readGates(ctx, before) {
    if (before && Date.now() - before.at < EVERY_MS) return before;
    if (!ctx.can('queues:read')) return { at: Date.now(), paused: new Map(), breakers: null };
    const [queues, breakers] = await Promise.all([maybe('/v1/queues', { limit: SEEN }), maybe('/v1/breakers', { limit: 200 })]);
    return { at: Date.now(), paused: new Map((queues?.queues ?? []).filter((/** @type {any} */ q) => q.state === 'paused')
        .map((/** @type {any} */ q) => [q.name, q])), breakers: breakers?.breakers ?? null };
}

// Where a breaker is closed by hand: who may not see the nodes finds them below the queues.
/** @param {string} [host] */
export const breakerLink = host => link([isOperator() ? 'nodes' : 'queues'], { breaker: host });

// The host whose breaker holds a task, if it still does.
/** @param {any} task @param {Gates} gates @returns {string | null} */
export function breakerOf(task, gates) {
    if (task.status !== 'SCHEDULED' || !task.last_error?.startsWith('held: ')) return null;
    const host = BREAKER.exec(task.last_error)?.[1] ?? null;
    return host && (gates.breakers === null || gates.breakers.some(b => b.host === host)) ? host : null;
}

/** @param {{reason?: string | null, until?: string | null}} given @param {Context} ctx */
export const reasonInWords = ({ reason, until }, ctx) => [reason ? [': “', userText(reason), '”'] : '', until ? [', until ', instant(until, ctx)] : ''];

/** @param {any} paused who, why, until when @param {Context} ctx */
export const pauseInWords = (paused, ctx) => [paused.by ? ['by ', userText(paused.by)] : 'paused', reasonInWords(paused, ctx)];

// A pause has a reason and an end. What is paused already is changed.
/** @param {any} [paused] @returns {import('./dialog.js').Field[]} */
export const pauseFields = paused => [{ name: 'reason', label: 'Reason', value: paused?.reason ?? '', hint: 'others see it, and the audit log keeps it' },
    { name: 'until', label: 'Until', value: paused?.until ?? '', placeholder: '2h',
        hint: 'a time, or how long, such as 2h; empty: until somebody resumes it' }];

/** @param {Record<string, any>} v */
export function checkPause({ until }) {
    if (until && !(duration(until) > 0) && Number.isNaN(parse(until))) throw fieldProblem('until', `${until} is neither a time nor a duration`);
}

/**
 * @typedef {import('../lib/command.js').Action} Action
 * @param {Context} ctx @param {string} name @param {any} paused its present pause @param {string} says what the pause means
 * @param {(v: Record<string, any>) => Action} make @param {Action} back
 */
export function askPause(ctx, name, paused, says, make, back) {
    ctx.ask({ title: paused ? `The pause of ${name}` : `Pause ${name}?`, confirm: paused ? 'Change' : 'Pause', keep: paused ? 'Close'
        : 'Let it go on', action: make, body: h('p', says, h('span.second', ' It can be resumed at any time.')), fields: pauseFields(paused),
    submit: async v => {
        checkPause(v);
        const action = make(v);
        await request(action.path, { method: action.method, body: action.body });
        ctx.toast(action.done ?? '', { undo: { label: back.label, run: () => ctx.act(back) } });
        ctx.reload();
    } });
}

/** @param {any} task @param {Gates} gates @param {Context} ctx */
export function held(task, gates, ctx) {
    if (task.paused) return pauseInWords(task.paused, ctx);
    if (task.waiting_for) {
        const what = { concurrency_key: 'key ', overlap: 'its previous run', dependencies: 'other tasks' };
        return h('span.hold', /** @type {any} */ (what)[task.waiting_for.kind] ?? task.waiting_for.kind,
            task.waiting_for.kind === 'concurrency_key' ? userText(task.waiting_for.key) : null);
    }
    if (task.status === 'SCHEDULED' && gates.paused.has(task.queue)) return h('span.hold', 'queue ', h('a', { href: link(['queues'],
        { name: task.queue }) }, userText(task.queue)), ' is paused');
    const host = breakerOf(task, gates);
    if (host) return h('span.hold', 'breaker of ', h('a', { href: breakerLink(host) }, userText(host)));
    if (task.status === 'FAILED' || task.status === 'EXPIRED') return userText(task.last_error ?? '');
    if (task.attempts > 0 && task.last_error && task.status !== 'COMPLETED') return ['attempt ' + (task.attempts + 1) + ', after ',
        userText(task.last_error.replace(/^held: /, ''))];
    if (task.status === 'SKIPPED' && task.skipped?.reason) return String(task.skipped.reason).toLowerCase().replaceAll('_', ' ');
    return h('span.label', '–');
}

// Which queues have due tasks that an open breaker holds: of the first 500, with one request, and with none while all breakers are closed.
/** @param {Context} ctx @param {any[] | null} breakers @returns {Promise<Map<string, Map<string, number>>>} queue → host → tasks */
export async function heldQueues(ctx, breakers) {
    /** @type {Map<string, Map<string, number>>} */
    const found = new Map();
    if (!breakers?.length || !ctx.can('tasks:read')) return found;
    const due = await maybe('/v1/tasks', { status: 'SCHEDULED', due_before: new Date().toISOString(), limit: SEEN, view: 'brief' });
    for (const task of due?.tasks ?? []) {
        const host = breakerOf(task, { at: 0, paused: new Map(), breakers });
        if (!host) continue;
        const hosts = found.get(task.queue) ?? new Map();
        found.set(task.queue, hosts.set(host, (hosts.get(host) ?? 0) + 1));
    }
    return found;
}

/** @param {Map<string, number> | undefined} hosts */
export const hostsInWords = hosts => hosts ? h('span.hold', [...hosts].map(([host, n], i) => [i ? ', ' : '', 'breaker of ', h('a',
    { href: breakerLink(host) }, userText(host)), `: ${count(n, 'task')}`])) : null;
