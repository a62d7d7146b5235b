// Overview: is it well, and what needs me? One sentence with its reason, then the evidence. Every number opens its list.
import { h } from '../lib/dom.js';
import { connection, get, isOperator, maybe } from '../lib/api.js';
import { dueLink, go, link, relink } from '../lib/router.js';
import { clock, count, number, parse, rate, relative, rough, span, zoneOf } from '../lib/time.js';
import { causesOf, historyOfExecutions, historyOfStats, percentile } from '../lib/stats.js';
import { delayChart, spark } from '../view/chart.js';
import { badge, icon } from '../view/icons.js';
import { budgets, tenantUse } from '../view/objectives.js';
import { ago, bar, empty, section, userText } from '../view/parts.js';
import { plainTable } from '../view/table.js';
import { unseenBy, verdictOf } from '../view/verdict.js';

/** @typedef {import('../lib/app.js').Context} Context */

const SLOW_MS = 15000, ATTEMPTS = 1000;

/** @type {import('../lib/app.js').Page} */
export const page = {
    title: () => 'Overview',
    says: (data, ctx) => verdictOf({ ...data, p99: data.recent, now: ctx.now }).sentence,

    async load(ctx, before) {
        const tenant = ctx.route.query.get('tenant');
        const slow = before && before.tenant === tenant && Date.now() - before.slowAt < SLOW_MS ? before : await loadSlow(ctx, tenant);
        const [status, breakers, queues, groups, blocked, upcoming, incidents] = await Promise.all([
            get('/v1/scheduler/status'), ctx.can('queues:read') ? maybe('/v1/breakers', { limit: 100 }) : null, ctx.can('queues:read')
                ? maybe('/v1/queues', { limit: 200 }) : null,
            ctx.can('dlq:read') ? maybe('/v1/dlq', { group_by: 'cause' }) : null, maybe('/v1/tasks',
                { status: 'BLOCKED', limit: 50, view: 'brief' }), maybe('/v1/upcoming', { limit: 200 }),
            ctx.can('notifications:read') ? maybe('/v1/incidents', { state: 'OPEN', limit: 50 }) : null]);
        return { slowAt: slow.slowAt, alerts: slow.alerts, history: slow.history, causes: slow.causes, approvals: slow.approvals,
            cut: slow.cut, counted: slow.counted, recent: slow.recent, tenants: slow.tenants, tenant, status,
            breakers: breakers?.breakers ?? [], queues: queues?.queues ?? [], groups: groups?.groups ?? [], blocked: blocked?.tasks ?? [],
                upcoming: upcoming?.upcoming ?? [], incidents: incidents?.incidents ?? [], unseen: unseenBy(ctx.can) };
    },

    view(data, ctx) {
        const { status } = data;
        const verdict = verdictOf({ ...data, p99: data.recent, now: ctx.now });
        const nothing = Object.values(status.tasks).every(n => n === 0), known = !data.tenant || data.history.exact;
        return [
            h('header.verdict', { key: 'verdict' }, icon(verdict.icon, { class: `icon ${verdict.tone}` }), h('h1', { tabindex: -1 },
                verdict.sentence), h('p', verdict.reason)),
            nothing ? empty('There is no task yet.', 'This one runs in five seconds.', 'belfry add --in 5s --noop --name hello') : null,
            needs(verdict.needs, ctx), tenantChoice(data, ctx), known ? figures(data) : h('p.second', { key: 'none' }, `There are no figures of ${data.tenant === '*' ? 'all tenants' : data.tenant} of the last hour yet.`),
            known ? h('div.columns', { key: 'one' }, delays(data, ctx), data.tenant ? null : [backlog(data), slots(data)]) : null,
            data.tenant ? null : h('div.columns', { key: 'two' }, causes(data, ctx), fires(data, ctx)),
            h('div.columns', { key: 'three' }, budgets(data.alerts), tenantUse(data.tenants, data.tenant))];
    },
};

// Whose figures are shown. Lists and actions stay those of the session's own tenant: only a key of another tenant opens its tasks.
/** @param {any} data @param {Context} ctx */
function tenantChoice(data, ctx) {
    if (data.tenants.length < 2) return null;
    const own = connection.session?.tenant ?? '';
    const options = [['', own], ['*', 'all tenants'], ...data.tenants.map((/** @type {any} */ t) => [t.name, t.name]).filter((/** @type {any[]} */ [name]) => name !== own)];
    return h('div.head', { key: 'tenant' }, h('label.second', { for: 'tenant' }, 'Figures of'), h('select', { id: 'tenant',
        onchange: (/** @type {any} */ e) => go(relink(ctx.route, { tenant: e.target.value })) }, options.map(([value, name]) => h('option',
        { value, key: value, selected: value === (data.tenant ?? '') }, name))), data.tenant ? h('span.second',
        `What needs you, the lists and the actions are those of ${own}. `, data.tenant === '*' ? null : h('a', { href: link(['admin'],
        { tenant: data.tenant }) }, `Keys of ${data.tenant}`)) : null);
}

