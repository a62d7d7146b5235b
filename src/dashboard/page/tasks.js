// Tasks: where is mine? A page of 100 by cursor, or a search; filters as chips in the URL, selection and bulk actions.
import { h } from '../lib/dom.js';
import { get, request } from '../lib/api.js';
import { go, link, relink } from '../lib/router.js';
import { absolute, number, parse, zoneOf } from '../lib/time.js';
import { bulk, pauseTask, taskList } from '../lib/command.js';
import { checkPause, held, pauseFields, readGates } from '../view/held.js';
import { badge, icon } from '../view/icons.js';
import { copyButtons, empty, taskLink, userText, when } from '../view/parts.js';
import { badTimes, checkTimes, resolved, timeField, timeShown } from '../view/moments.js';
import { scheduleInWords } from '../view/schedule.js';
import { loadSearch, searchBar, searchQuery, searchSays } from '../view/search.js';
import { freshBar, isHeld, steady, table } from '../view/table.js';

/** @typedef {import('../lib/app.js').Context} Context */

const LIMIT = 100, TOTAL_EVERY_MS = 10000;
const TIMES = ['due_before', 'due_after', 'created_before', 'created_after'];
const STATUSES = ['SCHEDULED', 'BLOCKED', 'RUNNING', 'PAUSED', 'COMPLETED', 'FAILED', 'CANCELLED', 'SKIPPED', 'EXPIRED'];
// name of a parameter → how it is called in a chip
/** @type {Record<string, string>} */
export const FILTERS = { search: 'search', status: 'state', type: 'type', name: 'name', queue: 'queue', task_type: 'task type', due_before: 'due before',
    due_after: 'due after',
    created_before: 'created before', created_after: 'created after', id: 'id', occurrences: 'occurrences' };
const BULK = /** @type {[string, string, string][]} */ ([['pause', 'Pause', 'They wait until the pause ends, or until they are resumed.'], ['resume', 'Resume',
    'They go on.'],
    ['run-now', 'Run now', 'They start now, beside their schedule.'], ['retry', 'Retry',
        'Failed ones are tried again with a full set of attempts.'],
    ['cancel', 'Cancel', 'Running calls are aborted. This cannot be undone in bulk.']]);

/** @param {URLSearchParams} query @returns {Record<string, string>} */
export const filterOf = query => Object.fromEntries([...query].filter(([name, value]) => FILTERS[name] && value));

/** @type {import('../lib/app.js').Page} */
export const page = {
    title: () => 'Tasks',
    says: (data, ctx) => data.search ? searchSays(data.search, ctx) : data.fresh ? `${data.fresh} new` : '',

    async load(ctx, before) {
        const typed = filterOf(ctx.route.query), filter = resolved(typed, TIMES, ctx.now), cursor = ctx.route.query.get('cursor');
        const wanted = JSON.stringify(typed), shape = JSON.stringify([typed, cursor]), bad = badTimes(typed, TIMES, ctx.now);
        if (bad.length) return { wanted, shape, rows: [], fresh: 0, next: null, total: {}, totalAt: 0, bad };
        if (filter.search) return loadSearch(ctx, before, filter);
        const same = before?.shape === shape;
        const keepTotal = before?.wanted === wanted && Date.now() - before.totalAt < TOTAL_EVERY_MS;
        const [list, total, gates] = await Promise.all([get('/v1/tasks', { ...filter, cursor, limit: LIMIT, view: 'brief' }),
            keepTotal ? before.total : get('/v1/tasks', { ...filter, page: 1, limit: 1, view: 'brief' }).then(l => l.pagination),
            readGates(ctx, before?.gates)]);
        const isStill = same && !ctx.ui.showFresh && isHeld(ctx);
        ctx.ui.showFresh = false;
        return { wanted, shape, gates, ...steady(before?.rows ?? null, list.tasks, isStill), next: list.pagination.next_cursor, total,
            totalAt: keepTotal
            ? before.totalAt : Date.now() };
    },

    view(data, ctx) {
        const typed = filterOf(ctx.route.query), filter = resolved(typed, TIMES, ctx.now);
        const filtered = Object.keys(filter).length > 0;
        return [
            h('header.head', h('h1', { tabindex: -1 }, 'Tasks'), h('span.second', filtered ? matches(data.total) : matches(data.total).replace(' match', ' in all')), h('span.grow'),
                h('span.from-s', copyMenu(filter)),
                ctx.can('tasks:write') ? h('a.button.primary', { href: link(['tasks', 'new']) }, 'New task') : null),
            chips(ctx, typed), data.search ? searchBar(data.search, ctx) : null,
            (data.bad ?? []).map((/** @type {string} */ text) => h('p.error', { role: 'alert', key: text }, icon('failed'), text)),
            data.rows.length || filtered || ctx.route.query.get('cursor') ? h('section', { 'aria-label': 'Tasks' }, freshBar(ctx,
                data.fresh),
                data.rows.length ? rows(ctx, data.rows, data.gates) : data.search && !data.search.complete ? null
                    : h('p.second', 'No task matches these filters.'))
                : empty('There is no task yet.', 'A URL and a time make the first.',
                    'belfry add --in 10s --name hello https://example.com/'),
            ctx.ui.selected?.size ? bulkBar(ctx, data, filter) : null,
            foot(ctx, data)];
    },
};

