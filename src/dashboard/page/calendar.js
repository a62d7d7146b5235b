// Calendar: what comes, and where does it pile up? Two weeks by hour, a day by minute, a minute as a list; or a quarter by day and hour.
import { h } from '../lib/dom.js';
import { get, isOperator, maybe } from '../lib/api.js';
import { hoursOf, marksOf, nextDay, peaksOf, sum, thresholds } from '../lib/calendar.js';
import { go, link, relink } from '../lib/router.js';
import { clock, count, day, DAY, dayStart, fieldsOf, HOUR, MINUTE, number, parse, span, two, zoneName, zoneOf } from '../lib/time.js';
import { badge } from '../view/icons.js';
import { facts, section, segments, userText } from '../view/parts.js';
import { dayMap, heatLegend, markTable, weekMap } from '../view/heat.js';
import { nothingToCome, quarterDays, quarterView } from '../view/quarter.js';

/** @typedef {import('../lib/app.js').Context} Context */

const DAYS = 14, CHUNK_MS = 2 * DAY, QUARTER_CHUNK_DAYS = 28, FRESH_MS = 60000, LISTED = 200;

/** @param {Context} ctx */
const zone = ctx => zoneOf(ctx.zone === 'task' ? 'local' : ctx.zone);

/** @param {Context} ctx */
const isQuarter = ctx => ctx.route.query.get('by') === 'quarter';

/** @param {Context} ctx */
function daysOf(ctx) {
    if (isQuarter(ctx)) return quarterDays(parse(ctx.route.query.get('from')) || ctx.now, zone(ctx));
    const first = dayStart(parse(ctx.route.query.get('from')) || ctx.now, zone(ctx)), days = [first];
    while (days.length < DAYS) days.push(nextDay(days[days.length - 1], zone(ctx)));
    return days;
}

/** @type {import('../lib/app.js').Page} */
export const page = {
    title: () => 'Calendar',

    async load(ctx, before) {
        const days = daysOf(ctx), at = parse(ctx.route.query.get('at')), queue = ctx.route.query.get('queue'),
            shape = `${days[0]} ${days.length} ${queue} ${zone(ctx)}`;
        const fresh = before?.shape === shape && Date.now() - before.readAt < FRESH_MS;
        const [read, calendars, minute, status, ran] = await Promise.all([fresh ? before.read
            : isQuarter(ctx) ? readQuarter(days, queue, nextDay(days[days.length - 1], zone(ctx))) : readAll(days, queue),
            fresh ? before.calendars : readCalendars(ctx),
            Number.isNaN(at) ? null : get('/v1/upcoming', { from: new Date(at).toISOString(), to: new Date(at + MINUTE).toISOString(),
                limit: LISTED, queue }),
            fresh ? before.status : isOperator() ? maybe('/v1/scheduler/status') : null, fresh ? before.ran : maybe('/v1/executions',
                { limit: 200, status: 'COMPLETED' })]);
        return { shape, isQuarter: isQuarter(ctx), readAt: fresh ? before.readAt : Date.now(), read, calendars, status, ran, minute: minute?.upcoming ?? null,
            minuteComplete: minute?.complete ?? true };
    },

    view(data, ctx) {
        const z = zone(ctx), days = daysOf(ctx);
        if (data.isQuarter !== isQuarter(ctx)) return [h('header', { key: 'head' }, head(ctx, days)), h('p.label', 'Loading')];
        if (isQuarter(ctx)) return [h('header', { key: 'head' }, head(ctx, days)), ...quarterView(data, ctx, z, days)];
        const { fires } = data.read, now = Math.floor(ctx.now / MINUTE) * MINUTE;
        const at = parse(ctx.route.query.get('at')), chosenDay = dayStart(parse(ctx.route.query.get('day')) || (Number.isNaN(at)
            ? fieldsOf(ctx.now, z).hour >= 18 && days[0] < ctx.now ? days[1] : days[0] : at), z), end = nextDay(days[days.length - 1], z);
        const capacity = capacityOf(data), peaks = peaksOf(fires, now, end), total = sum(fires, now, end), over = capacity === null ? []
            : [...fires].filter(([m, n]) => m >= now && n > capacity);
        const marks = marksOf(data.calendars, days, z), dayPeaks = peaksOf(fires, Math.max(now, chosenDay), nextDay(chosenDay, z));
        const asTable = ctx.route.query.get('as') === 'table';
        return [h('header', { key: 'head' }, head(ctx, days),
        h('p.second', answer(total, over, peaks, z, data.read.complete, [...fires].filter(([m, n]) => m >= now && m < end && n === peaks[0]?.fires).length - 1))),
        total ? h('div.split', { key: 'split' }, h('div.stack', asTable ? tables(fires, days, chosenDay, z, now, ctx) : maps(data, ctx,
            { days, z, now, chosenDay, at, capacity, marks, dayPeaks })), h('div.stack', minuteView(data, ctx, at, z, capacity),
            peakTable(peaks, ctx, z), markTable(marks, z, d => relink(ctx.route, { from: new Date(d).toISOString(), day: null, at: null }), ctx.now)))
            : nothingToCome('these two weeks')];
    },
};

