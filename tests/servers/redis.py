"""Redis for tests."""

from __future__ import annotations

import os
from pathlib import Path

import redis

from holdfast.seams import new_id
from tests.servers.server import HOST, Server


class Redis(Server):
    """A private Redis that waits for the disk before it acknowledges anything."""

    package = "redis-server"
    settings: tuple[str, ...] = ("--appendonly yes", "--appendfsync always")

    def prepare(self) -> None:
        pass

    def command(self) -> list[str]:
        places = ["--port", str(self.port), "--bind", HOST, "--dir", str(self.directory)]
        fixed = ["--save", "", "--maxclients", "250", "--daemonize", "no"]
        # Debian's is a link to a program that goes by the name it is called by.
        program = Path(self.program("redis-server")).with_name("redis-server")
        return [
            str(program),
            *places,
            *fixed,
            *(word for setting in self.settings for word in setting.split(" ", 1)),
        ]

    def ping(self) -> None:
        with redis.Redis.from_url(self.url) as client:
            client.ping()

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"


class VolatileRedis(Redis):
    """One as it comes: what it says is nowhere but in its memory."""

    settings = ("--appendonly no",)


class RedisCluster(Redis):
    """A cluster of one server, which refuses what would not work on one of many."""

    settings = (*Redis.settings, "--cluster-enabled yes")

    def start(self) -> None:
        super().start()
        with redis.Redis.from_url(self.url) as client:
            if client.execute_command("CLUSTER INFO")["cluster_slots_assigned"] == "0":
                client.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16383)
            while client.execute_command("CLUSTER INFO")["cluster_state"] != "ok":
                pass


def server_url() -> str:
    """The server that tests use: ours, unless $HOLDFAST_TEST_REDIS names another."""
    return os.environ.get("HOLDFAST_TEST_REDIS") or Redis.shared().url


def new_url(server: str | None = None) -> str:
    """A part of the server that nobody else uses."""
    return f"{server or server_url()}?prefix=t-{new_id()}"


def cut_connections(url: str) -> int:
    """Hang up on everyone but us; how many that were."""
    with redis.Redis.from_url(url.partition("?")[0]) as client:
        return int(client.execute_command("CLIENT KILL", "TYPE", "normal", "SKIPME", "yes"))
