// What floats over a page: dialogs with fields, and one toast. Both render through the same trees as pages.
import { h, render } from '../lib/dom.js';
import { Problem } from '../lib/api.js';
import { curl, cli } from '../lib/command.js';
import { icon } from './icons.js';

const TOAST_MS = 8000, TOAST_WITH_LINK_MS = 20000, SETTLE_MS = 250;

/**
 * @typedef {{name: string, label: string, type?: string, value?: any, hint?: string, options?: [string, string, string?][], expect?: string,
 *     placeholder?: string, mono?: boolean, list?: string[]}} Field
 * @typedef {{title: string, body?: any, fields?: Field[] | ((values: Record<string, any>) => Field[]), confirm: string, keep?: string, danger?: boolean, wide?: boolean,
 *     action?: (values: Record<string, any>) => import('../lib/command.js').Action | null,
 *     extra?: (values: Record<string, any>, redraw: () => void) => any,
 *     submit: (values: Record<string, any>) => Promise<void>}} Question
 */

/** @param {string} text @param {HTMLElement} [button] */
export async function copy(text, button) {
    try {
        await navigator.clipboard.writeText(text);
    } catch {
        const area = document.createElement('textarea');
        area.value = text;
        area.className = 'hidden-text';
        (document.querySelector('dialog[open]') ?? document.body).append(area);
        area.select();
        document.execCommand('copy');
        area.remove();
    }
    button?.classList.add('copied');
    setTimeout(() => button?.classList.remove('copied'), 2000);
}

// Asks, and closes when submit() is through. Errors appear beside their field.
/** @param {Question} question */
export function ask(question) {
    const dialog = document.createElement('dialog');
    if (question.wide) dialog.className = 'wide';
    dialog.setAttribute('aria-labelledby', 'dialog-title');
    /** @type {Record<string, any>} */
    const values = {};
    // Which fields there are may depend on what is chosen in others.
    const fields = () => {
        const list = typeof question.fields === 'function' ? question.fields(values) : question.fields ?? [];
        for (const f of list) if (!(f.name in values)) values[f.name] = f.value ?? (f.type === 'checkbox' ? false : f.type === 'checks'
            ? [] : '');
        return list;
    };
    fields();
    /** @type {{errors: Record<string, string>, general: string, busy: boolean, command: string}} */
    const state = { errors: {}, general: '', busy: false, command: '' };

    async function submit(/** @type {Event} */ event) {
        event.preventDefault();
        state.errors = {};
        state.general = '';
        for (const field of fields()) {
            if (field.expect !== undefined && values[field.name].replace(/[\s,]/g, '') !== field.expect) {
                state.errors[field.name] = values[field.name] ? `${values[field.name]} is not ${field.expect}` : `type ${field.expect}`;
            }
        }
        if (Object.keys(state.errors).length) return draw();
        state.busy = true;
        draw();
        try {
            await question.submit(values);
            dialog.close();
        } catch (error) {
            state.busy = false;
            for (const { field, message } of error instanceof Problem ? error.errors : []) {
                const known = fieldNamed(fields(), field);
                if (known) state.errors[known.name] = plain(message);
                else state.general = plain(`${field}: ${message}`);
            }
            if (!state.general && !Object.keys(state.errors).length) state.general = /** @type {Error} */ (error).message;
            draw();
            /** @type {HTMLElement | null} */ (dialog.querySelector('[aria-invalid=true]'))?.focus();
        }
    }

    function draw() {
        const action = question.action?.(values);
        render(dialog, h('form', { method: 'dialog', onsubmit: submit },
            h('h2', { id: 'dialog-title' }, question.title),
            question.body ? h('div', question.body) : null,
            h('div.form', fields().map((field, i) => fieldOf(field, values, state.errors[field.name], i === 0, draw))),
            question.extra?.(values, draw),
            state.general ? h('p.error', { role: 'alert' }, icon('failed'), state.general) : null,
            state.command ? h('pre.command', state.command) : null,
            h('footer',
                action ? commandButtons(action, text => { state.command = text; draw(); }) : null,
                h('span.grow'),
                h('button', { type: 'button', onclick: () => dialog.close() }, question.keep ?? 'Close'),
                h('button', { class: question.danger ? 'danger' : 'primary', type: 'submit', disabled: state.busy }, question.confirm))));
    }
    draw();
    document.body.append(dialog);
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    dialog.addEventListener('close', () => {
        dialog.remove();
        giveBack(before);
    });
    dialog.showModal();
    return dialog;
}

