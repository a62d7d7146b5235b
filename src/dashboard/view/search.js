// A search of tasks: newest first, in slices of 250 ms of the server. It says how far it came, and can be stopped. What it found stays
// as it was found: a search is not live.
import { h } from '../lib/dom.js';
import { get } from '../lib/api.js';
import { absolute, count, number, parse, zoneOf } from '../lib/time.js';

/** @typedef {import('../lib/app.js').Context} Context */
/** @typedef {{shape: string, rows: any[], cursor: string | null, lookedAt: number, backTo: string | null, complete: boolean}} Search */

const MOST = 100;

/** @param {Record<string, string>} filter @returns {Record<string, string>} what the list of tasks takes */
export const searchQuery = filter => filter.search ? { ...filter, occurrences: 'true' } : filter;

/** @param {any[]} rows @param {any[]} more */
export function mergeFound(rows, more) {
    const found = new Map([...rows, ...more].map(task => [task.id, task]));
    return [...found.values()].sort((a, b) => a.id < b.id ? 1 : -1);
}

// A name that begins with the text is found by an index, so it is there at once, however old it is.
/** @param {Record<string, string>} filter @param {Search | null} before @param {string} shape @returns {Promise<Search>} */
async function nextSlice(filter, before, shape) {
    const named = before || filter.name || filter.search.startsWith('payload:') ? null
        : get('/v1/tasks', { ...filter, search: null, name: filter.search + '*', limit: MOST, view: 'brief' });
    const [slice, first] = await Promise.all([get('/v1/tasks', { ...searchQuery(filter), cursor: before?.cursor, limit: MOST,
        view: 'brief' }), named]);
    return { shape, rows: mergeFound(before?.rows ?? [], [...first?.tasks ?? [], ...slice.tasks]), cursor: slice.pagination.next_cursor,
        lookedAt: (before?.lookedAt ?? 0) + slice.search.looked_at, backTo: slice.search.back_to ?? before?.backTo ?? null,
        complete: slice.search.complete };
}

/** @param {Search} search @param {Context} ctx */
const goesOn = (search, ctx) => !search.complete && !ctx.ui.searchStopped && search.rows.length < ctx.ui.searchMost;

// The page's data: what was found so far. While it goes on, the page asks for the next slice by itself.
/** @param {Context} ctx @param {any} before @param {Record<string, string>} filter */
export async function loadSearch(ctx, before, filter) {
    const shape = JSON.stringify(filter);
    if (ctx.ui.searchShape !== shape) Object.assign(ctx.ui, { searchShape: shape, searchStopped: false, searchMost: MOST });
    const known = before?.search?.shape === shape && !ctx.ui.searchAgain ? before.search : null;
    ctx.ui.searchAgain = false;
    if (known && !goesOn(known, ctx)) return before;
    const search = await nextSlice(filter, known, shape);
    if (goesOn(search, ctx)) setTimeout(() => ctx.reload());
    return { shape, rows: search.rows, fresh: 0, next: null, total: {}, totalAt: 0, search };
}

/** @param {Search} search @param {Context} ctx */
export function searchSays(search, ctx) {
    const far = `${count(search.lookedAt, 'task')} looked at`, found = `${number(search.rows.length)} found`;
    if (search.complete) return `${found}. All ${far}.`;
    const back = search.backTo ? `, back to ${absolute(parse(search.backTo), ctx.now, zoneOf(ctx.zone))}` : '';
    return `${found}. ${goesOn(search, ctx) ? 'Searching: ' : ''}${far}${back}.`;
}

/** @param {Search} search @param {Context} ctx */
export function searchBar(search, ctx) {
    const again = (/** @type {Record<string, any>} */ change) => { ctx.set(change); ctx.reload(); };
    return h('div.head', { role: 'group', 'aria-label': 'Search' }, h('span.second', { class: 'anywhere' }, searchSays(search, ctx)),
        search.complete ? h('button.small', { key: 'again', onclick: () => again({ searchAgain: true, searchStopped: false }) }, 'Search again')
            : goesOn(search, ctx) ? h('button.small', { key: 'stop', onclick: () => ctx.set({ searchStopped: true }) }, 'Stop')
                : h('button.small', { key: 'on', onclick: () => again({ searchStopped: false, searchMost: search.rows.length + MOST }) },
                    'Go on'));
}
