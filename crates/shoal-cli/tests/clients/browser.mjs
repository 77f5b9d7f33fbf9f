// The page of the server, the example and admission by work, in a real browser.
//   node browser.mjs SHOAL FOLDER CHROMIUM EXAMPLE
// Prints a word for each case; exits with 1 and the reason when one fails.
import { execFileSync, spawn } from "node:child_process";
import { createServer } from "node:http";
import { join } from "node:path";
import { build } from "esbuild";
import { chromium } from "playwright-core";

const [shoal, folder, executablePath, example] = process.argv.slice(2);
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
function fail(why) {
  console.error(why);
  process.exit(1);
}
const children = [];
process.on("exit", () => children.forEach((child) => child.kill("SIGKILL")));
for (const event of ["uncaughtException", "unhandledRejection"]) {
  process.on(event, (error) => fail(`${event}: ${error?.stack ?? error}`));
}
async function until(what, test, ms = 30000) {
  const end = Date.now() + ms;
  let last;
  while (!(await test().catch((error) => { last = error; return false; }))) {
    if (Date.now() > end) fail(`in vain: ${what}${last ? `: ${last}` : ""}`);
    await sleep(100);
  }
}
// A process that says something when it is ready.
async function started(command, args, ready, env = {}) {
  const child = spawn(command, args, { cwd: folder, env: { ...process.env, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  children.push(child);
  let said = "";
  for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => { said += data; });
  await until(`${command} ${args}: ${said}`, async () => {
    if (child.exitCode !== null) fail(`${command} ended: ${said}`);
    return ready.test(said);
  }, 90000);
  return { child, said };
}
const run = (args, input) => execFileSync(shoal, args, { cwd: folder, input, encoding: "utf8", stdio: ["pipe", "pipe", "ignore"] });

const browser = await chromium.launch({
  executablePath,
  headless: true,
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
// A window that tells of errors, and of requests to anywhere but this machine.
async function open(url, options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.errors = [];
  page.on("pageerror", (error) => page.errors.push(String(error)));
  page.on("console", (message) => { if (message.type() === "error") page.errors.push(message.text()); });
  page.on("request", (request) => {
    const { protocol, hostname } = new URL(request.url());
    if (hostname !== "127.0.0.1" && protocol !== "data:" && protocol !== "blob:") page.errors.push(`a request to ${request.url()}`);
  });
  page.on("dialog", (dialog) => dialog.accept());
  await page.goto(url);
  return page;
}
const isClean = (page, what) => { if (page.errors.length) fail(`${what}: ${page.errors.join("; ")}`); };
const text = (page, selector) => page.locator(selector).textContent();

// The page, by keyboard.
const ID = "2akvofn6L1o4RMUEMQi7qzwRjKWZ";
run(["doc", "import", "-", `page.db::${ID}`], '{"title": "Holidays", "days": 1}');
for (const days of [2, 3]) run(["doc", "put", `page.db::${ID}`, "/days", String(days)]);
run(["doc", "import", "-", "page.db::draft"], '{"title": "not shared"}');
const first = await started(shoal, ["serve", "page.db", "--listen", "127.0.0.1:0"], /page: \S+/);
const page = await open(first.said.match(/page: (\S+)/)[1]);
await until("the documents are listed", async () => (await page.locator("#documents button").count()) === 2);
if (page.url().includes("token")) fail("the token stays in the address");
await page.keyboard.press("/");
await page.keyboard.type(ID.slice(0, 6));
await until("the filter leaves one", async () => (await page.locator("#documents button").count()) === 1);
await page.locator("#documents button").focus();
await page.keyboard.press("Enter");
await until("the state is shown", async () => (await text(page, "#value")).includes('"days": 3'));
await until("the history is listed", async () => (await page.locator("#history li").count()) === 3);
await page.locator("h1").click();
await page.keyboard.press("[");
await until("the slider goes back", async () => (await text(page, "#value")).includes('"days": 2'));
await until("a difference is shown", async () => /days/.test(await text(page, "#diff")));
await page.keyboard.press("]");
await until("and forth", async () => (await text(page, "#value")).includes('"days": 3'));
run(["doc", "put", `page.db::${ID}`, "/days", "4"]);
await until("what others write is shown", async () => (await text(page, "#value")).includes('"days": 4'));
await page.locator("#sql").fill("SELECT json ->> '$.days' * 10 AS tenfold FROM _shoal_doc WHERE name GLOB '2*'");
await page.keyboard.press("Control+Enter");
await until("SQL answers", async () => (await text(page, "#rows tbody")) === "40");
await page.locator("#sql").fill("DELETE FROM _shoal_doc");
await page.keyboard.press("Control+Enter");
await until("SQL that writes is refused", async () => (await text(page, "#failure")).length > 0);
page.errors = page.errors.filter((error) => !error.includes("400"));
await until("load is plotted", async () => (await page.locator("#plots svg").count()) > 3);
isClean(page, "the page");
console.log("page");

// In the dark, on a phone: nothing is wider than the screen, and every control has a name.
const phone = await open(first.said.match(/page: (\S+)/)[1], { colorScheme: "dark", viewport: { width: 360, height: 740 } });
await until("the phone lists documents", async () => (await phone.locator("#documents button").count()) === 2);
await phone.getByRole("button", { name: ID.slice(0, 8) }).click();
await until("the phone shows a state", async () => (await text(phone, "#value")).includes("Holidays"));
const width = await phone.evaluate(() => document.documentElement.scrollWidth);
if (width > 360) fail(`the page is ${width} pixels wide on a phone`);
const [back, ink] = await phone.evaluate(() => {
  const { backgroundColor, color } = getComputedStyle(document.documentElement);
  return [backgroundColor, color];
});
if (/rgb\(0, 0, 0\)/.test(ink)) fail(`black ink in the dark, on ${back}`);
const nameless = await phone.evaluate(() => [...document.querySelectorAll("button, input, textarea")]
  .filter((one) => !one.textContent.trim() && !one.labels?.length && !one.ariaLabel).map((one) => one.id));
if (nameless.length) fail(`controls without a name: ${nameless}`);
isClean(phone, "the phone");
const stranger = await open(`${new URL(page.url()).origin}/`);
await until("a stranger is asked for the token", () => stranger.locator("#token").isVisible());
if (await stranger.locator("#main").isVisible()) fail("a stranger sees the page");
console.log("phone");
first.child.kill("SIGTERM");

// The example: two people, one list, one text, and SQL.
const together = await started("node", [join(example, "start.mjs"), "--db", join(folder, "together.db"), "--listen", "127.0.0.1:0", "--page", "0"], /together: \S+[^]*rows:/, { SHOAL: shoal });
const address = together.said.match(/together: (\S+)/)[1];
const ada = await open(address);
const ben = await open(address);
const items = (who) => who.locator("#todos li");
for (const who of [ada, ben]) await until("the list is there", async () => (await items(who).count()) === 2);
await ada.locator("#who").fill("Ada");
await ben.locator("#who").fill("Ben");
await ada.locator("#what").fill("buy a map");
await ada.locator("#what").press("Enter");
await until("Ben sees Ada's item", async () => (await items(ben).count()) === 3 && (await items(ben).nth(2).locator("input[type=text]").inputValue()) === "buy a map");
await items(ben).nth(2).locator("input[type=checkbox]").check();
await until("Ada sees it done", () => items(ada).nth(2).locator("input[type=checkbox]").isChecked());
await until("SQL counts it", async () => (await text(ada, "#rows tbody")).includes("Ada22"));
// Both type at once: every letter is there, on both sides, and in the file.
await Promise.all([
  ada.locator("#text").focus().then(() => ada.keyboard.press("Control+Home")).then(() => ada.keyboard.type("Ada was here. ", { delay: 15 })),
  ben.locator("#text").focus().then(() => ben.keyboard.press("Control+End")).then(() => ben.keyboard.type("Ben, too.", { delay: 15 })),
]);
await until("both texts are whole", async () => {
  const [one, two] = await Promise.all([ada, ben].map((who) => who.locator("#text").inputValue()));
  return one === two && one.startsWith("Ada was here. ") && one.endsWith("Ben, too.");
});
const rows = run(["sql", join(folder, "together.db"), "--format", "list", "SELECT text, done, who FROM todo WHERE who = 'Ada' ORDER BY text"]);
if (rows !== "book the train|1|Ada\nbuy a map|1|Ada\n") fail(`SQL says: ${rows}`);
for (const who of [ada, ben]) isClean(who, "the example");
console.log("together");
together.child.kill("SIGTERM");

// Admission by work, in the browser: Argon2id of hash-wasm, the server's own script.
const price = ["--admission", "admission.key", "--admission-memory", "1024", "--admission-hashes", "4"];
const third = await started(shoal, ["serve", "admission.db", "--listen", "127.0.0.1:0", ...price], /page: \S+/);
const url = third.said.match(/(ws:\/\/\S+)/)[1];
const script = await build({
  stdin: { contents: 'export { argon2id } from "hash-wasm";', resolveDir: process.cwd() },
  bundle: true, format: "esm", write: false, platform: "browser",
});
const site = createServer((request, response) => {
  const isScript = request.url === "/argon2.js";
  response.writeHead(200, { "content-type": isScript ? "text/javascript" : "text/html" });
  response.end(isScript ? script.outputFiles[0].contents : "<!doctype html><title>app</title><link rel=icon href=data:,>");
});
await new Promise((ready) => site.listen(0, "127.0.0.1", ready));
const app = await open(`http://127.0.0.1:${site.address().port}/`);
const outcome = await app.evaluate(async (url) => {
  const { argon2id } = await import("/argon2.js");
  const { pay } = await import(`${url.replace("ws:", "http:")}/admission.js`);
  let hashes = 0;
  const started = performance.now();
  const { ticket } = await pay(url, { argon2id, progress: () => { hashes += 1; } });
  const ms = performance.now() - started;
  // {"type": "join", "senderId": "x"}
  const hex = "a2647479706564" + "6a6f696e" + "6873656e6465724964" + "6178";
  const join = Uint8Array.from(hex.match(/../g), (pair) => parseInt(pair, 16));
  const told = (address) => new Promise((done) => {
    const socket = new WebSocket(address);
    let words = "";
    socket.binaryType = "arraybuffer";
    socket.onopen = () => socket.send(join);
    socket.onmessage = ({ data }) => { words += new TextDecoder("latin1").decode(data); };
    socket.onclose = () => done(words);
    setTimeout(() => done(words), 1500);
  });
  return { hashes, ms, guest: await told(`${url}/?ticket=${ticket}`), nobody: await told(url) };
}, url);
if (outcome.hashes < 1 || !outcome.guest.includes("peer") || outcome.guest.includes("error")) fail(`with a ticket: ${JSON.stringify(outcome)}`);
if (!/error/.test(outcome.nobody)) fail(`without a ticket: ${JSON.stringify(outcome)}`);
isClean(app, "admission");
console.log("admission");
await browser.close();
process.exit(0);
