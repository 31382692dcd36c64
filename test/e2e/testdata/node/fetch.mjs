// node fetch.mjs METHOD URL [BODY]: one call with Node's fetch; prints the status and the problem code, if there is one.
const [method, url, body] = process.argv.slice(2);
const response = await fetch(url, { method, body, headers: body ? { "content-type": "application/json" } : {} });
const text = await response.text();
let code = "";
try { code = JSON.parse(text).code ?? ""; } catch { /* not JSON */ }
console.log(`${response.status} ${code}`.trim());
