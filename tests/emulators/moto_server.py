"""moto's S3 on a free loopback port, printed as the first line; ends when its parent closes stdin.

With a folder as its argument, access keys may do what `policies.json` in there says (`tests.emulators.guard`).
"""

import logging
import sys
import threading
from pathlib import Path
from typing import Any

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

from tests.emulators.creates import OneCreateAtATime

logging.getLogger("werkzeug").setLevel(logging.ERROR)
app: Any = OneCreateAtATime(DomainDispatcherApplication(create_backend_app))
if len(sys.argv) > 1:
    from tests.emulators.guard import Guard

    app = Guard(app, Path(sys.argv[1]))
server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=MotoRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(f"listens on http://127.0.0.1:{server.server_address[1]}", flush=True)
sys.stdin.read()
server.shutdown()
