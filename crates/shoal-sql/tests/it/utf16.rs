//! Files whose text is UTF-16, in both byte orders, read as SQLite reads them.

use crate::common::{Scratch, check, check_all, ours};
use shoal_sql::{Value, ValueRef};
use shoal_store::Mode;

/// Texts ordered differently in UTF-8 and the two forms of UTF-16, and some invalid ones.
const SCHEMA: &str = "
    CREATE TABLE t(id INTEGER PRIMARY KEY, b TEXT, n TEXT COLLATE NOCASE, r TEXT COLLATE RTRIM,
        d TEXT DEFAULT 'é', x, v AS (length(b)));
    CREATE INDEX t_b ON t(b);
    CREATE INDEX t_n ON t(n DESC, id);
    CREATE INDEX t_r ON t(r);
    CREATE INDEX t_x ON t(x, b DESC);
    CREATE TABLE w(k TEXT PRIMARY KEY, l TEXT UNIQUE, n) WITHOUT ROWID;
    CREATE VIEW über AS SELECT b AS 'größe', count(*) AS n FROM t GROUP BY b;
    WITH RECURSIVE c(i) AS (VALUES(0) UNION ALL SELECT i + 1 FROM c WHERE i < 699),
        letters(l) AS (VALUES('a'), ('B'), ('b'), ('z'), ('Z'), ('Ā'), ('é'), ('É'), ('ß'), ('Ω'),
            ('水'), ('ﬀ'), ('😀'), ('𐀀'), (' '), ('')),
        l(i, l) AS (SELECT row_number() OVER () - 1, l FROM letters)
        INSERT INTO t(id, b, n, r, x)
        SELECT c.i, p.l || q.l, q.l || p.l || '  ', p.l || substr('   ', 1, c.i % 4),
            CASE c.i % 5 WHEN 0 THEN c.i WHEN 1 THEN c.i + 0.5 WHEN 2 THEN p.l
            WHEN 3 THEN CAST(q.l AS BLOB) END
        FROM c JOIN l p ON p.i = c.i % 16 JOIN l q ON q.i = c.i / 16 % 16;
    INSERT INTO t(id, b, n) VALUES (1000, CAST(x'00d84100' AS TEXT), 'surrogate');
    INSERT INTO t(id, b, n) VALUES (1001, CAST(x'00dc' AS TEXT), 'surrogate');
    INSERT INTO t(id, b, n) VALUES (1002, CAST(x'610062' AS TEXT), 'odd');
    INSERT INTO t(id, b) VALUES (1003, 'a' || char(0) || 'b');
    INSERT INTO t(id, b) VALUES (1004, printf('%.3000c', 'ü'));
    INSERT INTO w SELECT DISTINCT b, b || '-' || id, id FROM t WHERE id < 1000 GROUP BY b;";

