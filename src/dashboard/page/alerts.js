// Alerts: who was told what? Open incidents by impact, the rules with their present values, and the messages that were sent. A part that the
// server does not have is left out.
import { h } from '../lib/dom.js';
import { maybe } from '../lib/api.js';
import { link } from '../lib/router.js';
import { count, number, rough } from '../lib/time.js';
import { badge } from '../view/icons.js';
import { ago, copyButton, empty, section, segments, userText } from '../view/parts.js';
import { table } from '../view/table.js';

/** @typedef {import('../lib/app.js').Context} Context */

/** @type {import('../lib/app.js').Page} */
export const page = {
    title: () => 'Alerts',

    async load() {
        const [incidents, alerts, sent] = await Promise.all([maybe('/v1/incidents', { limit: 100 }), maybe('/v1/alerts'),
            maybe('/v1/notifications', { limit: 50 })]);
        return { incidents: incidents?.incidents ?? null, alerts: alerts?.alerts ?? [], sent: sent?.notifications ?? [] };
    },

    view(data, ctx) {
        const all = ctx.route.query.get('show') === 'all', known = data.incidents ?? [],
            open = known.filter((/** @type {any} */ i) => !i.closed_at), shown = all ? known : open;
        const firing = data.alerts.filter((/** @type {any} */ a) => a.state === 'firing' && a.severity !== 'none'),
            pending = data.alerts.filter((/** @type {any} */ a) => a.state === 'pending');
        return [h('header', { key: 'head' }, h('div.head', h('h1', { tabindex: -1 }, 'Alerts'), h('span.grow'), data.incidents
            ? segments('Show', [['Open', link(['alerts']), !all], ['All', link(['alerts'], { show: 'all' }), all]])
            : copyButton('belfry alerts', 'CLI')),
            h('p.second', answer(firing, pending, data.incidents ? open : null))),
        data.incidents ? section('incidents', 'Incidents', {}, shown.length ? incidents(shown, ctx) : empty('Nothing to tell.',
            'A setting says who is told of what.', 'belfry notify add --help')) : null,
        data.alerts.length ? section('rules', 'Rules', { note: 'judged at the end of each minute; the runbook has a section for each' },
            rules(data.alerts, ctx)) : null,
        data.sent.length ? section('sent', 'Sent', {}, sent(data.sent, ctx)) : null];
    },
};

/** @param {any[]} firing @param {any[]} pending @param {any[] | null} open */
function answer(firing, pending, open) {
    const is = (/** @type {any[]} */ list) => list.length === 1 ? 'is' : 'are';
    return [h('b', firing.length ? `${count(firing.length, 'rule')} ${firing.length === 1 ? 'fires' : 'fire'}: ${firing.map(a => a.name).join(', ')}. `
        : 'No rule fires. '), pending.length ? `${count(pending.length, 'rule')} ${is(pending)} about to. ` : '',
    !open ? '' : open.length ? `${count(open.length, 'incident')} ${is(open)} open.` : 'No incident is open.'];
}

/** @type {Record<string, number>} */
const ORDER = { firing: 0, pending: 1, inactive: 2 };

/** @param {any} a */
const ruleState = a => a.severity === 'none' ? badge('open', { word: 'Watches' }) : a.state === 'firing' ? badge('FAILED',
    { word: 'Fires' }) : a.state === 'pending' ? badge('LATE', { word: 'Pending' }) : badge('COMPLETED', { word: 'Quiet' });

/** @param {number} value @param {string | undefined} unit */
function figure(value, unit) {
    const shown = unit === 'ratio' ? value * 100 : value, text = Number.isInteger(shown) ? number(shown) : String(Number(shown.toPrecision(3)));
    return `${text}${unit === 'ratio' ? ' %' : unit ? ' ' + unit : ''}`;
}

/** @param {any[]} alerts @param {Context} ctx */
const rules = (alerts, ctx) => table({ ...ctx, ui: {} }, { rows: [...alerts].sort((a, b) => ORDER[a.state] - ORDER[b.state]),
    key: a => a.name, label: 'Rules', columns: [
    { title: 'State', class: 'w-state from-s', cell: a => ruleState(a) }, { title: 'Rule', class: 'anywhere',
        cell: a => [h('b', userText(a.name)), h('span.sub', userText(a.summary)), h('span.sub.only-s', ruleState(a))] },
        { title: 'Severity', class: 'from-m second', cell: a => a.severity },
    { title: 'Value', class: 'num', cell: a => figure(a.value, a.unit) }, { title: 'Limit', class: 'num from-s',
        cell: a => a.threshold === undefined ? h('span.label', '–') : figure(a.threshold, a.unit) }, { title: 'For',
        class: 'num from-m second', cell: a => a.for_seconds ? rough(a.for_seconds * 1000) : h('span.label', 'at once') },
    { title: 'Since', class: 'num from-m second', cell: a => a.since ? ago(a.since, ctx) : '–' }, { title: 'Runbook',
        class: 'from-m second anywhere', cell: a => userText(a.runbook) }] });

/** @param {any[]} list @param {Context} ctx */
const sent = (list, ctx) => table({ ...ctx, ui: {} }, { rows: list, key: n => n.id, label: 'Sent',
    columns: [{ title: 'State', cell: n => badge(n.status ?? 'COMPLETED') }, { title: 'To', class: 'anywhere',
    cell: n => userText(n.setting ?? n.delivery_type) }, { title: 'What', class: 'anywhere', cell: n => userText(n.type ?? n.kind) },
    { title: 'When', class: 'num second', cell: n => ago(n.sent_at ?? n.created_at, ctx) }] });

/** @param {any[]} list @param {Context} ctx */
const incidents = (list, ctx) => table(ctx, { rows: list, key: i => i.id, label: 'Incidents', columns: [
    { title: 'State', class: 'w-state from-s', cell: i => i.closed_at ? badge('COMPLETED', { word: 'Closed' }) : i.acknowledged_at
        ? badge('APPROVAL', { word: 'Acknowledged', calm: true }) : badge('LATE', { word: 'Open' }) },
    { title: 'What', class: 'anywhere', cell: i => [h('b', userText(i.kind)), ' ', userText(i.cause ?? '')] }, { title: 'Setting',
        class: 'from-m', cell: i => userText(i.setting ?? '–') }, { title: 'Events', class: 'num', cell: i => number(i.count) },
    { title: 'First', class: 'num from-m second', cell: i => ago(i.first_at, ctx) }, { title: 'Last', class: 'num from-s second',
        cell: i => ago(i.last_at, ctx) },
    { title: h('span.hidden-text', 'Actions'), class: 'num w-acts nowrap', hidden: !ctx.can('notifications:write'), cell: i => i.closed_at
        || i.acknowledged_at ? null : h('button.small', { onclick: () => ctx.act({ label: 'Acknowledge', scope: 'notifications:write',
        method: 'POST', path: `/v1/incidents/${i.id}/ack`, cli: ['notify', 'ack', i.id],
        done: 'Acknowledged: no further step is told' }) }, 'Acknowledge') }] });
