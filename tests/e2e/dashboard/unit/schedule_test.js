import { same } from './unit.js';

export default async lib => {
    const { cronInWords, durationInWords, scheduleInWords } = await lib('view/schedule.js');
    const table = {
        '30 2 * * *': 'At 02:30 every day', '0 8 * * MON-FRI': 'At 08:00 Monday to Friday',
            '*/15 8-20 * * *': 'Every 15 minutes, 08 to 20 h', '55 * * * *': 'Every hour at :55', '* * * * *': 'Every minute',
        '15 3 * * SUN': 'At 03:15 every Sunday', '0 3 1 * *': 'At 03:00 on the 1st of the month',
            '0 9 1,15 * *': 'At 09:00 on the 1st and 15th of the month', '0 6,18 * * *': 'At 06:00 and 18:00 every day',
            '@daily': 'At 00:00 every day', '0 0 1 1 *': 'At 00:00 on the 1st in January',
        '0 */6 * * *': 'Every 6 hours at :00', '0 8 * * 1-5': 'At 08:00 Monday to Friday',
            '0 12 L * *': 'At 12:00 on the last day of the month',
    };
    return {
        ...Object.fromEntries(Object.entries(table).map(([cron, words]) => [`${cron} is ${words}`, () => same(cronInWords(cron), words)])),
        'what is too unusual has no words': () => same([cronInWords('5-55/7 3 * * *'), cronInWords('0 0 13 * FRI'), cronInWords('x'),
            cronInWords('')], [null, null, null, null]),
        'intervals': () => same([durationInWords(90), durationInWords(3600), durationInWords(7200), durationInWords(86400),
            durationInWords(1)], ['90 seconds', 'hour', '2 hours', 'day', 'second']),
        'a task without a schedule runs once': () => same([scheduleInWords({}), scheduleInWords({ interval_seconds: 120 }),
            scheduleInWords({ cron_expression: '5-55/7 3 * * *' })], ['once', 'Every 2 minutes', '5-55/7 3 * * *']),
    };
};
