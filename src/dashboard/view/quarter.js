// The quarter: thirteen weeks by day and hour, or by day alone where there is little room. A day opens the calendar of two weeks.
import { hoursOf, marksOf, nextDay, stepOf, thresholds } from '../lib/calendar.js';
import { h } from '../lib/dom.js';
import { go, link, relink } from '../lib/router.js';
import { day, dayStart, fieldsOf, HOUR, MINUTE, number, two } from '../lib/time.js';
import { empty, section } from './parts.js';
import { heatLegend, markTable } from './heat.js';

/** @typedef {import('../lib/app.js').Context} Context */

const WEEKS = 13, WEEK = 7;
const WEEKDAYS = ['Mon', 'Tue', 'Wed', 'Thu', 'Fri', 'Sat', 'Sun'];

// The days of thirteen weeks, from the Monday of the week of an instant on.
/** @param {number} at @param {string} zone */
export function quarterDays(at, zone) {
    let first = dayStart(at, zone);
    for (let i = 0; i < WEEK && fieldsOf(first, zone).weekday !== 'Mon'; i++) first = dayStart(first - 12 * HOUR, zone);
    const days = [first];
    while (days.length < WEEKS * WEEK) days.push(nextDay(days[days.length - 1], zone));
    return days;
}

/** @param {Map<number, number>} fires @param {number} start @param {string} zone */
export const dayTotal = (fires, start, zone) => hoursOf(start, zone).reduce((n, hour) => n + (fires.get(hour.at) ?? 0), 0);

/** @param {string} span */
export const nothingToCome = span => empty(`Nothing is to come in ${span}.`, 'A recurring task fills the calendar.',
    "belfry add --cron '0 8 * * MON-FRI' --tz Europe/Berlin --name report https://example.com/report");

/** @param {any} data @param {Context} ctx @param {string} zone @param {number[]} days */
export function quarterView(data, ctx, zone, days) {
    const { fires, complete } = data.read, totals = days.map(d => dayTotal(fires, d, zone)), total = totals.reduce((a, b) => a + b, 0);
    const marks = marksOf(data.calendars, days, zone), best = totals.indexOf(Math.max(...totals)), asTable = ctx.route.query.get('as') === 'table';
    const open = (/** @type {number} */ d) => link(['calendar'], { queue: ctx.route.query.get('queue'), from: new Date(d).toISOString(),
        day: new Date(d).toISOString() });
    if (!total) return [nothingToCome('this quarter')];
    return [h('p.second', h('b', `${number(total)}${complete ? '' : ' or more'} fires are to come. `),
        'The fullest day is ', h('a', { href: open(days[best]) }, day(days[best], zone)), ` with ${number(totals[best])}.`),
    asTable ? weekTable(days, totals, zone, open) : quarterMap(fires, days, totals, zone, ctx.now, marks, d => go(open(d))),
    markTable(marks, zone, d => relink(ctx.route, { by: null, from: new Date(d).toISOString(), day: new Date(d).toISOString() }), ctx.now)];
}

/** @param {number[]} days @param {number[]} totals @param {string} zone @param {(d: number) => string} open */
function weekTable(days, totals, zone, open) {
    return section('weeks', 'By week', {}, h('table', h('thead', h('tr', h('th', { scope: 'col' }, 'Week of'), h('th.num', { scope: 'col' },
        'Fires'), h('th.num', { scope: 'col' }, 'Fullest day'))), h('tbody', Array.from({ length: WEEKS }, (_, w) => {
        const part = totals.slice(w * WEEK, (w + 1) * WEEK), best = part.indexOf(Math.max(...part));
        return h('tr', { key: days[w * WEEK] }, h('td', h('a', { href: open(days[w * WEEK]) }, day(days[w * WEEK], zone))), h('td.num',
            number(part.reduce((a, b) => a + b, 0))), h('td.num', part[best] ? `${WEEKDAYS[best]}, ${number(part[best])}` : '–'));
    }))));
}

