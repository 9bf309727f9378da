"""Sources of plugins that are broken when they are loaded, and what their fault says."""

HOOK = "from harness import hookimpl\n@hookimpl\ndef "
BROKEN = [
    ("import no_such_module_anywhere", "failed to import: No module named 'no_such_module_anywhere'"),
    ("raise SystemExit('bye')", "failed to import: SystemExit: bye"),
    ("def register_selectors(register): ...", "register_selectors is there but not marked with @hookimpl"),
    ("x = 1", "has no hook: mark a register_* function with @hookimpl"),
    (
        HOOK + "register_selektors(register): ...",
        "unknown hook 'register_selektors' (did you mean 'register_selectors'?",
    ),
    (HOOK + "register_selectors(registry, extra): ...", "has a hook of the wrong signature"),
    (HOOK + "register_selectors(): ...", "registers nothing in register_selectors"),
    (HOOK + "register_selectors(register): 1 / 0", "raised in register_selectors: ZeroDivisionError: division by zero"),
    (HOOK + "register_selectors(register): register('a b', print)", "TypeError: register: a name is a word"),
    (HOOK + "register_selectors(register): register('ab', 3)", "the factory is a callable"),
    (HOOK + "register_selectors(register): register('ab', 'a.b')", "the factory is a callable"),
]

LAZY = HOOK + "register_selectors(register): register('lazy', 'no_such_package.module:Lazy')"