const QUERIES: &str = "
    SELECT * FROM t ORDER BY id; SELECT *, v FROM t WHERE id IN (3, 1000, 1001, 1002, 1003);
    SELECT b FROM t ORDER BY b, id; SELECT b FROM t ORDER BY b DESC, id;
    SELECT n FROM t ORDER BY n, id; SELECT r FROM t ORDER BY r, id; SELECT x, id FROM t ORDER BY x, b, id;
    SELECT id FROM t NOT INDEXED ORDER BY b, id; SELECT id FROM t WHERE id < 1000 ORDER BY b || 'x', id;
    SELECT id FROM t WHERE b = 'aĀ'; SELECT id FROM t WHERE b = '😀水' ORDER BY id;
    SELECT id FROM t WHERE n = 'ZB  '; SELECT id FROM t WHERE n = 'zb'; SELECT id FROM t WHERE r = 'Ω';
    SELECT id FROM t WHERE b > 'b' AND b < 'z' ORDER BY id;
    SELECT id FROM t WHERE b >= 'Ā' ORDER BY id; SELECT id FROM t WHERE b < 'Ā' ORDER BY id;
    SELECT id FROM t NOT INDEXED WHERE b < 'Ā' ORDER BY id;
    SELECT id FROM t WHERE b BETWEEN 'ß' AND '水' ORDER BY id;
    SELECT id FROM t WHERE n > 'é' ORDER BY id; SELECT id FROM t WHERE n <= 'É' ORDER BY id;
    SELECT id FROM t WHERE x = 'z' AND b > 'b' ORDER BY id; SELECT id FROM t WHERE x = 0.5;
    SELECT id FROM t WHERE b IN ('aa', 'Ωß', '😀😀', 'nosuch') ORDER BY id;
    SELECT min(b), max(b), min(n), max(n), min(r), max(r) FROM t;
    SELECT min(b, n), max(b, n, 'Ā'), id FROM t WHERE id < 300 ORDER BY id;
    SELECT b, count(*), max(n) FROM t GROUP BY b ORDER BY b;
    SELECT b FROM t UNION SELECT k FROM w ORDER BY 1; SELECT b FROM t INTERSECT SELECT k FROM w ORDER BY 1;
    SELECT b FROM t EXCEPT SELECT k FROM w ORDER BY 1;
    SELECT * FROM w ORDER BY k; SELECT * FROM w WHERE k > 'b' AND k < 'Ω' ORDER BY k;
    SELECT n FROM w WHERE l = 'aa-0'; SELECT n FROM w WHERE k = 'zﬀ';
    SELECT t.id, w.n FROM t JOIN w ON t.b = w.k WHERE t.id < 500 ORDER BY t.id;
    SELECT a.id, z.id FROM t a JOIN t z ON a.b < z.b WHERE a.id < 9 AND z.id < 9 ORDER BY 1, 2;
    SELECT * FROM über ORDER BY größe; SELECT sum(n) FROM über WHERE größe > 'z';
    SELECT id, rank() OVER (ORDER BY b) FROM t ORDER BY id;
    SELECT id, first_value(b) OVER (PARTITION BY r ORDER BY b DESC) FROM t ORDER BY id;
    SELECT length(b), hex(b), octet_length(b), unicode(b), substr(b, 2, 1), upper(b), quote(b) FROM t
      WHERE id NOT IN (1000, 1001) ORDER BY id;
    SELECT instr(b, 'Ā'), replace(b, 'Ω', 'o'), trim(r), b LIKE 'ä%', b LIKE '%É', b GLOB '*[Ω-水]*' FROM t
      WHERE id < 1000 ORDER BY id;
    SELECT hex('aé'), length('aé😀'), octet_length('aé'), octet_length(12), octet_length(1.5);
    SELECT hex(CAST('aé' AS BLOB)), hex(CAST(12 AS BLOB)), CAST(x'61006200' AS TEXT);
    SELECT hex(CAST(x'00d84100' AS TEXT)) IS NULL, length(CAST(x'00d84100' AS TEXT));
    SELECT unicode(CAST(x'00d84100' AS TEXT)), length(CAST(x'00d8' AS TEXT));
    SELECT hex(x'6100' || 'b'), hex('b' || x'6100'), typeof(x'6100' || 'b'), x'6100' = 'a';
    SELECT CAST(x'3100' AS INTEGER), CAST(x'31' AS INTEGER), CAST('12' AS INTEGER), hex(12), hex(x'12');
    SELECT 'Ā' < 'b', 'Ā' < 'b' COLLATE NOCASE, 'Ā' < 'b' COLLATE RTRIM, 'Ā' < 'b' COLLATE BINARY;
    SELECT '😀' < 'ﬀ', 'a' < 'B', 'ab' < 'abc', 'a' IN ('a', 'b'), 'Ā' BETWEEN 'a' AND 'b';
    SELECT nullif('a', 'a'), CASE 'Ā' WHEN 'Ā' THEN 1 END, max('b', 'Ā'), min('b', 'Ā');
    SELECT group_concat(b ORDER BY b) FROM t WHERE id < 40; SELECT json_array(b, n) FROM t WHERE id < 40;
    SELECT json_extract('{\"a\":\"é\"}', '$.a'), date('2020-01-01'), printf('%s|%5s', 'é', 'ü');
    WITH RECURSIVE c(x) AS (VALUES('b') UNION SELECT CASE x WHEN 'b' THEN 'Ā' ELSE 'z' END FROM c
      ORDER BY 1) SELECT * FROM c;
    SELECT (SELECT max(b) FROM t WHERE id < 20), EXISTS (SELECT 1 FROM t WHERE b > '😀😀');
    SELECT id FROM t WHERE (b, n) > ('Ā', 'z') ORDER BY id LIMIT 40;
    SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name; PRAGMA encoding;
    PRAGMA table_info(t); PRAGMA index_xinfo(t_x); SELECT d FROM t LIMIT 1";

