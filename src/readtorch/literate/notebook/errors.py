"""What a reader is told when an edit cannot be taken into the running package."""

from __future__ import annotations


class LiveError(Exception):
    """An edit that the running package cannot follow. The package is as it was before the cell ran."""

    def _render_traceback_(self) -> list[str]:
        """IPython shows these lines instead of a traceback through our own code, which would help nobody."""
        return [f"{type(self).__name__}: {self}"]


def restart(what: str) -> LiveError:
    """The refusal of a change that objects already made cannot follow."""
    return LiveError(
        f"{what}. Objects made before cannot follow that.\n"
        "    The package is unchanged. To try it: save the chapter, run `readtorch tangle`, restart the kernel."
    )
