// The overview of a tenant other than `default`: is what is ours well, and what needs us? It asks only for what such a key may read.
import { h } from '../lib/dom.js';
import { connection, maybe } from '../lib/api.js';
import { link } from '../lib/router.js';
import { number } from '../lib/time.js';
import { badge, icon } from '../view/icons.js';
import { empty, section } from '../view/parts.js';
import { unseenBy, verdictOf } from '../view/verdict.js';
import { backlog, causes, delays, figures, fires, loadSlow, needs } from './overview.js';

/** @typedef {import('../lib/app.js').Context} Context */

const SLOW_MS = 15000, STATES = ['SCHEDULED', 'BLOCKED', 'RUNNING', 'PAUSED', 'FAILED'];

/** @type {import('../lib/app.js').Page} */
export const page = {
    title: () => 'Overview',
    says: (data, ctx) => verdict(data, ctx).sentence,

    async load(ctx, before) {
        const slow = before && Date.now() - before.slowAt < SLOW_MS ? before : await loadOwn(ctx);
        /** @param {string} scope @param {string} path @param {Record<string, any>} query */
        const may = (scope, path, query) => ctx.can(scope) ? maybe(path, query) : null;
        const [breakers, queues, groups, incidents, blocked, upcoming] = await Promise.all([may('queues:read', '/v1/breakers',
            { limit: 100 }),
            may('queues:read', '/v1/queues', { limit: 200 }), may('dlq:read', '/v1/dlq', { group_by: 'cause' }),
            may('notifications:read', '/v1/incidents', { state: 'OPEN', limit: 50 }),
            may('tasks:read', '/v1/tasks', { status: 'BLOCKED', limit: 50, view: 'brief' }), may('tasks:read', '/v1/upcoming',
                { limit: 200 })]);
        return { ...slow, breakers: breakers?.breakers ?? [], queues: queues?.queues ?? null, groups: groups?.groups ?? [],
            incidents: incidents?.incidents ?? [], blocked: blocked?.tasks ?? [], upcoming: upcoming?.upcoming ?? [],
            unseen: unseenBy(ctx.can) };
    },

    view(data, ctx) {
        const said = verdict(data, ctx), nothing = STATES.every(s => !data.status.tasks[s])
            && !data.history.started.some((/** @type {number} */ n) => n);
        return [h('header.verdict', { key: 'verdict' }, icon(said.icon, { class: `icon ${said.tone}` }), h('h1', { tabindex: -1 },
            said.sentence),
            h('p', `Of the tenant ${connection.session?.tenant}. `, said.reason)),
        nothing ? empty('There is no task yet.', 'This one runs in five seconds.', 'belfry add --in 5s --noop --name hello') : null,
        needs(said.needs, ctx), figures(data),
        h('div.columns', { key: 'one' }, delays(data, ctx), data.queues ? backlog(data) : null, states(data)),
        h('div.columns', { key: 'two' }, causes(data, ctx), fires(data, ctx))];
    },
};

// Its breakers are below its queues: it has no page of nodes.
/** @param {any} data @param {Context} ctx */
function verdict(data, ctx) {
    const said = verdictOf({ ...data, queues: data.queues ?? [], p99: data.recent, now: ctx.now });
    return { ...said, needs: said.needs.map(n => n.href[0] === 'nodes' ? { ...n, href: ['queues'], query: { breaker: n.name } } : n) };
}

// How many tasks are in each state: counts of lists, in place of the totals of the installation.
/** @param {Context} ctx */
async function loadOwn(ctx) {
    const [slow, ...counts] = await Promise.all([loadSlow(ctx, null), ...STATES.map(status => maybe('/v1/tasks',
        { status, page: 1, limit: 1, view: 'brief', occurrences: 'true' }))]);
    return { ...slow, status: { nodes: [], tasks: Object.fromEntries(STATES.map((s, i) => [s, counts[i]?.pagination.total ?? 0])) } };
}

/** @param {any} data */
const states = data => section('states', 'Tasks', { class: 'c3' }, h('table', h('thead.hidden-text', h('tr', h('th', 'State'), h('th',
    'Tasks'))),
    h('tbody', STATES.map(name => h('tr', { key: name }, h('td', badge(name, { calm: true })), h('td.num', h('a.quiet',
        { href: link(['tasks'], { status: name, occurrences: 'true' }) }, number(data.status.tasks[name]))))))));
