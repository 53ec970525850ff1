"""Raw events: what the recorder notes while the traced code runs, as cheaply as it can.

Every event is a tuple `(kind, thread, time, …)` in one list. Where no values are wanted, lines and returns of the thread that
began the recording, nearly all there is, are bare numbers: the line, or the time negated. Appending to a list is atomic, so threads share it. What can wait
(naming files, interning strings, ordering lanes) waits until the recording has ended: `encode.py`.
"""

from __future__ import annotations

import json
import re
from typing import Any

SCHEMA = "readtorch-trace/1"

CALL = 0
"""(CALL, thread, ns, CodeInfo, module | None, hook | "", frame | 0): frame numbers generators, which are re-entered"""
LINE = 1
"""(LINE, thread, line): without a time, half of what a line would cost; it is that of the event before"""
RETURN = 2
"""(RETURN, thread, ns, value | None)"""
YIELD = 3
"""(YIELD, thread, ns, value | None): the frame is left and may be re-entered"""
RESUME = 4
"""(RESUME, thread, ns, frame)"""
UNWIND = 5
"""(UNWIND, thread, ns, value | None): the frame is left by an exception"""
SET = 6
"""(SET, thread, name, value): a variable of the running frame has a new value"""
OP = 7
"""(OP, thread, end, name, inputs, outputs, begin): mentions or indices of values"""
NODE = 8
"""(NODE, thread, end, name, gradients in, gradients out, begin)"""
ALLOC = 9
"""(ALLOC, thread, ns, bytes, device)"""
MARK = 10
"""(MARK, thread, ns, label)"""

LETTERS = "CLRYGESONAM"
"""The kinds in a document, in the order above."""

MAX_EVENTS = 60_000
MAX_BYTES = 150_000
"""Of one document, gzipped."""


_SURROGATE = re.compile("[\ud800-\udfff]")


def dumps(document: dict[str, Any]) -> str:
    """Compact JSON; what is not JSON (NaN) is refused.

    Half a character, as undecodable file names contain, has no place in any encoding: it is spelled out, as six characters.
    """
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return text if text.isascii() else _SURROGATE.sub(lambda half: rf"\\u{ord(half[0]):04x}", text)
