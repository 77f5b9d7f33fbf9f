"""DuckDB for the lab: one JSON object a line in, one out. Started by duckdb.rs."""

import json
import os
import sqlite3
import sys

import duckdb

TYPES = {"DATE": "VARCHAR", "REAL": "DOUBLE", "TEXT": "VARCHAR"}
ROWS_MAX = 1000


def copy(source, target):
    """Makes a DuckDB file with the tables of a SQLite file; it appears when it is whole."""
    making = target + ".making"
    csv = target + ".csv"
    for leftover in (making, csv):
        if os.path.exists(leftover):
            os.remove(leftover)
    sqlite = sqlite3.connect(f"file:{source}?mode=ro", uri=True)
    out = duckdb.connect(making)
    # It draws on stdout, where answers go.
    out.execute("SET enable_progress_bar = false")
    names = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
    for (table,) in sqlite.execute(names).fetchall():
        columns = sqlite.execute(f"PRAGMA table_info({table})").fetchall()
        declared = ", ".join(f"{column[1]} {stored(sqlite, table, column)}" for column in columns)
        out.execute(f"CREATE TABLE {table} ({declared})")
        with open(csv, "w") as file:
            for row in sqlite.execute(f"SELECT * FROM {table}"):
                cells = ("\\N" if cell is None else str(cell).replace("\t", " ") for cell in row)
                file.write("\t".join(cells) + "\n")
        form = r"(DELIMITER '\t', HEADER false, NULL '\N', QUOTE '', ESCAPE '')"
        out.execute(f"COPY {table} FROM '{csv}' {form}")
        os.remove(csv)
    for (view,) in sqlite.execute("SELECT sql FROM sqlite_schema WHERE type = 'view'").fetchall():
        out.execute(view)
    out.close()
    os.rename(making, target)


def stored(sqlite, table, column):
    """The type of a column by what is in it: SQLite keeps a decimal in a column of integers."""
    name, declared = column[1], column[2]
    if declared != "INTEGER":
        return TYPES[declared]
    real = f"SELECT EXISTS (SELECT 1 FROM {table} WHERE typeof({name}) = 'real')"
    return "DOUBLE" if sqlite.execute(real).fetchone()[0] else "BIGINT"


def main():
    source, target = sys.argv[1], sys.argv[2]
    if not os.path.exists(target):
        copy(source, target)
    # One thread, as every other contender has.
    db = duckdb.connect(target, read_only=True, config={"threads": 1})
    db.execute("SET enable_progress_bar = false")
    print(json.dumps({"version": duckdb.__version__}), flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            rows = db.execute(request["sql"], request["parameters"]).fetchmany(ROWS_MAX + 1)
            if len(rows) > ROWS_MAX:
                answer = {"error": f"gives more than {ROWS_MAX} rows, which a pipe would slow down"}
            else:
                answer = {"rows": rows}
        except Exception as error:
            answer = {"error": str(error).splitlines()[0]}
        print(json.dumps(answer, default=float), flush=True)


main()
