// The heat map of what is to come: two weeks by hour, one day by minute. One hue in six steps; a clock change has a row or a half cell of
// its own.
import { h } from '../lib/dom.js';
import { clockChange, hoursOf, nextClockChange, stepOf, sum } from '../lib/calendar.js';
import { count, day, dayStart, HOUR, MINUTE, number, relative, two } from '../lib/time.js';
import { section, userText } from './parts.js';

/** @param {number[]} steps @param {string} unit */
export const heatLegend = (steps, unit) => h('span.legend', [0, ...steps].map((n, i) => h('span', { key: n }, h('svg.heat',
    { width: 14, height: 14, 'aria-hidden': 'true' }, h('rect', { class: 'h' + i, width: 14, height: 14, rx: 1 })), i === steps.length
    ? `${number(n)}+` : number(n))), h('span', unit));

/**
 * Days by hour.
 * @param {{fires: Map<number, number>, days: number[], zone: string, now: number, chosen: number, marks: Map<number, string>, steps: number[], open: (day: number) => void}} spec
 */
export const weekMap = spec => h('div.heat', { draw: (/** @type {number} */ width) => {
    const narrow = width < 620, left = narrow ? 48 : 88, right = narrow ? 0 : 196, cell = (width - left - right) / 24, row = 20;
    return h('svg', { width, height: 26 + spec.days.length * row, role: 'img',
        'aria-label': 'Fires by hour and day; Table shows the same' },
        Array.from({ length: 24 }, (_, i) => i).filter(i => i % (narrow ? 6 : 2) === 0).map(i => h('text', { x: left + i * cell + 1,
            y: 14 }, two(i))),
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
                        h('title', past ? 'over' : `${name} ${two(hour.local)}:00 ${hour.zone}, ${count(n, 'fire')}`)),
                            second ? h('line.rule', { x1: x - 1, x2: x - 1, y1: y, y2: y + row - 2 }) : null];
                }),
                !narrow && spec.marks.get(start) ? h('text.hold', { x: width - right + 12, y: y + 14 },
                    (spec.marks.get(start) ?? '').slice(0, 30)) : null);
        }), spec.days.includes(spec.chosen) ? h('rect.chosen', { x: left - 3, y: 19 + spec.days.indexOf(spec.chosen) * row,
            width: 24 * cell + 4, height: row + 4, rx: 2 }) : null);
} });

/**
 * One day by minute.
 * @param {{fires: Map<number, number>, start: number, zone: string, now: number, chosen: number, capacity: number | null, quiet: Set<number>, steps: number[], open: (at: number) => void}} spec
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
        return h('g', { key: hour.at }, h('text', { x: 0, y: y + 12, class: hour.repeated ? 'hold' : null }, two(hour.local) + (hour.repeated ? ' ' + hour.zone : '')),
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
            ':' + two(m))), cells, h('g', over));
} });

/** @param {Map<number, string[]>} marks @param {string} z @param {(d: number) => string} open @param {number} now */
export function markTable(marks, z, open, now) {
    const next = nextClockChange(dayStart(now, z), z), rows = [...marks];
    if (next !== null && !marks.has(next)) rows.push([next, [`${clockChange(next, z)}, ${relative(next, now)}`]]);
    return rows.length ? section('marks', 'Marks', {}, h('table', h('thead', h('tr', h('th', { scope: 'col' }, 'Day'),
        h('th', { scope: 'col' }, 'What'))), h('tbody', rows.map(([d, list]) => h('tr', { key: d }, h('td.nowrap', h('a.quiet', { href: open(d) },
        day(d, z))), h('td.anywhere', userText(list.join(', ')))))))) : null;
}
