"""Find and load plugins, build components from specs such as `repexp:lam=0.1`, hash their code, list them.

Here lives all that is between a name on a command line and a built component, and how commands declare their options.
What a component then does in a run lives above; the hooks and protocols that its author reads live in `harness/*.py`.
"""
