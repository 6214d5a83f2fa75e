"""What was vendored is what its manifest says."""

from __future__ import annotations

import hashlib
import json
import re

from holdfast.web.rendering import STATIC

VENDOR = STATIC / "vendor"


def test_every_vendored_file_has_its_version_license_and_hash() -> None:
    listed = json.loads((VENDOR / "manifest.json").read_text())
    files = {path.name for path in VENDOR.iterdir()}
    licenses = {name for name in files if name.endswith(".LICENSE")}
    assert {one["file"] for one in listed} == files - licenses - {"manifest.json"}
    for one in listed:
        content = (VENDOR / one["file"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == one["sha256"]
        assert f"{one['file'].partition('.')[0].removesuffix('-ext')}.LICENSE" in licenses
        assert re.fullmatch(r"\d+\.\d+\.\d+", one["version"])


def test_nothing_is_loaded_from_elsewhere() -> None:
    templates = STATIC.parent / "templates"
    for path in (*templates.rglob("*.html"), *STATIC.glob("*.css"), *STATIC.glob("*.js")):
        text = path.read_text()
        assert not re.search(r"(src|href|url\(|import|from)\W{1,3}(https?:)?//", text), path.name
        assert not re.search(r"\sstyle=|\son\w+=|<script>|javascript:", text), path.name
        assert "|safe" not in text, path.name
