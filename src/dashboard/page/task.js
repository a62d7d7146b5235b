// Task: why has it (not) run? The explanation first, then what happened, what comes, and what can be done.
import { h } from '../lib/dom.js';
import { get, maybe } from '../lib/api.js';
import { link } from '../lib/router.js';
import { clock, count, day, number, offsetOf, parse, relative, rough, span, zoneName, zoneOf } from '../lib/time.js';
import { pauseTask, reverse, taskActions } from '../lib/command.js';
import { axisOf, instants, strip, timelineHead, timelineRow } from '../view/chart.js';
import { auditWords } from '../view/audit.js';
import { checkSection } from '../view/check.js';
import { badge, icon } from '../view/icons.js';
import { actionList, copyButton, facts, instant, pretty, section, userText, when } from '../view/parts.js';
import { explainBlock, stillHeld } from '../view/explain.js';
import { askPause, reasonInWords } from '../view/held.js';
import { durationInWords, scheduleInWords } from '../view/schedule.js';
import { plainTable } from '../view/table.js';

/** @typedef {import('../lib/app.js').Context} Context */

// What made an attempt late.
/** @type {Record<string, string>} */
export const DELAYS = { DOWN: 'no server was up', PAUSED: 'pause', CREATED: 'created after it was due', SPREAD: 'spread', SLOT: 'previous run',
    KEY: 'concurrency key', LIMIT: 'queue limit',
    BREAKER: 'breaker', RETRY_AFTER: 'Retry-After', HOST: 'busy host', ROOM: 'no free slot', BACKLOG: 'backlog' };

/** @type {import('../lib/app.js').Page} */
export const page = {
    title: (route, data) => data?.task?.name || route.parts[1].slice(0, 8),

    says: data => `${data.task.name ?? 'The task'} is ${data.task.status.toLowerCase()}`,

    async load(ctx) {
        const id = ctx.route.parts[1], path = `/v1/tasks/${encodeURIComponent(id)}`;
        const task = await get(path);
        const recurring = task.type === 'RECURRING', waits = ['SCHEDULED', 'BLOCKED', 'PAUSED'].includes(task.status);
        const [explanation, executions, occurrences, upcoming, audit, dependencies, checks] = await Promise.all([
            get(path + '/explain'), get(path + '/executions', { limit: ctx.ui.attempts ?? 12 }),
            recurring ? get(path + '/occurrences', { limit: 90, view: 'brief' }) : null,
            recurring && waits ? get(path + '/upcoming', { count: 10 }) : null,
            ctx.can('audit:read') ? maybe('/v1/audit', { object: id, limit: 8 }) : null, get(path + '/dependencies'),
            task.expect && ctx.can('notifications:read') ? maybe('/v1/checks', { task: id }) : null]);
        return { task, explanation, executions: executions.executions, more: executions.pagination.next_cursor,
            occurrences: occurrences?.tasks ?? null,
            upcoming: upcoming?.upcoming ?? null, audit: audit?.audit ?? null, dependencies, check: checks?.checks[0] ?? null };
    },

    view(data, ctx) {
        const { task } = data;
        return [head(data, ctx), failed(task), explainBlock(data.explanation, task, ctx),
            h('div.split', { key: 'split' },
                h('div.stack', occurrences(data, ctx), attempts(data, ctx), fires(data, ctx), dependencies(data)),
                h('div.stack', actions(data, ctx), checkSection(task, data.check, ctx), settings(task, ctx), payload(task), audit(data, ctx)))];
    },
};

/** @param {any} data @param {Context} ctx */
function head(data, ctx) {
    const { task } = data, list = actionsOf(data, ctx).filter(a => a.method !== 'GET' && ctx.can(a.scope));
    const parent = task.parent_id ? h('a', { href: link(['tasks', task.parent_id]) }, 'its schedule') : null;
    const run = task.run ? h('a', { href: link(['workflows', task.run]) }, 'its run') : null;
    return h('header', { key: 'head' }, h('div.head', h('a', { href: link(['tasks']) }, 'Tasks'), h('span.label', '/'),
        h('h1', { tabindex: -1 }, task.name ? userText(task.name) : 'without a name'), badge(task.status), h('span.grow'),
        h('span.chips', { 'data-actions': true }, list.slice(0, 2).map((a, i) => h('button', { key: a.label,
            class: a.danger ? 'danger' : i === 0 ? 'primary' : null, onclick: () => a.ask ? a.ask() : ctx.act(a, task) }, a.label)),
            ctx.can('tasks:write') && task.type !== 'OCCURRENCE' && !task.run ? h('a.button', { href: link(['tasks', task.id, 'edit']) },
                'Edit…') : null)),
    h('p.second', words(task), task.calendar ? [' on the days of the calendar ', h('a', { href: link(['calendar'], { queue: task.queue }) },
        userText(task.calendar))] : null, '.',
        parent || run ? [' See ', parent, parent && run ? ' and ' : '', run, '.'] : null,
        task.target_type === 'WORKFLOW' ? [' ', h('a', { href: link(['workflows', task.id]) }, 'Open the run'), '.'] : null),
    h('p.label.mono', [task.cron_expression, task.id].filter(Boolean).join('  ·  ')));
}