/** @param {Context} ctx @param {string | null} tenant */
export async function loadSlow(ctx, tenant) {
    const now = Date.now(), from = new Date(now - 3600000).toISOString();
    const [stats, alerts, attempts, runs, tenants] = await Promise.all([ctx.can('status:read') ? maybe('/v1/stats',
        { from: from.slice(0, 17) + '00Z', step: '1m', tenant }) : null, isOperator() && ctx.can('status:read') ? maybe('/v1/alerts') : null,
        maybe('/v1/executions', { from, limit: ATTEMPTS }), ctx.can('workflows:read') ? maybe('/v1/workflows',
            { status: 'RUNNING', limit: 10 }) : null, ctx.can('admin') && connection.session?.tenant === 'default' ? maybe('/v1/tenants',
            { limit: 200 }) : null]);
    const executions = attempts?.executions ?? [], cut = !!attempts?.pagination?.next_cursor;
    const history = historyOfStats(stats, tenant ? 1 : undefined) ?? historyOfExecutions(tenant ? [] : executions, cut && !tenant, now);
    const waiting = await Promise.all((runs?.workflows ?? []).map(async (/** @type {any} */ run) => {
        const status = await maybe(`/v1/workflows/${run.id}/status`);
        return (status?.awaiting ?? []).map((/** @type {any} */ a) => ({ ...a, run: run.id,
            name: run.name ?? run.workflow ?? run.id.slice(0, 18) }));
    }));
    const lately = executions.filter((/** @type {any} */ e) => e.attempt_number === 1 && e.delay_ms !== null && (!e.delay_cause
        || ['BACKLOG', 'ROOM', 'DOWN'].includes(e.delay_cause))
        && now - parse(e.completed_at) < 300000).map((/** @type {any} */ e) => e.delay_ms).sort((/** @type {number} */ a,
            /** @type {number} */ b) => a - b);
    return { slowAt: now, alerts: alerts?.alerts ?? [], history, causes: causesOf(executions).slice(0, 6), approvals: waiting.flat(), cut,
        counted: countedOf(executions, cut ? null : from),
        tenants: tenants?.tenants ?? [], recent: percentile(lately, .99) };
}

// The time that causes are counted in: a link to them opens no others, however long the page has been open.
/** @param {any[]} executions @param {string | null} from null: since the first of them */
function countedOf(executions, from) {
    const ends = executions.map(e => parse(e.completed_at)), first = from ?? new Date(Math.min(...ends)).toISOString();
    return ends.length ? { from: first, to: new Date(Math.max(...ends) + 1).toISOString() } : {};
}

/** @param {import('../view/verdict.js').Need[]} list @param {Context} ctx */
export function needs(list, ctx) {
    if (!list.length) return null;
    const most = list.length === 9 ? 9 : 8;
    return section('needs', 'Needs you', {}, h('table', h('thead', h('tr', h('th', { scope: 'col' }, 'State'), h('th', { scope: 'col' },
        'What'), h('th.num.from-s', { scope: 'col' }, 'For'), h('th.num.from-s', h('span.hidden-text', 'Open')))),
        h('tbody', list.slice(0, ctx.ui.allNeeds ? 100 : most).map(n => h('tr', { key: n.kind + n.name + n.says }, h('td.nowrap',
            badge(n.kind, n.word ? { word: n.word } : {})),
            h('td.anywhere', h('a.quiet', { href: link(n.href, n.query) }, h('b', userText(n.name))), ' ', userText(n.says), n.detail
                ? [' ', h('span.second', n.detail)] : null),
            h('td.num.from-s', n.since ? rough(Math.max(0, ctx.now - parse(n.since))) : '–'), h('td.num.from-s',
                h('a', { href: link(n.href, n.query), 'aria-label': `${n.open} ${n.name}` }, n.open)))))),
    list.length > most ? h('button.link', { onclick: () => ctx.set({ allNeeds: !ctx.ui.allNeeds }) }, ctx.ui.allNeeds ? 'only the first 8'
        : `and ${number(list.length - 8)} more`) : null);
}

