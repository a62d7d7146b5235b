// Dead letters: what broke, and may it go again? By cause first; a re-drive is a canary that one can watch and stop.
import { h } from '../lib/dom.js';
import { get, maybe, request } from '../lib/api.js';
import { go, link, relink } from '../lib/router.js';
import { count, number, parse } from '../lib/time.js';
import { archive, redrive, retryLetter } from '../lib/command.js';
import { icon } from '../view/icons.js';
import { ago, copyButton, empty, segments, taskLink, userText } from '../view/parts.js';
import { jobView, settledJob } from '../view/job.js';
import { table } from '../view/table.js';

/** @typedef {import('../lib/app.js').Context} Context */

const LETTERS = 50, JOB_SHOWN_MS = 600000;

/** @type {import('../lib/app.js').Page} */
export const page = {
    title: () => 'Dead letters',

    async load(ctx) {
        const q = ctx.route.query, cause = q.get('cause'), mode = q.get('show') ?? 'causes', job = q.get('job');
        const listed = mode !== 'causes' || cause;
        const [groups, letters, jobs, watched] = await Promise.all([get('/v1/dlq', { group_by: 'cause' }),
            listed ? get('/v1/dlq', { cause: mode === 'causes' ? cause : null, resolved: mode === 'archived' ? 'true' : null,
                cursor: q.get('cursor'), limit: LETTERS, view: 'brief' }) : null,
            get('/v1/jobs', { limit: 50 }), job ? maybe(`/v1/jobs/${encodeURIComponent(job)}`) : null]);
        const recent = jobs.jobs.filter((/** @type {any} */ j) => j.kind === 'redrive' && j.id !== watched?.id && (j.state === 'RUNNING'
            || ctx.now - parse(j.finished_at) < JOB_SHOWN_MS));
        return { groups: groups.groups, letters: letters?.tasks ?? null, next: letters?.pagination?.next_cursor ?? null,
            watched: await settledJob(watched), jobs: await Promise.all(recent.map(settledJob)) };
    },

    view(data, ctx) {
        const mode = ctx.route.query.get('show') ?? 'causes', total = data.groups.reduce((/** @type {number} */ n,
            /** @type {any} */ g) => n + g.count, 0);
        return [
            h('header', { key: 'head' }, h('div.head', h('h1', { tabindex: -1 }, 'Dead letters'), h('span.second',
                total ? `${number(total)} in ${count(data.groups.length, 'cause')}` : ''), h('span.grow'),
                segments('Show', [['By cause', link(['dlq']), mode === 'causes'], ['All', link(['dlq'], { show: 'all' }), mode === 'all'],
                    ['Archived', link(['dlq'], { show: 'archived' }), mode === 'archived']])),
            h('p.second', answer(data, total))),
            data.watched ? h('section', { key: 'watched', 'aria-label': 'The re-drive' }, jobView(data.watched, ctx, h('a',
                { href: relink(ctx.route, { job: null }) }, 'Close'))) : null,
            mode === 'causes' ? total || data.jobs.length || data.watched ? causes(data, ctx) : empty('Nothing has failed for good.',
                'A task comes here when its attempts are used up. This one does:',
                'belfry add --name to-fail --max-attempts 1 http://127.0.0.1:9/')
                : h('section', { key: 'letters', 'aria-label': 'Letters' }, letters(data, ctx))];
    },
};

/** @param {any} data @param {number} total */
function answer(data, total) {
    if (!total) return 'Every task that ended was completed, cancelled or skipped.';
    const first = data.groups[0], running = [data.watched, ...data.jobs].find((/** @type {any} */ j) => j?.state === 'RUNNING');
    return [h('b', data.groups.length === 1 ? 'All have one cause' : `One cause has ${number(first.count)} of them`), ': ',
        userText(first.last_error), first.host ? [' from ', userText(first.host)] : '', '. ',
        running ? `A re-drive runs: ${number(running.done)} of ${number(running.total)} sent again, ${number(running.failed_again ?? 0)} failed again.` : ''];
}

