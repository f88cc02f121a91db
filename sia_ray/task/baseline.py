"""What a SIA task may import unasked: SIA installs these ten packages for each run, so its task folders name none."""

from __future__ import annotations

SIA_BASELINE = (
    *("anthropic", "openai", "python-dotenv", "google-genai", "claude-agent-sdk"),
    *("tqdm", "pydantic", "scikit-learn", "pandas", "numpy"),
)
"""Requirement lines; added to those of a task folder without ``task.toml``, and to no other pack's."""
