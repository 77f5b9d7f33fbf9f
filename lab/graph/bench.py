"""The families `graph`, `text` and `vector` beside their peers; see README.md."""

import argparse
import os
import tempfile

import graphs
import load
import texts
import vectors
from peers import CLOCK, Report

FAMILIES = {"graph": graphs, "text": texts, "vector": vectors, "load": load}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", help="families, or the beginnings of rows: graph text/term")
    parser.add_argument("--ask", default="../../target/release/examples/ask", help="the program of the example `ask`")
    parser.add_argument("--data", required=True, help="a folder with graph/wiki-vote and vectors/cargo-commits")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--processor-time", action="store_true", help="of all threads, instead of wall time: for busy machines")
    parser.add_argument("--json", help="a file for all times")
    arguments = parser.parse_args()
    arguments.ask, arguments.data = map(os.path.abspath, (arguments.ask, arguments.data))
    CLOCK.is_processor = arguments.processor_time
    report = Report(arguments.rounds, arguments.rows)
    print("load", *(f"{load:.2f}" for load in os.getloadavg()))
    for name, family in FAMILIES.items():
        if not arguments.rows or any(row.split("/")[0] == name for row in arguments.rows):
            with tempfile.TemporaryDirectory() as place:
                family.rows(report, arguments, place)
    print("load", *(f"{load:.2f}" for load in os.getloadavg()))
    if arguments.json:
        report.save(arguments.json)


if __name__ == "__main__":
    main()
