"""What RELIABILITY.md says is what the programme left, and tests count what the page knows."""

from __future__ import annotations

import re

from tests.proof import page
from tests.proof.__main__ import carry_out
from tests.proof.page import PAGE, ROOT
from tests.proof.parts import ELSEWHERE, FAULTS, PARTS

_SAID = re.compile(r'\bsurvived\(\s*f?"([^"]+)"')


def test_the_page_says_what_the_programme_left() -> None:
    assert PAGE.read_text() == page.written()


def test_tests_count_what_the_page_knows_and_nothing_else() -> None:
    said = {
        name
        for path in (ROOT / "tests").rglob("test_*.py")
        for name in _SAID.findall(path.read_text())
    }
    kinds = ("postgres", "mysql", "redis")
    said = {s.replace("{kind.name}", kind) for s in said for kind in kinds} | {"schedules"}
    assert said == set(FAULTS)


def test_every_test_of_the_programme_is_there_and_every_setting_is_read() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("*.py"))
    servers = ("POSTGRES_", "MYSQL_", "REDIS_")
    for part in PARTS.values():
        assert all((ROOT / test).exists() for test in (*part.tests, *ELSEWHERE))
        own = [name for name in part.settings if not name.startswith(servers)]
        assert all(f'"HOLDFAST_{name}"' in sources for name in own)


def test_schedules_continue_where_the_same_code_was_left() -> None:
    begun = carry_out("schedules", 2e-6, 1, {})
    assert begun["survived"] == {"schedules": 2}
    continued = carry_out("schedules", 3e-6, 1, begun)
    assert (continued["schedules"], continued["survived"]) == (1, {"schedules": 3})
    assert [each["seed"] for each in continued["earlier"]] == [begun["seed"]]
    assert carry_out("schedules", 1e-6, 1, continued)["earlier"] == []  # enough: a new round
    assert carry_out("schedules", 3e-6, 1, {**begun, "code": "other"})["earlier"] == []
