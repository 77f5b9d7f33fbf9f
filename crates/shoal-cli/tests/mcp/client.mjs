// The official MCP client against the command: over a child's stdin and stdout, and over HTTP.
//
//     node client.mjs SHOAL DB        DB has a table t(n) with the numbers 1 to 5000
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { writeFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [shoal, database] = process.argv.slice(2);
const ENDLESS =
  "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c";

const text = (result) => result.content.map((part) => part.text).join("");

async function exercise(client) {
  assert.equal(client.getServerVersion().name, "shoal");
  assert.match(client.getInstructions(), /Begin with schema/);
  const { tools } = await client.listTools();
  const names = tools.map((tool) => tool.name);
  assert.deepEqual(names.slice(0, 2), ["schema", "query"]);
  assert.ok(tools.every((tool) => tool.inputSchema.type === "object"));
  const schema = await client.callTool({ name: "schema", arguments: {} });
  assert.match(text(schema), /table t\(n/);
  const call = (args) => client.callTool({ name: "query", arguments: args });
  let seen = 0;
  let page = await call({ sql: "SELECT n FROM t ORDER BY n", rows: 1000 });
  for (;;) {
    seen += page.structuredContent.rows.length;
    const cursor = page.structuredContent.next_cursor;
    if (!cursor) break;
    page = await call({ cursor, rows: 1000 });
  }
  assert.equal(seen, 5000);
  const refused = await call({ sql: "DELETE FROM t" });
  assert.equal(refused.isError, true);
  assert.match(text(refused), /only reads/);
  const { resources } = await client.listResources();
  assert.equal(resources[0].uri, "shoal://schema");
  const read = await client.readResource({ uri: "shoal://schema" });
  assert.match(read.contents[0].text, /table t\(n/);
  await assert.rejects(client.readResource({ uri: "shoal://nothing" }), /no resource/);
  // A call given up stops its statement: the next one need not wait for the end of its time.
  const given = new AbortController();
  const endless = client.callTool({ name: "query", arguments: { sql: ENDLESS } }, undefined, {
    signal: given.signal,
  });
  setTimeout(() => given.abort("enough"), 200);
  await assert.rejects(endless);
  const begun = Date.now();
  const next = await call({ sql: "SELECT 1" });
  assert.deepEqual(next.structuredContent.rows, [[1]]);
  assert.ok(Date.now() - begun < 30_000, `${Date.now() - begun} ms`);
}

const info = { name: "shoal-test", version: "1" };

const child = new StdioClientTransport({
  command: shoal,
  args: ["mcp", database, "--timeout", "120"],
  stderr: "inherit",
});
const piped = new Client(info);
await piped.connect(child);
await exercise(piped);
await piped.close();

const token = "0123456789abcdef";
writeFileSync("mcp.token", `${token}\n`);
const served = spawn(
  shoal,
  ["mcp", database, "--timeout", "120", "--listen", "127.0.0.1:0", "--token-file", "mcp.token"],
  { stdio: ["ignore", "pipe", "pipe"] },
);
let stdout = "";
served.stdout.on("data", (bytes) => (stdout += bytes));
try {
  const [line] = await new Promise((resolve, reject) => {
    createInterface(served.stderr).once("line", (line) => resolve([line]));
    served.once("exit", (code) => reject(new Error(`the server ended with ${code}`)));
  });
  const url = new URL(line.split(" at ")[1]);
  const requestInit = { headers: { Authorization: `Bearer ${token}` } };
  const client = new Client(info);
  await client.connect(new StreamableHTTPClientTransport(url, { requestInit }));
  await exercise(client);
  await client.close();
  const stranger = new Client(info);
  await assert.rejects(stranger.connect(new StreamableHTTPClientTransport(url)));
  assert.equal(stdout, "");
} finally {
  served.kill("SIGTERM");
}
console.log("both transports: all well");
process.exit(0);
