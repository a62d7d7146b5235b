// The loop: route → page → data → view. A page is a module with load (data), view (a pure function of data and context) and actions.
// Old data stays on the screen while new data comes; a failure says how old it is.
import { render } from './dom.js';
import { can, isOperator, logout, Problem, request } from './api.js';
import { go, link, parseRoute } from './router.js';
import { startLive, throttled } from './live.js';
import { isTyping, keyHandler, KEY_HELP, keysAreOn, setKeys } from './keys.js';
import { reverse } from './command.js';
import { ask, giveBack, show, toast } from '../view/dialog.js';
import { keyDialog, shell, UNKNOWN } from '../view/shell.js';

/**
 * @typedef {import('./router.js').Route} Route
 * @typedef {import('./command.js').Action} Action
 * @typedef {{
 *   route: Route, now: number, zone: string, ui: Record<string, any>, set: (change: Record<string, any>) => void, reload: () => void,
 *   act: (action: Action, subject?: any) => Promise<any>, ask: typeof ask, toast: typeof toast, can: typeof can, loadedAt: number,
 *   error: Error | null, live: string, settled: boolean, narrow: boolean
 * }} Context
 * @typedef {{
 *   title: (route: Route, data: any) => string, load: (ctx: Context, before: any) => Promise<any>, view: (data: any, ctx: Context) => any,
 *   says?: (data: any, ctx: Context) => string
 * }} Page
 */

const BUSY_MS = 50; // an answer that comes sooner is drawn at once, without the same rows as busy ones before it
const NARROW = matchMedia('(max-width: 620px)'); // as the style sheets have it
const ANNOUNCE_MS = 5000, COUNTS_MS = 10000;

// name → [title, module, scopes of which one is enough; of a key of another tenant, if they differ]. A page that the key may not see is
// not in the menu.
/** @type {Record<string, [string, string, string[], string[]?]>} */
export const PAGES = {
    overview: ['Overview', '../page/overview.js', ['status:read'], ['tasks:read']],
    tasks: ['Tasks', '../page/tasks.js', ['tasks:read']],
    executions: ['Executions', '../page/executions.js', ['tasks:read']],
    calendar: ['Calendar', '../page/calendar.js', ['tasks:read']],
    workflows: ['Workflows', '../page/workflows.js', ['workflows:read']],
    dlq: ['Dead letters', '../page/dlq.js', ['dlq:read']],
    queues: ['Queues', '../page/queues.js', ['queues:read']],
    nodes: ['Nodes', '../page/nodes.js', ['status:read'], []],
    alerts: ['Alerts', '../page/alerts.js', ['notifications:read', 'status:read'], ['notifications:read']],
    admin: ['Admin', '../page/admin.js', ['admin', 'signing-keys:read']],
};
// A page of one thing: tasks/ID.
/** @type {Record<string, string>} */
const DETAILS = { tasks: '../page/task.js', workflows: '../page/run.js', 'tasks/edit': '../page/edit.js' };

/** @param {string} name of a page */
export function maySee(name) {
    const [, , own, others] = PAGES[name];
    return (isOperator() ? own : others ?? own).some(can);
}

// The first page that a key may see.
export const home = () => link([Object.keys(PAGES).find(maySee) ?? 'tasks']);

/** @param {Route} route @returns {string} of the module; empty: there is no such page */
function moduleOf(route) {
    const [name, id, verb, more] = route.parts;
    if (!Object.hasOwn(PAGES, name) || more !== undefined || verb !== undefined && !(name === 'tasks' && verb === 'edit')) return '';
    if (name === 'tasks' && (id === 'new' || verb === 'edit')) return DETAILS['tasks/edit'];
    if (id !== undefined) return DETAILS[name] ?? '';
    return name === 'overview' && !isOperator() ? '../page/tenant.js' : PAGES[name][1];
}

