// Is it well? One sentence, computed, with its reason; and what needs a person, by impact. Pure: what is known comes in.
import { count, number, parse, span } from '../lib/time.js';

const LATE_MS = 5000, STUCK_MS = 60000, RECENT_MS = 3600000, MOST_TASKS = 10;

/**
 * @typedef {{status: any, breakers: any[], queues: any[], groups: any[], blocked: any[], approvals: any[], alerts?: any[], incidents?: any[], unseen?: string[], p99: number | null, now: number}} Known
 * @typedef {{kind: string, word: string, name: string, says: string, detail: string, since: string | null, href: string[], query?: Record<string, string>, open: string, weight: number}} Need
 * @typedef {{tone: 'ok' | 'hold' | 'fail', icon: string, sentence: string, reason: string, needs: Need[]}} Verdict
 */

// Whom an incident is about: a rule, or its first task and how many others.
/** @param {any} i */
export function whoOf(i) {
    const first = i.tasks[0], others = new Set(i.tasks.map((/** @type {any} */ t) => t.name ?? t.id)).size - 1;
    const more = i.tasks.length < MOST_TASKS ? others : i.count - 1;
    const name = first && (first.name ?? first.id.slice(0, 18));
    return first ? more > 0 ? `\u2068${name}\u2069 and ${count(more, 'other')}` : name // isolated: it does not turn the words behind it
        : i.kind === 'ALERT' ? i.cause : count(i.count, 'task');
}

// What a key lacks that an overview is made of, in words.
/** @param {(scope: string) => boolean} can */
export const unseenBy = can => Object.entries({ 'tasks:read': 'tasks', 'dlq:read': 'dead letters', 'notifications:read': 'incidents',
    'queues:read': 'queues and breakers', 'workflows:read': 'workflows' }).filter(([scope]) => !can(scope)).map(([, word]) => word);

/** @param {Known} k @returns {Need[]} */
export function needsOf(k) {
    /** @type {Need[]} */
    const needs = [];
    for (const node of (k.status.nodes ?? []).filter((/** @type {any} */ n) => !n.alive)) {
        needs.push({ kind: 'FAILED', word: 'Node down', name: node.name, says: 'sends no heartbeat.',
            detail: 'Others have taken its partitions.', since: node.died_at ?? null, href: ['nodes'], open: 'Node', weight: 1e9 });
    }
    for (const a of (k.alerts ?? []).filter(a => a.state === 'firing' && a.severity !== 'none')) {
        needs.push({ kind: 'LATE', word: 'Alert', name: a.name, says: `fires: ${a.summary.charAt(0).toLowerCase()}${a.summary.slice(1)}.`,
            detail: '',
            since: a.since ?? null, href: ['alerts'], open: 'Rule', weight: a.severity === 'critical' ? 1e8 : a.severity === 'high' ? 2e5
            : 50 });
    }
    const held = new Map((k.status.node?.breakers ?? []).map((/** @type {any} */ b) => [b.host, b.held]));
    for (const b of k.breakers) {
        const waits = Number(held.get(b.host) ?? 0);
        needs.push({ kind: b.state, word: '', name: b.host ?? `tenant ${b.tenant}`,
            says: `fails: ${b.failures} of the last ${count(b.calls, 'call')}, ${b.reason}.`,
            detail: waits ? `${count(waits, 'task waits', 'tasks wait')} behind its breaker.` : '', since: b.opened_at, href: ['nodes'], open: 'Breaker',
                weight: 1e6 + waits });
    }
    const total = k.groups.reduce((n, g) => n + g.count, 0);
    for (const g of k.groups.slice(0, 3)) {
        needs.push({ kind: 'FAILED', word: 'Dead letters', name: total === g.count ? number(g.count)
            : `${number(g.count)} of ${number(total)}`,
            says: `${g.count === 1 ? 'has' : 'have'} one cause: ${g.last_error}${g.host ? ' from ' + g.host : ''}.`,
            detail: '', since: g.first_failed_at, href: ['dlq'], query: { cause: g.cause }, open: 'Cause', weight: 1000 + g.count });
    }
    const shown = new Set(k.groups.slice(0, 3).map(g => g.cause));
    for (const a of k.alerts ?? []) if (a.state === 'firing') shown.add(a.name);
    for (const i of (k.incidents ?? []).filter(i => i.state === 'OPEN' && !i.acknowledged_at && i.kind !== 'SUCCESS')) {
        const same = i.kind === 'MISSED' ? i.cause + i.tasks[0]?.id : i.cause; // several settings may tell of it
        if (shown.has(same)) continue;
        shown.add(same);
        needs.push({ kind: 'LATE', word: 'Incident', name: whoOf(i),
            says: `${i.kind.toLowerCase().replace('_', ' ')}: ${i.tasks[0]?.error ?? i.detail ?? i.cause}${i.count > 1 ? `, ${count(i.count, 'time')}` : ''}.`,
            detail: '', since: i.first_at, href: ['alerts'], query: { incident: i.id }, open: 'Incident',
            weight: i.kind === 'MISSED' ? 1e4 : 900 + i.count });
    }
    for (const t of k.blocked.filter(t => t.waiting_for?.kind === 'concurrency_key' && k.now - parse(t.run_at) > STUCK_MS)) {
        needs.push({ kind: 'BLOCKED', word: '', name: t.name ?? t.id.slice(0, 18),
            says: `waits for a slot of the key ${t.waiting_for.key}.`, detail: '', since: t.run_at, href: ['tasks', t.id], open: 'Explain',
            weight: 500 });
    }
    for (const a of k.approvals) {
        needs.push({ kind: 'APPROVAL', word: '', name: a.name, says: `waits for ${a.signal}, ${a.received} of ${a.approvals} given.`,
            detail: a.timeout_at ? `It fails without it.` : '', since: a.since, href: ['workflows', a.run], open: 'Approve', weight: 400 });
    }
    for (const q of k.queues.filter(q => q.state === 'paused' && q.due > 0)) {
        needs.push({ kind: 'PAUSED', word: '', name: `queue ${q.name}`,
            says: `is paused by ${q.paused.by}${q.paused.reason ? `: “${q.paused.reason}”` : ''}.`,
            detail: `${number(q.due)} due.`, since: q.paused.since, href: ['queues'], query: { name: q.name }, open: 'Queue',
                weight: 100 + q.due / 1e6 });
    }
    return needs.sort((a, b) => b.weight - a.weight);
}

