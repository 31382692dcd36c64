"""Where the keys of used evidence are kept. All replicas of an API need one store, or else evidence is good twice."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from .problem import Refusal


class Key(NamedTuple):
    """A single-use key. A store keeps it until expires, in Unix seconds."""

    kind: str
    id: str
    expires: int


class Replayed(Refusal):
    """A key was used before."""

    def __init__(self) -> None:
        super().__init__("replayed")


class Store(Protocol):
    """Marks keys as used."""

    def consume(self, keys: Sequence[Key]) -> None:
        """Marks all keys as used, or none. Raises Replayed if one was used before.

        After any other error nobody knows whether they are used. Exactly one of concurrent callers with a key succeeds.
        """


class MemoryStore:
    """Keys in the memory of one process: for tests, and for an API of one process that may forget at a restart."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock, self._lock, self._used = clock, threading.Lock(), dict[tuple[str, str], int]()
        self._next = 0.0  # when expired keys are removed again

    def consume(self, keys: Sequence[Key]) -> None:
        """See Store."""
        names = {(key.kind, key.id) for key in keys}
        with self._lock:
            now = self._clock()
            if now >= self._next:
                self._used = {name: expires for name, expires in self._used.items() if expires > now - 60}
                self._next = now + 60
            if len(names) < len(keys) or names & self._used.keys():
                raise Replayed
            self._used.update({(key.kind, key.id): key.expires for key in keys})


class RedisStore:
    """Keys in Redis. client is a redis.Redis. Without appendfsync always, Redis can forget keys in a crash."""

    # The caller's clock and Redis's may differ by the added minute.
    _SCRIPT = """
        for _, key in ipairs(KEYS) do if redis.call('EXISTS', key) == 1 then return 0 end end
        for i, key in ipairs(KEYS) do
            if not redis.call('SET', key, '1', 'NX', 'EX', ARGV[i]) then return 0 end
        end
        return 1"""

    def __init__(self, client: Any, prefix: str = "actionproof:", clock: Callable[[], float] = time.time) -> None:
        self._client, self._prefix, self._clock = client, prefix, clock

    def consume(self, keys: Sequence[Key]) -> None:
        """See Store."""
        names = [f"{self._prefix}{key.kind}:{key.id}" for key in keys]
        seconds = [max(1, int(key.expires - self._clock()) + 60) for key in keys]
        if self._client.eval(self._SCRIPT, len(names), *names, *seconds) != 1:
            raise Replayed


class PostgresStore:
    """Keys in PostgreSQL, in the table that TABLE makes.

    connect returns a context manager of a DB-API connection that commits when it is left, such as psycopg's connect and
    its pool's connection.
    """

    TABLE = """CREATE TABLE IF NOT EXISTS actionproof_consumed
        (kind text, id text, expires bigint NOT NULL, PRIMARY KEY (kind, id))"""
    _DURABLE = """SELECT current_setting('synchronous_commit') IN ('on', 'remote_apply')
        AND current_setting('fsync') = 'on'"""

    def __init__(self, connect: Callable[[], AbstractContextManager[Any]]) -> None:
        self._connect = connect

    def consume(self, keys: Sequence[Key]) -> None:
        """See Store."""
        with self._connect() as connection:
            self.within(connection).consume(keys)

    @classmethod
    def within(cls, connection: Any) -> Store:
        """A store in the caller's own transaction, which makes the post: both happen, or neither."""
        return _Transaction(connection, cls._DURABLE)

    def prune(self) -> None:
        """Removes keys that expired over an hour ago."""
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute("DELETE FROM actionproof_consumed WHERE expires < extract(epoch FROM now()) - 3600")


class _Transaction:
    def __init__(self, connection: Any, durable: str) -> None:
        self._connection, self._durable = connection, durable

    def consume(self, keys: Sequence[Key]) -> None:
        if self._connection.autocommit:
            raise ValueError("the connection is in autocommit mode: keys would be used up without the post")
        with self._connection.cursor() as cursor:
            cursor.execute(self._durable)
            if cursor.fetchone()[0] is not True:
                raise ValueError("synchronous_commit or fsync is off: the database could forget a used key")
            for key in sorted(keys):  # in order, so that two transactions do not wait for each other
                cursor.execute("INSERT INTO actionproof_consumed (kind, id, expires) VALUES (%s, %s, %s) "
                               "ON CONFLICT DO NOTHING", key)
                if cursor.rowcount != 1:
                    raise Replayed
