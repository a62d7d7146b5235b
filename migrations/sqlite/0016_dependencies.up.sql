-- Tasks that wait for other tasks: src/store/common/joins.h.
ALTER TABLE tasks ADD COLUMN links INTEGER NOT NULL DEFAULT 0; -- bits: enum task_link in src/core/task/task.h

-- What a child waits for. state: enum edge_state in src/port/store/dependencies.h; 0 is open.
CREATE TABLE edges (
    parent_id BLOB NOT NULL,
    child_id BLOB NOT NULL,
    tenant_id INTEGER NOT NULL,
    type INTEGER NOT NULL, -- enum dag_type in src/core/flow/dag.h
    state INTEGER NOT NULL,
    PRIMARY KEY (parent_id, child_id)
) WITHOUT ROWID;
CREATE INDEX edges_child ON edges (child_id);
CREATE INDEX edges_open ON edges (parent_id, child_id) WHERE state = 0;

-- One row for each child: its join and the counts of its edges. generation: begun again by a retry of its workflow; 0 otherwise.
CREATE TABLE joins (
    child_id BLOB NOT NULL PRIMARY KEY,
    tenant_id INTEGER NOT NULL,
    kind INTEGER NOT NULL, -- enum dag_join
    expected INTEGER NOT NULL,
    arrived INTEGER NOT NULL,
    met INTEGER NOT NULL,
    broken INTEGER NOT NULL,
    generation INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

-- Final tasks whose children have not all been told: OP_ARRIVE. outcome: enum flow_outcome in src/core/flow/flow.h.
CREATE TABLE arrivals (
    number INTEGER PRIMARY KEY,
    parent_id BLOB NOT NULL UNIQUE,
    outcome INTEGER NOT NULL,
    created_ms INTEGER NOT NULL
);

CREATE VIEW belfry_dependencies AS
    SELECT lower(substr(hex(e.child_id), 1, 8) || '-' || substr(hex(e.child_id), 9, 4) || '-' || substr(hex(e.child_id), 13, 4) || '-' ||
            substr(hex(e.child_id), 17, 4) || '-' || substr(hex(e.child_id), 21)) AS task_id,
        n.name AS tenant,
        lower(substr(hex(e.parent_id), 1, 8) || '-' || substr(hex(e.parent_id), 9, 4) || '-' || substr(hex(e.parent_id), 13, 4) || '-' ||
            substr(hex(e.parent_id), 17, 4) || '-' || substr(hex(e.parent_id), 21)) AS depends_on,
        CASE e.type WHEN 0 THEN 'MUST_SUCCEED' WHEN 1 THEN 'MUST_NOT_FAIL' WHEN 2 THEN 'MUST_FINISH' WHEN 3 THEN 'MUST_FAIL' END AS type,
        CASE e.state WHEN 0 THEN 'WAITING' WHEN 1 THEN 'MET' WHEN 2 THEN 'BROKEN' WHEN 3 THEN 'UNMET' END AS state,
        CASE j.kind WHEN 0 THEN 'ALL' WHEN 1 THEN 'ANY' WHEN 2 THEN 'SOME' END AS "join"
    FROM edges AS e JOIN joins AS j ON j.child_id = e.child_id LEFT JOIN belfry_tenants AS n ON n.number = e.tenant_id;
