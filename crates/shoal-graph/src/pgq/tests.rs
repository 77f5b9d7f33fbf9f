//! `GRAPH_TABLE` beside plain SQL and beside a naive enumeration of walks.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;

use shoal_sql::{Connection, Value};
use shoal_store::Store;
use shoal_testkit::Random;

use super::tables::Reads;
use super::{define, is_definition, register};

mod compact;
mod followed;

const SOCIAL: &str = "CREATE PROPERTY GRAPH social
  VERTEX TABLES (
    person LABEL person PROPERTIES (name, born AS year),
    place KEY (country, city) LABEL place PROPERTIES ALL COLUMNS EXCEPT (note) LABEL spot NO PROPERTIES)
  EDGE TABLES (
    knows SOURCE KEY (a) REFERENCES person (id) DESTINATION KEY (b) REFERENCES person (id),
    lives SOURCE person DESTINATION KEY (country, city) REFERENCES place LABEL lives_in NO PROPERTIES)";

fn connection() -> Connection {
    let mut connection = Connection::open(Store::memory()).unwrap();
    register(&mut connection);
    connection
}

fn social() -> Connection {
    let mut connection = connection();
    for sql in [
        "CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT, born INT, secret TEXT)",
        "CREATE TABLE place(country TEXT, city TEXT, note TEXT, PRIMARY KEY(country, city)) WITHOUT ROWID",
        "CREATE TABLE knows(a INT, b INT, since INT)",
        "CREATE TABLE lives(who INT REFERENCES person, country TEXT, city TEXT)",
        "INSERT INTO person VALUES (1, 'Ada', 1815, 's'), (2, 'Bob', 1950, 's'), (3, 'Cy', 1970, NULL), (4, 'Di', 1990, 's')",
        "INSERT INTO place VALUES ('no', 'Oslo', 'x'), ('no', 'Voss', 'y'), ('se', 'Lund', 'z')",
        "INSERT INTO knows VALUES (1, 2, 2001), (2, 3, 2002), (3, 1, 2003), (3, 4, 2004), (4, 4, 2005), (1, 2, 2006)",
        "INSERT INTO lives VALUES (1, 'no', 'Oslo'), (2, 'no', 'Oslo'), (3, 'no', 'Voss'), (4, 'se', 'Lund'), (4, 'dk', 'Ry')",
    ] {
        execute(&mut connection, sql);
    }
    assert!(is_definition(SOCIAL));
    define(&mut connection, SOCIAL).unwrap();
    connection
}

fn execute(connection: &mut Connection, sql: &str) {
    let mut statement = connection.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    connection.execute(&mut statement).unwrap();
}

fn try_ask(connection: &mut Connection, sql: &str) -> Result<Vec<String>, shoal_sql::Error> {
    let mut found = Vec::new();
    connection.rows(sql, &[], &mut |row| {
        let words: Vec<String> = row
            .iter()
            .map(|value| match value {
                Value::Null => "NULL".to_owned(),
                Value::Text(text) => String::from_utf8_lossy(text).into_owned(),
                Value::Int(number) => number.to_string(),
                other => format!("{other:?}"),
            })
            .collect();
        found.push(words.join("|"));
        Ok(())
    })?;
    found.sort();
    Ok(found)
}

