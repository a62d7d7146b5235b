// Admin: who may what? Tenants with their use, keys with their scopes, keys that sign, and who changed what.
import { h } from '../lib/dom.js';
import { connection, maybe, request } from '../lib/api.js';
import { link, relink } from '../lib/router.js';
import { count, number, parse } from '../lib/time.js';
import { newKey, newSigningKey, newTenant, removeSigningKey, revokeKey, rotateSigningKey } from '../lib/command.js';
import { auditSentence } from '../view/audit.js';
import { copy } from '../view/dialog.js';
import { badge, icon } from '../view/icons.js';
import { copyButton, instant, section, userText, when } from '../view/parts.js';
import { SCOPES } from '../view/scopes.js';
import { table } from '../view/table.js';

/** @typedef {import('../lib/app.js').Context} Context */

/** @type {import('../lib/app.js').Page} */
export const page = {
    title: () => 'Admin',

    async load(ctx) {
        const q = ctx.route.query, tenant = q.get('tenant'), own = !tenant || tenant === connection.session?.tenant;
        /** @param {boolean} may @param {string} path @param {Record<string, any>} query */
        const known = (may, path, query) => may ? maybe(path, query) : null;
        const [tenants, keys, audit, signing] = await Promise.all([known(ctx.can('admin'), '/v1/tenants', { limit: 200 }),
            known(ctx.can('admin'), '/v1/api-keys', { limit: 200, tenant }), known(ctx.can('audit:read'), '/v1/audit', { limit: 30,
                object: q.get('object'), key: q.get('key'), cursor: q.get('cursor') }),
            known(own && ctx.can('signing-keys:read'), '/v1/signing-keys', { limit: 100 })]);
        return { tenants: tenants?.tenants ?? [], keys: keys?.keys ?? [], audit: audit?.audit ?? [],
            signing: signing?.signing_keys ?? null, next: audit?.pagination?.next_cursor ?? null };
    },

    view(data, ctx) {
        const expiring = data.keys.filter((/** @type {any} */ k) => k.expires_at && parse(k.expires_at) - ctx.now < 14 * 86400000);
        const disabled = data.tenants.filter((/** @type {any} */ t) => t.disabled), admin = ctx.can('admin');
        return [h('header', { key: 'head' }, h('div.head', h('h1', { tabindex: -1 }, 'Admin'), h('span.second', admin
            ? `${count(data.tenants.length, 'tenant')}, ${count(data.keys.length, 'key')}` : '')),
            h('p.second', !admin ? 'This key may not see tenants and API keys.' : expiring.length ? h('b',
                `${count(expiring.length, 'key expires', 'keys expire')} within two weeks. `)
                : 'No key expires within two weeks. ', disabled.length
                ? `${count(disabled.length, 'tenant is', 'tenants are')} disabled.` : '')),
        data.tenants.length ? section('tenants', 'Tenants', { more: connection.session?.tenant === 'default' ? h('button.small',
            { onclick: () => askTenant(ctx) }, 'New tenant…') : null }, tenants(data, ctx)) : null,
        admin ? section('keys', 'API keys', { note: ctx.route.query.get('tenant') ? `of ${ctx.route.query.get('tenant')}` : '',
            more: h('button.small', { onclick: () => askKey(ctx) }, 'New key…') }, keys(data, ctx)) : null,
        data.signing ? signingSection(data.signing, ctx) : null, ctx.can('audit:read') ? audit(data, ctx) : null];
    },
};

