// A run of a workflow: where is it stuck? The graph with its critical path, the same as a list, and one step beside it.
import { h } from '../lib/dom.js';
import { connection, get, maybe } from '../lib/api.js';
import { go, link, relink } from '../lib/router.js';
import { count, number, parse, rough, span, zoneOf } from '../lib/time.js';
import { cancelRun, pauseRun, rerun, resumeRun, retryRun, showRun, signal, stepActions } from '../lib/command.js';
import { badge, icon } from '../view/icons.js';
import { actionList, ago, bar, copyButton, instant, pretty, section, segments, userText, when } from '../view/parts.js';
import { askPause, pauseInWords } from '../view/held.js';
import { criticalPath } from '../view/graph.js';
import { runGraph } from '../view/run_graph.js';

/** @typedef {import('../lib/app.js').Context} Context */

const PAGES = 6;
const OVER = new Set(['COMPLETED', 'FAILED', 'SKIPPED', 'CANCELLED', 'EXPIRED']);

/** @type {import('../lib/app.js').Page} */
export const page = {
    title: (route, data) => data?.run?.name || data?.run?.workflow || route.parts[1].slice(0, 8),

    says: data => `${data.run.name ?? 'The run'} is ${data.run.status.toLowerCase()}`,

    async load(ctx, before) {
        const id = ctx.route.parts[1], path = `/v1/workflows/${encodeURIComponent(id)}`, chosen = ctx.route.query.get('step'),
            item = ctx.route.query.get('item');
        const [run, status, steps] = await Promise.all([get(path), get(path + '/status'), allSteps(path)]);
        const [step, definition] = await Promise.all([chosen ? maybe(`${path}/steps/${encodeURIComponent(chosen)}`, { item }) : null,
            before?.definition ?? (run.workflow ? maybe(`/v1/workflow-definitions/${encodeURIComponent(run.workflow)}`,
                { version: run.version }) : null)]);
        return { run, status, steps: steps.filter(s => s.kind === 'STEP'), items: steps.filter(s => s.kind === 'ITEM'),
            undo: steps.filter(s => s.kind === 'COMPENSATION'), step, definition };
    },

    view(data, ctx) {
        const { run } = data, critical = criticalPath(data.steps.map((/** @type {any} */ s) => ({ id: s.step, parents: s.depends_on,
            ended: s.completed_at && s.status !== 'SKIPPED' ? parse(s.completed_at) : null, running: s.status === 'RUNNING'
            || waitsForSignal(s), over: OVER.has(s.status) })));
        const chosen = data.steps.find((/** @type {any} */ s) => s.step === ctx.route.query.get('step'));
        return [head(data, ctx), h('div', { key: 'body', class: chosen ? 'split' : 'stack' }, h('div.stack',
            steps(data, ctx, critical, chosen), criticalTable(data, ctx, critical), failures(data, run)), chosen ? panel(data, ctx, chosen)
            : side(data, ctx))];
    },
};

/** @param {string} path @returns {Promise<any[]>} */
async function allSteps(path) {
    /** @type {any[]} */
    const all = [];
    let cursor = null;
    for (let page = 0; page < PAGES; page++) {
        const list = /** @type {any} */ (await get(path + '/steps', { limit: 1000, cursor }));
        all.push(...list.steps);
        cursor = list.next_cursor;
        if (!cursor) break;
    }
    return all;
}

/** @param {any} step */
const waitsForSignal = step => step.waits_for?.gate === 'signal';

