//! Calls that are refused, with the class and the sentence of each error.

use shoal_graph::ErrorClass;

/// Calls on two nodes `A` and `B` with one relationship, whose weights are as they are named.
pub(crate) const REFUSED: [(&str, ErrorClass, &str); 18] = [
    (
        "MATCH (a:A) CALL algo.shortestPaths(a, 'low') YIELD node RETURN *",
        ErrorClass::ArgumentError,
        "a relationship from node 1 to node 2 has the weight -1, which is negative",
    ),
    (
        "MATCH (a:A) CALL algo.shortestPaths(a, 'nan') YIELD node RETURN *",
        ErrorClass::ArgumentError,
        "a relationship from node 1 to node 2 has the weight NaN, which is no number",
    ),
    (
        "MATCH (a:A) CALL algo.shortestPaths(a, 'text') YIELD node RETURN *",
        ErrorClass::TypeError,
        "a relationship from node 1 to node 2 has no number text for its weight",
    ),
    (
        "MATCH (a:A) CALL algo.shortestPaths(a, 'none') YIELD node RETURN *",
        ErrorClass::TypeError,
        "a relationship from node 1 to node 2 has no number none for its weight",
    ),
    (
        "MATCH (a:A) CALL algo.shortestPaths(a, null) YIELD node RETURN *",
        ErrorClass::TypeError,
        "the weight is the name of a property, not null",
    ),
    (
        "OPTIONAL MATCH (x:None) CALL algo.bfs(x) YIELD node RETURN *",
        ErrorClass::TypeError,
        "the start is a node, not null",
    ),
    (
        "MATCH (a:A) CALL algo.bfs(a, {label: 'B'}) YIELD node RETURN *",
        ErrorClass::ArgumentError,
        "the start is not among the nodes that the procedure runs on",
    ),
    (
        "MATCH (a:A) DETACH DELETE a WITH a CALL algo.bfs(a) YIELD node RETURN 1",
        ErrorClass::ArgumentError,
        "the start is not among the nodes that the procedure runs on",
    ),
    ("CALL algo.bfs(1)", ErrorClass::SyntaxError, "the argument start has another type"),
    (
        "CALL algo.pageRank({dampening: 1})",
        ErrorClass::ArgumentError,
        "algo.pageRank has no option dampening; it has label, type, direction, damping, rounds",
    ),
    (
        "CALL algo.pageRank({damping: 1.5})",
        ErrorClass::ArgumentError,
        "damping lies between 0 and 1, as 1.5 does not",
    ),
    (
        "CALL algo.pageRank({rounds: -1})",
        ErrorClass::ArgumentError,
        "rounds are not negative, as -1 is",
    ),
    (
        "CALL algo.pageRank({rounds: 1.0})",
        ErrorClass::TypeError,
        "rounds are an integer, not a float",
    ),
    (
        "CALL algo.cores({rounds: 1})",
        ErrorClass::ArgumentError,
        "algo.cores has no option rounds; it has label, type, direction",
    ),
    ("CALL algo.cores({type: 1})", ErrorClass::TypeError, "type is a string, not an integer"),
    (
        "CALL algo.cores({direction: 'up'})",
        ErrorClass::ArgumentError,
        "a direction is 'out', 'in' or 'both', not 'up'",
    ),
    (
        "CALL algo.topologicalOrder({direction: 'both'})",
        ErrorClass::ArgumentError,
        "the graph has a cycle through the nodes 1, 2",
    ),
    ("CALL algo.none()", ErrorClass::ProcedureError, "no procedure is named algo.none"),
];
