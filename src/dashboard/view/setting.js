// A notification setting: where it tells, the form that makes or changes one, and what can be done with it.
import { h } from '../lib/dom.js';
import { fieldProblem, isOperator, request } from '../lib/api.js';
import { duration } from '../lib/time.js';
import { changeSetting, muteSetting, newSetting, removeSetting, testSetting } from '../lib/command.js';
import { actionList, userText, when } from './parts.js';

/** @typedef {import('../lib/app.js').Context} Context */
/** @typedef {import('./dialog.js').Field} Field */

const STEPS = 5;

/** @type {Record<string, string>} */
export const CHANNELS = { EMAIL: 'mail', SLACK_WEBHOOK: 'Slack', HTTP_WEBHOOK: 'webhook', PUSH: 'push' };

/** @type {[string, string, string][]} */
const EVENTS = [['on_failure', 'failure', 'a task has failed for good'], ['on_recovered', 'recovered', 'recurring tasks succeed again'],
    ['on_dead_letter', 'dead letter', 'as failure, but not for steps of workflows'],
    ['on_missed', 'missed', 'a run expired or was skipped because it was missed'],
    ['on_retry', 'retry', 'an attempt failed, and another follows'], ['on_success', 'success', 'a task is completed'],
    ['on_alert', 'alert', 'a rule of this page fires']];

// Rules are of the whole installation.
const offered = () => EVENTS.filter(([field]) => field !== 'on_alert' || isOperator());

/** @type {any[]} what a webhook may sign with */
let keys = [];
/** @param {any[]} list */
export const knowKeys = list => { keys = list; };

/** @param {string | undefined} present @returns {[string, string][]} */
const keyOptions = present => [['', 'none of its own'], ...keys.map(k => /** @type {[string, string]} */ ([k.id,
    `${k.name || k.id.slice(0, 13)}, ${k.host ?? 'all others'}`])), ...present && !keys.some(k => k.id === present)
    ? [/** @type {[string, string]} */ ([present, present])] : []];

/** @param {any} s */
export const eventsOf = s => EVENTS.filter(([field]) => s[field]).map(([, word]) => word).join(', ') || 'nothing';

// Where messages go.
/** @param {string} type @param {any} config */
export function destination(type, config) {
    const word = CHANNELS[type] ?? type;
    if (type === 'EMAIL') return [word, ' to ', userText((config.to ?? []).join(', '))];
    if (type === 'SLACK_WEBHOOK') return [word, h('span.label', ', the address is secret')];
    return [word, ' ', userText(`${config.url ?? ''}${config.topic ? `, topic ${config.topic}` : ''}`), config.secret || config.signing_key
        ? h('span.label', ', signed') : null];
}

/** @param {any} s */
export const tasksOf = s => Object.entries(s.filter ?? {}).filter(([, v]) => v).map(([k, v]) => `${k.replace('_', ' ')} ${v}`).join(', ')
    || 'all';

// The fields of a channel.
/** @param {string} type @param {any} config @param {string} [place] of a step: 'steps[0].' @returns {Field[]} */
function channelFields(type, config, place = '') {
    const secret = (/** @type {any} */ value) => value ? '*** keeps the present one; empty removes it' : 'may be empty';
    /** @param {string} name @param {string} label @param {string} hint @param {Partial<Field>} [more] @returns {Field} */
    const field = (name, label, hint, more = {}) => ({ name: `${place}delivery_config.${name}`, label, hint, value: config[name] ?? '', mono: true,
        ...more });
    if (type === 'EMAIL') return [field('to', 'To', 'up to 20 addresses, separated by commas', { value: (config.to ?? []).join(', ') })];
    if (type === 'SLACK_WEBHOOK') return [field('url', 'Incoming webhook', config.url ? '*** keeps the present one'
        : 'Slack gives it; it is kept as a secret',
        { placeholder: 'https://hooks.slack.com/services/…' })];
    if (type === 'PUSH') return [field('url', 'ntfy server', 'a POST goes there', { placeholder: 'https://ntfy.example.com' }),
        field('topic', 'Topic', 'to which phones subscribe'), field('token', 'Token', `bearer token; ${secret(config.token)}`),
        field('priority', 'Priority', '1 to 5; empty: the server’s', { type: 'number', value: config.priority ? String(config.priority)
            : '' })];
    return [field('url', 'URL', 'a POST goes there', { placeholder: 'https://hooks.example.com/belfry' }),
        field('secret', 'Secret', `signs messages: whsec_ and base64; ${secret(config.secret)}`),
        field('signing_key', 'Signing key', 'signs in place of a secret', { type: 'select', mono: false, options: keyOptions(config.signing_key) })];
}

/** @type {[string, string][]} */
const BY = [['HTTP_WEBHOOK', 'Webhook'], ['SLACK_WEBHOOK', 'Slack'], ['PUSH', 'Push (ntfy)'], ['EMAIL', 'Mail']];

