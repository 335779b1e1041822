"""Simulation-based calibration of each sampler."""
