"""Measurements. Each file says what it measures and how; figures count as ratios within one run."""
