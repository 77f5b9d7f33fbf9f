-- merges
SELECT count(*) FROM (SELECT child FROM parent GROUP BY child HAVING count(*) > 1);
-- forks
SELECT parent, count(*) FROM parent GROUP BY parent HAVING count(*) > 4 ORDER BY 2 DESC, 1 LIMIT 20;
-- grandparents
SELECT count(*) FROM parent a JOIN parent b ON b.child = a.parent;
-- great_grandparents_apart
SELECT count(*), max(c.parent) FROM parent a JOIN parent b ON b.child = a.parent JOIN parent c ON c.child = b.parent WHERE a.ordinal = 1 AND c.parent < a.child - 50;
-- folder_pairs
SELECT substr(f.path, 1, instr(f.path || '/', '/') - 1) x, substr(g.path, 1, instr(g.path || '/', '/') - 1) y, sum(c.commits) FROM cochange c JOIN file f ON f.id = c.a JOIN file g ON g.id = c.b WHERE f.touches > 20 AND g.touches > 20 GROUP BY x, y ORDER BY 3 DESC, 1, 2 LIMIT 20;
-- strongest_partner
SELECT f.path, (SELECT max(c.commits) FROM cochange c WHERE c.a = f.id) FROM file f WHERE f.touches > 100 ORDER BY 2 DESC, 1;
-- triangles
SELECT count(*) FROM cochange x JOIN cochange y ON y.a = x.b JOIN cochange z ON z.a = x.a AND z.b = y.b WHERE x.commits > 40 AND y.commits > 40 AND z.commits > 40;
-- lonely_files
SELECT count(*) FROM file f WHERE NOT EXISTS (SELECT 1 FROM cochange c WHERE c.a = f.id) AND NOT EXISTS (SELECT 1 FROM cochange c WHERE c.b = f.id);
-- rust_or_toml
SELECT count(*), sum(c.commits) FROM cochange c JOIN file f ON f.id = c.a JOIN file g ON g.id = c.b WHERE (f.path LIKE '%.rs' AND g.path LIKE '%.toml') OR (f.path LIKE '%.toml' AND g.path LIKE '%.rs');
-- rank_in_folder
SELECT * FROM (SELECT substr(path, 1, instr(path || '/', '/') - 1) d, path, touches, row_number() OVER (PARTITION BY substr(path, 1, instr(path || '/', '/') - 1) ORDER BY touches DESC, path) r FROM file) WHERE r <= 2 ORDER BY 1, 4;
-- gaps
SELECT max(d), avg(d) FROM (SELECT child - lag(child) OVER (ORDER BY child) d FROM parent WHERE ordinal = 1);
-- depth
WITH RECURSIVE back(id, depth) AS (SELECT max(child), 0 FROM parent UNION ALL SELECT p.parent, depth + 1 FROM back JOIN parent p ON p.child = back.id AND p.ordinal = 0 WHERE depth < 5000) SELECT count(*), min(id) FROM back;
-- above_average
SELECT count(*) FROM cochange c WHERE c.commits > (SELECT 3 * avg(d.commits) FROM cochange d WHERE d.a = c.a);
-- in_tests
SELECT sum(c.commits) FROM cochange c WHERE c.a IN (SELECT id FROM file WHERE path LIKE 'tests/%') AND c.b NOT IN (SELECT id FROM file WHERE path LIKE 'tests/%');
-- neighbours
SELECT f.path, count(DISTINCT c.b), sum(c.commits) FROM file f LEFT JOIN cochange c ON c.a = f.id AND c.commits > 2 GROUP BY f.id ORDER BY 2 DESC, 1 LIMIT 25;
-- both_ways
SELECT count(*) FROM (SELECT a, b FROM cochange UNION SELECT b, a FROM cochange);
-- siblings
SELECT count(*), max(b.child - a.child) FROM parent a JOIN parent b ON b.parent = a.parent AND b.ordinal = a.ordinal AND b.child > a.child;
-- listed_pairs
SELECT count(*), sum(commits) FROM cochange WHERE (a, b) IN (SELECT a, b + 1 FROM cochange WHERE commits > 20);
-- some_files
SELECT count(*) FROM (SELECT path FROM file ORDER BY random() LIMIT 50);
