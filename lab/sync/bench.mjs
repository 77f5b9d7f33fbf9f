// The rows of README.md, interleaved by contender.
//   SHOAL=../../target/release/shoal node bench.mjs [ROW]... [--rounds N] [--seconds N] [--json FILE]
// Answers first: a row whose clients do not end with equal documents fails.
import { createHash, randomBytes } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { request } from "node:http";
import { cpus, loadavg } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { parseArgs } from "node:util";
import { gunzipSync } from "node:zlib";
import * as Automerge from "@automerge/automerge";
import { generateAutomergeUrl, parseAutomergeUrl } from "@automerge/automerge-repo";
import { HAVE, bare, found, messages, repo } from "./clients.mjs";
import { quantiles, run, sleep, start } from "./servers.mjs";

const number = { type: "string" };
const { values: given, positionals } = parseArgs({
  allowPositionals: true, options: { rounds: number, seconds: number, json: number },
});
const seconds = Number(given.seconds ?? 15);
const newId = () => parseAutomergeUrl(generateAutomergeUrl()).documentId;
process.on("uncaughtException", (error) => {
  if (!/not ready|hang up|ECONN|closed before/i.test(String(error))) throw error;
});
process.on("unhandledRejection", (error) => {
  if (!/unavailable|not ready/i.test(String(error))) throw error;
});
async function until(what, test, ms = 30000) {
  for (const end = Date.now() + ms; !test(); await sleep(10)) if (Date.now() > end) throw new Error(`in vain: ${what}`);
}

// 20 real clients on 8 documents, so many edits a second in all.
async function edits(server, rate) {
  const [CLIENTS, DOCUMENTS] = [20, 8];
  const clients = Array.from({ length: CLIENTS }, () => repo(server.url));
  const made = Array.from({ length: DOCUMENTS }, () => clients[0].repo.create({ list: [] }));
  await sleep(1000);
  const opening = performance.now();
  const opened = [];
  const handles = await Promise.all(clients.map(async ({ repo }) => {
    const mine = await Promise.all(made.map((one) => found(repo, one.documentId)));
    opened.push(performance.now() - opening);
    return mine;
  }));
  const [acknowledged, visible, born] = [[], [], new Map()];
  const headOf = (handle) => Automerge.getHeads(handle.doc())[0];
  clients.forEach((client, at) => {
    // Heads that the server tells the writer are its acknowledgement.
    client.repo.networkSubsystem.on("message", (message) => {
      if (message.type !== "sync") return;
      for (const head of Automerge.decodeSyncMessage(message.data).heads) {
        const edit = born.get(head);
        if (edit?.by === at && !edit.isKnown) {
          edit.isKnown = true;
          acknowledged.push(performance.now() - edit.at);
        }
      }
    });
    handles[at].forEach((handle) => handle.on("heads-changed", ({ doc }) => {
      for (const head of Automerge.getHeads(doc)) {
        const edit = born.get(head);
        if (edit && edit.by !== at && !edit.seen.has(at)) {
          edit.seen.add(at);
          visible.push(performance.now() - edit.at);
        }
      }
    }));
  });
  const cpu = server.cpu_s();
  const end = Date.now() + seconds * 1000;
  for (let count = 0; Date.now() < end; count += 1) {
    const by = Math.floor(Math.random() * CLIENTS);
    const handle = handles[by][Math.floor(Math.random() * DOCUMENTS)];
    const at = performance.now();
    handle.change((doc) => { doc[`by ${by}`] = count; });
    born.set(headOf(handle), { by, at, seen: new Set(), isKnown: false });
    await sleep((1000 / rate) * (0.5 + Math.random()));
  }
  await until("equal documents", () => made.every((_, at) => new Set(handles.map((row) => Automerge.getHeads(row[at].doc()).join())).size === 1));
  const used = server.cpu_s() - cpu;
  const late = repo(server.url);
  const began = performance.now();
  await Promise.all(made.map((one) => found(late.repo, one.documentId)));
  const late_ms = performance.now() - began;
  const row = { acknowledged: quantiles(acknowledged), visible: quantiles(visible), cpu_s: +used.toFixed(2), rss_mb: +server.rss_mb().toFixed(0), opened: quantiles(opened), late_ms: +late_ms.toFixed(0) };
  [...clients, late].forEach((client) => client.close());
  return row;
}

