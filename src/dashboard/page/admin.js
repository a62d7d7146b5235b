// Admin: who may what? Tenants with their use, keys with their scopes, and who changed what.
import { h } from '../lib/dom.js';
import { connection, get, maybe, request } from '../lib/api.js';
import { link, relink } from '../lib/router.js';
import { count, number, parse } from '../lib/time.js';
import { newKey, newTenant, revokeKey } from '../lib/command.js';
import { copy } from '../view/dialog.js';
import { badge } from '../view/icons.js';
import { copyButton, instant, section, userText, when } from '../view/parts.js';
import { table } from '../view/table.js';

/** @typedef {import('../lib/app.js').Context} Context */

const SCOPES = ['tasks:read', 'tasks:write', 'tasks:lease', 'dlq:read', 'dlq:write', 'workflows:read', 'workflows:write',
    'workflows:signal', 'queues:read', 'queues:write', 'calendars:read', 'calendars:write', 'status:read', 'metrics:read', 'audit:read',
    'admin'];

/** @type {import('../lib/app.js').Page} */
export const page = {
    title: () => 'Admin',

    async load(ctx) {
        const q = ctx.route.query, tenant = q.get('tenant');
        const [tenants, keys, audit] = await Promise.all([maybe('/v1/tenants', { limit: 200 }), get('/v1/api-keys',
            { limit: 200, tenant }), maybe('/v1/audit', { limit: 30, object: q.get('object'), key: q.get('key'),
            cursor: q.get('cursor') })]);
        return { tenants: tenants?.tenants ?? [], keys: keys.keys, audit: audit?.audit ?? [],
            next: audit?.pagination?.next_cursor ?? null };
    },

    view(data, ctx) {
        const expiring = data.keys.filter((/** @type {any} */ k) => k.expires_at && parse(k.expires_at) - ctx.now < 14 * 86400000);
        const disabled = data.tenants.filter((/** @type {any} */ t) => t.disabled);
        return [h('header', { key: 'head' }, h('div.head', h('h1', { tabindex: -1 }, 'Admin'), h('span.second',
            `${count(data.tenants.length, 'tenant')}, ${count(data.keys.length, 'key')}`)),
            h('p.second', expiring.length ? h('b',
                `${count(expiring.length, 'key')} ${expiring.length === 1 ? 'expires' : 'expire'} within two weeks. `)
                : 'No key expires within two weeks. ', disabled.length
                ? `${count(disabled.length, 'tenant')} ${disabled.length === 1 ? 'is' : 'are'} disabled.` : '')),
        data.tenants.length ? section('tenants', 'Tenants', { more: connection.session?.tenant === 'default' ? h('button.small',
            { onclick: () => askTenant(ctx) }, 'New tenant…') : null }, tenants(data, ctx)) : null,
        section('keys', 'API keys', { note: ctx.route.query.get('tenant') ? `of ${ctx.route.query.get('tenant')}` : '',
            more: h('button.small', { onclick: () => askKey(ctx) }, 'New key…') }, keys(data, ctx)), audit(data, ctx)];
    },
};

/** @param {any} data @param {Context} ctx */
const tenants = (data, ctx) => table({ ...ctx, ui: {} }, { rows: data.tenants, key: t => t.name, label: 'Tenants', columns: [
    { title: 'State', class: 'w-state from-s', cell: t => t.disabled ? badge('PAUSED', { word: 'Disabled' }) : badge('open',
        { word: 'Active' }) }, { title: 'Tenant', class: 'anywhere', cell: t => h('a.quiet',
        { href: relink(ctx.route, { tenant: t.name }) }, h('b', userText(t.name))) },
    { title: 'Unfinished', class: 'num', cell: t => [number(t.pending), limit(t.max_pending)] }, { title: 'Recurring', class: 'num from-s',
        cell: t => [number(t.recurring), limit(t.max_recurring)] },
    { title: 'Running at once', class: 'num from-m', cell: t => t.max_running === null ? h('span.label', 'fair share')
        : number(t.max_running) }, { title: 'Creates a second', class: 'num from-m', cell: t => t.creates_per_second === null
        ? h('span.label', 'no limit') : number(t.creates_per_second) }] });