fn files() -> impl Iterator<Item = (&'static str, Scratch)> {
    ["UTF-16le", "UTF-16be", "UTF-8"].into_iter().map(|encoding| {
        let script = format!("PRAGMA encoding = '{encoding}'; {SCHEMA}");
        (encoding, Scratch::new(&script))
    })
}

#[test]
fn queries_answer_as_sqlite_does() {
    for (encoding, scratch) in files() {
        if encoding != "UTF-8" {
            println!("{encoding}");
            check_all(&mut scratch.ours(), &scratch.theirs(), QUERIES);
        }
    }
}

/// Every text of the file, and some missing ones, looked up in each index and compared.
#[test]
fn every_text_is_found_by_every_index() {
    for (_, scratch) in files() {
        let (mut connection, peer) = (scratch.ours(), scratch.theirs());
        let rows = ours(&mut connection, "SELECT DISTINCT b FROM t WHERE id < 1000").unwrap().rows;
        let mut texts: Vec<Value> = rows.into_iter().flatten().collect();
        texts.extend(["", "\u{7f}", "\u{ffff}", "\u{e000}", "\u{10ffff}", "aaa"].map(Value::from));
        for text in texts {
            for sql in [
                "SELECT count(*) FROM t WHERE b = ?1",
                "SELECT count(*), min(id) FROM t WHERE n >= ?1",
                "SELECT count(*), max(id) FROM t WHERE b < ?1",
                "SELECT id FROM t WHERE r = ?1 ORDER BY id",
                "SELECT l FROM w WHERE k >= ?1 ORDER BY k LIMIT 2",
            ] {
                let given = std::slice::from_ref(&text);
                check(&mut connection, &peer, sql, given).unwrap_or_else(|why| panic!("{why}"));
            }
        }
    }
}

#[test]
fn columns_added_later_and_statistics_read_too() {
    for encoding in ["UTF-16le", "UTF-16be"] {
        let scratch = Scratch::new(&format!(
            "PRAGMA encoding = '{encoding}'; CREATE TABLE t(a TEXT); CREATE INDEX i ON t(a);
             INSERT INTO t VALUES ('ä'), ('b'), ('Ā');
             ALTER TABLE t ADD COLUMN c TEXT DEFAULT 'später'; ANALYZE;"
        ));
        check_all(
            &mut scratch.ours(),
            &scratch.theirs(),
            "SELECT * FROM t; SELECT * FROM sqlite_stat1; SELECT c FROM t WHERE a = 'ä';
             PRAGMA integrity_check; PRAGMA quick_check",
        );
    }
}

#[test]
fn readers_without_sql_give_utf_8() {
    for (_, scratch) in files() {
        let mut connection = scratch.ours();
        connection.begin(Mode::Read).unwrap();
        let mut reader = connection.table_reader("t").unwrap();
        assert!(reader.seek(5).unwrap());
        assert_eq!(reader.value(1).unwrap(), ValueRef::Text("Āa".as_bytes()));
        assert!(reader.seek(1004).unwrap());
        assert_eq!(reader.value(1).unwrap(), ValueRef::Text("ü".repeat(3000).as_bytes()));
    }
}
