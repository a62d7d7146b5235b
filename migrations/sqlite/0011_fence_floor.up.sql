-- What belongs to the store as a whole: `fence_floor`, above which all fences are (src/core/task/fence.h); `file`, by which a copied file is known.
-- An older backup may be restored by this step, so stores with tasks get a floor.
CREATE TABLE cluster (
    name TEXT PRIMARY KEY,
    value NOT NULL
) WITHOUT ROWID;
INSERT INTO cluster (name, value)
SELECT 'fence_floor', CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) << 11 WHERE EXISTS (SELECT 1 FROM tasks);
