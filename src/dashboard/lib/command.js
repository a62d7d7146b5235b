// What the dashboard does, as data: a request, the same as curl and as a command line, and the words around it. Pages show actions
// from here, so that whatever can be clicked can be scripted.
import { withQuery } from './api.js';
import { duration } from './time.js';

/**
 * @typedef {{
 *   label: string, scope: string, method: string, path: string, body?: any, etag?: number | string | null,
 *   cli: string[] | null, danger?: boolean, done?: string, hint?: string, ask?: () => void,
 *   effect?: string
 * }} Action
 */

// A word of a shell command, quoted if it has to be.
/** @param {string} word */
export function quote(word) {
    if (/^[\w@%+=:,./-]+$/.test(word)) return word;
    return "'" + word.replaceAll("'", "'\\''") + "'";
}

/** @param {Action} action @param {string} origin */
export function curl(action, origin) {
    const lines = [`curl ${action.method === 'GET' ? '' : `-X ${action.method} `}${quote(origin + action.path)}`,
        '-H "Authorization: Bearer $BELFRY_KEY"'];
    if (action.etag !== undefined && action.etag !== null) lines.push(`-H 'If-Match: "${action.etag}"'`);
    if (action.body !== undefined) {
        lines.push("-H 'Content-Type: application/json'", '-d ' + quote(JSON.stringify(action.body)));
    }
    return lines.join(' \\\n  ');
}

// A command as it is copied: it goes to the server of this page, not to that of the shell.
/** @param {string} line */
export const here = line => !line.startsWith('belfry ') || line.includes(' --server ') ? line
    : line.split(' && ').map(one => `${one} --server ${location.origin}`).join(' && ');

/** @param {Action} action */
export const cli = action => action.cli ? here('belfry ' + action.cli.map(quote).join(' ')) : null;

/** @param {any} task @param {string} verb @param {string} command @param {Partial<Action>} [more] @returns {Action} */
const onTask = (task, verb, command, more = {}) => ({ label: verb, scope: 'tasks:write', method: 'POST',
    path: `/v1/tasks/${task.id}/${verb}`,
    cli: [command, task.id], ...more });

/** @param {any} task */
const named = task => task.name || String(task.id).slice(0, 18);

// The actions that make sense for a task in its state.
/** @param {any} task @param {string} [holds] what holds it even if it is due @returns {Action[]} */
export function taskActions(task, holds = '') {
    const final = ['COMPLETED', 'FAILED', 'CANCELLED', 'SKIPPED', 'EXPIRED'].includes(task.status);
    /** @type {Action[]} */
    const list = [];
    if (task.status === 'FAILED') {
        list.push(onTask(task, 'retry', 'retry', { label: 'Retry', done: `${named(task)} is tried again` }));
    }
    if (!final && task.status !== 'RUNNING') {
        list.push(onTask(task, 'run-now', 'run', { label: 'Run now', hint: task.type === 'RECURRING' ? 'one run more' : 'at once',
            done: holds ? `${named(task)} is due now, but it waits: ${holds}` : `${named(task)} starts`, ...task.status === 'BLOCKED'
                ? { body: { force: true }, cli: ['run', '--force', task.id],
                hint: 'although it is blocked' } : {} }));
    }
    if (task.status === 'PAUSED') list.push(onTask(task, 'resume', 'resume', { label: 'Resume', done: `${named(task)} goes on` }));
    else if (!final && task.status !== 'RUNNING') list.push(onTask(task, 'pause', 'pause', { label: 'Pause',
        done: `${named(task)} is paused` }));
    if (!final) {
        list.push(onTask(task, 'cancel', 'cancel', { label: 'Cancel…', danger: true, done: `${named(task)} is cancelled` }));
    }
    if (final) {
        list.push({ label: 'Delete…', scope: 'tasks:write', method: 'DELETE', path: `/v1/tasks/${task.id}`, cli: ['rm', task.id],
            danger: true,
            done: `${named(task)} is deleted` });
    }
    list.push({ label: 'Explain', scope: 'tasks:read', method: 'GET', path: `/v1/tasks/${task.id}/explain`, cli: ['explain', task.id] });
    return list;
}

