"""`harness doctor` in words: what is installed, where programs are graded, what is wrong."""

from harness_plugins.doctor.commands import of_plugins


def test_tasks_with_one_remark_share_a_line_and_faults_stand_last():
    graders = {"one": "sandbox: bwrap", "two": "sandbox: bwrap", "three": "cannot grade on this machine: no weights"}
    report = {"registered": {"task": 3, "report": 1}, "graders": graders, "faults": []}
    report["lacking"] = {"tar not installed: get tar": ["engine x", "embedder y"]}
    assert of_plugins(report).splitlines() == [
        "installed: 3 tasks, 1 report",
        "",
        "grading on this machine:",
        "  one, two: sandbox: bwrap",
        "  three: cannot grade on this machine: no weights",
        "",
        "lacking on this machine:",
        "  engine x, embedder y: tar not installed: get tar",
        "",
        "no plugin has a fault",
    ]
    text = of_plugins(
        {**report, "graders": {}, "lacking": {}, "faults": [{"fault": "task 'four' is broken", "trace": "Traceback\n"}]}
    )
    lines = ["", "task 'four' is broken", "Traceback", "", "faults of plugins: 1"]
    assert text.splitlines()[1:] == lines
