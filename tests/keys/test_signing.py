from __future__ import annotations

import base64
import copy
import hashlib
import hmac
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

import holdfast as hf
from holdfast.keys import key_files, signing

SECRET = bytes(range(32))
RAW = bytes(range(1, 33))  # also a private Ed25519 key
PUBLIC = Ed25519PrivateKey.from_private_bytes(RAW).public_key().public_bytes_raw()


@pytest.fixture(params=["hmac", "ed25519"])
def key(request: pytest.FixtureRequest) -> hf.SigningKey:
    make = {"hmac": hf.SigningKey.hmac, "ed25519": hf.SigningKey.ed25519}[request.param]
    return make("ann", RAW)


def test_a_key_trusts_itself_and_refuses_what_was_changed(key: hf.SigningKey) -> None:
    signature = key.sign(b"data")
    key.trusted().verify("ann", b"data", signature)
    for data, other in [(b"Data", signature), (b"data", signature[::-1]), (b"data", b"")]:
        with pytest.raises(
            hf.InvalidSignatureError, match="was not signed by the key 'ann'"
        ) as caught:
            key.trusted().verify("ann", data, other)
        assert type(caught.value) is hf.InvalidSignatureError


def test_a_key_that_is_not_trusted_is_told_from_a_wrong_signature(key: hf.SigningKey) -> None:
    with pytest.raises(hf.UntrustedKeyError, match="the answer is signed with the key 'bob'"):
        key.trusted().verify("bob", b"data", key.sign(b"data"), what="the answer")


def test_signatures_are_those_of_the_standards() -> None:
    signed = hf.SigningKey.hmac("ci", SECRET).sign(b"data")
    assert signed == hmac.new(SECRET, b"data", hashlib.sha256).digest()
    signed = hf.SigningKey.ed25519("ann", RAW).sign(b"data")
    assert signed == Ed25519PrivateKey.from_private_bytes(RAW).sign(b"data")


def test_public_keys_are_enough_to_check(tmp_path: Path) -> None:
    private, public = signing.new_ed25519("ann")
    key_files.write_new(tmp_path / "ann.key", private)
    key_files.write_new(tmp_path / "ann.key.pub", public, 0o644)
    ann = hf.SigningKey.from_file(tmp_path / "ann.key")
    assert ann.key_id == "ann"
    assert ann.public is not None
    line = tmp_path / "lines.pub"
    line.write_text(f"ann: {base64.b64encode(ann.public).decode()}\n")
    for trusted in (
        hf.TrustedKeys({"ann": ann.public}),
        hf.TrustedKeys({"ann": public}),
        hf.TrustedKeys({"ann": public.decode()}),
        hf.TrustedKeys({"ann": tmp_path / "ann.key.pub"}),
        hf.TrustedKeys({"ann": str(line)}),
        hf.TrustedKeys.from_files(tmp_path / "ann.key.pub", line),
        hf.TrustedKeys({"ann": ann}),
    ):
        trusted.verify("ann", b"data", ann.sign(b"data"))
        assert list(trusted) == ["ann"]


def test_a_private_key_can_be_given_as_bytes_pem_or_file(tmp_path: Path) -> None:
    private, _ = signing.new_ed25519("ann")
    key_files.write_new(tmp_path / "ann.key", private)
    keys = [
        hf.SigningKey.ed25519("ann", given)
        for given in (private, private.decode(), tmp_path / "ann.key", str(tmp_path / "ann.key"))
    ]
    assert len({key.fingerprint for key in keys}) == 1
    assert hf.SigningKey.ed25519("ann", RAW).public == PUBLIC