// For a time ("2h") or until one ("2026-02-10T08:00:00Z"). Of what is paused already, what is left empty is taken away.
/** @typedef {{reason?: string | null, until?: string | null}} How */
/** @param {How} how */
const isFor = how => how.until && !/^\d{4}-/.test(how.until);
/** @param {How} how @param {boolean} [already] */
const pauseBody = (how, already) => ({ reason: how.reason || (already ? null : undefined),
    [isFor(how) ? 'for' : 'until']: how.until || (already ? null : undefined) });
/** @param {How} how @param {boolean} [already] */
const pauseWords = (how, already) => [...how.reason || already ? ['--reason', how.reason ?? ''] : [],
    ...how.until || already ? ['--until', how.until ?? ''] : []];

/** @param {any} task @param {How} how */
export function pauseTask(task, how) {
    const already = task.status === 'PAUSED';
    return onTask(task, 'pause', 'pause', { label: 'Pause', done: `${named(task)} is paused`, body: pauseBody(how, already),
        cli: ['pause', task.id, ...pauseWords(how, already)] });
}

// What reverses an action, if anything does.
/** @param {{path: string}} action @param {any} task @returns {Action | null} */
export function reverse(action, task) {
    if (action.path.endsWith('/pause')) return onTask(task, 'resume', 'resume', { label: 'Resume', done: `${named(task)} goes on` });
    if (action.path.endsWith('/resume')) return onTask(task, 'pause', 'pause', { label: 'Pause', done: `${named(task)} is paused` });
    return null;
}

/** @param {Record<string, string>} filter @returns {string} as --filter takes it */
export const cliFilter = filter => Object.entries(filter).map(([name, value]) => `${name.replaceAll('_', '-')}=${value}`).join(',');

// Values with commas are said as JSON.
/** @param {string} action @param {Record<string, any>} filter @param {How} [how] of a pause @returns {Action} */
export function bulk(action, filter, how = {}) {
    const commands = /** @type {Record<string, string>} */ ({ 'run-now': 'run', delete: 'rm' });
    return { label: action, scope: 'tasks:write', method: 'POST', path: '/v1/tasks/bulk', body: { action, filter, ...pauseBody(how) },
        cli: [commands[action] ?? action, '--filter', Object.values(filter).some(value => String(value).includes(','))
            ? JSON.stringify(filter) : cliFilter(filter), ...pauseWords(how)], danger: action === 'cancel' || action === 'delete' };
}

/** @param {string} cause @param {number} rate @param {number} most @param {string} before @returns {Action} */
export const redrive = (cause, rate, most, before) => ({ label: 'Re-drive', scope: 'dlq:write', method: 'POST', path: '/v1/dlq/retry',
    body: { filter: { cause, created_before: before }, rate, max_failed_percent: most },
    cli: ['dlq', 'retry', '--cause', cause, '--rate', String(rate), '--max-failed', String(most)] });

/** @param {any} job @returns {Action} */
export const cancelJob = job => ({ label: 'Stop', scope: job.kind === 'redrive' ? 'dlq:write' : 'tasks:write', method: 'POST',
    path: `/v1/jobs/${job.id}/cancel`, cli: ['job', 'cancel', job.id], danger: true, done: 'The job stops' });

/** @param {string} id @param {string} reason @returns {Action} */
export const archive = (id, reason) => ({ label: 'Archive', scope: 'dlq:write', method: 'POST', path: `/v1/dlq/${id}/archive`, body: reason
    ? { reason } : {},
    cli: ['dlq', 'archive', id, ...reason ? ['--reason', reason] : []], done: 'Archived' });

/** @param {string} id @param {any} edit @returns {Action} */
export const retryLetter = (id, edit) => ({ label: 'Retry', scope: 'dlq:write', method: 'POST', path: `/v1/dlq/${id}/retry`,
    body: edit ?? undefined,
    cli: ['dlq', 'retry', id, ...edit ? ['--edit', JSON.stringify(edit)] : []], done: 'It is tried again' });

/** @param {string} name @param {How} how @returns {Action} */
export const pauseQueue = (name, how) => ({ label: 'Pause', scope: 'queues:write', method: 'PATCH',
    path: `/v1/queues/${encodeURIComponent(name)}`, body: { paused: pauseBody(how) },
    cli: ['queue', 'pause', name, ...pauseWords(how).map(word => word === '--until' && isFor(how) ? '--for' : word)],
    done: `Queue ${name} is paused` });

