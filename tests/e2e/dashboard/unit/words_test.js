import { same, yes } from './unit.js';

const NOW = Date.parse('2026-02-10T12:00:00Z'), at = text => new Date(text).toISOString();

export default async lib => {
    const [{ duration, moment }, { auditWords }, { settingChange, settingOf }, { sectionsOf, inline }, { rerunnable }, { fieldNamed }, { stillHeld, gateOf },
        { breakerOf, held }, { textOf }, { resolved }, { request }, { spaced }, { stagesOf }] = await Promise.all(['lib/time.js', 'view/audit.js', 'view/setting.js',
        'view/runbook.js', 'page/run.js', 'view/dialog.js', 'view/explain.js', 'view/held.js', 'lib/dom.js', 'view/moments.js', 'lib/api.js', 'view/chart.js', 'view/job.js'].map(lib));
    const said = row => { const w = auditWords({ count: 1, outcome: 'DONE', ...row }); return `${w.verb} ${w.part ? w.part + ' of ' : ''}${w.name}`.trim(); };
    const setting = { name: 'ops', delivery_type: 'HTTP_WEBHOOK', delivery_config: { url: 'https://a.example', secret: '***' }, on_failure: true,
        on_recovered: false, on_dead_letter: false, on_missed: false, on_retry: false, on_success: false, filter: {}, mode: 'CHANGES', after: 1,
        group_wait: '10s', group_window: '5m', repeat_every: '4h', max_per_hour: 60 };
    const form = { name: 'ops', delivery_type: 'HTTP_WEBHOOK', 'delivery_config.url': 'https://a.example', 'delivery_config.secret': '***',
        events: ['on_failure'], 'filter.queue': '', 'filter.name': '', 'filter.task_type': '', mode: 'CHANGES', after: '1', group_wait: '10s',
        group_window: '5m', repeat_every: '4h', max_per_hour: '60' };
    const changed = change => settingChange(settingOf({ ...form, ...change }, setting), setting);
    const gates = { at: 0, paused: new Map([['mail', {}]]), breakers: [{ host: 'x.example' }] };
    return {
        'durations': () => same(['90s', '2h', '1h30m', '7d', '1w', '', 'soon', '2'].map(duration), [90000, 7200000, 5400000, 604800000, 604800000,
            NaN, NaN, NaN].map(n => Number.isNaN(n) ? null : n)),
        'a time as one types it': () => same([moment('1h', NOW), moment('last 1h', NOW), moment('1h ago', NOW), moment('+1h', NOW), moment('in 1h', NOW)]
            .map(at), ['2026-02-10T11:00:00.000Z', '2026-02-10T11:00:00.000Z', '2026-02-10T11:00:00.000Z', '2026-02-10T13:00:00.000Z',
            '2026-02-10T13:00:00.000Z']),
        'an instant with a zone is itself': () => same(at(moment('2026-02-10 08:00+01:00', NOW)), '2026-02-10T07:00:00.000Z'),
        'other words are no time': () => same(['yesterday', '10', '2026-13-45T99:00:00Z', '2026'].map(t => moment(t, NOW)).every(Number.isNaN), true),
        'a filter is resolved, and what is no time stays': () => same(resolved({ from: '1h', to: 'x', queue: '1h' }, ['from', 'to'], NOW),
            { from: '2026-02-10T11:00:00.000Z', to: 'x', queue: '1h' }),

        'the audit in words': () => same([
            said({ action: 'POST /v1/tasks/{id}/pause', object_kind: 'task', object: 'i', object_name: 'nightly' }),
            said({ action: 'PATCH /v1/queues/{name}', object_kind: 'queue', object: 'rollups' }),
            said({ action: 'PATCH /v1/queues/{name}', object_kind: 'queue', object: 'rollups', details: { reason: 'late' } }),
            said({ action: 'resume run', object_kind: 'workflow_run', object: 'i', object_name: 'import' }),
            said({ action: 'POST /v1/incidents/{id}/unmute', object_kind: 'incident', object: 'i' }),
            said({ action: 'POST /v1/workflows/{id}/signals/{name}', object_kind: 'workflow_run', object: 'i/sign-off', object_name: 'settlement' }),
            said({ action: 'POST /v1/workflows/{id}/steps/{name}/skip', object_kind: 'workflow_run', object: 'i/load', object_name: 'import' }),
            said({ action: 'DELETE /v1/api-keys/{name}', object_kind: 'api_key', object: 'k', object_name: 'ci' }),
            said({ action: 'POST /v1/tasks/batch', object_kind: 'task', count: 240 }), said({ action: 'POST /v1/session', object_kind: 'session' }),
            said({ action: 'POST /v1/dlq/retry', object_kind: 'job', object: 'j' }), said({ action: 'disabled a setting' })],
        ['paused the task nightly', 'changed the queue rollups', 'paused the queue rollups', 'resumed the run import', 'unmuted the incident i', 'decided sign-off of settlement', 'skipped the step load of import',
            'revoked the key ci', 'created 240 tasks', 'logged in', 'began a re-drive, the job j', 'disabled a setting']),

        'a form that says the same changes nothing': () => same(changed({}), {}),
        'only what differs is sent': () => same(changed({ after: '3', 'filter.queue': 'mail*' }), { filter: { queue: 'mail*', name: null,
            task_type: null }, after: 3 }),
        'another channel takes its own fields': () => same(changed({ delivery_type: 'EMAIL', 'delivery_config.to': 'a@x.example, b@x.example' }),
            { delivery_type: 'EMAIL', delivery_config: { to: ['a@x.example', 'b@x.example'] } }),
        'an event that is ticked': () => same(changed({ events: ['on_failure', 'on_retry'] }), { on_retry: true }),
        'a complaint finds its field': () => same(['paused.for', 'delivery_config.url', 'url', 'to[2]', 'other'].map(n => fieldNamed([{ name: 'for' },
            { name: 'delivery_config.url' }, { name: 'to' }], n)?.name ?? null), ['for', 'delivery_config.url', 'delivery_config.url', 'to', null]),

        'the runbook has sections': () => { const book = sectionsOf('# R\n\nx\n\n## A\n\n**Meaning.** One\ntwo.\n\nThree.\n\n## B\n\ny\n'); same([...book.keys()],
            ['A', 'B']); same(book.get('A').length, 2); same(textOf(inline(book.get('A')[0])), 'Meaning. One two.'); },
        'links of the runbook are words': () => same(textOf(inline('see [SECURITY.md](SECURITY.md) and `belfry top`')), 'see SECURITY.md and belfry top'),

        'a run begins again where its parents allow': () => {
            const step = (name, status, ...depends_on) => ({ step: name, status, depends_on });
            const steps = [step('a', 'COMPLETED'), step('b', 'FAILED', 'a'), step('c', 'SKIPPED', 'b'), step('d', 'COMPLETED', 'b')];
            same(rerunnable(steps).map(s => s.step), ['a', 'b']);
            same(rerunnable(steps, [{ name: 'd', depends_on: [{ step: 'b', type: 'MUST_FAIL' }] }]).map(s => s.step), ['a', 'b', 'd']);
        },

        'a paused queue holds what is to come of a recurring task': () => {
            const explanation = { gate: 'due_time', gates: [{ gate: 'due_time', explanation: 'x' }, { gate: 'queue_paused',
                explanation: 'its queue mail is paused since 2026-02-10T08:00:00Z by admin: cold, until later' }] };
            same([gateOf(explanation, { status: 'SCHEDULED' }).gate, stillHeld(explanation), stillHeld({ gates: [] })],
                ['queue_paused', 'its queue mail is paused', '']);
        },
        'what holds a task of a list': () => same([held({ status: 'SCHEDULED', queue: 'mail' }, gates), held({ status: 'SCHEDULED', queue: 'q',
            last_error: 'held: the circuit breaker of x.example is open' }, gates), held({ status: 'SCHEDULED', queue: 'q' }, gates)].map(textOf),
            ['queue mail is paused', 'breaker of x.example', '–']),
        'a breaker that is closed again holds nothing': () => same(breakerOf({ status: 'SCHEDULED',
            last_error: 'held: the circuit breaker of y.example is open' }, gates), null),

        'marks that are near share a place': () => same(spaced([[8, 'due', 1], [20, 'started', 2], [300, 'ended', 3]], 90), [[8, 'due, started', 1],
            [300, 'ended', 3]]),
        'what a stopped re-drive never began is told apart': () => same(stagesOf({ total: 23, done: 1, phase: 'FIRST', state: 'STOPPED' })
            .map(s => s.state), ['done', 'never', 'never']),

        'dots are no segment of a path': async () => {
            for (const path of ['/v1/tasks/..', '/v1/tasks/./x', '/v1/tasks/%2E%2e?x=1', '/v1/tasks/.%2e/edit']) {
                const error = await request(path).then(() => null, e => e);
                yes(error?.status === 404, path);
            }
        },
    };
};