def test_an_hmac_key_is_read_from_lines_and_the_last_one_signs(tmp_path: Path) -> None:
    key_files.write_keys(tmp_path / "ci", {"2025": SECRET, "2026": RAW})
    newest = hf.SigningKey.from_file(tmp_path / "ci")
    assert (newest.key_id, newest.algorithm, newest.public) == ("2026", "hmac-sha256", None)
    older = hf.SigningKey.from_file(tmp_path / "ci", "2025")
    assert older.sign(b"") == hf.SigningKey.hmac("2025", SECRET).sign(b"")
    with pytest.raises(hf.KeyFileError, match="has no key '2024'; it has 2025, 2026"):
        hf.SigningKey.from_file(tmp_path / "ci", "2024")


def test_a_public_key_is_never_taken_for_an_hmac_secret() -> None:
    """Whoever knows the public key could sign with it."""
    forged = hf.SigningKey.hmac("ann", PUBLIC).sign(b"data")
    with pytest.raises(hf.InvalidSignatureError):
        hf.TrustedKeys({"ann": PUBLIC}).verify("ann", b"data", forged)


def test_a_secret_is_shown_nowhere(key: hf.SigningKey) -> None:
    for text in (repr(key), str(key), repr(key.trusted()), f"{key!a}"):
        assert "ann" in text
        assert repr(RAW)[2:-1] not in text
        assert RAW.hex() not in text
    for secret in (key, key.trusted()):
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(secret)
    assert copy.deepcopy(key) is copy.copy(key) is key
    assert not hasattr(key, "__dict__")


def test_a_file_that_others_can_read_signs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ann.key"
    path.write_bytes(signing.new_ed25519("ann")[0])
    path.chmod(0o644)
    for read in (hf.SigningKey.from_file, lambda path: hf.SigningKey.ed25519("ann", path)):
        with pytest.raises(hf.KeyFileError, match="can be used by others"):
            read(path)


def test_a_public_file_that_others_can_change_is_not_trusted(tmp_path: Path) -> None:
    path = tmp_path / "ann.pub"
    path.write_bytes(signing.new_ed25519("ann")[1])
    path.chmod(0o666)
    with pytest.raises(hf.KeyFileError, match="have their own keys trusted"):
        hf.TrustedKeys.from_files(path)


def test_what_is_no_key_is_refused_without_quoting_it(tmp_path: Path) -> None:
    private, public = signing.new_ed25519("ann")
    path = tmp_path / "key"
    key_files.write_new(path, private.split(b"\n", 1)[1])
    with pytest.raises(hf.KeyFileError, match="says no id"):
        hf.SigningKey.from_file(path)
    assert hf.SigningKey.from_file(path, "bob").key_id == "bob"
    for wrong in (public, b"short", b"-----BEGIN PRIVATE KEY-----\nsecret\n"):
        with pytest.raises(hf.KeyFileError, match="no private Ed25519 key") as caught:
            hf.SigningKey.ed25519("ann", wrong)
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None
    for wrong in (private, b"short", b"-----BEGIN PUBLIC KEY-----\n"):
        with pytest.raises(hf.KeyFileError, match="no public"):
            hf.TrustedKeys({"ann": wrong})
    with pytest.raises(ValueError, match="32 to 1024 random bytes"):
        hf.SigningKey.hmac("ci", b"password")
    with pytest.raises(ValueError, match="trusted under another id"):
        hf.TrustedKeys({"bob": hf.SigningKey.hmac("ann", SECRET)})


def test_trusted_keys_can_be_put_together_unless_they_differ(key: hf.SigningKey) -> None:
    both = key.trusted() | hf.TrustedKeys({"bob": PUBLIC})
    assert list(both) == ["ann", "bob"]
    assert list(both | key.trusted()) == ["ann", "bob"]
    with pytest.raises(ValueError, match="two different keys are called 'ann'"):
        _ = both | hf.SigningKey.hmac("ann", SECRET).trusted()


def test_without_cryptography_hmac_works_and_ed25519_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['cryptography'] = None\n"
        "import holdfast as hf\n"
        "hf.SigningKey.hmac('ci', bytes(32)).sign(b'')\n"
        "try: hf.SigningKey.ed25519('ann', bytes(32))\n"
        "except ImportError as error: print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60
    )
    assert "[crypto]'" in done.stdout
