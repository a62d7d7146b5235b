// The heat map of what is to come: two weeks by hour, one day by minute. One hue in six steps; a clock change has a row or a half cell of
// its own. The calculations are pure; a table beside it has the same numbers.
import { h } from '../lib/dom.js';
import { count, day, DAY, dayStart, fieldsOf, HOUR, MINUTE, number, offsetOf, relative, zoneName } from '../lib/time.js';
import { section, userText } from './parts.js';

/** @typedef {Map<number, number>} Fires fires by the start of their minute, in ms */
/** @typedef {{at: number, local: number, zone: string, repeated: boolean}} HourRow */

// The hours of a local day: 24, or 23 and 25 when the clock changes.
/** @param {number} start @param {string} zone @returns {HourRow[]} */
export function hoursOf(start, zone) {
    /** @type {HourRow[]} */
    const rows = [];
    const end = nextDay(start, zone);
    for (let at = start; at < end; at += HOUR) rows.push({ at, local: fieldsOf(at, zone).hour, zone: zoneName(at, zone), repeated: false });
    rows.forEach((row, i) => { row.repeated = rows.some((other, k) => k !== i && other.local === row.local); });
    return rows;
}

/** @param {number} start @param {string} zone */
export const nextDay = (start, zone) => dayStart(start + 26 * HOUR, zone);

/** @param {number} start @param {string} zone @returns {string | null} what the clock does on that day */
export function clockChange(start, zone) {
    const d = offsetOf(nextDay(start, zone), zone) - offsetOf(start, zone);
    return d === 0 ? null : d > 0 ? `Clocks go forward: ${24 - d / 60} hours` : `Clocks go back: ${24 - d / 60} hours`;
}

// Five thresholds, rounded, so that the busiest cell has the darkest step. If every cell has much, the steps divide what is above that.
/** @param {number[]} values @returns {number[]} */
export function thresholds(values) {
    const some = values.filter(v => v > 0).sort((a, b) => a - b), top = some[some.length - 1] ?? 1,
        low = some[Math.floor(some.length / 20)] ?? 0;
    const unit = 10 ** Math.max(0, Math.floor(Math.log10(Math.max(1, top - low)))), base = some.length > values.length * .9
        && low > top * .3 ? Math.floor(low / unit) * unit : 0, range = top - base;
    if (range <= 5) return [1, 2, 3, 4, 5].map(n => n === 1 ? 1 : base + n);
    const size = 10 ** Math.floor(Math.log10(range / 5)), step = [1, 2, 2.5, 5,
        10].map(k => k * size).filter(s => s * 4 <= range).pop() ?? size;
    return [1, base + step, base + step * 2, base + step * 3, base + step * 4].map(Math.round);
}

/** @param {number} n @param {number[]} steps */
export const stepOf = (n, steps) => n <= 0 ? 0 : steps.filter(s => n >= s).length || 1;

/**
 * Where it piles up: the busiest minutes of a span that stand out, each with a quiet minute nearby to which tasks could move.
 * @param {Fires} fires @param {number} from @param {number} to @returns {{at: number, fires: number, quiet: number[]}[]}
 */
export function peaksOf(fires, from, to) {
    const list = [...fires].filter(([at]) => at >= from && at < to).sort((a, b) => b[1] - a[1] || a[0] - b[0]);
    if (!list.length) return [];
    const usual = list[list.length >> 1][1];
    return list.filter(([, n]) => n >= usual + 3).slice(0, 60).map(([at, n]) => {
        const quiet = [];
        for (let m = 1; m <= 25 && quiet.length < 2; m++) {
            for (const near of [at + m * MINUTE, at - m * MINUTE]) if (near >= from && near < to
                && (fires.get(near) ?? 0) <= usual + (n - usual) / 8 && quiet.length < 2) quiet.push(near);
        }
        return { at, fires: n, quiet };
    });
}

/** @param {number[]} steps @param {string} unit */
export const heatLegend = (steps, unit) => h('span.legend', [0, ...steps].map((n, i) => h('span', { key: n }, h('svg.heat',
    { width: 14, height: 14, 'aria-hidden': 'true' }, h('rect', { class: 'h' + i, width: 14, height: 14, rx: 1 })), i === steps.length
    ? `${number(n)}+` : number(n))), h('span', unit));

