// Unmodified automerge-repo clients against `shoal serve`: it is killed while they edit.
//   node campaign.mjs SHOAL FOLDER SECONDS SEED
// Prints what it did as one line of JSON; exits with 1 and the reason when anything is lost.
import { spawn } from "node:child_process";
import { once } from "node:events";
import net from "node:net";
import { join } from "node:path";
import * as Automerge from "@automerge/automerge";
import { Repo, decodeHeads } from "@automerge/automerge-repo";
import { WebSocketClientAdapter } from "@automerge/automerge-repo-network-websocket";

const [shoal, folder, secondsText, seedText] = process.argv.slice(2);
const seconds = Number(secondsText);
const CLIENTS = 6;
const DOCUMENTS = 3;
const RETRY_MS = 100;
const figures = { kills: 0, stops: 0, edits: 0, acknowledged: 0, checked: 0, rounds: 0, broken: 0, unwatched: 0 };

let state = (BigInt(seedText) * 2654435761n) & 0xffffffffn;
function random(bound) {
  state = (state * 6364136223846793005n + 1442695040888963407n) & 0xffffffffffffffffn;
  return Number((state >> 33n) % BigInt(bound));
}
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
function fail(why) {
  console.error(`seed ${seedText}: ${why}`);
  process.exit(1);
}
// The adapter under Node sends on a socket that is closing, and throws inside its own timers; so does a
// find that nobody waits for any more.
process.on("uncaughtException", (error) => {
  if (/not ready|hang up|ECONN|closed before|is unavailable/i.test(String(error))) return;
  fail(`uncaught: ${error.stack}`);
});
process.on("unhandledRejection", (error) => {
  if (/unavailable|not ready/i.test(String(error))) return;
  fail(`unhandled: ${error?.stack ?? error}`);
});

async function freePort() {
  const server = net.createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  return port;
}
const port = await freePort();
const url = `ws://127.0.0.1:${port}`;

async function serve(file) {
  const child = spawn(shoal, ["serve", join(folder, file), "--listen", `127.0.0.1:${port}`], {
    stdio: ["ignore", "inherit", "pipe"],
  });
  let said = "";
  await new Promise((ready, failed) => {
    child.stderr.on("data", (data) => {
      said += data;
      if (said.includes("page:")) ready();
    });
    child.once("exit", (code) => failed(new Error(`the server ended with ${code}: ${said}`)));
  }).catch((error) => fail(error.message));
  child.removeAllListeners("exit");
  child.said = () => said;
  return child;
}
async function end(child, signal) {
  if (child.exitCode !== null || child.signalCode !== null) fail(`the server has ended: ${child.said()}`);
  const gone = once(child, "exit");
  child.kill(signal);
  const [code, by] = await gone;
  if (signal === "SIGTERM" && code !== 0) fail(`SIGTERM ended it with ${code ?? by}: ${child.said()}`);
}

function client(to = url) {
  return new Repo({ network: [new WebSocketClientAdapter(to, RETRY_MS)], isEphemeral: true });
}
// A repo that is gone: it sends nothing more.
function abandon(repo) {
  // An adapter that was never connected asserts that it was.
  for (const adapter of repo.networkSubsystem.adapters) try { adapter.disconnect(); } catch { /* is gone */ }
}
async function find(repo, id, to = url, ms = 20000) {
  const until = Date.now() + ms;
  for (;;) {
    try {
      const handle = await repo.find(id, { allowableStates: ["ready"] });
      return handle;
    } catch (error) {
      if (Date.now() > until) fail(`${id} is not found: ${error}`);
      abandon(repo);
      await sleep(100);
      repo = client(to);
    }
  }
}
const heads = (handle) => Automerge.getHeads(handle.doc()).join();
async function until(what, ms, test) {
  const end = Date.now() + ms;
  while (!test()) {
    if (Date.now() > end) fail(`in vain: ${what()}`);
    await sleep(20);
  }
}

// A send on a closing socket throws inside the library, in the midst of a change: the handle keeps
// an outdated document for good. Such a handle is counted and left alone.
const broken = new Set();
function edit(handle, name) {
  if (broken.has(handle)) return;
  figures.edits += 1;
  try {
    handle.change((doc) => {
      doc[name] = (doc[name] ?? 0) + 1;
      if (random(4) === 0) (doc.list ??= []).push(`${name} ${figures.edits}`);
    });
  } catch (error) {
    if (!/outdated document|not ready/.test(String(error))) throw error;
    broken.add(handle);
    figures.broken += 1;
  }
}
async function editing(handles, ms) {
  const until = Date.now() + ms;
  while (Date.now() < until) {
    const at = random(handles.length);
    edit(handles[at][random(handles[at].length)], `client ${at}`);
    await sleep(random(40));
  }
}