/** @param {any} data @param {string} cause */
const jobOf = (data, cause) => data.jobs.find((/** @type {any} */ j) => j.filter?.cause === cause);

/** @param {any} data @param {string} cause */
const runs = (data, cause) => jobOf(data, cause)?.state === 'RUNNING' || (data.watched?.state === 'RUNNING'
    && data.watched.filter?.cause === cause);

/** @param {any} data @param {Context} ctx */
function causes(data, ctx) {
    const open = ctx.route.query.get('cause');
    const known = new Set(data.groups.map((/** @type {any} */ g) => g.cause));
    const emptied = data.jobs.filter((/** @type {any} */ j) => !known.has(j.filter?.cause) && jobOf(data, j.filter?.cause) === j);
    return h('section', { key: 'causes', 'aria-label': 'Causes' }, emptied.map((/** @type {any} */ j) => jobView(j, ctx)),
        data.groups.length ? table(ctx, { rows: data.groups, key: g => g.cause, label: 'Causes', opened: g => g.cause === open,
            inner: g => [jobOf(data, g.cause) ? jobView(jobOf(data, g.cause), ctx) : null, letters(data, ctx)], columns: [
                { title: h('span.hidden-text', 'Open'), class: 'check', cell: g => h('button.plain.square.small',
                    { 'aria-label': `${g.cause === open ? 'Close' : 'Open'} ${g.last_error}`, 'aria-expanded': String(g.cause === open),
                    onclick: () => go(relink(ctx.route, { cause: g.cause === open ? null : g.cause, cursor: null })) },
                        icon(g.cause === open ? 'down' : 'right')) },
                { title: 'Cause', class: 'anywhere', cell: g => [h('a.quiet',
                    { href: relink(ctx.route, { cause: g.cause, cursor: null }) }, h('b', userText(g.last_error))), h('span.sub.only-s',
                    userText(g.host ?? ''))] },
                { title: 'Where', class: 'from-s', cell: g => g.host ? userText(g.host) : h('span.second', 'a workflow') },
                { title: 'Latest', class: 'from-m anywhere', cell: g => taskLink({ id: g.latest_task_id, name: g.latest_task_name },
                    { plain: true }) },
                { title: 'Letters', class: 'num', cell: g => h('b', number(g.count)) },
                { title: 'First', class: 'num from-m second', cell: g => ago(g.first_failed_at, ctx) },
                { title: 'Last', class: 'num from-m second', cell: g => ago(g.last_failed_at, ctx) },
                { title: h('span.hidden-text', 'Actions'), class: 'num w-acts', hidden: !ctx.can('dlq:write'), cell: g => runs(data, g.cause) ? h('button.small', { disabled: true }, 'Re-drive runs')
                    : h('button.small', { onclick: () => askRedrive(ctx, g) }, 'Re-drive…') }] }) : null);
}

/** @param {Context} ctx @param {any} group */
function askRedrive(ctx, group) {
    const before = new Date().toISOString();
    const make = (/** @type {Record<string, any>} */ v) => redrive(group.cause, Number(v.rate) || 50, Number(v.max_failed_percent), before);
    ctx.ask({ title: `Send ${count(group.count, 'task')} again?`, confirm: 'Begin with one', keep: 'Leave them', action: make,
        body: h('p', userText(group.last_error), '. First one, then ten, then the rest. ', h('span.second',
            'It stops by itself if too many fail again, and you can stop it at any time.')),
        fields: [{ name: 'rate', label: 'At most, tasks a second', type: 'number', value: '50' }, { name: 'max_failed_percent',
            label: 'Stop above, per cent failed again', type: 'number', value: '20' }],
        submit: async values => {
            const action = make(values);
            const job = await request(action.path, { method: 'POST', body: action.body });
            go(relink(ctx.route, { cause: group.cause, job: job.id })); // the link shows the job to whoever opens it, now and later
        } });
}

