// The contenders: each a process of its own, on a free port, with a folder of its own.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync } from "node:fs";
import net from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const TICKS = 100;
export const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
export const shoal = process.env.SHOAL ?? "../../target/release/shoal";

async function freePort() {
  const server = net.createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  return port;
}

export async function start(name, { folder = mkdtempSync(join(tmpdir(), "lab-sync-")), args = [] } = {}) {
  const port = await freePort();
  const here = import.meta.dirname;
  const env = { ...process.env, PORT: String(port), DATA_DIR: join(folder, "data") };
  const [command, rest] = {
    null: [process.execPath, [join(here, "null.mjs")]],
    reference: [process.execPath, [join(here, "node_modules/@automerge/automerge-repo-sync-server/src/index.js")]],
    "reference-2.5": [process.execPath, [join(here, "reference.mjs")]],
    shoal: [shoal, ["serve", join(folder, "served.db"), "--listen", `127.0.0.1:${port}`, ...args]],
  }[name];
  const began = performance.now();
  const child = spawn(command, rest, { env, stdio: ["ignore", "pipe", "pipe"] });
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => { said += data; });
  // Asked every 2 ms: the time until the port answers is a row.
  for (;;) {
    if (child.exitCode !== null) throw new Error(`${name} ended: ${said}`);
    const socket = net.connect(port, "127.0.0.1");
    const isOpen = await new Promise((done) => { socket.once("connect", () => done(true)); socket.once("error", () => done(false)); });
    socket.destroy();
    if (isOpen) break;
    await sleep(2);
  }
  const start_ms = performance.now() - began;
  await sleep(300);
  const status = () => readFileSync(`/proc/${child.pid}/status`, "utf8");
  return {
    name, folder, port, start_ms, child,
    url: `ws://127.0.0.1:${port}`,
    // Seconds of processor time so far; megabytes of memory now.
    cpu_s: () => {
      const fields = readFileSync(`/proc/${child.pid}/stat`, "utf8").split(") ")[1].split(" ");
      return (Number(fields[11]) + Number(fields[12])) / TICKS;
    },
    rss_mb: () => Number(status().match(/VmRSS:\s+(\d+)/)[1]) / 1024,
    stop: async (signal = "SIGTERM") => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill(signal);
      await once(child, "exit");
    },
  };
}

export const run = (args, input) => execFileSync(shoal, args, { input, encoding: "utf8", stdio: ["pipe", "pipe", "ignore"] });

export function quantiles(samples) {
  const sorted = samples.toSorted((a, b) => a - b);
  const at = (share) => (sorted.length ? +sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))].toFixed(1) : null);
  return { n: sorted.length, p50: at(0.5), p99: at(0.99) };
}