/** @param {any} task */
function words(task) {
    if (task.type === 'RECURRING') return `${scheduleInWords(task)}${task.cron_expression ? ', ' + (task.time_zone ?? 'UTC') : ''},`.replace(/,$/, '');
    return task.type === 'OCCURRENCE' ? 'One run of a recurring task' : 'A task that runs once';
}

/** @param {any} task */
const failed = task => task.status === 'FAILED' && task.last_error ? h('p.state.wraps', { key: 'failed', 'data-tone': 'fail' },
    icon('failed'),
    h('span', userText(task.last_error), ` after ${count(task.attempts, 'attempt')}. `,
        task.cause ? h('a', { href: link(['dlq'], { cause: task.cause }) }, 'Others with this cause') : null)) : null;

/** @param {any} data @param {Context} ctx */
function occurrences(data, ctx) {
    if (!data.occurrences?.length) return null;
    const zone = zoneOf(ctx.zone, data.task.time_zone);
    const list = [...data.occurrences].reverse();
    const kinds = /** @type {Record<string, any>} */ ({ COMPLETED: 'ok', FAILED: 'fail', EXPIRED: 'fail', SKIPPED: 'skipped',
        CANCELLED: 'skipped', RUNNING: 'running' });
    const bars = list.map(o => {
        const at = parse(o.scheduled_for ?? o.run_at), took = o.completed_at && o.started_at ? parse(o.completed_at) - parse(o.started_at)
            : null;
        return { at, kind: kinds[o.status] ?? 'waits', took, retried: o.attempts > 1, href: link(['tasks', o.id]),
            text: `${day(at, zone)} ${clock(at, zone)}, ${o.status.toLowerCase()}${took === null ? '' : ' in ' + span(took)}${o.attempts > 1 ? `, ${o.attempts} attempts` : ''}` };
    });
    const tally = ['COMPLETED', 'FAILED', 'SKIPPED', 'RUNNING'].map(s => [list.filter(o => o.status === s).length,
        s.toLowerCase()]).filter(([n]) => n);
    const note = 'one bar a run, as high as it took; ' + tally.map(([n, word]) => `${n} ${word}`).join(', ');
    const asTable = ctx.ui.occurrenceTable;
    return section('occurrences', 'Occurrences', { note, more: h('button.link', { onclick: () => ctx.set({ occurrenceTable: !asTable }) },
        asTable ? 'Chart' : 'Table') },
        asTable ? h('table', h('thead', h('tr', ['Due', 'State', 'Took', 'Attempts'].map((t, i) => h('th', { class: i > 1 ? 'num' : null },
            t)))),
            h('tbody', data.occurrences.map((/** @type {any} */ o) => h('tr', { key: o.id }, h('td.nowrap',
                h('a.quiet', { href: link(['tasks', o.id]) }, instant(o.scheduled_for, ctx, { zone: data.task.time_zone }))),
                h('td', badge(o.status)), h('td.num', o.completed_at && o.started_at ? span(parse(o.completed_at) - parse(o.started_at))
                    : '–'), h('td.num', o.attempts)))))
            : strip(bars, zone, note));
}

