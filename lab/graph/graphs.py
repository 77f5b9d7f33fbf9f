"""Rows of the family `graph`: wiki-Vote in Shoal, igraph, DuckDB, Kuzu and SQLite."""

import gzip
import os
import random

import apsw
import duckdb
import igraph
import kuzu

from peers import Shoal, timed

START = 2565


def edges_of(folder):
    with gzip.open(os.path.join(folder, "graph/wiki-vote/edges.csv.gz"), "rt") as file:
        return [tuple(map(int, line.split(","))) for line in file if line[0].isdigit()]


SCHEMA = """
CREATE TABLE person(id INTEGER PRIMARY KEY);
CREATE TABLE votes(a INTEGER NOT NULL, b INTEGER NOT NULL);
CREATE INDEX votes_a ON votes(a, b);
CREATE INDEX votes_b ON votes(b, a);
CREATE TABLE note(x);
"""

GRAPH = """CREATE PROPERTY GRAPH wiki VERTEX TABLES (person) EDGE TABLES
  (votes SOURCE KEY (a) REFERENCES person (id) DESTINATION KEY (b) REFERENCES person (id))"""


def pattern(match, columns):
    return f"GRAPH_TABLE (wiki MATCH {match} COLUMNS ({columns}))"


class Peers:
    def __init__(self, arguments, place):
        edges = edges_of(arguments.data)
        nodes = sorted({node for edge in edges for node in edge})
        self.nodes = nodes
        self.names = {node: place for place, node in enumerate(nodes)}
        self.shoals = {}
        path = os.path.join(place, "wiki.db")
        writer = Shoal(arguments.ask, path)
        for sql in SCHEMA.split(";"):
            if sql.strip():
                writer.ms(sql)
        writer.ms("BEGIN")
        writer.ms("INSERT INTO person VALUES (?1)", [[node] for node in nodes])
        writer.ms("INSERT INTO votes VALUES (?1, ?2)", [list(edge) for edge in edges])
        writer.ms("COMMIT")
        writer.ms("ANALYZE")
        writer.define(GRAPH)
        self.shoals["shoal"] = writer
        self.shoals["shoal, one thread"] = Shoal(arguments.ask, path, threads=1)
        self.duckdb = duckdb.connect(config={"threads": os.cpu_count()})
        self.duckdb.execute("CREATE TABLE person(id BIGINT PRIMARY KEY); CREATE TABLE votes(a BIGINT, b BIGINT)")
        csv = os.path.join(place, "votes.csv")
        with open(csv, "w") as file:
            file.writelines(f"{a},{b}\n" for a, b in edges)
        people = os.path.join(place, "person.csv")
        with open(people, "w") as file:
            file.writelines(f"{node}\n" for node in nodes)
        self.duckdb.execute(f"COPY person FROM '{people}'")
        self.duckdb.execute(f"COPY votes FROM '{csv}'")
        self.kuzu = kuzu.Connection(kuzu.Database(os.path.join(place, "kuzu")))
        self.kuzu.execute("CREATE NODE TABLE person(id INT64, PRIMARY KEY(id))")
        self.kuzu.execute("CREATE REL TABLE votes(FROM person TO person)")
        self.kuzu.execute(f"COPY person FROM '{people}'")
        self.kuzu.execute(f"COPY votes FROM '{csv}'")
        self.sqlite = apsw.Connection(os.path.join(place, "sqlite.db"))
        self.sqlite.execute(SCHEMA)
        with self.sqlite:
            self.sqlite.executemany("INSERT INTO person VALUES (?)", [(node,) for node in nodes])
            self.sqlite.executemany("INSERT INTO votes VALUES (?, ?)", edges)
        self.sqlite.execute("ANALYZE")
        self.igraph = igraph.Graph(
            n=len(nodes), edges=[(self.names[a], self.names[b]) for a, b in edges], directed=True
        )

    def commit(self, changes_graph):
        """A commit that changes an edge and changes it back, or one of another table."""
        shoal = self.shoals["shoal"]
        if not changes_graph:
            shoal.ms("INSERT INTO note VALUES (1)")
            return
        shoal.ms("BEGIN")
        shoal.ms("INSERT INTO votes VALUES (?1, ?1)", [[START]])
        shoal.ms("DELETE FROM votes WHERE a = ?1 AND b = ?1", [[START]])
        shoal.ms("COMMIT")

    def sql(self, sql):
        return {
            "duckdb": lambda: timed(lambda: self.duckdb.execute(sql).fetchall()),
            "sqlite": lambda: timed(lambda: self.sqlite.execute(sql).fetchall()),
        }

    def sql_answers(self, sql):
        return {
            "duckdb": [tuple(row) for row in self.duckdb.execute(sql).fetchall()],
            "sqlite": [tuple(row) for row in self.sqlite.execute(sql).fetchall()],
        }

    def kuzu_rows(self, query):
        return [tuple(row) for row in self.kuzu.execute(query).get_all()]