// Bare clients, ten to a document: each writer sends the next change once it has the last one's head.
async function bareClients(server, peers) {
  const [GROUP, EDITS] = [10, Math.ceil(400 / (peers / 100))];
  const made = messages(EDITS);
  let [taken, relayed] = [0, 0];
  const latencies = [];
  const all = [];
  const done = [];
  for (let group = 0; group < peers / GROUP; group += 1) {
    const documentId = newId();
    for (let at = 0; at < GROUP; at += 1) {
      let next = 0;
      let sent = 0;
      let finish;
      const isWriter = at === 0;
      if (isWriter) done.push(new Promise((ended) => { finish = ended; }));
      const peer = await bare(server.url, `bare-${group}-${at}`, (frame) => {
        if (frame.type !== "sync") return;
        relayed += 1;
        const { heads } = Automerge.decodeSyncMessage(frame.data);
        if (!isWriter || next >= made.length || heads[0] !== made[next].heads[0]) return;
        latencies.push(performance.now() - sent);
        taken += 1;
        next += 1;
        if (next === made.length) finish();
        else push();
      });
      const push = () => { sent = performance.now(); peer.send({ type: "sync", documentId, data: made[next].data }); };
      if (isWriter) peer.begin = push;
      peer.documentId = documentId;
      all.push(peer);
    }
  }
  const cpu = server.cpu_s();
  const began = performance.now();
  const empty = Automerge.encodeSyncMessage({ heads: [], need: [], have: HAVE, changes: [] });
  for (const peer of all) if (!peer.begin) peer.send({ type: "request", documentId: peer.documentId, data: empty });
  for (const peer of all) peer.begin?.();
  const isDone = await Promise.race([Promise.all(done).then(() => true), sleep(60000).then(() => false)]);
  const elapsed = (performance.now() - began) / 1000;
  const row = { peers, is_done: isDone, changes_a_second: Math.round(taken / elapsed), frames_a_second: Math.round(relayed / elapsed), acknowledged: quantiles(latencies), cpu_ms_a_change: +(((server.cpu_s() - cpu) * 1000) / Math.max(taken, 1)).toFixed(3), rss_mb: +server.rss_mb().toFixed(0) };
  all.forEach((peer) => peer.close());
  if (!isDone) throw new Error(`${made.length * (peers / GROUP) - taken} changes were not acknowledged in a minute: ${JSON.stringify(row)}`);
  return row;
}

async function idle(server) {
  const PEERS = 5000;
  const before = server.rss_mb();
  const peers = [];
  for (let at = 0; at < PEERS; at += 100) {
    peers.push(...await Promise.all(Array.from({ length: 100 }, (_, more) => bare(server.url, `idle-${at + more}`))));
  }
  await sleep(1000);
  const row = { peers: PEERS, kb_a_socket: +(((server.rss_mb() - before) * 1024) / PEERS).toFixed(1) };
  peers.forEach((peer) => peer.close());
  return row;
}

// Megabytes of the server's growth by one client.
async function swelling(server) {
  const data = Automerge.encodeSyncMessage({ heads: [], need: [], have: HAVE, changes: [] });
  let before = server.rss_mb();
  const asking = await bare(server.url, "asking");
  for (let at = 0; at < 2000; at += 1) asking.send({ type: "request", documentId: newId(), data });
  await sleep(3000);
  const requests_mb = server.rss_mb() - before;
  asking.close();

  const documentId = newId();
  const [made] = messages(1);
  const [writer, paused] = [await bare(server.url, "writer"), await bare(server.url, "paused")];
  for (const peer of [writer, paused]) peer.send({ type: "sync", documentId, data: made.data });
  await sleep(500);
  before = server.rss_mb();
  paused.socket.pause();
  const letters = Buffer.alloc(60000, 97);
  for (let count = 1; count <= 1333; count += 1) {
    writer.send({ type: "ephemeral", documentId, count, sessionId: "s", data: letters });
    if (count % 20 === 0) await sleep(10);
  }
  await sleep(2000);
  const ephemera_mb = server.rss_mb() - before;
  for (const peer of [writer, paused]) peer.close();

  const large = newId();
  const [whole] = messages(1, () => randomBytes(4 << 20));
  const author = await bare(server.url, "author");
  author.send({ type: "sync", documentId: large, data: whole.data });
  await sleep(3000);
  before = server.rss_mb();
  const readers = await Promise.all(Array.from({ length: 20 }, (_, at) => bare(server.url, `reader-${at}`)));
  for (const reader of readers) { reader.socket.pause(); reader.send({ type: "request", documentId: large, data }); }
  await sleep(4000);
  const readers_mb = server.rss_mb() - before;
  for (const peer of [author, ...readers]) peer.close();
  return { requests_mb: +requests_mb.toFixed(1), ephemera_mb: +ephemera_mb.toFixed(1), readers_mb: +readers_mb.toFixed(1) };
}

