"""moto's S3 on loopback, in a process of its own: prints its port, and answers until it is killed.

Objects with ``slow`` in their names answer after a minute.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

service = DomainDispatcherApplication(create_backend_app)


def answer(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
    """What the service says, in its time."""
    if "slow" in environ["PATH_INFO"] and environ["REQUEST_METHOD"] == "GET":
        time.sleep(60)
    found: Iterable[bytes] = service(environ, start)
    return found


server = make_server("127.0.0.1", 0, answer, threaded=True)
print(server.server_port, flush=True)
server.serve_forever()
