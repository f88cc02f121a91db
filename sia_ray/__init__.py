"""sia-ray: software that improves AI systems by itself, as an actor-based runtime on Ray."""
