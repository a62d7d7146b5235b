// The keyboard: '/' searches, g and a letter opens a page, j k x Enter work on rows, '.' opens the actions, '?' explains. They can be
// switched off, for readers who use letters for something else.

/** @typedef {{key: string, does: string}} KeyHelp */
export const PAGE_KEYS = /** @type {const} */ ({ o: 'overview', t: 'tasks', e: 'executions', c: 'calendar', w: 'workflows', d: 'dlq',
    q: 'queues',
    n: 'nodes', a: 'alerts', s: 'admin' });

/** @type {KeyHelp[]} */
export const KEY_HELP = [
    { key: '/', does: 'search' },
    { key: 'g then o t e c w d q n a s',
        does: 'overview, tasks, executions, calendar, workflows, dead letters, queues, nodes, alerts, admin' },
    { key: 'j k', does: 'next, previous row' },
    { key: 'x', does: 'select the row' },
    { key: 'Enter', does: 'open the row' },
    { key: '.', does: 'the first action' },
    { key: 'p', does: 'pause or resume live updates' },
    { key: 'Esc', does: 'close, or leave the field' },
    { key: '?', does: 'this list' },
];

const OFF = 'belfry.keys.off';
export const keysAreOn = () => localStorage.getItem(OFF) === null;
/** @param {boolean} on */
export const setKeys = on => on ? localStorage.removeItem(OFF) : localStorage.setItem(OFF, '1');

// Whether a key goes into a field.
/** @param {EventTarget | null} target */
export function isTyping(target) {
    const element = /** @type {HTMLElement | null} */ (target);
    return !!element && (/^(INPUT|TEXTAREA|SELECT)$/.test(element.tagName) && !/^(checkbox|radio)$/.test(/** @type {any} */ (element).type)
        || element.isContentEditable);
}

/**
 * @typedef {{page: (name: string) => void, search: () => void, help: () => void, row: (step: number) => void, select: () => void,
 *     open: () => boolean, actions: () => void, pause: () => void, escape: () => void}} KeyActions
 */

/** @param {KeyActions} actions @returns {(event: KeyboardEvent) => void} */
export function keyHandler(actions) {
    let afterG = 0;
    /** @type {Record<string, () => void>} */
    const table = { '/': actions.search, '?': actions.help, j: () => actions.row(1), k: () => actions.row(-1), x: actions.select,
        '.': actions.actions, p: actions.pause };
    return event => {
        if (event.key === 'Escape') return actions.escape();
        if (!keysAreOn() || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
        if (document.querySelector('dialog[open]')) return;
        const page = /** @type {Record<string, string>} */ (PAGE_KEYS)[event.key];
        if (afterG && Date.now() - afterG < 1500 && page) {
            afterG = 0;
            event.preventDefault();
            return actions.page(page);
        }
        afterG = event.key === 'g' ? Date.now() : 0;
        if (event.key === 'Enter') {
            if (!document.activeElement?.closest('a, button, input, select, textarea, summary, [role=button]')
                && actions.open()) event.preventDefault();
            return;
        }
        if (table[event.key]) {
            event.preventDefault();
            table[event.key]();
        }
    };
}
