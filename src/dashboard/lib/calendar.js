// The days and hours of the calendar, clock changes, and where fires pile up. Fires are by the start of their minute.
import { DAY, dayStart, fieldsOf, HOUR, MINUTE, offsetOf, two, zoneName } from './time.js';

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

// Days with a clock change or a holiday of a calendar.
/** @param {any[]} calendars @param {number[]} days @param {string} z */
export function marksOf(calendars, days, z) {
    /** @type {Map<number, string[]>} */
    const marks = new Map();
    for (const start of days) {
        const f = fieldsOf(start, z), date = `${f.year}-${two(f.month)}-${two(f.day)}`,
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

/** @param {Map<number, number>} fires @param {number} from @param {number} to */
export function sum(fires, from, to) {
    let n = 0;
    for (let at = from; at < to; at += MINUTE) n += fires.get(at) ?? 0;
    return n;
}

/**
 * Where it piles up: the busiest minutes of a span that stand out, each with a quiet minute nearby to which tasks could move.
 * @param {Map<number, number>} fires @param {number} from @param {number} to @returns {{at: number, fires: number, quiet: number[]}[]}
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
