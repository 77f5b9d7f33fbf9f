// Clients: unmodified repos of automerge-repo, and bare sockets that speak the protocol with frames
// made beforehand.
import * as Automerge from "@automerge/automerge";
import { Repo } from "@automerge/automerge-repo";
import { WebSocketClientAdapter } from "@automerge/automerge-repo-network-websocket";
import { Encoder } from "cbor-x";
import WebSocket from "ws";
import { sleep } from "./servers.mjs";

// As automerge-repo writes maps and bytes.
const cbor = new Encoder({ tagUint8Array: false, useRecords: false });
export function repo(url) {
  const adapter = new WebSocketClientAdapter(url, 500);
  const made = new Repo({ network: [adapter], isEphemeral: true });
  return { repo: made, close: () => adapter.disconnect() };
}
export async function found(repo, id, ms = 20000) {
  for (const end = Date.now() + ms; ;) {
    try {
      return await repo.find(id, { allowableStates: ["ready"] });
    } catch (error) {
      if (Date.now() > end) throw error;
      await sleep(100);
    }
  }
}

// A bare socket: joined; `told` is called with every frame.
export async function bare(url, id, told = () => {}) {
  const socket = new WebSocket(url, { perMessageDeflate: false });
  socket.binaryType = "nodebuffer";
  await new Promise((done, failed) => { socket.once("open", done); socket.once("error", failed); });
  const joined = new Promise((done) => {
    socket.on("message", (bytes) => {
      const frame = cbor.decode(bytes);
      if (frame.type === "peer") { peer.server = frame.senderId; done(); } else told(frame);
    });
  });
  const peer = {
    socket, id,
    send: (message) => socket.send(cbor.encode({ senderId: id, targetId: peer.server, ...message })),
    close: () => socket.terminate(),
  };
  socket.on("error", () => {});
  socket.send(cbor.encode({ type: "join", senderId: id, peerMetadata: { isEphemeral: true }, supportedProtocolVersions: ["1"] }));
  await joined;
  return peer;
}

export const HAVE = [{ lastSync: [], bloom: new Uint8Array() }];
// The changes of a document of one author, each in a sync message of its own.
export function messages(edits, value = (edit) => `x ${edit}`) {
  let doc = Automerge.init();
  const made = [];
  for (let edit = 0; edit < edits; edit += 1) {
    doc = Automerge.change(doc, (draft) => { draft[`key ${edit % 5}`] = value(edit); });
    const heads = Automerge.getHeads(doc);
    made.push({ heads, data: Automerge.encodeSyncMessage({ heads, need: [], have: HAVE, changes: [Automerge.getLastLocalChange(doc)] }) });
  }
  return made;
}
export const headsOf = (data) => Automerge.decodeSyncMessage(data);
