export { Gate, type Challenge, type Files, type GateOptions, type Post, type Request, type Route, type Status,
  type Verdict }
  from './gate.js';
export { Refusal } from './refusal.js';
export { POSTGRES_TABLE, memoryStore, postgresStore, redisStore, type Key, type Queries,
  type Store } from './stores.js';
export { endpoints, express, hono, nodeEndpoint, problemOf, protectFetch, respond, type FetchHandler, type Protect }
  from './adapters.js';
export { signingKey, type SigningKey } from './answer.js';
