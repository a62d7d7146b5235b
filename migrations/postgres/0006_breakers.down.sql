DROP TABLE breakers;