def rows(report, arguments, place):
    peers = Peers(arguments, place)
    ours = peers.shoals["shoal"]

    def cold(sql, fresh=False, changes_graph=True):
        """The milliseconds of the first query after a commit."""
        peers.commit(changes_graph)
        return ours.ms(sql, fresh=fresh)

    def row(name, sql, peer_sql, cypher, target, more=None):
        """A query, warm and as the first one after a commit."""
        answers = {"shoal": [tuple(row) for row in ours.rows(sql)]}
        contenders = {"shoal": lambda: ours.ms(sql, fresh=True)}
        if peer_sql:
            answers.update(peers.sql_answers(peer_sql))
            contenders.update(peers.sql(peer_sql))
        if cypher:
            answers["kuzu"] = peers.kuzu_rows(cypher)
            contenders["kuzu"] = lambda: timed(lambda: peers.kuzu.execute(cypher).get_all())
        for peer, (answer, work) in (more or {}).items():
            answers[peer] = answer
            contenders[peer] = lambda work=work: timed(work)
        report.row(f"graph/{name}", contenders, answers, target)
        report.row(f"graph/{name} cold", {**contenders, "shoal": lambda: cold(sql, fresh=True)})
        elsewhere = {**contenders, "shoal": lambda: cold(sql, fresh=True, changes_graph=False)}
        report.row(f"graph/{name} behind a commit elsewhere", elsewhere)

    two = "FROM votes AS e JOIN votes AS f ON f.a = e.b"
    row(
        "two hops",
        "SELECT count(*), sum(c) FROM (SELECT DISTINCT c FROM "
        + pattern(f"(a WHERE a.id = {START})->(b)->(c)", "c.id AS c") + ")",
        f"SELECT count(*), sum(c) FROM (SELECT DISTINCT f.b AS c {two} WHERE e.a = {START})",
        f"MATCH (a:person {{id: {START}}})-[:votes]->(b)-[:votes]->(c) WITH DISTINCT c "
        "RETURN count(*), sum(c.id)",
        "1x duckdb",
    )
    row(
        "number of 2-paths",
        "SELECT count(*) FROM " + pattern("(a)->(b)->(c)", "1 AS one"),
        f"SELECT count(*) {two}",
        "MATCH (a:person)-[:votes]->(b:person)-[:votes]->(c:person) RETURN count(*)",
        "1x kuzu",
    )
    row(
        "directed 3-cycles",
        "SELECT count(*), sum(x) FROM " + pattern("(a)->(b)->(c)->(a)", "a.id AS x"),
        f"SELECT count(*), sum(e.a) {two} JOIN votes AS g ON g.a = f.b AND g.b = e.a",
        "MATCH (a:person)-[:votes]->(b:person)-[:votes]->(c:person)-[:votes]->(a) RETURN count(*), sum(a.id)",
        "1x duckdb",
    )
    recursive = (
        f"WITH RECURSIVE found(id) AS (SELECT {START} UNION SELECT b FROM found JOIN votes ON a = id) "
        "SELECT count(*) FROM found"
    )
    start = peers.names[START]
    reached = len(peers.igraph.subcomponent(start, mode="out"))
    row(
        "all reachable",
        f"SELECT count(*) FROM graph_bfs('wiki', {START})",
        recursive,
        f"MATCH (a:person {{id: {START}}})-[e:votes* SHORTEST 1..30]->(b) RETURN count(*) + 1",
        "1x igraph",
        {"igraph": ([(reached,)], lambda: peers.igraph.bfs(start, mode="out"))},
    )
    walked = "SELECT count(*) FROM " + pattern(f"ANY SHORTEST (a WHERE a.id = {START})->*(b)", "b.id AS b")
    report.row(
        "graph/all reachable walked",
        {"shoal": lambda: ours.ms(walked, fresh=True), **peers.sql(recursive)},
        {"shoal": [tuple(row) for row in ours.rows(walked)], **peers.sql_answers(recursive)},
    )
    one_thread = peers.shoals["shoal, one thread"]
    chosen = random.Random(1)
    keys = [[chosen.choice(peers.nodes)] for _ in range(2000)]
    hop = "SELECT b FROM " + pattern("(a WHERE a.id = ?1)->(b)", "b.id AS b")
    hop_sqlite = "SELECT c.id FROM person AS a, votes AS e, person AS c WHERE a.id = ?1 AND e.a = a.id AND c.id = e.b"

    def hops_of_sqlite():
        for key in keys:
            peers.sqlite.execute(hop_sqlite, key).fetchall()

    report.row(
        "graph/one hop",
        {"shoal": lambda: ours.ms(hop, keys), "sqlite": lambda: timed(hops_of_sqlite)},
        {
            "shoal": sum(row[0] for row in ours.rows(hop, keys)),
            "sqlite": sum(row[0] for key in keys for row in peers.sqlite.execute(hop_sqlite, key)),
        },
        "3x",
        each=len(keys),
    )
    pairs = [[chosen.choice(peers.nodes), chosen.choice(peers.nodes)] for _ in range(50)]
    star = "SELECT cost FROM graph_a_star('wiki', ?1, ?2, NULL)"
    places = [(peers.names[a], peers.names[b]) for a, b in pairs]

    def shortest_of_igraph():
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return [len(peers.igraph.get_shortest_paths(a, b)[0]) for a, b in places]

    lengths = [[length - 1] for length in shortest_of_igraph() if length]
    report.row(
        "graph/50 shortest paths",
        {"shoal": lambda: ours.ms(star, pairs), "igraph": lambda: timed(shortest_of_igraph)},
        {"shoal": sorted(ours.rows(star, pairs)), "igraph": sorted(lengths)},
        "1x",
    )

    def scores(sql):
        return {node: round(score, 6) for node, score in ours.rows(sql)}

    rank = "SELECT node, score FROM graph_page_rank('wiki', '{\"rounds\": 100}')"
    igraph_rank = peers.igraph.pagerank(damping=0.85)
    report.row(
        "graph/pagerank",
        {
            "shoal": lambda: ours.ms(rank),
            "shoal, one thread": lambda: one_thread.ms(rank),
            "igraph": lambda: timed(lambda: peers.igraph.pagerank(damping=0.85)),
        },
        {
            "shoal": scores(rank),
            "igraph": {node: round(igraph_rank[place], 6) for place, node in enumerate(peers.nodes)},
        },
        "1x on one thread, ahead on two",
    )
    rank_20 = "SELECT node, score FROM graph_page_rank('wiki')"
    report.row(
        "graph/pagerank of 20 rounds",
        {
            "shoal": lambda: ours.ms(rank_20),
            "igraph": lambda: timed(lambda: peers.igraph.pagerank(damping=0.85)),
        },
    )
    between = "SELECT node, score FROM graph_betweenness('wiki')"
    theirs = peers.igraph.betweenness()
    for node, score in ours.rows(between):
        wanted = theirs[peers.names[node]]
        assert abs(score - wanted) <= 1e-6 * max(1.0, wanted), (node, score, wanted)
    report.row(
        "graph/betweenness",
        {
            "shoal": lambda: ours.ms(between),
            "shoal, one thread": lambda: one_thread.ms(between),
            "igraph": lambda: timed(peers.igraph.betweenness),
        },
        None,
        "1x on one thread, ahead on two",
        rounds=3,
    )
    report.row(
        "graph/pagerank cold",
        {"shoal": lambda: cold(rank), "igraph": lambda: timed(lambda: peers.igraph.pagerank())},
    )
    report.note("graph/memory", f"shoal {ours.resident_mib():.0f} MiB resident")
    for shoal in peers.shoals.values():
        shoal.close()
