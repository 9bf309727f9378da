"""The process of one check: `python -m harness_plugins.gpu_check.child FILE` reads what to do, and writes the result.

FILE     {"check": "module:function", "setting": the fields of `record.Setting`}
beside   result.json, as `record.Result.to_json`; not there if the process died
"""

from __future__ import annotations

import json
import sys
import traceback
from importlib import import_module
from pathlib import Path

from harness.errors import HarnessError, Lacking
from harness.system.files import write_atomically

from .record import Result, Setting, Skipped


def main(task: Path) -> None:
    """Make the check, and write its result."""
    given = json.loads(task.read_text("utf-8"))
    setting = Setting(**given["setting"] | {"files": Path(given["setting"]["files"])})
    result = _result(given["check"], setting)
    write_atomically(task.with_name("result.json"), json.dumps(result.to_json()).encode())


def _result(check: str, setting: Setting) -> Result:
    module, _, function = check.partition(":")
    try:
        result: Result = getattr(import_module(module), function)(setting)
        return result
    except (Skipped, Lacking) as reason:
        return Result("skipped", str(reason))
    except HarnessError as failure:
        print(failure, file=sys.stderr)  # the file has it without paths
        return Result("failed", str(failure))
    except Exception as failure:
        traceback.print_exc()
        return Result("failed", f"{type(failure).__name__}: {' '.join(str(failure).split())}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