/** @param {any} data @param {Context} ctx */
function head(data, ctx) {
    const { run } = data, over = OVER.has(run.status), may = ctx.can('workflows:write');
    const cancel = cancelRun(run), pause = pauses(run, ctx)[0], retry = retryRun(run);
    return h('header', { key: 'head' }, h('div.head', h('a', { href: link(['workflows']) }, 'Workflows'), h('span.label', '/'),
        h('h1', { tabindex: -1 }, run.name || run.workflow ? userText(run.name ?? run.workflow) : 'a run'),
        badge(run.paused && !over ? 'PAUSED' : run.status),
        h('span.second', run.workflow ? [userText(run.workflow), ` version ${run.version}`] : 'its own definition'), h('span.grow'),
        may ? h('span.chips', { 'data-actions': true }, over ? null : h('button', { onclick: () => pause.ask ? pause.ask() : ctx.act(pause) }, pause.label),
            run.status === 'FAILED' ? h('button.primary', { onclick: () => ctx.act(retry) }, 'Retry') : null,
            over ? h('button', { onclick: () => askRerun(data, ctx) }, 'Rerun from…') : h('button.danger',
                { onclick: () => ctx.act(cancel, run) }, 'Cancel…')) : null),
    run.pause ? h('p.second', h('b', 'Paused '), pauseInWords(run.pause, ctx), '. Steps that run finish, and no other starts.') : null,
    h('p.second', answer(data, ctx)), data.status.awaiting.map((/** @type {any} */ a) => approval(data, a, ctx)), h('p.label.mono',
        run.id));
}

// A step that is a run is paused with the run around it.
/** @param {any} run @param {Context} ctx @returns {import('../lib/command.js').Action[]} */
function pauses(run, ctx) {
    const ask = () => askPause(ctx, run.name ?? run.workflow ?? 'the run', run.pause, 'Steps that run finish, and no other starts.', v => pauseRun(run, v),
        resumeRun(run));
    return run.paused ? [resumeRun(run), ...run.pause ? [{ ...pauseRun(run, run.pause), label: 'Change the pause…', ask }] : []]
        : [{ ...pauseRun(run), label: 'Pause…', hint: 'with a reason, until a time', ask }];
}

// Who has decided, who must still, and the buttons for it.
/** @param {any} data @param {any} a @param {Context} ctx */
function approval(data, a, ctx) {
    const missing = a.approvals - a.received, mine = a.senders.some((/** @type {any} */ s) => s.name === connection.session?.name);
    return h('div.chips', { key: a.step }, badge('APPROVAL', { word: [userText(a.signal), `, ${a.received} of ${a.approvals}`] }),
        approve(data.run, a, ctx), h('span.second', a.senders.map((/** @type {any} */ s) => [s.decision === 'REJECT' ? 'Rejected by '
            : 'Approved by ',
            userText(s.name), ' ', ago(s.at, ctx), '. ']), missing > 0
                ? `${missing === 1 ? 'One person' : `${missing} people`}${a.senders.length ? ' more' : ''} must approve`
            + `${mine ? ', with another key than yours' : a.approvals > 1 ? ', each with a key of their own' : ''}.` : ''));
}

// What becomes of a step that nobody approves: the run's deadline may come before its own.
/** @param {any} run @param {any} awaiting @param {Context} ctx @param {any} deadline of the run, in words */
function fate(run, awaiting, ctx, deadline) {
    const own = parse(awaiting.timeout_at), end = parse(run.deadline_at);
    if (Number.isNaN(own) && Number.isNaN(end)) return '';
    return Number.isNaN(own) || end < own ? [' Without it the run fails at its deadline ', when(run.deadline_at, ctx), '.']
        : [' Without it the step fails ', when(awaiting.timeout_at, ctx), '.', deadline];
}

