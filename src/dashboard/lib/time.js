// Instants as text: relative first, the exact time beside it, the zone named. Durations and numbers, too. Everything is pure: the
// clock and the zone come in.

export const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;

/** @type {Map<string, Intl.DateTimeFormat>} */
const formats = new Map();

/** @param {string} zone @param {Intl.DateTimeFormatOptions} options */
function formatOf(zone, options) {
    const key = zone + JSON.stringify(options);
    let format = formats.get(key);
    if (!format) {
        try {
            format = new Intl.DateTimeFormat('en-GB', { ...options, timeZone: zone, hourCycle: 'h23' });
        } catch {
            format = new Intl.DateTimeFormat('en-GB', { ...options, timeZone: 'UTC', hourCycle: 'h23' });
        }
        formats.set(key, format);
    }
    return format;
}

const LOCAL = Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC'; // asked once: each time costs as much as a row of a table

export const localZone = () => LOCAL;

// The zone in which a time is shown.
/** @param {string} mode local, utc or task @param {string} [taskZone] */
export function zoneOf(mode, taskZone) {
    if (mode === 'utc') return 'UTC';
    return mode === 'task' && taskZone ? taskZone : localZone();
}

/** @typedef {{year: number, month: number, day: number, hour: number, minute: number, second: number, weekday: string}} Fields */

/** @type {Map<string, Fields>} */
const fields = new Map(); // Intl is slow, and a list shows the same instants each second
const FIELDS_MAX = 4000;

// The calendar fields of an instant in a zone.
/** @param {number} ms @param {string} zone @returns {Fields} */
export function fieldsOf(ms, zone) {
    if (!Number.isFinite(ms)) ms = 0; // an address may hold anything
    const key = zone + Math.floor(ms / SECOND);
    let known = fields.get(key);
    if (!known) {
        if (fields.size >= FIELDS_MAX) fields.clear();
        known = computeFields(ms, zone);
        fields.set(key, known);
    }
    return known;
}

/** @param {number} ms @param {string} zone @returns {Fields} */
function computeFields(ms, zone) {
    const format = formatOf(zone, { year: 'numeric', month: '2-digit', day: '2-digit', hour: '2-digit', minute: '2-digit',
        second: '2-digit', weekday: 'short' });
    /** @type {Record<string, string>} */
    const found = {};
    for (const { type, value } of format.formatToParts(ms)) found[type] = value;
    return { year: +found.year, month: +found.month, day: +found.day, hour: +found.hour % 24, minute: +found.minute,
        second: +found.second, weekday: found.weekday };
}

// Minutes that a zone is ahead of UTC at an instant.
/** @param {number} ms @param {string} zone */
export function offsetOf(ms, zone) {
    const f = fieldsOf(ms, zone);
    return Math.round((Date.UTC(f.year, f.month - 1, f.day, f.hour, f.minute, f.second) - Math.floor(ms / 1000) * 1000) / MINUTE);
}

// The instant of a local midnight on or before ms.
/** @param {number} ms @param {string} zone */
export function dayStart(ms, zone) {
    const f = fieldsOf(ms, zone);
    let at = Date.UTC(f.year, f.month - 1, f.day) - offsetOf(ms, zone) * MINUTE;
    at = Date.UTC(f.year, f.month - 1, f.day) - offsetOf(at, zone) * MINUTE; // the clock may have changed since midnight
    return at;
}

export const two = (/** @type {string | number} */ n) => String(n).padStart(2, '0');
const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

// 02:30:00
/** @param {number} ms @param {string} zone @param {boolean} [withMs] */
export function clock(ms, zone, withMs = false) {
    const f = fieldsOf(ms, zone);
    return `${two(f.hour)}:${two(f.minute)}:${two(f.second)}` + (withMs ? '.' + String(((ms % 1000) + 1000) % 1000 | 0).padStart(3, '0')
        : '');
}

// Thu 22 Oct
/** @param {number} ms @param {string} zone */
export function day(ms, zone) {
    const f = fieldsOf(ms, zone);
    return `${f.weekday} ${f.day} ${MONTHS[f.month - 1]}`;
}

/** @type {Map<string, string>} */
const names = new Map();

// The short name of a zone at an instant: CEST, GMT+9, UTC.
/** @param {number} ms @param {string} zone */
export function zoneName(ms, zone) {
    if (zone === 'UTC' || !Number.isFinite(ms)) return 'UTC';
    const key = zone + Math.floor(ms / (15 * MINUTE)); // clocks change at quarters of an hour
    let name = names.get(key);
    if (name === undefined) {
        if (names.size >= FIELDS_MAX) names.clear();
        name = formatOf(zone, { timeZoneName: 'short' }).formatToParts(ms).find(p => p.type === 'timeZoneName')?.value ?? zone;
        names.set(key, name);
    }
    return name;
}