/** @param {number | null} most */
const limit = most => most === null ? '' : h('span.label', ` of ${number(most)}`);

/** @param {any} data @param {Context} ctx */
const keys = (data, ctx) => table({ ...ctx, ui: {} }, { rows: data.keys, key: k => k.id, label: 'Keys', columns: [
    { title: 'Name', class: 'anywhere', cell: k => [h('b', userText(k.name)), ' ', h('span.mono.label', k.id)] }, { title: 'Tenant',
        class: 'from-s', cell: k => userText(k.tenant) }, { title: 'May', class: 'from-m', cell: k => k.scopes.join(', ') },
    { title: 'Created', class: 'from-m nowrap', cell: k => when(k.created_at, ctx) }, { title: 'Expires', class: 'nowrap',
        cell: k => k.expires_at ? when(k.expires_at, ctx) : h('span.label', 'never') },
    { title: h('span.hidden-text', 'Actions'), class: 'num w-acts',
        cell: k => h('button.small', { onclick: () => ctx.act(revokeKey(k, connection.session?.tenant), { name: k.name }) }, 'Revoke…') }] });

/** @param {any} data @param {Context} ctx */
function audit(data, ctx) {
    const q = ctx.route.query, object = q.get('object');
    return section('audit', 'Audit', { note: object ? ['of ', h('span.mono', object), ' ', h('a', { href: link(['admin']) }, 'all')]
        : 'who changed what, newest first', more: copyButton('belfry audit', 'CLI') }, data.audit.length ? table(ctx,
        { rows: data.audit, key: a => a.id, label: 'Audit', columns: [
        { title: 'When', class: 'nowrap', cell: a => instant(a.at, ctx) }, { title: 'Who', class: 'anywhere',
            cell: a => [userText(a.key), h('span.label.from-m', ' ', a.address)] }, { title: 'What', class: 'anywhere',
            cell: a => a.action.replace('/v1/', '') },
        { title: 'On', class: 'from-s anywhere', cell: a => a.object_kind === 'task' && a.object ? h('a.quiet',
            { href: link(['tasks', a.object]) }, userText(a.object_name ?? a.object)) : userText(a.object_name ?? a.object ?? '–') },
            { title: 'Outcome', class: 'from-m', cell: a => a.outcome.toLowerCase() }, { title: 'Count', class: 'num from-m',
            cell: a => number(a.count) }] }) : h('p.second', 'Nothing was changed yet.'),
    h('p.pager', q.get('cursor') ? h('a', { href: relink(ctx.route, { cursor: null }) }, 'latest') : null, data.next ? h('a',
        { href: relink(ctx.route, { cursor: data.next }) }, 'older') : null));
}

/** @param {Context} ctx */
function askKey(ctx) {
    const tenant = ctx.route.query.get('tenant');
    const make = (/** @type {Record<string, any>} */ v) => newKey(v, tenant, Date.now());
    ctx.ask({ title: tenant ? `New key of ${tenant}` : 'New key', confirm: 'Create', action: make,
        fields: [{ name: 'name', label: 'Name', hint: 'who or what will use it' }, { name: 'scopes', label: 'May',
        value: 'tasks:read, tasks:write', hint: SCOPES.join(', '), mono: true }, { name: 'days', label: 'Expires after, days',
        type: 'number', value: '90', hint: 'empty: never' }],
        submit: async v => {
            const made = await request('/v1/api-keys', { method: 'POST', body: make(v).body });
            ctx.reload();
            setTimeout(() => ctx.ask({ title: `The key ${made.name}`, confirm: 'Copy it', keep: 'Close',
                body: [h('p', 'It is shown once and is not stored. Copy it now.'), h('pre.command', made.key)],
                submit: () => copy(made.key) }));
        } });
}

/** @param {Context} ctx */
function askTenant(ctx) {
    const make = newTenant;
    ctx.ask({ title: 'New tenant', confirm: 'Create', action: make, fields: [{ name: 'name', label: 'Name' }, { name: 'max_pending',
        label: 'Unfinished tasks at most', type: 'number', hint: 'empty: no limit' }],
        submit: async v => { await request('/v1/tenants', { method: 'POST',
            body: make(v).body }); ctx.toast(`Tenant ${v.name} is created`); ctx.reload(); } });
}