/** @param {any} data @param {Context} ctx */
function letters(data, ctx) {
    if (!data.letters) return h('p.label', 'Loading');
    const archived = ctx.route.query.get('show') === 'archived', may = ctx.can('dlq:write') && !archived;
    if (!data.letters.length) return h('p.second', archived ? 'Nothing is archived.' : 'No letters of this cause are left.');
    return [table(ctx, { rows: data.letters, key: t => t.id, label: 'Letters', columns: [
        { title: 'Task', class: 'anywhere', cell: t => [taskLink(t), ' ', h('span.mono.label.from-m', t.id.slice(0, 13))] },
        { title: 'Queue', class: 'from-m second', cell: t => userText(t.queue) },
        { title: 'Attempts', class: 'num from-s', cell: t => t.attempts },
        { title: 'Last error', class: 'from-s cut', cell: t => userText(t.last_error ?? '') },
        { title: archived ? 'Archived' : 'Failed', class: 'num second', cell: t => ago(archived ? t.resolved_at : t.completed_at, ctx) },
        { title: h('span.hidden-text', 'Actions'), class: 'num w-acts nowrap', hidden: !may,
            cell: t => [h('button.small', { onclick: () => askRetry(ctx, t) }, 'Retry…'), ' ', h('button.small.from-s',
            { onclick: () => askArchive(ctx, t) }, 'Archive…')] }] }),
    h('p.pager', ctx.route.query.get('cursor') ? h('a', { href: relink(ctx.route, { cursor: null }) }, `first ${LETTERS}`) : null,
        data.next ? h('a', { href: relink(ctx.route, { cursor: data.next }) }, `next ${LETTERS}`) : null,
        copyButton(`belfry dlq list${ctx.route.query.get('cause') ? ' --cause ' + ctx.route.query.get('cause') : ''}`, 'CLI'))];
}

/** @param {Context} ctx @param {any} letter */
async function askRetry(ctx, letter) {
    const whole = await get(`/v1/dlq/${letter.id}`);
    const text = JSON.stringify({ target_config: whole.target_config, ...whole.payload === undefined ? {} : { payload: whole.payload } },
        null, 2);
    const edit = (/** @type {Record<string, any>} */ v) => v.edit.trim() === text.trim() ? null : JSON.parse(v.edit);
    ctx.ask({ title: `Retry ${letter.name ?? letter.id}?`, confirm: 'Retry', keep: 'Leave it', wide: true, body: h('p',
        userText(letter.last_error), '. ', h('span.second',
        'It gets a full set of attempts. What you change here is changed in the task first.')),
        fields: [{ name: 'edit', label: 'Target and payload', type: 'textarea', value: text, mono: true }],
        action: v => { try { return retryLetter(letter.id, edit(v)); } catch { return null; } },
        submit: async values => {
            let change;
            try { change = edit(values); } catch (error) { throw new Error('This is not JSON: ' + /** @type {Error} */ (error).message); }
            await request(`/v1/dlq/${letter.id}/retry`, { method: 'POST', body: change ?? undefined });
            ctx.toast(`${letter.name ?? 'It'} is tried again`, { link: { text: 'Watch it', href: link(['tasks', letter.id]) } });
            ctx.reload();
        } });
}

/** @param {Context} ctx @param {any} letter */
function askArchive(ctx, letter) {
    ctx.ask({ title: `Archive ${letter.name ?? letter.id}?`, confirm: 'Archive', keep: 'Leave it', body: h('p',
        'It leaves this list and is found under Archived. It can still be retried.'), action: v => archive(letter.id, v.reason),
        fields: [{ name: 'reason', label: 'Reason', value: '', hint: 'for those who find it later' }],
        submit: async values => { await ctx.act(archive(letter.id, values.reason)); } });
}