/** @param {HTMLElement} root @param {() => void} onEnd */
export function startApp(root, onEnd) {
    /** @type {any} */
    const frame = { counts: {}, menu: false, live: 'starting', retryAt: 0, paused: false,
        zone: localStorage.getItem('belfry.zone') ?? 'local' };
    /** @type {{route: Route, page: Page | null, data: any, error: Error | null, ui: any, loadedAt: number, visit: number, settled: boolean}} */
    let view = { route: parseRoute(location.hash), page: null, data: null, error: null, ui: {}, loadedAt: 0, visit: 0, settled: false };
    let stopped = false, wanted = 0;

    /** @returns {Context} */
    const context = () => ({ route: view.route, now: Date.now(), zone: frame.zone, ui: view.ui, loadedAt: view.loadedAt, error: view.error,
        settled: view.settled, narrow: NARROW.matches,
        live: frame.live, can, ask, toast, set, act, reload: () => loading.now() });

    function draw() {
        if (stopped || wanted) return;
        wanted = requestAnimationFrame(() => {
            wanted = 0;
            if (!stopped) drawNow();
        });
    }

    function drawNow() {
        const ctx = context();
        const name = view.route.parts[0];
        const title = view.page ? view.page.title(view.route, view.data) : PAGES[name]?.[0] ?? '';
        document.title = `${title} · Belfry`;
        const focused = /** @type {HTMLElement | null} */ (document.activeElement);
        if (view.page?.says && view.data !== null) announce(view.page.says(view.data, ctx));
        render(root, shell(frame, ctx, view.page, view.data, controls));
        if (focused && focused !== document.body && !focused.isConnected) giveBack(null); // what one was at has gone
    }

    let announced = '', announcedAt = 0;
    // To screen readers, when it has changed, and at most every 5 s.
    /** @param {string} text */
    function announce(text) {
        if (text === announced || Date.now() - announcedAt < ANNOUNCE_MS) return;
        const first = !announcedAt;
        announced = text;
        announcedAt = Date.now();
        const place = document.getElementById('live');
        if (place && !first) place.textContent = text;
    }

    // What was said of the last page is over.
    function hush() {
        const place = document.getElementById('live');
        announced = '';
        if (place) place.textContent = '';
    }

    /** @param {Record<string, any>} change */
    function set(change) {
        Object.assign(view.ui, change);
        draw();
    }

    async function load() {
        const { page, visit, settled } = view;
        if (!page) return;
        try {
            const data = await page.load(context(), view.data);
            if (visit !== view.visit) return;
            Object.assign(view, { data, error: null, loadedAt: Date.now(), settled: true });
            frame.moved = false;
            if (!settled && !stopped) return drawNow(); // one has asked for it: not a frame later
        } catch (error) {
            if (visit !== view.visit || stopped) return;
            if (error instanceof Problem && error.status === 401) return;
            view.error = /** @type {Error} */ (error);
            view.settled = true;
        }
        draw();
    }
    let loading = throttled(load);

    async function loadFrame() {
        frame.counts = await frameCounts(frame);
        draw();
    }
    const frameLoading = throttled(loadFrame, 5000);

    async function onRoute() {
        const route = parseRoute(location.hash);
        const path = moduleOf(route);
        const same = view.page && moduleOf(view.route) === path && view.route.parts.join('/') === route.parts.join('/');
        const visit = view.visit + 1;
        view = { route, page: same ? view.page : null, data: same ? view.data : null, error: null, ui: same ? view.ui : {},
            loadedAt: same ? view.loadedAt : 0, visit, settled: false };
        frame.menu = false;
        if (!same) hush();
        if (!same) view.ui = {};
        if (!same) draw();
        else setTimeout(() => { if (visit === view.visit && !view.settled) draw(); }, BUSY_MS);
        if (!view.page) {
            const page = path ? (await import(path)).page : UNKNOWN;
            if (visit !== view.visit) return;
            view.page = page;
            window.scrollTo(0, 0);
        }
        loading.stop(); // what the last page still waits for does not hold this one
        loading = throttled(load);
        await loading.now();
        if (frame.toPane && visit === view.visit) requestAnimationFrame(() => requestAnimationFrame(() => giveBack(null)));
        frame.toPane = false;
        if (same || visit !== view.visit) return;
        requestAnimationFrame(() => { // who has begun to type meanwhile goes on
            if (isTyping(document.activeElement)) return;
            /** @type {HTMLElement | null} */ (document.querySelector('#main h1'))?.focus({ preventScroll: true });
        });
    }

    // Does it, says so, and offers the reverse. What is dangerous is asked about first.
    /** @param {Action} action @param {any} [subject] */
    async function act(action, subject = view.data?.task) {
        const perform = async () => {
            const answer = await request(action.path, { method: action.method, body: action.body, etag: action.etag });
            const back = subject ? reverse(action, subject) : null;
            if (action.done) toast(action.done, back ? { undo: { label: back.label, run: () => act(back, subject) } } : {});
            loading.now();
            return answer;
        };
        if (action.label.endsWith('…')) {
            const word = action.label.slice(0, -1);
            ask({ title: `${word}${subject?.name ? ' ' + subject.name : ''}?`, danger: action.danger, confirm: word, keep: 'Keep it',
                action: () => action,
                body: action.effect ?? CONSEQUENCES[word] ?? '', submit: perform });
            return null;
        }
        try {
            return await perform();
        } catch (error) {
            toast(/** @type {Error} */ (error).message, { bad: true });
            return null;
        }
    }

    const live = startLive({
        onHint: (kind, data) => {
            if (kind !== 'counts') {
                loading.soon();
                frameLoading.soon();
            } else if (countsMoved(frame, data) && Date.now() - view.loadedAt > COUNTS_MS) {
                loading.soon(); // an event may be lost; that something happened is told each second
            }
        },
        onState: (state, retryAt) => { frame.live = state; frame.retryAt = retryAt; draw(); },
    });

    const controls = {
        togglePause() { frame.paused = !frame.paused; live.pause(frame.paused); draw(); },
        retry: () => live.retry(),
        /** @param {string} zone */
        setZone(zone) { frame.zone = zone; localStorage.setItem('belfry.zone', zone); draw(); },
        toggleTheme() {
            const dark = getComputedStyle(document.documentElement).colorScheme === 'dark'
                || (!document.documentElement.dataset.theme && matchMedia('(prefers-color-scheme: dark)').matches);
            document.documentElement.dataset.theme = dark ? 'light' : 'dark';
            localStorage.setItem('belfry.theme', dark ? 'light' : 'dark');
        },
        toggleMenu() { frame.menu = !frame.menu; draw(); },
        /** @param {string} text */
        search(text) { go(searchLink(text)); },
        help: () => show('Keys', keyDialog(KEY_HELP, keysAreOn(), on => { setKeys(on); })),
        async logout() {
            await logout().catch(() => {});
            onEnd();
        },
    };

    const onKey = keyHandler({
        page: name => go(link([name])),
        search: () => document.getElementById('search')?.focus(),
        help: controls.help,
        row: step => moveRow(step),
        select: () => /** @type {HTMLInputElement | null} */ (rowOf(view.ui.row)?.querySelector('input[type=checkbox]'))?.click(),
        open: () => {
            const a = /** @type {HTMLElement | null | undefined} */ (rowOf(view.ui.row)?.querySelector('a, button[aria-expanded]'));
            frame.toPane = !!a;
            a?.click();
            return !!a;
        },
        actions: () => firstAction(view.ui.row)?.focus(),
        pause: controls.togglePause,
        escape: () => {
            if (document.querySelector('dialog[open]')) return;
            if (frame.menu) controls.toggleMenu();
            else /** @type {HTMLElement | null} */ (document.activeElement)?.blur();
        },
    });

    /** @param {number} step */
    function moveRow(step) {
        const rows = [...document.querySelectorAll('#main tr[data-row]')].map(r => /** @type {HTMLElement} */ (r).dataset.row);
        if (!rows.length) return;
        const at = rows.indexOf(view.ui.row);
        const next = rows[Math.max(0, Math.min(rows.length - 1, at + step))];
        set({ row: next });
        requestAnimationFrame(() => requestAnimationFrame(() => document.querySelector('tr.focused')?.scrollIntoView({ block: 'nearest' })));
    }

    const ticking = setInterval(() => { if (!document.hidden) draw(); }, 1000);
    window.addEventListener('hashchange', onRoute);
    NARROW.addEventListener('change', draw);
    document.addEventListener('keydown', onKey);
    onRoute();
    frameLoading.now();
    return {
        stop() {
            stopped = true;
            clearInterval(ticking);
            cancelAnimationFrame(wanted);
            live.stop();
            loading.stop();
            frameLoading.stop();
            window.removeEventListener('hashchange', onRoute);
            NARROW.removeEventListener('change', draw);
            document.removeEventListener('keydown', onKey);
        },
    };
}

