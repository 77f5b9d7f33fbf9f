// Admission by work, for pages and for Node: buys the ticket that a WebSocket's URL carries.
//
//   import { argon2id } from "hash-wasm";
//   import { pay } from "http://HOST:PORT/admission.js";
//   const { ticket } = await pay("ws://HOST:PORT", { argon2id });
//   new WebSocketClientAdapter(`ws://HOST:PORT/?ticket=${ticket}`);
//
// argon2id is a function with the options of hash-wasm's. Run this in a Worker: each hash keeps its
// thread busy for about a tenth of a second. `signal` cancels, `progress` is told of each hash.

const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");

function fromBase64url(text) {
  const binary = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(binary, (character) => character.charCodeAt(0));
}

function atMost(tag, target) {
  for (let at = 0; at < target.length; at += 1) {
    if (tag[at] !== target[at]) return tag[at] < target[at];
  }
  return true;
}

async function post(url, body, signal) {
  const response = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
    signal,
  });
  const answer = await response.json();
  if (!response.ok) {
    const { error, fault, effort } = answer;
    throw Object.assign(new Error(error), { fault, effort });
  }
  return answer;
}

// The nonce of a challenge.
export async function solve(challenge, { argon2id, signal, progress = () => {} }) {
  const salt = fromBase64url(challenge.challenge);
  const target = Uint8Array.from(challenge.target.match(/../g), (pair) => parseInt(pair, 16));
  const password = new Uint8Array(8);
  const number = new DataView(password.buffer);
  for (let nonce = 0; ; nonce += 1) {
    signal?.throwIfAborted();
    if (Date.now() / 1000 > challenge.expires) throw new Error("the challenge has expired");
    number.setBigUint64(0, BigInt(nonce), true);
    const tag = await argon2id({
      password, salt, parallelism: challenge.lanes, iterations: challenge.passes,
      memorySize: challenge.memory_kib, hashLength: 32, outputType: "binary",
    });
    progress({ hashes: nonce + 1, expected: challenge.difficulty });
    if (atMost(tag, target)) return nonce;
  }
}

// A ticket: { ticket, expires, bytes, documents }. `scope` is the id of a document to be opened;
// without, all are. When the server is busy, the price that it names is paid, `tries` times at the
// most.
export async function pay(server, options) {
  const { scope, signal, tries = 3 } = options;
  const url = new URL("/admission", server.replace(/^ws/, "http"));
  const secret = crypto.getRandomValues(new Uint8Array(32));
  const sha256 = options.sha256 ?? (async (bytes) => new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)));
  const claim = hex(await sha256(secret));
  let effort = options.effort;
  for (let left = tries; ; left -= 1) {
    const challenge = await post(url, { claim, scope, effort }, signal);
    const nonce = await solve(challenge, options);
    try {
      return await post(url, { challenge: challenge.challenge, secret: hex(secret), nonce }, signal);
    } catch (error) {
      if (error.fault !== "busy" || left <= 1) throw error;
      effort = error.effort;
    }
  }
}
