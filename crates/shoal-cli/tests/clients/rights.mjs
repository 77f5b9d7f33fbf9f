// Unmodified automerge-repo clients with tokens and tickets.
//   node rights.mjs SHOAL FOLDER
// Prints a word for each case; exits with 1 and the reason when one fails.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import { join } from "node:path";
import { argon2id } from "hash-wasm";
import WebSocket from "ws";
import { Repo } from "@automerge/automerge-repo";
import { WebSocketClientAdapter } from "@automerge/automerge-repo-network-websocket";

const [shoal, folder] = process.argv.slice(2);
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
function fail(why) {
  console.error(why);
  process.exit(1);
}
// Servers hold the pipe of whoever waits for this process.
const children = [];
process.on("exit", () => children.forEach((child) => child.kill("SIGKILL")));
process.on("uncaughtException", (error) => {
  if (/not ready|hang up|ECONN|closed before/i.test(String(error))) return;
  fail(`uncaught: ${error.stack}`);
});
process.on("unhandledRejection", (error) => {
  if (/unavailable|not ready/i.test(String(error))) return;
  fail(`unhandled: ${error?.stack ?? error}`);
});
async function until(what, test, ms = 15000) {
  const end = Date.now() + ms;
  while (!(await test())) {
    if (Date.now() > end) fail(`in vain: ${what}`);
    await sleep(50);
  }
}
async function serve(file, ...args) {
  const child = spawn(shoal, ["serve", file, "--listen", "127.0.0.1:0", ...args], {
    cwd: folder,
    stdio: ["ignore", "inherit", "pipe"],
  });
  children.push(child);
  let said = "";
  child.stderr.on("data", (data) => { said += data; });
  await until("the server starts", () => said.includes("page:") || child.exitCode !== null);
  if (child.exitCode !== null) fail(`the server ended: ${said}`);
  return { child, url: said.match(/ws:\/\/[^\s]+/)[0] };
}
const run = (...args) => execFileSync(shoal, args, { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }).trim();
const repos = [];
function client(url, retryMs = 200) {
  const adapter = new WebSocketClientAdapter(url, retryMs);
  const repo = new Repo({ network: [adapter], isEphemeral: true });
  repos.push(adapter);
  return { repo, adapter };
}
async function isFound(repo, id) {
  try {
    await repo.find(id, { allowableStates: ["ready"] });
    return true;
  } catch {
    return false;
  }
}
// Asks whether a document's present heads are stored: the server's news of earlier ones may come late.
function stored(handle) {
  let kept = "";
  handle.on("remote-heads", ({ heads }) => { kept = JSON.stringify(heads); });
  return () => kept === JSON.stringify(handle.heads());
}

// Tokens: of a writer of everything, of a reader of one document.
const writerToken = run("token", "new", "tokens.json", "--write", "*");
const first = await serve("tokens.db", "--tokens", "tokens.json");
const { repo: writer } = client(`${first.url}/?token=${writerToken}`);
const shared = writer.create({ text: "shared" });
const hidden = writer.create({ text: "hidden" });
const areStored = [shared, hidden].map(stored);
await until("the documents are stored", () => areStored.every((isStored) => isStored()));
console.log("writer");

const readerToken = run("token", "new", "tokens.json", "--read", shared.url);
await sleep(1200);
const { repo: reader } = client(`${first.url}/?token=${readerToken}`);
const copy = await reader.find(shared.documentId, { allowableStates: ["ready"] });
if (copy.doc().text !== "shared") fail("the reader reads something else");
if (await isFound(reader, hidden.documentId)) fail("the reader found a hidden document");
copy.change((doc) => { doc.text = "changed by a reader"; });
await sleep(800);
if (shared.doc().text !== "shared") fail("a reader's change reached the writer");
shared.change((doc) => { doc.more = 1; });
await until("the reader sees the change", () => copy.doc().more === 1);
console.log("reader");

