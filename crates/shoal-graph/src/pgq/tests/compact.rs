//! `GRAPH_TABLE` over compressed rows beside the join of the same pattern.

use shoal_sql::Connection;
use shoal_testkit::Random;

use super::{ask, connection, cypher, execute, refused, social, try_ask};
use crate::pgq::{define, register};

/// True of a statement that matches over compressed rows.
fn is_compact(connection: &mut Connection, sql: &str) -> bool {
    ask(connection, &format!("EXPLAIN QUERY PLAN {sql}")).join(" ").contains("_match")
}

#[test]
fn patterns_whose_rows_are_all_taken_are_matched_over_compressed_rows() {
    let mut connection = social();
    let table = |pattern: &str| format!("GRAPH_TABLE (social MATCH {pattern})");
    let knows = "(a)-[:knows]->(b)-[:knows]->(c) COLUMNS (a.name AS x, c.year AS z, 1 AS one)";
    for (sql, wanted) in [
        (format!("SELECT count(*) FROM {}", table(knows)), "8"),
        (format!("SELECT x, count(*) FROM {} GROUP BY x", table(knows)), "Ada|2 Bob|2 Cy|3 Di|1"),
        (format!("SELECT DISTINCT z FROM {} AS g ORDER BY z", table(knows)), "1815 1950 1970 1990"),
    ] {
        assert!(is_compact(&mut connection, &sql), "{sql}");
        assert_eq!(ask(&mut connection, &sql), wanted.split(' ').collect::<Vec<_>>(), "{sql}");
    }
    // Whoever needs some rows alone or reads edges has a join.
    for sql in [
        format!("SELECT x FROM {} LIMIT 1", table(knows)),
        format!("SELECT x FROM {} WHERE x = 'Ada'", table(knows)),
        format!("SELECT count(*) FROM {} AS g, person", table(knows)),
        format!(
            "SELECT count(*) FROM {}",
            table("(a)-[k:knows]->(b)-[:knows]->(c) COLUMNS (k.since)")
        ),
        format!("SELECT count(*) FROM {}", table("(a)-[:knows]->{1,2}(b) COLUMNS (1 AS one)")),
    ] {
        let is_count = sql.contains("k.since");
        // Nobody looks at the columns of a count.
        assert_eq!(is_compact(&mut connection, &sql), is_count, "{sql}");
    }
    // Conditions on an edge choose the edges that are read.
    for (edge, filter, wanted) in [
        ("k:knows WHERE k.since > 2001", "", "7"),
        ("k:knows", " WHERE k.since IN (2001, 2003) AND a.name <> 'Bob'", "3"),
        ("k:knows", " WHERE k.since < c.year + 20", "3"),
    ] {
        let sql = format!(
            "SELECT count(*) FROM {}",
            table(&format!("(a)-[{edge}]->(b)-[:knows]->(c){filter} COLUMNS (1 AS one)"))
        );
        let join = ask(&mut connection, &format!("{sql} WHERE 1"));
        assert_eq!(is_compact(&mut connection, &sql), !sql.contains("c.year"), "{sql}");
        assert_eq!((ask(&mut connection, &sql), &*join), (join.clone(), &[wanted.to_owned()][..]));
    }
    execute(&mut connection, "CREATE INDEX knows_since ON knows(since)");
    let sql = "(a)-[k:knows WHERE k.since = 2001]->(b)-[:knows]->(c) COLUMNS (1 AS one)";
    assert!(!is_compact(&mut connection, &format!("SELECT count(*) FROM {}", table(sql))));
    // A view keeps the join.
    let view = format!("CREATE VIEW v AS SELECT x, z FROM {}", table(knows));
    execute(&mut connection, &view);
    assert!(!is_compact(&mut connection, "SELECT count(*) FROM v"));
    assert_eq!(ask(&mut connection, "SELECT count(*) FROM v"), ["8"]);
}