/** @param {any} data @param {Context} ctx */
function attempts(data, ctx) {
    const { task } = data;
    if (!data.executions.length) {
        return section('attempts', 'Attempts', {}, h('p.second', task.status === 'SKIPPED' ? 'It was skipped: no attempt was made.'
            : 'None yet.'));
    }
    const list = data.executions.map((/** @type {any} */ e) => ({ e, a: toAttempt(e) }));
    const axis = axisOf(list.map((/** @type {any} */ x) => x.a), ctx.now);
    const many = task.type === 'RECURRING';
    return section('attempts', 'Attempts', { note: legend(), more: data.more ? h('button.link',
        { onclick: () => { ctx.set({ attempts: 100 }); ctx.reload(); } }, 'More') : null },
        h('table.rows', { 'aria-label': 'Attempts' }, h('thead', h('tr', h('th', { scope: 'col' }, many ? 'Due' : 'Started'),
            h('th.from-s', { scope: 'col' }, 'Try'), h('th', { scope: 'col' }, 'State'), h('th.timeline', timelineHead(axis)),
            h('th.from-m', { scope: 'col' }, 'Time lost to'), h('th.num.from-m', { scope: 'col' }, 'Took'), h('th.num.from-m',
                { scope: 'col' }, 'HTTP'), h('th.from-m', { scope: 'col' }, 'Node'))),
        h('tbody', list.flatMap((/** @type {any} */ { e, a }) => attemptRows(e, a, axis, task, ctx)))));
}

/** @param {any} e @param {any} a @param {any} axis @param {any} task @param {Context} ctx */
function attemptRows(e, a, axis, task, ctx) {
    const key = e.id ?? 'running', open = ctx.ui.opened === key;
    const toggle = () => ctx.set({ opened: open ? null : key });
    const due = task.type === 'RECURRING' ? e.scheduled_for : e.started_at ?? e.scheduled_for;
    const row = h('tr', { key, 'data-row': key, class: [open ? 'opened' : '', ctx.ui.row === key ? 'focused' : ''].join(' ').trim()
        || null },
        h('td.nowrap', h('button.link', { 'aria-expanded': String(open), onclick: toggle }, instant(due, ctx, { zone: task.time_zone }))),
        h('td.from-s', e.attempt_number), h('td', badge(e.status)), h('td.timeline', timelineRow(a, axis, ctx.now)),
        h('td.from-m', lost(e, a)), h('td.num.from-m', e.completed_at && e.started_at ? span(parse(e.completed_at) - parse(e.started_at))
            : '–'),
        h('td.num.from-m', e.http_status ?? '–'), h('td.from-m.second', e.worker ? userText(e.worker) : '–'));
    if (!open) return [row];
    return [row, h('tr.inner', { key: key + '+' }, h('td', { colspan: 8 }, instants(a, ctx.zone, task.time_zone),
        h('p.label', `Attempt ${e.attempt_number}`, e.fence !== undefined ? ` · fence ${number(e.fence)}` : '', e.worker ? [' · ',
            userText(e.worker)] : '', e.trace_id ? [' · trace ', h('span.mono', e.trace_id)] : ''),
        e.error_message ? h('p.fail', userText(e.error_message)) : null,
        e.output ? h('pre.command.scroll', userText(e.output)) : null))];
}

/** @param {any} e @returns {import('../view/chart.js').Attempt} */
function toAttempt(e) {
    const due = parse(e.scheduled_for), started = e.started_at ? parse(e.started_at) : null, ended = e.completed_at ? parse(e.completed_at)
        : null;
    const late = (started ?? Date.now()) - due;
    return { due, started, ended: e.status === 'RUNNING' ? null : ended ?? started, waited: late > 100, retry: e.attempt_number > 1,
        status: e.status,
        gate: e.delay_cause ? DELAYS[e.delay_cause] ?? e.delay_cause : '',
        text: e.error_message ?? (e.delay_cause ? DELAYS[e.delay_cause] ?? e.delay_cause : '') };
}

/** @param {any} e @param {import('../view/chart.js').Attempt} a */
function lost(e, a) {
    const late = (a.started ?? a.due) - a.due;
    if (e.delay_cause) return h('span.hold', `${span(e.delay_ms)}, ${DELAYS[e.delay_cause] ?? e.delay_cause}`);
    if (e.attempt_number > 1) return `${span(late)}, retry`;
    return h('span.second', `nothing, ${span(e.delay_ms ?? 0)}`);
}