// By a cookie, as browsers send it; a bare socket is enough.
const cookie = new WebSocket(first.url, { headers: { cookie: `shoal_token=${readerToken}` } });
const nobody = new WebSocket(first.url);
const words = new Map([[cookie, ""], [nobody, ""]]);
for (const socket of words.keys()) {
  socket.on("message", (data) => words.set(socket, words.get(socket) + Buffer.from(data).toString("latin1")));
  await until("the socket opens", () => socket.readyState === WebSocket.OPEN);
  // {"type": "join", "senderId": "x"}
  socket.send(Buffer.from("a2647479706564" + "6a6f696e" + "6873656e6465724964" + "6178", "hex"));
}
await until("nobody is answered, told why, and closed", () =>
  /peer[^]*a token is needed/.test(words.get(nobody)) && nobody.readyState === WebSocket.CLOSED);
await until("the cookie is good", () => words.get(cookie).includes("peer"));
if (words.get(cookie).includes("error")) fail("the cookie is refused");
cookie.close();
console.log("cookie");

// Revoked while its socket is open: changes come no more.
const id = run("token", "ls", "tokens.json").split("\n").find((line) => line.includes("read")).split(" ")[0];
run("token", "revoke", "tokens.json", id);
await sleep(1500);
shared.change((doc) => { doc.after = 1; });
await sleep(1000);
if (copy.doc().after !== undefined) fail("a revoked token still reads");
console.log("revoked");
for (const adapter of repos.splice(0)) adapter.disconnect();
first.child.kill("SIGTERM");

// Admission by work; a ticket that ends while the client is connected.
const price = ["--admission", "admission.key", "--admission-memory", "256", "--admission-hashes", "4"];
const second = await serve("admission.db", ...price, "--ticket-seconds", "3");
const http = second.url.replace("ws:", "http:");
const script = await (await fetch(`${http}/admission.js`)).text();
const { pay } = await import(`data:text/javascript,${encodeURIComponent(script)}`);
let hashes = 0;
const bought = await pay(second.url, { argon2id, progress: () => { hashes += 1; } });
if (hashes < 1) fail("no work was done");
const { repo: guest, adapter } = client(`${second.url}/?ticket=${bought.ticket}`, 2000);
const mine = guest.create({ n: 0 });
const isMineKept = stored(mine);
await until("the guest's document is stored", isMineKept);
console.log("ticket");

await sleep(4000);
mine.change((doc) => { doc.n = 1; });
await sleep(1500);
if (isMineKept()) fail("a ticket that has ended still stores");
// The adapter reads its url at each connect: the app puts a new ticket there.
const again = await pay(second.url, { argon2id });
adapter.url = `${second.url}/?ticket=${again.ticket}`;
await until("the change is stored with the next ticket", isMineKept);
console.log("expired");
for (const adapter of repos.splice(0)) adapter.disconnect();
second.child.kill("SIGTERM");

// A server of the app is asked about each document, and asked again.
let rights = "write";
const asked = [];
const app = createServer((request, response) => {
  let body = "";
  request.on("data", (data) => { body += data; }).on("end", () => {
    const question = JSON.parse(body);
    asked.push(question);
    response.end(JSON.stringify({ rights: question.token === "good" ? rights : "none", seconds: 1 }));
  });
}).listen(0, "127.0.0.1");
await once(app, "listening");
const third = await serve("asked.db", "--ask", `http://127.0.0.1:${app.address().port}/rights`);
const { repo: owner } = client(`${third.url}/?token=good`);
const own = owner.create({ n: 0 });
const isOwnKept = stored(own);
await until("the asked server lets the owner write", isOwnKept);
if (asked[0].document !== own.documentId) fail(`asked about something else: ${JSON.stringify(asked[0])}`);
const { repo: other } = client(`${third.url}/?token=bad`);
if (await isFound(other, own.documentId)) fail("somebody without rights found the document");
const count = () => asked.filter((one) => one.token === "good").length;
const before = count();
await until("the server asks again", () => count() > before);
rights = "none";
const last = count();
await until("the server hears of other rights", () => count() > last);
await sleep(1000);
own.change((doc) => { doc.n = 1; });
await sleep(1000);
if (isOwnKept()) fail("rights that were taken away still store");
console.log("hook");
for (const adapter of repos) adapter.disconnect();
third.child.kill("SIGTERM");
app.close();
process.exit(0);
