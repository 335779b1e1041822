"""A private likelihood of any model, released once: each record compared with its twins."""
