SELECT 1; -- the place of another migration
