// Everything at once: installs what is missing, bundles the page, starts `shoal serve` over a database
// with a list in it, and gives the page with the answers of SQL.
//   node start.mjs [--db FILE] [--listen HOST:PORT] [--page PORT]
// SHOAL names a built command; otherwise it is built by cargo.
import { execFileSync, spawn } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:http";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const here = dirname(fileURLToPath(import.meta.url));
const option = { type: "string" };
const { values: given } = parseArgs({ options: { db: option, listen: option, page: option } });
const db = resolve(given.db ?? "together.db");
const listen = given.listen ?? "127.0.0.1:3030";
const QUERY = `SELECT who, count(*) AS items, sum(done) AS done
FROM todo GROUP BY who ORDER BY items DESC, who`;

if (!existsSync(join(here, "node_modules"))) {
  console.log("installing automerge-repo and esbuild");
  execFileSync("npm", ["install", "--no-save", "--no-audit", "--no-fund"], { cwd: here, stdio: "inherit" });
}
if (!process.env.SHOAL) {
  console.log("building shoal");
  execFileSync("cargo", ["build", "--release", "--quiet"], { cwd: join(here, "../.."), stdio: "inherit" });
}
const shoal = process.env.SHOAL ?? join(here, "../../target/release/shoal");
const run = (args, input) => execFileSync(shoal, args, { input, encoding: "utf8", stdio: ["pipe", "pipe", "inherit"] });

const { build } = await import("esbuild");
const bundle = await build({
  entryPoints: [join(here, "page.js")], bundle: true, format: "esm", minify: true, write: false,
  target: "es2022", platform: "browser", define: { "process.env.NODE_ENV": '"production"' },
});

// A list to begin with, and its items as rows that every change keeps.
const { generateAutomergeUrl, parseAutomergeUrl } = await import("@automerge/automerge-repo");
const count = existsSync(db) ? run(["sql", db, "--format", "list", "SELECT count(*) FROM _shoal_projection WHERE name = 'todo'"]) : "0";
if (count.trim() === "0") {
  const list = {
    title: "Summer", text: "Type here, in two windows.\n",
    todos: [{ text: "book the train", done: true, who: "Ada" }, { text: "pack the tent", done: false, who: "Ben" }],
  };
  run(["doc", "import", "-", `${db}::${parseAutomergeUrl(generateAutomergeUrl()).documentId}`], JSON.stringify(list));
  run(["sql", db, "CREATE PROJECTION todo FROM DOCUMENTS ROWS '$.todos[*]' COLUMNS (text TEXT, done BOOLEAN, who TEXT)"]);
}
const name = run(["sql", db, "--format", "list", "SELECT name FROM _shoal_doc ORDER BY id LIMIT 1"]).trim();

const children = [];
function end(code) {
  for (const child of children) child.kill("SIGTERM");
  process.exit(code);
}
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => end(0));
function start(args, stdio) {
  const child = spawn(shoal, args, { stdio });
  child.on("exit", (code) => { console.error(`shoal ${args[0]} ended with ${code}`); end(1); });
  children.push(child);
  return child;
}

const server = start(["serve", db, "--listen", listen], ["ignore", "inherit", "pipe"]);
const address = await new Promise((ready) => {
  createInterface(server.stderr).on("line", (line) => {
    console.error(line);
    const found = line.match(/serving at (ws:\S+)/);
    if (found) ready(found[1]);
  });
});

// The rows of SQL as they change, to every open page.
const pages = new Set();
let rows = null;
createInterface(start(["watch", db, "--query", QUERY], ["ignore", "pipe", "inherit"]).stdout).on("line", (line) => {
  rows = `data: ${line}\n\n`;
  for (const page of pages) page.write(rows);
});

const read = (file) => readFileSync(file);
const files = {
  "/": ["text/html", read(join(here, "index.html"))],
  "/page.css": ["text/css", read(join(here, "page.css"))],
  "/page.js": ["text/javascript", bundle.outputFiles[0].contents],
  "/automerge.wasm": ["application/wasm", read(fileURLToPath(import.meta.resolve("@automerge/automerge/automerge.wasm")))],
  "/config.json": ["application/json", JSON.stringify({ sync: address, document: `automerge:${name}` })],
};
const policy = `default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; style-src 'self'; img-src data:; connect-src 'self' ${address}`;
const site = createServer((request, response) => {
  if (request.url === "/rows") {
    response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-store" });
    if (rows) response.write(rows);
    pages.add(response);
    request.on("close", () => pages.delete(response));
    return;
  }
  const [type, body] = files[request.url] ?? ["text/plain", "there is no such page"];
  response.writeHead(files[request.url] ? 200 : 404, { "content-type": type, "content-security-policy": policy });
  response.end(body);
});
site.listen(Number(given.page ?? 8080), "127.0.0.1", () => {
  console.log(`together: http://127.0.0.1:${site.address().port}/#automerge:${name}`);
  console.log(`rows:     shoal sql ${db} "${QUERY.replaceAll("\n", " ")}"`);
});
