"use strict";
const $ = (id) => document.getElementById(id);
// The token comes behind the #, which no server sees, and stays in this tab.
const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  sessionStorage.setItem("token", given);
  history.replaceState(null, "", location.pathname);
}
const LOOK_MS = 2000;
const SAMPLES = 150;
let chosen = null, shownHeads = null, at = null, samples = [];

async function fetched(path, options = {}) {
  const token = sessionStorage.getItem("token") ?? "";
  const headers = { authorization: `Bearer ${token}` };
  const response = await fetch(`/api/${path}`, { ...options, headers });
  if (response.status === 401) {
    $("key").hidden = false;
    $("main").hidden = true;
  }
  if (!response.ok) throw Object.assign(new Error((await response.json()).error), { status: response.status });
  $("key").hidden = true;
  $("main").hidden = false;
  return response;
}
const ask = async (path, options) => (await fetched(path, options)).json();
const query = (sql) => ask("sql", { method: "POST", body: sql });
// Figures and peers are for admins; readers have documents, and principals tables.
const ofAdmins = (error) => {
  if (error.status === 403) return null;
  throw error;
};
const quoted = (text) => `'${text.replaceAll("'", "''")}'`;

function element(name, text, properties = {}) {
  const made = Object.assign(document.createElement(name), properties);
  if (text !== undefined) made.textContent = text;
  return made;
}

const bytes = (n) => n < 10000 ? `${n} B` : n < 1e7 ? `${Math.round(n / 1000)} kB` : `${Math.round(n / 1e6)} MB`;
const since = (ms) => ms < 1e5 ? `${Math.round(ms / 1000)} s` : ms < 6e6 ? `${Math.round(ms / 6e4)} min` : `${Math.round(ms / 3.6e6)} h`;

async function look() {
  try {
    const status = await ask("status").catch(ofAdmins);
    $("status").textContent = "";
    if (status) {
      const pause = status.commits ? (status.commit_us / status.commits / 1000).toFixed(2) : "–";
      const failed = status.has_failed ? " · the file refuses to be written" : "";
      $("status").textContent = `${status.peers} peers · ${status.changes} changes stored · ${pause} ms a commit${failed}`;
      plot(status);
    }
    const { documents } = await ask("documents");
    $("no-documents").hidden = documents.length > 0;
    const wanted = $("filter").value.trim();
    const list = documents.filter((one) => one.name.includes(wanted)).map((one) => {
      const button = element("button", undefined, { type: "button" });
      button.append(element("span", one.name, { className: "name" }));
      const shared = one.is_shared ? `${one.peers} peers` : "not shared: its name is no id";
      button.append(element("small", `${one.changes} changes · ${bytes(one.bytes)} · ${shared}`));
      button.setAttribute("aria-current", String(one.name === chosen));
      button.dataset.name = one.name;
      const item = element("li");
      item.append(button);
      return item;
    });
    const focused = document.activeElement?.dataset?.name;
    $("documents").replaceChildren(...list);
    if (focused) $("documents").querySelector(`[data-name="${CSS.escape(focused)}"]`)?.focus();
    const here = documents.find((one) => one.name === chosen);
    if (here && at === null && here.heads.join() !== shownHeads) await show();
    if (chosen && !here) $("document").hidden = true;
    if (status) await peers();
  } catch (error) {
    $("status").textContent = error.message;
  }
}

async function peers() {
  const { peers: all } = await ask("peers");
  $("no-peers").hidden = all.length > 0;
  $("peers").hidden = all.length === 0;
  $("peers").querySelector("tbody").replaceChildren(...all.map((one) => {
    const line = element("tr");
    const cells = [one.peer ?? "has not joined", since(one.age_ms), one.documents, one.behind, bytes(one.queued_bytes), bytes(one.pending_bytes)];
    line.append(...cells.map((cell) => element("td", String(cell))));
    return line;
  }));
}

// What is plotted: a word, and the value of two samples after each other.
const PLOTS = [
  ["peers", (now) => now.peers, String],
  ["messages taken a second", (now, last) => (now.received - last.received) / seconds(now, last), (n) => n.toFixed(1)],
  ["messages sent a second", (now, last) => (now.sent - last.sent) / seconds(now, last), (n) => n.toFixed(1)],
  ["changes stored a second", (now, last) => (now.changes - last.changes) / seconds(now, last), (n) => n.toFixed(1)],
  ["ms a commit", (now, last) => (now.commit_us - last.commit_us) / Math.max(now.commits - last.commits, 1) / 1000, (n) => n.toFixed(2)],
  ["bytes queued", (now) => now.queued_bytes, bytes],
  ["documents in memory", (now) => now.documents_in_memory, String],
];
const seconds = (now, last) => Math.max((now.at - last.at) / 1000, 0.001);

function plot(status) {
  samples.push({ ...status, at: Date.now() });
  samples = samples.slice(-SAMPLES);
  const faults = Object.entries(status.faults).map(([word, count]) => `${word} ${count}`);
  $("faults").textContent = faults.length ? `Faults of peers: ${faults.join(", ")}` : "";
  if (samples.length < 2) return;
  $("plots").replaceChildren(...PLOTS.map(([title, value, text]) => {
    const values = samples.slice(1).map((now, index) => value(now, samples[index]));
    const most = Math.max(...values, Number.EPSILON);
    const points = values.map((one, index) => `${(index / Math.max(values.length - 1, 1)) * 100},${38 - (one / most) * 36}`);
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg");
    svg.setAttribute("viewBox", "0 0 100 40");
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `${title}: now ${text(values.at(-1))}, at most ${text(most)}`);
    const line = document.createElementNS(space, "polyline");
    line.setAttribute("points", points.join(" "));
    for (const [name, to] of [["fill", "none"], ["stroke", "currentColor"], ["vector-effect", "non-scaling-stroke"]]) line.setAttribute(name, to);
    svg.append(line);
    const figure = element("figure");
    figure.append(element("figcaption", `${title}: ${text(values.at(-1))}`), svg);
    return figure;
  }));
}

