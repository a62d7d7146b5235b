// A task, new or changed: the form, and what its schedule would do while one types. A change by somebody else in between is shown field by
// field, never overwritten unseen.
import { h } from '../lib/dom.js';
import { get, maybe, Problem, request } from '../lib/api.js';
import { go, link } from '../lib/router.js';
import { parse, zoneOf } from '../lib/time.js';
import { curl, saveTask } from '../lib/command.js';
import { fieldNamed, fieldOf } from '../view/dialog.js';
import { icon } from '../view/icons.js';
import { copyButtons, pretty, section, userText } from '../view/parts.js';
import { compareFires, firesDiff } from '../view/fires.js';
import { cronInWords } from '../view/schedule.js';

/** @typedef {import('../lib/app.js').Context} Context */

const PREVIEW_AFTER_MS = 250, FIRES = 20;
/** @type {any} */
let timer = 0;

/** @type {import('../lib/app.js').Page} */
export const page = {
    title: (route, data) => route.parts[1] === 'new' ? 'New task' : `Edit ${data?.task?.name ?? ''}`,

    async load(ctx, before) {
        if (before) return before; // what one types is not loaded away
        const id = ctx.route.parts[1], path = `/v1/tasks/${encodeURIComponent(id)}`, [queues,
            calendars, settings] = await Promise.all([maybe('/v1/queues', { limit: 200 }), maybe('/v1/calendars',
            { limit: 200 }), ctx.can('notifications:read') ? maybe('/v1/notification-settings', { limit: 100 }) : null]);
        const names = { settings: settings?.notification_settings ?? [], queues: (queues?.queues ?? []).map((/** @type {any} */ q) => q.name),
            calendars: (calendars?.calendars ?? []).map((/** @type {any} */ c) => c.name) };
        if (id === 'new') {
            ctx.ui.values = { ...valuesOf({ notify: [], queue: 'default', priority: 5, target_type: 'HTTP_CALLBACK', target_config: { method: 'POST' },
                retry: { max_attempts: 5 }, time_zone: zoneOf('local') }), when: 'cron', cron_expression: '0 8 * * MON-FRI' };
            preview(ctx);
            return { task: null, names, upcoming: [] };
        }
        const [task, upcoming] = await Promise.all([get(path), maybe(path + '/upcoming', { count: FIRES })]);
        ctx.ui.values = valuesOf(task);
        ctx.ui.preview = upcoming?.upcoming ?? [];
        ctx.ui.warnings = upcoming?.warnings ?? [];
        return { task, names, upcoming: upcoming?.upcoming ?? [] };
    },

    view(data, ctx) {
        const { task } = data, values = ctx.ui.values;
        if (!values) return h('p.label', 'Loading');
        const changed = () => { preview(ctx); ctx.set({}); };
        const errors = ctx.ui.errors ?? {}, change = changeOf(task, values), some = Object.keys(change).length > 0;
        const action = saveTask(task, change);
        const zone = values.time_zone || 'UTC', fires = ctx.ui.preview;
        return [h('header.head', { key: 'head' }, h('a', { href: link(['tasks']) }, 'Tasks'), h('span.label', '/'),
            task ? [h('a', { href: link(['tasks', task.id]) }, userText(task.name ?? 'task')), h('span.label', '/')] : null,
            h('h1', { tabindex: -1 }, task ? 'Edit' : 'New task'), h('span.grow'),
            h('a.button', { href: task ? link(['tasks', task.id]) : link(['tasks']) }, 'Leave'), h('button.primary',
                { disabled: task && !some, onclick: () => save(ctx, data, action) }, task ? 'Save' : 'Create')),
        ctx.ui.conflict ? conflict(ctx, data, change) : null,
        ctx.ui.problem ? h('p.error', { role: 'alert', key: 'problem' }, icon('failed'), ctx.ui.problem) : null,
        h('div.split', { key: 'split' }, h('div.stack',
            section('schedule', 'Schedule', {}, h('div.form', fields(values, data).filter(f => f.group === 'schedule').map(f => fieldOf(f,
                values, errors[f.name], false, changed)))),
            section('preview', 'What it does', { note: values.when === 'cron' ? cronInWords(values.cron_expression ?? '') ?? '' : '' },
                (ctx.ui.warnings ?? []).map((/** @type {any} */ w) => h('p.hold', { role: 'status', key: w.field }, icon('late'),
                    `${labelOf(values, w.field)}: ${w.message}`)),
                ctx.ui.previewError ? h('p.error', { role: 'status' }, icon('failed'), ctx.ui.previewError)
                : fires && firesDiff(compareFires(task ? data.upcoming : [], fires), zone, !!task && data.upcoming.length > 0))),
        h('div.stack', section('task', 'Task', {}, h('div.form', fields(values, data).filter(f => f.group === 'task').map(f => fieldOf(f,
            values, errors[f.name], false, changed)))),
            task && some ? section('changes', 'What changes', {}, h('table',
                h('thead', h('tr', h('th', 'Field'), h('th', 'Now'), h('th', 'Then'))),
                h('tbody', Object.entries(change).map(([name, value]) => h('tr', { key: name }, h('td', labelOf(values, name)),
                    h('td.mono.second.anywhere',
                userText(text(task[name]))), h('td.mono.anywhere', userText(text(value)))))))) : null,
            section('commands', 'As a command', {}, h('div.chips', copyButtons(action)), h('pre.command', curl(action, location.origin)))))];
    },
};

