// The frame around every page: menu, search, zone, live state, banner when the stream is lost.
import { h } from '../lib/dom.js';
import { connection } from '../lib/api.js';
import { link } from '../lib/router.js';
import { absolute, localZone, number, rough, zoneOf } from '../lib/time.js';
import { PAGES } from '../lib/app.js';
import { brand, icon } from './icons.js';
import { failure } from './parts.js';

/** @typedef {import('../lib/app.js').Context} Context */

/** @param {any} frame @param {Context} ctx @param {import('../lib/app.js').Page | null} page @param {any} data @param {any} controls */
export function shell(frame, ctx, page, data, controls) {
    return h('div.shell', menu(frame, ctx, controls), h('div',
        top(frame, controls), banner(frame, ctx, controls),
        h('main.page', { id: 'main', tabindex: -1, 'aria-busy': ctx.settled ? null : 'true', 'data-route': ctx.route.hash },
            body(page, data, ctx))));
}

/** @param {import('../lib/app.js').Page | null} page @param {any} data @param {Context} ctx */
function body(page, data, ctx) {
    const failed = ctx.error ? failure(ctx.error, ctx) : null;
    if (page && data !== null) return [failed, page.view(data, ctx)];
    const name = PAGES[ctx.route.parts[0]]?.[0] ?? '';
    return [h('header.head', h('h1', { tabindex: -1 }, name)), failed ?? h('p.label', 'Loading')];
}

/** @param {any} frame @param {Context} ctx @param {any} controls */
function menu(frame, ctx, controls) {
    const current = ctx.route.parts[0];
    /** @param {string} name */
    const badge = name => {
        const n = frame.counts[name];
        if (!n) return null;
        return name === 'alerts' ? h('span.n.fail', icon('late'), number(n)) : h('span.n', number(n));
    };
    return h('aside.side', { class: frame.menu ? 'shown' : null, id: 'menu' },
        h('a.brand.quiet', { href: link(['overview']) }, brand(), 'Belfry'),
        h('nav.nav', { 'aria-label': 'Pages' }, Object.entries(PAGES)
            .filter(([name, [, , scope]]) => ctx.can(scope) && (name !== 'alerts' || frame.hasAlerts))
            .map(([name, [title]]) => h('a', { key: name, href: link([name]), 'aria-current': name === current ? 'page' : null }, title,
                badge(name)))),
        h('div.foot.label', h('span', `${connection.session?.tenant ?? ''}${connection.session?.name ? ' · ' + connection.session.name : ''}`),
            frame.version ? h('span', `${frame.nodes === 1 ? '1 node' : frame.nodes + ' nodes'} · v${frame.version}`) : null,
            h('span.head', h('button.link.small', { onclick: controls.help }, 'Keys'), h('button.link.small', { onclick: controls.logout },
                'Log out'))));
}

/** @param {any} frame @param {any} controls */
function top(frame, controls) {
    const zones = /** @type {[string, string][]} */ ([['local', localZone()], ['utc', 'UTC'], ['task', 'Task’s zone']])
        .filter(([mode, name]) => !(mode === 'local' && name === 'UTC'));
    const chosen = zones.some(([mode]) => mode === frame.zone) ? frame.zone : 'utc';
    return h('header.top',
        h('button.square.menu-button', { 'aria-label': 'Menu', 'aria-expanded': frame.menu ? 'true' : 'false', 'aria-controls': 'menu',
            onclick: controls.toggleMenu },
            icon('menu')),
        h('form.search', { role: 'search', onsubmit: (/** @type {any} */ e) => {
            e.preventDefault();
            controls.search(e.target.elements.search.value);
        } }, icon('search'), h('input', { id: 'search', name: 'search', type: 'search', placeholder: 'Search name, key, id, trace',
            title: 'payload:text searches in payloads, name* lists names that begin so', 'aria-label': 'Search tasks',
            autocomplete: 'off' }), h('kbd', { 'aria-hidden': 'true' }, '/')),
        h('span.grow'),
        h('div.segments.from-s', { role: 'group', 'aria-label': 'Times are shown in' }, zones.map(([mode, name]) => h('button', { key: mode,
            'aria-pressed': mode === chosen ? 'true' : 'false', onclick: () => controls.setZone(mode) }, name))),
        liveButton(frame, controls),
        h('button.plain.square', { 'aria-label': 'Change theme', title: 'Light or dark', onclick: controls.toggleTheme }, icon('theme')));
}

/** @type {Record<string, [string, string, string]>} */
const LIVE = {
    live: ['ok', 'Live', 'Pause live updates'],
    polling: ['ok', 'Live', 'Updates come every 5 s. Pause them'],
    starting: ['idle', 'Live', 'Connecting'],
    paused: ['hold', 'Paused', 'Resume live updates'],
    lost: ['hold', 'Not live', 'The stream is lost'],
};

/** @param {any} frame @param {any} controls */
function liveButton(frame, controls) {
    const [tone, word, title] = LIVE[frame.paused ? 'paused' : frame.live] ?? LIVE.starting;
    return h('button.plain', { title, 'aria-pressed': frame.paused ? 'true' : 'false', onclick: controls.togglePause },
        h('span', { class: tone }, icon(frame.paused ? 'paused' : 'dot')), word);
}

/** @param {any} frame @param {Context} ctx @param {any} controls */
function banner(frame, ctx, controls) {
    if (frame.live !== 'lost' || frame.paused) return null;
    const age = ctx.loadedAt ? `Shown as of ${absolute(ctx.loadedAt, ctx.now, zoneOf(ctx.zone))}, ${rough(ctx.now - ctx.loadedAt)} ago. `
        : '';
    const wait = Math.max(0, Math.ceil((frame.retryAt - ctx.now) / 1000));
    return h('div.banner', { role: 'status' }, icon('late'), h('span', h('b', 'Not live. '), age, `Next try in ${wait} s.`), h('span.grow'),
        h('button.small', { onclick: controls.retry }, 'Try now'));
}

/** @param {import('../lib/keys.js').KeyHelp[]} keys @param {boolean} on @param {(on: boolean) => void} change */
export const keyDialog = (keys, on, change) => [
    h('dl.keylist', keys.flatMap(({ key, does }) => [h('dt', key.split(' ').map(k => k === 'then' ? ' then ' : [h('kbd', k), ' '])),
        h('dd', does)])),
    h('div.field.inline', h('input', { id: 'keys-on', type: 'checkbox', checked: on,
        onchange: (/** @type {any} */ e) => change(e.target.checked) }),
        h('label', { for: 'keys-on' }, 'Use single keys'))];
