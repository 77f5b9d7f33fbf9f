"""Rows of the family `text`: FTS5 over the commit texts, and R-Trees, beside SQLite; tantivy for
orientation."""

import csv
import gzip
import os
import random

import apsw
import tantivy

from peers import Shoal, timed


def texts_of(folder):
    csv.field_size_limit(1 << 30)
    with gzip.open(os.path.join(folder, "vectors/cargo-commits/base.csv.gz"), "rt") as file:
        return [[row["subject"], row["body"]] for row in csv.DictReader(file)]


# Searches of a turn: one takes less than the way through the pipe.
REPEAT = 20

FTS = "CREATE VIRTUAL TABLE t USING fts5(subject, body)"

QUERIES = [
    ("term", "SELECT count(*), sum(rowid) FROM t('resolver')", "resolver"),
    ("frequent term", "SELECT count(*), sum(rowid) FROM t('the')", "the"),
    ("phrase", "SELECT count(*), sum(rowid) FROM t('\"add a\"')", '"add a"'),
    ("prefix", "SELECT count(*), sum(rowid) FROM t('re*')", None),
    ("near", "SELECT count(*), sum(rowid) FROM t('NEAR(fix test, 5)')", None),
    ("best ten", "SELECT rowid FROM t('resolver') ORDER BY rank LIMIT 10", "resolver"),
    ("best ten of many", "SELECT rowid FROM t('the') ORDER BY rank LIMIT 10", "the"),
    ("best ten of two", "SELECT rowid FROM t('fix OR test') ORDER BY rank LIMIT 10", "fix OR test"),
]


def build(report, arguments, place, texts):
    turn = iter(range(1000))

    def ours():
        shoal = Shoal(arguments.ask, os.path.join(place, f"fts{next(turn)}.db"))
        shoal.ms("PRAGMA synchronous = OFF")
        ms = shoal.ms(FTS) + shoal.ms("BEGIN")
        ms += shoal.ms("INSERT INTO t VALUES (?1, ?2)", texts) + shoal.ms("COMMIT")
        shoal.close()
        return ms

    def sqlite():
        connection = apsw.Connection(os.path.join(place, f"sqlite-fts{next(turn)}.db"))
        connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF")

        def work():
            connection.execute(FTS)
            with connection:
                connection.executemany("INSERT INTO t VALUES (?, ?)", texts)

        ms = timed(work)
        connection.close()
        return ms

    report.row("text/build", {"shoal": ours, "sqlite": sqlite}, None, "2x", rounds=3)


def searches(report, arguments, place, texts):
    path = os.path.join(place, "texts.db")
    ours = Shoal(arguments.ask, path)
    ours.ms(FTS)
    ours.ms("BEGIN")
    ours.ms("INSERT INTO t VALUES (?1, ?2)", texts)
    ours.ms("COMMIT")
    # SQLite searches a file of its own making.
    sqlite = apsw.Connection(os.path.join(place, "sqlite-texts.db"))
    sqlite.execute(FTS)
    with sqlite:
        sqlite.executemany("INSERT INTO t VALUES (?, ?)", texts)
    schema = tantivy.SchemaBuilder()
    schema.add_integer_field("id", stored=True)
    schema.add_text_field("text")
    index = tantivy.Index(schema.build())
    writer = index.writer(num_threads=1)
    for number, (subject, body) in enumerate(texts, 1):
        writer.add_document(tantivy.Document(id=number, text=f"{subject} {body}"))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    searcher = index.searcher()
    again = range(REPEAT)
    for name, sql, words in QUERIES:
        contenders = {
            "shoal": lambda: ours.ms(sql, [[] for _ in again]),
            "sqlite": lambda: timed(lambda: [sqlite.execute(sql).fetchall() for _ in again]),
        }
        answers = {
            "shoal": ours.rows(sql),
            "sqlite": [list(row) for row in sqlite.execute(sql)],
        }
        if words:
            query = index.parse_query(words, ["text"])
            limit = 10 if name.startswith("best") else len(texts)
            contenders["tantivy"] = lambda: timed(
                lambda: [searcher.search(query, limit) for _ in again]
            )
        report.row(f"text/{name}", contenders, answers, "2x sqlite", each=REPEAT)
    ours.close()


def boxes(report, arguments, place):
    chosen = random.Random(1)
    rows = []
    for number in range(1, 100_001):
        x, y = chosen.random() * 1000, chosen.random() * 1000
        rows.append([number, x, x + chosen.random(), y, y + chosen.random()])
    windows = []
    for _ in range(500):
        x, y = chosen.random() * 980, chosen.random() * 980
        windows.append([x, x + 20, y, y + 20])
    table = "CREATE VIRTUAL TABLE box USING rtree(id, x0, x1, y0, y1)"
    insert = "INSERT INTO box VALUES (?1, ?2, ?3, ?4, ?5)"
    window = "SELECT id FROM box WHERE x1 >= ?1 AND x0 <= ?2 AND y1 >= ?3 AND y0 <= ?4"
    turn = iter(range(1000))
    kept = {}

    def ours():
        shoal = Shoal(arguments.ask, os.path.join(place, f"box{next(turn)}.db"))
        ms = shoal.ms("PRAGMA synchronous = OFF") + shoal.ms(table) + shoal.ms("BEGIN")
        ms += shoal.ms(insert, rows) + shoal.ms("COMMIT")
        kept["shoal"] = shoal
        return ms

    def sqlite():
        connection = apsw.Connection(os.path.join(place, f"sqlite-box{next(turn)}.db"))
        connection.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = OFF")
        kept["sqlite"] = connection

        def work():
            connection.execute(table)
            with connection:
                connection.executemany(insert, rows)

        return timed(work)

    report.row("text/rtree build", {"shoal": ours, "sqlite": sqlite}, None, "2x", rounds=3)
    if len(kept) < 2:
        ours(), sqlite()
    shoal, connection = kept["shoal"], kept["sqlite"]
    report.row(
        "text/rtree window",
        {
            "shoal": lambda: shoal.ms(window, windows),
            "sqlite": lambda: timed(
                lambda: [connection.execute(window, one).fetchall() for one in windows]
            ),
        },
        {
            "shoal": sorted(shoal.rows(window, windows)),
            "sqlite": sorted(list(row) for one in windows for row in connection.execute(window, one)),
        },
        "2x",
        each=len(windows),
    )


def rows(report, arguments, place):
    texts = texts_of(arguments.data)
    build(report, arguments, place, texts)
    searches(report, arguments, place, texts)
    boxes(report, arguments, place)
