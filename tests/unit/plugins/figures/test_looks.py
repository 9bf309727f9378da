"""The look of a series: the selector's own wherever it is shown, unlike any other."""

from harness.plugin_system.registry import load_registry
from harness_plugins.figures import looks


def test_every_built_in_selector_has_a_place_and_all_look_different():
    registered = [entry for entry in load_registry().registrations if entry.kind == "selector"]
    built_in = {entry.name for entry in registered if entry.origin.dist == "diversity-harness"}
    assert len(built_in) > 15
    assert built_in <= set(looks.ORDER)
    shown = looks.looks([*looks.ORDER, "mine", "theirs", "a", "b", "c", "d"])
    assert len({(look.colour, look.marker) for look in shown.values()}) == len(shown) == len(looks.ORDER) + 6
    assert len({look.colour for look in list(shown.values())[:7]}) == 7


def test_a_selectors_look_depends_on_its_name_alone_and_its_variants_differ_in_their_dashes():
    alone = {name: looks.looks([name])[name] for name in ("repexp", "kmeans", "my-own")}
    together = looks.looks(["uniform", "my-own", "kmeans", "zebra", "repexp", "mmr"])
    assert {name: together[name] for name in alone} == alone
    names = ["repexp · hidden-mean", "repexp · tfidf", "repexp:lam=0.1 · tfidf", "dedup"]
    variants = looks.looks(names)
    assert looks.looks(names[::-1]) == variants
    of_repexp = [variants[name] for name in names[:3]]
    repexp = alone["repexp"]
    assert {(look.colour, look.marker) for look in of_repexp} == {(repexp.colour, repexp.marker)}
    assert len({look.dash for look in of_repexp}) == 3