/** @param {any} total */
const matches = total => total.total === undefined ? '' : `${number(total.total)}${total.total_exact === false ? '+' : ''} match`;

/** @param {Record<string, string>} filter */
const copyMenu = filter => h('span.chips', copyButtons(taskList(searchQuery(filter))));

/** @param {Context} ctx @param {Record<string, string>} filter */
function chips(ctx, filter) {
    /** @param {string} name @param {string} value */
    const shown = (name, value) => TIMES.includes(name) ? timeShown(value, ctx)
        : name === 'status' ? value.split(',').map(s => s[0] + s.slice(1).toLowerCase()).join(', ') : userText(value);
    return h('div.chips', { role: 'group', 'aria-label': 'Filters' }, Object.entries(filter).map(([name, value]) => h('span.chip',
        { key: name },
        h('span', h('span', FILTERS[name] + ' '), shown(name, value)),
        h('button', { 'aria-label': `Remove filter ${FILTERS[name]}`, onclick: () => go(relink(ctx.route, { [name]: null,
            cursor: null })) }, icon('close')))),
    h('button.add', { key: 'add', onclick: () => askFilter(ctx, filter) }, icon('plus'), 'Filter'),
    Object.keys(filter).length ? h('a', { key: 'clear', href: link(['tasks']) }, 'Clear') : null);
}

/** @param {Context} ctx @param {Record<string, string>} filter */
function askFilter(ctx, filter) {
    ctx.ask({ title: 'Filter tasks', confirm: 'Filter', keep: 'Close', fields: [
        { name: 'status', label: 'State', type: 'select', value: filter.status ?? '', options: [['', 'any'], ['ACTIVE', 'Active'],
            ...STATUSES.map(s =>
            /** @type {[string, string]} */ ([s, s[0] + s.slice(1).toLowerCase()]))] },
        { name: 'type', label: 'Type', type: 'select', value: filter.type ?? '', options: [['', 'any'], ['RECURRING', 'recurring'],
            ['ONE_TIME', 'one-time']] },
        { name: 'search', label: 'Search', value: filter.search ?? '', hint: 'a part of a name or key, an id, a trace; or payload:text' },
        { name: 'name', label: 'Name', value: filter.name ?? '', hint: 'whole, or its beginning and *' },
        { name: 'queue', label: 'Queue', value: filter.queue ?? '' },
        { name: 'task_type', label: 'Task type', value: filter.task_type ?? '' },
        timeField('due_after', 'Due after', filter, true), timeField('due_before', 'Due before', filter, true),
        timeField('created_after', 'Created after', filter), timeField('created_before', 'Created before', filter)],
    submit: async values => { checkTimes(values, TIMES); go(relink(ctx.route, { ...values, cursor: null })); } });
}

/** @param {any} task @param {Context} ctx */
const dueCell = (task, ctx) => task.next_execution ? [parse(task.next_execution) < ctx.now ? 'due ' : null, when(task.next_execution, ctx,
    { zone: task.time_zone })]
    : task.completed_at ? h('span.second', when(task.completed_at, ctx, { zone: task.time_zone })) : h('span.label', '–');

/** @param {Context} ctx @param {any[]} tasks @param {import('../view/held.js').Gates} [gates] */
function rows(ctx, tasks, gates = { at: 0, paused: new Map(), breakers: null }) {
    const state = new Map(tasks.map(t => [t, badge(t.status, { calm: t.status === 'BLOCKED' && t.waiting_for?.kind === 'dependencies' })]));
    const due = new Map(tasks.map(t => [t, dueCell(t, ctx)])); // both are in two cells: a column, and below the name where it is narrow
    return table(ctx, { rows: tasks, key: t => t.id, label: 'Tasks', select: ctx.can('tasks:write'), name: t => t.name || t.id, columns: [
        { title: 'State', class: 'from-s w-state', cell: t => state.get(t) },
        { title: 'Name', class: 'anywhere', cell: t => [taskLink(t), ctx.narrow ? h('span.sub', state.get(t), ' · ', due.get(t)) : null] },
        { title: 'Queue', class: 'from-m', cell: t => h('a.quiet.second', { href: relink(ctx.route, { queue: t.queue, cursor: null }) },
            userText(t.queue)) },
        { title: 'Schedule', class: 'from-m', cell: t => [scheduleInWords(t), ' ', t.cron_expression ? h('span.label',
            t.time_zone ?? 'UTC') : null] },
        { title: 'Next, or ended', class: 'from-s nowrap', cell: t => due.get(t) },
        { title: 'What holds it', class: 'from-m cut', cell: t => held(t, gates, ctx) }] });
}