/** @param {string} name @returns {Action} */
export const resumeQueue = name => ({ label: 'Resume', scope: 'queues:write', method: 'PATCH',
    path: `/v1/queues/${encodeURIComponent(name)}`,
    body: { paused: false }, cli: ['queue', 'resume', name], done: `Queue ${name} goes on, slowly at first` });

/** @param {any} breaker @returns {Action} */
export const closeBreaker = breaker => ({ label: 'Close', scope: 'queues:write', method: 'POST', path: `/v1/breakers/${breaker.id}/close`,
    cli: ['breakers', 'close', breaker.id], done: `The breaker of ${breaker.host ?? breaker.tenant} is closed` });

/** @param {string} name @returns {Action} */
export const showQueue = name => ({ label: 'Show', scope: 'queues:read', method: 'GET', path: `/v1/queues/${encodeURIComponent(name)}`,
    cli: ['queue', 'show', name] });

const LIMITS = ['max_dispatches_per_second', 'max_burst', 'max_concurrent', 'weight'];

// What a form says about the limits of a queue; only what differs is sent.
/** @param {any} queue @param {Record<string, string>} v @returns {Action} */
export const setLimits = (queue, v) => ({ label: 'Limits', scope: 'queues:write', method: 'PATCH',
    path: `/v1/queues/${encodeURIComponent(queue.name)}`, etag: queue.version || null,
    body: Object.fromEntries(LIMITS.map(n => /** @type {[string, number | null]} */ ([n, v[n] === '' ? null : Number(v[n])]))
        .filter(([n, value]) => value !== queue[n])),
    cli: ['queue', 'set', queue.name, '--rate', v.max_dispatches_per_second || '0', ...v.max_burst ? ['--burst', v.max_burst] : [],
        '--concurrent', v.max_concurrent || '0', '--weight', v.weight || '100'] });

/** @param {any} run @param {string} verb @param {any} [body] @param {string[]} [words] @returns {Action} */
const onRun = (run, verb, body, words = []) => ({ label: verb, scope: 'workflows:write', method: 'POST',
    path: `/v1/workflows/${run.id}/${verb}`, body, cli: ['workflow', verb, run.id, ...words] });

/** @param {any} run */
export const cancelRun = run => ({ ...onRun(run, 'cancel', {}), label: 'Cancel…', danger: true, done: 'The run is cancelled' });
/** @param {any} run @param {How} [how] */
export const pauseRun = (run, how = {}) => ({ ...onRun(run, 'pause', pauseBody(how, run.paused), pauseWords(how, run.paused)), label: 'Pause',
    done: 'No more steps start' });
/** @param {any} run */
export const resumeRun = run => ({ ...onRun(run, 'resume'), label: 'Resume', done: 'The run goes on' });
/** @param {any} run */
export const retryRun = run => ({ ...onRun(run, 'retry', {}), label: 'Retry', hint: 'what failed', done: 'What failed runs again' });
/** @param {any} run @param {string} from */
export const rerun = (run, from) => ({ ...onRun(run, 'rerun', { from }, ['--from', from]), label: 'Rerun', done: 'A new run has begun' });
/** @param {any} run @returns {Action} */
export const showRun = run => ({ label: 'Show', scope: 'workflows:read', method: 'GET', path: `/v1/workflows/${run.id}`,
    cli: ['workflow', 'show', run.id] });

/** @param {string} run @param {string} step @param {string} verb @param {any} [body] @param {string[]} [words] @returns {Action} */
const onStep = (run, step, verb, body, words = []) => ({ label: verb, scope: 'workflows:write', method: 'POST',
    path: `/v1/workflows/${run}/steps/${encodeURIComponent(step)}/${verb}`, body, cli: ['workflow', 'step', verb, run, step, ...words] });