fn ask(connection: &mut Connection, sql: &str) -> Vec<String> {
    try_ask(connection, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

/// The rows of a query of openCypher, or the error's message.
fn cypher(graph: &dyn crate::Graph, query: &str) -> Result<Vec<String>, String> {
    let environment = crate::Environment {
        parameters: &crate::Map::new(),
        procedures: &crate::Algorithms,
        now_nanos: 0,
        seed: 1,
        is_over: &|| false,
        memory_max: 1 << 26,
    };
    let mut rows = Vec::new();
    crate::run(graph, query, &environment, &mut |_| Ok(()), &mut |row| {
        rows.push(row.iter().map(ToString::to_string).collect::<Vec<_>>().join("|"));
        Ok(true)
    })
    .map(|()| rows)
    .map_err(|error| error.to_string())
}

fn refused(connection: &mut Connection, sql: &str) -> String {
    match try_ask(connection, sql) {
        Ok(rows) => panic!("{sql} gives {rows:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn patterns_are_joins() {
    let mut connection = social();
    for (pattern, rows) in [
        (
            "MATCH (a IS person)-[k IS knows]->(b IS person) COLUMNS (a.name AS x, b.name AS y, k.since)",
            "Ada|Bob|2001 Ada|Bob|2006 Bob|Cy|2002 Cy|Ada|2003 Cy|Di|2004 Di|Di|2005",
        ),
        (
            "MATCH (a:person WHERE a.year > 1960)<-[k]-(b) COLUMNS (a.name AS x, b.name AS y)",
            "Cy|Bob Di|Cy Di|Di",
        ),
        // Any direction: a loop once.
        (
            "MATCH (a:person)-[k:knows]-(b:person) WHERE a.name = 'Di' COLUMNS (b.name AS y)",
            "Cy Di",
        ),
        (
            "MATCH (a)-[:lives_in]->(p:place) COLUMNS (a.name AS x, p.city)",
            "Ada|Oslo Bob|Oslo Cy|Voss Di|Lund",
        ),
        (
            "MATCH (a)-[:lives_in]->(p)<-[:lives_in]-(b), (a)-[:knows]->(b) COLUMNS (a.name AS x, b.name AS y)",
            "Ada|Bob Ada|Bob Di|Di",
        ),
        // Tables without the property give NULL.
        (
            "MATCH (a) COLUMNS (a.name AS x, a.city AS y)",
            "Ada|NULL Bob|NULL Cy|NULL Di|NULL NULL|Lund NULL|Oslo NULL|Voss",
        ),
        (
            "MATCH (a IS person|spot WHERE a IS LABELED spot) COLUMNS (a.city AS y)",
            "Lund Oslo Voss",
        ),
        ("MATCH (a IS !person & %) COLUMNS (a.city AS y)", "Lund Oslo Voss"),
        (
            "MATCH (a)-[k:knows]->(a) COLUMNS (element_id(a) AS x, labels(a) AS y)",
            "0/4|[\"person\"]",
        ),
        (
            "MATCH p = (a WHERE a.name = 'Ada')->(b)->(c) WHERE SAME(c, a) OR c.name = 'Cy' \
          COLUMNS (path_length(p) AS n, vertices(p) AS v)",
            "2|[\"0/1\",\"0/2\",\"0/3\"] 2|[\"0/1\",\"0/2\",\"0/3\"]",
        ),
        (
            "MATCH TRAIL (a)-[x:knows]->(b)-[y:knows]->(c) WHERE a.name = 'Di' COLUMNS (c.name AS z)",
            "",
        ),
        ("MATCH (a)-[x:knows]->(b)-[y:knows]->(c) WHERE a.name = 'Di' COLUMNS (c.name AS z)", "Di"),
        (
            "MATCH (a)-[k:knows]-(b) WHERE a IS SOURCE OF k AND NOT b IS DESTINATION OF k COLUMNS (1 AS z)",
            "",
        ),
        ("MATCH (a)-[k:nosuch]->(b) COLUMNS (1 AS z)", ""),
    ] {
        let sql = format!("SELECT * FROM GRAPH_TABLE (social {pattern})");
        let wanted: Vec<&str> = rows.split_whitespace().collect();
        assert_eq!(ask(&mut connection, &sql), wanted, "{pattern}");
    }
    let sql = "SELECT g.y, count(*) FROM GRAPH_TABLE (social MATCH (a)-[:knows]->(b) \
               COLUMNS (b.name AS y)) AS g JOIN person ON person.name = g.y GROUP BY 1";
    assert_eq!(ask(&mut connection, sql), ["Ada|1", "Bob|2", "Cy|1", "Di|2"]);
    // A view keeps SQL that other programs read.
    execute(
        &mut connection,
        "CREATE VIEW friends AS SELECT * FROM GRAPH_TABLE (social \
        MATCH (a)-[:knows]->(b) COLUMNS (a.name AS x, b.name AS y))",
    );
    assert_eq!(ask(&mut connection, "SELECT y FROM friends WHERE x = 'Bob'"), ["Cy"]);
}

#[test]
fn paths_are_walked() {
    let mut connection = social();
    for (pattern, rows) in [
        (
            "MATCH (a WHERE a.name = 'Ada')-[k:knows]->{1,2}(b) COLUMNS (b.name AS y, count(k) AS n, sum(k.since) AS s)",
            "Bob|1|2001 Bob|1|2006 Cy|2|4003 Cy|2|4008",
        ),
        (
            "MATCH (a WHERE a.name = 'Ada')-[k:knows]->{0}(b) COLUMNS (b.name AS y, count(k) AS n)",
            "Ada|0",
        ),
        ("MATCH (a WHERE a.name = 'Ada')-[:knows]->?(b) COLUMNS (b.name AS y)", "Ada Bob Bob"),
        (
            "MATCH p = ANY SHORTEST (a WHERE a.name = 'Ada')-[:knows]->+(b) COLUMNS (b.name AS y, path_length(p) AS n)",
            "Ada|3 Bob|1 Cy|2 Di|3",
        ),
        (
            "MATCH p = ALL SHORTEST (a WHERE a.name = 'Ada')-[:knows]->*(b) COLUMNS (b.name AS y, path_length(p) AS n)",
            "Ada|0 Bob|1 Bob|1 Cy|2 Cy|2 Di|3 Di|3",
        ),
        (
            "MATCH p = SHORTEST 3 (a WHERE a.name = 'Di')-[:knows]->+(b) COLUMNS (path_length(p) AS n)",
            "1 2 3",
        ),
        (
            "MATCH p = SHORTEST 2 GROUPS (a WHERE a.name = 'Ada')-[:knows]->+(b WHERE b.name = 'Bob') COLUMNS (path_length(p) AS n)",
            "1 1 4 4 4 4",
        ),
        (
            "MATCH ACYCLIC (a WHERE a.name = 'Bob')-[:knows]->+(b) COLUMNS (b.name AS y)",
            "Ada Cy Di",
        ),
        (
            "MATCH SIMPLE (a WHERE a.name = 'Bob')-[:knows]->+(b) COLUMNS (b.name AS y)",
            "Ada Bob Bob Cy Di",
        ),
        (
            "MATCH p = TRAIL (a WHERE a.name = 'Cy')-[:knows]->+(b WHERE b.name = 'Di') COLUMNS (path_length(p) AS n)",
            "1 2 4 4 5 5",
        ),
        (
            "MATCH (a WHERE a.name = 'Ada')((x)-[k:knows]->(y)-[j:knows]->(z) WHERE j.since > ?1){1,2}(b) \
          COLUMNS (b.name AS q, count(y) AS n, group_concat(y.name, '-') AS ys, max(j.since) AS m)",
            "Bob|2|Bob-Ada|2006 Bob|2|Bob-Ada|2006 Cy|1|Bob|2002 Cy|1|Bob|2002 Di|2|Bob-Di|2005 Di|2|Bob-Di|2005",
        ),
    ] {
        let sql = format!("SELECT * FROM GRAPH_TABLE (social {pattern})");
        let sql = sql.replace("?1", "2001");
        let wanted: Vec<&str> = rows.split_whitespace().collect();
        assert_eq!(ask(&mut connection, &sql), wanted, "{pattern}");
    }
    // Parameters reach the rounds.
    let mut found = Vec::new();
    let sql = "SELECT y FROM GRAPH_TABLE (social MATCH (a WHERE a.name = ?1)\
               -[k:knows WHERE k.since >= ?2]->{1,9}(b) COLUMNS (b.name AS y)) ORDER BY 1";
    connection
        .rows(sql, &[Value::text("Bob"), Value::Int(2002)], &mut |row| {
            found.push(row[0].clone());
            Ok(())
        })
        .unwrap();
    assert_eq!(found.first(), Some(&Value::text("Ada")));
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut connection = social();
    for (sql, words) in [
        (
            "SELECT * FROM GRAPH_TABLE (nosuch MATCH (a) COLUMNS (1 AS x))",
            "no such property graph: nosuch",
        ),
        (
            "SELECT * FROM GRAPH_TABLE (social MATCH (a) COLUMNS (a.secret AS x))",
            "has a property secret",
        ),
        ("SELECT * FROM GRAPH_TABLE (social MATCH (a) COLUMNS (a.name || 'x'))", "AS and a name"),
        ("SELECT * FROM GRAPH_TABLE (social MATCH (a)-[k]->*(b) COLUMNS (1 AS x))", "upper bound"),
        (
            "SELECT * FROM GRAPH_TABLE (social MATCH (a)-[k]->{1,2}(b) COLUMNS (k.since AS x))",
            "several rounds",
        ),
        (
            "SELECT * FROM GRAPH_TABLE (social MATCH (a)-[k]->(b COLUMNS (1 AS x))",
            "a closing parenthesis is missing",
        ),
        (
            "SELECT * FROM GRAPH_TABLE (social MATCH (a)-[k]->{2,1}(b) COLUMNS (1 AS x))",
            "quantifier",
        ),
        (
            "SELECT * FROM GRAPH_TABLE (social MATCH (a)-[a]->(b) COLUMNS (1 AS x))",
            "something else",
        ),
        (
            "SELECT * FROM GRAPH_TABLE (social MATCH (a) WHERE a.name = ? COLUMNS (1 AS x))",
            "?1, :name",
        ),
        ("SELECT * FROM GRAPH_TABLE (social MATCH (a)", "a closing parenthesis is missing"),
    ] {
        let message = refused(&mut connection, sql);
        assert!(message.contains(words), "{sql}: {message}");
    }
    for (sql, words) in [
        (SOCIAL, "already exists"),
        ("CREATE PROPERTY GRAPH g VERTEX TABLES (nosuch)", "there is no table nosuch"),
        ("CREATE PROPERTY GRAPH g VERTEX TABLES (person PROPERTIES (age))", "no column age"),
        ("CREATE PROPERTY GRAPH g VERTEX TABLES (person, person)", "two tables person"),
        ("CREATE PROPERTY GRAPH g VERTEX TABLES (person PROPERTIES (born + 1))", "AS and a name"),
        (
            "CREATE PROPERTY GRAPH g VERTEX TABLES (person PROPERTIES (age + 1 AS x))",
            "no such column",
        ),
        (
            "CREATE PROPERTY GRAPH g VERTEX TABLES (person PROPERTIES (place.city || 'x' AS x))",
            "its own row",
        ),
        (
            "CREATE PROPERTY GRAPH g VERTEX TABLES (person PROPERTIES (count(born) AS x))",
            "aggregate",
        ),
        (
            "CREATE PROPERTY GRAPH g VERTEX TABLES (person PROPERTIES (born + ?1 AS x))",
            "parameters",
        ),
        (
            "CREATE PROPERTY GRAPH g VERTEX TABLES (person PROPERTIES ((SELECT 1) AS x))",
            "its own row",
        ),
        (
            "CREATE PROPERTY GRAPH g VERTEX TABLES (person) EDGE TABLES (knows SOURCE person DESTINATION person)",
            "no foreign key",
        ),
        ("CREATE PROPERTY GRAPH g VERTEX TABLES (person) extra", "the end of the statement"),
        ("DROP PROPERTY GRAPH g", "no such property graph"),
    ] {
        let message = define(&mut connection, sql).unwrap_err().to_string();
        assert!(message.contains(words), "{sql}: {message}");
    }
    define(&mut connection, "CREATE PROPERTY GRAPH IF NOT EXISTS Social VERTEX TABLES (person)")
        .unwrap();
    define(&mut connection, "CREATE OR REPLACE PROPERTY GRAPH Social VERTEX TABLES (place)")
        .unwrap();
    let sql = "SELECT * FROM GRAPH_TABLE (social MATCH (a) COLUMNS (a.city))";
    assert_eq!(ask(&mut connection, sql).len(), 3);
    execute(&mut connection, "DROP TABLE place");
    let message = refused(&mut connection, sql);
    assert!(message.contains("there is no table place"), "{message}");
    define(&mut connection, "DROP PROPERTY GRAPH social").unwrap();
    define(&mut connection, "DROP PROPERTY GRAPH IF EXISTS social").unwrap();
}

#[test]
fn cypher_asks_tables_and_changes_them() {
    let mut connection = social();
    for (query, rows) in [
        (
            "MATCH (a:person {name: ''Ada''})-[:knows]->(b) RETURN b.name AS x, b.year + 1 AS y",
            "Bob|1951 Bob|1951",
        ),
        (
            "MATCH (a)-[:lives_in]->(p:spot) RETURN p.city AS c, count(*) AS n, labels(p) AS l",
            "Lund|1|[\"place\",\"spot\"] Oslo|2|[\"place\",\"spot\"] Voss|1|[\"place\",\"spot\"]",
        ),
        (
            "MATCH p = (:person {name: ''Ada''})-[:knows*2..3]->(b) RETURN b.name AS x, length(p) AS n",
            "Ada|3 Ada|3 Cy|2 Cy|2 Di|3 Di|3",
        ),
        (
            "MATCH (a)-[k]->(b) WHERE k.since = 2005 RETURN type(k) AS t, id(a) = id(b) AS s",
            "knows|1",
        ),
        ("MATCH (n) RETURN count(n) AS n", "7"),
        ("RETURN date(''2026-01-31'') AS d, [1, null] AS l", "2026-01-31|[1,null]"),
    ] {
        let sql = format!("SELECT * FROM CYPHER ('{query}', NULL, 'social') AS it");
        let wanted: Vec<&str> = rows.split_whitespace().collect();
        assert_eq!(ask(&mut connection, &sql), wanted, "{query}");
    }
    let sql = "SELECT p.id, it.x FROM person p, CYPHER('MATCH (a {name: $n})-[:knows]->(b) RETURN DISTINCT b.name AS x',
        json_object('n', 'Bob'), social) it WHERE p.name = it.x";
    assert_eq!(ask(&mut connection, sql), ["3|Cy"]);
    for (sql, words) in [
        ("SELECT * FROM CYPHER('MATCH (a) RETURN b', NULL, social)", "UndefinedVariable"),
        ("SELECT * FROM CYPHER('CREATE (a:person) RETURN a', NULL, social)", "shoal cypher"),
        ("SELECT * FROM CYPHER('RETURN $x AS x')", "the parameter $x is missing"),
        ("SELECT * FROM CYPHER('RETURN 1 AS x', 'no')", "JSON object"),
        ("SELECT * FROM CYPHER('RETURN 1 AS x', NULL, nosuch)", "no such property graph"),
        ("SELECT * FROM CYPHER(x)", "a text in quotes"),
    ] {
        let message = refused(&mut connection, sql);
        assert!(message.contains(words), "{sql}: {message}");
    }
    execute(&mut connection, "PRAGMA foreign_keys = on");
    let graph = crate::TablesGraph::new(connection, "social").unwrap();
    let run = |query: &str| cypher(&graph, query);
    let ok = |query: &str| run(query).unwrap_or_else(|error| panic!("{query}: {error}"));
    ok("CREATE (e:person {name: 'Ed', year: 2000})-[:knows {since: 7}]->(:person {name: 'Fi'})");
    assert_eq!(
        ok("MATCH (e {name: 'Ed'})-[k]->(f) RETURN f.name, f.year, k.since"),
        ["'Fi'|null|7"]
    );
    ok("MATCH (e {name: 'Ed'}) SET e.year = 2001, e.name = 'Edd'");
    assert_eq!(ok("MATCH (e:person) WHERE e.year = 2001 RETURN e.name"), ["'Edd'"]);
    ok("CREATE (:place:spot {country: 'is', city: 'Vik'})");
    ok("MATCH (e {name: 'Edd'}), (v {city: 'Vik'}) CREATE (e)-[:lives_in]->(v)");
    assert_eq!(ok("MATCH (e)-[:lives_in]->(v {city: 'Vik'}) RETURN e.name"), ["'Edd'"]);
    ok("MATCH (e {name: 'Edd'}) DETACH DELETE e");
    assert_eq!(ok("MATCH (e {name: 'Edd'}) RETURN e"), Vec::<String>::new());
    assert_eq!(ok("MERGE (f:person {name: 'Fi'}) RETURN f.name"), ["'Fi'"]);
    for (query, words) in [
        ("CREATE (:person {age: 3})", "no column for property age"),
        ("CREATE (:nosuch)", "no vertex table"),
        ("CREATE ()", "no vertex table"),
        ("MATCH (a:person), (b:place) CREATE (b)-[:knows]->(a)", "no edge table"),
        ("MATCH (a:person {name: 'Fi'}) SET a:place", "labels"),
        ("MATCH (a:person {name: 'Fi'}) SET a.name = [1]", "no number and no text"),
        ("MATCH (p:place {city: 'Vik'}) SET p.city = 'x'", "is the key"),
        ("MATCH (a:person {name: 'Ada'})-[l:lives_in]->() DELETE a", "DeleteConnectedNode"),
    ] {
        let message = run(query).unwrap_err();
        assert!(message.contains(words), "{query}: {message}");
    }
    graph.with_connection(|connection| {
        let rows = ask(connection, "SELECT name, born FROM person WHERE id > 4");
        assert_eq!(rows, ["Fi|NULL"]);
    });
}

#[test]
fn properties_are_expressions() {
    let mut connection = social();
    let sql = "CREATE PROPERTY GRAPH ages VERTEX TABLES (person AS human LABEL human PROPERTIES
        (id, upper(name) || '!' AS loud, CASE WHEN human.born < 1900 THEN 'old' ELSE CAST(born AS text) END AS age),
        place PROPERTIES (city || ', ' || \"country\" AS address))
      EDGE TABLES (knows SOURCE KEY (a) REFERENCES human (id) DESTINATION KEY (b) REFERENCES human (id)
        PROPERTIES (since - 2000 AS years))";
    define(&mut connection, sql).unwrap();
    let asked = "SELECT * FROM GRAPH_TABLE (ages MATCH (a WHERE a.age = 'old')-[k:knows]->(b)
        COLUMNS (a.loud AS x, b.age AS y, k.years * 2 AS z))";
    assert_eq!(ask(&mut connection, asked), ["ADA!|1950|12", "ADA!|1950|2"]);
    let sql = "SELECT * FROM GRAPH_TABLE (ages MATCH (p:place) COLUMNS (p.address))";
    assert_eq!(ask(&mut connection, sql), ["Lund, se", "Oslo, no", "Voss, no"]);
    let sql = "SELECT * FROM CYPHER ('MATCH (a)-[k]->(b {loud: \"CY!\"}) RETURN a.age AS x, k.years AS y',
        NULL, ages)";
    assert_eq!(ask(&mut connection, sql), ["1950|2"]);
    let sql = "SELECT node, cost FROM graph_shortest_paths('ages', 1, 'years')";
    assert_eq!(
        ask(&mut connection, sql),
        ["1|Real(0.0)", "2|Real(1.0)", "3|Real(3.0)", "4|Real(7.0)"]
    );
    // Names within expressions follow the columns, whoever renames them.
    execute(&mut connection, "ALTER TABLE person RENAME COLUMN born TO \"birth year\"");
    execute(&mut connection, "ALTER TABLE knows RENAME TO acquaintance");
    execute(&mut connection, "ALTER TABLE acquaintance RENAME COLUMN since TO \"from\"");
    assert_eq!(ask(&mut connection, asked), ["ADA!|1950|12", "ADA!|1950|2"]);
    let graph = crate::TablesGraph::new(connection, "ages").unwrap();
    let message = cypher(&graph, "MATCH (a {id: 1}) SET a.age = 3").unwrap_err();
    assert!(message.contains("is an expression"), "{message}");
}

#[test]
fn columns_of_expressions_may_be_named_as_the_words_of_sorting() {
    let mut connection = connection();
    for sql in [
        "CREATE TABLE item(id INTEGER PRIMARY KEY, desc TEXT, list INT, asc INT)",
        "CREATE TABLE part(a INT REFERENCES item, b INT REFERENCES item)",
        "INSERT INTO item VALUES (1, 'cup', 3, 4), (2, 'lid', 1, 2)",
        "INSERT INTO part VALUES (1, 2)",
    ] {
        execute(&mut connection, sql);
    }
    let sql = "CREATE PROPERTY GRAPH g VERTEX TABLES (item PROPERTIES (upper(desc) AS name, list - asc AS rest))
      EDGE TABLES (part SOURCE KEY (a) REFERENCES item (id) DESTINATION KEY (b) REFERENCES item (id))";
    define(&mut connection, sql).unwrap();
    // Two rows of the table are in sight: a column without its row would be ambiguous.
    let asked = "SELECT * FROM GRAPH_TABLE (g MATCH (a)->(b) COLUMNS (a.name AS x, b.name AS y, b.rest AS z))";
    assert_eq!(ask(&mut connection, asked), ["CUP|LID|-1"]);
    execute(&mut connection, "ALTER TABLE item RENAME COLUMN desc TO title");
    assert_eq!(ask(&mut connection, asked), ["CUP|LID|-1"]);
}

#[test]
fn algorithms_see_every_change() {
    let mut connection = social();
    let sql = "SELECT node, depth FROM graph_bfs('social', 1, '{\"type\": \"knows\"}')";
    let depths = ["1|0", "2|1", "3|2", "4|3"];
    for _ in 0..2 {
        assert_eq!(ask(&mut connection, sql), depths);
    }
    // Other parts of the graph are other snapshots.
    let weighted = "SELECT node, cost FROM graph_shortest_paths('social', 1, 'since', '{\"type\": \"knows\"}')";
    assert!(ask(&mut connection, weighted).contains(&"2|Real(2001.0)".to_owned()));
    let back = "SELECT node, depth FROM graph_bfs('social', 1, '{\"type\": \"knows\", \"direction\": \"in\"}')";
    assert_eq!(ask(&mut connection, back), ["1|0", "2|2", "3|1"]);
    execute(&mut connection, "INSERT INTO knows VALUES (1, 4, 2010)");
    assert_eq!(ask(&mut connection, sql), ["1|0", "2|1", "3|2", "4|1"]);
    // A transaction sees its own changes, and nobody does who took them back.
    execute(&mut connection, "BEGIN");
    execute(&mut connection, "DELETE FROM knows WHERE b = 4");
    assert_eq!(ask(&mut connection, sql), ["1|0", "2|1", "3|2"]);
    execute(&mut connection, "ROLLBACK");
    assert_eq!(ask(&mut connection, sql), ["1|0", "2|1", "3|2", "4|1"]);
    // A table of `temp` hides its namesake of `main`.
    execute(&mut connection, "CREATE TEMP TABLE knows AS SELECT * FROM main.knows WHERE b = 2");
    assert_eq!(ask(&mut connection, sql), ["1|0", "2|1"]);
    execute(&mut connection, "INSERT INTO temp.knows VALUES (2, 4, 0)");
    assert_eq!(ask(&mut connection, sql), ["1|0", "2|1", "4|2"]);
    execute(&mut connection, "DROP TABLE temp.knows");
    assert_eq!(ask(&mut connection, sql), ["1|0", "2|1", "3|2", "4|1"]);
    let again = SOCIAL.replace("CREATE", "CREATE OR REPLACE").replace("KEY (a)", "KEY (b)");
    define(&mut connection, &again.replacen("DESTINATION KEY (b)", "DESTINATION KEY (a)", 1))
        .unwrap();
    assert_eq!(ask(&mut connection, sql), ["1|0", "2|2", "3|1"]);
}

#[test]
fn ends_are_compared_as_in_sql() {
    let mut connection = connection();
    for sql in [
        "CREATE TABLE v(id INTEGER PRIMARY KEY, name TEXT UNIQUE)",
        "CREATE TABLE e(a, b, w REAL)",
        "CREATE TABLE n(a TEXT, b TEXT, w REAL)",
        "INSERT INTO v VALUES (0, 'zero'), (1, 'one'), (2, 'two'), (3, NULL)",
        // Numbers as texts and reals, NULL, and missing nodes.
        "INSERT INTO e VALUES (0, 1, 1), ('1', 2.0, 2), (2, NULL, 3), (2, 9, 4), (-1, 1, 5), (2, x'33', 6), ('x', 1, 7)",
        "INSERT INTO n VALUES ('two', 'zero', 8), ('two', 'nobody', 9), (NULL, 'one', 10)",
    ] {
        execute(&mut connection, sql);
    }
    let sql = "CREATE PROPERTY GRAPH g VERTEX TABLES (v) EDGE TABLES (
        e SOURCE KEY (a) REFERENCES v (id) DESTINATION KEY (b) REFERENCES v (id),
        n SOURCE KEY (a) REFERENCES v (name) DESTINATION KEY (b) REFERENCES v (name))";
    define(&mut connection, sql).unwrap();
    let sql = "SELECT node, cost FROM graph_shortest_paths('g', 0, 'w')";
    assert_eq!(ask(&mut connection, sql), ["0|Real(0.0)", "1|Real(1.0)", "2|Real(3.0)"]);
    let sql = "SELECT node, outgoing, incoming FROM graph_degree('g')";
    assert_eq!(ask(&mut connection, sql), ["0|1|1", "1|1|1", "2|1|1", "3|0|0"]);
    let sql = "SELECT * FROM GRAPH_TABLE (g MATCH (x)->(y) COLUMNS (x.id AS x, y.id AS y))";
    assert_eq!(ask(&mut connection, sql), ["0|1", "1|2", "2|0"]);
}

/// An edge: its place, its ends.
type Edges = Vec<(usize, usize)>;

/// All walks of 0 to `max` edges from a vertex, as vertices and edges.
fn walks(edges: &Edges, start: usize, max: usize) -> Vec<(Vec<usize>, Vec<usize>)> {
    let mut all = vec![(vec![start], Vec::new())];
    let mut from = 0;
    for _ in 0..max {
        let until = all.len();
        for at in from..until {
            for (edge, &(a, b)) in edges.iter().enumerate() {
                if all[at].0.last() == Some(&a) {
                    let (mut vertices, mut walked) = all[at].clone();
                    vertices.push(b);
                    walked.push(edge);
                    all.push((vertices, walked));
                }
            }
        }
        from = until;
    }
    all
}

fn is_set(list: &[usize]) -> bool {
    list.iter().enumerate().all(|(at, one)| !list[..at].contains(one))
}

/// The lengths of wanted paths by their last vertex, sorted.
fn naive(edges: &Edges, start: usize, mode: &str, (min, max): (usize, usize)) -> Vec<String> {
    let most = match mode {
        "" => max,
        // Longer than any shortest path that is wanted.
        _ => max.min(7),
    };
    let mut found: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (vertices, walked) in walks(edges, start, most) {
        if is_allowed(mode, &vertices, &walked) && walked.len() >= min && walked.len() <= max {
            found.entry(vertices[vertices.len() - 1]).or_default().push(walked.len());
        }
    }
    let mut rows = Vec::new();
    for (vertex, mut lengths) in found {
        lengths.sort_unstable();
        let least = lengths[0];
        match mode {
            "ANY SHORTEST" | "ANY" => lengths.truncate(1),
            "ALL SHORTEST" => lengths.retain(|length| *length == least),
            "SHORTEST 3" => lengths.truncate(3),
            "SHORTEST 2 GROUPS" => {
                let next = lengths.iter().find(|length| **length > least).copied().unwrap_or(least);
                lengths.retain(|length| *length <= next);
            }
            _ => {}
        }
        rows.extend(lengths.into_iter().map(|length| format!("{vertex}|{length}")));
    }
    rows.sort();
    rows
}

#[test]
fn random_graphs_have_the_paths_of_an_enumeration() {
    let count: u64 = std::env::var("SHOAL_GRAPHS_RANDOM").map_or(25, |text| text.parse().unwrap());
    for seed in 0..count {
        let mut random = Random::seeded(seed);
        let mut connection = connection();
        let vertices = 1 + random.place(4);
        let edges: Edges = (0..random.place(7))
            .map(|_| (random.place(vertices), random.place(vertices)))
            .collect();
        // Two tables of vertices, one without rowids, and edges of each pair of tables.
        execute(&mut connection, "CREATE TABLE v0(id INTEGER PRIMARY KEY)");
        execute(
            &mut connection,
            "CREATE TABLE v1(k TEXT, id INT, PRIMARY KEY(k, id)) WITHOUT ROWID",
        );
        let table = |vertex: usize| vertex % 2;
        for vertex in 0..vertices {
            let values = if table(vertex) == 0 { "" } else { "'k', " };
            execute(
                &mut connection,
                &format!("INSERT INTO v{} VALUES ({values}{vertex})", table(vertex)),
            );
        }
        let mut tables = Vec::new();
        for (a, b) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let name = format!("e{a}{b}");
            execute(&mut connection, &format!("CREATE TABLE {name}(a INT, b INT, k TEXT)"));
            for (from, to) in edges.iter().filter(|(x, y)| (table(*x), table(*y)) == (a, b)) {
                execute(&mut connection, &format!("INSERT INTO {name} VALUES ({from}, {to}, 'k')"));
            }
            let end = |at: usize, column: &str| match at {
                0 => format!("KEY ({column}) REFERENCES v0"),
                _ => format!("KEY (k, {column}) REFERENCES v1"),
            };
            tables.push(format!(
                "{name} SOURCE {} DESTINATION {} LABEL e PROPERTIES (a * 10 + {name}.b AS ends)",
                end(a, "a"),
                end(b, "b")
            ));
        }
        let sql = format!(
            "CREATE PROPERTY GRAPH g VERTEX TABLES \
             (v0 LABEL v PROPERTIES (id, CASE WHEN id = 0 THEN 'zero' ELSE id + 1 END AS next), \
             v1 LABEL v PROPERTIES (id, \"id\" + length(k) AS next)) EDGE TABLES ({})",
            tables.join(", ")
        );
        define(&mut connection, &sql).unwrap();
        let start = random.place(vertices);
        for mode in [
            "",
            "TRAIL",
            "ACYCLIC",
            "SIMPLE",
            "ANY SHORTEST",
            "ANY",
            "ALL SHORTEST",
            "SHORTEST 3",
            "SHORTEST 2 GROUPS",
        ] {
            let min = random.place(3);
            let max = min + random.place(3);
            let unbounded =
                !mode.is_empty() && mode != "SHORTEST 3" && mode != "SHORTEST 2 GROUPS" && min < 2;
            let (quantifier, bounds) = match unbounded && random.place(2) == 0 {
                true => (format!("{{{min},}}"), (min, 7)),
                false => (format!("{{{min},{max}}}"), (min, max)),
            };
            let sql = format!(
                "SELECT * FROM GRAPH_TABLE (g MATCH p = {mode} (x WHERE x.id = {start})-[e:e]->{quantifier}(y) \
                 COLUMNS (y.id AS y, path_length(p) AS n))"
            );
            let wanted = naive(&edges, start, mode, bounds);
            assert_eq!(ask(&mut connection, &sql), wanted, "seed {seed}: {edges:?}: {sql}");
        }
        // A pattern without quantifiers, each edge in a direction of its own.
        let arrows = ["->", "<-", "-"];
        let chosen: Vec<&str> = (0..1 + random.place(3)).map(|_| random.pick(&arrows)).collect();
        let pattern: String = chosen
            .iter()
            .enumerate()
            .map(|(at, arrow)| match *arrow {
                "->" => format!("-[:e]->(n{})", at + 1),
                "<-" => format!("<-[:e]-(n{})", at + 1),
                _ => format!("-[:e]-(n{})", at + 1),
            })
            .collect();
        let mut rows: Vec<Vec<usize>> = (0..vertices).map(|vertex| vec![vertex]).collect();
        for arrow in &chosen {
            let mut next = Vec::new();
            for row in rows {
                let last = row[row.len() - 1];
                for &(a, b) in &edges {
                    let mut ends = Vec::new();
                    ends.extend((*arrow != "<-" && a == last).then_some(b));
                    ends.extend(
                        (*arrow != "->" && b == last && (a != b || *arrow == "<-")).then_some(a),
                    );
                    next.extend(ends.into_iter().map(|end| [&row[..], &[end]].concat()));
                }
            }
            rows = next;
        }
        let mut wanted: Vec<String> = rows
            .iter()
            .map(|row| row.iter().map(ToString::to_string).collect::<Vec<_>>().join("|"))
            .collect();
        wanted.sort();
        let columns: Vec<String> =
            (0..=chosen.len()).map(|at| format!("n{at}.id AS c{at}")).collect();
        let sql = format!(
            "SELECT * FROM GRAPH_TABLE (g MATCH (n0){pattern} COLUMNS ({}))",
            columns.join(", ")
        );
        assert_eq!(ask(&mut connection, &sql), wanted, "seed {seed}: {edges:?}: {sql}");
        several_steps(&mut connection, &edges, start, &mut random);
        different_edges(&mut connection, &edges);
    }
}

