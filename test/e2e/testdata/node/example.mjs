// Runs the example's agent as it stands, with the packages of this folder in place of those that npm install puts beside it.
import { register } from "node:module";

register("data:text/javascript," + encodeURIComponent(`export function resolve(name, context, next) {
  const own = /^\\.|^node:/.test(name) || !context.parentURL?.includes("/examples/");
  return next(name, own ? context : { ...context, parentURL: ${JSON.stringify(import.meta.url)} });
}`));
await import("../../../../examples/verify/agent.mjs");
