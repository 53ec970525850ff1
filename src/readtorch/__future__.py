# Tangled from chapters/02_module/ — edit there, or here and run `readtorch sync`.

_overwrite_module_params_on_conversion: bool = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Let `module.to(…)` and its like put new Parameters in place of the old ones, instead of changing those."""
    global _overwrite_module_params_on_conversion
    _overwrite_module_params_on_conversion = value


def get_overwrite_module_params_on_conversion() -> bool:
    """Whether conversions make new Parameters. Default: False."""
    return _overwrite_module_params_on_conversion


_swap_module_params_on_conversion: bool = False


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Let conversions of a module, and `load_state_dict`, exchange parameters by `swap_tensors`."""
    global _swap_module_params_on_conversion
    _swap_module_params_on_conversion = value


def get_swap_module_params_on_conversion() -> bool:
    """Whether conversions and loading exchange parameters by `swap_tensors`. Default: False."""
    return _swap_module_params_on_conversion
