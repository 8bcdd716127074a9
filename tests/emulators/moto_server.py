"""moto's S3 on a free loopback port, printed as the first line; ends when its parent closes stdin."""

import logging
import sys

from moto.server import ThreadedMotoServer

logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(f"listens on http://127.0.0.1:{server.get_host_and_port()[1]}", flush=True)
sys.stdin.read()
server.stop()
