// Alerts: who was told what? Open incidents by impact, the rules with their present values, what was sent, and the settings that say so. A
// part that the server does not have, or the key may not see, is left out.
import { h } from '../lib/dom.js';
import { isOperator, maybe } from '../lib/api.js';
import { go, link, relink } from '../lib/router.js';
import { count, number, parse, rough } from '../lib/time.js';
import { ackIncident, muteIncident, resend } from '../lib/command.js';
import { checkTable } from '../view/check.js';
import { badge, icon } from '../view/icons.js';
import { actionList, ago, copyButton, empty, section, segments, taskLink, userText, when } from '../view/parts.js';
import { readRunbook, runbookSection } from '../view/runbook.js';
import { askSetting, CHANNELS, destination, eventsOf, knowKeys, sendTest, settingDetail, tasksOf } from '../view/setting.js';
import { table } from '../view/table.js';
import { whoOf } from '../view/verdict.js';

/** @typedef {import('../lib/app.js').Context} Context */

/** @type {Record<string, string>} */
const KINDS = { SUCCESS: 'Success', FAILURE: 'Failure', RETRY: 'Retry', MISSED: 'Missed', DEAD_LETTER: 'Dead letter', ALERT: 'Alert' };
/** @type {Record<string, number>} */
const ORDER = { firing: 0, pending: 1, inactive: 2 };

/** @type {import('../lib/app.js').Page} */
export const page = {
    title: () => 'Alerts',

    async load(ctx) {
        const may = ctx.can('notifications:read'), all = ctx.route.query.get('show') === 'all';
        const [incidents, settings, sent, checks, alerts, runbook] = await Promise.all([
            may ? maybe('/v1/incidents', { limit: 100, state: all ? null : 'OPEN' }) : null,
            may ? maybe('/v1/notification-settings', { limit: 100 }) : null,
            may ? maybe('/v1/notifications', { limit: 30 }) : null, may ? maybe('/v1/checks', { limit: 100 }) : null,
            isOperator() && ctx.can('status:read') ? maybe('/v1/alerts') : null, ctx.route.query.get('rule') ? readRunbook() : null]);
        const linked = ctx.route.query.get('incident'), listed = incidents?.incidents ?? null;
        // A link of a message opens its incident, also when that is over.
        const one = listed && linked && !listed.some((/** @type {any} */ i) => i.id === linked)
            ? await maybe(`/v1/incidents/${encodeURIComponent(linked)}`) : null;
        const [groups, keys] = await Promise.all([ctx.can('dlq:read') ? maybe('/v1/dlq', { group_by: 'cause' }) : null,
            may && ctx.can('signing-keys:read') ? maybe('/v1/signing-keys', { limit: 100 }) : null]);
        knowKeys(keys?.signing_keys ?? []);
        // A mute that is over is none.
        const heard = (/** @type {any[]} */ list) => list.map(x => parse(x.muted_until) > ctx.now ? x : { ...x, muted_until: null });
        return { hosts: new Map((groups?.groups ?? []).map((/** @type {any} */ g) => [g.cause, g.host])),
            incidents: listed && heard(one ? [one, ...listed] : listed), settings: heard(settings?.notification_settings ?? []),
            sent: sent?.notifications ?? [], checks: checks?.checks ?? [], alerts: alerts?.alerts ?? [], runbook };
    },

    view(data, ctx) {
        const all = ctx.route.query.get('show') === 'all', names = new Map(data.settings.map((/** @type {any} */ s) => [s.id, s.name]));
        return [
            h('header', { key: 'head' }, h('div.head', h('h1', { tabindex: -1 }, 'Alerts'), h('span.grow'),
                copyButton('belfry notify incidents', 'CLI'), data.incidents
                    ? segments('Show', [['Open', link(['alerts']), !all], ['All', link(['alerts'], { show: 'all' }), all]]) : null),
            h('p.second', answer(data.alerts, data.incidents))),
            data.incidents ? section('incidents', 'Incidents', { note: 'what fails in the same way is one' }, data.incidents.length
                ? incidents(data, names, ctx)
                : data.settings.length ? h('p.second', 'Nothing to tell.')
                    : empty('Nobody is told of failures.', 'A setting says who is told of what.',
                        'belfry notify add ops --webhook https://hooks.example.com/belfry --on failure,recovered')) : null,
            data.incidents ? section('settings', 'Settings', { note: 'who is told of what', more: ctx.can('notifications:write')
                ? h('button.small', { onclick: () => askSetting(ctx) }, 'New setting…') : null }, data.settings.length
                ? settings(data.settings, ctx) : h('p.second', 'Nobody is told of anything yet.')) : null,
            data.checks.length ? section('checks', 'Checks', { note: 'tasks that are expected to succeed in time', more: copyButton('belfry notify checks',
                'CLI') }, checkTable(data.checks, ctx)) : null,
            data.alerts.length ? section('rules', 'Rules', { note: 'judged at the end of each minute; the runbook has a section for each' },
                rules(data, ctx)) : null,
            data.sent.length ? section('sent', 'Sent', {}, sent(data.sent, names, ctx)) : null];
    },
};

