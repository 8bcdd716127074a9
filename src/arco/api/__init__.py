"""The HTTP API: public routes, what processes ask each other, and the server that runs both."""

from arco.api._app import close_app, create_app
from arco.api._backups import BackupOptions
from arco.api._host import Door, Host
from arco.api._openapi import openapi_document
from arco.api._peers import HttpPeers
from arco.api._server import ProcessRole, ServeOptions, local_app, serve
from arco.core import ServiceIdentity

__all__ = [
    "BackupOptions",
    "Door",
    "Host",
    "HttpPeers",
    "ProcessRole",
    "ServeOptions",
    "ServiceIdentity",
    "close_app",
    "create_app",
    "local_app",
    "openapi_document",
    "serve",
]
