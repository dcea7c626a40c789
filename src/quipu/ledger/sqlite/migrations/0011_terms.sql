-- Which rules the terms of all versions were cut by. What is there was cut by nobody knows which.
ALTER TABLE tenant ADD COLUMN terms INTEGER NOT NULL DEFAULT 0;
