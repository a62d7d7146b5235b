// Small views that several pages use: times, links to tasks, sections, actions with their commands, empty and failed states.
import { h } from '../lib/dom.js';
import { link } from '../lib/router.js';
import { Problem } from '../lib/api.js';
import { absolute, clock, exact, parse, relative, zoneOf } from '../lib/time.js';
import { cli, curl, here } from '../lib/command.js';
import { copy } from './dialog.js';
import { icon } from './icons.js';

/** @typedef {import('../lib/app.js').Context} Context */

// An instant: relative, and the exact time beside it.
/** @param {string | null | undefined} at @param {Context} ctx @param {{zone?: string}} [how] */
export function when(at, ctx, how = {}) {
    const ms = parse(at);
    if (Number.isNaN(ms)) return h('span.label', '–');
    const zone = zoneOf(ctx.zone, how.zone);
    return h('time', { datetime: at, title: exact(ms, zone) }, relative(ms, ctx.now), ' ', h('span.label', absolute(ms, ctx.now, zone)));
}

// The exact time only.
/** @param {string | null | undefined} at @param {Context} ctx @param {{zone?: string, withMs?: boolean}} [how] */
export function instant(at, ctx, how = {}) {
    const ms = parse(at);
    if (Number.isNaN(ms)) return h('span.label', '–');
    const zone = zoneOf(ctx.zone, how.zone);
    const text = how.withMs ? clock(ms, zone, true) : absolute(ms, ctx.now, zone);
    return h('time', { datetime: at, title: exact(ms, zone) }, text);
}

// How long ago.
/** @param {string | null | undefined} at @param {Context} ctx */
export function ago(at, ctx) {
    const ms = parse(at);
    if (Number.isNaN(ms)) return h('span.label', '–');
    const zone = zoneOf(ctx.zone);
    return h('time', { datetime: at, title: exact(ms, zone) }, relative(ms, ctx.now));
}

// A text of a user: whatever it holds, it does not turn the text around it.
/** @param {any} text */
export const userText = text => h('bdi', String(text ?? ''));

/** @param {any} task @param {{plain?: boolean}} [how] */
export const taskLink = (task, how = {}) => h('a.quiet', { href: link(['tasks', task.id ?? task.task_id]) },
    h(how.plain ? 'span' : 'b', task.name ? userText(task.name) : h('span.mono', String(task.id ?? task.task_id).slice(0, 18))));

/**
 * A titled section.
 * @param {string} id @param {string} title
 * @param {{note?: any, more?: any, class?: string}} how @param {...any} kids
 */
export const section = (id, title, how, ...kids) => h('section', { key: id, class: how.class ?? null, 'aria-labelledby': id },
    h('div.title', h('h2', { id }, title), how.note ? h('span.label', how.note) : null, h('span.grow'), how.more ?? null), kids);

/** @param {[string, any][]} pairs */
export const facts = pairs => h('dl.facts', pairs.filter(([, value]) => value !== null && value !== undefined && value !== '')
    .flatMap(([name, value]) => [h('dt', name), h('dd', value)]));

/** @param {string} title @param {string} hint @param {string | null} command */
export const empty = (title, hint, command) => h('div.empty', h('b', title), hint ? h('span.second', hint) : null,
    command ? [h('pre.command', here(command)), copyButton(command)] : null);

/** @param {string} text @param {string} [label] */
export const copyButton = (text, label = 'Copy') => h('button.small', { onclick: (/** @type {Event} */ e) =>
    copy(here(text), /** @type {HTMLElement} */ (e.currentTarget)) }, icon('copy'), label);

// An action as commands to copy.
/** @param {import('../lib/command.js').Action} action */
export function copyButtons(action) {
    const line = cli(action);
    return [copyButton(curl(action, location.origin), 'curl'), ' ', line ? copyButton(line, 'CLI') : null];
}

/**
 * Actions with curl and CLI beside each.
 * @param {Context} ctx @param {import('../lib/command.js').Action[]} actions
 * @param {{only?: 'copy'}} [how]
 */
