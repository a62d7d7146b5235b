// Queues: what holds it? Limits, what is due, and who paused it; and the jobs of the server, which work through them.
import { h } from '../lib/dom.js';
import { get, isOperator, maybe, request } from '../lib/api.js';
import { dueLink, link } from '../lib/router.js';
import { count, number } from '../lib/time.js';
import { pauseQueue, resumeQueue, setLimits, showQueue } from '../lib/command.js';
import { askPause, heldQueues, hostsInWords, pauseInWords } from '../view/held.js';
import { badge } from '../view/icons.js';
import { actionList, ago, bar, copyButtons, empty, facts, section, userText, when } from '../view/parts.js';
import { breakerSection, markBreaker } from '../view/breakers.js';
import { jobView, settledJob } from '../view/job.js';
import { table } from '../view/table.js';

/** @typedef {import('../lib/app.js').Context} Context */

/** @type {import('../lib/app.js').Page} */
export const page = {
    title: () => 'Queues',

    async load(ctx) {
        const [queues, jobs, breakers] = await Promise.all([get('/v1/queues', { limit: 500, cursor: ctx.route.query.get('cursor') }),
            ctx.can('tasks:read') ? maybe('/v1/jobs', { limit: 20 }) : null, maybe('/v1/breakers', { limit: 200 })]);
        markBreaker(ctx, breakers?.breakers ?? []);
        return { queues: queues.queues, next: queues.pagination.next_cursor, jobs: await Promise.all((jobs?.jobs ?? []).map(settledJob)), breakers: breakers?.breakers ?? [],
            held: await heldQueues(ctx, breakers?.breakers ?? null) };
    },

    view(data, ctx) {
        const name = ctx.route.query.get('name'), wanted = ctx.route.query.get('job');
        const paused = data.queues.filter((/** @type {any} */ q) => q.state === 'paused'),
            due = data.queues.reduce((/** @type {number} */ n, /** @type {any} */ q) => n + q.due, 0);
        const chosen = data.queues.find((/** @type {any} */ q) => q.name === name);
        const jobs = data.jobs.filter((/** @type {any} */ j) => j.state === 'RUNNING'
            || j.id === wanted).concat(data.jobs.filter((/** @type {any} */ j) => j.state !== 'RUNNING' && j.id !== wanted).slice(0, 3));
        return [
            h('header', { key: 'head' }, h('div.head', h('h1', { tabindex: -1 }, 'Queues'), h('span.second',
                count(data.queues.length, 'queue'))),
                h('p.second', h('b', due ? `${count(due, 'task is', 'tasks are')} due and not started. ` : 'No task waits. '), paused.length
                    ? [paused.length === 1 ? 'One queue is paused: ' : `${paused.length} queues are paused: `,
                    paused.map((/** @type {any} */ q, /** @type {number} */ i) => [i ? ', ' : '', userText(q.name)]), '.']
                    : 'No queue is paused.')),
            h('div', { key: 'split', class: chosen ? 'split' : 'stack' }, h('div.stack', data.queues.length ? h('section',
                { 'aria-label': 'Queues' }, list(data, ctx, chosen))
                : empty('There is no queue yet.', 'A queue comes to be with its first task or its first limit.',
                    'belfry queue set mail --rate 10 --concurrent 4'),
            isOperator() || !data.breakers.length ? null : breakerSection(data.breakers, new Map(), ctx),
            jobs.length ? section('jobs', 'Jobs', { note: 'long work of the server; it goes on if you leave' }, h('div.stack',
                jobs.map((/** @type {any} */ j) => jobView(j, ctx)))) : null),
            chosen ? panel(chosen, data.held.get(chosen.name), ctx) : null)];
    },
};

