// Alerts: who was told what? Open incidents by impact, the rules with their present values, what was sent, and the settings that say so. A
// part that the server does not have, or the key may not see, is left out.
import { h } from '../lib/dom.js';
import { maybe, request } from '../lib/api.js';
import { go, link, relink } from '../lib/router.js';
import { count, number, rough } from '../lib/time.js';
import { ackIncident, muteIncident, resend, testSetting } from '../lib/command.js';
import { badge, icon } from '../view/icons.js';
import { actionList, ago, copyButton, empty, section, segments, taskLink, userText, when } from '../view/parts.js';
import { table } from '../view/table.js';

/** @typedef {import('../lib/app.js').Context} Context */

/** @type {Record<string, string>} */
const KINDS = { SUCCESS: 'Success', FAILURE: 'Failure', RETRY: 'Retry', MISSED: 'Missed', DEAD_LETTER: 'Dead letter', ALERT: 'Alert' };
/** @type {Record<string, string>} */
const CHANNELS = { EMAIL: 'mail', SLACK_WEBHOOK: 'Slack', HTTP_WEBHOOK: 'webhook', PUSH: 'push' };
/** @type {Record<string, number>} */
const ORDER = { firing: 0, pending: 1, inactive: 2 };

/** @type {import('../lib/app.js').Page} */
export const page = {
    title: () => 'Alerts',

    async load(ctx) {
        const may = ctx.can('notifications:read'), all = ctx.route.query.get('show') === 'all';
        const [incidents, settings, sent, alerts] = await Promise.all([
            may ? maybe('/v1/incidents', { limit: 100, state: all ? null : 'OPEN' }) : null,
            may ? maybe('/v1/notification-settings', { limit: 100 }) : null,
            may ? maybe('/v1/notifications', { limit: 30 }) : null, maybe('/v1/alerts')]);
        return { incidents: incidents?.incidents ?? null, settings: settings?.notification_settings ?? [],
            sent: sent?.notifications ?? [], alerts: alerts?.alerts ?? [] };
    },

    view(data, ctx) {
        const all = ctx.route.query.get('show') === 'all', names = new Map(data.settings.map((/** @type {any} */ s) => [s.id, s.name]));
        return [
            h('header', { key: 'head' }, h('div.head', h('h1', { tabindex: -1 }, 'Alerts'), h('span.grow'),
                copyButton('belfry notify incidents', 'CLI'), data.incidents
                    ? segments('Show', [['Open', link(['alerts']), !all], ['All', link(['alerts'], { show: 'all' }), all]]) : null),
            h('p.second', answer(data.alerts, data.incidents))),
            data.incidents ? section('incidents', 'Incidents', { note: 'what fails in the same way is one' }, data.incidents.length
                ? incidents(data.incidents, names, ctx)
                : data.settings.length ? h('p.second', 'Nothing to tell.')
                    : empty('Nobody is told of failures.', 'A setting says who is told of what.',
                        'belfry notify add ops --webhook https://hooks.example.com/belfry --on failure,recovered')) : null,
            data.alerts.length ? section('rules', 'Rules', { note: 'judged at the end of each minute; the runbook has a section for each' },
                rules(data.alerts, ctx)) : null,
            data.sent.length ? section('sent', 'Sent', {}, sent(data.sent, names, ctx)) : null,
            data.settings.length ? section('settings', 'Settings', {}, settings(data.settings, ctx)) : null];
    },
};

// What fires comes first; the watchdog, which always does, last.
/** @param {any} a */
const rank = a => a.severity === 'none' ? 3 : ORDER[a.state];

/** @param {any[]} alerts @param {any[] | null} known */
function answer(alerts, known) {
    const firing = alerts.filter(a => a.state === 'firing' && a.severity !== 'none'), pending = alerts.filter(a => a.state === 'pending');
    const open = known?.filter(i => i.state === 'OPEN'), is = (/** @type {any[]} */ list) => list.length === 1 ? 'is' : 'are';
    const unseen = open?.filter(i => !i.acknowledged_at) ?? [];
    return [h('b', !open ? '' : open.length
        ? `${count(open.length, 'incident')} ${is(open)} open, ${unseen.length || 'none'} not acknowledged. `
        : 'No incident is open. '),
    firing.length ? `${count(firing.length, 'rule')} ${firing.length === 1 ? 'fires' : 'fire'}: ${firing.map(a => a.name).join(', ')}. `
        : alerts.length ? 'No rule fires. ' : '', pending.length ? `${count(pending.length, 'rule')} ${is(pending)} about to.` : ''];
}

