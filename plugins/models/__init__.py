"""Where model weights lie, what identifies them, and the small models that the harness ships."""
