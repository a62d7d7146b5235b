// Long work of the server, watched: a re-drive as a canary in three stages, a bulk action as one bar. Stop is always in sight.
import { h } from '../lib/dom.js';
import { can, maybe } from '../lib/api.js';
import { count, number, parse, span } from '../lib/time.js';
import { cancelJob, cli } from '../lib/command.js';
import { badge } from './icons.js';
import { bar, copyButton, instant, userText } from './parts.js';

/** @typedef {import('../lib/app.js').Context} Context */

const OVER = ['COMPLETED', 'FAILED', 'CANCELLED', 'SKIPPED', 'EXPIRED'], ASK_MAX = 30;
/** @type {Map<string, boolean>} tasks that a re-drive sent again: whether they succeeded */
const ended = new Map();

/**
 * How the work divides into one, ten and the rest.
 * @param {any} job @returns {{name: string, of: number, done: number, state: 'done' | 'running' | 'waits' | 'never'}[]}
 */
export function stagesOf(job) {
    const total = Math.max(job.total, job.done), sizes = [Math.min(1, total), Math.max(0, Math.min(10, total - 1)),
        Math.max(0, total - 11)];
    const at = { FIRST: 0, TEN: 1, REST: 2 }[/** @type {'FIRST' | 'TEN' | 'REST'} */ (job.phase)] ?? 0, over = job.state !== 'RUNNING';
    let left = job.done;
    return ['First one', 'Then ten', 'The rest'].map((name, i) => {
        const done = Math.min(left, sizes[i]);
        left -= done;
        return { name, of: sizes[i], done, state: over ? done === sizes[i] && sizes[i] > 0 ? 'done' : 'never' : i < at ? 'done' : i === at
            ? 'running' : 'waits' };
    });
}

// A re-drive ends when its last tasks are sent. What became of those is asked of the tasks, until it is known.
/** @param {any} job @returns {Promise<any>} */
export async function settledJob(job) {
    if (!job || job.state === 'RUNNING' || !job.watched?.length) return job;
    const asked = can('tasks:read') ? job.watched.filter((/** @type {string} */ id) => !ended.has(id)).slice(0, ASK_MAX) : [];
    for (const t of await Promise.all(asked.map((/** @type {string} */ id) => maybe(`/v1/tasks/${id}`)))) {
        if (t && (t.attempts || OVER.includes(t.status))) ended.set(t.id, t.status === 'COMPLETED');
    }
    const outcomes = job.watched.map((/** @type {string} */ id) => ended.get(id));
    const n = (/** @type {boolean | undefined} */ what) => outcomes.filter((/** @type {boolean | undefined} */ o) => o === what).length;
    return { ...job, succeeded: (job.succeeded ?? 0) + n(true), failed_again: (job.failed_again ?? 0) + n(false), open: n(undefined) };
}

// What a canary does now: each stage ends when its tasks have ended.
/** @param {any} job */
export function stageSays(job) {
    const judged = (job.failed_again ?? 0) + (job.succeeded ?? 0), open = job.done - judged;
    if (job.state !== 'RUNNING' || job.kind !== 'redrive' || job.phase === 'REST') return '';
    return open > 0 ? `It waits until ${open === 1 ? 'this one has' : `these ${number(open)} have`} ended, and judges then.` : '';
}

/** @param {any} job @param {Context} ctx @param {any} [more] */
export function jobView(job, ctx, more = null) {
    const running = job.state === 'RUNNING', stop = cancelJob(job), line = cli(stop);
    const title = job.kind === 'redrive' ? 'Re-drive' : `Bulk ${job.action}`;
    const words = job.kind === 'redrive' ? `${number(job.rate)}/s at most · stops by itself above ${job.max_failed_percent} % failed again`
        : '';
    const state = { RUNNING: 'RUNNING', DONE: 'COMPLETED', STOPPED: 'FAILED',
        CANCELLED: 'CANCELLED' }[/** @type {string} */ (job.state)] ?? job.state;
    const word = running ? job.cancelling ? `${title} stops` : `${title} runs`
        : `${title} ${/** @type {Record<string, string>} */ ({ DONE: 'is done', STOPPED: 'stopped by itself', CANCELLED: 'was stopped' })[job.state] ?? job.state}`;
    return h('div.job', { role: 'group', 'aria-label': title, key: job.id },
        h('div.head', h('b', badge(state, { word })), h('span.second', words, words ? ' · ' : '', 'job ', h('span.mono',
            job.id.slice(0, 13)), job.by ? [' by ', userText(job.by)] : '', ', ', instant(job.created_at, ctx)), h('span.grow'),
            running && line ? copyButton(line, 'Stop as CLI') : null, running && ctx.can(stop.scope) ? h('button.small.danger',
                { disabled: job.cancelling, onclick: () => ctx.act(stop) }, 'Stop') : null, more),
        job.kind === 'redrive' ? stages(job) : plain(job),
        stageSays(job) ? h('p.second', stageSays(job)) : null, job.reason ? h('p.second', userText(job.reason)) : null,
        job.failures?.length ? h('p.second', `${count(job.failed, 'task')} refused: `, userText(job.failures[0].error)) : null);
}

/** @param {any} job */
function stages(job) {
    const again = job.failed_again ?? 0, ok = job.succeeded ?? 0, judged = again + ok;
    const list = stagesOf(job), shown = list.filter(s => s.of > 0), last = Math.max(0, shown.findIndex(s => s.state === 'running'))
        || Math.max(0, shown.filter(s => s.done).length - 1);
    const took = job.finished_at ? ` in ${span(parse(job.finished_at) - parse(job.created_at))}` : '';
    return h('div.stages', shown.map((stage, i) => h('div.stage', { key: stage.name },
        h('div', badge(stage.state === 'done' ? judged && !ok ? 'FAILED' : 'COMPLETED' : stage.state === 'running' ? 'RUNNING'
            : stage.state === 'never' ? 'CANCELLED' : 'WAITING', { word: stage.name }),
            h('span.second', `${number(stage.done)} of ${number(stage.of)}`)),
        bar(judged && !ok && stage.done ? [[stage.done, 'fail']] : i === last
            ? [[Math.max(0, stage.done - again), stage.state === 'running' ? 'act' : undefined], [Math.min(again, stage.done), 'fail']]
            : [[stage.done, undefined]], stage.of, { track: true, label: `${stage.done} of ${stage.of}` }),
        i === last && judged ? h('span.label',
            `${number(ok)} completed, ${number(again)} failed again${judged ? `: ${Math.round(again / judged * 100)} %` : ''}${
                job.open ? `, ${number(job.open)} not over yet` : ''}${took}`)
            : h('span.label', stage.done ? judged && !ok ? 'failed again' : 'sent again' : stage.state === 'never' ? 'was not begun'
                : ''))));
}

/** @param {any} job */
const plain = job => h('div.stage', bar([[job.done - job.failed, job.state === 'RUNNING' ? 'act' : undefined], [job.failed, 'fail']],
    job.total, { track: true, label: `${job.done} of ${job.total}` }),
    h('span.label', `${number(job.done)} of ${number(job.total)}${job.total_exact === false ? '+' : ''} done, ${number(job.failed)} refused`));
