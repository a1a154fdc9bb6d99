"""Makes logs neutral and small: python neutral.py FOLDER_OF_SCRIPTS < LOG > LOG.

Paths become /home/user/…. Of a TORCH_TRACE log, entries that TorchTPU did not write are left out,
but for Dynamo's graph breaks, guards and compile metrics, and of the metrics all but a few fields.
"""

import json
import re
import sys

KEPT = ("torchtpu_eager", "torchtpu_stablehlo_graph", "dynamo_graph_break_reason", "recompile_reasons")
FIELDS = (
    "compile_id frame_key co_name co_filename co_firstlineno cache_size accumulated_cache_size "
    "start_time entire_frame_compile_time_s backend_compile_time_s fail_type fail_reason"
).split()


def keeps(header, payload):
    if '"chromium_event"' in header:
        return "torchtpu_eager/" in payload
    return any(name in header for name in KEPT)


def trimmed(header):
    start, found, rest = header.partition('{"compilation_metrics"')
    if not found:
        return None
    entry = json.loads(found + rest)
    metrics = entry["compilation_metrics"]
    entry["compilation_metrics"] = {name: metrics[name] for name in FIELDS}
    return start + json.dumps(entry) + "\n"


def entries(lines):
    entry = []
    for line in lines:
        if entry and not line.startswith("\t"):
            yield entry
            entry = []
        entry.append(line)
    if entry:
        yield entry


def main(scripts):
    text = sys.stdin.read().replace(scripts.rstrip("/") + "/", "/home/user/")
    text = re.sub(r"\S*/shim\.so", "/home/user/shim.so", text)
    text = re.sub(r"[^\s\"'(]*site-packages/", "site-packages/", text)
    if '"has_payload"' not in text:
        sys.stdout.write(text)
        return
    for header, *payload in entries(text.splitlines(keepends=True)):
        metrics = trimmed(header)
        if metrics:
            sys.stdout.write(metrics)
        elif keeps(header, "".join(payload)):
            sys.stdout.writelines([header, *payload])


if __name__ == "__main__":
    main(sys.argv[1])
