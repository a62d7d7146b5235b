// Error budgets, from the alerts about them: how fast each is used up, as a multiple of what a month allows. And what each tenant uses.
import { h } from '../lib/dom.js';
import { link } from '../lib/router.js';
import { number, rate } from '../lib/time.js';
import { badge } from './icons.js';
import { bar, section, userText } from './parts.js';

/** @typedef {{name: string, title: string, target: string, fast: number, slow: number, firing: boolean}} Objective */

const OBJECTIVES = /** @type {[string, string, string][]} */ ([['Start', 'Starts within 5 s', '99.9 %'], ['Success', 'No fault of Belfry',
    '99.99 %'], ['Api', 'API answers', '99.9 %']]);
const FAST = 14.4; // the multiple above which the fast alert fires

/** @param {any[]} alerts @returns {Objective[]} none, if the server has no alerts */
export function objectivesOf(alerts) {
    return OBJECTIVES.flatMap(([name, title, target]) => {
        const fast = alerts.find(a => a.name === `Belfry${name}BudgetFast`), slow = alerts.find(a => a.name === `Belfry${name}BudgetSlow`);
        if (!fast?.threshold || !slow?.threshold) return [];
        return [{ name, title, target, fast: fast.value / fast.threshold * FAST, slow: slow.value / slow.threshold,
            firing: fast.state === 'firing' || slow.state === 'firing' }];
    });
}

/** @param {number} times */
const shown = times => `${times > 0 && times < .01 ? '<0.01' : rate(times)}×`;

/** @param {any[]} alerts */
export function budgets(alerts) {
    const list = objectivesOf(alerts);
    if (!list.length) return null;
    return section('budgets', 'Error budgets', { class: 'c7', note: '1× uses a month’s budget in a month', more: h('a', { href: link(['alerts']) },
        'Rules') }, h('table', h('thead', h('tr', h('th', { scope: 'col' }, 'Objective'), h('th.num.from-s', { scope: 'col' }, 'Target'),
        h('th.num', { scope: 'col' }, 'Last hour'), h('th.num', { scope: 'col' }, '3 days'), h('th.w-bar.from-s', h('span.hidden-text', 'Share')),
        h('th.num', { scope: 'col' }, 'State'))), h('tbody', list.map(o => h('tr', { key: o.name }, h('td', o.title), h('td.num.from-s.second', o.target),
        h('td.num', shown(o.fast)), h('td.num', shown(o.slow)), h('td.from-s', bar([[Math.min(1, o.slow), o.slow > 1 ? 'fail' : undefined]], 1,
            { track: true, label: `${o.title}: ${shown(o.slow)} of the budget` })),
        h('td.num', o.firing ? badge('LATE', { word: 'Burns' }) : h('span.second', 'kept')))))));
}

/** @param {any[]} tenants @param {string | null} chosen */
export function tenantUse(tenants, chosen) {
    if (tenants.length < 2) return null;
    const list = [...tenants].sort((a, b) => b.pending - a.pending).slice(0, 6), top = Math.max(1, ...list.map(t => t.pending));
    return section('tenants', 'Tenants', { class: 'c5', note: 'unfinished tasks', more: h('a', { href: link(['admin']) }, 'Admin') },
        h('table', h('thead', h('tr', h('th', { scope: 'col' }, 'Tenant'), h('th.num', { scope: 'col' }, 'Unfinished'),
            h('th.w-bar', h('span.hidden-text', 'Share')), h('th.num', { scope: 'col' }, 'Recurring'))), h('tbody', list.map(t => h('tr', { key: t.name },
            h('td.anywhere', h('a.quiet', { href: link(['overview'], { tenant: t.name }), 'aria-current': t.name === chosen ? 'true' : null },
                userText(t.name))), h('td.num', number(t.pending)), h('td', bar([[t.pending]], t.max_pending ?? top)),
            h('td.num', number(t.recurring)))))), tenants.length > list.length ? h('p.label', `and ${number(tenants.length - list.length)} more`) : null);
}
