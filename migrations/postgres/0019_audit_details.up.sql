-- readers from 4
-- What the act was given as its reason and its end, as JSON; NULL: nothing, or the row is older than this column.
ALTER TABLE audit ADD COLUMN details text COLLATE "C";