/// A prefix over two quantified steps and one of a single edge, beside the enumeration.
fn several_steps(connection: &mut Connection, edges: &Edges, start: usize, random: &mut Random) {
    let next = |vertex: usize| match vertex {
        0 => "zero".to_owned(),
        vertex => (vertex + 1).to_string(),
    };
    for mode in ["", "TRAIL", "ACYCLIC", "SIMPLE"] {
        let mut bounds = || {
            let min = random.place(2);
            (min, min + random.place(2))
        };
        let ((a, b), (c, d)) = (bounds(), bounds());
        let mut wanted = Vec::new();
        for (vertices, walked) in walks(edges, start, b + 1 + d) {
            if !is_allowed(mode, &vertices, &walked) {
                continue;
            }
            for before in a..=b {
                let behind = walked.len().checked_sub(before + 1);
                if !behind.is_some_and(|behind| (c..=d).contains(&behind)) {
                    continue;
                }
                let sum: usize =
                    walked[..before].iter().map(|at| edges[*at].0 * 10 + edges[*at].1).sum();
                let sum = if before == 0 { "NULL".to_owned() } else { sum.to_string() };
                let (middle, last) = (vertices[before], vertices[vertices.len() - 1]);
                wanted.push(format!("{middle}|{}|{}|{sum}", next(last), walked.len()));
            }
        }
        wanted.sort();
        let sql = format!(
            "SELECT * FROM GRAPH_TABLE (g MATCH p = {mode} (x WHERE x.id = {start})-[e:e]->{{{a},{b}}}(m)\
             -[:e]->(y)-[:e]->{{{c},{d}}}(z) \
             COLUMNS (m.id AS m, z.next AS z, path_length(p) AS n, sum(e.ends) AS s))"
        );
        assert_eq!(ask(connection, &sql), wanted, "{edges:?}: {sql}");
    }
}

