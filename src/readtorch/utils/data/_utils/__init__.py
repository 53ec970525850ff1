# Tangled from chapters/05_data/3_collate.py — edit there, or here and run `readtorch sync`.
"""Steps of loading that run in the main process and in workers alike."""