// Whom else it is told, and after which time. The fields of the next step come when this one has a time.
/** @param {any} s @param {Record<string, any>} v @param {number} [i] @returns {Field[]} */
function stepFields(s, v, i = 0) {
    const step = s.steps[i], place = `steps[${i}].`, after = v[place + 'after'] ?? step?.after ?? '';
    const type = v[place + 'delivery_type'] ?? step?.delivery_type ?? 'HTTP_WEBHOOK', kept = type === step?.delivery_type ? step.delivery_config : {};
    if (i === STEPS) return [];
    return [{ name: place + 'after', label: i ? `Step ${i + 1}, if nobody does for` : 'If nobody acknowledges it for', value: step?.after ?? '', placeholder: '15m',
        hint: `since it began; empty: ${i ? 'no further step' : 'nobody else is told'}` }, ...after.trim() ? [{ name: place + 'delivery_type',
        label: `Step ${i + 1}, by`, type: 'select', value: type, options: BY }, ...channelFields(type, kept, place).map(f => ({ ...f,
        label: `Step ${i + 1}, ${f.label}` })), ...stepFields(s, v, i + 1)] : []];
}

/** @param {any} s @param {Record<string, any>} v @returns {Field[]} */
function fieldsOf(s, v) {
    const type = v.delivery_type ?? s.delivery_type, kept = type === s.delivery_type ? s.delivery_config : {};
    return [{ name: 'name', label: 'Name', value: s.name ?? '', hint: 'who is told' }, { name: 'user_id', label: 'Of the user', value: s.user_id ?? '', hint: 'whose setting it is; may be empty' },
        { name: 'delivery_type', label: 'By', type: 'select', value: s.delivery_type, options: BY },
        ...channelFields(type, kept),
        { name: 'events', label: 'Told of', type: 'checks', value: EVENTS.map(([field]) => field).filter(field => s[field]),
            options: offered() },
        ...[['queue', 'Only of the queue'], ['name', 'Only of tasks named'], ['task_type', 'Only of the task type']].map(([name,
            label]) => (
            { name: 'filter.' + name, label, value: s.filter[name] ?? '', hint: 'empty: all; mail* for all that begin so' })),
        { name: 'mode', label: 'Tell', type: 'select', value: s.mode, options: [['CHANGES',
            'that it fails, and that it is well again'],
            ['EVERY', 'every group of happenings']] },
        { name: 'after', label: 'After failures in a row', type: 'number', value: String(s.after) },
        { name: 'group_wait', label: 'Gather for', value: s.group_wait, hint: 'from the first happening to the message' },
        { name: 'group_window', label: 'Over when quiet for', value: s.group_window, hint: 'for incidents without recurring tasks' },
        { name: 'repeat_every', label: 'Repeat every', value: s.repeat_every, hint: 'until somebody acknowledges it' },
        { name: 'max_per_hour', label: 'Messages an hour, at most', type: 'number', value: String(s.max_per_hour) },
        ...stepFields(s, v)];
}

const FRESH = { name: '', delivery_type: 'HTTP_WEBHOOK', delivery_config: {}, on_failure: true, on_recovered: true, filter: {},
    mode: 'CHANGES', after: 1,
    group_wait: '10s', group_window: '5m', repeat_every: '4h', max_per_hour: 60, steps: /** @type {any[]} */ ([]) };

/** @param {Record<string, any>} v @param {string} place @returns {{delivery_type: string, delivery_config: Record<string, any>}} */
function channelOf(v, place) {
    /** @type {Record<string, any>} */
    const config = {}, type = v[place + 'delivery_type'];
    for (const { name } of channelFields(type, {}, place)) {
        const key = name.slice((place + 'delivery_config.').length), text = String(v[name] ?? '').trim();
        if (key === 'to') config.to = text.split(/[\s,;]+/).filter(Boolean);
        else if (text) config[key] = key === 'priority' ? Number(text) : text;
    }
    return { delivery_type: type, delivery_config: config };
}

/** @param {Record<string, any>} v */
function stepsOf(v) {
    const steps = [];
    for (let i = 0; i < STEPS && v[`steps[${i}].after`]?.trim(); i++) steps.push({ after: v[`steps[${i}].after`].trim(), ...channelOf(v, `steps[${i}].`) });
    return steps;
}

// What the form says, as the fields of a setting.
/** @param {Record<string, any>} v @returns {Record<string, any>} */
export function settingOf(v) {
    return { name: v.name, user_id: v.user_id?.trim() || null, ...channelOf(v, ''),
        ...Object.fromEntries(offered().map(([field]) => [field, v.events.includes(field)])),
        filter: Object.fromEntries(['queue', 'name', 'task_type'].map(n => [n, v['filter.' + n]?.trim() || null])), mode: v.mode,
        after: Number(v.after), group_wait: v.group_wait.trim(), group_window: v.group_window.trim(), repeat_every: v.repeat_every.trim(),
        max_per_hour: Number(v.max_per_hour), steps: stepsOf(v) };
}

