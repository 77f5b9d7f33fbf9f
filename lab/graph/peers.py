"""Shoal behind a pipe, and the clock of its peers."""

import json
import os
import statistics
import subprocess
import sys
import time


# Peers with another meaning of words and ranks: shown, and never the best.
ORIENTATION = ["tantivy"]


class Shoal:
    """A process of `ask` (crates/shoal/examples/ask.rs); times are taken in the process."""

    def __init__(self, program, path, threads=None):
        environment = dict(os.environ)
        if threads:
            environment["RAYON_NUM_THREADS"] = str(threads)
        self.process = subprocess.Popen(
            [program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def ask(self, **line):
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(f"{line.get('sql') or line.get('define')}: {answer['error']}")
        return answer

    def define(self, sql):
        self.ask(define=sql)

    def rows(self, sql, each=None):
        return self.ask(sql=sql, each=each or [[]], rows=True)["rows"]

    def ms(self, sql, each=None, fresh=False):
        before = self.processor_ms() if CLOCK.is_processor else 0
        ms = self.ask(sql=sql, each=each or [[]], fresh=fresh)["ms"]
        return self.processor_ms() - before if CLOCK.is_processor else ms

    def load_ms(self, sql, path):
        """The milliseconds of a statement run for each line of a file, fields between bars."""
        before = self.processor_ms() if CLOCK.is_processor else 0
        ms = self.ask(sql=sql, load=path)["ms"]
        return self.processor_ms() - before if CLOCK.is_processor else ms

    def processor_ms(self):
        """The time of all threads, from Linux's count of nanoseconds."""
        tasks = f"/proc/{self.process.pid}/task"
        total = 0
        for task in os.listdir(tasks):
            with open(f"{tasks}/{task}/schedstat") as file:
                total += int(file.read().split()[0])
        return total / 1e6

    def resident_mib(self):
        with open(f"/proc/{self.process.pid}/status") as status:
            line = next(line for line in status if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Clock:
    """Wall time, or on a busy machine the processor time of all threads."""

    is_processor = False

    def now(self):
        return time.process_time() if self.is_processor else time.perf_counter()


CLOCK = Clock()


def timed(work):
    begun = CLOCK.now()
    work()
    return (CLOCK.now() - begun) * 1000


class Report:
    """Rows of figures: answers first, then times in turns."""

    def __init__(self, rounds, only):
        self.rounds, self.only, self.rows = rounds, only, []

    def wants(self, name):
        return not self.only or any(name.startswith(only) for only in self.only)

    def row(self, name, contenders, answers=None, target=None, each=1, rounds=None):
        """`contenders` are functions giving milliseconds; `answers`, one for each contender, are equal."""
        if not self.wants(name):
            return
        if answers:
            known = list(answers.items())
            for other, answer in known[1:]:
                assert answer == known[0][1], f"{name}: {known[0]} is not {(other, answer)}"
        times = {contender: [] for contender in contenders}
        order = list(contenders.items())
        for turn in range(rounds or self.rounds):
            for contender, work in order[turn % len(order) :] + order[: turn % len(order)]:
                times[contender].append(work() / each)
        figures = {contender: statistics.median(all_) for contender, all_ in times.items()}
        self.rows.append({"row": name, "ms": figures, "times": times, "target": target})
        ours = min(ms for contender, ms in figures.items() if contender.startswith("shoal"))
        peers = {c: ms for c, ms in figures.items() if c not in ORIENTATION and not c.startswith("shoal")}
        best = min(peers, key=peers.get)
        words = ", ".join(f"{contender} {ms:.4g}" for contender, ms in figures.items())
        print(f"{name:28} {peers[best] / ours:6.2f} times {best:10} ({words}) ms", flush=True)

    def note(self, name, words):
        if self.wants(name):
            self.rows.append({"row": name, "note": words})
            print(f"{name:28} {words}", flush=True)

    def save(self, path):
        record = {"load": os.getloadavg(), "python": sys.version, "rows": self.rows}
        with open(path, "w") as file:
            json.dump(record, file, indent=1)
