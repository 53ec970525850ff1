# Tangled from chapters/02_module/9_functional_call.py — edit there, or here and run `readtorch sync`.
"""Where upstream keeps what `torch.func` exports."""