/** @param {any} data @param {Context} ctx */
function answer(data, ctx) {
    const { run, status } = data, awaiting = status.awaiting[0], deadline = run.deadline_at ? [' Deadline ', when(run.deadline_at, ctx),
        '.'] : '';
    const took = run.started_at ? span((run.completed_at ? parse(run.completed_at) : ctx.now) - parse(run.started_at)) : '';
    if (run.status === 'FAILED') return [h('b', 'It failed', run.failed_step ? [' at ', userText(run.failed_step)] : '', '. '),
        run.last_error ? [userText(run.last_error), '. '] : '', `It took ${took}.`];
    if (OVER.has(run.status)) return [h('b', `It is ${run.status.toLowerCase()}. `), `It took ${took}.`];
    if (awaiting) return [h('b', 'It waits for a person: ', userText(awaiting.signal),
        `, ${awaiting.received} of ${awaiting.approvals} given. `), 'It runs for ', took, '.', fate(run, awaiting, ctx, deadline)];
    const at = data.steps.find((/** @type {any} */ s) => s.status === 'RUNNING') ?? data.steps.find((/** @type {any} */ s) => s.status === 'SCHEDULED');
    if (!at) return [h('b', took ? `It runs for ${took}.` : 'It has not started.'), deadline];
    const items = at.items ? `, ${number(at.items.by_status.COMPLETED ?? 0)} of ${count(at.items.total, 'item')}` : '';
    const left = at.items && at.started_at && at.items.by_status.COMPLETED
        ? ` At this pace it needs about ${rough((ctx.now - parse(at.started_at)) / at.items.by_status.COMPLETED * (at.items.total - at.items.by_status.COMPLETED))} more.` : '';
    return [h('b', 'It is at ', userText(at.step), items, '. '), took ? `It runs for ${took}.` : '', left, at.waits_for ? [' ',
        userText(at.waits_for.explanation), '.'] : '', deadline];
}

/** @param {any} data @param {Context} ctx @param {Set<string>} critical @param {any} chosen */
function steps(data, ctx, critical, chosen) {
    const asList = ctx.route.query.get('as') === 'list', text = ctx.ui.find ?? '';
    const legend = h('p.legend.from-m', h('span', h('svg', { width: 20, height: 6, 'aria-hidden': 'true' },
        h('path', { d: 'M0 3h20', stroke: 'currentColor', 'stroke-width': 2.5 })), 'critical path'),
        h('span', h('svg', { width: 20, height: 6, 'aria-hidden': 'true' },
        h('path', { d: 'M0 3h20', stroke: 'currentColor', 'stroke-dasharray': '3 3' })), 'only on failure'), h('span', icon('map'),
        'map, one task an item'));
    return section('steps', 'Steps', { more: [data.steps.length > 12 ? h('input',
        { type: 'search', 'aria-label': 'Find a step', placeholder: 'Find a step', value: text,
        oninput: (/** @type {any} */ e) => ctx.set({ find: e.target.value }) }) : null,
        asList ? null : h('span.segments', { role: 'group', 'aria-label': 'Zoom' }, [['−', 'Smaller', .8],
            ['+', 'Larger', 1.25]].map(([sign, name, by]) => h('button', { key: name, 'aria-label': name,
            onclick: () => ctx.set({ zoom: Math.min(2, Math.max(.3, (ctx.ui.zoom ?? 1) * Number(by))) }) }, sign))),
        segments('Show as', [['Graph', relink(ctx.route, { as: null }), !asList], ['List', relink(ctx.route, { as: 'list' }), asList]])] },
    asList ? stepTable(data, ctx) : [runGraph(data, { critical, chosen: chosen?.step ?? null, find: text, zoom: ctx.ui.zoom ?? 1,
        zone: zoneOf(ctx.zone), now: ctx.now, href: (/** @type {string} */ s) => relink(ctx.route, { step: s, item: null }),
        open: (/** @type {string} */ s) => go(relink(ctx.route, { step: s, item: null })) }), legend]);
}

