# Tangled from chapters/01_import/8b_neighbours.py — edit there, or here and run `readtorch sync`.
"""Importable, as scripts import it at their top; nothing is exported."""


class OnnxExporterError(RuntimeError):
    """An export failed."""


def export(model: object, args: object = (), f: object = None, **options: object) -> None:
    """OnnxExporterError: there is no exporter here."""
    raise OnnxExporterError(
        "torch.onnx.export is not part of readtorch. Save the state_dict, load it into the same model under PyTorch, and "
        "export it there"
    )


def is_in_onnx_export() -> bool:
    """False: no export ever runs."""
    return False
