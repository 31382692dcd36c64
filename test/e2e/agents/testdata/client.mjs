// client.mjs CLIENT URL: reads a URL with a client of npm, of which none is configured, and prints the answer.
const [client, url] = process.argv.slice(2);
const read = {
  fetch: async () => (await fetch(url)).text(),
  undici: async () => (await (await import("undici")).request(url)).body.text(),
  axios: async () => (await (await import("axios")).default.get(url)).data,
  got: async () => (await (await import("got")).got(url)).body,
};
console.log(await read[client]());
