"use strict";
const $ = (id) => document.getElementById(id);
// The token comes behind the #, which no server sees, and stays in this tab.
const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  sessionStorage.setItem("token", given);
  history.replaceState(null, "", location.pathname);
}
let chosen = null, shownHeads = null, at = null;

async function ask(path, options = {}) {
  const token = sessionStorage.getItem("token") ?? "";
  const headers = { authorization: `Bearer ${token}` };
  const response = await fetch(`/api/${path}`, { ...options, headers });
  const body = await response.json();
  if (response.status === 401) {
    $("key").hidden = false;
    $("main").hidden = true;
  }
  if (!response.ok) throw new Error(body.error);
  $("key").hidden = true;
  $("main").hidden = false;
  return body;
}

function element(name, text, properties = {}) {
  const made = Object.assign(document.createElement(name), properties);
  if (text !== undefined) made.textContent = text;
  return made;
}

const bytes = (n) => n < 10000 ? `${n} B` : n < 1e7 ? `${Math.round(n / 1000)} kB` : `${Math.round(n / 1e6)} MB`;

async function look() {
  try {
    const status = await ask("status");
    const pause = status.commits ? (status.commit_us / status.commits / 1000).toFixed(2) : "–";
    $("status").textContent = `${status.peers} peers · ${status.changes} changes stored · ${pause} ms a commit`;
    const { documents } = await ask("documents");
    $("no-documents").hidden = documents.length > 0;
    const list = documents.map((one) => {
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
  } catch (error) {
    $("status").textContent = error.message;
  }
}

async function show() {
  const name = encodeURIComponent(chosen);
  const shown = await ask(`documents/${name}${at === null ? "" : `?at=${at}`}`);
  if (at === null) shownHeads = shown.heads.join();
  $("document").hidden = false;
  $("name").textContent = shown.name;
  $("about").textContent = `${shown.changes} changes, heads ${shown.heads.map((head) => head.slice(0, 12)).join(", ")}`;
  $("value").textContent = JSON.stringify(shown.value, null, 2);
  $("at").max = Math.max(shown.changes - 1, 0);
  if (at === null) $("at").value = $("at").max;
  $("at-text").textContent = `${Number($("at").value) + 1} of ${shown.changes}`;
  if (at !== null) return;
  const { changes } = await ask(`documents/${name}/history`);
  $("history").replaceChildren(...changes.reverse().map((change) => {
    const when = change.time ? new Date(change.time * 1000).toISOString().slice(0, 19) : "no time            ";
    return element("li", `${when}  ${change.hash.slice(0, 12)}  ${change.actor.slice(0, 8)} #${change.seq}  ${change.ops} ops  ${change.message ?? ""}`);
  }));
}

$("documents").addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (!button) return;
  chosen = button.dataset.name;
  at = null;
  show().catch((error) => { $("status").textContent = error.message; });
  look();
});
$("at").addEventListener("change", () => {
  at = $("at").value === $("at").max ? null : Number($("at").value);
  show().catch((error) => { $("status").textContent = error.message; });
});
$("key").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("token", $("token").value);
  start();
});
$("console").addEventListener("submit", async (event) => {
  event.preventDefault();
  $("failure").textContent = "";
  try {
    const { columns, rows, is_cut } = await ask("sql", { method: "POST", body: $("sql").value });
    const head = element("tr");
    head.append(...columns.map((name) => element("th", name)));
    $("rows").querySelector("thead").replaceChildren(head);
    $("rows").querySelector("tbody").replaceChildren(...rows.map((row) => {
      const line = element("tr");
      line.append(...row.map((value) => element("td", value === null ? "NULL" : String(value))));
      return line;
    }));
    $("rows").hidden = false;
    if (is_cut) $("failure").textContent = `only the first ${rows.length} rows are shown`;
  } catch (error) {
    $("failure").textContent = error.message;
  }
});

async function start() {
  $("address").textContent = location.origin.replace(/^http/, "ws");
  try {
    const { rows } = await ask("tables");
    $("tables").textContent = rows.map((row) => row[0]).join(", ");
  } catch { /* the next look says why */ }
  await look();
}
setInterval(() => { if (!document.hidden && $("key").hidden) look(); }, 2000);
start();
