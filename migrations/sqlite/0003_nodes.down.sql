DROP TABLE wishes;
DROP TABLE places;
DROP TABLE shares;
DROP TABLE nodes;