// The row that is highlighted now, also if it is not drawn so yet.
/** @param {string | null | undefined} key */
const rowOf = key => key ? document.querySelector(`#main tr[data-row="${CSS.escape(key)}"]`) : null;

// What '.' goes to: an action of the selection, of the highlighted row, or of its pane if that is open; else the page's.
/** @param {string | null | undefined} key @returns {HTMLElement | null} */
function firstAction(key) {
    const row = rowOf(key), own = row && !row.querySelector('[aria-current=true]') ? row : null;
    const places = own && !document.querySelector('#main .bulk') ? [own.querySelector('.w-acts'), own]
        : ['.bulk [data-actions]', 'aside.panel .actions', '[data-actions]', '.actions',
            '.head'].map(p => document.querySelector(`#main ${p}`));
    const harmless = ':is(button:enabled, a.button):not(.danger, .fail, li:has(.fail) *)';
    return /** @type {HTMLElement | null} */ (places.map(p => p?.querySelector(harmless)).find(Boolean) ?? null);
}

/** @type {Record<string, string>} */
const CONSEQUENCES = {
    Cancel: 'A running call is aborted. A cancelled task stays in lists, and does not run any more.',
    Remove: 'It tells nothing any more, and its open incidents are closed. It cannot be taken back.',
    Delete: 'It leaves all lists. What it did stays in the list of executions until retention removes it.',
};

