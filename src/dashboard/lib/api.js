// The one place that talks to the server. Writes carry the session's CSRF token and an idempotency key; refusals come as Problem,
// which knows the status and the fields that were wrong.

/** @typedef {{field: string, message: string}} FieldError */

export class Problem extends Error {
    /** @param {number} status @param {any} body */
    constructor(status, body) {
        super(body?.detail || body?.title || (status ? `the server answered ${status}` : 'the server cannot be reached'));
        this.status = status;
        this.type = String(body?.type ?? '');
        /** @type {FieldError[]} */
        this.errors = Array.isArray(body?.errors) ? body.errors : [];
    }
}

// A complaint of the page itself about a field, shown beside it as the server's are.
/** @param {string} field @param {string} message */
export const fieldProblem = (field, message) => new Problem(400, { detail: message, errors: [{ field, message }] });

/** @typedef {{tenant: string, scopes: string[], csrf_token: string, name?: string, key_id?: string}} Session */
/** @type {{session: Session | null, onLogout: () => void}} */
export const connection = { session: null, onLogout: () => {} };

/** @typedef {{method?: string, body?: any, etag?: string | number | null, signal?: AbortSignal, quiet?: boolean}} Ask */

// A browser takes these for steps in a path and would ask for something else, also if they are escaped.
const DOTS = /(^|\/)(\.|%2e){1,2}(\/|$)/i;

/**
 * @param {string} path @param {Ask} [ask] @returns {Promise<any>} the body; null if there is none
 */
export async function request(path, ask = {}) {
    const method = ask.method ?? 'GET';
    if (DOTS.test(path.split('?')[0])) throw new Problem(404, { detail: 'nothing can have this name' });
    /** @type {Record<string, string>} */
    const headers = { Accept: 'application/json' };
    if (ask.body !== undefined) headers['Content-Type'] = 'application/json';
    if (method !== 'GET') {
        headers['Idempotency-Key'] = crypto.randomUUID?.() ?? String(Math.random()).slice(2) + Date.now();
        if (connection.session) headers['X-CSRF-Token'] = connection.session.csrf_token;
    }
    if (ask.etag !== undefined && ask.etag !== null) headers['If-Match'] = `"${ask.etag}"`;
    /** @type {Response} */
    let response;
    try {
        response = await fetch(path, { method, headers, signal: ask.signal, credentials: 'same-origin', cache: 'no-store',
            body: ask.body === undefined ? undefined : JSON.stringify(ask.body) });
    } catch (error) {
        if (/** @type {Error} */ (error).name === 'AbortError') throw error;
        throw new Problem(0, null);
    }
    const text = await response.text();
    const type = response.headers.get('Content-Type') ?? '';
    let body = null;
    try {
        body = text && type.includes('json') ? JSON.parse(text) : null;
    } catch { /* an answer that is cut off is none */ }
    if (response.ok) return body;
    if (response.status === 401 && !ask.quiet) connection.onLogout();
    throw new Problem(response.status, body);
}

/** @param {string} path @param {Record<string, any>} [query] */
export function withQuery(path, query = {}) {
    const kept = Object.entries(query).filter(([, v]) => v !== undefined && v !== null && v !== '');
    return kept.length ? path + '?' + new URLSearchParams(kept.map(([k, v]) => [k, String(v)])) : path;
}

/** @param {string} path @param {Record<string, any>} [query] @param {AbortSignal} [signal] */
export const get = (path, query, signal) => request(withQuery(path, query), { signal });

/**
 * What is there, or null if this server does not have the route or the key may not read it.
 * @param {string} path @param {Record<string, any>} [query] @returns {Promise<any>}
 */
export async function maybe(path, query) {
    try {
        return await get(path, query);
    } catch (error) {
        if (error instanceof Problem && [403, 404, 501].includes(error.status)) return null;
        throw error;
    }
}

/** @param {{key?: string, code?: string}} body @returns {Promise<Session>} */
export const login = body => request('/v1/session', { method: 'POST', body, quiet: true });
export const session = () => request('/v1/session', { quiet: true });
export const logout = () => request('/v1/session', { method: 'DELETE', quiet: true });

// A key of the tenant `default` sees the installation, others only what is theirs.
export const isOperator = () => connection.session?.tenant === 'default';

// Whether the session may use a scope.
/** @param {string} scope */
export function can(scope) {
    const scopes = connection.session?.scopes ?? [];
    return scopes.includes('admin') || scopes.includes(scope);
}