/** @param {any} data */
export function figures(data) {
    const hist = data.history, seconds = hist.bucketMs / 1000, last = Math.max(0, hist.times.length - 2),
        over = `over ${rough(hist.bucketMs * hist.times.length)}`;
    /** @param {string} label @param {number[]} values @param {string} href @param {{bad?: boolean}} [how] */
    const rates = (label, values, href, how = {}) => {
        const perSecond = values.map(v => v / seconds), recent = perSecond.slice(Math.max(0, last - 4), last + 1),
            now = recent.reduce((a, b) => a + b, 0) / Math.max(1, recent.length);
        const low = Math.min(...perSecond), high = Math.max(...perSecond), perMinute = high < .1;
        const k = perMinute ? 60 : 1, shown = rate(now * k);
        return h(data.tenant ? 'div.figure' : 'a.figure', { href: data.tenant ? null : href, key: label }, h('span.label', h('span', label), h('span', `${rate(low * k)}–${rate(high * k)}`)),
            h('span.value', shown, h('small', perMinute ? '/min' : '/s')),
            spark(perSecond, { bad: how.bad && now > 0 && now > .05 * (hist.started[last] / seconds || 1),
                label: `${label} ${over}, now ${shown} a ${perMinute ? 'minute' : 'second'}` }));
    };
    const { status } = data, nodes = status.nodes ?? [], running = nodes.reduce((/** @type {number} */ n,
        /** @type {any} */ node) => n + (node.running ?? 0), 0);
    return h('section', { key: 'figures', 'aria-label': `Rates ${over}` }, h('div.figures',
        hist.created ? rates('Created', hist.created, link(['tasks'])) : null,
        rates(hist.exact ? 'Attempts' : 'Started', hist.started, link(['executions'])), rates('Completed', hist.completed,
            link(['executions'], { status: 'COMPLETED' })),
        rates('Failed attempts', hist.failed, link(['executions'], { status: 'FAILED,LOST' }), { bad: true }), rates('Retries',
            hist.retried, link(['executions'])),
        hist.created ? null : h('a.figure', { href: link(['tasks'], { status: 'RUNNING' }), key: 'running' }, h('span.label',
            h('span', 'Running'), h('span', 'now')), h('span.value', number(running || status.tasks.RUNNING)), h('span.label',
            `${number(status.tasks.SCHEDULED)} scheduled`)),
        data.unseen.includes('dead letters') ? null : hist.dead ? rates('Dead letters', hist.dead, link(['dlq']), { bad: true }) : h('a.figure', { href: link(['dlq']), key: 'dlq' },
            h('span.label', h('span', 'Dead letters'), h('span', 'in all')), h('span.value', number(data.groups.reduce((/** @type {number} */ n,
                /** @type {any} */ g) => n + g.count, 0))),
            h('span.label', count(data.groups.length, 'cause')))));
}

/** @param {any} data @param {Context} ctx */
export function delays(data, ctx) {
    const { history } = data, zone = zoneOf(ctx.zone), asTable = ctx.ui.delayTable;
    const what = data.cut && !history.exact ? `last ${number(ATTEMPTS)} attempts`
        : `last ${rough(history.bucketMs * history.times.length)}`;
    return section('delay', 'Start delay', { class: 'c5', note: `${what}, what no gate held`, more: h('button.link',
        { onclick: () => ctx.set({ delayTable: !asTable }) }, asTable ? 'Chart' : 'Table') },
        asTable ? plainTable(['Time', 'p50', 'p99'], history.times.map((/** @type {number} */ t, /** @type {number} */ i) => [clock(t,
            zone), span(history.p50[i]), span(history.p99[i])]).reverse().filter((/** @type {any[]} */ r) => r[1] !== '–'))
            : delayChart({ times: history.times, limit: 5000, zone, label: 'Start delay, p50 and p99; the button shows it as a table',
                series: [{ name: 'p50', values: history.p50 }, { name: 'p99', values: history.p99, second: true }] }));
}