// Names of fields as words: on_failure is "on failure".
/** @param {string} text */
const plain = text => text.replace(/\b[a-z]+(_[a-z]+)+\b/g, word => word.replaceAll('_', ' '));

// The field of a form that a server's complaint is about: paused.for is the field "for" or "until", on_alert a box of "Told of".
/** @template {{name: string, options?: any[][]}} F @param {F[]} fields @param {string} name @returns {F | undefined} */
export const fieldNamed = (fields, name) => fields.find(f => f.name === name) ?? fields.find(f => name.endsWith('.' + f.name))
    ?? fields.find(f => name.startsWith(f.name + '.') || name.startsWith(f.name + '[') || f.name.endsWith('.' + name)
        || f.options?.some(([value]) => value === name)) ?? (/\bfor$/.test(name) ? fields.find(f => f.name === 'until') : undefined);

// The focus goes back to where it was; if that is gone, to the open pane or the page.
/** @param {HTMLElement | null} before */
export function giveBack(before) {
    if (before?.isConnected && before !== document.body) return before.focus({ preventScroll: true });
    const place = /** @type {HTMLElement | null} */ (document.querySelector('#main aside.panel h2[tabindex]')
        ?? document.querySelector('#main h1'));
    return place?.focus({ preventScroll: true });
}

/** @param {import('../lib/command.js').Action} action @param {(text: string) => void} show */
function commandButtons(action, show) {
    const line = cli(action);
    /** @param {string} text */
    const button = (text, /** @type {string} */ name) => h('button.plain', { type: 'button', onclick: (/** @type {Event} */ e) => {
        copy(text, /** @type {HTMLElement} */ (e.currentTarget));
        show(text);
    } }, name);
    return [button(curl(action, location.origin), 'curl'), line ? button(line, 'CLI') : null];
}

/** @param {Field} field @param {Record<string, any>} values @param {string | undefined} error @param {boolean} first @param {() => void} changed */
export function fieldOf(field, values, error, first, changed) {
    const id = 'field-' + field.name, note = error ? id + '-error' : field.hint ? id + '-hint' : null;
    const common = { id, name: field.name, 'aria-invalid': error ? 'true' : null, 'aria-describedby': note, autofocus: first,
        class: field.mono ? 'mono' : null, autocomplete: 'off', spellcheck: 'false',
        list: field.list ? id + '-list' : null, placeholder: field.placeholder ?? null };
    const set = (/** @type {any} */ value) => { values[field.name] = value; changed(); };
    if (field.type === 'checkbox') {
        return h('div.field.inline', { key: field.name }, h('input', { ...common, type: 'checkbox', checked: values[field.name],
            onchange: (/** @type {any} */ e) => set(e.target.checked) }), h('label', { for: id }, field.label));
    }
    if (field.type === 'checks') return checks(field, values[field.name], error, set);
    const input = field.type === 'select'
        ? h('select', { ...common, onchange: (/** @type {any} */ e) => set(e.target.value) },
            (field.options ?? []).map(([value, text]) => h('option', { value, selected: value === values[field.name] }, text)))
        : h(field.type === 'textarea' ? 'textarea' : 'input', { ...common, ...field.type === 'textarea' ? {}
            : { type: field.type ?? 'text' },
            value: values[field.name], oninput: (/** @type {any} */ e) => set(e.target.value) });
    return h('div.field', { key: field.name }, h('label', { for: id }, field.label), input,
        field.list ? h('datalist', { id: id + '-list' }, field.list.map(value => h('option', { value }))) : null,
        field.hint && !error ? h('span.label', { id: id + '-hint' }, field.hint) : null,
        error ? h('span.error', { id: id + '-error', role: 'alert' }, icon('failed'), error) : null);
}

