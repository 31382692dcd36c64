// Single use: each store marks keys as used for all replicas, all of them or none, or says that one was used before.

/** The id of a token that is good once. */
export interface Key {
  kind: string;
  id: string;
  /** Unix seconds; the key may be forgotten then. */
  expires: number;
}

export interface Store {
  /** False if a key was used before. It throws if it cannot tell, and the evidence is then not accepted. */
  consume(keys: Key[]): Promise<boolean>;
}

const nameOf = ({ kind, id }: Key): string => `${kind} ${id}`;

/** For a single process, and tests: it forgets all when the process ends. */
export function memoryStore(now: () => number = Date.now): Store {
  const used = new Map<string, number>();
  let swept = now();
  return {
    async consume(keys) {
      const at = now();
      if (at - swept > 60_000) { // the clock may have been behind: an hour more costs little
        for (const [name, expires] of used) if (expires * 1000 + 3_600_000 < at) used.delete(name);
        swept = at;
      }
      const names = keys.map(nameOf);
      if (names.some((name) => used.has(name))) return false;
      keys.forEach((key, i) => used.set(names[i]!, key.expires));
      return true;
    },
  };
}

const SCRIPT = `for _, key in ipairs(KEYS) do if redis.call('EXISTS', key) == 1 then return 0 end end
for i, key in ipairs(KEYS) do redis.call('SET', key, '1', 'NX', 'PXAT', ARGV[i]) end
return 1`;

/**
 * SET NX in Redis 6.2 or later, in one script. send sends a command: (args) => client.sendCommand(args) for redis,
 * (args) => client.call(...args) for ioredis. The server must persist what it answers (appendfsync always) and must
 * not
 * evict (maxmemory-policy noeviction): a forgotten key can be used again.
 */
export function redisStore(send: (args: string[]) => Promise<unknown>, prefix = '{actionproof}'): Store {
  return {
    async consume(keys) {
      const names = keys.map((key) => `${prefix} ${nameOf(key)}`);
      const until = keys.map((key) => String(key.expires * 1000 + 3_600_000));
      return Number(await send(['EVAL', SCRIPT, String(keys.length), ...names, ...until])) === 1;
    },
  };
}

/** A client of pg, or whatever has its query method. */
export interface Queries { query(sql: string, values?: unknown[]): Promise<unknown> }

/** The table of postgresStore. Rows may be deleted an hour after they expire. */
export const POSTGRES_TABLE = `CREATE TABLE IF NOT EXISTS actionproof_used (
  key text COLLATE "C" PRIMARY KEY, expires timestamptz NOT NULL)`;

/**
 * A table of PostgreSQL. With the client of the transaction that makes the post, evidence and post are one: commit
 * only
 * if the verdict of consume is verified, and otherwise roll back. A second user of the same evidence waits for the
 * first.
 */
export function postgresStore(client: Queries): Store {
  return {
    async consume(keys) {
      try {
        const { rows } = await client.query('INSERT INTO actionproof_used (key, expires) SELECT * FROM ' +
          'unnest($1::text[], (SELECT array_agg(to_timestamp(s)) FROM unnest($2::float8[]) s)) ' +
          `WHERE current_setting('synchronous_commit') IN ('on', 'remote_apply') AND current_setting('fsync') = 'on' ` +
          'RETURNING key', [keys.map(nameOf), keys.map((key) => key.expires)]) as { rows: unknown[] };
        if (rows.length === keys.length) return true;
        throw new Error('synchronous_commit or fsync is off: the database could forget a used key');
      } catch (error) {
        if ((error as { code?: unknown } | null)?.code === '23505') return false; // a unique key
        throw error;
      }
    },
  };
}