/** @param {any} run @param {any} s a step @returns {Action[]} */
export function stepActions(run, s) {
    /** @type {Action[]} */
    const list = [];
    if (['SCHEDULED', 'BLOCKED'].includes(s.status)) list.push({ ...onStep(run.id, s.step, 'run-now', { force: true }, ['--force']),
        label: 'Run now', hint: 'without waiting for others', done: `${s.step} starts` }, { ...onStep(run.id, s.step, 'skip', {}),
        label: 'Skip', hint: 'it counts as clean', done: `${s.step} is skipped` });
    if (s.status !== 'COMPLETED') list.push({ ...onStep(run.id, s.step, 'force-complete', {}), label: 'Force complete',
        hint: 'without an output', done: `${s.step} is completed` });
    list.push({ label: 'Show', scope: 'workflows:read', method: 'GET', path: `/v1/workflows/${run.id}/steps/${encodeURIComponent(s.step)}`,
        cli: ['workflow', 'show', run.id, s.step] });
    return list;
}

/** @param {string} run @param {string} signal @param {boolean} yes @returns {Action} */
export const signal = (run, signal, yes) => ({ label: yes ? 'Approve' : 'Reject', scope: 'workflows:signal', method: 'POST',
    path: `/v1/workflows/${run}/signals/${encodeURIComponent(signal)}`, body: { decision: yes ? 'APPROVE' : 'REJECT' },
    cli: ['workflow', 'signal', run, signal, ...yes ? [] : ['--reject']], danger: !yes, done: yes ? 'Approved' : 'Rejected' });

// A list as it is shown, for scripts.
/** @param {string} path @param {Record<string, any>} query @param {string[] | null} words @returns {Action} */
export const listing = (path, query, words) => ({ label: 'List', scope: 'tasks:read', method: 'GET', path: withQuery(path, query),
    cli: words });

// The command line has one state, and takes a name as the beginning of one: no command lists several states, or exactly one name.
/** @param {Record<string, string>} filter @returns {Action} */
export function taskList(filter) {
    const told = !filter.status?.includes(',') && (!filter.name || filter.name.endsWith('*'));
    const words = Object.entries(filter).flatMap(([name, value]) => name === 'occurrences' ? value === 'true' ? ['--occurrences'] : []
        : ['--' + name.replaceAll('_', '-'), value]);
    return listing('/v1/tasks', filter, told ? ['list', ...words] : null);
}

/** @param {Record<string, string>} filter of executions @returns {Action} */
export const executionList = filter => listing('/v1/executions', filter, ['history', ...Object.entries(filter)
    .flatMap(([name, value]) => ['--' + name, value])]);

/** @param {Record<string, string | null>} filter of runs @returns {Action} */
export const runList = filter => listing('/v1/workflows', filter, ['workflow', 'list', ...Object.entries(filter)
    .flatMap(([name, value]) => value ? ['--' + name, value] : [])]);

// ---- notifications

/** @param {any} i an incident @returns {Action} */
export const ackIncident = i => ({ label: 'Acknowledge', scope: 'notifications:write', method: 'POST', path: `/v1/incidents/${i.id}/ack`,
    cli: ['notify', 'ack', i.id], hint: 'no repeats and no steps any more', done: 'Acknowledged: it is not told again' });

/** @param {any} i @param {string} time empty: not any more @returns {Action} */
export const muteIncident = (i, time) => time ? { label: 'Mute', scope: 'notifications:write', method: 'POST', path: `/v1/incidents/${i.id}/mute`,
    body: { for: time }, cli: ['notify', 'mute', i.id, '--for', time], hint: 'for two hours', done: 'Muted' }
    : { label: 'Unmute', scope: 'notifications:write', method: 'POST', path: `/v1/incidents/${i.id}/unmute`, cli: ['notify', 'unmute', i.id],
        hint: 'tell again', done: 'It is told again' };

/** @param {any} n a message @returns {Action} */
export const resend = n => ({ label: 'Resend', scope: 'notifications:write', method: 'POST', path: `/v1/notifications/${n.id}/resend`,
    cli: ['notify', 'resend', n.id], done: 'It is sent again' });

/** @param {any} setting @returns {Action} */
export const testSetting = setting => ({ label: 'Send a test', scope: 'notifications:write', method: 'POST',
    path: `/v1/notification-settings/${setting.id}/test`, cli: ['notify', 'test', setting.name] });

