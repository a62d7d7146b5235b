// Hash routes: #/tasks/ID?status=FAILED holds the whole view, so that a link shows what its sender saw.

/** @typedef {{parts: string[], query: URLSearchParams, hash: string}} Route */

/** @param {string} hash @returns {Route} */
export function parseRoute(hash) {
    const text = hash.replace(/^#\/?/, '');
    const at = text.indexOf('?');
    const path = at < 0 ? text : text.slice(0, at);
    const parts = path.split('/').filter(Boolean).map(part => {
        try {
            return decodeURIComponent(part);
        } catch {
            return part;
        }
    });
    const query = new URLSearchParams(at < 0 ? '' : text.slice(at + 1));
    if (parts[0] === 'alerts' && parts.length === 2) query.set('incident', /** @type {string} */ (parts.pop())); // as older messages have it
    return { parts: parts.length ? parts : ['overview'], query, hash };
}

/**
 * A link: link(['tasks', id], {status: 'FAILED'}). Parameters without a value are left out.
 * @param {string[]} parts @param {Record<string, any> | URLSearchParams} [query] @returns {string}
 */
export function link(parts, query = {}) {
    const pairs = query instanceof URLSearchParams ? [...query] : Object.entries(query);
    const kept = pairs.filter(([, value]) => value !== undefined && value !== null && value !== '' && value !== false);
    const text = new URLSearchParams(kept.map(([name, value]) => [name, String(value)])).toString();
    return '#/' + parts.map(encodeURIComponent).join('/') + (text ? '?' + text : '');
}

// The tasks of a queue that are due and wait: what its count counts.
/** @param {string} queue */
export const dueLink = queue => link(['tasks'], { queue, status: 'SCHEDULED', due_before: '0s', occurrences: 'true' });

// The same view with some parameters changed; null removes one.
/** @param {Route} route @param {Record<string, any>} change */
export function relink(route, change) {
    const query = new URLSearchParams(route.query);
    for (const [name, value] of Object.entries(change)) {
        if (value === null || value === undefined || value === '') query.delete(name);
        else query.set(name, String(value));
    }
    return link(route.parts, query);
}

/** @param {string} hash @param {{replace?: boolean}} [how] */
export function go(hash, how = {}) {
    if (how.replace) {
        history.replaceState(null, '', hash);
        window.dispatchEvent(new HashChangeEvent('hashchange'));
    } else {
        location.hash = hash;
    }
}