/// A pattern of one walk of which any shortest path will do.
fn random_walk(random: &mut Random) -> String {
    let filters = ["", "", " WHERE {n}.x = 1", " WHERE {n}.x > ?1", " IS v", " IS w", " IS v|w"];
    let mut node = |name: &str| format!("({name}{})", random.pick(&filters).replace("{n}", name));
    let (first, last) = (node("n0"), node("n1"));
    let label = random.pick(&["", "", "-[:e]->", "-[:e|f]->", "-[:!h]->", "<-[:f]-", "-[:e]-"]);
    let step = if label.is_empty() { random.pick(&["->", "<-", "-"]) } else { label };
    let times = random.pick(&["*", "*", "+", "{0,1}", "{1,2}", "{0,3}", "{1,}"]);
    let prefix = random.pick(&["ANY SHORTEST", "ANY", "SHORTEST 1"]);
    let filter = random.pick(&["", "", " WHERE n0.x <= n1.x", " WHERE n0.x = 0"]);
    format!(
        "{prefix} {first}{step}{times}{last}{filter} COLUMNS (n0.x AS x0, n1.x AS x1, n1.x + 1 AS y)"
    )
}

#[test]
fn walks_over_compressed_rows_have_the_rows_of_walks_over_tables() {
    let count: u64 = std::env::var("SHOAL_GRAPHS_RANDOM").map_or(12, |text| text.parse().unwrap());
    let (mut compact, mut rows) = (0, 0);
    for seed in 0..count {
        let mut random = Random::seeded(seed);
        let mut connection = tangled(&mut random);
        for round in 0..12 {
            match round {
                4 => execute(&mut connection, "BEGIN"),
                5 | 6 | 9 => change(&mut connection, &mut random, 3),
                8 => execute(&mut connection, "ROLLBACK"),
                _ => {}
            }
            let clause = format!("GRAPH_TABLE (g MATCH {})", random_walk(&mut random));
            let clause = clause.replace("?1", "1");
            for (before, behind) in [
                ("SELECT count(*) FROM ", ""),
                ("SELECT x1, count(*), sum(x1), min(y) FROM ", "GROUP BY x1"),
                ("SELECT x0, count(*) FROM ", "GROUP BY x0"),
                ("SELECT DISTINCT x1 FROM ", ""),
                ("SELECT x0, x1, y FROM ", ""),
            ] {
                let sql = format!("{before}{clause} {behind}");
                let wanted = ask(&mut connection, &format!("{before}{clause} WHERE 1 {behind}"));
                compact += usize::from(is_compact(&mut connection, &sql));
                rows += wanted.len();
                assert_eq!(ask(&mut connection, &sql), wanted, "seed {seed}, round {round}: {sql}");
            }
        }
    }
    let all = 60 * count as usize;
    assert!(compact > all / 6, "{compact} of {all} statements over compressed rows");
    assert!(rows > all, "{rows} rows");
}

#[test]
fn starts_found_by_an_index_are_joined_as_long_as_rows_are_few() {
    let mut connection = connection();
    for sql in [
        "CREATE TABLE v(id INTEGER PRIMARY KEY)",
        "CREATE TABLE e(a INT, b INT)",
        "CREATE INDEX e_a ON e(a, b)",
        "INSERT INTO v SELECT value FROM generate_series(0, 1999)",
        // Node 0 leads to 40 nodes, each to 40 others; node 1000 to one.
        "INSERT INTO e SELECT value / 40, 1 + value FROM generate_series(0, 1639)",
        "INSERT INTO e VALUES (1000, 1001), (1001, 1002)",
    ] {
        execute(&mut connection, sql);
    }
    let sql = "CREATE PROPERTY GRAPH g VERTEX TABLES (v) EDGE TABLES
        (e SOURCE KEY (a) REFERENCES v (id) DESTINATION KEY (b) REFERENCES v (id))";
    define(&mut connection, sql).unwrap();
    for pattern in ["(a WHERE a.id = {})->(b)->(c)", "ANY SHORTEST (a WHERE a.id = {})->*(c)"] {
        let clause = format!("GRAPH_TABLE (g MATCH {pattern} COLUMNS (c.id AS c))");
        for (asked, start, wanted) in [
            ("SELECT count(*), sum(c) FROM {}", 1000, ["1|1002", "3|3003"]),
            ("SELECT count(*), sum(c) FROM {}", 0, ["1600|1344800", "1641|1345620"]),
            ("SELECT count(*) FROM {}", 0, ["1600", "1641"]),
            ("SELECT count(DISTINCT c) FROM {}", 1000, ["1", "3"]),
        ] {
            let sql = asked.replacen("{}", &clause, 1).replace("{}", &start.to_string());
            assert!(is_compact(&mut connection, &sql), "{sql}");
            let wanted = wanted[usize::from(pattern.contains("ANY"))];
            for _ in 0..2 {
                assert_eq!(ask(&mut connection, &sql), [wanted], "{sql}");
            }
        }
        // The next pattern begins without a snapshot.
        execute(&mut connection, "UPDATE e SET b = b");
    }
}

