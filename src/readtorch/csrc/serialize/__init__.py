# Tangled from chapters/02_module/7_save_load.py — edit there, or here and run `readtorch sync`.
"""The container of saved files (twin of `caffe2/serialize/`)."""