/** @param {any} value */
const text = value => value === undefined || value === null ? '–' : typeof value === 'object' ? pretty(value) : String(value);

/** @param {any} task @returns {Record<string, any>} */
function valuesOf(task) {
    const config = task.target_config ?? {};
    return { name: task.name ?? '', when: task.cron_expression ? 'cron' : task.interval_seconds ? 'every' : 'once',
        cron_expression: task.cron_expression ?? '', time_zone: task.time_zone ?? '', interval_seconds: task.interval_seconds
        ? String(task.interval_seconds) : '', run_at: task.run_at ?? '',
        calendar: task.calendar ?? '', overlap_policy: task.overlap_policy ?? 'SKIP', queue: task.queue ?? 'default',
            priority: String(task.priority ?? 5), target_type: task.target_type, url: config.url ?? '', method: config.method ?? 'POST',
        payload: task.payload === undefined || task.payload === null ? '' : pretty(task.payload), timeout_ms: task.timeout_ms
            ? String(task.timeout_ms) : '', max_attempts: String(task.retry?.max_attempts ?? 5),
            concurrency_key: task.concurrency_key ?? '', expects: task.expect?.within_seconds ? 'within' : task.expect ? 'by' : '',
        success_by: task.expect?.success_by ?? '', days: task.expect?.days ?? '', within_seconds: String(task.expect?.within_seconds ?? ''),
        notify: task.notify ?? [] };
}

/** @param {Record<string, any>} v @param {any} data @returns {(import('../view/dialog.js').Field & {group: string})[]} */
function fields(v, data) {
    const zones = /** @type {any} */ (Intl).supportedValuesOf?.('timeZone') ?? [];
    const schedule = [{ group: 'schedule', name: 'when', label: 'When', type: 'select', value: v.when,
        options: /** @type {[string, string][]} */ ([['cron', 'by a cron expression'], ['every', 'at an interval'], ['once', 'once']]) },
        ...v.when === 'cron' ? [{ group: 'schedule', name: 'cron_expression', label: 'Expression', mono: true,
            hint: cronInWords(v.cron_expression ?? '') ?? 'minute hour day month weekday' }, { group: 'schedule', name: 'time_zone',
            label: 'Time zone', list: zones }] : [],
        ...v.when === 'every' ? [{ group: 'schedule', name: 'interval_seconds', label: 'Every, seconds', type: 'number' }] : [],
        ...v.when === 'once' ? [{ group: 'schedule', name: 'run_at', label: 'At', placeholder: '2026-02-10T08:00:00Z',
            hint: 'empty: at once' }] : [],
        ...v.when === 'once' ? [] : [{ group: 'schedule', name: 'calendar', label: 'Calendar', list: data.names.calendars,
            hint: 'empty: every day' }, { group: 'schedule', name: 'overlap_policy', label: 'While the last run still goes on',
            type: 'select', options: /** @type {[string, string][]} */ ([['SKIP', 'skip'], ['ALLOW', 'run beside it'], ['QUEUE_ONE',
            'queue one'], ['QUEUE_ALL', 'queue all'], ['CANCEL_PREVIOUS', 'cancel the previous']]) }]];
    const target = v.target_type === 'HTTP_CALLBACK' ? [{ group: 'task', name: 'url', label: 'URL', mono: true,
        placeholder: 'https://example.com/hook' }, { group: 'task', name: 'method', label: 'Method', type: 'select', options: ['POST',
        'GET', 'PUT', 'PATCH', 'DELETE', 'HEAD'].map(m => /** @type {[string, string]} */ ([m, m])) }] : [];
    return [...schedule, { group: 'task', name: 'name', label: 'Name' }, ...target, { group: 'task', name: 'payload',
        label: 'Payload, as JSON', type: 'textarea' }, { group: 'task', name: 'queue', label: 'Queue', list: data.names.queues },
        { group: 'task', name: 'priority', label: 'Priority', type: 'number', hint: '0 to 9; higher ones run first' }, { group: 'task',
            name: 'timeout_ms', label: 'Timeout, ms', type: 'number' }, { group: 'task', name: 'max_attempts', label: 'Attempts',
            type: 'number' }, { group: 'task', name: 'concurrency_key', label: 'Concurrency key',
            hint: 'tasks with the same key run one after another' }, ...expectFields(v, data)];
}