#[test]
fn the_graph_of_cypher_is_matched_over_compressed_rows() {
    let graph = crate::SqliteGraph::new(connection());
    let text =
        "CREATE (a:A {x: 1})-[:R]->(b:B {x: 2})-[:R]->(c:A:B {x: 3})-[:S]->(a), (b)-[:R]->(b)";
    cypher(&graph, text).unwrap();
    let mut connection = graph.into_connection();
    register(&mut connection);
    for (pattern, wanted) in [
        ("(a)->(b)->(c) COLUMNS (1 AS one)", "6"),
        ("(a)-[:R]->(b)-[:R]->(c) COLUMNS (1 AS one)", "4"),
        ("(a IS A)-[:R]->(b IS B)-[:R]->(c IS A & B) COLUMNS (1 AS one)", "1"),
        ("TRAIL (a)-[:R]->(b)-[:R]->(c) COLUMNS (1 AS one)", "3"),
        ("(a)-[]-(b)-[]-(c)-[]-(a) COLUMNS (1 AS one)", "13"),
    ] {
        let sql = format!("SELECT count(*) FROM GRAPH_TABLE (_graph MATCH {pattern})");
        assert!(is_compact(&mut connection, &sql), "{sql}");
        let join = ask(&mut connection, &format!("{sql} WHERE 1"));
        assert_eq!(ask(&mut connection, &sql), join, "{sql}");
        assert_eq!(join, [wanted], "{sql}");
    }
    // An edge whose node is gone matches nothing, in an open transaction as well.
    execute(&mut connection, "BEGIN");
    execute(&mut connection, "DELETE FROM _graph_node WHERE properties ->> '$.x' = 3");
    let sql = "SELECT count(*) FROM GRAPH_TABLE (_graph MATCH (a)->(b)->(c) COLUMNS (1 AS one))";
    assert_eq!(ask(&mut connection, sql), ["2"]);
    execute(&mut connection, "ROLLBACK");
    assert_eq!(ask(&mut connection, sql), ["6"]);
    // Rows of the graph as Cypher in SQL counts them.
    let sql = "SELECT n FROM CYPHER ('MATCH (a)-->(b)-->(c) RETURN count(*) AS n')";
    assert_eq!(ask(&mut connection, sql), ["5"]);
}

#[test]
fn more_matches_than_a_count_holds_are_refused() {
    let mut connection = connection();
    for sql in [
        "CREATE TABLE v(id INTEGER PRIMARY KEY)",
        "CREATE TABLE e(a INT, b INT)",
        "INSERT INTO v VALUES (0)",
        "INSERT INTO e SELECT 0, 0 FROM generate_series(1, 1000)",
    ] {
        execute(&mut connection, sql);
    }
    let sql = "CREATE PROPERTY GRAPH g VERTEX TABLES (v) EDGE TABLES
        (e SOURCE KEY (a) REFERENCES v (id) DESTINATION KEY (b) REFERENCES v (id))";
    define(&mut connection, sql).unwrap();
    let count = |edges: usize| {
        let pattern = "(a)".to_owned() + &"->()".repeat(edges);
        format!("SELECT count(*) FROM GRAPH_TABLE (g MATCH {pattern} COLUMNS (1 AS one))")
    };
    assert_eq!(ask(&mut connection, &count(6)), ["1000000000000000000"]);
    assert!(refused(&mut connection, &count(7)).contains("2^63"));
    let rows = count(7).replace("count(*)", "id").replace("1 AS one", "a.id");
    assert!(refused(&mut connection, &rows).contains("2^63"));
}