const legend = () => h('span.legend.from-m', [
    [h('svg.timeline', { width: 10, height: 12, 'aria-hidden': 'true' }, h('path.claimed', { d: 'M5 1l5 5-5 5-5-5z' })), 'started late'],
    [h('svg.timeline', { width: 14, height: 10, 'aria-hidden': 'true' }, h('rect.waits', { x: .5, y: .5, width: 13, height: 9 })),
        'held by a gate'],
    [h('svg.timeline', { width: 14, height: 4, 'aria-hidden': 'true' }, h('path.later', { d: 'M0 2h14' })), 'until the retry'],
    [h('svg.timeline', { width: 14, height: 10, 'aria-hidden': 'true' }, h('rect.ok', { width: 14, height: 10 })), 'ran'],
    [h('svg.timeline', { width: 14, height: 10, 'aria-hidden': 'true' }, h('rect.fail', { width: 14, height: 10 })),
        'ran, failed']].map(([mark, text]) => h('span', mark, text)));

/** @param {any} data @param {Context} ctx */
function fires(data, ctx) {
    if (!data.upcoming?.length) return null;
    const zone = zoneOf(ctx.zone === 'local' ? 'task' : ctx.zone, data.task.time_zone);
    let before = offsetOf(ctx.now, zone);
    return section('fires', 'Next fires', { note: `in ${zone}`, more: h('a', { href: inCalendar(data) }, 'In the calendar') },
        h('table', h('thead', h('tr', h('th', { scope: 'col' }, zone === 'UTC' ? 'When' : 'Local'), zone === 'UTC' ? null : h('th.from-s', { scope: 'col' }, 'UTC'),
            h('th.from-m', { scope: 'col' }, 'In'), h('th', { scope: 'col' }, 'Why so'))),
            h('tbody', data.upcoming.map((/** @type {any} */ fire) => {
                const ms = parse(fire.at), skipped = fire.skipped, offset = offsetOf(ms, zone), shifted = offset !== before;
                before = offset;
                const local = `${day(ms, zone)} ${clock(ms, zone).slice(0, seconds(data.task) ? 8 : 5)} ${zoneName(ms, zone)}`;
                return h('tr', { key: fire.at + fire.note }, h('td.nowrap', skipped ? h('s.second', local) : local),
                    zone === 'UTC' ? null : h('td.nowrap.from-s.second', skipped ? '–' : (day(ms, 'UTC') === day(ms, zone) ? '' : day(ms,
                        'UTC') + ' ')
                        + new Date(ms).toISOString().slice(11, seconds(data.task) ? 19 : 16) + 'Z'),
                    h('td.nowrap.from-m.second', skipped ? '–' : relative(ms, ctx.now).replace('in ', '')),
                    h('td', skipped ? h('span.state.wraps', icon('skipped'), userText(cap(fire.note))) : fire.note ? h('span.state.wraps',
                        { 'data-tone': 'hold' }, icon('late'), userText(cap(fire.note)))
                        : h('span.second', shifted ? 'as scheduled; the clock changes before it' : 'as scheduled')));
            }))));
}

// The minute of the next fire.
/** @param {any} data */
function inCalendar(data) {
    const next = data.upcoming.find((/** @type {any} */ f) => !f.skipped), at = next
        ? new Date(Math.floor(parse(next.at) / 60000) * 60000).toISOString() : null;
    return link(['calendar'], { queue: data.task.queue, at });
}

/** @param {any} task */
const seconds = task => !!task.interval_seconds && task.interval_seconds % 60 !== 0;
/** @param {string} text */
const cap = text => text.charAt(0).toUpperCase() + text.slice(1);

/** @param {any} data */
function dependencies(data) {
    const { depends_on: parents, dependents } = data.dependencies;
    if (!parents.length && !dependents.length) return null;
    /** @param {any} d */
    const row = d => [h('a', { href: link(['tasks', d.task_id]) }, d.name ? userText(d.name) : h('span.mono', d.task_id.slice(0, 18))),
        d.status ? badge(d.status, { calm: true }) : 'gone', String(d.type).toLowerCase().replaceAll('_', ' ')];
    return section('dependencies', 'Dependencies', {}, parents.length ? plainTable(['It waits for', 'State', 'Which'], parents.map(row))
        : null,
        dependents.length ? plainTable(['These wait for it', 'State', 'Which'], dependents.map(row)) : null);
}

/** @param {any} data @param {Context} ctx */
const actions = (data, ctx) => section('actions', 'Actions', { more: h('span.label', 'copy as') }, actionList(ctx, actionsOf(data, ctx)));

