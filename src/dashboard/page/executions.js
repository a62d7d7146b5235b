// Executions: what ran where? Attempts of all tasks, newest first, as a list and as bars by worker.
import { h } from '../lib/dom.js';
import { get } from '../lib/api.js';
import { go, link, relink } from '../lib/router.js';
import { clock, count, parse, span, zoneOf } from '../lib/time.js';
import { executionList } from '../lib/command.js';
import { badge, icon } from '../view/icons.js';
import { copyButtons, empty, instant, section, segments, userText } from '../view/parts.js';
import { badTimes, checkTimes, presets, resolved, timeField, timeShown } from '../view/moments.js';
import { freshBar, isHeld, steady, table } from '../view/table.js';
import { DELAYS } from './task.js';

/** @typedef {import('../lib/app.js').Context} Context */

const LIMIT = 100;
/** @type {Record<string, string>} */
const FILTERS = { status: 'state', worker: 'worker', queue: 'queue', error: 'error', from: 'ended after', to: 'ended before' };

const TIMES = ['from', 'to'];

/** @param {URLSearchParams} query @returns {Record<string, string>} */
const filterOf = query => Object.fromEntries([...query].filter(([name, value]) => FILTERS[name] && value));

/** @type {import('../lib/app.js').Page} */
export const page = {
    title: () => 'Executions',
    says: data => data.fresh ? `${data.fresh} new` : '',

    async load(ctx, before) {
        const filter = filterOf(ctx.route.query), cursor = ctx.route.query.get('cursor'), shape = JSON.stringify([filter, cursor]);
        const bad = badTimes(filter, TIMES, ctx.now);
        if (bad.length) return { shape, rows: [], fresh: 0, next: null, bad };
        const list = await get('/v1/executions', { ...resolved(filter, TIMES, ctx.now), steps: 'true', cursor, limit: LIMIT });
        const held = before?.shape === shape && !ctx.ui.showFresh && isHeld(ctx);
        ctx.ui.showFresh = false;
        return { shape, ...steady(before?.rows ?? null, list.executions, held), next: list.pagination.next_cursor, bad };
    },

    view(data, ctx) {
        const filter = filterOf(ctx.route.query), status = filter.status ?? '';
        const failed = data.rows.filter((/** @type {any} */ e) => e.status === 'FAILED' || e.status === 'LOST').length;
        const action = executionList(data.bad.length ? {} : resolved(filter, TIMES, ctx.now));
        return [
            h('header', { key: 'head' }, h('div.head', h('h1', { tabindex: -1 }, 'Executions'), h('span.second',
                `the latest ${data.rows.length}`), h('span.grow'), h('span.chips.from-s', copyButtons(action)),
                segments('State', [['All', relink(ctx.route, { status: null, cursor: null }), !status], ['Completed',
                    relink(ctx.route, { status: 'COMPLETED', cursor: null }), status === 'COMPLETED'],
                    ['Failed', relink(ctx.route, { status: 'FAILED,LOST', cursor: null }), status === 'FAILED,LOST']])),
            h('p.second', data.rows.length ? summary(data.rows, failed) : '')),
            chips(ctx, filter), data.bad.map((/** @type {string} */ text) => h('p.error', { role: 'alert', key: text }, icon('failed'),
                text)),
            data.rows.length ? gantt(data, ctx) : null,
            data.rows.length ? h('section', { key: 'list', 'aria-label': 'Attempts' }, freshBar(ctx, data.fresh), list(data, ctx))
                : Object.keys(filter).length ? h('p.second', 'No attempt matches.', data.next ? ' The search was cut off: ' : '')
                    : empty('Nothing has run yet.', 'This task runs at once.', 'belfry add --noop --name hello --in 1s'),
            h('p.pager', { key: 'pager' }, ctx.route.query.get('cursor') ? h('a', { href: relink(ctx.route, { cursor: null }) }, 'latest')
                : null, data.next ? h('a', { href: relink(ctx.route, { cursor: data.next }) }, 'older') : null)];
    },
};