// Documents by name, made once: a real one, a history of 40,000 changes of a few letters, and 10^6 ops.
const DATA = join(import.meta.dirname, "../../testdata");
const MAKERS = {
  essay: () => readFileSync(join(DATA, "automerge/documents/essay.amrg")),
  rustcode: () => {
    const { txns } = JSON.parse(gunzipSync(readFileSync(join(DATA, "traces/sequential/rustcode.json.gz"))));
    let doc = Automerge.from({ text: "" });
    for (const { patches } of txns) {
      for (const [at, removed, letters] of patches) {
        doc = Automerge.change(doc, (draft) => { Automerge.splice(draft, ["text"], at, removed, letters); });
      }
    }
    return Automerge.save(doc);
  },
  "million-ops": () => {
    let doc = Automerge.from({ text: "" });
    for (let at = 0; at < 1e6; at += 1000) {
      const letters = randomBytes(500).toString("hex");
      doc = Automerge.change(doc, (draft) => { Automerge.splice(draft, ["text"], Math.floor(Math.random() * at), 0, letters); });
    }
    return Automerge.save(doc);
  },
};
const bytesOf = {};

// Newcomers fetch a document: the first from a server just started over the stored file, then ten
// more, while an author edits another document.
async function fetching(server, name) {
  bytesOf[name] ??= MAKERS[name]();
  const doc = Automerge.load(bytesOf[name]);
  const heads = Automerge.getHeads(doc).join();
  const { documentId } = parseAutomergeUrl(generateAutomergeUrl());
  const author = await bare(server.url, "author", (frame) => { if (frame.type === "sync" && headsIn(frame) === heads) author.isStored = true; });
  author.send({ type: "sync", documentId, data: Automerge.encodeSyncMessage({ heads: Automerge.getHeads(doc), need: [], have: HAVE, changes: [bytesOf[name]] }) });
  await until("the document is stored", () => author.isStored, 120000);
  await sleep(500);
  author.close();
  if (server.name !== "null") {
    // The reference stores some time after it answered.
    await sleep(2000);
    await server.stop();
    Object.assign(server, await start(server.name, { folder: server.folder }));
  }
  // The first message of a real client, who says that it takes whole documents.
  const [, data] = Automerge.generateSyncMessage(Automerge.init(), Automerge.initSyncState());
  const fetch = async (id) => {
    let done;
    const came = new Promise((told) => { done = told; });
    let bytes = 0;
    const reader = await bare(server.url, id, (frame) => {
      if (frame.type !== "sync") return;
      const message = Automerge.decodeSyncMessage(frame.data);
      bytes += message.changes.reduce((sum, change) => sum + change.length, 0);
      if (message.heads.join() === heads && bytes > 0) done();
    });
    const began = performance.now();
    reader.send({ type: "request", documentId, data });
    await Promise.race([came, sleep(120000).then(() => { throw new Error("the document did not come"); })]);
    const ms = performance.now() - began;
    reader.close();
    return { ms, bytes };
  };
  const first = await fetch("first");
  const quiet = await probing(server, () => sleep(2000));
  const again = [];
  const meanwhile = await probing(server, async () => {
    for (let at = 0; at < 10; at += 1) again.push((await fetch(`again-${at}`)).ms);
  });
  return { first_ms: +first.ms.toFixed(1), sent_kb: Math.round(first.bytes / 1024), again: quantiles(again), quiet, meanwhile, rss_mb: +server.rss_mb().toFixed(0) };
}
const headsIn = (frame) => Automerge.decodeSyncMessage(frame.data).heads.join();

// Latencies of an author of small changes while something goes on.
async function probing(server, during) {
  const made = messages(4000);
  const samples = [];
  let told = () => {};
  let next = 0;
  const peer = await bare(server.url, `probe-${Math.random()}`, (frame) => {
    if (frame.type === "sync" && next < made.length && headsIn(frame) === made[next].heads[0]) told();
  });
  const documentId = newId();
  let isOver = false;
  const work = during().finally(() => { isOver = true; });
  for (; !isOver && next < made.length; next += 1) {
    const sent = performance.now();
    await new Promise((done) => { told = done; peer.send({ type: "sync", documentId, data: made[next].data }); });
    samples.push(performance.now() - sent);
    await sleep(5);
  }
  await work;
  peer.close();
  return quantiles(samples);
}

// Restart over what is stored.
async function restart(server) {
  const first_ms = server.start_ms;
  await server.stop();
  const again = await start(server.name, { folder: server.folder });
  const row = { empty_ms: +first_ms.toFixed(0), again_ms: +again.start_ms.toFixed(0), rss_mb: +again.rss_mb().toFixed(0) };
  await again.stop();
  return row;
}

