// Alerts: who was told what? Open incidents by impact, and the messages that were sent. Hidden while the server has no incidents.
import { h } from '../lib/dom.js';
import { get, maybe } from '../lib/api.js';
import { link } from '../lib/router.js';
import { count, number } from '../lib/time.js';
import { badge } from '../view/icons.js';
import { ago, empty, section, segments, userText } from '../view/parts.js';
import { table } from '../view/table.js';

/** @typedef {import('../lib/app.js').Context} Context */

/** @type {import('../lib/app.js').Page} */
export const page = {
    title: () => 'Alerts',

    async load() {
        const [incidents, alerts, sent] = await Promise.all([get('/v1/incidents', { limit: 100 }), maybe('/v1/alerts'), maybe('/v1/notifications', { limit: 50 })]);
        return { incidents: incidents.incidents ?? [], alerts: alerts?.alerts ?? [], sent: sent?.notifications ?? [] };
    },

    view(data, ctx) {
        const all = ctx.route.query.get('show') === 'all', open = data.incidents.filter((/** @type {any} */ i) => !i.closed_at), shown = all ? data.incidents : open, firing = data.alerts.filter((/** @type {any} */ a) => a.state === 'firing');
        return [h('header', { key: 'head' }, h('div.head', h('h1', { tabindex: -1 }, 'Alerts'), h('span.grow'), segments('Show', [['Open', link(['alerts']), !all], ['All', link(['alerts'], { show: 'all' }), all]])),
            h('p.second', h('b', open.length ? `${count(open.length, 'incident')} ${open.length === 1 ? 'is' : 'are'} open. ` : 'No incident is open. '), firing.length ? `${count(firing.length, 'rule')} fire.` : '')),
        section('incidents', 'Incidents', {}, shown.length ? incidents(shown, ctx) : empty('Nothing to tell.', 'A setting says who is told of what.', 'belfry notify add --help')),
        firing.length ? section('rules', 'Rules that fire', {}, table({ ...ctx, ui: {} }, { rows: firing, key: (/** @type {any} */ a) => a.name, label: 'Rules', columns: [{ title: 'Rule', class: 'anywhere', cell: (/** @type {any} */ a) => h('b', userText(a.name)) }, { title: 'Severity', cell: (/** @type {any} */ a) => userText(a.severity) }, { title: 'Value', class: 'num', cell: (/** @type {any} */ a) => `${a.value ?? '–'}` }, { title: 'Limit', class: 'num from-s', cell: (/** @type {any} */ a) => `${a.threshold ?? '–'}` }, { title: 'Since', class: 'num from-s second', cell: (/** @type {any} */ a) => ago(a.since, ctx) }] })) : null,
        data.sent.length ? section('sent', 'Sent', {}, table({ ...ctx, ui: {} }, { rows: data.sent, key: (/** @type {any} */ n) => n.id, label: 'Sent', columns: [{ title: 'State', cell: (/** @type {any} */ n) => badge(n.status ?? 'COMPLETED') }, { title: 'To', class: 'anywhere', cell: (/** @type {any} */ n) => userText(n.setting ?? n.delivery_type) }, { title: 'What', class: 'anywhere', cell: (/** @type {any} */ n) => userText(n.type ?? n.kind) }, { title: 'When', class: 'num second', cell: (/** @type {any} */ n) => ago(n.sent_at ?? n.created_at, ctx) }] })) : null];
    },
};

/** @param {any[]} list @param {Context} ctx */
const incidents = (list, ctx) => table(ctx, { rows: list, key: i => i.id, label: 'Incidents', columns: [
    { title: 'State', class: 'w-state from-s', cell: i => i.closed_at ? badge('COMPLETED', { word: 'Closed' }) : i.acknowledged_at ? badge('APPROVAL', { word: 'Acknowledged', calm: true }) : badge('LATE', { word: 'Open' }) },
    { title: 'What', class: 'anywhere', cell: i => [h('b', userText(i.kind)), ' ', userText(i.cause ?? '')] }, { title: 'Setting', class: 'from-m', cell: i => userText(i.setting ?? '–') }, { title: 'Events', class: 'num', cell: i => number(i.count) },
    { title: 'First', class: 'num from-m second', cell: i => ago(i.first_at, ctx) }, { title: 'Last', class: 'num from-s second', cell: i => ago(i.last_at, ctx) },
    { title: h('span.hidden-text', 'Actions'), class: 'num w-acts nowrap', hidden: !ctx.can('notifications:write'), cell: i => i.closed_at || i.acknowledged_at ? null : h('button.small', { onclick: () => ctx.act({ label: 'Acknowledge', scope: 'notifications:write', method: 'POST', path: `/v1/incidents/${i.id}/ack`, cli: ['notify', 'ack', i.id], done: 'Acknowledged: no further step is told' }) }, 'Acknowledge') }] });
