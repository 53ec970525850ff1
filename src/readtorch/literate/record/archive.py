"""The format of a recording: one zip of JSON files, and what is let in.

`recording.json` says where and when it was made; `parts/NAME.json` holds the outputs of one part's cells by their anchors. An
archive comes from another machine, so nothing of it is believed: members are read by name, never extracted; sizes are bounded;
every value is checked; and only text, PNG images and traces are taken.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from readtorch.literate.errors import LiterateError, Problem
from readtorch.literate.trace_places import MIME

SCHEMA = "readtorch-recording/1"
MAX_ARCHIVE = 16_000_000
MAX_MEMBER = 8_000_000
MAX_TOTAL = 64_000_000
MAX_PARTS = 400

TEXTS = ("text/plain", "text/markdown", "text/latex")
KINDS = (*TEXTS, "image/png", MIME)
"""What an output may be made of; anything else is left out when recording and refused when importing."""

_PART = re.compile(r"parts/([a-z0-9_]+(?:/[a-z0-9_]+)?)\.json")
_PROVENANCE = {
    "schema": str, "device": str, "simulated": bool, "date": str, "revision": str, "versions": dict, "seconds": (int, float),
}  # fmt: skip


@dataclass
class Recording:
    """`provenance` and, by part, {digest, device, cells: {anchor: {code, outputs, seconds}}}."""

    provenance: dict[str, Any]
    parts: dict[str, dict[str, Any]]

    @property
    def device(self) -> str:
        """The GPU's name."""
        return self.provenance["device"]