/** @param {any[]} rows @param {number} failed */
function summary(rows, failed) {
    const took = rows.filter(e => e.started_at && e.completed_at).map(e => parse(e.completed_at) - parse(e.started_at)).sort((a,
        b) => a - b);
    const covers = parse(rows[0].completed_at) - parse(rows[rows.length - 1].completed_at);
    return `${failed ? count(failed, 'attempt') + ' failed' : 'None failed'}. Half took less than ${span(Math.max(1, took[took.length >> 1] ?? 0))}. They cover ${span(Math.max(0, covers))}.`;
}

/** @param {Context} ctx @param {Record<string, string>} filter */
function chips(ctx, filter) {
    return h('div.chips', { key: 'chips', role: 'group', 'aria-label': 'Filters' },
        Object.entries(filter).filter(([n]) => n !== 'status').map(([name, value]) => h('span.chip', { key: name },
        h('span', h('span', FILTERS[name] + ' '), TIMES.includes(name) ? timeShown(value, ctx) : userText(value)),
            h('button', { 'aria-label': `Remove filter ${FILTERS[name]}`, onclick: () => go(relink(ctx.route, { [name]: null,
            cursor: null })) }, icon('close')))),
    h('button.add', { key: 'add', onclick: () => ctx.ask({ title: 'Filter executions', confirm: 'Filter',
        fields: [{ name: 'queue', label: 'Queue', value: filter.queue ?? '' }, { name: 'worker', label: 'Worker',
        value: filter.worker ?? '' }, { name: 'error', label: 'Error', value: filter.error ?? '', hint: 'the whole text' },
        timeField('from', 'Ended after', filter), timeField('to', 'Ended before', filter)],
    submit: async v => { checkTimes(v, TIMES); go(relink(ctx.route, { ...v, cursor: null })); } }) }, icon('plus'), 'Filter'),
    presets(ctx, 'from', 'Ended in'));
}

/**
 * Which lane of its worker each bar takes, so that none lies over another.
 * @param {{from: number, to: number}[]} bars in order of from @returns {number[]}
 */
export function lanesOf(bars) {
    /** @type {number[]} */
    const ends = [];
    return bars.map(bar => {
        let lane = ends.findIndex(end => end <= bar.from);
        if (lane < 0) lane = ends.length;
        ends[lane] = bar.to;
        return lane;
    });
}