/** @param {any} data @param {Context} ctx @param {any} chosen */
function list(data, ctx, chosen) {
    const top = Math.max(1, ...data.queues.map((/** @type {any} */ q) => q.due));
    return table(ctx, { rows: data.queues, key: q => q.name, label: 'Queues', columns: [
        { title: 'State', class: 'w-state from-s', cell: q => badge(q.state) },
        { title: 'Queue', class: 'anywhere', cell: q => [h('a.quiet', { href: link(['queues'], { name: q.name }),
            'aria-current': q === chosen ? 'true' : null }, h('b', userText(q.name))), h('span.sub.only-s', badge(q.state))] },
        { title: 'Due', class: 'num', cell: q => h('a.quiet', { href: dueLink(q.name) },
            number(q.due)) },
        { title: h('span.hidden-text', 'Share'), class: 'w-bar from-s', hidden: !!chosen, cell: q => bar([[q.due, q.state === 'open' ? undefined : 'hold']],
            top) },
        { title: 'Running', class: 'num', cell: q => h('a.quiet', { href: link(['tasks'], { queue: q.name, status: 'RUNNING',
            occurrences: 'true' }) },
            number(q.running)) },
        { title: 'Rate', class: 'num from-m', hidden: !!chosen, cell: q => q.max_dispatches_per_second === null ? h('span.label', '–')
            : `${q.max_dispatches_per_second}/s, burst ${number(q.max_burst)}` },
        { title: 'At once', class: 'num from-m', hidden: !!chosen, cell: q => q.max_concurrent === null ? h('span.label', '–')
            : number(q.max_concurrent) },
        { title: 'Weight', class: 'num from-m', hidden: !!chosen, cell: q => number(q.weight) },
        { title: 'What holds it', class: 'from-m cut', cell: q => q.paused ? [pauseInWords({ ...q.paused, until: null }, ctx), ', ',
            ago(q.paused.since, ctx)] : hostsInWords(data.held.get(q.name))
            ?? (q.state === 'throttled' ? h('span.hold', 'its limits') : h('span.label', '–')) },
        { title: h('span.hidden-text', 'Actions'), class: 'num w-acts nowrap', hidden: !ctx.can('queues:write'),
            cell: q => q.state === 'paused' ? [h('button.small', { onclick: () => ctx.act(resumeQueue(q.name)) }, 'Resume'), ' ',
                chosen ? null : h('span.from-m', copyButtons(resumeQueue(q.name)))] : h('button.small', { onclick: () => pause(ctx, q) }, 'Pause…') }] });
}

/** @param {Context} ctx @param {any} q */
const pause = (ctx, q) => askPause(ctx, `queue ${q.name}`, null, 'Nothing of it starts any more; what runs goes on.',
    v => pauseQueue(q.name, v), resumeQueue(q.name));

/** @param {Context} ctx @param {any} queue */
function askLimits(ctx, queue) {
    const make = (/** @type {Record<string, any>} */ v) => setLimits(queue, v);
    const text = (/** @type {any} */ n) => n === null ? '' : String(n);
    ctx.ask({ title: `Limits of queue ${queue.name}`, confirm: 'Set', keep: 'Close', action: make, fields: [
        { name: 'max_dispatches_per_second', label: 'Starts a second', type: 'number', value: text(queue.max_dispatches_per_second),
            hint: 'empty: no limit' },
        { name: 'max_burst', label: 'Burst', type: 'number', value: text(queue.max_burst),
            hint: 'how many may start at once after a quiet time' },
        { name: 'max_concurrent', label: 'Running at once', type: 'number', value: text(queue.max_concurrent), hint: 'empty: no limit' },
        { name: 'weight', label: 'Weight', type: 'number', value: text(queue.weight),
            hint: 'its share among the queues when many tasks are due; 100 is usual' }],
    submit: async v => {
        const action = make(v);
        await request(action.path, { method: action.method, body: action.body, etag: action.etag });
        ctx.toast(`The limits of ${queue.name} are set`);
        ctx.reload();
    } });
}

/** @param {any} queue @param {Map<string, number> | undefined} hosts whose breakers hold tasks of it @param {Context} ctx */
function panel(queue, hosts, ctx) {
    const act = queue.state === 'paused' ? resumeQueue(queue.name) : { ...pauseQueue(queue.name, {}), label: 'Pause…',
        hint: 'with a reason, until a time', ask: () => pause(ctx, queue) };
    return h('aside.panel.stack', { 'aria-labelledby': 'queue' }, h('section', h('div.head',
        h('h2', { id: 'queue', tabindex: -1 }, userText(queue.name)), badge(queue.state), h('span.grow'), h('a',
            { href: link(['queues']) }, 'Close')),
        queue.paused ? h('p.second', 'Paused by ', userText(queue.paused.by), queue.paused.reason ? [': “', userText(queue.paused.reason),
            '”'] : '', '. ', queue.paused.until ? ['It goes on by itself ', when(queue.paused.until, ctx), '.']
            : 'Until somebody resumes it.') : null, hosts ? h('p', 'Held by the ', hostsInWords(hosts), '.') : null),
    facts([['Due', h('a', { href: dueLink(queue.name) }, number(queue.due))],
        ['Running', number(queue.running)], ['Starts a second', queue.max_dispatches_per_second === null ? 'no limit'
        : `${queue.max_dispatches_per_second}, burst ${queue.max_burst}`],
        ['At once', queue.max_concurrent === null ? 'no limit' : number(queue.max_concurrent)], ['Weight', number(queue.weight)],
            ['Changed', queue.updated_at ? when(queue.updated_at, ctx) : null]]),
    ctx.can('queues:write') ? h('div.chips', h('button', { onclick: () => askLimits(ctx, queue) }, 'Limits…')) : null,
    section('queue-actions', 'Actions', { more: h('span.label', 'copy as') }, actionList(ctx,
        [act, showQueue(queue.name)])));
}
