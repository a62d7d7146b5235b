// What a key may do, in words. The scopes are those of src/api/auth/scopes.h; a test compares them.

/** @type {[string, string, string][]} */
export const SCOPES = [
    ['tasks:read', 'tasks:read', 'see tasks, executions and the calendar'],
    ['tasks:write', 'tasks:write', 'create, change, cancel and run tasks'],
    ['tasks:lease', 'tasks:lease', 'lease WORKER tasks and report their outcome'],
    ['dlq:read', 'dlq:read', 'see dead letters'],
    ['dlq:write', 'dlq:write', 'retry and archive dead letters'],
    ['workflows:read', 'workflows:read', 'see workflows and their definitions'],
    ['workflows:write', 'workflows:write', 'start and change workflows'],
    ['workflows:signal', 'workflows:signal', 'approve steps, as this key'],
    ['workflows:signal-as', 'workflows:signal-as', 'with workflows:signal: in the name of others'],
    ['queues:read', 'queues:read', 'see queues and breakers'],
    ['queues:write', 'queues:write', 'limit and pause queues, close breakers'],
    ['calendars:read', 'calendars:read', 'see calendars'],
    ['calendars:write', 'calendars:write', 'change calendars'],
    ['notifications:read', 'notifications:read', 'see incidents, settings and what was sent'],
    ['notifications:write', 'notifications:write', 'change settings; acknowledge, mute, send again'],
    ['signing-keys:read', 'signing-keys:read', 'see the keys that sign calls, without their secrets'],
    ['signing-keys:write', 'signing-keys:write', 'make, replace and remove the keys that sign calls'],
    ['status:read', 'status:read', 'see the state of the server and its figures'],
    ['metrics:read', 'metrics:read', 'read the metrics'],
    ['audit:read', 'audit:read', 'see who changed what'],
    ['admin', 'admin', 'everything, keys and tenants included'],
];
