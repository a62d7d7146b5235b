DROP TABLE incident_records;
DROP TABLE hits;
