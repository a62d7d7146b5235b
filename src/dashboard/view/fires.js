// Two schedules compared: which fires stay, which go, which come, on one time line and as a table.
import { h } from '../lib/dom.js';
import { clock, day, parse, zoneName } from '../lib/time.js';
import { userText } from './parts.js';

/** @typedef {{at: number, kind: 'kept' | 'gone' | 'added', note: string | null, skipped: boolean}} Change */

/**
 * Fires of both, in order, up to where both lists are known.
 * @param {any[]} before @param {any[]} after @returns {Change[]}
 */
export function compareFires(before, after) {
    const old = new Map(before.filter(f => !f.skipped).map(f => [parse(f.at), f])), fresh = new Map(after.map(f => [parse(f.at), f]));
    const ends = [[...old.keys()], [...fresh.keys()]].filter(list => list.length).map(list => Math.max(...list)), end = ends.length
        ? Math.min(...ends) : 0;
    const last = before.length && after.length ? end : Infinity;
    /** @type {Change[]} */
    const changes = [...new Set([...old.keys(), ...fresh.keys()])].sort((a, b) => a - b).filter(at => at <= last).map(at => {
        const f = fresh.get(at);
        return { at, kind: f && !f.skipped ? old.has(at) ? 'kept' : 'added' : old.has(at) ? 'gone' : 'kept', note: f?.note ?? null,
            skipped: !!f?.skipped };
    });
    return changes;
}

/** @param {Change[]} changes @param {string} zone @param {boolean} compared */
export function firesDiff(changes, zone, compared) {
    if (!changes.length) return h('p.second', 'It would never fire.');
    const from = changes[0].at, total = Math.max(1, changes[changes.length - 1].at - from);
    return [compared ? h('div.timeline', { draw: (/** @type {number} */ width) => {
        const x = (/** @type {number} */ at) => 6 + (at - from) / total * (width - 12);
        const row = (/** @type {string} */ name, /** @type {number} */ y, /** @type {string[]} */ kinds) => [h('text', { x: 0, y: y - 8 },
            name), h('line.axis', { x1: 0, x2: width, y1: y + 6, y2: y + 6 }),
            changes.filter(c => kinds.includes(c.kind) && !c.skipped).map(c => h('rect', { key: name + c.at, class: c.kind,
                x: (x(c.at) - 2).toFixed(1), y, width: 4, height: 12, rx: 1 }))];
        return h('svg', { width, height: 92, role: 'img', 'aria-label': 'Fires now and after the change; the table below has the same' },
            row('now', 20, ['kept', 'gone']), row('then', 60, ['kept', 'added']),
            h('text', { x: 0, y: 90 }, `${day(from, zone)} ${clock(from, zone).slice(0, 5)}`),
                h('text', { x: width, y: 90, 'text-anchor': 'end' },
                `${day(from + total, zone)} ${clock(from + total, zone).slice(0, 5)}`));
    } }) : null,
    h('table', h('thead', h('tr', compared ? h('th', { scope: 'col' }, 'Change') : null, h('th', { scope: 'col' }, 'Fires'), h('th.from-s',
        { scope: 'col' }, 'Why so'))), h('tbody', changes.slice(0, 14).map(c => h('tr', { key: c.at },
        compared ? h('td', { class: c.kind === 'gone' ? 'fail' : c.kind === 'added' ? 'ok' : 'second' }, c.kind === 'gone' ? '− gone'
            : c.skipped ? 'skipped' : c.kind === 'added' ? '+ new' : '= stays') : null,
        h('td.nowrap', h(c.kind === 'gone' || c.skipped ? 's' : 'span',
            `${day(c.at, zone)} ${clock(c.at, zone)} ${zoneName(c.at, zone)}`)), h('td.second.from-s',
            c.note ? userText(c.note) : 'as scheduled')))))];
}
