// A shared to-do list and a shared text: automerge-repo as it comes from npm, and nothing of Shoal's.
import { Repo, initializeWasm, updateText } from "@automerge/automerge-repo/slim";
import { WebSocketClientAdapter } from "@automerge/automerge-repo-network-websocket";

const $ = (id) => document.getElementById(id);
const TYPING_MS = 2000;

await initializeWasm(fetch("/automerge.wasm"));
const { sync, document: first } = await (await fetch("/config.json")).json();
const repo = new Repo({ network: [new WebSocketClientAdapter(sync)], isEphemeral: true });
// The document is in the address: whoever has the link has the list.
if (!location.hash.startsWith("#automerge:")) history.replaceState(null, "", `#${first}`);

async function found(url) {
  for (;;) {
    try {
      return await repo.find(url, { allowableStates: ["ready"], signal: AbortSignal.timeout(20000) });
    } catch (error) {
      // `find` of automerge-repo gives up after a second without a server, for good.
      $("status").textContent = `not there yet: ${error.message}`;
      await new Promise((done) => setTimeout(done, 1000));
      repo.delete(url);
    }
  }
}
const handle = await found(location.hash.slice(1));
$("status").textContent = "connected";

$("who").value = sessionStorage.getItem("who") ?? `guest ${Math.floor(Math.random() * 900) + 100}`;
$("who").addEventListener("input", () => sessionStorage.setItem("who", $("who").value));

$("add").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = $("what").value.trim();
  if (text) handle.change((doc) => { doc.todos.push({ text, done: false, who: $("who").value }); });
  $("what").value = "";
});

// Lines are kept by place, and changed in place: a field that somebody types in keeps its focus.
function line(at) {
  const item = document.createElement("li");
  item.innerHTML = `<input type="checkbox" aria-label="done"><input type="text" aria-label="to do"><small></small><button type="button" aria-label="remove">×</button>`;
  const [done, text, , remove] = item.children;
  done.addEventListener("change", () => handle.change((doc) => { doc.todos[at].done = done.checked; }));
  text.addEventListener("input", () => handle.change((doc) => { updateText(doc, ["todos", at, "text"], text.value); }));
  remove.addEventListener("click", () => handle.change((doc) => { doc.todos.splice(at, 1); }));
  return item;
}

// New contents of a field; the caret stays between the characters it was between.
function fill(field, value) {
  const old = field.value;
  if (old === value) return;
  const [start, end] = [field.selectionStart, field.selectionEnd];
  let head = 0;
  while (head < Math.min(old.length, value.length) && old[head] === value[head]) head += 1;
  const grown = value.length - old.length;
  const moved = (place) => (place <= head ? place : Math.max(head, place + grown));
  field.value = value;
  if (document.activeElement === field) field.setSelectionRange(moved(start), moved(end));
}

function show() {
  const doc = handle.doc();
  $("title").textContent = doc.title ?? "Together";
  const list = $("todos");
  while (list.children.length > doc.todos.length) list.lastChild.remove();
  while (list.children.length < doc.todos.length) list.append(line(list.children.length));
  doc.todos.forEach((todo, at) => {
    const [done, text, who] = list.children[at].children;
    done.checked = todo.done;
    fill(text, todo.text);
    who.textContent = todo.who ?? "";
    list.children[at].classList.toggle("done", todo.done);
  });
  fill($("text"), doc.text);
}
handle.on("change", show);
show();

let told = 0;
$("text").addEventListener("input", () => {
  handle.change((doc) => { updateText(doc, ["text"], $("text").value); });
  if (Date.now() - told > TYPING_MS / 2) {
    told = Date.now();
    handle.broadcast({ typing: $("who").value });
  }
});
let quiet;
handle.on("ephemeral-message", ({ message }) => {
  $("typing").textContent = `${message.typing} is typing`;
  clearTimeout(quiet);
  quiet = setTimeout(() => { $("typing").textContent = ""; }, TYPING_MS);
});

// Rows of `shoal watch --query`, handed on by the page's server as they change.
const cells = (name, row) => {
  const line = document.createElement("tr");
  line.append(...row.map((cell) => Object.assign(document.createElement(name), { textContent: String(cell) })));
  return line;
};
new EventSource("/rows").addEventListener("message", ({ data }) => {
  const { sql, columns, rows } = JSON.parse(data);
  $("sql").textContent = sql;
  $("rows").tHead.replaceChildren(cells("th", columns));
  $("rows").tBodies[0].replaceChildren(...rows.map((row) => cells("td", row)));
});