/// A connection with a graph of two vertex tables, three edge tables, dangling edges and keys that
/// are NULL, 0, texts and reals.
fn tangled(random: &mut Random) -> Connection {
    let mut connection = connection();
    for sql in [
        "CREATE TABLE v(id INTEGER PRIMARY KEY, x INT, name TEXT COLLATE NOCASE)",
        "CREATE TABLE w(k TEXT PRIMARY KEY, x INT)",
        "CREATE TABLE e(a INT, b INT)",
        "CREATE TABLE f(a, b)",
        "CREATE TABLE h(a INT, k TEXT)",
    ] {
        execute(&mut connection, sql);
    }
    let names = ["'Ada'", "'ada'", "'BOB'", "NULL"];
    let count = 1 + random.place(5);
    for id in 0..count {
        let (x, name) = (random.place(3), random.pick(&names));
        execute(&mut connection, &format!("INSERT INTO v VALUES ({id}, {x}, {name})"));
    }
    for k in 0..random.place(3) {
        execute(&mut connection, &format!("INSERT INTO w VALUES ('k{k}', {})", random.place(3)));
    }
    change(&mut connection, random, count);
    let sql = "CREATE PROPERTY GRAPH g VERTEX TABLES (v LABEL v LABEL node PROPERTIES (id, x),
        w LABEL w LABEL node PROPERTIES (x)) EDGE TABLES (
        e SOURCE KEY (a) REFERENCES v (id) DESTINATION KEY (b) REFERENCES v (id) LABEL e,
        f SOURCE KEY (a) REFERENCES v (id) DESTINATION KEY (b) REFERENCES v (id) LABEL f,
        h SOURCE KEY (a) REFERENCES v (id) DESTINATION KEY (k) REFERENCES w (k) LABEL h)";
    define(&mut connection, sql).unwrap();
    connection
}

/// Inserts and removes edges.
fn change(connection: &mut Connection, random: &mut Random, count: usize) {
    for _ in 0..4 + random.place(12) {
        let key = |random: &mut Random| match random.place(12) {
            0 => "NULL".to_owned(),
            1 => "99".to_owned(),
            2 => format!("'{}'", random.place(count)),
            3 => format!("{}.0", random.place(count)),
            _ => random.place(count).to_string(),
        };
        let (a, b) = (key(random), key(random));
        let sql = match random.place(4) {
            0 => format!("INSERT INTO f VALUES ({a}, {b})"),
            1 => format!("INSERT INTO h VALUES ({a}, 'k{}')", random.place(3)),
            _ => format!("INSERT INTO e VALUES ({a}, {b})"),
        };
        execute(connection, &sql);
    }
    if random.place(3) == 0 {
        let sql = format!("DELETE FROM e WHERE a = {}", random.place(count));
        execute(connection, &sql);
    }
}

