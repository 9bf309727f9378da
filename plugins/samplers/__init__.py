"""How tokens are chosen: vanilla, temperature, min-p, nucleus, and samplers that steer decoding."""