// Admission: stamps a second, and the latency of sync beside a flood of false stamps.
async function admission(server) {
  const http = server.url.replace("ws:", "http:");
  const post = async (body) => {
    const response = await fetch(`${http}/admission`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
    return { status: response.status, ...(await response.json()) };
  };
  const metric = async (name) => Number((await (await fetch(`${http}/metrics`)).text()).match(new RegExp(`^shoal_${name} (\\S+)`, "m"))[1]);
  const hex = (bytes) => Buffer.from(bytes).toString("hex");
  const quiet = await probing(server, () => sleep(seconds * 300));
  // A challenge for every wasted hash, and stamps that are no solution. Each address has 60 challenges a
  // minute: the flood comes from many addresses of this machine's own network.
  const from = (localAddress, body) => new Promise((done, failed) => {
    const text = JSON.stringify(body);
    const asked = request(`${http}/admission`, { method: "POST", localAddress, headers: { "content-type": "application/json", "content-length": Buffer.byteLength(text) } }, (response) => {
      let all = "";
      response.on("data", (data) => { all += data; });
      response.on("end", () => { try { done({ status: response.statusCode, ...JSON.parse(all) }); } catch (error) { failed(error); } });
    });
    asked.on("error", failed);
    asked.end(text);
  });
  let isOver = false;
  const outcomes = {};
  const flood = Array.from({ length: 16 }, async (_, worker) => {
    for (let turn = 0; !isOver; turn += 1) {
      const address = `127.${1 + worker}.${(turn >> 8) & 255}.${1 + (turn & 127)}`;
      const secret = randomBytes(32);
      try {
        const challenge = await from(address, { claim: createHash("sha256").update(secret).digest("hex") });
        const answer = await from(address, { challenge: challenge.challenge, secret: hex(secret), nonce: 1 });
        const word = answer.fault ?? answer.status;
        outcomes[word] = (outcomes[word] ?? 0) + 1;
      } catch { outcomes.failed = (outcomes.failed ?? 0) + 1; }
    }
  });
  await sleep(500);
  const [hashes, spent, began] = [await metric("stamps_total"), await metric("stamp_seconds_total"), performance.now()];
  const flooded = await probing(server, () => sleep(seconds * 700));
  const elapsed = (performance.now() - began) / 1000;
  const verified = (await metric("stamps_total")) - hashes;
  const each = ((await metric("stamp_seconds_total")) - spent) / Math.max(verified, 1);
  isOver = true;
  await Promise.all(flood);
  return { quiet, flooded, stamps_a_second: +(verified / elapsed).toFixed(1), ms_a_stamp: +(each * 1000).toFixed(1), outcomes, rss_mb: +server.rss_mb().toFixed(0) };
}

const ALL = ["null", "reference", "reference-2.5", "shoal"];
const ROWS = {
  "edits/5": [ALL, (server) => edits(server, 5)],
  "edits/17": [ALL, (server) => edits(server, 17)],
  "bare/100": [ALL, (server) => bareClients(server, 100)],
  "bare/1000": [ALL, (server) => bareClients(server, 1000)],
  idle: [ALL, idle],
  swelling: [["reference", "reference-2.5", "shoal"], swelling],
  "fetch/essay": [ALL, (server) => fetching(server, "essay")],
  "fetch/rustcode": [ALL, (server) => fetching(server, "rustcode")],
  "fetch/million-ops": [ALL, (server) => fetching(server, "million-ops")],
  restart: [["reference", "reference-2.5", "shoal"], restart],
  admission: [["shoal"], admission, { args: ["--admission", "/tmp/lab-sync-admission.key", "--anyone", "write", "--admission-memory", "65536"] }],
};
const chosen = Object.entries(ROWS).filter(([name]) => positionals.length === 0 || positionals.some((part) => name.startsWith(part)));
const record = { cpu: cpus()[0].model, cores: cpus().length, node: process.version, rows: [] };
for (let round = 1; round <= Number(given.rounds ?? 1); round += 1) {
  for (const [row, [contenders, work, options]] of chosen) {
    for (const name of round % 2 ? contenders : contenders.toReversed()) {
      const server = await start(name, options);
      let result;
      try {
        result = await work(server);
      } catch (error) {
        result = { failed: String(error) };
      }
      await server.stop("SIGKILL");
      record.rows.push({ row, name, round, load: +loadavg()[0].toFixed(1), ...result });
      console.log(row, name, JSON.stringify(result));
    }
  }
}
if (given.json) writeFileSync(given.json, JSON.stringify(record, null, 1));
process.exit(record.rows.some((row) => row.failed) ? 1 : 0);
