"""Rows of the family `vector`: 21,528 commits as 256 floats in Shoal, sqlite-vec and faiss."""

import csv
import gzip
import os

import apsw
import faiss
import numpy as np
import sqlite_vec

from peers import Shoal, timed

K = 10
COLUMNS = {
    "f32": ("e float[256] distance_metric=cosine", "?2", "?1"),
    "int8": ("e int8[256]", "vec_int8(?2)", "vec_int8(?1)"),
    "bit": ("e bit[256]", "vec_bit(?2)", "vec_bit(?1)"),
}


def blobs_of(kind, vectors):
    """Vectors as blobs: floats, bytes by one scale, signs."""
    if kind == "f32":
        return [row.tobytes() for row in vectors.astype("<f4")]
    if kind == "int8":
        return [row.tobytes() for row in np.clip(np.round(vectors * 500), -128, 127).astype("i1")]
    return [np.packbits(row > 0, bitorder="little").tobytes() for row in vectors]


def normal(rows):
    """Rows of length 1: their inner product is the cosine."""
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def load(path):
    connection = apsw.Connection(path)
    connection.enable_load_extension(True)
    connection.load_extension(sqlite_vec.loadable_path())
    return connection


def rows(report, arguments, place):
    folder = os.path.join(arguments.data, "vectors/cargo-commits")
    base = np.load(os.path.join(folder, "base.f16.npy")).astype("f4")
    queries = np.load(os.path.join(folder, "query.f16.npy")).astype("f4")[:200]
    for kind in COLUMNS:
        exact(report, arguments, place, kind, base, queries)
    index(report, arguments, place, folder, base, queries)


def table(column):
    return f"CREATE VIRTUAL TABLE v USING vec0({column}, area text)"


SEARCH = "SELECT rowid, distance FROM v WHERE e MATCH {0} AND k = 10"


def filled(arguments, place, name, kind, base, areas=None):
    column, insert, _ = COLUMNS[kind]
    shoal = Shoal(arguments.ask, os.path.join(place, f"{name}.db"))
    shoal.ms(table(column))
    shoal.ms("BEGIN")
    blobs = blobs_of(kind, base)
    areas = areas or [""] * len(blobs)
    values = [[number, {"hex": blob.hex()}, areas[number]] for number, blob in enumerate(blobs)]
    shoal.ms(f"INSERT INTO v(rowid, e, area) VALUES (?1, {insert}, ?3)", values)
    shoal.ms("COMMIT")
    return shoal


def exact(report, arguments, place, kind, base, queries):
    column, insert, match = COLUMNS[kind]
    search = SEARCH.format(match)
    ours = filled(arguments, place, f"vectors-{kind}", kind, base)
    theirs = load(os.path.join(place, f"sqlite-vec-{kind}.db"))
    theirs.execute(table(column))
    with theirs:
        values = enumerate(blobs_of(kind, base))
        theirs.executemany(f"INSERT INTO v(rowid, e, area) VALUES (?1, {insert}, '')", values)
    asked = blobs_of(kind, queries)
    each = [[{"hex": blob.hex()}] for blob in asked]
    before = ours.resident_mib()

    def of_sqlite_vec(count=len(asked)):
        return [theirs.execute(search, (blob,)).fetchall() for blob in asked[:count]]

    def distances(rows):
        return [round(row[1], 3) for row in rows]

    # Equal texts are equal vectors: distances are compared, not rows.
    assert distances(ours.rows(search, each[:40])) == distances(sum(of_sqlite_vec(40), [])), kind
    grown = ours.resident_mib() - before
    report.note(f"vector/{kind} memory", f"the searches' copy and what they left: {grown:.1f} MiB")

    def first():
        shoal = Shoal(arguments.ask, os.path.join(place, f"vectors-{kind}.db"))
        ms = shoal.ms(search, each[:1])
        shoal.close()
        return ms

    sqlite_vec_one = lambda: timed(lambda: of_sqlite_vec(40)) / 40
    report.row(f"vector/{kind} first search", {"shoal": first, "sqlite-vec": sqlite_vec_one})
    one_thread = Shoal(arguments.ask, os.path.join(place, f"vectors-{kind}.db"), threads=1)
    contenders = {
        "shoal": lambda: ours.ms(search, each) / len(each),
        "shoal, one thread": lambda: one_thread.ms(search, each) / len(each),
        "sqlite-vec": sqlite_vec_one,
    }
    faiss.omp_set_num_threads(1)
    flats = {
        "f32": (faiss.IndexFlatIP, normal),
        "bit": (faiss.IndexBinaryFlat, lambda rows: np.packbits(rows > 0, axis=1, bitorder="little")),
    }
    if kind in flats:
        make, coded = flats[kind]
        flat = make(base.shape[1])
        flat.add(coded(base))
        wanted = coded(queries)

        def of_faiss():
            for at in range(len(wanted)):
                flat.search(wanted[at : at + 1], K)

        contenders["faiss, one thread"] = lambda: timed(of_faiss) / len(wanted)
    report.row(f"vector/{kind} exact", contenders, None, "1x faiss on one thread")
    write = f"UPDATE v SET e = {match} WHERE rowid = 7"

    def after_commit():
        ours.ms(write, [[{"hex": blobs_of(kind, base[7:8])[0].hex()}]])
        return ours.ms(search, each[:1])

    report.row(f"vector/{kind} after a commit", {"shoal": after_commit, "sqlite-vec": sqlite_vec_one})
    one_thread.close()
    ours.close()