/** @param {Context} ctx @param {number[]} days */
function head(ctx, days) {
    const z = zone(ctx), asTable = ctx.route.query.get('as') === 'table', today = isQuarter(ctx) ? quarterDays(ctx.now, z)[0] : dayStart(ctx.now, z);
    const move = (/** @type {number} */ by) => relink(ctx.route, { from: new Date(dayStart(days[0] + by * DAY + 12 * HOUR, z)).toISOString(),
        day: null, at: null });
    return h('div.head', h('h1', { tabindex: -1 }, 'Calendar'), h('span.second',
        `${day(days[0], z)} to ${day(days[days.length - 1], z)} ${fieldsOf(days[days.length - 1], z).year}, ${z}`), h('span.grow'),
    segments('Show', [['Two weeks', relink(ctx.route, { by: null, at: null }), !isQuarter(ctx)], ['Quarter', relink(ctx.route, { by: 'quarter', day: null,
        at: null }), isQuarter(ctx)]]),
    days[0] > today ? h('a.button', { href: move(-days.length) }, 'Earlier') : null, days[0] === today ? null : h('a.button',
        { href: relink(ctx.route, { from: null, day: null, at: null }) }, 'Today'), h('a.button', { href: move(days.length) }, 'Later'),
    h('a.button', { href: relink(ctx.route, { as: asTable ? null : 'table' }) }, asTable ? 'Map' : 'Table'));
}

/** @typedef {{fires: Map<number, number>, complete: boolean}} Read */

// Adds the fires of a span.
/** @param {Read} read @param {string} by @param {number} from @param {number} to @param {string | null} queue */
async function readSpan(read, by, from, to, queue) {
    const list = await get('/v1/upcoming', { group_by: by, from: new Date(from).toISOString(), to: new Date(to).toISOString(), queue });
    for (const part of list[by + 's']) read.fires.set(parse(part.at), part.fires);
    read.complete &&= list.complete;
}

/** @param {number[]} days @param {string | null} queue */
async function readAll(days, queue) {
    /** @type {Read} */
    const read = { fires: new Map(), complete: true };
    const now = Math.floor(Date.now() / MINUTE) * MINUTE, end = days[days.length - 1] + DAY + HOUR;
    /** @type {[number, number][]} */
    const chunks = [];
    for (let from = Math.max(now, days[0]); from < end; from += CHUNK_MS) chunks.push([from, Math.min(from + CHUNK_MS, end)]);
    await Promise.all([0, 1].map(async lane => {
        for (let i = lane; i < chunks.length; i += 2) await readSpan(read, 'minute', ...chunks[i], queue);
    }));
    return read;
}

// Hours are counted from the local midnight on, so that they are those of the zone.
/** @param {number[]} days @param {string | null} queue @param {number} end */
async function readQuarter(days, queue, end) {
    /** @type {Read} */
    const read = { fires: new Map(), complete: true };
    const now = Date.now();
    await Promise.all(days.filter((_, i) => i % QUARTER_CHUNK_DAYS === 0).map(async (start, i) => {
        const to = days[(i + 1) * QUARTER_CHUNK_DAYS] ?? end, from = now > start ? start + Math.floor((now - start) / HOUR) * HOUR : start;
        if (from < to) await readSpan(read, 'hour', from, to, queue);
    }));
    return read;
}

/** @param {Context} ctx */
async function readCalendars(ctx) {
    if (!ctx.can('calendars:read')) return [];
    const list = await maybe('/v1/calendars', { limit: 20 });
    return Promise.all((list?.calendars ?? []).map((/** @type {any} */ c) => get(`/v1/calendars/${encodeURIComponent(c.name)}`)));
}

