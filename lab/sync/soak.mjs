// A soak: clients that come, edit, read and go, on documents that are made and left, and the server's
// memory meanwhile.
//   SHOAL=../../target/release/shoal node soak.mjs [--minutes N] [--server shoal|reference|reference-2.5]
// One line of JSON every ten seconds; fails when an edit is not there for a stranger at the end.
import { parseArgs } from "node:util";
import { found, repo } from "./clients.mjs";
import { sleep, start } from "./servers.mjs";

const option = { type: "string" };
const { values: given } = parseArgs({ options: { minutes: option, server: option } });
const end = Date.now() + Number(given.minutes ?? 60) * 60000;
const server = await start(given.server ?? "shoal");
process.on("exit", () => server.child.kill("SIGKILL"));
for (const event of ["uncaughtException", "unhandledRejection"]) {
  process.on(event, (error) => { if (!/not ready|hang up|ECONN|closed before|unavailable/i.test(String(error))) { console.error(error); process.exit(1); } });
}
const random = (bound) => Math.floor(Math.random() * bound);
const KEPT = 40;
let documents = [];
const figures = { edits: 0, documents: 0, sessions: 0, acknowledged: 0 };

// A client for some seconds: documents of its own, edits of others', presence.
async function session() {
  figures.sessions += 1;
  const client = repo(server.url);
  const handles = [];
  for (let at = 0; at < 3; at += 1) {
    if (documents.length > 5 && random(3) > 0) {
      handles.push(await found(client.repo, documents[random(documents.length)].id));
    } else {
      const handle = client.repo.create({ count: 0, text: "" });
      figures.documents += 1;
      await new Promise((done) => handle.once("remote-heads", done));
      documents.push({ id: handle.documentId });
      handles.push(handle);
    }
  }
  for (const handle of handles) handle.on("remote-heads", () => { figures.acknowledged += 1; });
  for (let left = 10 + random(40); left > 0; left -= 1) {
    const handle = handles[random(handles.length)];
    figures.edits += 1;
    handle.change((doc) => {
      doc.count = (doc.count ?? 0) + 1;
      doc.text = `${doc.text}${String.fromCharCode(97 + random(26))}`.slice(-500);
    });
    handle.broadcast({ place: left });
    await sleep(random(400));
  }
  await sleep(500);
  client.close();
  if (documents.length > KEPT) documents = documents.slice(-KEPT);
}

let isOver = false;
const sessions = Array.from({ length: 6 }, async () => { while (!isOver) await session(); });
while (Date.now() < end) {
  console.log(JSON.stringify({ left_s: Math.round((end - Date.now()) / 1000), rss_mb: +server.rss_mb().toFixed(1), cpu_s: +server.cpu_s().toFixed(1), ...figures }));
  await sleep(10000);
}
isOver = true;
await Promise.all(sessions);
const stranger = repo(server.url);
for (const { id } of documents) {
  const handle = await found(stranger.repo, id);
  if (!(handle.doc().count >= 0)) throw new Error(`${id} is not whole`);
}
stranger.close();
await sleep(12000);
console.log(JSON.stringify({ left_s: 0, rss_mb: +server.rss_mb().toFixed(1), cpu_s: +server.cpu_s().toFixed(1), ...figures }));
process.exit(0);
