"""The row of the family `load`: SNB's social network, scale factor 0.1, into tables with all indexes."""

import gzip
import os
import resource
import subprocess
import sys

import kuzu
import pysqlite3

# GraphQLite is an extension of SQLite, which not every Python's own module loads.
sys.modules["sqlite3"] = pysqlite3

import graphqlite  # noqa: E402

from peers import CLOCK, Shoal, timed

KUZU = {"INTEGER": "INT64", "TEXT": "STRING"}
KINDS = {"LONG": "INTEGER", "INT": "INTEGER", "STRING": "TEXT"}
# Quotes are letters in these files.
PLAIN = "DELIM='|', HEADER=false, QUOTE='\x01'"
# Their files are not in the folder: their ids are those in another file.
MISSING = {"Comment": "Comment_hasCreator_Person", "Post": "Post_hasCreator_Person"}


class Data:
    """The files unpacked, without headers: nodes and edges by name, with their columns."""

    def __init__(self, folder, place):
        self.nodes, self.edges = {}, {}
        source = os.path.join(folder, "graph/snb-sf0.1")
        for file in sorted(os.listdir(source)):
            name = file.removesuffix(".csv.gz")
            if name == file or name.endswith("_1"):
                continue
            with gzip.open(os.path.join(source, file), "rt") as lines:
                header, *rows = lines
            if os.path.exists(os.path.join(source, f"{name}_1.csv.gz")):
                with gzip.open(os.path.join(source, f"{name}_1.csv.gz"), "rt") as lines:
                    rows += [line for line in lines if not line.startswith(":")]
            fields = [field.partition(":") for field in header.strip().split("|")]
            if "_" in name:
                ends = [kind[kind.index("(") + 1 : -1] for _, _, kind in fields[:2]]
                columns = [("a", "INTEGER"), ("b", "INTEGER")]
                columns += [(field, KINDS[kind]) for field, _, kind in fields[2:]]
                self.edges[name] = (self.write(place, name, rows), columns, ends)
            else:
                columns = [(field or "label", KINDS.get(kind, "TEXT")) for field, _, kind in fields]
                columns[0] = ("id", "INTEGER")
                self.nodes[name] = (self.write(place, name, rows), columns)
        for name, other in MISSING.items():
            with open(self.edges[other][0]) as lines:
                ids = [f"{line.split('|')[0]}\n" for line in lines]
            self.nodes[name] = (self.write(place, name, ids), [("id", "INTEGER")])

    def write(self, place, name, rows):
        path = os.path.join(place, f"{name}.csv")
        with open(path, "w") as file:
            file.writelines(f"{row.rstrip(chr(10))}\n" for row in rows)
        return path

    def tables(self):
        """Statements that make the tables, tables with their files, statements that make the indexes."""
        made, files, indexes = [], [], []
        for name, (path, columns) in self.nodes.items():
            rest = "".join(f", {column} {kind}" for column, kind in columns[1:])
            made.append(f"CREATE TABLE {name}(id INTEGER PRIMARY KEY{rest})")
            files.append((name, path, len(columns)))
        for name, (path, columns, _) in self.edges.items():
            rest = "".join(f", {column} {kind}" for column, kind in columns[2:])
            made.append(f"CREATE TABLE {name}(a INTEGER NOT NULL, b INTEGER NOT NULL{rest})")
            files.append((name, path, len(columns)))
            indexes.append(f"CREATE INDEX {name}_a ON {name}(a, b)")
            indexes.append(f"CREATE INDEX {name}_b ON {name}(b, a)")
        return made, files, indexes

    def graph(self):
        edges = ", ".join(
            f"{name} SOURCE KEY (a) REFERENCES {ends[0]} (id) DESTINATION KEY (b) REFERENCES {ends[1]} (id)"
            for name, (_, _, ends) in self.edges.items()
        )
        return f"CREATE PROPERTY GRAPH snb VERTEX TABLES ({', '.join(self.nodes)}) EDGE TABLES ({edges})"

    def counts(self):
        edges = (f"(SELECT count(*), sum(a % 1000), sum(b % 1000) FROM {name})" for name in sorted(self.edges))
        return " UNION ALL ".join(f"SELECT * FROM {one}" for one in edges)


class Files:
    """A new file's name for each turn."""

    def __init__(self, place):
        self.place, self.number = place, 0

    def next(self, name):
        self.number += 1
        return os.path.join(self.place, f"{name}{self.number}.db")