// Some of several, each with what it means.
/** @param {Field} field @param {string[]} chosen @param {string | undefined} error @param {(chosen: string[]) => void} set */
const checks = (field, chosen, error, set) => h('fieldset.field.checks', { key: field.name, 'aria-describedby': error
    ? `field-${field.name}-error` : null },
    h('legend', field.label), h('div.choices', (field.options ?? []).map(([value, text, hint]) => h('label.choice', { key: value },
        h('input', { type: 'checkbox', name: field.name, value, checked: chosen.includes(value), 'aria-invalid': error ? 'true' : null,
            onchange: (/** @type {any} */ e) => set((field.options ?? []).map(([v]) => v).filter(v => v === value ? e.target.checked
                : chosen.includes(v))) }), h('span', text, hint ? h('span.sub', hint) : null)))),
    field.hint && !error ? h('span.label', field.hint) : null,
    error ? h('span.error', { id: `field-${field.name}-error`, role: 'alert' }, icon('failed'), error) : null);

// A dialog that only shows something.
/** @param {string} title @param {any} body */
export const show = (title, body) => {
    const dialog = document.createElement('dialog');
    dialog.className = 'wide';
    dialog.setAttribute('aria-labelledby', 'dialog-title');
    render(dialog, h('div', h('h2', { id: 'dialog-title' }, title), body,
        h('footer', h('button', { autofocus: true, onclick: () => dialog.close() }, 'Close'))));
    document.body.append(dialog);
    const before = /** @type {HTMLElement | null} */ (document.activeElement);
    dialog.addEventListener('close', () => { dialog.remove(); giveBack(before); });
    dialog.showModal();
};

/** @type {any} */
let toastTimer = 0;

const PLACES = ['toasts', 'toasts middle', 'toasts left', 'toasts high', 'toasts high middle'];

// A place in which it covers nothing that can be clicked, or least of it; the present one if that will do. Rows come and go below it.
/** @param {HTMLElement} place */
function settle(place) {
    const others = [...document.querySelectorAll('#app :is(a, button, input, select)')].map(e => e.getBoundingClientRect()).filter(o => o.width);
    /** @param {string} name */
    const covers = name => {
        place.className = name;
        const box = place.getBoundingClientRect();
        return others.filter(o => o.left < box.right && o.right > box.left && o.top < box.bottom && o.bottom > box.top).length;
    };
    let best = place.className, least = covers(best);
    for (const name of PLACES) {
        const n = least ? covers(name) : 0;
        if (n < least) [best, least] = [name, n];
    }
    place.className = best;
}

/**
 * One at a time, 8 s, 20 s with something to click, longer while it has the focus or the pointer.
 * @param {string} text
 * @param {{bad?: boolean, link?: {text: string, href: string}, undo?: {label: string, run: () => void}}} [how]
 */
export function toast(text, how = {}) {
    const place = document.getElementById('toasts');
    if (!place) return;
    const settling = setInterval(() => {
        if (!place.firstChild) clearInterval(settling);
        else if (!place.matches(':focus-within, :hover')) settle(place);
    }, SETTLE_MS);
    const clear = () => { clearInterval(settling); render(place); };
    const later = () => {
        clearTimeout(toastTimer);
        toastTimer = setTimeout(() => place.matches(':focus-within, :hover') ? later() : clear(), how.link || how.undo ? TOAST_WITH_LINK_MS
            : TOAST_MS);
    };
    render(place, h('div.toast', { role: how.bad ? 'alert' : 'status' },
        h('span.state', { 'data-tone': how.bad ? 'fail' : 'ok', class: 'wraps' }, icon(how.bad ? 'failed' : 'completed'), h('span', text)),
        how.link ? h('a', { href: how.link.href, onclick: clear }, how.link.text) : null,
        how.undo ? h('button.small', { onclick: () => { clear(); how.undo?.run(); } }, how.undo.label) : null,
        h('button.plain.square.small', { 'aria-label': 'Close', onclick: clear }, icon('close'))));
    settle(place);
    later();
}
