//! Table-valued functions over property graphs: algorithms, traversals beside a naive one, context
//! texts; layouts, and names after `ALTER TABLE`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use shoal_graph::pgq::{define, register};
use shoal_sql::{Connection, Value};
use shoal_store::{Access, Store};
use shoal_testkit::Random;

fn connection() -> Connection {
    let mut connection = Connection::open(Store::memory()).unwrap();
    register(&mut connection);
    connection
}

fn run(connection: &mut Connection, sql: &str) {
    let mut statement = connection.prepare(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    connection.execute(&mut statement).unwrap_or_else(|error| panic!("{sql}: {error}"));
}

fn try_ask(connection: &mut Connection, sql: &str) -> Result<Vec<String>, shoal_sql::Error> {
    let mut statement = connection.prepare(sql)?;
    let width = statement.column_count();
    let mut rows = connection.query(&mut statement)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let word = |column: usize| match Value::from(row.get(column)) {
            Value::Null => "-".to_owned(),
            Value::Text(text) => String::from_utf8(text).unwrap(),
            Value::Int(number) => number.to_string(),
            Value::Real(number) => format!("{number:.4}"),
            Value::Blob(_) => "blob".to_owned(),
        };
        found.push((0..width).map(word).collect::<Vec<_>>().join("|"));
    }
    Ok(found)
}