def kept(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The outputs with those representations that a recording may hold."""
    found = []
    for output in outputs:
        if "data" in output:
            data = {kind: value for kind, value in output["data"].items() if kind in KINDS}
            if data:
                found.append({"output_type": output["output_type"], "data": data, "metadata": {}})
        else:
            found.append(output)
    return found


def write(path: Path, recording: Recording) -> int:
    """Write an archive; returns its size. LiterateError if it is too large."""
    members = {"recording.json": recording.provenance}
    members.update({f"parts/{name}.json": part for name, part in recording.parts.items()})
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, value in sorted(members.items()):
            archive.writestr(zipfile.ZipInfo(name), dumps(value), zipfile.ZIP_DEFLATED, 9)
    size = path.stat().st_size
    if size > MAX_ARCHIVE:
        raise _refused(path, f"has {size:,} bytes; a recording may have {MAX_ARCHIVE:,}")
    return size


def dumps(value: Any) -> str:
    """JSON, the same for the same value."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False)


def read(path: Path) -> Recording:
    """Read and check an archive. LiterateError says what is wrong with it."""
    if not path.is_file():
        raise _refused(path, "there is no such file")
    if path.stat().st_size > MAX_ARCHIVE:
        raise _refused(path, f"is larger than {MAX_ARCHIVE:,} bytes")
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > MAX_PARTS + 1 or sum(member.file_size for member in members) > MAX_TOTAL:
                raise _refused(path, "holds more than a recording may")
            texts = {member.filename: _member(path, archive, member) for member in members}
    except (zipfile.BadZipFile, OSError, EOFError, NotImplementedError, RuntimeError) as error:
        raise _refused(path, f"cannot be read: {error}") from None
    values = {}
    for name, text in texts.items():
        try:
            values[name] = json.loads(text)
        except ValueError as error:
            raise _refused(path, f"{name} is not JSON: {error}") from None
    provenance = values.pop("recording.json", None)
    check_provenance(path, provenance)
    parts = {}
    for name, value in values.items():
        found = _PART.fullmatch(name)
        assert found is not None
        check_part(path, found[1], value)
        parts[found[1]] = value
    return Recording(provenance, parts)


def _member(path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> str:
    if member.filename != "recording.json" and not _PART.fullmatch(member.filename):
        raise _refused(path, f"holds {member.filename!r:.80}, which belongs to no recording")
    if member.file_size > MAX_MEMBER:
        raise _refused(path, f"{member.filename} is larger than {MAX_MEMBER:,} bytes")
    with archive.open(member) as stream:
        data = stream.read(MAX_MEMBER + 1)  # the size in the directory may be a lie
    if len(data) > MAX_MEMBER:
        raise _refused(path, f"{member.filename} is larger than {MAX_MEMBER:,} bytes")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise _refused(path, f"{member.filename} is not UTF-8") from None


def check_provenance(path: Path, value: Any) -> None:
    """LiterateError unless it says all that has to be known of a recording."""
    if not isinstance(value, dict):
        raise _refused(path, "says nowhere where it was made (recording.json)")
    for key, kind in _PROVENANCE.items():
        if not isinstance(value.get(key), kind):  # type: ignore[arg-type]  # a type or several
            raise _refused(path, f"recording.json: {key} is missing or of another type")
    if value["schema"] != SCHEMA:
        raise _refused(path, f"recording.json: schema is {value['schema']!r:.60}, not {SCHEMA}")
    if set(value) - set(_PROVENANCE) or not all(_is_text(k) and _is_text(v) for k, v in value["versions"].items()):
        raise _refused(path, "recording.json holds what no recording has")
    if not re.fullmatch(r"[\w .()/+-]{1,80}", value["device"]) or not re.fullmatch(
        r"[0-9a-f]{0,64}", value["revision"]
    ):
        raise _refused(path, "recording.json: device or revision is not what such a name looks like")


def check_part(path: Path, name: str, value: Any) -> None:
    """LiterateError unless these are outputs of a part's cells."""
    where = f"parts/{name}.json"
    if not (
        isinstance(value, dict) and set(value) == {"digest", "device", "cells"} and isinstance(value["cells"], dict)
    ):
        raise _refused(path, f"{where} is not a part's outputs")
    if not (_is_text(value["digest"]) and value["device"] in ("cpu", "cuda")):
        raise _refused(path, f"{where}: digest or device is wrong")
    for anchor, cell in value["cells"].items():
        place = f"{where}: cell {anchor!r:.60}"
        if not (isinstance(cell, dict) and set(cell) == {"code", "outputs", "seconds"}):
            raise _refused(path, f"{place} is not {{code, outputs, seconds}}")
        if not (
            _is_text(cell["code"]) and isinstance(cell["seconds"], int | float) and isinstance(cell["outputs"], list)
        ):
            raise _refused(path, f"{place}: a value has another type")
        for output in cell["outputs"]:
            _check_output(path, place, output)


def _check_output(path: Path, place: str, output: Any) -> None:
    if not isinstance(output, dict):
        raise _refused(path, f"{place}: an output is no object")
    kind = output.get("output_type")
    if kind == "stream":
        good = set(output) == {"output_type", "name", "text"} and output["name"] in ("stdout", "stderr")
        good = good and _is_text(output["text"])
    elif kind == "error":
        good = set(output) == {"output_type", "ename", "evalue", "traceback"}
        good = good and _is_text(output["ename"]) and _is_text(output["evalue"])
        good = good and isinstance(output["traceback"], list) and all(map(_is_text, output["traceback"]))
    elif kind in ("display_data", "execute_result"):
        good = set(output) == {"output_type", "data", "metadata"} and output["metadata"] == {}
        good = good and isinstance(output["data"], dict)
        if good:
            _check_data(path, place, output["data"])
    else:
        good = False
    if not good:
        raise _refused(path, f"{place}: an output is not one of stream, error, display_data, execute_result")


def _check_data(path: Path, place: str, data: Mapping[str, Any]) -> None:
    for kind, value in data.items():
        if kind not in KINDS:
            raise _refused(path, f"{place}: {kind!r:.40} is not let in; only {', '.join(KINDS)} are")
        if kind in TEXTS and not _is_text(value):
            raise _refused(path, f"{place}: {kind} is no text")
        if kind == "image/png":
            try:
                image = base64.b64decode(value, validate=True)
            except (binascii.Error, TypeError, ValueError):
                image = b""
            if not image.startswith(b"\x89PNG\r\n\x1a\n"):
                raise _refused(path, f"{place}: image/png is no PNG")
        if kind == MIME:
            from readtorch.literate.trace.validate import problems

            if found := problems(value, place):
                raise LiterateError(found)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _refused(path: Path, why: str) -> LiterateError:
    return LiterateError(Problem(path.name, 0, why))