/**
 * @param {Map<number, number>} fires @param {number[]} days @param {number[]} totals @param {string} zone @param {number} now
 * @param {Map<number, string[]>} marks @param {(d: number) => void} open
 */
function quarterMap(fires, days, totals, zone, now, marks, open) {
    const hourSteps = thresholds([...fires.values()]), daySteps = thresholds(totals);
    const clicked = (/** @type {any} */ e) => { const at = Number(e.target.getAttribute?.('data-at')); if (at) open(at); };
    /** @param {number} d */
    const title = d => `${day(d, zone)}, ${number(totals[days.indexOf(d)])} fires${marks.has(d) ? '; ' + marks.get(d)?.join(', ') : ''}`;
    return section('quarter', 'By day and hour', { note: h('span', h('span.from-s', heatLegend(hourSteps, 'fires an hour')), h('span.only-s',
        heatLegend(daySteps, 'fires a day'))) }, h('div.heat', { draw: (/** @type {number} */ width) => {
        const label = 'Fires of thirteen weeks; Table shows the same';
        if (width < 620) {
            const left = 56, cell = (width - left) / WEEK, row = 24;
            return h('svg', { width, height: 22 + WEEKS * row, role: 'img', 'aria-label': label, onclick: clicked },
                WEEKDAYS.map((name, i) => h('text', { x: left + i * cell, y: 14 }, name)),
                days.map((d, i) => [i % WEEK ? null : h('text', { key: 't' + d, x: 0, y: 38 + i / WEEK * row }, day(d, zone).slice(4)),
                    h('rect', { key: d, 'data-at': d, class: nextDay(d, zone) <= now ? 'past' : 'h' + stepOf(totals[i], daySteps),
                        x: (left + i % WEEK * cell).toFixed(1), y: 22 + Math.floor(i / WEEK) * row, width: (cell - 2).toFixed(1),
                        height: row - 2, rx: 1 }, h('title', title(d))),
                    marks.has(d) ? h('circle.mark', { key: 'm' + d, cx: (left + (i % WEEK + .5) * cell - 1).toFixed(1),
                        cy: 33 + Math.floor(i / WEEK) * row, r: 3 }) : null]));
        }
        const left = 36, cell = (width - left) / days.length, row = 13, top = 34;
        return h('svg', { width, height: top + 24 * row + 2, role: 'img', 'aria-label': label, onclick: clicked },
            [0, 3, 6, 9, 12, 15, 18, 21].map(hour => h('text', { x: 0, y: top + hour * row + 11 }, two(hour))),
            days.map((d, i) => h('g', { key: d }, i % WEEK ? null : h('text', { x: (left + i * cell).toFixed(1), y: 14 }, day(d, zone).slice(4)),
                marks.has(d) ? h('circle.mark', { cx: (left + (i + .5) * cell - .5).toFixed(1), cy: 25, r: 3 }, h('title', title(d))) : null,
                cellsOf(d).map(([local, n, past]) => h('rect', { 'data-at': d, class: past ? 'past' : 'h' + stepOf(n, hourSteps),
                    x: (left + i * cell).toFixed(1), y: top + local * row, width: Math.max(1, cell - (i % WEEK === 6 ? 3 : 1)).toFixed(1),
                    height: row - 1 }, h('title', `${title(d)}; ${two(local)}:00, ${number(n)}`))))));
    } }), h('p.legend', h('span', h('svg.heat', { width: 14, height: 14, 'aria-hidden': 'true' }, h('circle.mark', { cx: 7, cy: 7, r: 3 })),
        'a clock change or a holiday')));

    // An hour that comes twice is one cell with both, and one that is left out has none.
    /** @param {number} d @returns {[number, number, boolean][]} */
    function cellsOf(d) {
        /** @type {Map<number, [number, number, boolean]>} */
        const cells = new Map();
        for (const hour of hoursOf(d, zone)) {
            const known = cells.get(hour.local)?.[1] ?? 0;
            cells.set(hour.local, [hour.local, known + (fires.get(hour.at) ?? 0), hour.at + HOUR - MINUTE <= now]);
        }
        return [...cells.values()];
    }
}