/** @param {any} i */
const incidentState = i => i.state === 'CLOSED' ? badge('COMPLETED', { word: i.recovered ? 'Recovered' : 'Closed' })
    : i.muted_until ? badge('PAUSED', { word: 'Muted' }) : i.acknowledged_at ? badge('APPROVAL', { word: 'Acknowledged', calm: true })
        : badge('LATE', { word: 'Open' });

/** @param {any[]} list @param {Map<string, string>} names @param {Context} ctx */
function incidents(list, names, ctx) {
    const open = ctx.route.query.get('incident');
    return table(ctx, { rows: list, key: i => i.id, label: 'Incidents', opened: i => i.id === open, inner: i => incident(i, ctx), columns: [
        { title: h('span.hidden-text', 'Open'), class: 'check', cell: i => h('button.plain.square.small', {
            'aria-label': `${i.id === open ? 'Close' : 'Open'} the incident`, 'aria-expanded': String(i.id === open),
            onclick: () => go(relink(ctx.route, { incident: i.id === open ? null : i.id })) }, icon(i.id === open ? 'down' : 'right')) },
        { title: 'State', class: 'from-s', cell: incidentState },
        { title: 'What', class: 'anywhere', cell: i => [h('b', KINDS[i.kind] ?? i.kind), ' ',
            userText(i.tasks[0]?.error ?? i.cause), h('span.sub.only-s', incidentState(i))] },
        { title: 'Tasks', class: 'num', cell: i => number(i.count) },
        { title: 'Told to', class: 'from-m', cell: i => userText(names.get(i.setting) ?? '–') },
        { title: 'Told', class: 'num from-m', cell: i => i.told ? `${number(i.told)} times`.replace(/^1 times$/, 'once') : h('span.label',
            'not yet') },
        { title: 'First', class: 'num from-m second', cell: i => ago(i.first_at, ctx) },
        { title: 'Last', class: 'num from-s second', cell: i => ago(i.last_at, ctx) },
        { title: h('span.hidden-text', 'Actions'), class: 'num w-acts nowrap', hidden: !ctx.can('notifications:write'),
            cell: i => i.state === 'CLOSED' || i.acknowledged_at ? null
                : h('button.small', { onclick: () => ctx.act(ackIncident(i)) }, 'Acknowledge') }] });
}

/** @param {any} i @param {Context} ctx */
const incident = (i, ctx) => h('div.columns', h('div.c7', h('table', h('thead', h('tr', h('th', { scope: 'col' }, 'Task'),
    h('th', { scope: 'col' }, 'Error'),
    h('th.num.from-s', { scope: 'col' }, 'Attempt'))), h('tbody', i.tasks.map((/** @type {any} */ t) => h('tr', { key: t.id },
        h('td.anywhere', taskLink(t, { plain: true })),
    h('td.anywhere.second', userText(t.error ?? '–')), h('td.num.from-s', t.attempt)))))),
h('div.c5', i.acknowledged_by ? h('p.second', 'Acknowledged by ', userText(i.acknowledged_by), ', ', ago(i.acknowledged_at, ctx), '.')
    : null,
    i.state === 'OPEN' ? actionList(ctx, [ackIncident(i), muteIncident(i, '2h')]) : h('p.second', 'Closed ', ago(i.closed_at, ctx), '.')));

/** @param {any} a */
const ruleState = a => a.severity === 'none' ? badge('open', { word: 'Watches' }) : a.state === 'firing' ? badge('FAILED',
    { word: 'Fires' })
    : a.state === 'pending' ? badge('LATE', { word: 'Pending' }) : badge('COMPLETED', { word: 'Quiet' });

/** @param {number} value @param {string | undefined} unit */
function figure(value, unit) {
    const shown = unit === 'ratio' ? value * 100 : value;
    const text = Number.isInteger(shown) ? number(shown) : String(Number(shown.toPrecision(3)));
    return `${text}${unit === 'ratio' ? ' %' : unit ? ' ' + unit : ''}`;
}

/** @param {any[]} alerts @param {Context} ctx */
const rules = (alerts, ctx) => table({ ...ctx, ui: {} }, { rows: [...alerts].sort((a, b) => rank(a) - rank(b)),
    key: a => a.name,
    label: 'Rules', columns: [
        { title: 'State', class: 'w-state from-s', cell: ruleState },
        { title: 'Rule', class: 'anywhere', cell: a => [h('b', userText(a.name)), h('span.sub', userText(a.summary)), h('span.sub.only-s',
            ruleState(a))] },
        { title: 'Severity', class: 'from-m second', cell: a => a.severity },
        { title: 'Value', class: 'num', cell: a => figure(a.value, a.unit) },
        { title: 'Limit', class: 'num from-s', cell: a => a.threshold === undefined ? h('span.label', '–') : figure(a.threshold, a.unit) },
        { title: 'For', class: 'num from-m second', cell: a => a.for_seconds ? rough(a.for_seconds * 1000) : h('span.label', 'at once') },
        { title: 'Since', class: 'num from-m second', cell: a => a.since ? ago(a.since, ctx) : '–' },
        { title: 'Runbook', class: 'from-m second anywhere', cell: a => userText(a.runbook) }] });