// How many tasks can start and end in a minute, from the slots and from how long the latest attempts took.
/** @param {any} data @returns {number | null} */
function capacityOf(data) {
    const slots = (data.status?.nodes ?? []).reduce((/** @type {number} */ n, /** @type {any} */ x) => n + (x.slots ?? 0), 0),
        ran = data.ran?.executions ?? [];
    if (!slots || ran.length < 20) return null;
    const mean = ran.reduce((/** @type {number} */ n, /** @type {any} */ e) => n + parse(e.completed_at) - parse(e.started_at),
        0) / ran.length;
    return Math.floor(slots * MINUTE / Math.max(1, mean));
}

/**
 * @param {number} total @param {[number, number][]} over @param {any[]} peaks @param {string} z @param {boolean} complete
 * @param {number} ties how many other minutes are as full
 */
function answer(total, over, peaks, z, complete, ties) {
    const first = over.length ? Math.min(...over.map(([at]) => at)) : NaN;
    return [h('b', `${number(total)}${complete ? '' : ' or more'} fires are to come. `), over.length ? h('span.hold',
        `${count(over.length, 'minute')} bring more than can start in time; the first is ${day(first, z)} ${clock(first, z).slice(0, 5)}.`)
        : peaks.length ? ['No minute brings more than can start in time; the fullest is ',
            `${day(peaks[0].at, z)} ${clock(peaks[0].at, z).slice(0, 5)} with ${number(peaks[0].fires)}`,
            ties > 0 ? `, and ${count(ties, 'other minute')} ${ties === 1 ? 'is' : 'are'} as full.` : '.'] : 'They are spread evenly.'];
}

/** @param {any} data @param {Context} ctx @param {any} v */
function maps(data, ctx, v) {
    const { fires } = data.read, hours = v.days.flatMap((/** @type {number} */ d) => hoursOf(d,
        v.z).filter(hour => hour.at > v.now).map(hour => sum(fires, hour.at, hour.at + HOUR))), weekSteps = thresholds(hours);
    const minutes = hoursOf(v.chosenDay, v.z).flatMap(hour => Array.from({ length: 60 },
        (_, m) => hour.at + m * MINUTE)).filter(m => m > v.now).map(m => fires.get(m) ?? 0), daySteps = thresholds(minutes);
    const quiet = new Set(v.dayPeaks.slice(0, 8).flatMap((/** @type {any} */ p) => p.quiet)),
        shown = new Map([...v.marks].map(([d, list]) => [d, list.join(', ')]));
    return [section('weeks', 'By hour', { note: heatLegend(weekSteps, 'fires an hour') },
        weekMap({ fires, days: v.days, zone: v.z, now: ctx.now, chosen: v.chosenDay, marks: shown, steps: weekSteps,
        open: d => go(relink(ctx.route, { day: new Date(d).toISOString(), at: null })) })),
        section('day', `${day(v.chosenDay, v.z)}, by minute`, { note: [heatLegend(daySteps, 'fires a minute')] },
            dayMap({ fires, start: v.chosenDay, zone: v.z, now: ctx.now, chosen: v.at, capacity: v.capacity,
            quiet: /** @type {Set<number>} */ (quiet), steps: daySteps, open: at => go(relink(ctx.route, { at: new Date(at).toISOString(),
            day: new Date(v.chosenDay).toISOString() })) }),
            h('p.legend', h('span', h('svg.heat', { width: 14, height: 14, 'aria-hidden': 'true' }, h('rect.over',
                { x: 1, y: 1, width: 12, height: 12 })), 'more than can start in time'),
                h('span', h('svg.heat', { width: 14, height: 14, 'aria-hidden': 'true' }, h('rect.h0', { width: 14, height: 14 }),
                h('circle.quiet-minute', { cx: 7, cy: 7, r: 2 })), 'quiet, beside a peak')))];
}