// Until when it has to succeed, and who is told of it.
/** @param {Record<string, any>} v @param {any} data @returns {(import('../view/dialog.js').Field & {group: string})[]} */
function expectFields(v, data) {
    const known = data.names.settings.map((/** @type {any} */ s) => s.name || s.id), others = v.notify.filter((/** @type {string} */ n) => !known.includes(n));
    return [{ group: 'task', name: 'expects', label: 'Expected', type: 'select', hint: 'settings that are told of what is missed are told if it does not come',
        options: [['', 'nothing'], ...v.when === 'once' ? [] : /** @type {[string, string][]} */ ([['by', 'a success by a time of day']]),
            ['within', 'a success again and again']] },
    ...v.expects === 'by' && v.when !== 'once' ? [{ group: 'task', name: 'success_by', label: 'By', placeholder: '06:00', hint: 'in the time zone of its schedule' },
        { group: 'task', name: 'days', label: 'On', placeholder: 'MON-FRI', hint: 'empty: every day' }] : [],
    ...v.expects === 'within' ? [{ group: 'task', name: 'within_seconds', label: 'Within, seconds', type: 'number' }] : [],
    ...known.length || others.length ? [{ group: 'task', name: 'notify', label: 'Tells', type: 'checks', hint: 'none: the settings that its name and queue match',
        options: [...others, ...known].map(n => /** @type {[string, string]} */ ([n, n])) }] : []];
}

/** @param {Record<string, any>} v @param {any} task @returns {any} null: nothing */
function expectOf(v, task) {
    if (v.expects === 'within') return { within_seconds: Number(v.within_seconds) };
    if (v.expects !== 'by' || v.when === 'once') return null;
    const { success_by: by, days } = task?.expect ?? {};
    return by === v.success_by && (days ?? '') === v.days ? task.expect : { success_by: v.success_by, ...v.days ? { days: v.days } : {} };
}

/** @param {Record<string, any>} v @returns {Record<string, any>} */
function scheduleOf(v) {
    if (v.when === 'cron') return { cron_expression: v.cron_expression, time_zone: v.time_zone || 'UTC', ...v.calendar
        ? { calendar: v.calendar } : {} };
    if (v.when === 'every') return { interval_seconds: Number(v.interval_seconds) || 0, ...v.calendar ? { calendar: v.calendar } : {} };
    return v.run_at ? { run_at: v.run_at } : {};
}

/** @param {Record<string, any>} v @returns {any} NaN if it is no JSON */
function payloadOf(v) {
    if (!v.payload?.trim()) return undefined;
    try { return JSON.parse(v.payload); } catch { return NaN; }
}

// What the form says, as the fields of a task.
/** @param {Record<string, any>} v @param {any} task @returns {Record<string, any>} */
function wantedOf(v, task) {
    const payload = payloadOf(v);
    return { name: v.name || null, ...scheduleOf(v), ...v.when === 'once' ? {} : { overlap_policy: v.overlap_policy, calendar: v.calendar
        || null }, queue: v.queue || 'default', priority: Number(v.priority),
        ...v.target_type === 'HTTP_CALLBACK' ? { target_type: 'HTTP_CALLBACK', target_config: { ...task?.target_config ?? {}, url: v.url,
            method: v.method } } : {}, ...payload === undefined ? task?.payload !== undefined ? { payload: null } : {} : { payload },
        ...v.timeout_ms ? { timeout_ms: Number(v.timeout_ms) } : {}, retry: { ...task?.retry ?? {}, max_attempts: Number(v.max_attempts) },
            concurrency_key: v.concurrency_key || null, expect: expectOf(v, task), notify: v.notify.length ? v.notify
            : task?.notify?.length ? null : task?.notify ?? null };
}

