DROP TABLE stats;
