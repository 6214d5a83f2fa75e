"""Redis for tests."""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path
from typing import Any, Final, Self

import redis

from holdfast.seams import new_id
from tests.servers.server import HOST, Server
from tests.waiting import wait_until

SLOTS: Final = 16384


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
        named = os.environ.get("HOLDFAST_TEST_REDIS_SERVER") or "redis-server"
        program = Path(self.program(named)).with_name(Path(named).name)
        return [
            str(program),
            *places,
            *fixed,
            *(word for setting in self.settings for word in setting.split(" ", 1)),
        ]

    def ping(self) -> None:
        with redis.Redis.from_url(self.url, socket_timeout=5) as client:
            client.ping()

    @property
    def url(self) -> str:
        return f"redis://{HOST}:{self.port}/0"


class VolatileRedis(Redis):
    """One as it comes: what it says is nowhere but in its memory."""

    settings = ("--appendonly no",)


class Member(Redis):
    """A member of a cluster, which begins alone and without slots."""

    settings = (*Redis.settings, "--cluster-enabled yes", "--repl-diskless-sync-delay 0")

    def say(self, *command: object) -> Any:
        """Have it carry out a command of `CLUSTER`."""
        with redis.Redis.from_url(self.url) as client:
            return client.execute_command("CLUSTER " + str(command[0]), *command[1:])

    @property
    def name(self) -> str:
        return str(self.say("MYID").decode())


class RedisCluster:
    """Three servers that share the slots."""

    def __init__(self) -> None:
        self.members = [Member() for _ in range(3)]
        for number, member in enumerate(self.members):
            first, end = (SLOTS * n // len(self.members) for n in (number, number + 1))
            member.say("ADDSLOTSRANGE", first, end - 1)
            self._meet(member)
        self._settle()

    @classmethod
    @functools.cache
    def shared(cls) -> Self:
        """The one that all tests of this process use."""
        return cls()

    @property
    def url(self) -> str:
        return self.members[0].url

    def start(self) -> None:
        for member in self.members:
            member.start()
        self._settle()

    def kill(self) -> None:
        for member in self.members:
            member.kill()

    def add_replica(self, of: Member) -> Member:
        """Another member, which has all that the one has."""
        replica = Member()
        self._meet(replica)
        self.members.append(replica)
        self._settle()
        replica.say("REPLICATE", of.name)
        with redis.Redis.from_url(replica.url) as client:
            wait_until(lambda: client.info("replication").get("master_link_status") == "up")
        self._settle()
        return replica

    def move_slot(self, slot: int, giver: Member, taker: Member) -> None:
        """From one member to another, with all its keys, as `redis-cli --cluster reshard` does."""
        self.begin_moving(slot, giver, taker)
        with redis.Redis.from_url(giver.url) as client:
            while keys := giver.say("GETKEYSINSLOT", slot, 100):
                client.execute_command("MIGRATE", HOST, taker.port, "", 0, 5000, "KEYS", *keys)
        for member in (taker, giver):
            member.say("SETSLOT", slot, "NODE", taker.name)

    def begin_moving(self, slot: int, giver: Member, taker: Member) -> None:
        """From now on the one hands keys that it does not have on to the other."""
        taker.say("SETSLOT", slot, "IMPORTING", giver.name)
        giver.say("SETSLOT", slot, "MIGRATING", taker.name)

    def _meet(self, member: Member) -> None:
        """Only once: they tell each other of the others."""
        if member is not self.members[0]:
            member.say("MEET", HOST, self.members[0].port)

    def _settle(self) -> None:
        """Wait until all of them know each other and who has what."""
        for member in self.members:
            wait_until(lambda member=member: self._knows(member.say("INFO")))  # type: ignore[misc]

    def _knows(self, info: dict[str, str]) -> bool:
        return (info["cluster_state"], int(info["cluster_known_nodes"])) == (
            "ok",
            len(self.members),
        )


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


def grant_what_the_guide_names(admin: Any) -> None:
    """Make the user `holdfast` with exactly those rights."""
    guide = Path(__file__).parents[2] / "docs" / "operate" / "servers.md"
    (rights,) = re.findall(r"ACL SETUSER holdfast (.*?)```", guide.read_text(), re.DOTALL)
    admin.execute_command("ACL", "SETUSER", "holdfast", "reset", *rights.split())
