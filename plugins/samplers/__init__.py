"""Choose how tokens are sampled: vanilla, temperature, min-p, nucleus, and samplers that steer decoding."""
