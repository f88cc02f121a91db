"""Targets that mean harm: each is shown to work where nothing stops it, and to get nothing where a sandbox does."""
