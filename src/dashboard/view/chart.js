// Charts as SVG, drawn at the width of their place: sparkline, lines on a logarithmic scale, occurrences as a strip, attempts as a
// timeline. Each has its numbers in a table beside it.
import { h } from '../lib/dom.js';
import { clock, day, span, zoneOf } from '../lib/time.js';

// The last points of a rate.
/** @param {number[]} values @param {{bad?: boolean, label: string}} how */
export const spark = (values, how) => h('span.spark', { class: how.bad ? 'bad' : null, draw: (/** @type {number} */ width) => {
    const height = 28, top = Math.max(...values, 0) || 1, n = Math.max(2, values.length);
    const x = (/** @type {number} */ i) => i * (width - 6) / (n - 1), y = (/** @type {number} */ v) => height - 2 - v / top * (height - 6);
    return h('svg', { width, height, role: 'img', 'aria-label': how.label }, h('path.zero', { d: `M0 ${height - .5}H${width}` }),
        values.length > 1 ? [h('path', { d: 'M' + values.map((v, i) => `${x(i).toFixed(1)} ${y(v).toFixed(1)}`).join('L') }),
            h('circle', { cx: x(values.length - 1).toFixed(1), cy: y(values[values.length - 1]).toFixed(1), r: 2.5 })] : null);
} });

/**
 * Lines over time on a logarithmic scale of milliseconds.
 * @typedef {{name: string, values: (number | null)[], second?: boolean}} Series
 * @param {{times: number[], series: Series[], limit?: number, label: string, zone: string}} spec
 */
export const delayChart = spec => h('div.chart', { draw: (/** @type {number} */ width) => {
    const height = 216, left = 52, right = width < 480 ? 84 : 92, above = 8, below = 24, n = spec.times.length;
    const x = (/** @type {number} */ i) => left + i * (width - left - right) / Math.max(1, n - 1);
    const y = (/** @type {number} */ ms) => above + (1 - Math.log10(Math.min(1e4, Math.max(1, ms))) / 4) * (height - above - below);
    const ticks = /** @type {[number, string][]} */ ([[1, '1 ms'], [10, '10 ms'], [100, '100 ms'], [1000, '1 s'], [10000, '10 s']]);
    const ends = spread(spec.series.map(s => y(lastOf(s.values) ?? 1)), 15);
    return h('svg', { width, height, role: 'img', 'aria-label': spec.label },
        ticks.map(([ms, text]) => [h('line.grid', { x1: left, x2: width - right, y1: y(ms), y2: y(ms) }),
            h('text', { x: left - 8, y: y(ms) + 4, 'text-anchor': 'end' }, text)]),
        [0, .33, .66, 1].map(f => h('text', { x: x(f * (n - 1)), y: height - 4, 'text-anchor': f === 0 ? 'start' : f === 1 ? 'end'
            : 'middle' },
            n ? clock(spec.times[Math.round(f * (n - 1))], spec.zone).slice(0, 5) : '')),
        spec.limit ? [h('line.limit', { x1: left, x2: width - right, y1: y(spec.limit), y2: y(spec.limit) }),
            h('text.limit-name', { x: width - right + 8, y: y(spec.limit) + 4 }, 'limit ' + span(spec.limit))] : null,
        spec.series.map((s, i) => [h('path.line', { class: s.second ? 'second' : null, d: path(s.values, x, y) }),
            h('text.name', { class: s.second ? 'second' : null, x: width - right + 8, y: ends[i] + 4 },
                `${s.name} ${span(lastOf(s.values))}`)]));
} });

/** @param {(number | null)[]} values */
const lastOf = values => { for (let i = values.length - 1; i >= 0; i--) if (values[i] !== null) return values[i]; return null; };

// Labels at least so far apart.
/** @param {number[]} places @param {number} apart */
function spread(places, apart) {
    const order = places.map((_, i) => i).sort((a, b) => places[a] - places[b]);
    const result = [...places];
    for (let k = 1; k < order.length; k++) result[order[k]] = Math.max(result[order[k]], result[order[k - 1]] + apart);
    return result;
}

/** @param {(number | null)[]} values @param {(i: number) => number} x @param {(v: number) => number} y */
function path(values, x, y) {
    let d = '', down = false;
    values.forEach((v, i) => {
        if (v === null) { down = false; return; }
        d += `${down ? 'L' : 'M'}${x(i).toFixed(1)} ${y(v).toFixed(1)}`;
        down = true;
    });
    return d || 'M0 0';
}