// What fires comes first; the watchdog, which always does, last.
/** @param {any} a */
const rank = a => a.severity === 'none' ? 3 : ORDER[a.state];

/** @param {any[]} alerts @param {any[] | null} known */
function answer(alerts, known) {
    const firing = alerts.filter(a => a.state === 'firing' && a.severity !== 'none'), pending = alerts.filter(a => a.state === 'pending');
    const open = known?.filter(i => i.state === 'OPEN');
    const unseen = open?.filter(i => !i.acknowledged_at) ?? [];
    return [h('b', !open ? 'This key may not see incidents, settings and what was sent: it lacks notifications:read. ' : open.length
        ? `${count(open.length, 'incident is', 'incidents are')} open, ${unseen.length || 'none'} not acknowledged. `
        : 'No incident is open. '),
    firing.length ? `${count(firing.length, 'rule fires', 'rules fire')}: ${firing.map(a => a.name).join(', ')}. `
        : alerts.length ? 'No rule fires. ' : '', pending.length ? `${count(pending.length, 'rule is', 'rules are')} about to.` : ''];
}

/** @param {any} i */
const incidentState = i => i.state === 'CLOSED' ? badge('COMPLETED', { word: i.recovered ? 'Recovered' : 'Closed' })
    : i.muted_until ? badge('PAUSED', { word: 'Muted' }) : i.acknowledged_at ? badge('APPROVAL', { word: 'Acknowledged', calm: true })
        : badge('LATE', { word: 'Open' });

// What failed: the host, if it is known, and the tasks.
/** @param {any} i @param {Map<string, string>} hosts */
const where = (i, hosts) => [hosts.get(i.cause) ?? /^host:(.*)/.exec(i.cause)?.[1], i.kind === 'ALERT' ? i.detail : whoOf(i)].filter(Boolean).join(': ');

/** @param {any} data @param {Map<string, string>} names @param {Context} ctx */
function incidents(data, names, ctx) {
    const open = ctx.route.query.get('incident');
    return table(ctx, { rows: data.incidents, key: i => i.id, label: 'Incidents', opened: i => i.id === open, inner: i => incident(i, ctx), columns: [
        { title: h('span.hidden-text', 'Open'), class: 'check', cell: i => h('button.plain.square.small', {
            'aria-label': `${i.id === open ? 'Close' : 'Open'} the incident`, 'aria-expanded': String(i.id === open),
            onclick: () => go(relink(ctx.route, { incident: i.id === open ? null : i.id })) }, icon(i.id === open ? 'down' : 'right')) },
        { title: 'State', class: 'from-s', cell: incidentState },
        { title: 'What', class: 'anywhere', cell: i => [h('b', KINDS[i.kind] ?? i.kind), ' ',
            userText(i.tasks[0]?.error ?? i.cause), h('span.sub', userText(where(i, data.hosts)), ', told to ',
                userText(names.get(i.setting) ?? '–')), h('span.sub.only-s', incidentState(i))] },
        { title: 'Tasks', class: 'num', cell: i => number(i.count) },
        { title: 'Told', class: 'num from-m', cell: i => i.told ? `${number(i.told)} times`.replace(/^1 times$/, 'once') : h('span.label',
            'not yet') },
        { title: 'First', class: 'num from-m second', cell: i => ago(i.first_at, ctx) },
        { title: 'Last', class: 'num from-s second', cell: i => ago(i.last_at, ctx) },
        { title: h('span.hidden-text', 'Actions'), class: 'num w-acts nowrap', hidden: !ctx.can('notifications:write'),
            cell: i => i.state === 'CLOSED' || i.acknowledged_at ? null
                : h('button.small', { onclick: () => ctx.act(ackIncident(i)) }, 'Acknowledge') }] });
}

/** @param {any} i @param {Context} ctx */
const incident = (i, ctx) => h('div.columns', h('div.c7', i.kind === 'ALERT' ? h('p', h('a', { href: relink(ctx.route, { rule: i.cause }) },
    `What to do about ${i.cause}`)) : h('table', h('thead', h('tr', h('th', { scope: 'col' }, 'Task'),
    h('th', { scope: 'col' }, 'Error'),
    h('th.num.from-s', { scope: 'col' }, 'Attempt'))), h('tbody', i.tasks.map((/** @type {any} */ t) => h('tr', { key: t.id },
        h('td.anywhere', taskLink(t, { plain: true })),
    h('td.anywhere.second', userText(t.error ?? '–')), h('td.num.from-s', t.attempt)))))),
h('div.c5', i.acknowledged_by ? h('p.second', 'Acknowledged by ', userText(i.acknowledged_by), ', ', ago(i.acknowledged_at, ctx), '.')
    : null,
    i.state === 'OPEN' ? actionList(ctx, [...i.acknowledged_at ? [] : [ackIncident(i)], muteIncident(i, i.muted_until ? '' : '2h')]) : h('p.second', 'Closed ',
        ago(i.closed_at, ctx), '.')));