FILTERS = ["area-src", "area-tests", "area-crates", "area-benches"]


def index(report, arguments, place, folder, base, queries):
    csv.field_size_limit(1 << 30)
    with gzip.open(os.path.join(folder, "base.csv.gz"), "rt") as file:
        areas = [row["area"] for row in csv.DictReader(file)]
    ours = filled(arguments, place, "vectors-index", "f32", base, areas)
    built = ours.ms("CREATE VIRTUAL TABLE v_index USING vec_index(v, e)")
    base, queries = normal(base), normal(queries)
    hnsw = faiss.IndexHNSWFlat(base.shape[1], 16, faiss.METRIC_INNER_PRODUCT)
    hnsw.hnsw.efConstruction = 100
    faiss_built = timed(lambda: hnsw.add(base))
    report.note("vector/index build", f"shoal {built:.0f} ms on all cores, faiss {faiss_built:.0f} ms on one")
    each = [[{"hex": blob.hex()}] for blob in blobs_of("f32", queries)]
    truth = np.load(os.path.join(folder, "truth.cosine.top100.i4.npy"))[: len(queries), :K]

    def recall(found, last):
        """Neighbours as near as the last true one, by similarity."""
        hits = 0
        for query, rows, true in zip(queries, found, last):
            least = float(base[true] @ query) - 1e-5
            hits += sum(1 for row in rows if row >= 0 and float(base[row] @ query) >= least)
        return hits / (K * len(queries))

    def of_shoal(sql):
        rows = [row[0] for row in ours.rows(sql, each)]
        return [rows[at : at + K] for at in range(0, len(rows), K)]

    def of_faiss(keep=None):
        def work():
            for at in range(len(queries)):
                _, found = hnsw.search(queries[at : at + 1], 64 if keep else K)
                if keep:
                    keep(found[0])
        return work

    for ef in [16, 64, 256]:
        sql = SEARCH.format("?1") + f" AND ef = {ef}"
        hnsw.hnsw.efSearch = ef
        _, found = hnsw.search(queries, K)
        last = [true[K - 1] for true in truth]
        words = f"shoal {recall(of_shoal(sql), last):.3f}, faiss {recall(found, last):.3f}"
        report.note(f"vector/index ef {ef} recall", words)

        def faiss_ms(ef=ef):
            hnsw.hnsw.efSearch = ef
            return timed(of_faiss()) / len(queries)

        report.row(
            f"vector/index ef {ef}",
            {"shoal": lambda: ours.ms(sql, each) / len(each), "faiss": faiss_ms},
            None,
            "within 2x of faiss at recall 0.97",
        )
    areas = np.array(areas)
    for name in FILTERS:
        area = name.removeprefix("area-")
        true = np.load(os.path.join(folder, f"truth.{name}.top10.i4.npy"))
        if true.shape[1] < K or (true[: len(queries), K - 1] < 0).any():
            continue
        last = true[: len(queries), K - 1]
        sql = SEARCH.format("?1") + f" AND area = '{area}'"
        hnsw.hnsw.efSearch = 64
        allowed = areas == area
        kept = []
        of_faiss(lambda found: kept.append([row for row in found if row >= 0 and allowed[row]][:K]))()
        share = allowed.mean() * 100
        words = f"{share:.2f} % of rows: shoal {recall(of_shoal(sql), last):.3f}, faiss's 64 best filtered "
        report.note(f"vector/index {area} recall", words + f"{recall(kept, last):.3f}")

        def faiss_ms():
            hnsw.hnsw.efSearch = 64
            return timed(of_faiss(lambda found: found[allowed[found]][:K])) / len(queries)

        report.row(
            f"vector/index {area}",
            {"shoal": lambda: ours.ms(sql, each) / len(each), "faiss": faiss_ms},
            None,
            "recall 0.95",
        )
    ours.close()