/** @param {any} data */
export function backlog(data) {
    const list = [...data.queues].sort((a, b) => b.due - a.due).slice(0, 6), top = Math.max(1, ...list.map(q => q.due));
    return section('backlog', 'Backlog', { class: 'c4', note: 'due, not started, by queue', more: h('a', { href: link(['queues']) },
        'Queues') },
        h('table', h('thead', h('tr', h('th', { scope: 'col' }, 'Queue'), h('th.num', { scope: 'col' }, 'Due'), h('th.w-bar',
            h('span.hidden-text', 'Share')), h('th.num', { scope: 'col' }, 'State'))),
            h('tbody', list.map(q => h('tr', { key: q.name }, h('td.anywhere', h('a.quiet', { href: link(['queues'], { name: q.name }) },
                userText(q.name))),
                h('td.num', h('a.quiet', { href: dueLink(q.name) }, number(q.due))),
                    h('td', bar([[q.due, q.state === 'open' ? undefined : 'hold']], top)),
                h('td.num', q.state === 'open' ? h('span.second', 'open') : badge(q.state)))))));
}

/** @param {any} data */
function slots(data) {
    const nodes = data.status.nodes ?? [], own = data.status.node;
    const slots = nodes.reduce((/** @type {number} */ n, /** @type {any} */ x) => n + (x.slots ?? 0), 0) || own?.slots || 0,
        running = nodes.reduce((/** @type {number} */ n, /** @type {any} */ x) => n + (x.running ?? 0), 0);
    const states = /** @type {[string, string][]} */ ([['SCHEDULED', 'Scheduled'], ['BLOCKED', 'Blocked'], ['RUNNING', 'Running'],
        ['PAUSED', 'Paused']]);
    return section('slots', 'Slots', { class: 'c3', note: `${number(running)} of ${number(slots)} run` }, bar([[running, 'act']], slots,
        { track: true, label: `${running} of ${slots} slots are in use` }),
        h('table', h('thead.hidden-text', h('tr', h('th', 'State'), h('th', 'Tasks'))),
            h('tbody', states.map(([name]) => h('tr', { key: name }, h('td', badge(name, { calm: true })),
            h('td.num', h('a.quiet', { href: link(['tasks'], { status: name, occurrences: 'true' }) },
            number(data.status.tasks[name] ?? 0))))))));
}

/** @param {any} data @param {Context} ctx */
export function causes(data, ctx) {
    const top = Math.max(1, ...data.causes.map((/** @type {any} */ c) => c.count));
    return section('causes', 'Top causes', { class: 'c7', note: 'failed attempts, last hour', more: h('a',
        { href: link(['executions'], { status: 'FAILED,LOST' }) }, 'Executions') },
        data.causes.length ? h('table', h('thead', h('tr', h('th', { scope: 'col' }, 'Cause'), h('th.from-s', { scope: 'col' }, 'Queue'),
            h('th.num', { scope: 'col' }, 'Count'), h('th.w-bar.from-s', h('span.hidden-text', 'Share')), h('th.num', { scope: 'col' },
            'Last'))),
            h('tbody', data.causes.map((/** @type {any} */ c) => h('tr', { key: c.error + c.queue }, h('td.anywhere',
                h('a.quiet', { href: link(['tasks', c.task]) }, userText(c.error))), h('td.from-s.second', userText(c.queue)),
                h('td.num', c.said && c.queue ? h('a.quiet', { href: link(['executions'], { status: 'FAILED,LOST', queue: c.queue, error: c.said,
                    ...data.counted }) }, number(c.count)) : number(c.count)),
                    h('td.from-s', bar([[c.count, 'fail']], top)), h('td.num.second', ago(c.last, ctx))))))
            : h('p.second', 'No attempt failed.'));
}

/** @param {any} data @param {Context} ctx */
export function fires(data, ctx) {
    /** @type {Map<string, any>} */
    const first = new Map();
    for (const f of data.upcoming) if (!f.skipped && parse(f.at) >= ctx.now && !first.has(f.task_id)) first.set(f.task_id, f);
    const zone = zoneOf(ctx.zone);
    return section('next', 'Next fires', { class: 'c5', note: `now ${clock(ctx.now, zone)}`, more: h('a', { href: link(['calendar']) },
        'Calendar') },
        first.size ? h('table', h('thead', h('tr', h('th', { scope: 'col' }, 'When'), h('th', { scope: 'col' }, 'Task'))),
            h('tbody', [...first.values()].slice(0, 6).map(f => h('tr', { key: f.task_id },
            h('td.nowrap', h('time', { datetime: f.at }, clock(parse(f.at), zone), ' ', h('span.label', relative(parse(f.at), ctx.now)))),
                h('td.anywhere', h('a.quiet', { href: link(['tasks', f.task_id]) }, userText(f.name ?? f.task_id.slice(0, 18))))))))
            : h('p.second', 'Nothing is scheduled for the next hour.'));
}
