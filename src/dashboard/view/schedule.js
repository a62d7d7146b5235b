// A schedule in words: '30 2 * * *' is "At 02:30 every day". What is too unusual for a sentence stays an expression.
import { two } from '../lib/time.js';

const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const SHORT = ['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT'];
const MONTHS = ['January', 'February', 'March', 'April', 'May', 'June', 'July', 'August', 'September', 'October', 'November', 'December'];
const MACROS = /** @type {Record<string, string>} */ ({ '@hourly': '0 * * * *', '@daily': '0 0 * * *', '@midnight': '0 0 * * *',
    '@weekly': '0 0 * * 0', '@monthly': '0 0 1 * *', '@yearly': '0 0 1 1 *', '@annually': '0 0 1 1 *' });

const isNumber = (/** @type {string} */ text) => /^\d+$/.test(text);
const isList = (/** @type {string} */ text) => /^\d+(,\d+)*$/.test(text);
const step = (/** @type {string} */ text) => /^\*\/(\d+)$/.exec(text)?.[1] ?? null;

/** @param {string[]} words */
const and = words => words.length < 2 ? words.join('') : words.slice(0, -1).join(', ') + ' and ' + words[words.length - 1];

/** @param {number} n */
const ordinal = n => n + (n % 100 >= 11 && n % 100 <= 13 ? 'th' : ['th', 'st', 'nd', 'rd'][n % 10] ?? 'th');

/** @param {string} text @returns {string | null} */
function weekday(text) {
    const at = isNumber(text) ? Number(text) % 7 : SHORT.indexOf(text.toUpperCase());
    return DAYS[at] ?? null;
}

// "every day", "Monday to Friday", "on the 1st"
/** @param {string} dom @param {string} month @param {string} dow @returns {string | null} */
function days(dom, month, dow) {
    const months = month === '*' ? '' : isList(month) ? ' in ' + and(month.split(',').map(m => MONTHS[+m - 1] ?? m)) : null;
    if (months === null) return null;
    const anyDay = dom === '*' || dom === '?', anyWeekday = dow === '*' || dow === '?';
    if (anyDay && anyWeekday) return 'every day' + months;
    if (anyDay) {
        const range = /^(\w+)-(\w+)$/.exec(dow);
        if (range) {
            const [a, b] = [weekday(range[1]), weekday(range[2])];
            return a && b ? `${a} to ${b}${months}` : null;
        }
        const names = dow.split(',').map(weekday);
        return names.includes(null) ? null : 'every ' + and(/** @type {string[]} */ (names)) + months;
    }
    if (!anyWeekday) return null;
    if (dom === 'L') return 'on the last day of the month' + months;
    return isList(dom) ? 'on the ' + and(dom.split(',').map(d => ordinal(+d))) + (months || ' of the month') : null;
}

// "At 02:30", "Every 15 minutes"
/** @param {string} minute @param {string} hour @returns {[string, boolean] | null} words; whether days follow them */
function times(minute, hour) {
    const range = /^(\d+)-(\d+)$/.exec(hour);
    const between = hour === '*' ? '' : range ? `, ${two(range[1])} to ${two(range[2])} h` : null;
    if (isNumber(minute) && isList(hour)) return ['At ' + and(hour.split(',').map(h => `${two(h)}:${two(minute)}`)), true];
    if (isList(minute) && !isNumber(minute) && isNumber(hour)) return ['At ' + and(minute.split(',').map(m => `${two(hour)}:${two(m)}`)),
        true];
    if (minute === '*' && between !== null) return ['Every minute' + between, false];
    const every = step(minute);
    if (every && between !== null) return [`Every ${every} minutes${between}`, false];
    if (isList(minute) && between !== null) return [`Every hour at ${and(minute.split(',').map(m => ':' + two(m)))}${between}`, false];
    const hours = step(hour);
    if (isNumber(minute) && hours) return [`Every ${hours} hours at :${two(minute)}`, false];
    return null;
}

/** @param {string} expression @returns {string | null} */
export function cronInWords(expression) {
    const fields = (MACROS[expression.trim().toLowerCase()] ?? expression).trim().split(/\s+/);
    if (fields.length === 6 && fields[0] === '0') fields.shift();
    if (fields.length !== 5) return null;
    const [minute, hour, dom, month, dow] = fields;
    const time = times(minute, hour), day = days(dom, month, dow);
    if (!time || !day) return null;
    return !time[1] && day === 'every day' ? time[0] : `${time[0]} ${day}`;
}

// 90 → "90 seconds", 7200 → "2 hours"
/** @param {number} seconds */
export function durationInWords(seconds) {
    for (const [size, name] of /** @type {[number, string][]} */ ([[86400, 'day'], [3600, 'hour'], [60, 'minute']])) {
        if (seconds >= size && seconds % size === 0) return seconds === size ? name : `${seconds / size} ${name}s`;
    }
    return seconds === 1 ? 'second' : `${seconds} seconds`;
}

/** @param {any} task @returns {string} */
export function scheduleInWords(task) {
    if (task.cron_expression) return cronInWords(task.cron_expression) ?? task.cron_expression;
    if (task.interval_seconds) return 'Every ' + durationInWords(task.interval_seconds);
    return 'once';
}
