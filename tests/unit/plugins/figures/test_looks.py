"""The look of a series: the selector's own wherever it is shown, unlike any other, also to colour-blind readers."""

import itertools

import numpy as np
import pytest

from harness.plugin_system.registry import load_registry
from harness_plugins.figures import looks

# How the three kinds of colour blindness see linear RGB (Machado, Oliveira and Fernandes 2009, at full severity).
SEEN = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.01182, 0.04294, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.3039]],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def linear(colour):
    values = np.array([int(colour[place : place + 2], 16) for place in (1, 3, 5)]) / 255
    return np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    xyz = XYZ @ rgb.clip(0, 1) / [0.9505, 1, 1.089]
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize(("colours", "page"), [(looks.COLOURS, "#fdfcf9"), (looks.DARK, "#16181b")])
def test_any_two_colours_stay_apart_for_colour_blind_readers_and_from_the_page(colours, page):
    for kind, matrix in SEEN.items():
        seen = {colour: lab(np.array(matrix) @ linear(colour)) for colour in colours}
        for one, other in itertools.combinations(colours, 2):
            assert np.linalg.norm(seen[one] - seen[other]) > 12, (kind, one, other)
    for colour in colours:
        dark, light = sorted(float(XYZ[1] @ linear(each)) for each in (colour, page))
        assert (light + 0.05) / (dark + 0.05) > 2.5, colour


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
