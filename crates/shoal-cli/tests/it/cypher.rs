//! `shoal cypher`: a graph written, asked, printed in each form, read by `shoal sql`.

use crate::{shoal, shoal_with, sqlite3};

const TRIPS: &str = "CREATE (oslo:City {name: 'Oslo'}), (bergen:City {name: 'Bergen'}), \
                     (voss:City {name: 'Voss', since: date('1858-01-01')}), \
                     (oslo)-[:TRAIN {hours: 5.5}]->(voss), (voss)-[:TRAIN {hours: 1.25}]->(bergen)";

#[test]
fn a_graph_is_written_and_asked() {
    let dir = tempfile::tempdir().unwrap();
    let call = |args: &[&str]| {
        let mut all = vec!["cypher", "trips.db"];
        all.extend(args);
        shoal(dir.path(), &all)
    };
    // A query that reads makes no file.
    assert_eq!(call(&["MATCH (n) RETURN count(*) AS n"]).ok(), "0\n");
    assert!(!dir.path().join("trips.db").exists());
    assert_eq!(call(&[TRIPS]).ok(), "");
    let names = "MATCH (a:City)-[t:TRAIN]->(b) RETURN a.name AS a, b.name AS b, t.hours AS hours ORDER BY hours";
    assert_eq!(
        call(&["--format", "csv", names]).ok(),
        "a,b,hours\nVoss,Bergen,1.25\nOslo,Voss,5.5\n"
    );
    assert_eq!(
        call(&["--format", "json", "MATCH (c {name: 'Voss'}) RETURN c"]).ok(),
        "[\n{\"c\":{\"id\":3,\"labels\":[\"City\"],\"properties\":{\"name\":\"Voss\",\"since\":\
         {\"$date\":\"1858-01-01\"}}}}\n]\n"
    );
    let hops =
        "MATCH p = ({name: $from})-[:TRAIN*]->(b) RETURN length(p) AS l, b.name AS b ORDER BY l";
    assert_eq!(
        call(&["--format", "ndjson", "--param", "from=Oslo", hops]).ok(),
        "{\"l\":1,\"b\":\"Voss\"}\n{\"l\":2,\"b\":\"Bergen\"}\n"
    );
    let failed = call(&["MATCH (a) RETURN b"]).error();
    assert!(
        failed.contains("UndefinedVariable")
            && failed.contains("MATCH (a) RETURN b\n                 ^"),
        "{failed}"
    );
    // Relationships that are read are followed; others are compressed rows.
    let plan = call(&["EXPLAIN MATCH (a:City)-[t:TRAIN]->(b) RETURN b, t"]).ok();
    assert!(
        plan.contains("nodes by label (a:City)") && plan.contains("expand (a:City)-[:TRAIN]->(b)"),
        "{plan}"
    );
    let plan = call(&["EXPLAIN MATCH (a:City)-[:TRAIN]->(b) RETURN b"]).ok();
    assert!(plan.contains("multiway join over compressed rows"), "{plan}");
    let failed = call(&["MATCH (n:City) DELETE n"]).error();
    assert!(failed.contains("DETACH DELETE"), "{failed}");
    let sql = "SELECT properties ->> '$.name' FROM _graph_node ORDER BY id";
    let ours = shoal(dir.path(), &["sql", "--format", "list", "trips.db", sql]).ok();
    assert!(ours.ends_with("Oslo\nBergen\nVoss\n"), "{ours}");
    if let Some(theirs) = sqlite3(
        dir.path(),
        &["trips.db", "PRAGMA integrity_check; SELECT count(*) FROM _graph_edge"],
        b"",
    ) {
        assert_eq!(theirs.ok(), "ok\n2\n");
    }
    // An index of the user's own answers a property.
    shoal(
        dir.path(),
        &["sql", "trips.db", "CREATE INDEX city ON _graph_node(properties ->> '$.name')"],
    )
    .ok();
    assert_eq!(call(&["MATCH (c {name: 'Voss'})-->(d) RETURN d.name AS d"]).ok(), "Bergen\n");
}

#[test]
fn queries_come_from_stdin_too() {
    let dir = tempfile::tempdir().unwrap();
    let text = format!("{TRIPS}; MATCH (n) RETURN count(n) AS n; // the end\n");
    let out = shoal_with(dir.path(), &["cypher", ":memory:"], text.as_bytes()).ok();
    assert_eq!(out, "3\n");
}

