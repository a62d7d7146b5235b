-- readers from 4
-- Tasks that wait for other tasks: src/store/common/joins.h.
ALTER TABLE tasks ADD COLUMN links smallint NOT NULL DEFAULT 0; -- bits: enum task_link in src/core/task/task.h

-- What a child waits for. state: enum edge_state in src/port/store/dependencies.h; 0 is open. type: enum dag_type in src/core/flow/dag.h.
CREATE TABLE edges (
    tenant_id integer NOT NULL,
    parent_id uuid NOT NULL,
    child_id uuid NOT NULL,
    type smallint NOT NULL,
    state smallint NOT NULL,
    PRIMARY KEY (parent_id, child_id)
);
CREATE INDEX edges_child ON edges (child_id);
CREATE INDEX edges_open ON edges (parent_id, child_id) WHERE state = 0;

-- One row for each child: its join (enum dag_join) and the counts of its edges. generation: begun again by a retry of its workflow; 0 otherwise.
CREATE TABLE joins (
    tenant_id integer NOT NULL,
    child_id uuid NOT NULL PRIMARY KEY,
    kind smallint NOT NULL,
    expected integer NOT NULL,
    arrived integer NOT NULL,
    met integer NOT NULL,
    broken integer NOT NULL,
    generation integer NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- Final tasks whose children have not all been told: OP_ARRIVE. outcome: enum flow_outcome in src/core/flow/flow.h.
CREATE TABLE arrivals (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    parent_id uuid NOT NULL UNIQUE,
    outcome smallint NOT NULL,
    created_ms bigint NOT NULL
);

CREATE VIEW belfry_dependencies AS
    SELECT e.child_id AS task_id, n.name AS tenant, e.parent_id AS depends_on,
        CASE e.type WHEN 0 THEN 'MUST_SUCCEED' WHEN 1 THEN 'MUST_NOT_FAIL' WHEN 2 THEN 'MUST_FINISH' WHEN 3 THEN 'MUST_FAIL' END AS type,
        CASE e.state WHEN 0 THEN 'WAITING' WHEN 1 THEN 'MET' WHEN 2 THEN 'BROKEN' WHEN 3 THEN 'UNMET' END AS state,
        CASE j.kind WHEN 0 THEN 'ALL' WHEN 1 THEN 'ANY' WHEN 2 THEN 'SOME' END AS "join"
    FROM edges AS e JOIN joins AS j ON j.child_id = e.child_id LEFT JOIN belfry_tenants AS n ON n.number = e.tenant_id;
