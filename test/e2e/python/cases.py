"""Shared by the scripts: reads the arguments and prints the result of each case as a line of JSON."""

import json
import sys
import traceback

GIVEN = json.loads(sys.argv[1])


def equal(found, expected):
    assert found == expected, f"{found!r} is not {expected!r}"


def thrown(run, kind=Exception):
    try:
        run()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__} was raised")


def run_case(name, case, *given):
    try:
        case(*given)
        result = {"name": name, "ok": True}
    except Exception:
        result = {"name": name, "ok": False, "error": traceback.format_exc()}
    print(json.dumps(result), flush=True)


def done(version):
    print(json.dumps({"done": True, "version": version}), flush=True)
