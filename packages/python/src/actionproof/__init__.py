"""Lets an API accept a post only with a complete signed chain of evidence for it.

Gate.from_folder reads what the security team gives you. A Route judges requests: Route.verify returns a Verdict.
actionproof.asgi and actionproof.wsgi put routes in front of an application; actionproof.kit makes chains for its tests.
"""

from .gate import Gate, Post, Route, Verdict
from .httpsig import BotVerdict, verify_web_bot_auth
from .problem import Refusal
from .stores import Key, MemoryStore, PostgresStore, RedisStore, Replayed, Store

__all__ = ["BotVerdict", "Gate", "Key", "MemoryStore", "Post", "PostgresStore", "RedisStore", "Refusal", "Replayed",
           "Route", "Store", "Verdict", "verify_web_bot_auth"]
