// What the dashboard does, as data: a request, the same as curl and as a command line, and the words around it. Pages show actions
// from here, so that whatever can be clicked can be scripted.
import { withQuery } from './api.js';

/**
 * @typedef {{
 *   label: string, scope: string, method: string, path: string, body?: any, etag?: number | string | null,
 *   cli: string[] | null, danger?: boolean, done?: string, hint?: string
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

/** @param {Action} action */
export const cli = action => action.cli ? 'belfry ' + action.cli.map(quote).join(' ') : null;

/** @param {any} task @param {string} verb @param {string} command @param {Partial<Action>} [more] @returns {Action} */
const onTask = (task, verb, command, more = {}) => ({ label: verb, scope: 'tasks:write', method: 'POST',
    path: `/v1/tasks/${task.id}/${verb}`,
    cli: [command, task.id], ...more });

/** @param {any} task */
const named = task => task.name || String(task.id).slice(0, 18);

// The actions that make sense for a task in its state.
/** @param {any} task @returns {Action[]} */
export function taskActions(task) {
    const final = ['COMPLETED', 'FAILED', 'CANCELLED', 'SKIPPED', 'EXPIRED'].includes(task.status);
    /** @type {Action[]} */
    const list = [];
    if (task.status === 'FAILED' || task.status === 'CANCELLED' || task.status === 'EXPIRED') {
        list.push(onTask(task, 'retry', 'retry', { label: 'Retry', done: `${named(task)} is tried again` }));
    }
    if (!final && task.status !== 'RUNNING') {
        list.push(onTask(task, 'run-now', 'run', { label: 'Run now', hint: task.type === 'RECURRING' ? 'one run more' : 'at once',
            done: `${named(task)} starts`, ...task.status === 'BLOCKED' ? { body: { force: true }, cli: ['run', '--force', task.id],
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

// What reverses an action, if anything does.
/** @param {Action} action @param {any} task @returns {Action | null} */
export function reverse(action, task) {
    if (action.path.endsWith('/pause')) return onTask(task, 'resume', 'resume', { label: 'Resume', done: `${named(task)} goes on` });
    if (action.path.endsWith('/resume')) return onTask(task, 'pause', 'pause', { label: 'Pause', done: `${named(task)} is paused` });
    return null;
}

/** @param {Record<string, string>} filter @returns {string} as --filter takes it */
export const cliFilter = filter => Object.entries(filter).map(([name, value]) => `${name.replaceAll('_', '-')}=${value}`).join(',');

/** @param {string} action @param {Record<string, any>} filter @returns {Action} */
export function bulk(action, filter) {
    const commands = /** @type {Record<string, string>} */ ({ 'run-now': 'run', delete: 'rm' });
    const words = Object.fromEntries(Object.entries(filter).filter(([name]) => !['created_before', 'created_after', 'all'].includes(name)));
    return { label: action, scope: 'tasks:write', method: 'POST', path: '/v1/tasks/bulk', body: { action, filter },
        cli: Object.keys(words).length ? [commands[action] ?? action, '--filter', cliFilter(words)] : null, danger: action === 'cancel'
            || action === 'delete' };
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

/** @param {string} name @param {{reason?: string, for?: string}} how @returns {Action} */
export const pauseQueue = (name, how) => ({ label: 'Pause', scope: 'queues:write', method: 'PATCH',
    path: `/v1/queues/${encodeURIComponent(name)}`,
    body: { paused: { ...how.reason ? { reason: how.reason } : {}, ...how.for ? { for: how.for } : {} } },
    cli: ['queue', 'pause', name, ...how.reason ? ['--reason', how.reason] : [], ...how.for ? ['--for', how.for] : []],
        done: `Queue ${name} is paused` });

/** @param {string} name @returns {Action} */
export const resumeQueue = name => ({ label: 'Resume', scope: 'queues:write', method: 'PATCH',
    path: `/v1/queues/${encodeURIComponent(name)}`,
    body: { paused: false }, cli: ['queue', 'resume', name], done: `Queue ${name} goes on, slowly at first` });

/** @param {any} breaker @returns {Action} */
export const closeBreaker = breaker => ({ label: 'Close', scope: 'queues:write', method: 'POST', path: `/v1/breakers/${breaker.id}/close`,
    cli: ['breakers', 'close', breaker.id], done: `The breaker of ${breaker.host ?? breaker.tenant} is closed` });

/** @param {any} run @param {string} verb @param {any} [body] @param {string[]} [words] @returns {Action} */
export const onRun = (run, verb, body, words = []) => ({ label: verb, scope: 'workflows:write', method: 'POST',
    path: `/v1/workflows/${run.id}/${verb}`, body,
    cli: ['workflow', verb, run.id, ...words] });

/** @param {string} run @param {string} step @param {string} verb @param {any} [body] @param {string[]} [words] @returns {Action} */
export const onStep = (run, step, verb, body, words = []) => ({ label: verb, scope: 'workflows:write', method: 'POST',
    path: `/v1/workflows/${run}/steps/${encodeURIComponent(step)}/${verb}`, body, cli: ['workflow', 'step', verb, run, step, ...words] });

/** @param {string} run @param {string} signal @param {boolean} yes @returns {Action} */
export const signal = (run, signal, yes) => ({ label: yes ? 'Approve' : 'Reject', scope: 'workflows:signal', method: 'POST',
    path: `/v1/workflows/${run}/signals/${encodeURIComponent(signal)}`, body: { decision: yes ? 'APPROVE' : 'REJECT' },
    cli: ['workflow', 'signal', run, signal, ...yes ? [] : ['--reject']], danger: !yes, done: yes ? 'Approved' : 'Rejected' });

// A list as it is shown, for scripts.
/** @param {string} path @param {Record<string, any>} query @param {string[]} words @returns {Action} */
export const listing = (path, query, words) => ({ label: 'List', scope: 'tasks:read', method: 'GET', path: withQuery(path, query),
    cli: words });