/// The text of a pattern of one or two paths, perhaps with cycles.
fn random_match(random: &mut Random) -> String {
    let mut text = String::new();
    let names = 1 + random.place(4);
    let node = |random: &mut Random| {
        let name = format!("n{}", random.place(names));
        let labels = ["", "", "", " IS v", " IS v", " IS v", " IS w", " IS node", " IS v|w"];
        let label = random.pick(&labels);
        let filter = match random.place(16) {
            0 => format!(" WHERE {name}.x = {}", random.place(3)),
            1 => format!(" WHERE {name}.x > ?1"),
            2 => format!(" WHERE {name}.x IN (0, 2) AND NOT {name}.x IS NULL"),
            _ => String::new(),
        };
        format!("({name}{label}{filter})")
    };
    let paths = 1 + random.place(5) / 4;
    // Most patterns have edges that compressed rows tell apart.
    let edges: &[&str] =
        random.pick(&[&[":e"][..], &[""], &[":e", ":f", ":h"], &[":e|f", ":!h", ""]]);
    let directions = [("-[", "]->"), ("<-[", "]-"), ("-[", "]->"), ("-[", "]-")];
    let directions = &directions[..random.pick(&[2, 2, 4])];
    for path in 0..paths {
        text.push_str(if path > 0 { ", " } else { random.pick(&["", "", "DIFFERENT EDGES "]) });
        text.push_str(random.pick(&["", "", "", "TRAIL ", "ACYCLIC ", "SIMPLE "]));
        text.push_str(&node(random));
        for _ in 0..1 + random.place(3) {
            let (label, (left, right)) = (random.pick(edges), random.pick(directions));
            let filter = match random.place(8) {
                0 => format!("k{0}{label} WHERE k{0}.a > 0", text.len()),
                1 => format!("k{0}{label} WHERE k{0}.a IN (?1, 0)", text.len()),
                _ => label.to_owned(),
            };
            text.push_str(&format!("{left}{filter}{right}"));
            text.push_str(&node(random));
        }
    }
    // Nodes 0 to 3 that stand somewhere are shown.
    let shown: Vec<usize> = (0..4).filter(|at| text.contains(&format!("(n{at}"))).collect();
    let filter = match random.place(6) {
        0 => format!(" WHERE n{0}.x = 1", shown[0]),
        1 => format!(" WHERE n{}.x <= n{}.x AND 1", shown[0], shown[shown.len() - 1]),
        _ => String::new(),
    };
    let columns: Vec<String> = shown.iter().map(|at| format!("n{at}.x AS x{at}")).collect();
    let first = format!("n{}.x + 1 AS y", shown[0]);
    format!("{text}{filter} COLUMNS ({}, {first})", columns.join(", "))
}

#[test]
fn compressed_rows_have_the_rows_of_the_join() {
    let count: u64 = std::env::var("SHOAL_GRAPHS_RANDOM").map_or(10, |text| text.parse().unwrap());
    let (mut compact, mut rows) = (0, 0);
    for seed in 0..count {
        let mut random = Random::seeded(seed);
        let mut connection = tangled(&mut random);
        for round in 0..12 {
            // Within a transaction, behind its changes, and when they are undone.
            match round {
                4 => execute(&mut connection, "BEGIN"),
                5 | 6 => change(&mut connection, &mut random, 3),
                8 => execute(&mut connection, "ROLLBACK"),
                9 => change(&mut connection, &mut random, 3),
                _ => {}
            }
            let clause = format!("GRAPH_TABLE (g MATCH {})", random_match(&mut random));
            let x = format!("x{}", clause.split("AS x").nth(1).unwrap().chars().next().unwrap());
            for asked in [
                "SELECT count(*) FROM {}".to_owned(),
                format!("SELECT {x}, count(*), sum({x}), min(y) FROM {{}} GROUP BY {x}"),
                format!("SELECT DISTINCT {x} FROM {{}}"),
                "SELECT * FROM {}".to_owned(),
            ] {
                let sql = asked.replace("{}", &clause).replace("?1", "1");
                let join = sql.replace(&clause.replace("?1", "1"), "{}");
                let join = match join.split_once("{}") {
                    Some((before, behind)) => {
                        format!("{before}{} WHERE 1 {behind}", clause.replace("?1", "1"))
                    }
                    None => panic!("{sql}"),
                };
                let wanted = match try_ask(&mut connection, &join) {
                    // Tables to choose from, too many of them.
                    Err(error) if error.to_string().contains("labels make it less") => continue,
                    wanted => wanted.unwrap(),
                };
                assert!(!is_compact(&mut connection, &join), "{join}");
                compact += usize::from(is_compact(&mut connection, &sql));
                rows +=
                    if asked.contains('*') && !asked.contains("count") { wanted.len() } else { 0 };
                assert_eq!(ask(&mut connection, &sql), wanted, "seed {seed}, round {round}: {sql}");
            }
        }
    }
    let all = 48 * count as usize;
    assert!(compact > all / 8, "{compact} of {all} statements over compressed rows");
    assert!(rows > count as usize, "{rows} rows");
}
