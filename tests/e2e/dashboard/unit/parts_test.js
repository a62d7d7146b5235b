import { same, yes } from './unit.js';

const NOW = Date.parse('2026-02-10T12:00:00Z'), ago = ms => new Date(NOW - ms).toISOString();
const CALM = { status: { nodes: [{ name: 'a', alive: true, leader: true }], node: { breakers: [] }, tasks: {} }, breakers: [], queues: [],
    groups: [], blocked: [], approvals: [], p99: 8, now: NOW };

export default async lib => {
    const [{ verdictOf }, { historyOfExecutions, historyOfStats, causesOf, percentile }, { steady }, command, { thresholds, stepOf,
        peaksOf, hoursOf,
        clockChange }, { compareFires }, { stagesOf }, { parseRoute, link, relink }, { lanesOf }, { sentences }, { searchLink },
        { dayStart }, { pretty }, { mergeFound }] = await Promise.all(
        ['view/verdict.js', 'lib/stats.js', 'view/table.js', 'lib/command.js', 'lib/calendar.js', 'view/fires.js', 'view/job.js',
            'lib/router.js', 'page/executions.js', 'view/explain.js', 'lib/app.js', 'lib/time.js', 'view/parts.js', 'view/search.js'].map(lib));
    const verdict = change => verdictOf({ ...CALM, ...change });
    const breaker = { id: 'b', state: 'OPEN', host: 'x.example', failures: 41, calls: 43, reason: 'HTTP 503', opened_at: ago(600000) };
    return {
        'all is well': () => same([verdict({}).sentence, verdict({}).tone], ['All is well.', 'ok']),
        'one host is down': () => { const v = verdict({ breakers: [breaker] }); same([v.sentence, v.tone, v.needs.length],
            ['Working, but one host is down: x.example.', 'fail', 1]); yes(v.reason.includes('One thing needs a person.'), v.reason); },
        'a node that is down comes before a host': () => yes(verdict({ breakers: [breaker], status: { ...CALM.status,
            nodes: [{ name: 'a', alive: true, leader: true }, { name: 'b2',
            alive: false }] } }).sentence.includes('1 of 2 nodes is down: b2'), 'it says something else'),
        'nobody leads': () => yes(verdict({ status: { ...CALM.status, nodes: [{ name: 'a', alive: true,
            leader: false }] } }).sentence.startsWith('No node is the leader'), 'it says something else'),
        'a critical alert that fires is told, one that is pending is not': () => same(['firing', 'pending'].map(state =>
            verdict({ alerts: [{ name: 'X', state, severity: 'critical', summary: 'It burns' }] }).sentence),
                ['Working, but an alert fires: X.', 'All is well.']),
        'late': () => same(verdict({ p99: 12000 }).tone, 'hold'),
        'dead letters of the last hour': () => same(verdict({ groups: [{ cause: 'c', count: 23, last_error: 'HTTP 422',
            first_failed_at: ago(900000), last_failed_at: ago(60000) }] }).sentence,
            'Working. 23 dead letters in the last hour, most with HTTP 422.'),
        'old dead letters are no alarm, but need somebody': () => { const v = verdict({ groups: [{ cause: 'c', count: 2, last_error: 'x',
            first_failed_at: ago(9e7), last_failed_at: ago(8e7) }] }); same([v.sentence, v.needs.length], ['Working.', 1]); },
        'a task that waits a minute for a slot needs somebody, one that has just begun to wait does not': () => same([verdict({ blocked: [{ id: 'x', name: 'n', run_at: ago(61000), waiting_for: { kind: 'concurrency_key', key: 'k' } }] }).needs.length, verdict({ blocked: [{ id: 'x', name: 'n', run_at: ago(1000), waiting_for: { kind: 'concurrency_key', key: 'k' } }] }).needs.length], [1, 0]),

        'percentiles': () => same([percentile([], .5), percentile([1, 2, 3, 4], .5), percentile([1, 2, 3, 4], .99)], [null, 2, 4]),
        'a history has 60 buckets and counts every attempt once': () => { const e = Array.from({ length: 30 },
            (_, i) => ({ completed_at: ago(i * 60000), status: i % 3 ? 'COMPLETED' : 'FAILED', attempt_number: 1, delay_ms: i,
            delay_cause: null })); const hist = historyOfExecutions(e, false, NOW); same([hist.times.length,
            hist.started.reduce((a, b) => a + b, 0), hist.failed.reduce((a, b) => a + b, 0)], [60, 30, 10]); },
        'a delay that a gate made does not count': () => same(historyOfExecutions([{ completed_at: ago(1000), status: 'COMPLETED',
            attempt_number: 1, delay_ms: 9e5, delay_cause: 'BREAKER' }], false, NOW).p99.filter(v => v !== null), []),
        'figures of minutes become a history, from the first minute that has some': () => {
            const point = (at, n) => ({ at: ago(at), created: n, executed: n, completed: n, failed: 1, retried: 2,
                delay_seconds: { count: n, p50: .001, p99: .5 } });
            const hist = historyOfStats({ step_seconds: 60, points: [...Array.from({ length: 50 }, (_, i) => point((60 - i) * 60000, 0)),
                ...Array.from({ length: 10 }, (_, i) => point((10 - i) * 60000, 5))] });
            same([hist.times.length, hist.failed[0], hist.p99[0], hist.bucketMs, historyOfStats({ points: [] })], [10, 3, 500, 60000,
                null]);
            const young = { step_seconds: 60, points: [point(180000, 0), point(120000, 0), point(60000, 5)] };
            same([historyOfStats(young), historyOfStats(young, 1).times.length], [null, 3]);
        },
        'causes are counted by what failed said': () => same(causesOf([{ status: 'FAILED', error_message: 'a', queue: 'q' },
            { status: 'FAILED', error_message: 'b', queue: 'q' }, { status: 'LOST', error_message: 'b', queue: 'q' },
            { status: 'COMPLETED' }]).map(c => [c.error, c.count]), [['b', 2], ['a', 1]]),

        'rows stay while they are held, and new ones are counted': () => same(steady([{ id: 'a', v: 1 }, { id: 'b', v: 1 }],
            [{ id: 'c', v: 2 }, { id: 'a', v: 2 }], true), { rows: [{ id: 'a', v: 2 }, { id: 'b', v: 1 }], fresh: 1 }),
        'rows that nobody holds are replaced': () => same(steady([{ id: 'a' }], [{ id: 'c' }], false), { rows: [{ id: 'c' }], fresh: 0 }),

        'a word of a shell is quoted if it must be': () => same(['plain', "it's", 'a b', '$x', ''].map(command.quote),
            ['plain', "'it'\\''s'", "'a b'", "'$x'", "''"]),
        'curl carries key, version and body': () => { const text = command.curl({ label: '', scope: '', method: 'PATCH',
            path: '/v1/tasks/x', body: { name: "it's" }, etag: 17, cli: null },
            'https://h'); for (const part of ['-X PATCH https://h/v1/tasks/x', '"Authorization: Bearer $BELFRY_KEY"', 'If-Match: "17"',
            `'{"name":"it'\\''s"}'`]) yes(text.includes(part), text); },
        'actions fit the state of the task': () => same(['SCHEDULED', 'PAUSED', 'RUNNING', 'FAILED',
            'COMPLETED'].map(status => command.taskActions({ id: 'i', status }).map(a => a.label).join(' ')),
            ['Run now Pause Cancel… Explain', 'Run now Resume Cancel… Explain', 'Cancel… Explain', 'Retry Delete… Explain',
            'Delete… Explain']),
        'a pause is reversed by a resume': () => { const [, pause] = command.taskActions({ id: 'i',
            status: 'SCHEDULED' }); same(command.reverse(pause, { id: 'i' }).path, '/v1/tasks/i/resume'); },

        'six steps of heat': () => { const steps = thresholds([0, 10, 100, 1000, 6000]); same(steps.length, 5); same([stepOf(0, steps),
            stepOf(1, steps), stepOf(6000, steps)], [0, 1, 5]); },
        'a day of a clock change has 23 or 25 rows': () => { const zone = 'Europe/Berlin', day = t => dayStart(Date.parse(t),
            zone); same([hoursOf(day('2026-10-25T12:00:00Z'), zone).length, hoursOf(day('2027-03-28T12:00:00Z'), zone).length,
            hoursOf(day('2026-10-26T12:00:00Z'), zone).length], [25, 23, 24]); same(clockChange(day('2026-10-25T12:00:00Z'), zone),
            'Clocks go back: 25 hours'); same(hoursOf(day('2026-10-25T12:00:00Z'), zone).filter(r => r.repeated).length, 2); },
        'a peak has a quiet minute beside it': () => { const fires = new Map(Array.from({ length: 60 }, (_, m) => [m * 60000,
            m === 30 ? 100 : 2])); const [peak] = peaksOf(fires, 0, 3600000); same([peak.at, peak.fires, peak.quiet], [1800000, 100,
            [1860000, 1740000]]); },

        'fires are compared': () => same(compareFires([{ at: '2026-01-01T02:00:00Z' }, { at: '2026-01-02T02:00:00Z' }],
            [{ at: '2026-01-01T02:00:00Z' }, { at: '2026-01-01T03:00:00Z' }, { at: '2026-01-02T03:00:00Z' }]).map(c => c.kind),
            ['kept', 'added', 'gone']),
        'a re-drive has three stages': () => same(stagesOf({ total: 171, done: 75, phase: 'REST', state: 'RUNNING' }).map(s => [s.done,
            s.of, s.state]), [[1, 1, 'done'], [10, 10, 'done'], [64, 160, 'running']]),
        'a re-drive of three has no rest': () => same(stagesOf({ total: 3, done: 0, phase: 'FIRST', state: 'RUNNING' }).map(s => s.of),
            [1, 2, 0]),
        'no bar of a worker lies over another': () => same(lanesOf([{ from: 0, to: 5 }, { from: 1, to: 2 }, { from: 2, to: 4 },
            { from: 6, to: 7 }]), [0, 1, 1, 0]),

        'a route holds the view': () => { const r = parseRoute('#/tasks/a%2Fb?status=FAILED&name=x*'); same([r.parts,
            r.query.get('status')], [['tasks', 'a/b'], 'FAILED']); same(relink(r, { status: null, queue: 'q' }),
            '#/tasks/a%2Fb?name=x*&queue=q'); },
        'a broken route is the overview': () => same([parseRoute('').parts, parseRoute('#/%E0%A4%A').parts], [['overview'], ['%E0%A4%A']]),
        'a link leaves out what has no value': () => same(link(['tasks'], { a: '', b: null, c: 0 }), '#/tasks?c=0'),
        'a search for an id opens the task': () => same([searchLink('01a1eae4-65b2-7070-968f-1d84594dae02'), searchLink('01a1eae4'),
            searchLink('report*'), searchLink('payload:a b')], ['#/tasks/01a1eae4-65b2-7070-968f-1d84594dae02', '#/tasks?id=01a1eae4',
            '#/tasks?name=report*', '#/tasks?search=payload%3Aa+b']),
        'what was found twice is shown once, newest first': () => same(mergeFound([{ id: 'b' }, { id: 'a' }], [{ id: 'c' },
            { id: 'b' }]).map(t => t.id), ['c', 'b', 'a']),
        'a list is a command only if the command lists the same': () => same([{ status: 'FAILED', search: 'a b', occurrences: 'true' },
            { status: 'FAILED,EXPIRED' }, { name: 'whole' }].map(f => command.cli(command.taskList(f))),
            [`belfry list --status FAILED --search 'a b' --occurrences --server ${location.origin}`, null, null]),
        'an explanation leads with its first sentence': () => same(sentences('it waits for a slot. When it starts cannot be known'),
            ['It waits for a slot.', 'When it starts cannot be known.']),
        'JSON is short where it can be': () => same(pretty({ a: [1, 2], b: { c: null } }), '{"a": [1, 2], "b": {"c": null}}'),
    };
};