/** @param {any} a */
const ruleState = a => a.severity === 'none' ? badge('open', { word: 'Watches' }) : a.state === 'firing' ? badge('FAILED',
    { word: 'Fires' })
    : a.state === 'pending' ? badge('LATE', { word: 'Pending' }) : badge('COMPLETED', { word: 'Quiet' });

/** @param {any} data @param {Context} ctx */
function rules(data, ctx) {
    const open = ctx.route.query.get('rule'), href = (/** @type {any} */ a) => relink(ctx.route, { rule: a.name === open ? null : a.name });
    return table(ctx, { rows: [...data.alerts].sort((a, b) => rank(a) - rank(b)), key: a => a.name, label: 'Rules',
        opened: a => a.name === open, inner: a => data.runbook ? runbookSection(data.runbook, a.name) : h('p.label', 'Loading'), columns: [
        { title: 'State', class: 'w-state from-s', cell: ruleState },
        { title: 'Rule', class: 'anywhere', cell: a => [h('a.quiet', { href: href(a) }, h('b', userText(a.name))), h('span.sub',
            userText(a.summary)), h('span.sub.only-s',
            ruleState(a))] },
        { title: 'Severity', class: 'from-m second', cell: a => a.severity },
        { title: 'Value', class: 'num', cell: a => a.value_text },
        { title: 'Fires', class: 'from-s second', cell: a => a.fires ?? 'always' },
        { title: 'For', class: 'num from-m second', cell: a => a.for_seconds ? rough(a.for_seconds * 1000) : h('span.label', 'at once') },
        { title: 'Since', class: 'num from-m second', cell: a => a.since ? ago(a.since, ctx) : '–' },
        { title: 'Runbook', class: 'from-s nowrap', cell: a => h('a', { href: href(a), 'aria-label': `Runbook of ${a.name}`,
            'aria-expanded': String(a.name === open) }, a.name === open ? 'Close' : 'What to do') }] });
}

/** @type {Record<string, [string, string]>} */
const SENT = { WAITING: ['SCHEDULED', 'Waiting'], SENDING: ['RUNNING', 'Sending'], SENT: ['COMPLETED', 'Sent'], FAILED: ['FAILED',
    'Failed'], DROPPED: ['SKIPPED', 'Dropped'] };

/** @param {any[]} list @param {Map<string, string>} names @param {Context} ctx */
const sent = (list, names, ctx) => table(ctx, { rows: list, key: n => n.id, label: 'Sent', columns: [
    { title: 'State', class: 'w-state', cell: n => [badge(SENT[n.state]?.[0] ?? n.state, { word: SENT[n.state]?.[1] }),
        n.state === 'WAITING' && n.attempts && n.next_attempt_at ? h('span.sub', 'again ', ago(n.next_attempt_at, ctx)) : null] },
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

/** @param {any[]} list @param {Context} ctx */
function settings(list, ctx) {
    const open = ctx.route.query.get('setting'), href = (/** @type {any} */ s) => relink(ctx.route, { setting: s.id === open ? null
        : s.id });
    return table(ctx, { rows: list, key: s => s.id, label: 'Settings', opened: s => s.id === open, inner: s => settingDetail(s, ctx),
        columns: [
        { title: 'State', class: 'w-state from-s', cell: s => !s.enabled ? badge('CANCELLED', { word: 'Off' }) : s.muted_until
            ? badge('PAUSED', { word: 'Muted' }) : badge('open', { word: 'On' }) },
        { title: 'Name', class: 'anywhere', cell: s => [h('a.quiet', { href: href(s), 'aria-expanded': String(s.id === open) },
            h('b', userText(s.name || 'without a name'))), s.muted_until ? h('span.sub', 'muted until ', when(s.muted_until, ctx))
                : null] },
        { title: 'Goes to', class: 'from-s anywhere', cell: s => destination(s.delivery_type, s.delivery_config) },
        { title: 'Told of', class: 'anywhere', cell: eventsOf },
        { title: 'Tasks', class: 'from-m anywhere second', cell: s => userText(tasksOf(s)) },
        { title: h('span.hidden-text', 'Actions'), class: 'num w-acts nowrap', hidden: !ctx.can('notifications:write'), cell: s => [
            h('button.small', { onclick: () => askSetting(ctx, s), 'aria-label': `Edit ${s.name}` }, 'Edit…'), ' ',
            h('button.small.from-s', { onclick: () => sendTest(s, ctx) }, 'Send a test')] }] });
}