/** @param {Known} k @returns {Verdict} */
export function verdictOf(k) {
    const needs = needsOf(k);
    const onTime = k.p99 === null ? '' : k.p99 > LATE_MS ? `Tasks that nothing holds start late: p99 is ${span(k.p99)}.`
        : `What nothing holds starts on time: p99 is ${span(k.p99)}.`;
    const people = needs.length ? `${words(needs.length)} ${needs.length === 1 ? 'needs' : 'need'} a person.`
        : k.unseen?.length ? `This key may not see ${new Intl.ListFormat('en').format(k.unseen)}. Nothing else needs a person.`
        : 'Nothing needs a person.';
    const dead = (k.status.nodes ?? []).filter((/** @type {any} */ n) => !n.alive), nodes = k.status.nodes ?? [];
    const open = k.breakers.filter(b => b.state === 'OPEN');
    const waiting = open.length ? needs.filter(n => n.kind === 'OPEN').map(n => n.detail).filter(Boolean).join(' ') : '';
    const recent = k.groups.filter(g => k.now - parse(g.last_failed_at) < RECENT_MS);
    const reason = [waiting, onTime, people].filter(Boolean).join(' ');
    /** @param {'ok' | 'hold' | 'fail'} tone @param {string} icon @param {string} sentence @returns {Verdict} */
    const say = (tone, icon, sentence) => ({ tone, icon, sentence, reason, needs });
    if (nodes.length && dead.length === nodes.length) return say('fail', 'failed', 'No node is alive: nothing runs.');
    if (dead.length) return say('fail', 'failed',
        `Working, but ${dead.length} of ${nodes.length} nodes ${dead.length === 1 ? 'is' : 'are'} down: ${dead.map((/** @type {any} */ n) => n.name).join(', ')}.`);
    if (nodes.length && !nodes.some((/** @type {any} */ n) => n.leader)) return say('fail', 'late',
        'No node is the leader: schedules do not advance until one is.');
    if (k.status.node?.recovering) return say('hold', 'late', 'Starting: tasks of an earlier run are being recovered.');
    if (open.length) return say('fail', 'breaker', open.length === 1 ? `Working, but one host is down: ${open[0].host ?? open[0].tenant}.`
        : `Working, but ${open.length} hosts are down, among them ${open[0].host ?? open[0].tenant}.`);
    const critical = (k.alerts ?? []).filter(a => a.state === 'firing' && a.severity === 'critical');
    if (critical.length) return say('fail', 'late', `Working, but an alert fires: ${critical[0].name}.`);
    if (k.p99 !== null && k.p99 > LATE_MS) return say('hold', 'late',
        `Late: one task of a hundred starts more than ${span(k.p99)} after it is due.`);
    if (recent.length) {
        const n = recent.reduce((sum, g) => sum + g.count, 0);
        return say('hold', 'late', `Working. ${count(n, 'dead letter')} in the last hour, most with ${recent[0].last_error}.`);
    }
    return say('ok', 'completed', needs.length ? 'Working.' : k.unseen?.length ? 'Well, as far as this key can see.'
        : 'All is well.');
}

/** @param {number} n */
const words = n => (['', 'One thing', 'Two things', 'Three things', 'Four things', 'Five things', 'Six things',
    'Seven things'][n] ?? `${number(n)} things`);