/** @param {any} data @param {Context} ctx */
const stepTable = (data, ctx) => h('table', { 'aria-label': 'Steps' }, h('thead',
    h('tr', ['Step', 'State', 'After', 'Waited', 'Ran'].map((t, i) => h('th', { class: i > 2 ? 'num' : i === 2 ? 'from-m' : null,
    scope: 'col' }, t)))),
    h('tbody', data.steps.map((/** @type {any} */ s) => h('tr', { key: s.step, 'data-row': s.step, class: ctx.ui.row === s.step ? 'focused'
        : null }, h('td', h('a.quiet', { href: relink(ctx.route, { step: s.step, item: null }) }, h('b', userText(s.step)))),
        h('td', stepBadge(s)),
        h('td.from-m.second', s.depends_on.length ? userText(s.depends_on.join(', ')) : '–'), h('td.num', span(s.waited_ms)),
            h('td.num', span(s.duration_ms ?? (s.status === 'RUNNING' && s.started_at ? ctx.now - parse(s.started_at) : null)))))));

/** @param {any} s */
const stepBadge = s => badge(waitsForSignal(s) ? 'APPROVAL' : s.status, { calm: s.status === 'BLOCKED' });

/** @param {any} data @param {Context} ctx @param {Set<string>} critical */
function criticalTable(data, ctx, critical) {
    const path = data.steps.filter((/** @type {any} */ s) => critical.has(s.step) && s.started_at).sort((/** @type {any} */ a,
        /** @type {any} */ b) => parse(a.started_at) - parse(b.started_at));
    if (path.length < 2) return null;
    const ran = (/** @type {any} */ s) => s.duration_ms ?? (s.completed_at ? parse(s.completed_at) : ctx.now) - parse(s.started_at),
        total = Math.max(1, path.reduce((/** @type {number} */ n, /** @type {any} */ s) => n + ran(s) + (s.waited_ms ?? 0), 0));
    return section('critical', 'Critical path', { note: `where the time went; ${span(total)} in all` },
        h('table', h('thead', h('tr', h('th', { scope: 'col' }, 'Step'), h('th', { scope: 'col' }, 'State'), h('th.num', { scope: 'col' },
        'Waited'), h('th.num', { scope: 'col' }, 'Ran'), h('th.from-s.timeline', h('span.hidden-text', 'Share')))),
        h('tbody', path.map((/** @type {any} */ s) => h('tr', { key: s.step }, h('td.anywhere',
            h('a.quiet', { href: relink(ctx.route, { step: s.step, item: null }) }, userText(s.step))), h('td', stepBadge(s)),
            h('td.num.second', span(s.waited_ms)), h('td.num', span(ran(s))), h('td.from-s.timeline',
            bar([[ran(s), s.status === 'RUNNING' ? 'act' : s.status === 'FAILED' ? 'fail' : undefined]], total)))))));
}

/** @param {any} data @param {any} run */
const failures = (data, run) => data.status.failures.length ? section('failures', 'Failures', {},
    h('table', h('tbody', data.status.failures.map((/** @type {any} */ f) => h('tr', { key: f.step + f.item }, h('td.nowrap',
    h('a', { href: link(['workflows', run.id], { step: f.step, item: f.item }) }, userText(f.step), f.item === null ? '' : `/${f.item}`)),
    h('td', badge(f.status)), h('td.anywhere', userText(f.error ?? ''))))))) : null;

/** @param {any} data @param {Context} ctx */
function side(data, ctx) {
    const { run } = data;
    return h('div.columns', h('div.c7.stack',
        section('run-actions', 'Actions', { more: h('span.label', 'copy as') }, actionList(ctx,
            [...data.status.awaiting.flatMap((/** @type {any} */ a) => decisions(run, a, ctx)), ...OVER.has(run.status) ? []
                : [...pauses(run, ctx), cancelRun(run)], ...run.status === 'FAILED' ? [retryRun(run)] : [], showRun(run)]))),
    h('div.c5.stack', json('Input', run.input), json('Result', run.result)));
}

/** @param {string} name @param {any} value */
function json(name, value) {
    if (value === null || value === undefined) return null;
    const text = typeof value === 'string' ? value : pretty(value);
    return section('json-' + name, name, { more: copyButton(text) }, h('pre.command.scroll', { tabindex: 0, 'aria-label': name },
        userText(text)));
}