/** @type {Record<string, string>} */
const SETTING_FLAGS = { name: '--rename', user_id: '--user', after: '--after', group_wait: '--wait', group_window: '--window',
    repeat_every: '--repeat-every', max_per_hour: '--max-per-hour', secret: '--secret', signing_key: '--signing-key', token: '--token',
    priority: '--priority', queue: '--queue', task_type: '--task-type' };
/** @type {Record<string, any>} what need not be said of a new one */
const USUAL = { mode: 'CHANGES', after: 1, group_wait: '10s', group_window: '5m', repeat_every: '4h', max_per_hour: 60 };

// What has no option of its own is set as the API has it.
/** @param {Record<string, any>} fields */
const settingWords = fields => Object.entries(fields).flatMap(([name, value]) => SETTING_FLAGS[name] && value !== null
    ? [SETTING_FLAGS[name], String(value)] : ['--set', `${name}=${JSON.stringify(value)}`]);

/** @param {Record<string, any>} s @returns {string[]} */
function newSettingWords({ name, delivery_type: type, delivery_config: { url, topic, to, ...config }, filter, ...rest }) {
    const where = /** @type {Record<string, string[]>} */ ({ HTTP_WEBHOOK: ['--webhook', url], SLACK_WEBHOOK: ['--slack', url],
        PUSH: ['--push', `${url}/${topic}`], EMAIL: ['--email', (to ?? []).join(',')] })[type];
    const said = Object.entries({ ...config, ...filter, name: undefined, ...rest }).filter(([field, value]) => value && value !== USUAL[field]
        && !field.startsWith('on_') && value.length !== 0);
    return ['notify', 'add', name, ...where, '--on', Object.keys(rest).filter(field => field.startsWith('on_') && rest[field])
        .map(field => field.slice(3)).join(','), ...filter.name ? ['--name', filter.name] : [], ...settingWords(Object.fromEntries(said))];
}

/** @param {Record<string, any>} setting @returns {Action} */
export const newSetting = setting => ({ label: 'New setting', scope: 'notifications:write', method: 'POST',
    path: '/v1/notification-settings', body: setting, cli: newSettingWords(setting) });

// There is no command that changes nothing.
/** @param {any} setting @param {Record<string, any>} body @returns {Action} */
export const changeSetting = (setting, body) => ({ label: 'Change', scope: 'notifications:write', method: 'PATCH',
    path: `/v1/notification-settings/${setting.id}`, body, etag: setting.version,
    cli: Object.keys(body).length ? ['notify', 'edit', setting.id, ...settingWords(body)] : null });

/** @param {any} setting @param {string} time empty: not any more @returns {Action} */
export const muteSetting = (setting, time) => ({ ...changeSetting(setting,
    { muted_until: time ? new Date(Date.now() + (duration(time) || 0)).toISOString() : null }), label: time ? 'Mute…' : 'Unmute',
    cli: time ? ['notify', 'mute', setting.id, '--for', time] : ['notify', 'unmute', setting.id] });

/** @param {any} setting @returns {Action} */
export const removeSetting = setting => ({ label: 'Remove…', scope: 'notifications:write', method: 'DELETE', danger: true,
    path: `/v1/notification-settings/${setting.id}`, cli: ['notify', 'remove', setting.id], done: `${setting.name} is removed`,
    hint: 'it tells nothing any more' });

// ---- keys and tenants

/** @param {any} key @param {string} [own] the tenant of the session @returns {Action} */
export function revokeKey(key, own) {
    const elsewhere = key.tenant === own ? '' : '?tenant=' + encodeURIComponent(key.tenant);
    return { label: 'Revoke…', scope: 'admin', method: 'DELETE', path: `/v1/api-keys/${encodeURIComponent(key.id)}${elsewhere}`,
        danger: true, cli: ['key', 'revoke', key.id, ...elsewhere ? ['--tenant', key.tenant] : []], done: `${key.name} is revoked` };
}

/** @param {Record<string, any>} v @param {string | null} tenant @param {number} now @returns {Action} */
export const newKey = (v, tenant, now) => ({ label: 'New key', scope: 'admin', method: 'POST', path: '/v1/api-keys',
    body: { name: v.name, scopes: v.scopes, ...tenant ? { tenant } : {},
        ...v.days ? { expires_at: new Date(now + Number(v.days) * 86400000).toISOString() } : {} },
    cli: ['key', 'create', v.name, '--scopes', v.scopes.join(','), ...v.days ? ['--expires-in', `${v.days}d`] : [],
        ...tenant ? ['--tenant', tenant] : []] });