/** @param {any} data @param {Context} ctx */
const tenants = (data, ctx) => table(ctx, { rows: data.tenants, key: t => t.name, label: 'Tenants', columns: [
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
const keys = (data, ctx) => table(ctx, { rows: data.keys, key: k => k.id, label: 'Keys', columns: [
    { title: 'Name', class: 'anywhere', cell: k => [h('b', userText(k.name)), ' ', h('span.mono.label', k.id)] }, { title: 'Tenant',
        class: 'from-s', cell: k => userText(k.tenant) }, { title: 'May', class: 'from-m', cell: k => k.scopes.join(', ') },
    { title: 'Created', class: 'from-m nowrap', cell: k => when(k.created_at, ctx) }, { title: 'Expires', class: 'nowrap',
        cell: k => k.expires_at ? when(k.expires_at, ctx) : h('span.label', 'never') },
    { title: h('span.hidden-text', 'Actions'), class: 'num w-acts',
        cell: k => h('button.small', { onclick: () => askRevoke(data, ctx, k), 'aria-label': `Revoke ${k.name}` }, 'Revoke…') }] });

// What ends with a key. A key that locks people out is told apart.
/** @param {any} data @param {Context} ctx @param {any} key */
function askRevoke(data, ctx, key) {
    const action = revokeKey(key, connection.session?.tenant), own = key.id === connection.session?.key_id;
    const admins = data.keys.filter((/** @type {any} */ k) => k.tenant === key.tenant && k.scopes.includes('admin')
        && !(parse(k.expires_at) <= ctx.now));
    const last = key.scopes.includes('admin') && admins.length === 1;
    ctx.ask({ title: `Revoke ${key.name}?`, danger: true, confirm: 'Revoke', keep: 'Keep it', action: () => action, body: [
        h('p', 'Requests with it are refused from now on, and browsers that logged in with it are logged out. Tasks that it made stay. ',
            h('span.second', `It may: ${key.scopes.join(', ')}. It cannot be taken back.`)),
        own ? h('p.state.wraps', { 'data-tone': 'fail' }, icon('late'), h('b', 'It is the key of this session: you are logged out.'))
            : null,
        last ? h('p.state.wraps', { 'data-tone': 'fail' }, icon('late'), h('b', `It is the last admin key of ${key.tenant}: `,
            key.tenant === 'default'
            ? 'the server refuses it. Create another first.' : 'only an admin of default can make keys for it then.')) : null],
        submit: async () => {
            await request(action.path, { method: action.method });
            ctx.toast(`${key.name} is revoked`);
            ctx.reload();
        } });
}

/** @param {any} data @param {Context} ctx */
function audit(data, ctx) {
    const q = ctx.route.query, object = q.get('object'), names = new Map(data.keys.map((/** @type {any} */ k) => [k.id, k.name]));
    return section('audit', 'Audit', { note: object ? ['of ', h('span.mono', object), ' ', h('a', { href: link(['admin']) }, 'all')]
        : 'who changed what, newest first', more: copyButton('belfry audit', 'CLI') }, data.audit.length ? table(ctx,
        { rows: data.audit, key: a => a.id, label: 'Audit', columns: [
        { title: 'When', class: 'nowrap', cell: a => instant(a.at, ctx) }, { title: 'Who did what', class: 'anywhere',
            cell: a => [a.key ? userText(a.key_name ?? names.get(a.key) ?? a.key) : h('span.label', 'somebody without a key'), ' ',
                auditSentence(a, ctx)] },
        { title: 'From', class: 'from-m second', cell: a => [a.address ?? '–', a.key_name || names.has(a.key) ? h('span.mono.label', ` ${a.key}`) : ''] },
        { title: 'As the API has it', class: 'from-m mono second anywhere', cell: a => a.action.replace('/v1/', '') }] }) : h('p.second',
            'Nothing was changed yet.'),
    h('p.pager', q.get('cursor') ? h('a', { href: relink(ctx.route, { cursor: null }) }, 'latest') : null, data.next ? h('a',
        { href: relink(ctx.route, { cursor: data.next }) }, 'older') : null));
}

/** @param {Context} ctx */
function askKey(ctx) {
    const tenant = ctx.route.query.get('tenant');
    const make = (/** @type {Record<string, any>} */ v) => newKey(v, tenant, Date.now());
    ctx.ask({ title: tenant ? `New key of ${tenant}` : 'New key', confirm: 'Create', action: v => v.name.trim() && v.scopes.length ? make(v) : null, wide: true,
        fields: [{ name: 'name', label: 'Name', hint: 'who or what will use it' }, { name: 'scopes', label: 'May', type: 'checks',
        value: ['tasks:read', 'tasks:write'], options: SCOPES }, { name: 'days', label: 'Expires after, days',
        type: 'number', value: '90', hint: 'empty: never' }],
        submit: async v => {
            const made = await request('/v1/api-keys', { method: 'POST', body: make(v).body });
            ctx.reload();
            showOnce(ctx, `The key ${made.name}`, 'It is shown once and is not stored. Copy it now.', made.key);
        } });
}

/** @param {Context} ctx */
function askTenant(ctx) {
    const make = newTenant;
    ctx.ask({ title: 'New tenant', confirm: 'Create', action: v => v.name.trim() ? make(v) : null, fields: [{ name: 'name', label: 'Name' }, { name: 'max_pending',
        label: 'Unfinished tasks at most', type: 'number', hint: 'empty: no limit' }],
        submit: async v => { await request('/v1/tenants', { method: 'POST',
            body: make(v).body }); ctx.toast(`Tenant ${v.name} is created`); ctx.reload(); } });
}

// ---- the keys that sign calls and messages. Their secrets are shown once.

/** @type {[string, string][]} */
const ALGORITHMS = [['HMAC_SHA256', 'HMAC-SHA256: a secret that both know'], ['ED25519', 'Ed25519: receivers get a public key']];

/** @param {any[]} keys @param {Context} ctx */
const signingSection = (keys, ctx) => section('signing', 'Signing keys', { note: 'what Belfry sends is signed with them', more: [
    copyButton('belfry signing-keys list', 'CLI'), ' ', ctx.can('signing-keys:write') ? h('button.small', { onclick: () => askSigningKey(ctx) }, 'New signing key…')
        : null] }, keys.length ? signingKeys(keys, ctx) : h('p.second', 'Nothing is signed, except by a secret of a notification setting.'));

/** @param {any[]} keys @param {Context} ctx */
const signingKeys = (keys, ctx) => table(ctx, { rows: keys, key: k => k.id, label: 'Signing keys', columns: [
    { title: 'Name', class: 'anywhere', cell: k => [h('b', userText(k.name || 'without a name')), ' ', h('span.mono.label.from-m', k.id)] },
    { title: 'Signs for', class: 'anywhere', cell: k => k.host ? userText(k.host) : 'all other hosts' },
    { title: 'Algorithm', class: 'from-s', cell: k => k.algorithm },
    { title: 'Older secrets', class: 'from-m', cell: k => k.older.length ? k.older.map((/** @type {any} */ o) => h('span.sub', { key: o.signs_until },
        `${o.algorithm}, until `, when(o.signs_until, ctx), ' ', o.public_key ? copyButton(o.public_key, 'Public key') : null)) : h('span.label', 'none') },
    { title: h('span.hidden-text', 'Actions'), class: 'num w-acts', cell: k => [k.public_key ? copyButton(k.public_key, 'Public key') : null, ' ',
        ctx.can('signing-keys:write') ? [h('button.small', { onclick: () => askRotate(ctx, k), 'aria-label': `Rotate ${k.name}` }, 'Rotate…'), ' ',
            h('button.small', { onclick: () => ctx.act(removeSigningKey(k), k), 'aria-label': `Remove ${k.name}` }, 'Remove…')] : null] }] });

// A secret that one gets to see once.
/** @param {Context} ctx @param {string} title @param {string} says @param {string} secret */
const showOnce = (ctx, title, says, secret) => setTimeout(() => ctx.ask({ title, confirm: 'Copy it', keep: 'Close',
    body: [h('p', says), h('pre.command', secret)], submit: () => copy(secret) }));

/** @param {Context} ctx @param {import('../lib/command.js').Action} action */
async function makeSecret(ctx, action) {
    const made = await request(action.path, { method: action.method, body: action.body });
    ctx.reload();
    if (made.secret) showOnce(ctx, `The secret of ${made.name}`, 'It is shown once. Copy it now, and give it to the receivers.', made.secret);
    else showOnce(ctx, `The public key of ${made.name}`, 'Give it to the receivers. It stays in the list.', made.public_key);
}

/** @param {Context} ctx */
const askSigningKey = ctx => ctx.ask({ title: 'New signing key', confirm: 'Create', action: v => v.name.trim() ? newSigningKey(v) : null, fields: [
    { name: 'name', label: 'Name' }, { name: 'algorithm', label: 'Algorithm', type: 'select', value: 'HMAC_SHA256', options: ALGORITHMS },
    { name: 'host', label: 'Host', mono: true, placeholder: '*.example.com', hint: 'empty: all hosts that no other key is for' }],
submit: v => makeSecret(ctx, newSigningKey(v)) });

/** @param {Context} ctx @param {any} key */
const askRotate = (ctx, key) => ctx.ask({ title: `Rotate ${key.name}?`, confirm: 'Rotate', keep: 'Keep it', body: h('p',
    'A new secret is made. The present one signs as well for a while, so that receivers can change.'), action: v => rotateSigningKey(key, v.overlap),
fields: [{ name: 'overlap', label: 'Both sign for', value: '24h', hint: '0s to 30d; older secrets end then too' }],
submit: v => makeSecret(ctx, rotateSigningKey(key, v.overlap.trim())) });
