"""Find and load plugins, build components from specs such as `repexp:lam=0.1`, hash their code, list them."""
