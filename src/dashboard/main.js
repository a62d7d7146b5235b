// Where the dashboard begins: a session first, then the pages.
import { h, render } from './lib/dom.js';
import { connection, login, Problem, session } from './lib/api.js';
import { home, startApp } from './lib/app.js';
import { brand, icon } from './view/icons.js';

const root = /** @type {HTMLElement} */ (document.getElementById('app'));
const theme = localStorage.getItem('belfry.theme');
if (theme) document.documentElement.dataset.theme = theme;
let back = ''; // where somebody was when the session ended

/** @param {string} [notice] */
function showLogin(notice) {
    document.title = 'Log in · Belfry';
    const state = { error: '', busy: false };
    async function submit(/** @type {SubmitEvent} */ event) {
        event.preventDefault();
        const input = /** @type {HTMLInputElement} */ (document.getElementById('key'));
        state.busy = true;
        draw();
        try {
            connection.session = await login({ key: input.value.trim() });
            enter();
        } catch (error) {
            state.busy = false;
            const status = error instanceof Problem ? error.status : 0;
            state.error = status === 401 ? 'This key is not valid, or it was revoked.'
                : status === 429 ? 'Too many logins. Try again in a minute.' : /** @type {Error} */ (error).message;
            draw();
            input.focus();
        }
    }
    function draw() {
        render(root, h('main.login', { id: 'main' },
            h('div.brand', brand(), 'Belfry'),
            h('h1', 'Log in'),
            notice ? h('p.second', notice) : null,
            h('form', { onsubmit: submit },
                h('div.field', h('label', { for: 'key' }, 'API key'),
                    h('input', { id: 'key', type: 'password', autocomplete: 'off', autofocus: true, placeholder: 'bf_…',
                        'aria-invalid': state.error ? 'true' : null,
                        'aria-describedby': state.error ? 'key-error' : 'key-hint', mounted: (/** @type {HTMLElement} */ e) => e.focus() }),
                    state.error ? h('span.error', { id: 'key-error', role: 'alert' }, icon('failed'), state.error)
                        : h('span.label', { id: 'key-hint' }, 'The session ends after 12 hours. The key is not kept in the browser.')),
                h('button.primary', { type: 'submit', disabled: state.busy }, 'Log in')),
            h('p.label', 'On the machine of the server, this prints a link that needs no key:'),
            h('pre.command', 'belfry dashboard')));
    }
    draw();
}

/** @type {{stop: () => void} | null} */
let app = null;

function enter() {
    app?.stop();
    render(root);
    if (!/^#\/./.test(location.hash)) history.replaceState(null, '', back || home());
    app = startApp(root, () => leave());
}

/** @param {string} [notice] */
function leave(notice) {
    if (!app) return;
    back = location.hash.startsWith('#/') ? location.hash : back;
    app.stop();
    app = null;
    connection.session = null;
    render(root);
    showLogin(notice);
}

async function begin() {
    connection.onLogout = () => leave('The session has ended. Log in to go on where you were.');
    const code = /^#code=([\w-]+)/.exec(location.hash)?.[1];
    if (location.hash.startsWith('#/')) back = location.hash;
    try {
        if (code) history.replaceState(null, '', '#'); // a code works once: it does not stay in the history
        connection.session = code ? await login({ code }) : await session();
        enter();
    } catch (error) {
        const refused = error instanceof Problem && error.status !== 401 && error.status !== 403;
        showLogin(code ? 'The link was used already, or is older than 60 seconds.' : refused ? /** @type {Error} */ (error).message
            : undefined);
    }
}
begin();
