// Checks: tasks that are expected to succeed in time, what is expected of them, and whether they do.
import { h } from '../lib/dom.js';
import { link } from '../lib/router.js';
import { badge } from './icons.js';
import { facts, section, userText, when } from './parts.js';
import { durationInWords } from './schedule.js';
import { table } from './table.js';

/** @typedef {import('../lib/app.js').Context} Context */

/** @param {any} x what is expected */
export const expectInWords = x => x.within_seconds ? `a success every ${durationInWords(x.within_seconds)}`
    : `a success by ${x.success_by}${x.days ? ` on ${x.days}` : ', every day'}`;

/** @param {any} c */
const stateOf = c => c.state === 'LATE' ? badge('LATE') : badge('COMPLETED', { word: 'In time' });

/** @param {string | null} at @param {Context} ctx */
const moment = (at, ctx) => at ? when(at, ctx) : h('span.label', '–');

// Those that are late first.
/** @param {any[]} list @param {Context} ctx */
export const checkTable = (list, ctx) => table(ctx, { rows: [...list].sort((a, b) => Number(b.state === 'LATE') - Number(a.state === 'LATE')),
    key: c => c.task_id, label: 'Checks', columns: [
    { title: 'State', class: 'w-state from-s', cell: stateOf },
    { title: 'Task', class: 'anywhere', cell: c => [h('a.quiet', { href: link(['tasks', c.task_id]) }, h('b', userText(c.name || c.task_id.slice(0, 18)))),
        h('span.sub.only-s', stateOf(c))] },
    { title: 'Expected', class: 'anywhere', cell: c => userText(expectInWords(c.expect)) },
    { title: 'Last success', class: 'num from-s second', cell: c => moment(c.last_success, ctx) },
    { title: 'Next deadline', class: 'num from-m second', cell: c => moment(c.next_deadline, ctx) }] });

// Of one task.
/** @param {any} task @param {any} check null: nothing is known of it yet @param {Context} ctx */
export const checkSection = (task, check, ctx) => task.expect || task.notify?.length ? section('check', 'Expected', {}, facts([
    ['Expected', task.expect ? userText(expectInWords(task.expect)) : null], ['State', check ? stateOf(check) : null],
    ['Missed', check?.missed_at ? when(check.missed_at, ctx) : null],
    ['Last success', check ? moment(check.last_success, ctx) : null], ['Next deadline', check ? moment(check.next_deadline, ctx) : null],
    ['Tells', task.notify?.length ? userText(task.notify.join(', ')) : null]])) : null;
