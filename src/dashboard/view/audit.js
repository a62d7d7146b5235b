// Rows of the audit log in words: "paused the task nightly-ledger: “moved”". An action is a method and a path; of its body, the log has the reason and the end.
import { h } from '../lib/dom.js';
import { link } from '../lib/router.js';
import { count } from '../lib/time.js';
import { reasonInWords } from './held.js';
import { userText } from './parts.js';

/** @type {Record<string, string>} */
const NOUNS = { tasks: 'the task', 'recurring-tasks': 'the task', dlq: 'the dead letter', workflows: 'the run',
    'workflow-definitions': 'the workflow',
    queues: 'the queue', calendars: 'the calendar', tenants: 'the tenant', 'api-keys': 'the key', jobs: 'the job', breakers: 'the breaker',
    'notification-settings': 'the notification setting', 'signing-keys': 'the signing key', incidents: 'the incident', notifications: 'the message' };
/** @type {Record<string, string>} */
const METHODS = { POST: 'created', PUT: 'set', PATCH: 'changed', DELETE: 'removed' };
/** @type {Record<string, string>} by the last word of the path */
const VERBS = { cancel: 'cancelled', pause: 'paused', resume: 'resumed', 'run-now': 'started', retry: 'retried', rerun: 'ran again',
    skip: 'skipped', 'trigger-now': 'started', unmute: 'unmuted',
    'force-complete': 'completed by hand', archive: 'archived', close: 'closed', ack: 'acknowledged', mute: 'muted', resend: 'sent again',
    test: 'tested', rotate: 'replaced the secret of', dependencies: 'changed what is waited for by' };
/** @type {Record<string, string>} whole actions that name no object, or say it otherwise */
const WHOLE = { 'resume task': 'resumed the task', 'resume run': 'resumed the run', 'disable notification setting': 'turned off the notification setting',
    'make admin key': 'made the admin key', 'make login code': 'made a login link', 'refuse API key': 'used a key that is', 'POST /v1/session': 'logged in', 'DELETE /v1/session': 'logged out', 'POST /v1/session/codes': 'made a login link',
    'POST /v1/tasks/bulk': 'began a bulk action,', 'POST /v1/dlq/retry': 'began a re-drive,', 'POST /v1/workflows': 'started the run',
    'DELETE /v1/api-keys/{name}': 'revoked the key', 'DELETE /v1/queues/{name}': 'removed the rules of the queue' };

/** @param {any} row @returns {{verb: string, id: string, name: string, part: string}} part: a step or signal of the run */
export function auditWords(row) {
    const [method, path = ''] = row.action.split(' '), words = path.replace(/^\/v1\//, '').split('/'), last = words[words.length - 1];
    const [id, part = ''] = row.object_kind === 'workflow_run' ? String(row.object ?? '').split('/') : [row.object ?? ''];
    const name = row.object_kind === 'session' ? '' : row.object_name ?? id, noun = row.object_kind === 'job' ? 'the job' : NOUNS[words[0]];
    if (words[0] === 'queues' && row.details) return { verb: 'paused the queue', id, name, part };
    if (words.includes('signals')) return { verb: 'decided', id, name, part };
    if (WHOLE[row.action]) return { verb: WHOLE[row.action] + (WHOLE[row.action].endsWith(',') ? ' the job' : ''), id, name, part };
    if (!noun) return { verb: row.action, id, name, part };
    const verb = words.includes('dependencies') ? VERBS.dependencies : VERBS[last] ?? METHODS[method] ?? method;
    if (!id) return { verb: `${verb} ${count(row.count, noun.replace(/^the /, ''))}`, id, name: '', part };
    return { verb: part ? `${verb} the step` : `${verb} ${noun}`, id, name, part };
}

/** @param {any} row */
function place(row) {
    const id = String(row.object ?? '').split('/')[0];
    const places = /** @type {Record<string, string>} */ ({ task: link(['tasks', id]), workflow_run: link(['workflows', id]),
        queue: link(['queues'],
        { name: row.object }), job: link(['queues'], { job: id }), tenant: link(['admin'], { tenant: row.object }),
        notification_setting: link(['alerts'], { setting: id }), incident: link(['alerts'], { show: 'all', incident: id }) });
    return row.object ? places[row.object_kind] : null;
}

// The sentence, with its object as a link.
/** @param {any} row @param {import('../lib/app.js').Context} ctx */
export function auditSentence(row, ctx) {
    const { verb, name, part } = auditWords(row), href = place(row);
    const object = name ? href ? h('a.quiet', { href }, h('b', userText(name))) : h('b', userText(name)) : null;
    return h('span', { title: row.action }, verb, ' ', part ? [h('b', userText(part)), ' of ', object] : object, row.details ? reasonInWords(row.details, ctx) : null,
        row.outcome === 'REFUSED' ? h('span.fail', ', refused', row.count > 1 ? ` ${count(row.count, 'time')}` : '') : null);
}