// Of these, only what differs.
/** @param {Record<string, any>} wanted @param {any} s */
export function settingChange(wanted, s) {
    /** @param {any} value @returns {string} */
    const plain = value => JSON.stringify(Array.isArray(value) ? value.map(plain) : value && typeof value === 'object'
        ? Object.entries(value).filter(([, x]) => x !== null && x !== '').map(([k, x]) => [k, plain(x)]).sort(([a], [b]) => a < b ? -1 : 1)
        : value ?? false);
    const change = Object.fromEntries(Object.entries(wanted).filter(([name, value]) => plain(value) !== plain(s[name]
        ?? (Array.isArray(value) ? [] : undefined))));
    return 'delivery_type' in change ? { ...change, delivery_config: wanted.delivery_config } : change;
}

// Whether a form names the setting and where it tells: a command that lacks them would fail.
/** @param {Record<string, any>} v */
const complete = v => v.name.trim() && ['url', 'topic', 'to'].every(n => v['delivery_config.' + n]?.trim() !== ''
    || !channelFields(v.delivery_type, {}).some(f => f.name.endsWith('.' + n)));

/** @param {Context} ctx @param {any} [setting] without: a new one */
export function askSetting(ctx, setting) {
    const s = setting ?? FRESH;
    const make = (/** @type {Record<string, any>} */ v) => setting ? changeSetting(setting, settingChange(settingOf(v), s))
        : newSetting(settingOf(v));
    ctx.ask({ title: setting ? `Change ${setting.name}` : 'New setting', confirm: setting ? 'Save' : 'Create', keep: 'Close', wide: true,
        action: v => setting || complete(v) ? make(v) : null,
        body: h('p.second', 'Belfry tells once what belongs together, not once for each task.'), fields: v => fieldsOf(s, v),
        submit: async v => {
            const action = make(v);
            if (setting && !Object.keys(action.body).length) return;
            await request(action.path, { method: action.method, body: action.body, etag: action.etag });
            ctx.toast(setting ? `${v.name} is changed` : `${v.name} is told from now on. Send a test to see that it arrives`);
            ctx.reload();
        } });
}

/** @param {Context} ctx @param {any} setting */
function askMute(ctx, setting) {
    ctx.ask({ title: `Mute ${setting.name}?`, confirm: 'Mute', keep: 'Keep telling', action: v => muteSetting(setting, v.for),
        body: h('p', 'Nothing is told meanwhile. ', h('span.second', 'Incidents that are still open then are told.')),
        fields: [{ name: 'for', label: 'For', value: '2h', hint: 'such as 30m, 8h, 2d' }],
        submit: async v => {
            if (!(duration(v.for) > 0)) throw fieldProblem('for', `${v.for || 'nothing'} is no duration: write it like 2h`);
            await ctx.act({ ...muteSetting(setting, v.for), label: 'Mute', done: `${setting.name} is muted` });
        } });
}

/** @param {any} setting @param {Context} ctx */
export async function sendTest(setting, ctx) {
    const action = testSetting(setting);
    try {
        const done = await request(action.path, { method: action.method });
        ctx.toast(done.state === 'SENT' ? `${setting.name}: the test message was sent${done.error ? `; ${done.error}` : ''}`
            : `${setting.name}: ${done.error ?? String(done.state).toLowerCase()}`, { bad: done.state !== 'SENT' || !!done.error });
    } catch (error) {
        ctx.toast(`${setting.name}: ${/** @type {Error} */ (error).message}`, { bad: true });
    }
    ctx.reload();
}

// All about one setting, below its row.
/** @param {any} s @param {Context} ctx */
export function settingDetail(s, ctx) {
    const change = (/** @type {string} */ label, /** @type {any} */ body, /** @type {string} */ hint, /** @type {string} */ done) => (
        { ...changeSetting(s, body), label, hint, done });
    return h('div.columns', h('div.c7.stack', h('p', 'Told by ', destination(s.delivery_type, s.delivery_config), ' of ', eventsOf(s),
        '; tasks: ',
        userText(tasksOf(s)), '.'), h('p.second',
            `It gathers for ${s.group_wait}, ${s.mode === 'EVERY' ? 'tells every group' : 'tells changes'}`,
        s.after > 1 ? ` after ${s.after} failures in a row` : '', `, repeats every ${s.repeat_every}, at most ${s.max_per_hour} an hour.`),
    s.steps.map((/** @type {any} */ step, /** @type {number} */ i) => h('p.second', { key: i },
        `If nobody acknowledges it for ${step.after}: `,
        destination(step.delivery_type, step.delivery_config), '.')), s.muted_until ? h('p', 'Muted until ', when(s.muted_until, ctx), '.')
            : null),
    h('div.c5', actionList(ctx, [
        { ...changeSetting(s, {}), label: 'Edit…', ask: () => askSetting(ctx, s) },
        { ...testSetting(s), label: 'Send a test', ask: () => sendTest(s, ctx) },
        s.muted_until ? { ...muteSetting(s, ''), hint: 'tell again', done: `${s.name} is told again` }
            : { ...muteSetting(s, '2h'), ask: () => askMute(ctx, s) },
        s.enabled ? change('Turn off', { enabled: false }, 'open incidents are closed', `${s.name} is off`)
            : change('Turn on', { enabled: true }, '', `${s.name} is on`), { ...removeSetting(s), ask: () => ctx.act(removeSetting(s),
                s) }])));
}