// The exact time: the day is left out if it is today.
/** @param {number} ms @param {number} now @param {string} zone */
export function absolute(ms, now, zone) {
    if (!Number.isFinite(ms)) return '–';
    const a = fieldsOf(ms, zone), b = fieldsOf(now, zone);
    if (a.year === b.year && a.month === b.month && a.day === b.day) return clock(ms, zone);
    return `${day(ms, zone)}${a.year === b.year ? '' : ' ' + a.year} ${clock(ms, zone)}`;
}

// The whole of it, for a title.
/** @param {number} ms @param {string} zone */
export const exact = (ms, zone) => !Number.isFinite(ms) ? '–'
    : `${day(ms, zone)} ${fieldsOf(ms, zone).year} ${clock(ms, zone, true)} ${zoneName(ms, zone)}`;

// in 3 min, 10 min ago, now
/** @param {number} ms @param {number} now */
export function relative(ms, now) {
    const d = ms - now;
    if (Math.abs(d) < SECOND) return 'now';
    return d > 0 ? 'in ' + rough(d) : rough(-d) + ' ago';
}

// One unit, rounded down: 53 s, 3 min, 2 h, 3 d.
/** @param {number} ms */
export function rough(ms) {
    if (ms < SECOND) return `${Math.max(0, Math.round(ms))} ms`;
    if (ms < 100 * SECOND) return `${Math.floor(ms / SECOND)} s`;
    if (ms < 100 * MINUTE) return `${Math.floor(ms / MINUTE)} min`;
    if (ms < 48 * HOUR) return `${Math.floor(ms / HOUR)} h`;
    return `${Math.floor(ms / DAY)} d`;
}

// Two units: 6 min 08 s, 1 h 52 min, 312 ms, 3.2 s.
/** @param {number | null | undefined} ms */
export function span(ms) {
    if (ms === null || ms === undefined || Number.isNaN(ms)) return '–';
    if (ms < 1) return ms > 0 ? '<1 ms' : '0 ms';
    if (ms < SECOND) return `${Math.round(ms)} ms`;
    if (ms < 10 * SECOND) return `${(Math.floor(ms / 100) / 10).toFixed(1).replace('.0', '')} s`;
    if (ms < MINUTE) return `${Math.floor(ms / SECOND)} s`;
    if (ms < HOUR) return `${Math.floor(ms / MINUTE)} min ${two(Math.floor(ms % MINUTE / SECOND))} s`;
    if (ms < DAY) return `${Math.floor(ms / HOUR)} h ${two(Math.floor(ms % HOUR / MINUTE))} min`;
    return `${Math.floor(ms / DAY)} d ${Math.floor(ms % DAY / HOUR)} h`;
}

const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });

// 12,408
/** @param {number | null | undefined} n */
export const number = n => n === null || n === undefined ? '–' : whole.format(n);

// A rate with two or three figures that matter.
/** @param {number} n */
export function rate(n) {
    if (n === 0) return '0';
    if (n < 0.1) return n.toFixed(2);
    if (n < 100) return n.toFixed(1).replace(/\.0$/, '');
    return number(Math.round(n));
}

// one task, 12 tasks
/** @param {number} n @param {string} one @param {string} [many] */
export const count = (n, one, many = one + 's') => `${number(n)} ${n === 1 ? one : many}`;

/** @param {string | null | undefined} text @returns {number} NaN if there is none */
export const parse = text => text ? Date.parse(text) : NaN;

/** @type {Record<string, number>} */
const UNITS = { w: 7 * DAY, d: DAY, h: HOUR, m: MINUTE, s: SECOND };

// 90s, 2h, 1h30m, 7d
/** @param {string} text @returns {number} ms; NaN if it is no duration */
export function duration(text) {
    const word = text.trim().toLowerCase();
    if (!/^(\d+[wdhms])+$/.test(word)) return NaN;
    return [...word.matchAll(/(\d+)([wdhms])/g)].reduce((sum, [, n, unit]) => sum + Number(n) * UNITS[unit], 0);
}

// A time as one types it: 1h is an hour ago, +1h in an hour; a day, and a day with a time, are local unless they name a zone.
/** @param {string} text @param {number} now @returns {number} NaN if it is no time */
export function moment(text, now) {
    const word = text.trim(), far = duration(word.replace(/^([-+]|in |last )/i, '').replace(/ ago$/i, ''));
    if (!Number.isNaN(far)) return /^(\+|in )/i.test(word) ? now + far : now - far;
    const [, date, time] = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?:Z|[+-]\d\d:\d\d)?))?$/.exec(word) ?? [];
    return date ? Date.parse(`${date}T${time ?? '00:00'}`) : NaN;
}