/** @type {Record<string, [string, string]>} */
const SENT = { WAITING: ['SCHEDULED', 'Waiting'], SENDING: ['RUNNING', 'Sending'], SENT: ['COMPLETED', 'Sent'], FAILED: ['FAILED',
    'Failed'], DROPPED: ['SKIPPED', 'Dropped'] };

/** @param {any[]} list @param {Map<string, string>} names @param {Context} ctx */
const sent = (list, names, ctx) => table({ ...ctx, ui: {} }, { rows: list, key: n => n.id, label: 'Sent', columns: [
    { title: 'State', class: 'w-state', cell: n => badge(SENT[n.state]?.[0] ?? n.state, { word: SENT[n.state]?.[1] }) },
    { title: 'What', class: 'anywhere', cell: n => n.type.replace('incident.', 'incident ') },
    { title: 'To', class: 'anywhere', cell: n => [userText(names.get(n.setting) ?? '–'), h('span.label',
        ` ${CHANNELS[n.delivery_type] ?? ''}${n.step ? `, step ${n.step}` : ''}`)] },
    { title: 'Attempts', class: 'num from-s', cell: n => number(n.attempts) },
    { title: 'Answer', class: 'from-m cut', cell: n => n.error ? userText(n.error) : n.http_status ?? h('span.label', '–') },
    { title: 'When', class: 'num from-s second', cell: n => ago(n.sent_at ?? n.created_at, ctx) },
    { title: h('span.hidden-text', 'Actions'), class: 'num w-acts', hidden: !ctx.can('notifications:write'), cell: n => ['SENT', 'FAILED',
        'DROPPED'].includes(n.state) && n.incident
        ? h('button.small', { onclick: () => ctx.act(resend(n)) }, 'Resend')
            : null }] });

/** @param {any} s */
const events = s => [['on_failure', 'failure'], ['on_dead_letter', 'dead letter'], ['on_missed', 'missed'], ['on_recovered', 'recovered'],
    ['on_retry', 'retry'], ['on_success', 'success'], ['on_alert', 'alert']]
    .filter(([field]) => s[field]).map(([, word]) => word).join(', ');

/** @param {any[]} list @param {Context} ctx */
const settings = (list, ctx) => table({ ...ctx, ui: {} }, { rows: list, key: s => s.id, label: 'Settings', columns: [
    { title: 'State', class: 'w-state from-s', cell: s => !s.enabled ? badge('CANCELLED', { word: 'Off' }) : s.muted_until
        ? badge('PAUSED', { word: 'Muted' }) : badge('open', { word: 'On' }) },
    { title: 'Name', class: 'anywhere', cell: s => [h('b', userText(s.name)), s.muted_until ? h('span.sub', 'muted until ',
        when(s.muted_until, ctx)) : null] },
    { title: 'Channel', class: 'from-s', cell: s => CHANNELS[s.delivery_type] ?? s.delivery_type }, { title: 'Told of', class: 'anywhere',
        cell: events },
    { title: 'Tasks', class: 'from-m anywhere second', cell: s => userText(Object.entries(s.filter ?? {}).filter(([, v]) => v).map(([k,
        v]) => `${k.replace('_', ' ')} ${v}`).join(', ') || 'all') },
    { title: h('span.hidden-text', 'Actions'), class: 'num w-acts', hidden: !ctx.can('notifications:write'), cell: s => h('button.small',
        { onclick: () => test(s, ctx) }, 'Send a test') }] });

/** @param {any} setting @param {Context} ctx */
async function test(setting, ctx) {
    try {
        const done = await request(testSetting(setting).path, { method: 'POST' });
        ctx.toast(done.state === 'SENT' ? `${setting.name}: the test message was sent`
            : `${setting.name}: ${done.error ?? String(done.state).toLowerCase()}`, { bad: done.state !== 'SENT' });
    } catch (error) {
        ctx.toast(`${setting.name}: ${/** @type {Error} */ (error).message}`, { bad: true });
    }
    ctx.reload();
}
