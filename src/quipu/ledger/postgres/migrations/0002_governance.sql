-- Rules that decide on writes, and what reviewers need to know of a held one.

-- the tenant's own rules, in their order; a change of them moves `guarded`
ALTER TABLE tenant ADD COLUMN rules json;

-- how many different people must say yes, and who has
ALTER TABLE proposal ADD COLUMN approvals integer NOT NULL DEFAULT 1;
ALTER TABLE proposal ADD COLUMN given json NOT NULL DEFAULT '[]';

-- why it was held, in the words of the rule
ALTER TABLE proposal ADD COLUMN because text;

-- makes the digest in the journal one that nobody can guess; goes with the staged content
ALTER TABLE proposal ADD COLUMN salt bytea;
ALTER TABLE proposal ALTER salt SET STATISTICS 0;