/** @param {Context} ctx @param {any} data @param {Record<string, string>} filter */
function bulkBar(ctx, data, filter) {
    const many = ctx.ui.selected.size, all = ctx.ui.allMatching;
    const canAll = !filter.id && !filter.occurrences && !filter.search && data.total.total > many && many === data.rows.length;
    const before = absolute(ctx.ui.allBefore ?? ctx.now, ctx.now, zoneOf(ctx.zone));
    return h('div.bulk', { role: 'region', 'aria-label': 'Selection' },
        h('span', h('b', all ? `All ${matches(data.total).replace(' match', '')} matching` : `${number(many)} selected`),
            all ? h('span.second', ` created before ${before}`) : null),
        all ? h('button.plain', { onclick: () => ctx.set({ allMatching: false }) }, `Only these ${many}`)
            : canAll ? h('button.plain', { onclick: () => ctx.set({ allMatching: true, allBefore: Date.now() }) },
                `Select all ${matches(data.total).replace(' match', '')} matching`) : null,
        h('span.grow'),
        h('span.chips', { 'data-actions': true }, BULK.map(([verb, word, effect]) => h('button', { key: verb,
            class: verb === 'cancel' ? 'danger' : null,
            onclick: () => all ? askBulk(ctx, data, filter, verb, word, effect) : askSome(ctx, data, verb, word, effect) }, word + '…'))),
        h('button.plain.square', { 'aria-label': 'Clear selection', onclick: () => ctx.set({ selected: new Set(), allMatching: false }) },
            icon('close')));
}

// All that match: a job of the server.
/** @param {Context} ctx @param {any} data @param {Record<string, string>} filter @param {string} verb @param {string} word @param {string} effect */
function askBulk(ctx, data, filter, verb, word, effect) {
    const n = data.total.total, typed = n > 100;
    const whole = { ...filter, created_before: new Date(ctx.ui.allBefore).toISOString() };
    const make = (/** @type {Record<string, any>} */ v) => bulk(verb, whole, v), action = make({}), pauses = verb === 'pause';
    const said = Object.entries(filter).map(([name, value]) => `${FILTERS[name]} ${value}`).join('; ') || 'no filter';
    ctx.ask({ title: `${word} ${number(n)}${data.total.total_exact === false ? '+' : ''} tasks?`, danger: action.danger,
        confirm: `${word} tasks`, keep: 'Keep them',
        body: [h('p', `${said}; created before ${absolute(ctx.ui.allBefore, ctx.now, zoneOf(ctx.zone))}. `, h('span.second', effect))],
        fields: [...pauses ? pauseFields() : [], ...typed ? [{ name: 'count', label: `Type ${n} to go on`, expect: String(n) }] : []],
        action: make, submit: async v => {
            checkPause(v);
            const job = await request(action.path, { method: 'POST', body: make(v).body });
            ctx.set({ selected: new Set(), allMatching: false });
            ctx.toast(`${word}: a job works on ${number(n)} tasks`, { link: { text: 'Job ' + job.id.slice(0, 8), href: link(['queues'],
                { job: job.id }) } });
            ctx.reload();
        } });
}

// Some: one request each.
/** @param {Context} ctx @param {any} data @param {string} verb @param {string} word @param {string} effect */
function askSome(ctx, data, verb, word, effect) {
    const chosen = data.rows.filter((/** @type {any} */ t) => ctx.ui.selected.has(t.id));
    ctx.ask({ title: `${word} ${chosen.length === 1 ? 'one task' : number(chosen.length) + ' tasks'}?`, danger: verb === 'cancel',
        confirm: word, keep: 'Keep as they are',
        body: h('p', chosen.slice(0, 5).map((/** @type {any} */ t, /** @type {number} */ i) => [i ? ', ' : '', userText(t.name || t.id)]),
            chosen.length > 5 ? ` and ${chosen.length - 5} more. ` : '. ', h('span.second', effect)), fields: verb === 'pause' ? pauseFields() : [],
        submit: async v => {
            checkPause(v);
            const left = [...chosen];
            let failed = 0, reason = '';
            await Promise.all([1, 2, 3, 4].map(async () => {
                for (let task = left.shift(); task; task = left.shift()) {
                    try {
                        await request(`/v1/tasks/${task.id}/${verb}`, { method: 'POST', body: verb === 'pause' ? pauseTask({ id: task.id }, v).body : undefined });
                    } catch (error) {
                        failed++;
                        reason = /** @type {Error} */ (error).message;
                    }
                }
            }));
            ctx.set({ selected: new Set(), searchAgain: true });
            ctx.toast(failed ? `${word}: ${chosen.length - failed} done, ${failed} refused: ${reason}`
                : `${word}: ${number(chosen.length)} done`, { bad: failed > 0 });
            ctx.reload();
        } });
}

/** @param {Context} ctx @param {any} data */
function foot(ctx, data) {
    const cursor = ctx.route.query.get('cursor');
    return h('p.pager', h('span.keys.from-s', [['j', 'k', 'move'], ['x', 'select'], ['Enter', 'open'], ['/', 'search'],
        ['?', 'all keys']].map(words =>
        h('span', words.slice(0, -1).map(k => [h('kbd', k), ' ']), words[words.length - 1]))),
    cursor ? h('a', { href: relink(ctx.route, { cursor: null }) }, 'first 100') : null,
    data.next ? h('a', { href: relink(ctx.route, { cursor: data.next }) }, 'next 100') : null);
}