fn ask(connection: &mut Connection, sql: &str) -> Vec<String> {
    try_ask(connection, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn refused(connection: &mut Connection, sql: &str) -> String {
    match try_ask(connection, sql) {
        Ok(rows) => panic!("{sql} gives {rows:?}"),
        Err(error) => error.to_string(),
    }
}

/// Places with a key of text, and legs between them; one leg leads nowhere.
fn map() -> Connection {
    let mut connection = connection();
    for sql in [
        "CREATE TABLE place(name TEXT PRIMARY KEY, x REAL, y REAL, tokens INT)",
        "CREATE TABLE leg(a TEXT, b TEXT, hours REAL, kind TEXT)",
        "INSERT INTO place VALUES ('Oslo', 0, 0, 5), ('Voss', 3, 0, 5), ('Bergen', 4, 0, 5), ('Bodo', 4, 9, 5)",
        "INSERT INTO leg VALUES ('Oslo', 'Voss', 5.5, 'rail'), ('Voss', 'Bergen', 1.25, 'rail'),
           ('Oslo', 'Bergen', 9, 'road'), ('Bergen', 'Bodo', 20, 'sea'), ('Bodo', 'Nowhere', 1, 'sea')",
    ] {
        run(&mut connection, sql);
    }
    let graph = "CREATE PROPERTY GRAPH map VERTEX TABLES (place KEY (name))
        EDGE TABLES (leg SOURCE KEY (a) REFERENCES place (name) DESTINATION KEY (b) REFERENCES place (name))";
    define(&mut connection, graph).unwrap();
    connection
}

#[test]
fn algorithms_are_tables_with_the_keys_of_rows() {
    let mut map = map();
    let mut is = |sql: &str, rows: &[&str]| assert_eq!(ask(&mut map, sql), rows, "{sql}");
    is(
        "SELECT node, node_label, depth FROM graph_bfs('map', 'Oslo') ORDER BY depth, node",
        &["Oslo|place|0", "Bergen|place|1", "Voss|place|1", "Bodo|place|2"],
    );
    is(
        "SELECT p.x, s.cost FROM graph_shortest_paths('map', 'place/Oslo', 'hours') AS s
         JOIN place AS p ON p.name = s.node WHERE s.node = 'Bergen'",
        &["4.0000|6.7500"],
    );
    is(
        "SELECT nodes, cost FROM graph_k_shortest_paths('map', 'Oslo', 'Bergen', 5, 'hours') ORDER BY place",
        &["[\"Oslo\",\"Voss\",\"Bergen\"]|6.7500", "[\"Oslo\",\"Bergen\"]|9.0000"],
    );
    is(
        "SELECT nodes, cost FROM graph_a_star('map', 'Oslo', 'Bodo', 'hours', '{\"x\": \"x\", \"y\": \"y\"}')",
        &["[\"Oslo\",\"Voss\",\"Bergen\",\"Bodo\"]|26.7500"],
    );
    is(
        "SELECT source, target, cost FROM graph_spanning_tree('map', 'hours') ORDER BY cost",
        &["Voss|Bergen|1.2500", "Oslo|Voss|5.5000", "Bergen|Bodo|20.0000"],
    );
    is("SELECT sum(score) FROM graph_page_rank('map')", &["1.0000"]);
    is(
        "SELECT count(DISTINCT community) FROM graph_leiden('map', '{\"weight\": \"hours\"}')",
        &["2"],
    );
    is("SELECT count(*) FROM graph_closeness('map')", &["3"]);
    let told = refused(&mut map, "SELECT * FROM graph_bfs('map', 'Rome')");
    assert!(told.contains("no node Rome"), "{told}");
    let told = refused(&mut map, "SELECT * FROM graph_bfs('maps', 'Rome')");
    assert!(told.contains("no such property graph: maps"), "{told}");
    let told = refused(&mut map, "SELECT * FROM graph_page_rank('map', '{\"round\": 2}')");
    assert!(told.contains("has no option round"), "{told}");
}

#[test]
fn a_traversal_says_what_it_left_out() {
    let mut map = map();
    let mut walk = |policy: &str| {
        let sql = format!(
            "SELECT node, depth, parent, partial, dangling FROM graph_traverse('map', 'Oslo', '{policy}')"
        );
        ask(&mut map, &sql).join(" ")
    };
    let whole = "Oslo|0|-|-|0 Voss|1|Oslo|-|0 Bergen|1|Oslo|-|0 Bodo|2|Bergen|-|0";
    assert_eq!(walk("{}"), whole);
    assert_eq!(
        walk(r#"{"depth": 1}"#),
        "Oslo|0|-|depth|0 Voss|1|Oslo|depth|0 Bergen|1|Oslo|depth|0"
    );
    assert_eq!(walk(r#"{"depth": 2}"#), whole);
    assert_eq!(walk(r#"{"nodes": 1}"#), "Oslo|0|-|nodes|0");
    assert_eq!(walk(r#"{"tokens": 11}"#), "Oslo|0|-|tokens|0 Voss|1|Oslo|tokens|0");
    assert_eq!(walk(r#"{"stop_at": "Voss"}"#), "Oslo|0|-|stop_at|0 Voss|1|Oslo|stop_at|0");
    assert_eq!(walk(r#"{"time_ms": 0}"#), whole);
    assert_eq!(walk(r#"{"edges": {"kind": "road"}}"#), "Oslo|0|-|-|0 Bergen|1|Oslo|-|0");
    assert_eq!(
        walk(r#"{"weight": "hours", "min_weight": 6}"#),
        "Oslo|0|-|-|0 Bergen|1|Oslo|-|0 Bodo|2|Bergen|-|0"
    );
    assert_eq!(walk(r#"{"shown": {"x": 4}}"#), "Bergen|1|Oslo|-|0 Bodo|2|Bergen|-|0");
    assert_eq!(walk(r#"{"direction": "in"}"#), "Oslo|0|-|-|0");
    assert_eq!(
        walk(r#"{"fan_out": 1}"#),
        "Oslo|0|-|fan_out|0 Voss|1|Oslo|fan_out|0 Bergen|2|Voss|fan_out|0 Bodo|3|Bergen|fan_out|0"
    );
    let sql = r#"SELECT node, path, properties FROM graph_traverse('map', 'Oslo', '{"paths": true, "data": false}')"#;
    assert_eq!(ask(&mut map, sql)[3], r#"Bodo|["Oslo","Bergen","Bodo"]|-"#);
    let sql =
        "SELECT text, tokens, nodes, partial FROM graph_context('map', 'Oslo', '{\"tokens\": 10}')";
    let told = ask(&mut map, sql).concat();
    assert!(
        told.starts_with(r#"{"labels":["place"],"depth":0,"properties":{"name":"Oslo","#),
        "{told}"
    );
    assert!(told.contains(r#""depth":1,"by":"leg""#) && told.ends_with("|10|2|tokens"), "{told}");
    for (policy, why) in [
        (r#"{"dept": 1}"#, "there is no policy dept"),
        (r#"{"depth": -1}"#, "a number from 0 on"),
        (r#"{"stop_at": "Rome"}"#, "no node Rome"),
        (r#"{"direction": "up"}"#, "'out', 'in' or 'both'"),
        ("[1]", "JSON object"),
    ] {
        let sql = format!("SELECT * FROM graph_traverse('map', 'Oslo', '{policy}')");
        let told = refused(&mut map, &sql);
        assert!(told.contains(why), "{told}");
    }
}

/// Random graphs, and each policy beside rounds over all edges. `SHOAL_GRAPHS_RANDOM=N` asks for N
/// graphs.
#[test]
fn traversals_follow_their_policies_on_random_graphs() {
    let rounds = std::env::var("SHOAL_GRAPHS_RANDOM").map_or(150, |count| count.parse().unwrap());
    let mut random = Random::new(0x5eed_1234);
    for round in 0..rounds {
        let mut connection = connection();
        run(&mut connection, "CREATE TABLE n(id INTEGER PRIMARY KEY, c INT, tokens INT)");
        run(&mut connection, "CREATE TABLE e(s INT, t INT, weight INT)");
        let count = 1 + random.place(7) as i64;
        let mut class = BTreeMap::new();
        for id in 0..count {
            class.insert(id, random.place(2) as i64);
            run(&mut connection, &format!("INSERT INTO n VALUES ({id}, {}, 2)", class[&id]));
        }
        let mut edges = Vec::new();
        for _ in 0..random.place(12) {
            // Some edges end nowhere.
            let end = |random: &mut Random| random.place(count as usize + 1) as i64;
            let edge = (end(&mut random), end(&mut random), random.place(3) as i64);
            run(
                &mut connection,
                &format!("INSERT INTO e VALUES ({}, {}, {})", edge.0, edge.1, edge.2),
            );
            edges.push(edge);
        }
        define(
            &mut connection,
            "CREATE PROPERTY GRAPH g VERTEX TABLES (n) EDGE TABLES (
             e SOURCE KEY (s) REFERENCES n (id) DESTINATION KEY (t) REFERENCES n (id))",
        )
        .unwrap();
        let start = random.place(count as usize) as i64;
        let (direction, least) = (["out", "in", "both"][random.place(3)], random.place(3) as i64);
        let depth = random.place(4);
        // Steps from the start by as many rounds as there are nodes.
        let mut steps = BTreeMap::from([(start, 0_usize)]);
        for _ in 0..count {
            for &(s, t, weight) in &edges {
                for (from, to, way) in [(s, t, "in"), (t, s, "out")] {
                    let is_there =
                        from < count && to < count && weight >= least && direction != way;
                    if is_there && let Some(&known) = steps.get(&from) {
                        let through = (known + 1).min(*steps.get(&to).unwrap_or(&usize::MAX));
                        steps.insert(to, through);
                    }
                }
            }
        }
        let mut walk = |more: &str| -> Vec<(i64, usize, String)> {
            let policy = format!(r#"{{"direction": "{direction}", "min_weight": {least}{more}}}"#);
            let sql = format!(
                "SELECT node, depth, partial FROM graph_traverse('g', {start}, '{policy}')"
            );
            let row = |row: String| {
                let mut words = row.split('|');
                let mut word = || words.next().unwrap().to_owned();
                (word().parse().unwrap(), word().parse().unwrap(), word())
            };
            ask(&mut connection, &sql).into_iter().map(row).collect()
        };
        let whole = walk("");
        let found: BTreeMap<i64, usize> = whole.iter().map(|it| (it.0, it.1)).collect();
        assert_eq!((found, whole.len()), (steps.clone(), steps.len()), "round {round}: {edges:?}");
        assert!(whole.iter().all(|it| it.2 == "-") && whole.is_sorted_by_key(|it| it.1));
        let near: Vec<_> = whole.iter().filter(|it| it.1 <= depth).map(|it| (it.0, it.1)).collect();
        let word = if near.len() < whole.len() { "depth" } else { "-" };
        let wanted: Vec<_> = near.iter().map(|it| (it.0, it.1, word.to_owned())).collect();
        assert_eq!(walk(&format!(r#", "depth": {depth}"#)), wanted, "round {round}: {edges:?}");
        let most = 1 + random.place(4);
        for (policy, word) in [("\"nodes\": ", "nodes"), ("\"tokens\": 2*", "tokens")] {
            let policy = match policy.strip_suffix("2*") {
                Some(policy) => format!(", {policy}{}", 2 * most + random.place(2)),
                None => format!(", {policy}{most}"),
            };
            let word = if most < whole.len() { word } else { "-" };
            let wanted: Vec<_> =
                whole.iter().take(most).map(|it| (it.0, it.1, word.to_owned())).collect();
            assert_eq!(walk(&policy), wanted, "round {round}: {policy} {edges:?}");
        }
        let shown: Vec<_> = whole.iter().filter(|it| class[&it.0] == 1).cloned().collect();
        assert_eq!(walk(r#", "shown": {"c": 1}"#), shown, "round {round}: {edges:?}");
    }
}

#[test]
fn a_layout_of_another_program_is_a_graph() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/sharc/graph.db");
    let bytes = std::fs::read(path).unwrap();
    let vfs = Arc::new(shoal_vfs::MemVfs::new());
    vfs.put(Path::new("graph.db"), bytes);
    let store = Store::open(vfs, Path::new("graph.db"), Access::ReadWrite).unwrap();
    let mut connection = Connection::open(store).unwrap();
    register(&mut connection);
    define(&mut connection, "CREATE PROPERTY GRAPH mind LAYOUT native").unwrap();
    let sql =
        "SELECT count(*) FROM GRAPH_TABLE (mind MATCH (a)-[r IS relation]->(b) COLUMNS (r.kind))";
    let own = "SELECT count(*) FROM _relations JOIN _concepts ON key = target_key
        WHERE source_key IN (SELECT key FROM _concepts)";
    assert_eq!(ask(&mut connection, sql), ask(&mut connection, own));
    let sql = "SELECT count(*) > 1, max(depth) FROM graph_traverse('mind', 1,
        '{\"depth\": 2, \"direction\": \"both\"}')";
    assert_eq!(ask(&mut connection, sql), ["1|2"]);
    let told =
        define(&mut connection, "CREATE PROPERTY GRAPH x LAYOUT nodes").unwrap_err().to_string();
    assert!(told.contains("native, makerai, generic"), "{told}");
    let told =
        define(&mut connection, "CREATE PROPERTY GRAPH x LAYOUT generic").unwrap_err().to_string();
    assert!(told.contains("there is no table Nodes"), "{told}");
}

#[test]
fn graphs_follow_renamed_tables_and_columns() {
    let mut map = map();
    let count = "SELECT count(*) FROM graph_bfs('map', 'place/Oslo')";
    for change in [
        "ALTER TABLE place RENAME COLUMN name TO town",
        "ALTER TABLE leg RENAME TO hop",
        "ALTER TABLE hop RENAME COLUMN a TO \"from\"",
        "ALTER TABLE place RENAME TO \"odd place\"",
        "ALTER TABLE hop DROP COLUMN kind",
    ] {
        run(&mut map, change);
        assert_eq!(ask(&mut map, count), ["4"], "{change}");
    }
    // Labels stay as they were, a property of ALL COLUMNS has the column's name.
    let sql = "SELECT * FROM GRAPH_TABLE (map MATCH (a IS place)-[l IS leg]->(b) COLUMNS (a.town, l.hours))
        ORDER BY hours DESC LIMIT 1";
    assert_eq!(ask(&mut map, sql), ["Bergen|20.0000"]);
    let mut drop = map.prepare("ALTER TABLE hop DROP COLUMN b");
    let told = match &mut drop {
        Ok(statement) => map.execute(statement).unwrap_err().to_string(),
        Err(error) => error.to_string(),
    };
    assert!(told.contains("_graph_names_map"), "{told}");
    define(&mut map, "DROP PROPERTY GRAPH map").unwrap();
    run(&mut map, "ALTER TABLE hop DROP COLUMN b");
}
