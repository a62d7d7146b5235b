-- readers from 4
SELECT 1; -- the place of another migration
