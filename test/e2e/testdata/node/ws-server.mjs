// node ws-server.mjs CERT KEY: a WebSocket server on npm's ws, over HTTPS on a loopback port, which it prints. It sends back what it
// receives, with the access token of the handshake kept to itself, and prints when a WebSocket opens.
import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import { WebSocketServer } from "ws";

const [cert, key] = process.argv.slice(2);
const server = createServer({ cert: readFileSync(cert), key: readFileSync(key) }, (_, res) => res.writeHead(404).end());
const sockets = new WebSocketServer({ server, perMessageDeflate: { threshold: 0 }, handleProtocols: (offered) => (offered.has("echo") ? "echo" : false) });
sockets.on("connection", (socket, req) => {
  console.log(`open ${req.headers.authorization}`);
  socket.on("message", (data, isBinary) => socket.send(data, { binary: isBinary }));
});
server.listen(0, "127.0.0.1", () => console.log(`listening ${server.address().port}`));
