// Tables of rows that can be reached by j and k, selected, and opened. Rows never move under the pointer: see steady().
import { h } from '../lib/dom.js';
import { number } from '../lib/time.js';

/** @typedef {import('../lib/app.js').Context} Context */
/**
 * @template Row
 * @typedef {{title: any, class?: string, cell: (row: Row) => any, hidden?: boolean}} Column
 */

/**
 * What a list shows after a refetch. If it is held, because somebody points at it or has selected rows, the old rows keep their places
 * with new contents, and new ones are only counted.
 * @template {{id: string}} Row @param {Row[] | null} before @param {Row[]} after @param {boolean} held
 * @returns {{rows: Row[], fresh: number}}
 */
export function steady(before, after, held) {
    if (!held || !before || !before.length) return { rows: after, fresh: 0 };
    const now = new Map(after.map(row => [row.id, row]));
    const old = new Set(before.map(row => row.id));
    return { rows: before.map(row => now.get(row.id) ?? row), fresh: after.filter(row => !old.has(row.id)).length };
}

// Whether the pointer or the focus is in a list, or rows of it are selected.
/** @param {Context} ctx */
export const isHeld = ctx => !!ctx.ui.selected?.size || !!ctx.ui.row || !!document.querySelector('table.rows tbody:hover');

/**
 * @template Row
 * @param {Context} ctx
 * @param {{rows: Row[], key: (row: Row) => string, columns: Column<Row>[], label: string, select?: boolean, name?: (row: Row) => string,
 *     inner?: (row: Row) => any, opened?: (row: Row) => boolean}} spec
 */
export function table(ctx, spec) {
    const columns = spec.columns.filter(c => !c.hidden);
    /** @type {Set<string>} */
    const selected = ctx.ui.selected ?? new Set();
    const all = spec.rows.length > 0 && spec.rows.every(row => selected.has(spec.key(row)));
    /** @param {Set<string>} next */
    const select = next => ctx.set({ selected: next, allMatching: false });
    return h('table.rows', { 'aria-label': spec.label },
        h('thead', h('tr', spec.select ? h('th.check', h('input', { type: 'checkbox', 'aria-label': 'Select all on this page', checked: all,
            indeterminate: !all && selected.size > 0, onchange: () => select(all ? new Set() : new Set(spec.rows.map(spec.key))) })) : null,
        columns.map(c => h('th', { class: c.class ?? null, scope: 'col' }, c.title)))),
        h('tbody', spec.rows.flatMap(row => {
            const key = spec.key(row), chosen = selected.has(key), opened = spec.opened?.(row) ?? false;
            const cells = h('tr', { key, 'data-row': key, class: [chosen ? 'selected' : '', ctx.ui.row === key ? 'focused' : '', opened
                ? 'opened' : '']
                .filter(Boolean).join(' ') || null, 'aria-selected': spec.select ? String(chosen) : null },
            spec.select ? h('td.check', h('input', { type: 'checkbox', checked: chosen, 'aria-label': `Select ${spec.name?.(row) ?? key}`,
                onchange: () => {
                const next = new Set(selected);
                if (chosen) next.delete(key);
                else next.add(key);
                select(next);
            } })) : null,
            columns.map(c => h('td', { class: c.class ?? null }, c.cell(row))));
            return opened && spec.inner ? [cells, h('tr.inner', { key: key + '+' },
                h('td', { colspan: columns.length + (spec.select ? 1 : 0) }, spec.inner(row)))]
                : [cells];
        })));
}

/** @param {Context} ctx @param {number} fresh */
export const freshBar = (ctx, fresh) => fresh ? h('button.fresh', { onclick: () => {
    ctx.set({ row: null, showFresh: true, selected: new Set() });
    ctx.reload();
} }, `${number(fresh)} new, show them`) : null;

// A chart's numbers as a table.
/** @param {string[]} titles @param {any[][]} rows */
export const plainTable = (titles, rows) => h('table', h('thead', h('tr', titles.map((t, i) => h('th', { class: i ? 'num' : null,
    scope: 'col' }, t)))),
    h('tbody', rows.map(row => h('tr', row.map((cell, i) => h('td', { class: i ? 'num' : 'nowrap' }, cell))))));