// Both answers to what is waited for, with their commands.
/** @param {any} run @param {any} awaiting @param {Context} ctx @returns {import('../lib/command.js').Action[]} */
function decisions(run, awaiting, ctx) {
    const no = { ...signal(run.id, awaiting.signal, false), label: 'Reject…' };
    return [{ ...signal(run.id, awaiting.signal, true), hint: awaiting.signal, ask: () => decide(run, awaiting, ctx) },
        { ...no, hint: awaiting.signal, ask: () => ctx.act(no, { name: awaiting.signal }) }];
}

/** @param {any} run @param {any} awaiting @param {Context} ctx */
const approve = (run, awaiting, ctx) => ctx.can('workflows:signal') ? decisions(run, awaiting, ctx).map(a => h('button',
    { key: a.label, class: a.danger ? 'danger' : 'primary', onclick: a.ask }, a.label)) : null;

// Says what the approval did: one key counts once.
/** @param {any} run @param {any} awaiting @param {Context} ctx */
async function decide(run, awaiting, ctx) {
    const said = await ctx.act({ ...signal(run.id, awaiting.signal, true), done: undefined });
    if (!said) return;
    const far = `${said.received} of ${said.approvals}`, open = said.received < said.approvals;
    ctx.toast(said.repeated ? `Your approval was counted already: ${far}.${open ? ' Another person’s key is needed.' : ''}`
        : open ? `Approved: ${far}. Another person must approve, with a key of their own.` : `Approved: ${far}`, { bad: said.repeated
            && open });
}

/** @param {any} data @param {Context} ctx @param {any} s */
function panel(data, ctx, s) {
    const { run, step } = data, item = ctx.route.query.get('item'),
        awaiting = data.status.awaiting.find((/** @type {any} */ a) => a.step === s.step);
    const items = data.items.filter((/** @type {any} */ i) => i.step === s.step),
        bad = items.filter((/** @type {any} */ i) => i.status === 'FAILED');
    const actions = [...awaiting ? decisions(run, awaiting, ctx) : [], ...stepActions(run, s)];
    return h('aside.panel.stack', { 'aria-labelledby': 'step' }, h('section', h('div.head',
        h('h2', { id: 'step', tabindex: -1 }, userText(s.step), item ? ` / ${item}` : ''), stepBadge(s), h('span.grow'),
        h('a', { href: relink(ctx.route, { step: null, item: null }) }, 'Close')),
        h('p.second', what(step?.definition ?? {}, s), s.waits_for ? [' ', userText(s.waits_for.explanation), '.'] : ''), s.last_error
            && s.status === 'FAILED' ? h('p.fail.anywhere', userText(s.last_error)) : null),
    awaiting ? h('div.chips', badge('APPROVAL', { word: `${awaiting.received} of ${awaiting.approvals}` }), approve(run, awaiting, ctx))
        : null,
    s.items ? itemsView(s, ctx) : null,
    bad.length ? section('bad-items', 'Failed items', {}, h('table', h('thead', h('tr', h('th', { scope: 'col' }, 'Item'),
        h('th', { scope: 'col' }, 'Last error'), h('th.num', { scope: 'col' }, 'Tries'))),
        h('tbody', bad.slice(0, 10).map((/** @type {any} */ i) => h('tr', { key: i.id },
        h('td', h('a', { href: relink(ctx.route, { item: i.item }) }, i.item)), h('td.anywhere', userText(i.last_error ?? '')),
        h('td.num', i.attempts)))))) : null,
    step?.executions?.length ? section('step-attempts', 'Attempts', { more: h('a', { href: link(['tasks', step.id]) }, 'As a task') },
        h('table', h('thead', h('tr', h('th', { scope: 'col' }, 'Try'), h('th', { scope: 'col' }, 'Started'), h('th', { scope: 'col' },
        'State'), h('th.num', { scope: 'col' }, 'Took'))), h('tbody', step.executions.slice(0, 10).map((/** @type {any} */ e) => h('tr',
        { key: e.id ?? 'now' }, h('td', e.attempt_number), h('td', instant(e.started_at, ctx, { withMs: true })),
        h('td', badge(e.status, e.http_status && e.http_status !== 200 ? { word: `HTTP ${e.http_status}` } : {})),
        h('td.num', e.completed_at && e.started_at ? span(parse(e.completed_at) - parse(e.started_at)) : '–')))))) : null,
    json('Output', step?.output), section('step-actions', 'Actions', { more: h('span.label', 'copy as') }, actionList(ctx, actions)));
}