/** @param {Fires} fires @param {number} from @param {number} to */
export function sum(fires, from, to) {
    let n = 0;
    for (let at = from; at < to; at += MINUTE) n += fires.get(at) ?? 0;
    return n;
}

/**
 * Days by hour.
 * @param {{fires: Fires, days: number[], zone: string, now: number, chosen: number, marks: Map<number, string>, steps: number[], open: (day: number) => void}} spec
 */
export const weekMap = spec => h('div.heat', { draw: (/** @type {number} */ width) => {
    const narrow = width < 620, left = narrow ? 48 : 88, right = narrow ? 0 : 196, cell = (width - left - right) / 24, row = 20;
    return h('svg', { width, height: 26 + spec.days.length * row, role: 'img',
        'aria-label': 'Fires by hour and day; Table shows the same' },
        Array.from({ length: 24 }, (_, i) => i).filter(i => i % (narrow ? 6 : 2) === 0).map(i => h('text', { x: left + i * cell + 1,
            y: 14 }, String(i).padStart(2, '0'))),
        spec.days.map((start, i) => {
            const y = 22 + i * row, name = day(start, spec.zone), chosen = start === spec.chosen;
            return h('g', { key: start, 'data-at': start, onclick: () => spec.open(start) },
                h('text', { x: 0, y: y + 14, class: chosen ? 'day' : null }, narrow ? name.slice(0, -4) : name),
                hoursOf(start, spec.zone).map((hour, k, all) => {
                    const n = sum(spec.fires, hour.at, hour.at + HOUR), past = hour.at + HOUR <= spec.now, second = hour.repeated
                        && all[k - 1]?.local === hour.local;
                    const w = hour.repeated ? cell / 2 - 1.5 : cell - 2, x = left + hour.local * cell + (second ? cell / 2 : 0);
                    return [h('rect', { class: past ? 'past' : 'h' + stepOf(n, spec.steps), x: (x + (past ? .5 : 0)).toFixed(1),
                        y: y + (past ? .5 : 0), width: Math.max(1, w - (past ? 1 : 0)).toFixed(1), height: row - 2 - (past ? 1 : 0),
                        rx: 1 },
                        h('title', past ? 'over' : `${name} ${String(hour.local).padStart(2, '0')}:00 ${hour.zone}, ${count(n, 'fire')}`)),
                            second ? h('line.rule', { x1: x - 1, x2: x - 1, y1: y, y2: y + row - 2 }) : null];
                }),
                !narrow && spec.marks.get(start) ? h('text.hold', { x: width - right + 12, y: y + 14 },
                    (spec.marks.get(start) ?? '').slice(0, 30)) : null);
        }), spec.days.includes(spec.chosen) ? h('rect.chosen', { x: left - 3, y: 19 + spec.days.indexOf(spec.chosen) * row,
            width: 24 * cell + 4, height: row + 4, rx: 2 }) : null);
} });

/**
 * One day by minute.
 * @param {{fires: Fires, start: number, zone: string, now: number, chosen: number, capacity: number | null, quiet: Set<number>, steps: number[], open: (at: number) => void}} spec
 */