/** @param {Map<number, number>} fires @param {number[]} days @param {number} chosen @param {string} z @param {number} now @param {Context} ctx */
function tables(fires, days, chosen, z, now, ctx) {
    return [section('weeks', 'By day', {}, h('table', h('thead', h('tr', h('th', { scope: 'col' }, 'Day'), h('th.num', { scope: 'col' },
        'Fires'), h('th.num', { scope: 'col' }, 'Fullest hour'))), h('tbody', days.map(d => {
        const best = hoursOf(d, z).map(hour => ({ hour, n: sum(fires, hour.at, hour.at + HOUR) })).reduce((a, b) => b.n > a.n ? b : a);
        return h('tr', { key: d }, h('td', h('a', { href: relink(ctx.route, { day: new Date(d).toISOString(), at: null }),
            'aria-current': d === chosen ? 'true' : null }, day(d, z))), h('td.num', number(sum(fires, Math.max(now, d), nextDay(d, z)))),
            h('td.num', best.n ? `${two(best.hour.local)}:00, ${number(best.n)}` : '–'));
    })))), section('day', `${day(chosen, z)}, by hour`, {}, h('table', h('thead', h('tr', h('th', { scope: 'col' }, 'Hour'),
        h('th.num', { scope: 'col' }, 'Fires'), h('th.num', { scope: 'col' }, 'Fullest minute'))),
        h('tbody', hoursOf(chosen, z).map(hour => {
        const minutes = Array.from({ length: 60 }, (_, m) => hour.at + m * MINUTE),
            best = minutes.reduce((a, b) => (fires.get(b) ?? 0) > (fires.get(a) ?? 0) ? b : a);
        return h('tr', { key: hour.at }, h('td', `${two(hour.local)}:00${hour.repeated ? ' ' + hour.zone : ''}`),
            h('td.num', number(sum(fires, hour.at, hour.at + HOUR))), h('td.num', fires.get(best) ? h('a',
            { href: relink(ctx.route, { at: new Date(best).toISOString(), day: new Date(chosen).toISOString() }) },
            `${clock(best, z).slice(0, 5)}, ${number(fires.get(best))}`) : '–'));
    }))))];
}

/** @param {any} data @param {Context} ctx @param {number} at @param {string} z @param {number | null} capacity */
function minuteView(data, ctx, at, z, capacity) {
    if (Number.isNaN(at) || !data.minute) return null;
    const n = data.read.fires.get(at) ?? data.minute.length, tasks = new Map(),
        skipped = data.minute.filter((/** @type {any} */ f) => f.skipped);
    for (const f of data.minute) tasks.set(f.task_id, { name: f.name, note: f.note, skipped: f.skipped,
        n: (tasks.get(f.task_id)?.n ?? 0) + 1 });
    const late = capacity !== null && n > capacity ? (n / capacity - 1) * MINUTE : 0;
    return section('minute', `${day(at, z)} ${clock(at, z).slice(0, 5)} ${zoneName(at, z)}`,
        { more: h('a', { href: relink(ctx.route, { at: null }) }, 'Close') },
        facts([['UTC', new Date(at).toISOString().slice(11, 16) + 'Z'], ['Fires', capacity === null ? number(n)
        : `${number(n)}; about ${number(capacity)} can run in the minute`],
        ['Late by', late ? badge('LATE', { word: `about ${span(late)}, the last` }) : null],
        ['Skipped', skipped.length ? number(skipped.length) : null]]),
        h('table', h('thead', h('tr', h('th', { scope: 'col' }, 'Task'), h('th.num', { scope: 'col' }, 'Fires'))),
            h('tbody', [...tasks].sort(([, a], [, b]) => b.n - a.n).slice(0, 20).map(([id, f]) => h('tr', { key: id }, h('td.anywhere',
            h('a.quiet', { href: link(['tasks', id]) }, userText(f.name ?? id.slice(0, 18))), f.note ? h('span.sub', userText(f.note))
            : null), h('td.num', f.n))))), tasks.size > 20 ? h('p.label',
            `and ${number(tasks.size - 20)}${data.minuteComplete ? '' : ' or more'} others`) : null);
}

/** @param {any[]} peaks @param {Context} ctx @param {string} z */
function peakTable(peaks, ctx, z) {
    const seen = new Set(); // the same minute of several days is one line
    const first = peaks.filter(p => !seen.has(clock(p.at, z)) && seen.add(clock(p.at, z))).slice(0, 6);
    if (!first.length) return null;
    return section('peaks', 'Where it piles up', {}, h('table', h('thead', h('tr', h('th', { scope: 'col' }, 'Minute'),
        h('th.num', { scope: 'col' }, 'Fires'), h('th.num', { scope: 'col' }, 'Quiet beside it'))),
        h('tbody', first.map(p => h('tr', { key: p.at }, h('td.nowrap', h('a.quiet',
        { href: relink(ctx.route, { at: new Date(p.at).toISOString(), day: new Date(dayStart(p.at, z)).toISOString() }) },
        `${day(p.at, z)}, ${clock(p.at, z).slice(0, 5)}`)), h('td.num', number(p.fires)),
        h('td.num', p.quiet.map((/** @type {number} */ q) => clock(q, z).slice(0, 5)).join(', ') || '–'))))),
        h('p.label', 'A spread moves each task by a fixed part of it:'), h('pre.command', 'belfry edit TASK --spread 5m'));
}