/** @typedef {{at: number, kind: 'ok' | 'fail' | 'skipped' | 'waits' | 'running', took: number | null, retried: boolean, text: string, href: string}} Bar */

// One bar an occurrence, as high as it took.
/** @param {Bar[]} bars @param {string} zone @param {string} label */
export const strip = (bars, zone, label) => h('div.strip', { draw: (/** @type {number} */ width) => {
    const height = 84, base = 58, n = Math.min(bars.length, Math.floor((width - 8) / 9)), shown = bars.slice(bars.length - n);
    const pitch = Math.min(20, (width - 1) / Math.max(1, n)), w = Math.max(3, Math.min(12, pitch - 3));
    const top = Math.max(1, ...shown.map(b => b.took ?? 0));
    const texts = new Set();
    return h('svg', { width, height, role: 'group', 'aria-label': label }, h('line.base', { x1: 0, x2: width, y1: base + .5, y2: base + .5 }),
        shown.map((b, i) => {
            const tall = b.kind === 'fail' ? 46 : b.kind === 'skipped' ? 12 : b.kind === 'waits' ? 30 : 8 + (b.took ?? 0) / top * 34;
            const x = i * pitch, o = b.kind === 'skipped' || b.kind === 'waits' ? .5 : 0, name = day(b.at, zone).slice(4);
            const labelled = (i === 0 || i === n - 1 || i % 14 === 0) && !texts.has(name) && (i === n - 1 || x < width - 90);
            if (labelled) texts.add(name);
            return h('g', { key: b.at + b.href }, h('a', { href: b.href, 'aria-label': b.text, tabindex: i === n - 1 ? 0 : -1 },
                h('title', b.text),
                h('rect', { class: b.kind, x: (x + o).toFixed(1), y: base - tall + o, width: w - 2 * o, height: tall - 2 * o, rx: 1 })),
            b.kind === 'fail' ? h('path.cross', { d: `M${(x + w / 2 - 3).toFixed(1)} 2l6 6m0-6l-6 6` }) : null,
            b.retried ? h('circle.retried', { cx: (x + w / 2).toFixed(1), cy: base - tall - 5, r: 2 }) : null,
            labelled ? h('text', { x: i === n - 1 && n > 8 ? x + w : x, y: base + 18, 'text-anchor': i === n - 1 && n > 8 ? 'end'
                : 'start' }, name) : null);
        }));
} });

/** @typedef {{due: number, started: number | null, ended: number | null, waited: boolean, retry: boolean, status: string, text: string, gate: string}} Attempt */

// What a timeline's axis goes up to: a round number of ms above the longest.
/** @param {Attempt[]} attempts @param {number} now */
export function axisOf(attempts, now) {
    const longest = Math.max(1, ...attempts.map(a => (a.ended ?? now) - a.due));
    const steps = [10, 50, 100, 500, 1000, 2000, 5000, 10000, 30000, 60000, 300000, 600000, 1800000, 3600000, 3 * 3600000, 12 * 3600000,
        86400000];
    const step = steps.find(s => s * 3 >= longest) ?? Math.ceil(longest / 3 / 86400000) * 86400000;
    return { step, max: Math.max(step * 3, longest) * 1.05 };
}

/** @param {{step: number, max: number}} axis */
export const timelineHead = axis => h('div', { draw: (/** @type {number} */ width) => h('svg', { width, height: 24, 'aria-hidden': 'true' },
    [0, 1, 2, 3].filter(i => width > 200 || (width > 110 ? i !== 2 : i === 0 || i === 3)).map(i => h('text',
        { x: 4 + i * axis.step / axis.max * (width - 12), y: 16, 'text-anchor': i === 3 ? 'end' : i ? 'middle' : 'start' },
        i ? '+' + short(i * axis.step) : 'due'))) });

/** @param {number} ms */
const short = ms => ms < 1000 ? `${ms} ms` : ms < 60000 ? `${ms / 1000} s` : ms < 3600000 ? `${ms / 60000} min` : `${ms / 3600000} h`;

