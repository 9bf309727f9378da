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


def test_the_pages_of_commands_schemas_and_python_have_all_that_there_is(harness, site):
    sections = site("reference_pages").command_page().split("\n## ")[1:]
    page = {section.partition("\n")[0]: set(re.findall(r"^\| `(.*?)` \|", section, re.M)) for section in sections}
    shown = helped(harness)
    assert len(shown) >= 24
    assert page == shown
    page = site("reference_pages").schema_page()
    sections = {section.partition("\n")[0]: section for section in re.split("\n##+ ", page)}
    for path in (ROOT / "docs" / "schemas").glob("*.json"):
        schema = json.loads(path.read_text())
        for name, part in {path.stem: schema, **schema.get("$defs", {})}.items():
            assert set(re.findall(r"^\| `(\w+)` \|", sections[name], re.M)) == set(part["properties"])
    assert "| `ranks` | list of integer |  |" in page
    assert "| `seed` | integer or null | yes |" in page
    page = (ROOT / "docs" / "reference" / "python.md").read_text()
    listed = {name for names in re.findall(r"members: \[(.*?)\]", page, re.S) for name in re.findall(r"\w+", names)}
    exported = {*diversity_harness.__all__, *getattr(diversity_harness, "FROM_API", ())}
    assert exported - listed == {"Task", "hookimpl"}  # Task is in the contracts, hookimpl in plugins.md


def test_a_docstrings_aligned_names_become_a_list_and_links_lead_to_pages_or_become_their_words(site, caplog):
    docstring = "A pool.\n\ntexts       n strings\nembeddings  (n, d) float32,\n            centred\n\nEnds here."
    shown = "A pool.\n\n- `texts`: n strings\n- `embeddings`: (n, d) float32, centred\n\nEnds here."
    assert site("docstrings").with_lists(docstring) == shown
    for link, page, made in (
        ("[a](docs/pools.md)", "index.md", "[a](pools.md)"),
        ("[docs/pools.md](docs/pools.md#keys)", "index.md", "[The pools](pools.md#keys)"),
        ("[b](../../CHANGELOG.md)", "reference/python.md", "[b](../changelog.md)"),
        ("[c](../Makefile)", "pools.md", "c"),
        ("[d](docs/schemas)", "contributing.md", "d"),
        ("[e](https://a.org/b)", "pools.md", "[e](https://a.org/b)"),
        ("![f](docs/images/hardness.png)", "index.md", "![f](images/hardness.png)"),
    ):
        assert site("hooks").linked(link, page, {"pools.md": "The pools"}) == made
    assert caplog.messages == []
    site("hooks").linked("[g](../nowhere.py)", "pools.md", {})
    assert caplog.messages == ["docs/pools.md: link to ../nowhere.py, which is no file of the repository"]


def test_workflow_makefile_classifiers_citation_and_changelog_agree_and_no_address_is_made_up():
    names = (".github/workflows/ci.yml", "Makefile", "CITATION.cff", "CHANGELOG.md", "pyproject.toml")
    workflow, makefile, citation, changelog, pyproject = ((ROOT / name).read_text() for name in names)
    project, version = tomllib.loads(pyproject)["project"], diversity_harness.__version__
    words = re.findall(r"run: make (\w+)", workflow)
    assert words == ["lint", "docs", "run", "test"]
    assert [word for word in words if not re.search(rf"^{word}:", makefile, re.M)] == []
    python = "Programming Language :: Python :: "
    pythons = [line.removeprefix(python) for line in project["classifiers"] if line.startswith(f"{python}3.")]
    assert f"python: {json.dumps(pythons)}" in workflow
    assert f"version: {version}\n" in citation
    assert re.search(r"^## (\d\S*)", changelog, re.M)[1] == version
    assert "urls" not in project
