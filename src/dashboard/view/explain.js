// Why something waits, in the server's words: the first sentence leads, instants are shown in the chosen zone, holders are links.
import { h } from '../lib/dom.js';
import { link } from '../lib/router.js';
import { breakerLink } from './held.js';
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

// Gates that stay closed until somebody opens them, or for long. A recurring task meets them when its time has come: they are told before.
const HARD = new Set(['queue_paused', 'tenant_disabled', 'host_breaker', 'tenant_breaker']);

// The gate to tell of: what holds it now, or what will.
/** @param {any} explanation @param {any} task */
export function gateOf(explanation, task) {
    if (!explanation || ['COMPLETED', 'CANCELLED'].includes(task.status)) return null;
    if (!CALM.has(explanation.gate)) return explanation;
    return (explanation.gates ?? []).find((/** @type {any} */ g) => HARD.has(g.gate)) ?? null;
}

// Why a task that is made due still waits; empty: nothing holds it.
/** @param {any} explanation */
export function stillHeld(explanation) {
    const gate = (explanation?.gates ?? []).find((/** @type {any} */ g) => HARD.has(g.gate));
    return gate ? gate.explanation.split(/[,:.] |, until| since/)[0] : '';
}

// Where one opens a gate.
/** @param {any} gate @param {any} task */
function opener(gate, task) {
    if (gate.gate === 'queue_paused') return h('a', { href: link(['queues'], { name: task.queue }) }, 'Resume it on Queues');
    if (gate.gate !== 'host_breaker' && gate.gate !== 'tenant_breaker') return null;
    return h('a', { href: breakerLink(/breaker of (\S+)/.exec(gate.explanation)?.[1]) }, 'Close the breaker');
}

/** @param {any} explanation @param {any} task @param {Context} ctx */
export function explainBlock(explanation, task, ctx) {
    const gate = gateOf(explanation, task);
    if (!gate) return null;
    const [lead, rest] = sentences(gate.explanation.replace(/ To close it: belfry breakers close [0-9a-f-]+\./, ''));
    const others = gate === explanation ? (explanation.gates ?? []).slice(1) : [];
    return h('div.explain', { role: 'status', key: 'explain' }, icon(GATE_ICONS[gate.gate] ?? 'blocked'),
        h('p.lead', withTimes(lead, ctx, task.time_zone), ' ', opener(gate, task)),
        rest ? h('p.second', withTimes(rest, ctx, task.time_zone)) : null,
        gate === explanation && explanation.holders?.length ? h('p', 'Held by ', explanation.holders.map((/** @type {any} */ holder,
            /** @type {number} */ i) => [i
            ? ', ' : '',
            h('a', { href: link(['tasks', holder.task_id]) }, userText(holder.name || holder.task_id)),
                ` (${stateOf(holder.status)[1].toLowerCase()})`]), '.') : null,
        others.length ? h('p.second', 'After that: ', others.map((/** @type {any} */ g, /** @type {number} */ i) => [i ? '; ' : '',
            withTimes(g.explanation, ctx, task.time_zone)]), '.') : null,
        explanation.estimate ? h('p.second', task.type === 'RECURRING' ? 'Its next run should start at about '
            : 'It should start at about ', withTimes(explanation.estimate, ctx, task.time_zone), '.')
            : null);
}