// One attempt: due, held, claimed, ran.
/** @param {Attempt} a @param {{step: number, max: number}} axis @param {number} now */
export const timelineRow = (a, axis, now) => h('div', { draw: (/** @type {number} */ width) => {
    const x = (/** @type {number} */ ms) => 4 + Math.max(0, Math.min(1, ms / axis.max)) * (width - 12), height = 28, y = height / 2;
    const began = (a.started ?? now) - a.due, ended = (a.ended ?? now) - a.due;
    const xs = x(began), xe = Math.max(xs + 2, x(ended));
    const kind = a.status === 'RUNNING' ? 'running' : a.status === 'COMPLETED' ? 'ok' : 'fail';
    const label = a.started === null ? '' : a.text;
    return h('svg', { width, height, 'aria-hidden': 'true' },
        [1, 2, 3].map(i => h('line.axis', { x1: x(i * axis.step), x2: x(i * axis.step), y1: 0, y2: height })),
        a.waited && began > 0 ? (a.retry ? h('line.later', { x1: x(0), x2: xs, y1: y, y2: y })
            : h('rect.waits', { x: x(0) + .5, y: y - 4.5, width: Math.max(1, xs - x(0) - 1), height: 9, rx: 1 })) : null,
        a.started !== null ? h('rect', { class: kind, x: xs, y: y - 5, width: xe - xs, height: 10, rx: 1 }) : null,
        a.waited && a.started !== null ? h('path.claimed', { d: `M${xs} ${y - 5}l5 5-5 5-5-5z` }) : null,
        a.ended === null ? [h('line.now', { x1: xe, x2: xe, y1: 4, y2: height - 4 }), h('text', { x: xe + 6, y: y + 4 }, 'now')] : null,
        label && a.ended !== null && width - xe > 140 ? h('text.end', { x: xe + 8, y: y + 4 }, label.length > (width - xe) / 7
            ? label.slice(0, Math.floor((width - xe) / 7) - 1) + '…' : label) : null,
        h('line.due', { x1: x(0), x2: x(0), y1: y - 8, y2: y + 8 }));
} });

/** @typedef {[number, string, number]} Mark place, name, time */

// Marks that are too near to the one before share its place, so that no text lies over another.
/** @param {Mark[]} marks @param {number} apart @returns {Mark[]} */
export function spaced(marks, apart) {
    /** @type {Mark[]} */
    const result = [];
    for (const [at, name, ms] of marks) {
        const last = result[result.length - 1];
        if (last && at - last[0] < apart) last[1] += `, ${name}`;
        else result.push([at, name, ms]);
    }
    return result;
}

/** @param {Attempt} a @param {string} mode @param {string | undefined} zone */
export const instants = (a, mode, zone) => h('div.timeline', { draw: (/** @type {number} */ width) => {
    const z = zoneOf(mode, zone), height = 76, y = 36, left = 8, right = width > 560 ? 110 : 70;
    const total = Math.max(1, (a.ended ?? a.due) - a.due), x = (/** @type {number} */ ms) => left + Math.max(0,
        Math.min(1, ms / total)) * (width - left - right);
    const began = (a.started ?? a.due) - a.due, kind = a.status === 'COMPLETED' ? 'ok' : a.status === 'RUNNING' ? 'running' : 'fail';
    const xs = x(began), xe = Math.max(xs + 2, x(total));
    const marks = spaced([[x(0), 'due', a.due], ...a.started === null ? [] : [/** @type {Mark} */ ([xs, 'started', a.started])],
        ...a.ended === null ? [] : [/** @type {Mark} */ ([xe, 'ended', a.ended])]], width > 560 ? 92 : 66);
    return h('svg', { width, height, role: 'img', 'aria-label': 'due, started, ended' },
        h('line.axis', { x1: 0, x2: width, y1: y, y2: y }),
        began > 0 ? h('rect.waits', { x: x(0) + .5, y: y - 7.5, width: Math.max(1, xs - x(0) - 1), height: 15 }) : null,
        began > 0 && xs - x(0) > 160 ? h('text.gate', { x: (x(0) + xs) / 2, y: y + 4, 'text-anchor': 'middle' },
            `${span(began)}${a.gate ? ': ' + a.gate : ''}`.slice(0, (xs - x(0)) / 7 | 0)) : null,
        a.started !== null ? h('rect', { class: kind, x: xs, y: y - 8, width: xe - xs, height: 16 }) : null,
        marks.map(([at, name, ms]) => [h('line.due', { x1: at, x2: at, y1: y - 12, y2: y + 12 }), h('text.end', { x: at, y: 16 }, name),
            h('text', { x: at, y: height - 8 }, clock(ms, z, width > 560))]));
} });
