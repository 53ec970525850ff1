"""What went wrong when a chapter ran, in its page: a list at the top, and the message where it happened."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from readtorch.literate.chapter import Part
from readtorch.literate.errors import Problem


def faults_box(faults: Sequence[Problem], part: Part) -> str:
    """The list at the top of a page, each fault with a link to its cell."""
    count = "One cell or claim" if len(faults) == 1 else f"{len(faults)} cells or claims"
    items = "".join(f"<li>{_link(fault, part)}</li>" for fault in faults)
    return (
        f'<div class="rt-faults" role="note"><p>{count} of this page failed on this machine when the page was made. '
        f"They stand in red below.</p><ul>{items}</ul></div>"
    )


def _link(fault: Problem, part: Part) -> str:
    text = f"<code>{escape(fault.place)}</code> {escape(fault.message.split(chr(10))[0])}"
    cells = [cell for cell in part.code_cells if cell.line <= fault.line]
    return f'<a href="#{escape(part.ids[cells[-1].index])}">{text}</a>' if cells else text


def why_not(evidence: Any) -> str:
    """Below a claim that is not as stated: what each library said."""
    if evidence is None or not evidence.fault:
        return ""
    said = [
        f"{library}: {outcome.detail}" for library, outcome in evidence.details.items() if outcome.state == "failed"
    ]
    text = "\n".join([f"The claim {evidence.fault}.", *said])
    return f'<pre class="rt-out rt-error">{escape(text, quote=False)}</pre>'


def with_fault(result: Any) -> list[dict[str, Any]]:
    """A cell's outputs; where it failed, its error stands among them unfolded, however it ended."""
    if result.problem is None or result.evidence is not None:
        return list(result.outputs)
    outputs = [
        {**output, "unfolded": True} if output["output_type"] == "error" else output for output in result.outputs
    ]
    if not any("unfolded" in output for output in outputs):
        head, *trace = result.problem.message.split("\n")
        outputs.append(
            {"output_type": "error", "ename": "failed", "evalue": head, "traceback": trace, "unfolded": True}
        )
    return outputs


__all__ = ["faults_box", "why_not", "with_fault"]