export const dayMap = spec => h('div.heat', { draw: (/** @type {number} */ width) => {
    const narrow = width < 620, left = narrow ? 48 : 88, right = narrow ? 0 : 76, cell = (width - left - right) / 60, row = 15,
        hours = hoursOf(spec.start, spec.zone);
    const clicked = (/** @type {any} */ e) => { const at = Number(e.target.getAttribute?.('data-at')); if (at) spec.open(at); };
    /** @type {any[]} */
    const over = [];
    const cells = hours.map((hour, i) => {
        const y = 22 + i * row, second = hour.repeated && hours[i - 1]?.local === hour.local, total = sum(spec.fires, hour.at,
            hour.at + HOUR);
        if (second) over.push(h('line.rule', { key: 'r' + i, x1: left, x2: width - right, y1: y - .5, y2: y - .5 }));
        return h('g', { key: hour.at }, h('text', { x: 0, y: y + 12, class: hour.repeated ? 'hold' : null }, String(hour.local).padStart(2,
            '0') + (hour.repeated ? ' ' + hour.zone : '')),
            Array.from({ length: 60 }, (_, m) => {
                const at = hour.at + m * MINUTE, n = spec.fires.get(at) ?? 0, x = left + m * cell, past = at + MINUTE <= spec.now;
                if (spec.capacity !== null && n > spec.capacity) over.push(h('rect.over', { key: 'o' + at, x: (x - 1).toFixed(1), y: y - 1,
                    width: (cell + 1).toFixed(1), height: row + 1 }));
                if (spec.quiet.has(at)) over.push(h('circle.quiet-minute', { key: 'q' + at, cx: (x + (cell - 1) / 2).toFixed(1), cy: y + 7,
                    r: narrow ? 1.25 : 2 }));
                if (at === spec.chosen) over.push(h('rect.chosen', { key: 'c' + at, x: (x - 2).toFixed(1), y: y - 2,
                    width: (cell + 3).toFixed(1), height: row + 3, rx: 2 }));
                return h('rect', { class: past ? 'h0' : 'h' + stepOf(n, spec.steps), 'data-at': at, x: x.toFixed(1), y, width: Math.max(1,
                    cell - 1).toFixed(1), height: row - 1 });
            }), narrow ? null : h('text', { x: width - right + 60, y: y + 12, 'text-anchor': 'end' }, hour.at + HOUR <= spec.now ? '–'
                : number(total)));
    });
    return h('svg', { width, height: 26 + hours.length * row, role: 'img', 'aria-label': 'Fires by minute; Table shows the same',
        onclick: clicked },
        Array.from({ length: 60 }, (_, m) => m).filter(m => m % (narrow ? 15 : 5) === 0).map(m => h('text', { x: left + m * cell, y: 14 },
            ':' + String(m).padStart(2, '0'))), cells, h('g', over));
} });

// Days with a clock change or a holiday of a calendar.
/** @param {any[]} calendars @param {number[]} days @param {string} z */
export function marksOf(calendars, days, z) {
    /** @type {Map<number, string[]>} */
    const marks = new Map();
    for (const start of days) {
        const f = fieldsOf(start, z), date = `${f.year}-${String(f.month).padStart(2, '0')}-${String(f.day).padStart(2, '0')}`,
            change = clockChange(start, z), list = change ? [change] : [];
        for (const c of calendars) {
            const hit = (c.excluded ?? []).find((/** @type {any} */ d) => (typeof d === 'string' ? d : d.date) === date);
            if (hit) list.push(`${typeof hit === 'object' && hit.name ? hit.name : 'Holiday'} (${c.name})`);
        }
        if (list.length) marks.set(start, list);
    }
    return marks;
}

/** @type {Map<string, number | null>} */
const changes = new Map(); // a view is drawn each second, and Intl is slow

// The next day on which the clock of a zone changes, within a year; null: there is none.
/** @param {number} from a local midnight @param {string} zone @returns {number | null} */
export function nextClockChange(from, zone) {
    const key = zone + from;
    let found = changes.get(key);
    if (found === undefined) {
        let at = from;
        while (at < from + 370 * DAY && !clockChange(at, zone)) at = nextDay(at, zone);
        found = at < from + 370 * DAY ? at : null;
        changes.set(key, found);
    }
    return found;
}

/** @param {Map<number, string[]>} marks @param {string} z @param {(d: number) => string} open @param {number} now */
export function markTable(marks, z, open, now) {
    const next = nextClockChange(dayStart(now, z), z), rows = [...marks];
    if (next !== null && !marks.has(next)) rows.push([next, [`${clockChange(next, z)}, ${relative(next, now)}`]]);
    return rows.length ? section('marks', 'Marks', {}, h('table', h('thead', h('tr', h('th', { scope: 'col' }, 'Day'),
        h('th', { scope: 'col' }, 'What'))), h('tbody', rows.map(([d, list]) => h('tr', { key: d }, h('td.nowrap', h('a.quiet', { href: open(d) },
        day(d, z))), h('td.anywhere', userText(list.join(', ')))))))) : null;
}