#[test]
fn tables_are_a_graph_for_sql_and_cypher() {
    let dir = tempfile::tempdir().unwrap();
    let call = |args: &[&str]| shoal(dir.path(), args);
    let made = "CREATE TABLE person(id INTEGER PRIMARY KEY, name TEXT);
        CREATE TABLE knows(a INT REFERENCES person, b INT);
        INSERT INTO person VALUES (1, 'Ada'), (2, 'Bob'), (3, 'Cy');
        INSERT INTO knows VALUES (1, 2), (2, 3);
        CREATE PROPERTY GRAPH social VERTEX TABLES (person)
          EDGE TABLES (knows SOURCE person DESTINATION KEY (b) REFERENCES person);";
    assert_eq!(call(&["sql", "social.db", made]).ok(), "");
    let asked = "SELECT name, n FROM GRAPH_TABLE (social MATCH p = ANY SHORTEST \
                 (a WHERE a.name = 'Ada')-[:knows]->+(b) COLUMNS (b.name, path_length(p) AS n))";
    assert_eq!(call(&["sql", "social.db", asked]).ok(), "Bob|1\nCy|2\n");
    let cypher = "MATCH (a:person)-[:knows]->(b {name: 'Cy'}) RETURN a.name AS name";
    assert_eq!(call(&["cypher", "social.db", "--graph", "social", cypher]).ok(), "Bob\n");
    let within = "SELECT * FROM CYPHER('MATCH (a:person)-[:knows]->(b) RETURN a.name, b.name', \
                  NULL, 'social')";
    assert_eq!(call(&["sql", "social.db", within]).ok(), "Ada|Bob\nBob|Cy\n");
    let failed = call(&["cypher", "social.db", "--graph", "nosuch", cypher]).error();
    assert!(failed.contains("no such property graph: nosuch"), "{failed}");
}

#[test]
fn a_graph_is_drawn() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path();
    let make = "CREATE (:City {name: 'Oslo <&>'})-[:TRAIN]->(:City {name: 'Voss'})-[:TRAIN]->(:City {name: 'Bergen'})";
    shoal(path, &["cypher", "g.db", make]).ok();
    let dot = shoal(path, &["graph", "g.db"]).ok();
    assert!(dot.starts_with("digraph {") && dot.contains("n0 -> n1 [label=\"TRAIN\"];"), "{dot}");
    let told = shoal(path, &["graph", "g.db", "--svg", "--around", "1", "--depth", "1"]);
    assert!(told.stderr.contains("past the bounds of depth"), "{}", told.stderr);
    let svg = told.ok();
    assert!(svg.contains("Oslo &lt;&amp;&gt;") && svg.contains("Voss"), "{svg}");
    assert!(!svg.contains("Bergen") && svg.ends_with("</svg>\n"), "{svg}");
    let page = shoal(path, &["graph", "g.db", "--html"]).ok();
    assert!(page.starts_with("<!doctype html>") && page.contains("Bergen"), "{page}");
    assert_eq!(page, shoal(path, &["graph", "g.db", "--html"]).ok());
    let sql = "CREATE TABLE n(k TEXT PRIMARY KEY); CREATE TABLE e(a TEXT, b TEXT);
        INSERT INTO n VALUES ('x'), ('y'); INSERT INTO e VALUES ('x', 'y');
        CREATE PROPERTY GRAPH g VERTEX TABLES (n KEY (k)) EDGE TABLES (
        e SOURCE KEY (a) REFERENCES n (k) DESTINATION KEY (b) REFERENCES n (k))";
    shoal(path, &["sql", "g.db", sql]).ok();
    let dot = shoal(path, &["graph", "g.db", "--graph", "g", "--around", "n/x", "--dot"]).ok();
    assert!(dot.contains("n0 -> n1 [label=\"e\"];"), "{dot}");
    let error = shoal(path, &["graph", "g.db", "--graph", "g", "--around", "n/z"]).error();
    assert!(error.contains("no node n/z"), "{error}");
    let error = shoal(path, &["graph", "g.db", "--graph", "h"]).error();
    assert!(error.contains("no such property graph: h"), "{error}");
}
