// Circuit breakers, with the button that closes one by hand.
import { h } from '../lib/dom.js';
import { number, parse, rough } from '../lib/time.js';
import { closeBreaker } from '../lib/command.js';
import { badge } from './icons.js';
import { ago, copyButtons, section, userText } from './parts.js';
import { table } from './table.js';

/** @typedef {import('../lib/app.js').Context} Context */

// A link to a breaker highlights its row, so that '.' goes to its button.
/** @param {Context} ctx @param {any[]} breakers */
export function markBreaker(ctx, breakers) {
    const host = ctx.route.query.get('breaker');
    if (host && !ctx.ui.row) ctx.ui.row = breakers.find(b => b.host === host)?.id;
}

/** @param {any[]} breakers @param {Map<string, number>} held host → tasks that wait, as far as it is known @param {Context} ctx */
export function breakerSection(breakers, held, ctx) {
    if (!breakers.length) return section('breakers', 'Breakers', {}, h('p.second',
        'No host is held back: calls to all of them get through.'));
    return section('breakers', 'Breakers', { note: 'after many failures a host gets one trial at a time' }, table(ctx,
        { rows: breakers, key: b => b.id, label: 'Breakers', columns: [
        { title: 'State', class: 'w-state from-s', cell: b => badge(b.state) }, { title: 'Host', class: 'anywhere',
            cell: b => [h('b', userText(b.host ?? 'all hosts')), ' ', h('span.label', userText(b.tenant)), h('span.sub.only-s',
            badge(b.state))] },
        { title: 'Failed', class: 'num', cell: b => `${number(b.failures)} of ${number(b.calls)}` }, { title: 'Waiting', class: 'num from-s',
            hidden: !held.size, cell: b => number(Number(held.get(b.host) ?? 0)) },
        { title: 'Why', class: 'from-m', cell: b => userText(b.reason) }, { title: 'Since', class: 'num from-m second',
            cell: b => ago(b.opened_at, ctx) },
        { title: 'Next trial', class: 'num from-s second', cell: b => b.retry_at ? rough(Math.max(0, parse(b.retry_at) - ctx.now)) : '–' },
        { title: h('span.hidden-text', 'Actions'), class: 'num w-acts nowrap', hidden: !ctx.can('queues:write'),
            cell: b => { const a = closeBreaker(b); return [h('button.small', { onclick: () => ctx.act(a) }, 'Close'), ' ',
            h('span.from-m', copyButtons(a))]; } }] }));
}
