// Live updates. One tab of a browser holds the event stream (a Web Lock makes it the leader) and tells the others (BroadcastChannel).
// Events are hints: whoever hears one asks the server again, at most every 2 s. If the server has no stream, the leaderless way: ask
// every 5 s. A hidden tab closes the stream after 30 s.

const HINT_EVERY_MS = 2000, POLL_MS = 5000, HIDDEN_MS = 30000, RETRY_MIN_MS = 1000, RETRY_MAX_MS = 30000, FLUSH_MS = 100;
const EVENTS = ['counts', 'task', 'job', 'node', 'incident', 'gap', 'end'];

/** @typedef {'starting' | 'live' | 'polling' | 'lost' | 'paused'} LiveState */
/** @typedef {{onHint: (kind: string, data: any) => void, onState: (state: LiveState, retryAt: number) => void}} Listener */

/** @param {Listener} listener */
export function startLive(listener) {
    /** @type {EventSource | null} */
    let source = null;
    /** @type {LiveState} */
    let state = 'starting';
    let paused = false, stopped = false, leader = false, asked = false, polling = false;
    let retryMs = RETRY_MIN_MS;
    /** @type {any} */
    let retryTimer = 0, hiddenTimer = 0;
    /** @type {() => void} */
    let release = () => {};
    const channel = typeof BroadcastChannel === 'undefined' ? null : new BroadcastChannel('belfry-live');

    /** @param {LiveState} next @param {number} [retryAt] */
    function say(next, retryAt = 0) {
        state = paused ? 'paused' : next;
        listener.onState(state, retryAt);
        if (leader) channel?.postMessage({ state: next, retryAt });
    }

    /** @type {Map<string, any>} */
    const heard = new Map();
    // However many events come, each kind is passed on once a tenth of a second, with the latest data.
    /** @param {string} kind @param {any} data */
    function hint(kind, data) {
        if (!heard.size) setTimeout(flush, FLUSH_MS);
        heard.set(kind, data);
    }

    function flush() {
        for (const [kind, data] of heard) {
            if (!paused && !stopped) listener.onHint(kind, data);
            if (leader && !stopped) channel?.postMessage({ kind, data });
        }
        heard.clear();
    }

    function open() {
        if (stopped || source || document.hidden) return;
        let opened = false;
        const mine = source = new EventSource('/v1/events');
        mine.onopen = () => {
            const again = state === 'lost';
            opened = true;
            retryMs = RETRY_MIN_MS;
            say('live');
            if (again) hint('gap', null);
        };
        mine.onerror = async () => {
            close();
            if (opened || await streamExists() !== false) return stopped ? undefined : lost();
            polling = true;
            say('polling');
            return undefined;
        };
        for (const kind of EVENTS) {
            mine.addEventListener(kind, event => hint(kind, kind === 'counts' ? dataOf(/** @type {MessageEvent} */ (event).data) : null));
        }
    }

    function close() {
        source?.close();
        source = null;
        clearTimeout(retryTimer);
    }

    function lost() {
        close();
        say('lost', Date.now() + retryMs);
        retryTimer = setTimeout(open, retryMs);
        retryMs = Math.min(retryMs * 2, RETRY_MAX_MS);
    }

    // A tab that is hidden neither takes the lead nor keeps it: the stream belongs to one that somebody looks at.
    function lead() {
        if (leader || asked || stopped) return;
        if (!navigator.locks) {
            leader = true;
            return open();
        }
        asked = true;
        navigator.locks.request('belfry-live', () => {
            asked = false;
            if (stopped || document.hidden) return undefined;
            leader = true;
            open();
            return new Promise(resolve => { release = () => resolve(undefined); });
        }).catch(() => {});
    }

    function onVisible() {
        clearTimeout(hiddenTimer);
        if (document.hidden) {
            hiddenTimer = setTimeout(() => {
                close();
                leader = false;
                release();
            }, HIDDEN_MS);
        } else {
            lead();
            if (leader && !source && !polling) open();
            hint('gap', null);
        }
    }

    if (channel) {
        channel.onmessage = ({ data }) => {
            if (leader) return;
            if (data.state) say(data.state, data.retryAt);
            else if (!paused) listener.onHint(data.kind, data.data);
        };
    }
    document.addEventListener('visibilitychange', onVisible);
    const poll = setInterval(() => {
        if (!document.hidden && !paused && (polling || (!leader && state !== 'live'))) listener.onHint('poll', null);
    }, POLL_MS);
    lead();

    return {
        /** @param {boolean} on */
        pause(on) {
            paused = on;
            say(on ? 'paused' : polling ? 'polling' : source ? 'live' : 'starting');
            if (!on) listener.onHint('gap', null);
        },
        retry() {
            clearTimeout(retryTimer);
            if (!source) open();
        },
        stop() {
            stopped = true;
            close();
            release();
            clearInterval(poll);
            document.removeEventListener('visibilitychange', onVisible);
            channel?.close();
        },
    };
}

/** @param {string} text */
function dataOf(text) {
    try {
        return JSON.parse(text);
    } catch {
        return null;
    }
}

// EventSource does not tell why it failed: a server without a stream is told apart from one that is away.
/** @returns {Promise<boolean | null>} null: cannot be reached */
async function streamExists() {
    const stop = new AbortController();
    try {
        const response = await fetch('/v1/events', { headers: { Accept: 'text/event-stream' }, signal: stop.signal, cache: 'no-store' });
        stop.abort();
        if (response.ok) return true;
        return [404, 403, 401, 406, 501].includes(response.status) ? false : null;
    } catch {
        return null;
    }
}

/**
 * Calls what() now, and again for every call that came meanwhile, but one at a time and at most every 2 s.
 * @param {() => Promise<void>} what @param {number} [every]
 */
export function throttled(what, every = HINT_EVERY_MS) {
    let running = false, wanted = false, last = 0;
    /** @type {any} */
    let timer = 0;
    async function go() {
        if (running) {
            wanted = true;
            return;
        }
        clearTimeout(timer);
        timer = 0;
        running = true;
        wanted = false;
        last = Date.now();
        try {
            await what();
        } finally {
            running = false;
            if (wanted) soon();
        }
    }
    function soon() {
        if (timer) return;
        const wait = last + every - Date.now();
        if (wait <= 0) go();
        else timer = setTimeout(() => { timer = 0; go(); }, wait);
    }
    return { soon, now: go, stop() { clearTimeout(timer); } };
}
