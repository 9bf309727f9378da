"""Turn each response into a vector: hidden states, TF-IDF, sentence models, random features."""
