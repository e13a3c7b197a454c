"""Remotes to sync with: bare repositories made by the git program, and servers on this machine."""

from __future__ import annotations

import base64
import os
import shutil
import ssl
import stat
import subprocess
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

HAS_GIT = shutil.which("git") is not None
HAS_OPENSSL = shutil.which("openssl") is not None


def git(where: Path | str, *argv: str) -> str:
    """Run git in a directory, and return what it prints."""
    command = ["git", "-C", str(where), *argv]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def bare(path: Path, *options: str) -> Path:
    """Make an empty remote as a person does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "-q", "--bare", *options, str(path)], check=True)
    return path


def bare_by_hand(path: Path) -> Path:
    """Make an empty remote where there is no git program."""
    for directory in ("objects/pack", "objects/info", "refs/heads", "refs/tags"):
        (path / directory).mkdir(parents=True)
    (path / "HEAD").write_text("ref: refs/heads/master\n")
    (path / "config").write_text("[core]\n\trepositoryformatversion = 0\n\tbare = true\n")
    return path


def ssh_stand_in(directory: Path) -> str:
    """Return a command line for GIT_SSH_COMMAND that runs what is asked for on this machine."""
    script = directory / "ssh-stand-in"
    script.write_text('#!/bin/sh\nfor last; do :; done\nexec sh -c "$last"\n')
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


class _Handler(BaseHTTPRequestHandler):
    root: Path
    login: tuple[str, str] | None
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        self._serve(self._body())

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = b""
        while size := int(self.rfile.readline(), 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return body

    def _serve(self, body: bytes) -> None:
        if self.login:
            wanted = base64.b64encode(":".join(self.login).encode()).decode()
            if self.headers.get("Authorization") != f"Basic {wanted}":
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="git"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
        path, _, query = self.path.partition("?")
        environment = {
            **os.environ,
            "GIT_PROJECT_ROOT": str(self.root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "REMOTE_USER": "tester",
            "PATH_INFO": path,
            "QUERY_STRING": query,
            "REQUEST_METHOD": self.command,
            "CONTENT_TYPE": self.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""),
        }
        done = subprocess.run(
            ["git", "http-backend"],
            input=body,
            capture_output=True,
            env=environment,
            check=True,
        )
        head, _, content = done.stdout.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(fields.pop("Status", "200").split()[0]))
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def certificate(directory: Path) -> Path:
    """Make a certificate for this machine, with its key in the same file."""
    made, key = directory / "certificate.pem", directory / "key.pem"
    given = ["-x509", "-nodes", "-newkey", "rsa:2048", "-days", "2", "-subj", "/CN=here"]
    named = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(made)]
    subprocess.run(["openssl", "req", *given, *named], check=True, capture_output=True)
    made.write_bytes(made.read_bytes() + key.read_bytes())
    return made


@contextmanager
def http_server(
    root: Path, login: tuple[str, str] | None = None, encrypted_by: Path | None = None
) -> Iterator[str]:
    """Serve the repositories below `root` with git's own program; give the address."""

    handler = type("Handler", (_Handler,), {"root": root, "login": login})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    if encrypted_by:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(encrypted_by)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http{'s' * bool(encrypted_by)}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