/** @param {any} s @param {Context} ctx */
function itemsView(s, ctx) {
    const by = s.items.by_status, order = ['COMPLETED', 'FAILED', 'RUNNING', 'SCHEDULED', 'BLOCKED', 'SKIPPED', 'CANCELLED'];
    return h('section', { 'aria-label': 'Items' }, bar([[by.COMPLETED ?? 0, undefined], [by.FAILED ?? 0, 'fail'], [by.RUNNING ?? 0,
        'act']], s.items.total, { track: true, label: `${by.COMPLETED ?? 0} of ${s.items.total} items are completed` }),
        h('table', h('tbody', order.filter(n => by[n]).map(n => h('tr', { key: n }, h('td', badge(n, { calm: true })),
            h('td.num', number(by[n])))))), h('p.label', count(s.items.total, 'item'), ctx.now ? '' : ''));
}

/** @param {any} definition @param {any} s */
function what(definition, s) {
    if (definition.await) return `Waits for the signal ${definition.await.signal}, ${definition.await.approvals ?? 1} approvals.`;
    if (definition.map) return ['A map over ', h('code', definition.map.over?.$ref ?? 'a list'), definition.map.max_concurrent
        ? `, ${definition.map.max_concurrent} items at once.` : '.'];
    const config = definition.target_config ?? {};
    return [String(definition.target_type ?? s.target_type).toLowerCase().replaceAll('_', ' '), config.url ? [' ',
        userText(typeof config.url === 'string' ? config.url : JSON.stringify(config.url))] : '', '.'];
}

// The steps from which a run can begin again: what they depend on has ended as they need it.
/** @param {any[]} steps @param {any[]} [definition] the steps as they are defined */
export function rerunnable(steps, definition = []) {
    const by = new Map(steps.map(s => [s.step, s])), defined = new Map(definition.map(s => [s.name, s]));
    /** @type {Record<string, string[]>} */
    const needs = { MUST_FAIL: ['FAILED'], MUST_NOT_FAIL: ['COMPLETED', 'SKIPPED', 'CANCELLED'], MUST_FINISH: [...OVER] };
    return steps.filter(s => s.depends_on.every((/** @type {string} */ name) => {
        const how = (defined.get(s.step)?.depends_on ?? []).find((/** @type {any} */ d) => d?.step === name)?.type;
        return (needs[how] ?? ['COMPLETED', 'SKIPPED']).includes(by.get(name)?.status);
    }));
}

/** @param {any} data @param {Context} ctx */
function askRerun(data, ctx) {
    const { run } = data, make = (/** @type {Record<string, any>} */ v) => rerun(run, v.from);
    const names = rerunnable(data.steps, data.definition?.definition?.steps).map(s => s.step);
    ctx.ask({ title: 'Rerun from a step', confirm: 'Rerun', keep: 'Close', action: make, body: h('p',
        'A new run begins at the step. The results of the others are copied. ', h('span.second', names.length < data.steps.length
        ? 'Steps whose parents did not end as they need are not offered.' : '')),
        fields: [{ name: 'from', label: 'From', type: 'select', value: names.includes(run.failed_step) ? run.failed_step : names[0],
        options: names.map(name => [name, name]) }],
        submit: async v => {
            const fresh = await ctx.act(make(v));
            if (fresh?.id) go(link(['workflows', fresh.id]));
        } });
}