export function actionList(ctx, actions, how = {}) {
    const shown = ctx.ui.command;
    return h('ul.actions', actions.filter(a => ctx.can(a.scope)).map((action, i) => {
        const line = cli(action), request = curl(action, location.origin);
        /** @param {string} name @param {string} text */
        const button = (name, text) => {
            const open = shown === text;
            return h('button.small', { 'aria-expanded': open ? 'true' : 'false', 'aria-label': `${action.label.replace('…', '')} as ${name}`,
                onclick: (/** @type {Event} */ e) => {
                    if (!open) copy(text, /** @type {HTMLElement} */ (e.currentTarget));
                    ctx.set({ command: open ? null : text });
                } }, name);
        };
        return h('li', { key: i },
            h('span', action.method === 'GET' || how.only === 'copy' ? action.label
                : h('button.link', { class: action.danger ? 'fail' : null, onclick: () => action.ask ? action.ask() : ctx.act(action) },
                    action.label),
            action.hint ? [' ', h('span.label', action.hint)] : null),
            action.ask && !line ? h('span') : button('curl', request), line ? button('CLI', line) : h('span'),
            shown && (shown === request || shown === line) ? h('pre.command', shown) : null);
    }));
}

// What went wrong with a page, and what still holds.
/** @param {Error} error @param {Context} ctx */
export function failure(error, ctx) {
    const status = error instanceof Problem ? error.status : 0;
    const what = !(error instanceof Problem) ? `The page cannot be shown: ${error.message}.` : status === 403
        ? `This key may not see this page: ${error.message}.`
        : status === 404 ? 'There is nothing with this id, or it was removed.'
            : status === 0 ? 'The server cannot be reached.' : `${error.message} (${status}).`;
    const age = ctx.loadedAt ? ` Shown as of ${absolute(ctx.loadedAt, ctx.now, zoneOf(ctx.zone))}.` : '';
    return h('p.state.wraps', { 'data-tone': 'fail', role: 'alert' }, icon('failed'), h('span', what + age + ' ',
        h('button.link', { onclick: () => ctx.reload() }, 'Try again')));
}

// A group of links of which one is current.
/** @param {string} label @param {[string, string, boolean][]} items text, href, current */
export const segments = (label, items) => h('div.segments', { role: 'group', 'aria-label': label },
    items.map(([text, href, current]) => h('a', { href, 'aria-current': current ? 'true' : null }, text)));

// A bar of parts: [value, tone].
/** @param {[number, string?][]} parts @param {number} max @param {{track?: boolean, label?: string}} [how] */
export const bar = (parts, max, how = {}) => h('span.bar', { draw: (/** @type {number} */ width) => {
    let x = 0;
    const rects = parts.filter(([v]) => v > 0).map(([value, tone]) => {
        const w = Math.min(width - x, Math.max(2, max > 0 ? value / max * width : 0));
        const rect = h('rect', { x: x.toFixed(1), width: Math.max(0, w).toFixed(1), height: 8, rx: 1, class: tone ?? null });
        x += w + 1;
        return rect;
    });
    return h('svg', { width, height: 8, ...how.label ? { role: 'img', 'aria-label': how.label } : { 'aria-hidden': 'true' } },
        how.track ? h('rect.track', { width, height: 8, rx: 1 }) : null, rects);
} });

// JSON over several lines, but a list or object that fits into one line stays in one.
/** @param {any} value @param {string} [indent] @returns {string} */
export function pretty(value, indent = '') {
    if (value === null || typeof value !== 'object') return JSON.stringify(value) ?? 'null';
    const list = Array.isArray(value), deeper = indent + '  ';
    const parts = list ? value.map(v => pretty(v, deeper)) : Object.entries(value).map(([k,
        v]) => `${JSON.stringify(k)}: ${pretty(v, deeper)}`);
    const flat = parts.join(', '), simple = list && value.every(v => v === null || typeof v !== 'object');
    const [open, close] = list ? '[]' : '{}';
    if (!parts.length || simple || (flat.length < 60 && !flat.includes('\n'))) return open + flat + close;
    return `${open}\n${parts.map(p => deeper + p).join(',\n')}\n${indent}${close}`;
}