def of_children(work):
    """The milliseconds of a program, or of its processor time."""
    if not CLOCK.is_processor:
        return timed(work)

    def spent():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    begun = spent()
    work()
    return (spent() - begun) * 1000


def rows(report, arguments, place):
    data, files = Data(arguments.data, place), Files(place)
    made, tables, indexes = data.tables()
    answers = {}

    def shoal():
        shoal = Shoal(arguments.ask, files.next("shoal"))
        ms = sum(shoal.ms(sql) for sql in [*made, "BEGIN"])
        for name, path, width in tables:
            marks = ", ".join(f"?{number}" for number in range(1, width + 1))
            ms += shoal.load_ms(f"INSERT INTO {name} VALUES ({marks})", path)
        ms += sum(shoal.ms(sql) for sql in [*indexes, "COMMIT"])
        shoal.define(data.graph())
        answers["shoal"] = [tuple(row) for row in shoal.rows(data.counts())]
        shoal.close()
        return ms

    def sqlite():
        path = files.next("sqlite")
        imports = [f'.import --csv "{file}" {name}' for name, file, _ in tables]
        script = ["BEGIN;", *(f"{sql};" for sql in made), ".separator |"]
        script += [line.replace("--csv ", "") for line in imports]
        script += [*(f"{sql};" for sql in indexes), "COMMIT;"]
        text = "\n".join([".mode list", *script, ""])
        ms = of_children(lambda: subprocess.run(["sqlite3", path], input=text, text=True, check=True))
        asked = subprocess.run(["sqlite3", path, data.counts()], capture_output=True, text=True, check=True)
        answers["sqlite3 .import"] = [tuple(map(int, line.split("|"))) for line in asked.stdout.split()]
        return ms

    def kuzu_copy():
        connection = kuzu.Connection(kuzu.Database(files.next("kuzu")))

        def load():
            for name, (path, columns) in data.nodes.items():
                kinds = ", ".join(f"{column} {KUZU[kind]}" for column, kind in columns)
                connection.execute(f"CREATE NODE TABLE {name}({kinds}, PRIMARY KEY(id))")
                connection.execute(f"COPY {name} FROM '{path}' ({PLAIN})")
            for name, (path, columns, ends) in data.edges.items():
                kinds = "".join(f", {column} {KUZU[kind]}" for column, kind in columns[2:])
                connection.execute(f"CREATE REL TABLE {name}(FROM {ends[0]} TO {ends[1]}{kinds})")
                connection.execute(f"COPY {name} FROM '{path}' ({PLAIN})")

        ms = timed(load)
        answers["kuzu"] = []
        for name in sorted(data.edges):
            query = f"MATCH (a)-[:{name}]->(b) RETURN count(*), sum(a.id % 1000), sum(b.id % 1000)"
            answers["kuzu"].append(tuple(int(it) for it in connection.execute(query).get_next()))
        return ms

    def graphqlite_bulk():
        graph = graphqlite.Graph(files.next("graphqlite"))

        def load():
            ids = {}
            for name, (path, columns) in data.nodes.items():
                with open(path) as lines:
                    fields = [line.rstrip("\n").split("|") for line in lines]
                names = [column for column, _ in columns]
                nodes = [(f"{name}/{one[0]}", dict(zip(names, one)), name) for one in fields]
                ids.update(graph.insert_nodes_bulk(nodes))
            for name, (path, columns, ends) in data.edges.items():
                names = [column for column, _ in columns[2:]]
                with open(path) as lines:
                    fields = [line.rstrip("\n").split("|") for line in lines]
                edges = [
                    (f"{ends[0]}/{one[0]}", f"{ends[1]}/{one[1]}", dict(zip(names, one[2:])), name)
                    for one in fields
                ]
                made.append(graph.insert_edges_bulk(edges, ids))

        made = []
        ms = timed(load)
        answers["graphqlite"] = sum(made)
        return ms

    contenders = {"shoal": shoal, "sqlite3 .import": sqlite, "kuzu": kuzu_copy}
    if report.wants("load/snb"):
        for work in contenders.values():
            work()
        report.row("load/snb", contenders, dict(answers), "1x kuzu's COPY", rounds=3)
    if report.wants("load/graphqlite"):
        # Minutes: once, beside the last turn of Shoal.
        ms, ours = graphqlite_bulk(), shoal()
        assert answers["graphqlite"] == sum(row[0] for row in answers["shoal"])
        report.note("load/graphqlite", f"graphqlite {ms:.0f} ms, shoal {ours:.0f} ms")
