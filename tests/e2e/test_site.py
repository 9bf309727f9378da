"""The site that `make docs` builds: its generated pages, its links, and what several files must say alike."""

import importlib
import json
import re
import tomllib

import pytest
from support.paths import ROOT

import harness as diversity_harness

pytest.importorskip("mkdocs")
pytest.importorskip("griffe")


@pytest.fixture
def site(monkeypatch):
    """Import a module of docs/: `site("hooks")`."""
    monkeypatch.syspath_prepend(ROOT / "docs")
    return importlib.import_module


def names_in(section):
    """What stands at the beginning of a help text's lines: names of commands, or options with their values."""
    return set(re.findall(r"^  (\S+(?: \S+)*)(?=  |$)", section, re.M))


def helped(harness, *path):
    """Command -> its arguments and options as `--help` shows them, of the command and of all below it."""
    text, *below = harness(*path, "--help").out.split("\nCommands:\n")
    shown = {" ".join(["harness", *path]): names_in(text.partition("Arguments:")[2] or text.partition("Options:")[2])}
    for name in names_in("".join(below)):
        shown |= helped(harness, *path, name)
    return shown


def test_the_page_of_commands_has_every_command_argument_and_option_that_help_shows(harness, site):
    sections = site("reference_pages").command_page().split("\n## ")[1:]
    page = {section.partition("\n")[0]: set(re.findall(r"^\| `(.*?)` \|", section, re.M)) for section in sections}
    shown = helped(harness)
    assert len(shown) >= 24
    assert page == shown


def test_the_page_of_schemas_has_every_field(site):
    page = site("reference_pages").schema_page()
    sections = {section.partition("\n")[0]: section for section in re.split("\n##+ ", page)}
    for path in (ROOT / "docs" / "schemas").glob("*.json"):
        schema = json.loads(path.read_text())
        for name, part in {path.stem: schema, **schema.get("$defs", {})}.items():
            assert set(re.findall(r"^\| `(\w+)` \|", sections[name], re.M)) == set(part["properties"])
    assert "| `ranks` | list of integer |  |" in page
    assert "| `seed` | integer or null | yes |" in page


def test_the_python_reference_names_all_that_harness_exports():
    page = (ROOT / "docs" / "reference" / "python.md").read_text()
    shown = {name for names in re.findall(r"members: \[(.*?)\]", page, re.S) for name in re.findall(r"\w+", names)}
    exported = {*diversity_harness.__all__, *getattr(diversity_harness, "FROM_API", ())}
    assert exported - shown == {"Task", "hookimpl"}  # Task is in the contracts, hookimpl in plugins.md


def test_a_docstrings_aligned_names_become_a_list(site):
    docstring = "A pool.\n\ntexts       n strings\nembeddings  (n, d) float32,\n            centred\n\nEnds here."
    shown = "A pool.\n\n- `texts`: n strings\n- `embeddings`: (n, d) float32, centred\n\nEnds here."
    assert site("docstrings").with_lists(docstring) == shown


def test_links_lead_to_pages_or_become_their_words_or_a_warning(site, caplog):
    hooks = site("hooks")

    def linked(text, page):
        return hooks.linked(text, page, {"pools.md": "The pools"})

    assert linked("[a](docs/pools.md)", "index.md") == "[a](pools.md)"
    assert linked("[docs/pools.md](docs/pools.md#keys)", "index.md") == "[The pools](pools.md#keys)"
    assert linked("[b](../../CHANGELOG.md)", "reference/python.md") == "[b](../changelog.md)"
    assert linked("[c](../Makefile)", "pools.md") == "c"
    assert linked("[d](docs/schemas)", "contributing.md") == "d"
    assert linked("[e](https://a.org/b)", "pools.md") == "[e](https://a.org/b)"
    assert linked("![f](docs/images/hardness.png)", "index.md") == "![f](images/hardness.png)"
    assert caplog.messages == []
    linked("[g](../nowhere.py)", "pools.md")
    assert caplog.messages == ["docs/pools.md: link to ../nowhere.py, which is no file of the repository"]


def test_the_workflow_runs_words_of_the_makefile_on_the_pythons_of_the_classifiers():
    workflow, makefile = ((ROOT / name).read_text() for name in (".github/workflows/ci.yml", "Makefile"))
    words = re.findall(r"run: make (\w+)", workflow)
    assert words == ["lint", "docs", "run", "test"]
    assert [word for word in words if not re.search(rf"^{word}:", makefile, re.M)] == []
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    pythons = [
        line.rpartition(" ")[2] for line in classifiers if line.startswith("Programming Language :: Python :: 3.")
    ]
    assert f"python: {json.dumps(pythons)}" in workflow


def test_the_version_is_the_same_everywhere_and_no_address_is_made_up():
    citation, changelog = (ROOT / "CITATION.cff").read_text(), (ROOT / "CHANGELOG.md").read_text()
    assert f"version: {diversity_harness.__version__}\n" in citation
    assert re.search(r"^## (\d\S*)", changelog, re.M)[1] == diversity_harness.__version__
    assert "urls" not in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
