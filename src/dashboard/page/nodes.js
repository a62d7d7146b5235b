// Nodes: who works, who is late? Nodes with their partitions and clocks, workers of a fleet, and the breakers.
import { h } from '../lib/dom.js';
import { get, maybe } from '../lib/api.js';
import { count, number, span } from '../lib/time.js';
import { breakerSection, markBreaker } from '../view/breakers.js';
import { badge, icon } from '../view/icons.js';
import { ago, bar, copyButton, facts, section, userText, when } from '../view/parts.js';
import { table } from '../view/table.js';

/** @typedef {import('../lib/app.js').Context} Context */

const SKEW_MS = 500;

/** @type {import('../lib/app.js').Page} */
export const page = {
    title: () => 'Nodes',

    async load(ctx) {
        const [status, workers, breakers] = await Promise.all([get('/v1/scheduler/status'), maybe('/v1/workers', { limit: 200 }),
            ctx.can('queues:read') ? maybe('/v1/breakers', { limit: 200 }) : null]);
        markBreaker(ctx, breakers?.breakers ?? []);
        return { status, workers: workers?.workers ?? [], breakers: breakers?.breakers ?? [] };
    },

    view(data, ctx) {
        const { status } = data, nodes = status.nodes ?? [];
        return [h('header', { key: 'head' }, h('div.head', h('h1', { tabindex: -1 }, 'Nodes'), h('span.second',
            `${count(nodes.length, 'node')}, v${status.version}`), h('span.grow'), copyButton('belfry node list', 'CLI')), h('p.second',
            answer(nodes, data.workers))),
            nodes.length ? section('nodes', 'Nodes', { note: '256 partitions are divided among them' }, nodeTable(nodes, ctx)) : null,
            breakerSection(data.breakers, new Map((status.node?.breakers ?? []).map((/** @type {any} */ b) => [b.host, b.held])), ctx),
                data.workers.length ? section('workers', 'Workers',
                { note: 'of the fleet; they run what the nodes give out' }, workerTable(data.workers, ctx)) : null, details(status, ctx)];
    },
};

/** @param {any[]} nodes @param {any[]} workers */
function answer(nodes, workers) {
    const dead = nodes.filter(n => !n.alive), skewed = nodes.filter(n => Math.abs(n.clock_offset_ms) - n.clock_error_ms > SKEW_MS),
        leader = nodes.find(n => n.leader);
    const silent = workers.filter(w => w.state === 'silent');
    return [h('b', dead.length ? [dead.length === 1 ? 'One node is down: ' : `${dead.length} nodes are down: `,
        dead.map((n, i) => [i ? ', ' : '', userText(n.name)]), '. '] : nodes.length === 1 ? 'The node is alive. '
        : 'All nodes are alive. '),
        leader ? [userText(leader.name), ' is the leader. '] : h('span.fail', 'None is the leader. '), skewed.length ? h('span.hold',
            `${count(skewed.length, 'clock differs', 'clocks differ')} by more than ${SKEW_MS} ms. `) : 'The clocks agree. ', silent.length ? h('span.hold',
            `${count(silent.length, 'worker is', 'workers are')} silent.`) : ''];
}

/** @param {any[]} nodes @param {Context} ctx */
const nodeTable = (nodes, ctx) => table(ctx, { rows: nodes, key: n => n.id, label: 'Nodes', columns: [
    { title: 'State', class: 'w-state from-s', cell: n => n.alive ? badge('open', { word: n.state.charAt(0).toUpperCase() + n.state.slice(1) }) : badge('FAILED', { word: 'Down' }) },
    { title: 'Node', class: 'anywhere', cell: n => [h('b', userText(n.name)), n.leader ? h('span.label', ' leader') : null,
        h('span.sub.only-s', n.alive ? n.state : 'down')] },
    { title: 'Partitions', class: 'num', cell: n => number(n.partitions) },
    { title: h('span.hidden-text', 'Share'), class: 'w-bar from-s', cell: n => bar([[n.partitions, undefined]], 256, { track: true }) },
    { title: 'Running', class: 'num', cell: n => `${number(n.running)} of ${number(n.slots)}` },
    { title: h('span.hidden-text', 'Slots'), class: 'w-bar from-m', cell: n => bar([[n.running, 'act']], n.slots || 1, { track: true }) },
    { title: 'Oldest due', class: 'num from-m', cell: n => n.alive ? h('span.second', n.lag_ms ? span(n.lag_ms) : '–') : ago(n.died_at,
        ctx) },
    { title: 'Clock', class: 'num from-m', cell: n => h('span', { class: Math.abs(n.clock_offset_ms) - n.clock_error_ms > SKEW_MS ? 'hold'
        : 'second' }, `${n.clock_offset_ms > 0 ? '+' : ''}${Math.round(n.clock_offset_ms)} ms ± ${Math.round(n.clock_error_ms)}`) },
    { title: 'Version', class: 'from-m second', cell: n => n.version }, { title: 'Joined', class: 'num from-m second',
        cell: n => ago(n.joined_at, ctx) }] });

/** @param {any[]} workers @param {Context} ctx */
const workerTable = (workers, ctx) => table(ctx, { rows: workers, key: w => w.id, label: 'Workers', columns: [
    { title: 'State', class: 'w-state from-s', cell: w => w.state === 'alive' ? badge('open', { word: 'Alive' }) : w.state === 'silent'
        ? badge('LATE', { word: 'Silent' }) : badge('CANCELLED', { word: 'Left' }) },
    { title: 'Worker', class: 'anywhere', cell: w => h('b', userText(w.name)) }, { title: 'Running', class: 'num',
        cell: w => `${number(w.running)} of ${number(w.slots)}` },
    { title: h('span.hidden-text', 'Slots'), class: 'w-bar from-s', cell: w => bar([[w.running, 'act']], w.slots || 1, { track: true }) },
        { title: 'Queues', class: 'from-m anywhere', cell: w => userText((w.about?.queues ?? []).join(', ') || 'all') },
    { title: 'Labels', class: 'from-m anywhere second', cell: w => userText((w.about?.labels ?? []).join(', ') || '–') }, { title: 'Seen',
        class: 'num from-s second', cell: w => ago(w.seen_at, ctx) }, { title: 'Version', class: 'from-m second',
        cell: w => w.version }] });

/** @param {any} status @param {Context} ctx */
function details(status, ctx) {
    const own = status.node ?? {};
    return section('details', 'The node that answers', {}, facts([['Name', userText(own.name)],
        ['State', own.recovering ? h('span.hold', 'recovering') : own.draining ? h('span.hold', 'draining') : 'serving'],
        ['Holds', `${count(own.armed, 'claimed task')}; ${number(own.queued)} due, without a slot; ${count(own.lanes, 'lane')}`],
        ['Last claim', own.last_claim_at ? when(own.last_claim_at, ctx) : null], ['Next claim',
            own.next_claim_at ? when(own.next_claim_at, ctx) : null], ['TLS', status.tls?.enabled ? ['on',
            status.tls.certificate_expires_at ? [', the certificate expires ', when(status.tls.certificate_expires_at, ctx)] : ''] : 'off'],
        ['Secrets', status.secrets?.encrypted ? `encrypted, key ${status.secrets.key}` : h('span.hold', icon('late'), ' not encrypted')],
            ['Fleet queue', status.queue ? status.queue.down_since ? h('span.fail', 'down ', when(status.queue.down_since, ctx))
            : `${number(status.queue.waiting)} wait, ${number(status.queue.delivered)} delivered` : null],
            ['Claims ahead', own.arm_window_ms ? span(own.arm_window_ms) : null]]));
}
