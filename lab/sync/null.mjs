// The null server: relays changes, keeps them in memory, knows no document and no disk. The
// excess of another server is the cost of the document and the disk.
//   PORT=... node null.mjs
import { decodeSyncMessage, encodeSyncMessage } from "@automerge/automerge";
import { Encoder } from "cbor-x";
import { WebSocketServer } from "ws";

// As automerge-repo writes maps and bytes.
const cbor = new Encoder({ tagUint8Array: false, useRecords: false });
const documents = new Map();
const of = (id) => {
  if (!documents.has(id)) documents.set(id, { frames: [], heads: new Set(), readers: new Map() });
  return documents.get(id);
};
const server = new WebSocketServer({ port: Number(process.env.PORT), host: "127.0.0.1", maxPayload: 1 << 28 });
server.on("listening", () => console.log("listening"));
server.on("connection", (socket) => {
  const opened = new Set();
  const send = (to, targetId, message) => to.send(cbor.encode({ senderId: "null", targetId, ...message }));
  socket.on("message", (bytes) => {
    const frame = cbor.decode(bytes);
    const { type, senderId, documentId, data } = frame;
    if (type === "join") {
      send(socket, senderId, { type: "peer", peerMetadata: { storageId: "3b1f2c34-0000-4000-8000-000000000000", isEphemeral: false }, selectedProtocolVersion: "1" });
    } else if (type === "ephemeral") {
      for (const [reader, id] of of(documentId).readers) {
        if (reader !== socket) reader.send(cbor.encode({ ...frame, targetId: id }));
      }
    } else if (type === "request" || type === "sync") {
      const document = of(documentId);
      const message = decodeSyncMessage(data);
      const answer = (heads, need) => send(socket, senderId, { type: "sync", documentId, data: encodeSyncMessage({ heads, need, have: [{ lastSync: heads, bloom: new Uint8Array() }], changes: [] }) });
      const isFirst = !document.readers.has(socket);
      document.readers.set(socket, senderId);
      opened.add(document);
      if (message.changes.length > 0) {
        for (const head of message.heads) document.heads.add(head);
        document.frames.push(data);
        answer(message.heads, []);
        for (const [reader, id] of document.readers) {
          if (reader !== socket) send(reader, id, { type: "sync", documentId, data });
        }
      } else if (isFirst && document.frames.length > 0) {
        for (const kept of document.frames) send(socket, senderId, { type: "sync", documentId, data: kept });
      } else if (isFirst && message.heads.length === 0) {
        send(socket, senderId, { type: "doc-unavailable", documentId });
      } else {
        const unknown = message.heads.filter((head) => !document.heads.has(head));
        if (unknown.length > 0) answer([], unknown);
      }
    }
  });
  socket.on("close", () => { for (const document of opened) document.readers.delete(socket); });
  socket.on("error", () => {});
});