fn is_allowed(mode: &str, vertices: &[usize], walked: &[usize]) -> bool {
    let closed = vertices.len() > 1 && vertices.first() == vertices.last();
    match mode {
        "TRAIL" => is_set(walked),
        "ACYCLIC" => is_set(vertices),
        "SIMPLE" => is_set(&vertices[usize::from(closed)..]),
        _ => true,
    }
}

/// `DIFFERENT EDGES` over two paths, without quantifiers and with one.
fn different_edges(connection: &mut Connection, edges: &Edges) {
    for (quantifier, most) in [("", 1), ("{1,2}", 2)] {
        let mut wanted = Vec::new();
        for (first, &(x, y)) in edges.iter().enumerate() {
            for (vertices, walked) in walks(edges, y, most) {
                if !walked.is_empty() && is_set(&walked) && !walked.contains(&first) {
                    wanted.push(format!("{x}|{y}|{}", vertices[vertices.len() - 1]));
                }
            }
        }
        wanted.sort();
        let sql = format!(
            "SELECT * FROM GRAPH_TABLE (g MATCH DIFFERENT EDGES (x)-[:e]->(y), (y)-[f:e]->{quantifier}(z) \
             COLUMNS (x.id AS x, y.id AS y, z.id AS z))"
        );
        assert_eq!(ask(connection, &sql), wanted, "{edges:?}: {sql}");
    }
}