// Only what differs.
/** @param {any} task @param {Record<string, any>} v @returns {Record<string, any>} */
function changeOf(task, v) {
    const wanted = wantedOf(v, task);
    if (!task) return Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== null));
    const same = (/** @type {any} */ a, /** @type {any} */ b) => JSON.stringify(a ?? null) === JSON.stringify(b ?? null)
        || (parse(a) === parse(b) && !Number.isNaN(parse(a)));
    return Object.fromEntries(Object.entries(wanted).filter(([name, value]) => !same(value, task[name])));
}

// A field as the form calls it.
/** @param {Record<string, any>} v @param {string} name */
const labelOf = (v, name) => fieldNamed(fields(v, { names: { queues: [], calendars: [], settings: [] } }), name)?.label ?? name.replaceAll('_', ' ');

// The fires of what is typed, a moment after the last key.
/** @param {Context} ctx */
function preview(ctx) {
    clearTimeout(timer);
    timer = setTimeout(async () => {
        const v = ctx.ui.values, within = v.expects === 'within' && Number(v.within_seconds) > 0 ? { expect: expectOf(v, null) } : {};
        const body = { ...scheduleOf(v), ...within }, asked = JSON.stringify(body);
        if (asked === ctx.ui.previewed) return;
        ctx.ui.previewed = asked;
        try {
            const answer = await request(`/v1/preview?count=${FIRES}`, { method: 'POST', body: { ...body, target_type: 'NOOP', target_config: {} } });
            if (ctx.ui.previewed === asked) ctx.set({ preview: answer.upcoming, warnings: answer.warnings, previewError: '' });
        } catch (error) {
            const first = error instanceof Problem ? error.errors[0] : null;
            const problem = first ? `${labelOf(v, first.field)}: ${first.message}` : /** @type {Error} */ (error).message;
            if (ctx.ui.previewed === asked) ctx.set({ previewError: problem, warnings: [] });
        }
    }, PREVIEW_AFTER_MS);
}

/** @param {Context} ctx @param {any} data @param {import('../lib/command.js').Action} action */
async function save(ctx, data, action) {
    if (Number.isNaN(payloadOf(ctx.ui.values))) return ctx.set({ errors: { payload: 'This is not JSON.' }, problem: '' });
    try {
        const saved = await request(action.path, { method: action.method, body: action.body, etag: action.etag });
        ctx.toast(data.task ? 'Saved' : 'Created');
        go(link(['tasks', saved.id]));
    } catch (error) {
        if (error instanceof Problem && error.status === 412) return ctx.set({ conflict: await get(`/v1/tasks/${data.task.id}`),
            problem: '' });
        /** @type {Record<string, string>} */
        const errors = {};
        for (const e of error instanceof Problem ? error.errors : []) errors[e.field.replace(/^target_config\./, '').replace(/^(retry|expect)\./,
            '')] = e.message;
        const known = Object.keys(errors).some(name => name in ctx.ui.values);
        ctx.set({ errors, problem: known ? '' : /** @type {Error} */ (error).message });
    }
    return undefined;
}

/** @param {Context} ctx @param {any} data @param {Record<string, any>} change */
function conflict(ctx, data, change) {
    const now = ctx.ui.conflict, names = [...new Set([...Object.keys(change),
        ...Object.keys(wantedOf(valuesOf(now),
        now)).filter(n => JSON.stringify(now[n] ?? null) !== JSON.stringify(data.task[n] ?? null))])];
    return section('conflict', 'Changed meanwhile', { note: `version ${data.task.version} is now ${now.version}` },
        h('table', h('thead', h('tr', ['Field', 'When you began', 'Now', 'Yours'].map((t, i) => h('th', { class: i === 1 ? 'from-s' : null,
        scope: 'col' }, t)))), h('tbody', names.map(name => h('tr', { key: name }, h('td', name), h('td.mono.from-s.anywhere',
        userText(text(data.task[name]))),
        h('td.mono.anywhere', { class: JSON.stringify(now[name] ?? null) === JSON.stringify(data.task[name] ?? null) ? null : 'hold' },
            userText(text(now[name]))), h('td.mono.anywhere', userText(text(name in change ? change[name] : data.task[name]))))))),
    h('div.chips', h('button', { onclick: () => { data.task = now; ctx.set({ values: valuesOf(now), conflict: null }); } }, 'Take theirs'),
        h('button', { onclick: () => { data.task = { ...data.task, version: now.version }; ctx.set({ conflict: null }); save(ctx, data,
        saveTask(data.task, change)); } }, 'Save mine over it')));
}
