-- readers from 1
-- The queue's epoch in which a claim's tasks were pushed (struct op_hand): one that was wiped since has lost them. 0: not known.
ALTER TABLE claims ADD COLUMN epoch bigint NOT NULL DEFAULT 0;