/** @param {Record<string, string>} v @returns {Action} */
export const newTenant = v => ({ label: 'New tenant', scope: 'admin', method: 'POST', path: '/v1/tenants',
    body: { name: v.name, ...v.max_pending ? { max_pending: Number(v.max_pending) } : {} },
    cli: ['tenant', 'create', v.name, ...v.max_pending ? ['--max-pending', v.max_pending] : []] });

/** @param {Record<string, string>} v @returns {Action} */
export const newSigningKey = v => ({ label: 'New signing key', scope: 'signing-keys:write', method: 'POST', path: '/v1/signing-keys',
    body: { name: v.name, algorithm: v.algorithm, ...v.host ? { host: v.host } : {} },
    cli: ['signing-keys', 'add', v.name, '--algorithm', v.algorithm, ...v.host ? ['--host', v.host] : []] });

/** @param {any} key @param {string} overlap @returns {Action} */
export const rotateSigningKey = (key, overlap) => ({ label: 'Rotate…', scope: 'signing-keys:write', method: 'POST',
    path: `/v1/signing-keys/${key.id}/rotate`, body: { overlap }, cli: ['signing-keys', 'rotate', key.id, '--overlap', overlap] });

/** @param {any} key @returns {Action} */
export const removeSigningKey = key => ({ label: 'Remove…', scope: 'signing-keys:write', method: 'DELETE', danger: true,
    path: `/v1/signing-keys/${key.id}`, cli: ['signing-keys', 'remove', key.id], done: `${key.name || 'The key'} is removed`,
    effect: 'What it signed is sent without a signature, or with the key for all other hosts. It cannot be taken back.' });

// ---- a task that is written or changed

/** @type {Record<string, string>} */
const FLAGS = { name: '--name', cron_expression: '--cron', time_zone: '--tz', calendar: '--calendar', queue: '--queue',
    priority: '--priority', run_at: '--at', concurrency_key: '--concurrency-key' };

/** @param {any} x what is expected @returns {string[]} */
const expectFlags = x => x.within_seconds ? ['--expect-within', `${x.within_seconds}s`] : ['--expect-success-by', x.success_by,
    ...x.days ? ['--expect-days', x.days] : []];

// The words for a field. What has no option of its own is set as the API has it.
/** @param {string} name @param {any} value @returns {string[]} */
function fieldWords(name, value) {
    const plain = ['--set', `${name}=${JSON.stringify(value)}`];
    if (value === null) return plain;
    if (FLAGS[name]) return [FLAGS[name], String(value)];
    if (name === 'interval_seconds') return ['--every', `${value}s`];
    if (name === 'timeout_ms') return ['--timeout', `${value}ms`];
    if (name === 'overlap_policy') return ['--overlap', value.toLowerCase().replaceAll('_', '-')];
    if (name === 'notify' && value.length) return value.flatMap((/** @type {string} */ s) => ['--notify', s]);
    if (name === 'expect') return expectFlags(value);
    if (name === 'retry') return Object.keys(value).join() === 'max_attempts' ? ['--max-attempts', String(value.max_attempts)] : plain;
    return plain;
}

/** @param {any} task null: it is new @param {Record<string, any>} change @returns {Action} */
export function saveTask(task, change) {
    const { target_type: type, target_config: config, ...rest } = change;
    const all = Object.entries(task ? change : rest).flatMap(([name, value]) => fieldWords(name, value));
    if (task) return { label: 'Edit', scope: 'tasks:write', method: 'PATCH', path: `/v1/tasks/${task.id}`, body: change, etag: task.version,
        cli: ['edit', task.id, ...all, '--if-version', String(task.version)] };
    // without a URL the form is not complete, and a command would fail
    return { label: 'Create', scope: 'tasks:write', method: 'POST', path: '/v1/tasks', body: change,
        cli: type === 'HTTP_CALLBACK' && config?.url ? ['add', ...all, ...config.method === 'POST' ? [] : ['-X', config.method], config.url]
            : null };
}
