// Why something waits, in the server's words: the first sentence leads, instants are shown in the chosen zone, holders are links.
import { h } from '../lib/dom.js';
import { link } from '../lib/router.js';
import { absolute, exact, parse, zoneOf } from '../lib/time.js';
import { icon, stateOf } from './icons.js';
import { userText } from './parts.js';

/** @typedef {import('../lib/app.js').Context} Context */

const INSTANT = /(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/;
// gates that hold nothing: it runs, it is over, or its time has not come
const CALM = new Set(['none', 'due_time', 'armed', 'running', 'final']);
/** @type {Record<string, string>} */
const GATE_ICONS = { paused: 'paused', queue_paused: 'paused', host_breaker: 'breaker', tenant_breaker: 'breaker', signal: 'approval',
    expired: 'expired' };

// A text with its instants in the chosen zone.
/** @param {string} text @param {Context} ctx @param {string} [taskZone] */
export function withTimes(text, ctx, taskZone) {
    const zone = zoneOf(ctx.zone, taskZone);
    return text.split(INSTANT).map((part, i) => i % 2 ? h('time', { datetime: part, title: exact(parse(part), zone) },
        absolute(parse(part), ctx.now, zone)) : part);
}

/** @param {string} text @returns {[string, string]} the first sentence, and the rest */
export function sentences(text) {
    const at = text.search(/\. [A-Z]/);
    const first = at < 0 ? text : text.slice(0, at);
    return [first.charAt(0).toUpperCase() + first.slice(1) + (first.endsWith('.') ? '' : '.'), at < 0 ? ''
        : text.slice(at + 2).replace(/([^.])$/, '$1.')];
}

/** @param {any} explanation @param {any} task */
export const holds = (explanation, task) => !!explanation && !CALM.has(explanation.gate) && !['COMPLETED',
    'CANCELLED'].includes(task.status);

/** @param {any} explanation @param {any} task @param {Context} ctx */
export function explainBlock(explanation, task, ctx) {
    if (!holds(explanation, task)) return null;
    const [lead, rest] = sentences(explanation.explanation);
    const others = (explanation.gates ?? []).slice(1);
    return h('div.explain', { role: 'status', key: 'explain' }, icon(GATE_ICONS[explanation.gate] ?? 'blocked'),
        h('p.lead', withTimes(lead, ctx, task.time_zone)),
        rest ? h('p.second', withTimes(rest, ctx, task.time_zone)) : null,
        explanation.holders?.length ? h('p', 'Held by ', explanation.holders.map((/** @type {any} */ holder, /** @type {number} */ i) => [i
            ? ', ' : '',
            h('a', { href: link(['tasks', holder.task_id]) }, userText(holder.name || holder.task_id)),
                ` (${stateOf(holder.status)[1].toLowerCase()})`]), '.') : null,
        others.length ? h('p.second', 'After that: ', others.map((/** @type {any} */ g, /** @type {number} */ i) => [i ? '; ' : '',
            withTimes(g.explanation, ctx, task.time_zone)]), '.') : null,
        explanation.estimate ? h('p.second', 'It should start at about ', withTimes(explanation.estimate, ctx, task.time_zone), '.')
            : null);
}
