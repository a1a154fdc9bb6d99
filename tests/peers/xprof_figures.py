"""Prints what the real XProf makes of a profile, as one JSON object.

    python xprof_figures.py FILE.xplane.pb [FILE.xplane.pb ...]

Several files are the hosts of one session. The keys are `xprof` (its version),
`hlo_stats`, `roofline_model`, `overview_page`, `input_pipeline_analyzer` and
`memory_viewer`; a tool that fails has {"error": TEXT} instead. Tables become
`{"rows": [{column id: value}], "properties": {name: text}}`, with XProf's own
column ids and units: times in microseconds, bandwidths in GiB/s, flop rates in
GFLOP/s of 10^9. `memory_viewer` is by module name.
"""

import json
import os
import pathlib
import shutil
import sys
import tempfile

# XProf's C++ logs on stderr; only its errors matter here.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import importlib.metadata

from xprof.convert import raw_to_tool_data


def run(files, tool, **params):
    """The tool's answer, parsed."""
    data, _ = raw_to_tool_data.xspace_to_tool_data(files, tool, params)
    if data is None:
        raise ValueError("no data")
    text = data.decode() if isinstance(data, bytes) else data
    return json.loads(text)


def table(gviz):
    """A table of the charts library as plain rows."""
    columns = [column["id"] for column in gviz["cols"]]
    rows = []
    for row in gviz.get("rows", []):
        cells = [cell and cell.get("v") for cell in row["c"]]
        rows.append(dict(zip(columns, cells)))
    return {"rows": rows, "properties": gviz.get("p", {})}


def tables(answer):
    """One table as it is, several as a list."""
    if isinstance(answer, list):
        return [table(part) if "cols" in part else part for part in answer]
    return table(answer) if "cols" in answer else answer


def attempt(function, *args, **params):
    """The function's answer, or its error as data: one tool must not spoil the rest."""
    try:
        return function(*args, **params)
    except Exception as error:  # noqa: BLE001 -- whatever the tool raises is the answer
        return {"error": f"{type(error).__name__}: {error}"}


def module_names(folder):
    """The modules whose HLO XProf took out of the profile."""
    return sorted(path.name.removesuffix(".hlo_proto.pb") for path in folder.glob("*.hlo_proto.pb"))


def figures(paths):
    # XProf leaves caches beside the profile: let it do so in a copy.
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        files = [shutil.copy(path, folder / pathlib.Path(path).name) for path in paths]
        files = [str(file) for file in files]
        out = {"xprof": importlib.metadata.version("xprof")}
        tools = ("hlo_stats", "roofline_model", "overview_page", "input_pipeline_analyzer")
        for tool in tools:
            out[tool] = attempt(lambda: tables(run(files, tool)))
        attempt(raw_to_tool_data.xspace_to_tool_names, files)
        out["memory_viewer"] = {
            name: attempt(run, files, "memory_viewer", module_name=name, memory_space="0")
            for name in module_names(folder)
            if name != "NO_MODULE"
        }
        return out


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    json.dump(figures(sys.argv[1:]), sys.stdout)
