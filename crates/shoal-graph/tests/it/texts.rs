//! Hostile and broken texts: a parser that neither panics nor loops, on any text.

use std::path::Path;

use proptest::prelude::*;
use shoal_graph::check_syntax;

/// Queries with every construct of the grammar.
const QUERIES: [&str; 12] = [
    "MATCH (a:A {x: 1})-[r:R|S*1..3]->(b), p = (c)<--(d) WHERE a.x > 1 AND NOT b:B RETURN a, r AS rel ORDER BY a.x DESC SKIP 1 LIMIT 2",
    "OPTIONAL MATCH (a)--(b) WITH DISTINCT a, count(*) AS n WHERE n > 1 RETURN * UNION ALL MATCH (a) RETURN a, 1 AS n",
    "UNWIND [1, 2.5e3, 'x\\n', null, true] AS x RETURN [y IN range(0, x) WHERE y % 2 = 0 | y ^ 2][1..-1] AS l",
    "MERGE (a:A {k: $p})-[:R]->(b) ON CREATE SET a.x = 1, b += {y: 2} ON MATCH SET a:L:M REMOVE a.z, a:K DETACH DELETE b",
    "CALL a.b.c(1, 'x') YIELD out AS o WHERE o > 0 RETURN o",
    "RETURN CASE x WHEN 1, 2 THEN 'a' ELSE 'b' END AS c, CASE WHEN true THEN 1 END AS d",
    "RETURN all(x IN [1] WHERE x = 1) XOR none(x IN [] WHERE x IS NULL) OR single(x IN [1] WHERE x IS NOT NULL) AS q",
    "MATCH (n) WHERE EXISTS { MATCH (n)-->(m) WHERE m.x = n.x RETURN m } AND COUNT { (n)--() } > 2 RETURN n {.a, .*, b: 1}",
    "RETURN [(a)-[:T]->(b) WHERE b.x STARTS WITH 'a' | b.x] AS l, reduce(s = 0, x IN [1, 2] | s + x) AS r",
    "MATCH p = shortestPath((a)-[*..5]-(b)) RETURN length(p), nodes(p), 0x1F, 0o17, 1_000, -9223372036854775808",
    "CREATE (a:`strange label` {`k y`: date('2020-01-01')}), (a)-[:R {since: duration({days: 1})}]->(:B)",
    "EXPLAIN MATCH (a:A|B&!C WHERE a.x = 1)-[r IS R]->(b) RETURN exists((a)-->(b)), a.x ENDS WITH 'b', a.x CONTAINS 'c', 1 IN [1] // end",
];

#[test]
fn the_queries_of_this_test_are_queries() {
    for query in QUERIES {
        check_syntax(query)
            .unwrap_or_else(|error| panic!("{query}\n{error}\n{:?}", error.caret(query)));
    }
}

#[test]
fn deep_and_long_texts_end_in_an_error_or_in_a_tree() {
    for (open, close) in [
        ("(", ")"),
        ("[", "]"),
        ("{a: ", "}"),
        ("[x IN ", " | x]"),
        ("CASE ", " END"),
        ("-", ""),
        ("NOT ", ""),
    ] {
        let text = format!("RETURN {}1{}", open.repeat(50_000), close.repeat(50_000));
        let _ = check_syntax(&text);
    }
    for nested in ["EXISTS { MATCH (a) WHERE ", "all(x IN [1] WHERE ", "f(", "({a: "] {
        assert!(check_syntax(&format!("RETURN {}1", nested.repeat(5_000))).is_err());
    }
    let chain = format!("RETURN 1{}", " + 1".repeat(20_000));
    check_syntax(&chain).expect("a chain is one node");
    let chain = format!("RETURN true{}", " AND true OR false".repeat(20_000));
    check_syntax(&chain).expect("a chain is one node");
    check_syntax(&format!("MATCH (a){} RETURN a", "-->()".repeat(20_000))).expect("a long path");
    assert!(check_syntax(&format!("RETURN a{}", ".b".repeat(50_000))).is_err());
}

#[test]
fn every_prefix_of_the_kits_queries_ends() {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/tck/features/clauses/match");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("the kit lies in testdata").flatten() {
        let text = std::fs::read_to_string(entry.path()).expect("a feature file is text");
        for query in text.split("\"\"\"").skip(1).step_by(2) {
            for (at, _) in query.char_indices() {
                let _ = check_syntax(&query[..at]);
            }
            count += 1;
        }
    }
    assert!(count > 100, "{count} queries");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Queries cut, doubled and mixed at random places.
    #[test]
    fn mutated_queries_never_panic(
        from in 0..QUERIES.len(),
        other in 0..QUERIES.len(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..5_u8, any::<prop::sample::Index>(), any::<char>()), 1..6),
    ) {
        let mut text: Vec<char> = QUERIES[from].chars().collect();
        let donor: Vec<char> = QUERIES[other].chars().collect();
        for (at, kind, place, letter) in edits {
            if text.is_empty() {
                break;
            }
            let at = at.index(text.len());
            match kind {
                0 => {
                    text.remove(at);
                }
                1 => text.insert(at, letter),
                2 => text.truncate(at),
                3 => {
                    let start = place.index(donor.len());
                    let piece = donor[start..].iter().take(20).copied().collect::<Vec<char>>();
                    text.splice(at..at, piece);
                }
                _ => {
                    let piece: Vec<char> = text[at..].iter().take(15).copied().collect();
                    text.extend(piece);
                }
            }
        }
        let text: String = text.into_iter().collect();
        if let Err(error) = check_syntax(&text) {
            prop_assert!(error.offset().is_some_and(|offset| offset <= text.len()));
            prop_assert!(error.caret(&text).is_some());
        }
    }

    /// Any text at all.
    #[test]
    fn any_text_never_panics(text in "\\PC{0,200}") {
        let _ = check_syntax(&text);
    }
}
