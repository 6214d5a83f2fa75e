"""container_running: Docker says that a container runs.

    expected = {"container": "web", "image": "nginx:1.29", "id": "4f1d…", "health": "healthy"}

All but `container` (a name or an id) are optional; a container that was recreated under the same
name has another id. Nothing is asked unless the policy names Docker's socket.
"""

from __future__ import annotations

import http.client
import json
import re
import socket
from typing import Any, Final

from holdfast.errors import EvidencePolicyError
from holdfast.evidence import Context, Evidence, Policy, Verdict, failed, inconclusive, verified
from holdfast.evidence.checks.fields import Fields
from holdfast.evidence.world.http import Exchange, TooLargeError

_NAME: Final = re.compile(r"/?[a-zA-Z0-9][a-zA-Z0-9_.-]{0,254}", re.ASCII)


def admit(evidence: Evidence, policy: Policy) -> str:
    """The name claimed."""
    fields = Fields(evidence, "container", "image", "id", "health")
    name = fields.required("container", str)
    if not _NAME.fullmatch(name):
        raise fields.refuse(f"{name[:80]!r} is not a container's name")
    for key in ("image", "id", "health"):
        fields.optional(key, str, "")
    if policy.docker_socket is None:
        raise EvidencePolicyError(
            name, "containers are not checked; Policy(docker_socket=...) allows it"
        )
    return name.removeprefix("/")


def subject(evidence: Evidence) -> str:
    """The container."""
    return f"container:{evidence.expected['container'].lstrip('/')}"


def facts(evidence: Evidence) -> dict[str, object]:
    """That it runs, and each thing claimed of it."""
    claimed = {name: value for name, value in evidence.expected.items() if name != "container"}
    return {"running": True, **claimed}


def check(evidence: Evidence, context: Context) -> Verdict:
    """FAILED if there is none, or it does not run as claimed; INCONCLUSIVE if Docker can't say."""
    name = admit(evidence, context.policy)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with Exchange(sock, context) as exchange:
            sock.settimeout(min(context.remaining(), context.policy.connect_seconds))
            sock.connect(str(context.policy.docker_socket))
            exchange.send("GET", "docker", 80, f"/containers/{name}/json")
            if exchange.status == 404:
                return failed(f"there is no container {name}")
            if exchange.status != 200:
                return inconclusive(f"Docker answered {exchange.status}", transient=True)
            answer = json.loads(exchange.body())
    except TimeoutError:
        return inconclusive("Docker did not answer in time")
    except (OSError, http.client.HTTPException, ValueError, RecursionError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        return inconclusive(f"Docker could not be asked: {why}", transient=True)
    except TooLargeError:
        return inconclusive("Docker's answer is too long")
    expected = evidence.expected
    left = {k: v for k, v in expected.items() if k == "container" or context.in_force(k)}
    return _compare(left, answer)


def _compare(expected: dict[str, Any], answer: Any) -> Verdict:
    state = answer.get("State") if isinstance(answer, dict) else None
    if not isinstance(state, dict) or type(state.get("Running")) is not bool:
        return inconclusive("Docker's answer does not say whether it runs")
    name = expected["container"]
    if not state["Running"] or state.get("Paused") is True or state.get("Restarting") is True:
        return failed(f"{name} is {state.get('Status', 'not running')}")
    if "id" in expected and not _same_id(answer.get("Id"), expected["id"]):
        return failed(f"{name} is another container now")
    config = answer.get("Config")
    image = config.get("Image") if isinstance(config, dict) else None
    if "image" in expected and expected["image"] not in (image, answer.get("Image")):
        return failed(f"{name} runs {image!r}, not {expected['image']!r}")
    health = state.get("Health")
    status = health.get("Status") if isinstance(health, dict) else None
    if "health" in expected and status != expected["health"]:
        return failed(f"the health of {name} is {status!r}, not {expected['health']!r}")
    return verified()


def _same_id(found: object, claimed: str) -> bool:
    """Docker shortens ids to twelve digits."""
    return isinstance(found, str) and len(claimed) >= 12 and found.startswith(claimed.lower())