// A pause is asked about: it has a reason and an end.
/** @param {any} data @param {Context} ctx @returns {import('../lib/command.js').Action[]} */
function actionsOf({ task, explanation }, ctx) {
    const { paused } = task, ask = () => askPause(ctx, task.name ?? 'the task', paused, task.type === 'RECURRING' ? 'No further run of it starts.'
        : 'It does not start.', v => pauseTask(task, v), /** @type {any} */ (reverse({ path: '/pause' }, task)));
    return taskActions(task, stillHeld(explanation)).flatMap(a => a.label === 'Pause' ? [{ ...a, label: 'Pause…',
        hint: 'with a reason, until a time', ask }] : a.label === 'Resume' && paused ? [a, { ...pauseTask(task, paused),
        label: 'Change the pause…', ask }] : [a]);
}

/** @param {any} task */
function target(task) {
    const config = task.target_config ?? {};
    if (task.target_type === 'HTTP_CALLBACK') return [config.method ?? 'POST', ' ', userText(config.url)];
    if (task.target_type === 'QUEUE_MESSAGE') return ['message to ', userText(config.destination), ' on ', userText(config.broker)];
    if (task.target_type === 'WORKFLOW') return ['workflow ', userText(config.workflow ?? 'of its own')];
    return String(task.target_type).toLowerCase();
}

/** @param {any} task @param {Context} ctx */
function settings(task, ctx) {
    const retry = task.retry, seconds = task.catch_up_window_seconds;
    return section('settings', 'Settings', { more: h('span.label', `version ${task.version}`) }, facts([
        ['Queue', [h('a', { href: link(['queues'], { name: task.queue }) }, userText(task.queue)), `, priority ${task.priority}`]],
        ['Target', target(task)], ['Task type', task.task_type && userText(task.task_type)],
        ['Due', task.run_at ? when(task.run_at, ctx, { zone: task.time_zone }) : null],
        ['Key', task.concurrency_key ? [h('span.mono', userText(task.concurrency_key)), `, limit ${task.concurrency_limit}`] : null],
        ['Overlap', task.overlap_policy?.toLowerCase().replaceAll('_', ' ')],
        ['Catch-up', task.catch_up_mode
            ? `${task.catch_up_mode.toLowerCase().replaceAll('_', ' ')}${seconds ? ', within ' + durationInWords(seconds).replace(/^(day|hour|minute|second)$/, '1 $1') : ''}` : null],
        ['Retry', retry ? retry.max_attempts === 1 ? 'no retry'
            : `${retry.max_attempts} tries, from ${rough(retry.base_delay_ms)}${retry.backoff === 'FIXED' ? '' : ', doubling'}` : null],
        ['Timeout', task.timeout_ms ? span(task.timeout_ms).replace(/ 00 \w+$/, '') : 'none'],
        ['Clock change', task.dst_policy ? `gap: ${task.dst_policy.gap?.toLowerCase()}; overlap: ${task.dst_policy.overlap?.toLowerCase()}`
            : null],
        ['Expires', task.expires_after_seconds ? durationInWords(task.expires_after_seconds) + ' after it is due' : null],
        ['Dedupe key', task.dedupe_key && h('span.mono', userText(task.dedupe_key))],
        ['Delivery', task.delivery?.toLowerCase().replaceAll('_', ' ')],
        ['Runs', task.type === 'RECURRING' ? `${number(task.runs_count)}, ${number(task.skipped_count)} skipped` : null],
        ['Created', when(task.created_at, ctx, { zone: task.time_zone })]]));
}

/** @param {any} task */
function payload(task) {
    const body = task.payload ?? task.target_config?.body;
    const parts = [['Payload', body], ['Headers', task.target_config?.headers], ['Metadata',
        task.metadata]].filter(([, v]) => v !== undefined && v !== null);
    return parts.map(([name, value]) => {
        const text = pretty(value);
        return section('json-' + name, String(name), { more: copyButton(text) }, h('pre.command.scroll',
            { tabindex: 0, 'aria-label': String(name) }, userText(text)));
    });
}

/** @param {any} data @param {Context} ctx */
function audit(data, ctx) {
    if (!data.audit?.length) return null;
    return section('audit', 'Audit', { more: h('a', { href: link(['admin'], { object: data.task.id }) }, 'All') },
        h('table', h('thead.hidden-text', h('tr', h('th', 'When'), h('th', 'What'))), h('tbody', data.audit.map((/** @type {any} */ a) =>
        h('tr', { key: a.id }, h('td.nowrap.second', instant(a.at, ctx)), h('td.anywhere', userText(a.key_name ?? a.key), ' ', auditWords(a).verb, a.details ? reasonInWords(a.details, ctx) : null))))));
}

