"""A stand-in for DynamoDB: moto's server, one request at a time, as the real one treats each item."""

from __future__ import annotations

import functools
import logging
import os
import threading

from moto.moto_server.werkzeug_app import create_backend_app
from werkzeug.serving import make_server

from holdfast.seams import new_id
from tests.servers.server import HOST


@functools.cache
def server() -> str:
    """The endpoint of the one that all tests of this process use."""
    os.environ.setdefault("AWS_ACCESS_KEY_ID", "testing")
    os.environ.setdefault("AWS_SECRET_ACCESS_KEY", "testing")
    application = create_backend_app("dynamodb")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    made = make_server(HOST, 0, application, threaded=False)
    threading.Thread(target=made.serve_forever, daemon=True).start()
    return f"http://{HOST}:{made.port}"


def new_url() -> str:
    """A table that is not there yet."""
    return f"dynamodb://t-{new_id()}?region=eu-central-1&endpoint={server()}"