// Writers that vanish: what the server told them it has must be there for a stranger.
async function losses(ms) {
  const ids = [];
  const file = "losses.db";
  let server = await serve(file);
  const first = client();
  for (let at = 0; at < DOCUMENTS; at += 1) {
    const handle = first.create({ list: [] });
    ids.push(handle.documentId);
    let isKnown = false;
    handle.on("remote-heads", () => (isKnown = true));
    await until(() => "a new document is acknowledged", 10000, () => isKnown);
  }
  abandon(first);
  const known = new Map(ids.map((id) => [id, new Set()]));
  const end_at = Date.now() + ms;
  while (Date.now() < end_at) {
    figures.rounds += 1;
    const repos = Array.from({ length: CLIENTS }, () => client());
    const handles = await Promise.all(
      repos.map((repo) => Promise.all(ids.map((id) => find(repo, id)))),
    );
    for (const handle of handles.flat()) {
      handle.on("remote-heads", ({ heads }) => {
        figures.acknowledged += 1;
        for (const head of decodeHeads(heads)) known.get(handle.documentId).add(head);
      });
    }
    const work = editing(handles, 300 + random(900));
    if (random(2) === 0) await work;
    else await sleep(200 + random(300));
    await end(server, "SIGKILL");
    figures.kills += 1;
    await work;
    repos.forEach(abandon);
    server = await serve(file);
    const stranger = client();
    for (const id of ids) {
      const doc = (await find(stranger, id)).doc();
      const there = new Set(Automerge.getAllChanges(doc).map((one) => Automerge.decodeChange(one).hash));
      for (const head of known.get(id)) {
        figures.checked += 1;
        if (!there.has(head)) fail(`an acknowledged change of ${id} is lost: ${head}`);
      }
    }
    abandon(stranger);
  }
  await end(server, "SIGTERM");
}

// Writers that stay, through kills and restarts: at the end all are equal.
async function convergence(ms) {
  const file = "convergence.db";
  let server = await serve(file);
  const repos = Array.from({ length: CLIENTS }, () => client());
  const made = Array.from({ length: DOCUMENTS }, (_, at) => repos[at].create({ list: [] }));
  await sleep(500);
  const handles = await Promise.all(
    repos.map((repo) => Promise.all(made.map((one) => repo.find(one.documentId)))),
  );
  const end_at = Date.now() + ms;
  while (Date.now() < end_at) {
    figures.rounds += 1;
    const work = editing(handles, 500 + random(1500));
    await sleep(200 + random(800));
    const isKilled = random(3) > 0;
    await end(server, isKilled ? "SIGKILL" : "SIGTERM");
    figures[isKilled ? "kills" : "stops"] += 1;
    await sleep(random(400));
    server = await serve(file);
    await work;
  }
  await sleep(1000);
  handles.forEach((row, at) => row.forEach((handle) => edit(handle, `client ${at}`)));
  for (let at = 0; at < DOCUMENTS; at += 1) {
    const whole = handles.map((row) => row[at]).filter((handle) => !broken.has(handle));
    const of = () => whole.map(heads);
    // Every handle of the document has broken: nobody is left to compare.
    if (whole.length === 0) { figures.unwatched += 1; continue; }
    await until(() => `equal heads: ${of()}`, 30000, () => new Set(of()).size === 1);
    const stranger = client();
    const there = await find(stranger, made[at].documentId);
    await until(() => "a stranger's heads", 10000, () => heads(there) === of()[0]);
    abandon(stranger);
  }
  repos.forEach(abandon);
  await end(server, "SIGTERM");
}

// One relayed change is lost in flight; then the client reconnects.
async function lostInFlight() {
  const server = await serve("flight.db");
  let isSwallowing = false;
  let frames = 0;
  const sockets = new Set();
  const proxy = net.createServer((down) => {
    const up = net.connect(port, "127.0.0.1");
    sockets.add(down);
    down.on("data", (data) => { frames += 1; up.write(data); });
    up.on("data", (data) => { if (!isSwallowing) down.write(data); });
    const close = () => { down.destroy(); up.destroy(); };
    for (const socket of [down, up]) socket.on("close", close).on("error", close);
  });
  proxy.listen(0, "127.0.0.1");
  await once(proxy, "listening");
  const writer = client();
  const past = `ws://127.0.0.1:${proxy.address().port}`;
  const reader = client(past);
  const mine = writer.create({ n: 0 });
  await sleep(500);
  const theirs = await find(reader, mine.documentId, past);
  await until(() => "the first state", 5000, () => heads(theirs) === heads(mine));
  isSwallowing = true;
  mine.change((doc) => { doc.n = 1; });
  await sleep(500);
  if (theirs.doc().n !== 0) fail("the change was not lost: the test is wrong");
  isSwallowing = false;
  frames = 0;
  for (const socket of sockets) socket.destroy();
  await until(() => "the change lost in flight", 5000, () => theirs.doc().n === 1);
  await sleep(1000);
  if (frames > 50) fail(`${frames} frames after a lost change: the peers talk without end`);
  figures.frames_after_loss = frames;
  abandon(writer);
  abandon(reader);
  proxy.close();
  await end(server, "SIGTERM");
}

await lostInFlight();
await losses(seconds * 500);
await convergence(seconds * 500);
console.log(JSON.stringify(figures));
process.exit(0);