// An id opens its task; its beginning, and a name that ends in *, are filters; anything else is searched for.
/** @param {string} text */
export function searchLink(text) {
    const word = text.trim();
    if (/^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i.test(word)) return link(['tasks', word]);
    if (/^[0-9a-f]{6,8}(-[0-9a-f-]*)?$/i.test(word)) return link(['tasks'], { id: word });
    return link(['tasks'], word.endsWith('*') ? { name: word } : { search: word });
}

// Whether something happened since the page was loaded last, by the totals that come each second.
/** @param {any} frame @param {any} counts */
function countsMoved(frame, counts) {
    const sum = counts ? counts.created + counts.started + counts.completed + counts.failed + counts.retried : 0;
    if (frame.lastSum !== undefined && frame.lastSum !== sum) frame.moved = true;
    frame.lastSum = sum;
    return frame.moved;
}

// Numbers of the menu and the foot.
/** @param {any} frame */
async function frameCounts(frame) {
    const all = isOperator() && can('status:read');
    /** @param {boolean} may @param {string} path */
    const known = (may, path) => may ? request(path).catch(() => null) : null;
    const [status, breakers, alerts, incidents, dead] = await Promise.all([known(all, '/v1/scheduler/status'),
        known(can('queues:read'), '/v1/breakers?limit=100'), known(all, '/v1/alerts'),
        known(can('notifications:read'), '/v1/incidents?limit=100&state=OPEN'), known(can('dlq:read'), '/v1/dlq?group_by=cause')]);
    const firing = (alerts?.alerts ?? []).filter((/** @type {any} */ a) => a.state === 'firing' && a.severity !== 'none');
    const unseen = (incidents?.incidents ?? []).filter((/** @type {any} */ i) => i.state === 'OPEN' && !i.acknowledged_at);
    const before = frame.counts; // which stay while the server does not answer
    frame.version = status?.version ?? frame.version;
    frame.nodes = status?.nodes?.length ?? frame.nodes ?? 0;
    return { dlq: dead ? dead.groups.reduce((/** @type {number} */ n, /** @type {any} */ g) => n + g.count, 0) : before.dlq,
        nodes: frame.nodes, breakers: breakers ? breakers.breakers.length : before.breakers,
        alerts: alerts || incidents ? firing.length + unseen.length : before.alerts };
}