/** @param {any} data @param {Context} ctx */
function gantt(data, ctx) {
    const ran = data.rows.filter((/** @type {any} */ e) => e.started_at && e.completed_at);
    if (!ran.length) return null;
    const workers = [...new Set(ran.map((/** @type {any} */ e) => e.worker ?? '–'))].sort(), zone = zoneOf(ctx.zone);
    const from = Math.min(...ran.map((/** @type {any} */ e) => parse(e.started_at))),
        to = Math.max(...ran.map((/** @type {any} */ e) => parse(e.completed_at))), total = Math.max(1000, to - from);
    return section('gantt', 'By worker', { note: `${clock(from, zone)} to ${clock(to, zone)}; the list below has the same attempts` },
        h('div.timeline', { draw: (/** @type {number} */ width) => {
        const left = width < 500 ? 76 : 120, laneHeight = 9,
            x = (/** @type {number} */ ms) => left + (ms - from) / total * (width - left - 8);
        let y = 4;
        const groups = workers.map(worker => {
            const bars = ran.filter((/** @type {any} */ e) => (e.worker ?? '–') === worker).sort((/** @type {any} */ a,
                /** @type {any} */ b) => parse(a.started_at) - parse(b.started_at))
                .map((/** @type {any} */ e) => ({ e, from: x(parse(e.started_at)), to: Math.max(x(parse(e.started_at)) + 2,
                    x(parse(e.completed_at))) + 1 }));
            const lanes = lanesOf(bars), top = y, n = Math.min(10, Math.max(1, ...lanes.map(l => l + 1)));
            y += Math.max(20, n * laneHeight + 6);
            return h('g', { key: worker }, h('text', { x: 0, y: top + 12 }, String(worker).slice(0, width < 500 ? 11 : 18)), h('line.axis',
                { x1: left, x2: width, y1: y - 2, y2: y - 2 }),
                bars.map((/** @type {any} */ b, /** @type {number} */ i) => lanes[i] < 10 ? h('rect',
                    { key: b.e.id, class: b.e.status === 'COMPLETED' ? 'ok' : 'fail', x: b.from.toFixed(1), y: top + lanes[i] * laneHeight,
                    width: Math.max(1, b.to - b.from - 1).toFixed(1), height: laneHeight - 2, rx: 1 },
                    h('title', `${b.e.task_name ?? b.e.step ?? b.e.task_id}, ${span(parse(b.e.completed_at) - parse(b.e.started_at))}`))
                        : null));
        });
        return h('svg', { width, height: y + 18, role: 'img', 'aria-label': 'Attempts by worker over time; the list below has the same' },
            groups, [0, .5, 1].map(f => h('text', { x: left + f * (width - left - 8), y: y + 14, 'text-anchor': f === 0 ? 'start' : f === 1
            ? 'end' : 'middle' }, clock(from + f * total, zone))));
    } }));
}

// A step by its run and its name; others by the task's name.
/** @param {any} e */
const named = e => e.step ? [h('a.quiet', { href: link(['workflows', e.run], { step: e.step, item: e.item }) }, h('b', userText(e.step),
    e.item === null ? '' : `/${e.item}`)), h('span.label', ' of '), h('a.quiet.second', { href: link(['workflows', e.run]) },
    e.run_name ? userText(e.run_name) : h('span.mono', e.run.slice(0, 13)))]
    : h('a.quiet', { href: link(['tasks', e.occurrence_id ?? e.task_id]) }, h('b', e.task_name ? userText(e.task_name)
        : h('span.mono', e.task_id.slice(0, 18))));

/** @param {any} data @param {Context} ctx */
const list = (data, ctx) => table(ctx, { rows: data.rows, key: e => e.id, label: 'Attempts', columns: [
    { title: 'State', class: 'w-state from-s', cell: e => badge(e.status) },
    { title: 'Task', class: 'anywhere', cell: e => [named(e), ctx.narrow ? h('span.sub', badge(e.status), ' · ', instant(e.started_at, ctx)) : null] },
    { title: 'Queue', class: 'from-m', cell: e => h('a.quiet.second', { href: relink(ctx.route, { queue: e.queue, cursor: null }) },
        userText(e.queue ?? 'purged')) },
    { title: 'Started', class: 'from-s nowrap', cell: e => instant(e.started_at, ctx) },
    { title: 'Try', class: 'num from-m', cell: e => e.attempt_number },
    { title: 'Late by', class: 'num from-m', cell: e => e.delay_cause ? h('span.hold',
        `${span(e.delay_ms)}, ${DELAYS[e.delay_cause] ?? e.delay_cause}`) : h('span.second', span(e.delay_ms)) },
    { title: 'Took', class: 'num', cell: e => e.started_at && e.completed_at ? span(parse(e.completed_at) - parse(e.started_at)) : '–' },
    { title: 'HTTP', class: 'num from-m', cell: e => e.http_status ?? h('span.label', '–') },
    { title: 'Worker', class: 'from-m', cell: e => e.worker ? h('a.quiet.second',
        { href: relink(ctx.route, { worker: e.worker, cursor: null }) }, userText(e.worker)) : '–' },
    { title: 'Error', class: 'from-m cut', cell: e => e.error_message ? userText(e.error_message) : h('span.label', '–') }] });
