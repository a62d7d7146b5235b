// Workflows: where is it stuck? Runs, newest first, with how far each has come; and the stored definitions.
import { h } from '../lib/dom.js';
import { get } from '../lib/api.js';
import { link, relink } from '../lib/router.js';
import { count, parse, span } from '../lib/time.js';
import { runList } from '../lib/command.js';
import { pauseInWords } from '../view/held.js';
import { badge } from '../view/icons.js';
import { bar, copyButtons, empty, section, segments, userText, when } from '../view/parts.js';
import { freshBar, isHeld, steady, table } from '../view/table.js';

/** @typedef {import('../lib/app.js').Context} Context */

const LIMIT = 50;

/** @type {import('../lib/app.js').Page} */
export const page = {
    title: () => 'Workflows',
    says: data => data.fresh ? `${data.fresh} new` : '',

    async load(ctx, before) {
        const q = ctx.route.query, filter = { status: q.get('status'), name: q.get('name'), workflow: q.get('workflow'),
            cursor: q.get('cursor') }, shape = JSON.stringify(filter);
        const [runs, definitions] = await Promise.all([get('/v1/workflows', { ...filter, limit: LIMIT }), get('/v1/workflow-definitions',
            { limit: 100 })]);
        const same = before?.shape === shape, known = new Map(same ? before.counts : []);
        await Promise.all(runs.workflows.slice(0, 30).filter((/** @type {any} */ r) => !['COMPLETED', 'CANCELLED'].includes(r.status)
            || !known.has(r.id)).map(async (/** @type {any} */ r) => {
            known.set(r.id, await get(`/v1/workflows/${r.id}/status`).catch(() => null));
        }));
        const held = same && !ctx.ui.showFresh && isHeld(ctx);
        ctx.ui.showFresh = false;
        return { shape, ...steady(before?.rows ?? null, runs.workflows, held), next: runs.pagination?.next_cursor ?? runs.next_cursor,
            definitions: definitions.definitions, counts: [...known] };
    },

    view(data, ctx) {
        const q = ctx.route.query, status = q.get('status') ?? '', counts = new Map(data.counts);
        const running = data.rows.filter((/** @type {any} */ r) => r.status === 'RUNNING').length,
            failed = data.rows.filter((/** @type {any} */ r) => r.status === 'FAILED').length;
        const waiting = [...counts.values()].filter((/** @type {any} */ s) => s?.awaiting?.length).length;
        const list = runList({ status, workflow: q.get('workflow') });
        return [
            h('header', { key: 'head' }, h('div.head', h('h1', { tabindex: -1 }, 'Workflows'), h('span.second',
                q.get('workflow') ? ['of ', userText(q.get('workflow')), ' ', h('a', { href: link(['workflows']) }, 'show all')] : ''),
                h('span.grow'),
                h('span.chips.from-s', copyButtons(list)),
                segments('State', [['All', relink(ctx.route, { status: null, cursor: null }), !status],
                    ['Running', relink(ctx.route, { status: 'RUNNING', cursor: null }), status === 'RUNNING'],
                    ['Failed', relink(ctx.route, { status: 'FAILED', cursor: null }), status === 'FAILED']])),
            data.rows.length ? h('p.second', h('b', running ? `${count(running, 'run is', 'runs are')} on the way`
                : 'No run is on the way'), waiting ? running === 1 ? ', and it waits for a person' : `, ${waiting} of them ${waiting === 1 ? 'waits' : 'wait'} for a person` : '',
                '. ', failed
                ? `${failed === 1 ? 'One' : failed} of these failed.` : 'None of these failed.') : null),
            data.rows.length || status || q.get('workflow') ? h('section', { key: 'runs', 'aria-label': 'Runs' }, freshBar(ctx,
                data.fresh), data.rows.length ? rows(data, ctx, counts) : h('p.second', 'No run matches.'))
                : empty('No workflow has run yet.', 'A definition and one call start the first.',
                    'belfry workflow apply etl.yaml && belfry workflow run etl --input \'{"day": "2026-02-10"}\''),
            h('p.pager', { key: 'pager' }, q.get('cursor') ? h('a', { href: relink(ctx.route, { cursor: null }) }, 'latest') : null,
                data.next ? h('a', { href: relink(ctx.route, { cursor: data.next }) }, 'older') : null),
            data.definitions.length ? section('definitions', 'Definitions', { note: 'a run keeps the version that it began with' },
                table(ctx, { rows: data.definitions, key: d => d.name, label: 'Definitions', columns: [
                { title: 'Name', class: 'anywhere', cell: d => h('a.quiet', { href: link(['workflows'], { workflow: d.name }) },
                    userText(d.name)) }, { title: 'Version', class: 'num', cell: d => d.version },
                { title: 'Stored', class: 'from-s', cell: d => when(d.created_at, ctx) }, { title: 'Hash', class: 'from-m mono second',
                    cell: d => d.hash.slice(0, 12) }] })) : null];
    },
};

/** @param {any} data @param {Context} ctx @param {Map<string, any>} counts */
function rows(data, ctx, counts) {
    /** @param {any} run */
    const where = run => {
        const status = counts.get(run.id);
        if (status?.awaiting?.length) return h('span.hold', 'waits for ', userText(status.awaiting[0].signal),
            `, ${status.awaiting[0].received} of ${status.awaiting[0].approvals}`);
        if (run.pause) return ['paused ', pauseInWords(run.pause, ctx)];
        if (run.last_error) return userText(run.last_error);
        if (status?.failures?.length) return userText(`${status.failures[0].step}: ${status.failures[0].error ?? status.failures[0].status}`);
        return h('span.label', '–');
    };
    return table(ctx, { rows: data.rows, key: r => r.id, label: 'Runs', columns: [
        { title: 'State', class: 'w-state from-s', cell: r => badge(r.paused ? 'PAUSED' : r.status) },
        { title: 'Run', class: 'anywhere', cell: r => [h('a.quiet', { href: link(['workflows', r.id]) },
            h('b', r.name || r.workflow ? userText(r.name ?? r.workflow) : h('span.mono', r.id.slice(0, 18)))), h('span.sub.only-s',
            badge(r.paused ? 'PAUSED' : r.status))] },
        { title: 'Definition', class: 'from-m', cell: r => r.workflow ? h('a.quiet.second',
            { href: link(['workflows'], { workflow: r.workflow }) }, userText(r.workflow), ` v${r.version}`) : h('span.label', 'its own') },
        { title: 'Steps', class: 'num', cell: r => { const s = counts.get(r.id); return s ? `${ended(s)}/${s.total}` : '–'; } },
        { title: h('span.hidden-text', 'Progress'), class: 'w-bar from-s',
            cell: r => { const s = counts.get(r.id); return s ? bar([[ended(s) - (s.by_status.FAILED ?? 0), undefined],
            [s.by_status.FAILED ?? 0, 'fail'], [s.by_status.RUNNING ?? 0, 'act']], s.total, { track: true }) : null; } },
        { title: 'Started', class: 'from-m nowrap', cell: r => when(r.started_at, ctx) },
        { title: 'Took', class: 'num from-s', cell: r => r.started_at ? span((r.completed_at ? parse(r.completed_at)
            : ctx.now) - parse(r.started_at)) : '–' },
        { title: 'Where it is stuck', class: 'from-m cut', cell: where }] });
}

/** @param {any} status */
const ended = status => ['COMPLETED', 'FAILED', 'SKIPPED', 'CANCELLED', 'EXPIRED'].reduce((n, s) => n + (status.by_status[s] ?? 0), 0);
