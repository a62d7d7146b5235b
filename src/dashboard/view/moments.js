// Times in filters, as people type them: 1h, 7d, a day, an instant. The address keeps what was typed, so that "the last hour" stays the last
// hour; the server is asked with the instant.
import { fieldProblem } from '../lib/api.js';
import { relink } from '../lib/router.js';
import { absolute, duration, moment, zoneOf } from '../lib/time.js';
import { segments, userText } from './parts.js';

/** @typedef {import('../lib/app.js').Context} Context */

const HINT = 'ago: 1h, 7d; or 2026-02-10, 2026-02-10T08:00:00Z', AHEAD = '1h is an hour ago, +1h in an hour; or 2026-02-10T08:00:00Z';

/** @param {string} text */
const complaint = text => `${text} is no time: write 1h, 7d, 2026-02-10 or 2026-02-10T08:00:00Z`;

/** @param {string} name @param {string} label @param {Record<string, string>} filter @param {boolean} [ahead] whether it may be to come */
export const timeField = (name, label, filter, ahead = false) => ({ name, label, value: filter[name] ?? '', hint: ahead ? AHEAD : HINT });

// What a form holds; a bad time is told beside its field.
/** @param {Record<string, any>} values @param {string[]} times */
export function checkTimes(values, times) {
    for (const name of times) if (values[name] && Number.isNaN(moment(values[name], 0))) throw fieldProblem(name, complaint(values[name]));
}

// What is wrong with an address.
/** @param {Record<string, string>} filter @param {string[]} times @param {number} now @returns {string[]} */
export const badTimes = (filter, times, now) => times.filter(name => filter[name] && Number.isNaN(moment(filter[name], now)))
    .map(name => complaint(filter[name]));

// The filter as the server takes it.
/** @param {Record<string, string>} filter @param {string[]} times @param {number} now @returns {Record<string, string>} */
export const resolved = (filter, times, now) => Object.fromEntries(Object.entries(filter).map(([name, value]) => [name, times.includes(name)
    && !Number.isNaN(moment(value, now)) ? new Date(moment(value, now)).toISOString() : value]));

/** @param {string} value @param {Context} ctx */
export const timeShown = (value, ctx) => Number.isNaN(moment(value, ctx.now)) ? userText(value)
    : Number.isNaN(duration(value)) ? absolute(moment(value, ctx.now), ctx.now, zoneOf(ctx.zone)) : `${value} ago`;

/** @param {Context} ctx @param {string} name of the parameter @param {string} label */
export function presets(ctx, name, label) {
    const now = ctx.route.query.get(name) ?? '';
    return segments(label, [['Any time', ''], ['Last hour', '1h'], ['Last day', '1d'], ['Last week', '7d']].map(([text, value]) => [text,
        relink(ctx.route, { [name]: value || null, cursor: null }), now === value]));
}
