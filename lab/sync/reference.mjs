// The reference server's construction from parts of automerge-repo 2.5.
//   PORT=... DATA_DIR=... node reference.mjs
import { mkdirSync } from "node:fs";
import { Repo } from "@automerge/automerge-repo";
import { WebSocketServerAdapter } from "@automerge/automerge-repo-network-websocket";
import { NodeFSStorageAdapter } from "@automerge/automerge-repo-storage-nodefs";
import { WebSocketServer } from "ws";

mkdirSync(process.env.DATA_DIR, { recursive: true });
const socket = new WebSocketServer({ port: Number(process.env.PORT), host: "127.0.0.1" });
new Repo({
  network: [new WebSocketServerAdapter(socket)],
  storage: new NodeFSStorageAdapter(process.env.DATA_DIR),
  peerId: "reference",
  sharePolicy: async () => false,
});