async function show() {
  const [name, place] = [encodeURIComponent(chosen), at];
  const shown = await ask(`documents/${name}${place === null ? "" : `?at=${place}`}`);
  if (place === null) shownHeads = shown.heads.join();
  $("document").hidden = false;
  $("name").textContent = shown.name;
  $("about").textContent = `${shown.changes} changes, heads ${shown.heads.map((head) => head.slice(0, 12)).join(", ")}`;
  $("value").textContent = JSON.stringify(shown.value, null, 2);
  const last = Math.max(shown.changes - 1, 0);
  $("at").max = last;
  if (place === null) $("at").value = last;
  $("at-text").textContent = `${Number($("at").value) + 1} of ${shown.changes}`;
  await differences(name, place ?? last, shown.heads);
  if (place !== null) return;
  const { changes } = await ask(`documents/${name}/history`);
  $("history").replaceChildren(...changes.reverse().map((change) => {
    const when = change.time ? new Date(change.time * 1000).toISOString().slice(0, 19) : "no time            ";
    return element("li", `${when}  ${change.hash.slice(0, 12)}  ${change.actor.slice(0, 8)} #${change.seq}  ${change.ops} ops  ${change.message ?? ""}`);
  }));
}

// What the change at a place did, and what is in conflict after it.
async function differences(name, place, heads) {
  const before = place > 0 ? (await ask(`documents/${name}?at=${place - 1}`)).heads.join() : "";
  const of = quoted(decodeURIComponent(name));
  const [steps, conflicts] = await Promise.all([
    query(`SELECT path, action, before, after FROM document_diff(${of}, ${quoted(before)}, ${quoted(heads.join())}) LIMIT 200`),
    query(`SELECT path, value, winner FROM document_conflicts(${of}, ${quoted(heads.join())}) LIMIT 200`),
  ]);
  $("diff").replaceChildren(...steps.rows.map(([path, action, was, is]) => {
    const item = element("li", `${path || "/"} ${action} `);
    if (was !== null) item.append(element("del", String(was)), " ");
    if (is !== null) item.append(element("ins", String(is)));
    return item;
  }));
  $("conflicts-part").hidden = conflicts.rows.length === 0;
  $("conflicts").replaceChildren(...conflicts.rows.map(([path, value, winner]) =>
    element("li", `${path}: ${value}${winner ? " (shown)" : ""}`)));
}

const report = (error) => { $("status").textContent = error.message; };

$("documents").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  chosen = button.dataset.name;
  at = null;
  show().catch(report);
  look();
});
function travel(to) {
  const slider = $("at");
  slider.value = to;
  at = slider.value === slider.max ? null : Number(slider.value);
  show().catch(report);
}
$("at").addEventListener("change", () => travel($("at").value));
$("filter").addEventListener("input", look);
$("export").addEventListener("click", async () => {
  try {
    const response = await fetched(`documents/${encodeURIComponent(chosen)}/export`);
    const link = element("a", undefined, { href: URL.createObjectURL(await response.blob()), download: `${chosen}.automerge` });
    link.click();
    URL.revokeObjectURL(link.href);
  } catch (error) { report(error); }
});
$("deny").addEventListener("click", async () => {
  if (!confirm(`Remove ${chosen} from this server, and serve it to nobody?`)) return;
  try {
    await ask(`documents/${encodeURIComponent(chosen)}?deny=true`, { method: "DELETE" });
    [chosen, shownHeads] = [null, null];
    $("document").hidden = true;
    await look();
  } catch (error) { report(error); }
});
$("key").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", $("token").value);
  start();
});
async function run(event) {
  event?.preventDefault();
  $("failure").textContent = "";
  try {
    const { columns, rows, is_cut } = await query($("sql").value);
    const head = element("tr");
    head.append(...columns.map((name) => element("th", name)));
    $("rows").querySelector("thead").replaceChildren(head);
    $("rows").querySelector("tbody").replaceChildren(...rows.map((row) => {
      const line = element("tr");
      line.append(...row.map((value) => element("td", value === null ? "NULL" : String(value))));
      return line;
    }));
    $("rows").hidden = false;
    if (is_cut) $("failure").textContent = `only a part is shown, of ${rows.length} rows`;
  } catch (error) {
    $("failure").textContent = error.message;
  }
}
$("console").addEventListener("submit", run);
$("tables").addEventListener("click", (event) => {
  const name = event.target.dataset.table;
  if (!name) return;
  $("sql").value = `SELECT * FROM "${name.replaceAll('"', '""')}" LIMIT 100`;
  run();
});
document.addEventListener("keydown", (event) => {
  if (event.target === $("sql") && event.key === "Enter" && (event.ctrlKey || event.metaKey)) return run(event);
  if (/^(INPUT|TEXTAREA)$/.test(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return undefined;
  if (event.key === "/") {
    event.preventDefault();
    $("filter").focus();
  } else if ((event.key === "[" || event.key === "]") && chosen) {
    travel(Number($("at").value) + (event.key === "]" ? 1 : -1));
  }
  return undefined;
});

async function start() {
  $("address").textContent = location.origin.replace(/^http/, "ws");
  await look();
  try {
    const { rows } = await ask("tables");
    $("tables").replaceChildren(...rows.map(([name, kind]) => {
      const button = element("button", name, { type: "button", title: kind });
      button.dataset.table = name;
      return button;
    }));
  } catch { /* the next look says why */ }
}
setInterval(() => { if (!document.hidden && $("key").hidden) look(); }, LOOK_MS);
start();
