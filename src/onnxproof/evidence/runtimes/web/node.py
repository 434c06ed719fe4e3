"""ONNX Runtime Web in a process of Node's."""

from __future__ import annotations

import struct
import subprocess

from onnxproof.evidence.runtimes.web.link import Ended
from onnxproof.evidence.runtimes.web.locate import Package, script

_LENGTH = struct.Struct("<d")  # JavaScript's own numbers: whole up to 2**53


class Node:
    """A link to ``node.mjs``; what Node prints goes where this process's errors go."""

    def __init__(self, program: str, package: Package) -> None:
        command = [program, str(script("node.mjs")), str(package.dist / "ort.node.min.mjs")]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, message: bytes) -> bytes:
        """Send a message and wait for the answer.

        Raises:
            Ended: Node ended instead.
        """
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(_LENGTH.pack(len(message)))
            process.stdin.write(message)
            process.stdin.flush()
        except BrokenPipeError as err:
            raise Ended(f"Node ended with {process.wait()}") from err
        head = process.stdout.read(_LENGTH.size)
        if len(head) < _LENGTH.size:
            raise Ended(f"Node ended with {process.wait()}")
        size = int(_LENGTH.unpack(head)[0])
        answer = process.stdout.read(size)
        if len(answer) < size:
            raise Ended(f"Node ended with {process.wait()}")
        return answer

    def close(self) -> None:
        """End Node."""
        self._process.kill()
        self._process.communicate()
