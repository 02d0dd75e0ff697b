"""Names the fields of a dashboard that Grafana's foundation SDK does not know, and fails if there are any."""

import json
import sys

from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard


def lost(before, after, path):
    """Where something of `before` is missing in `after`, or another value."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in before.items():
            if key not in after:
                yield f"{path}.{key} is unknown"
            else:
                yield from lost(value, after[key], f"{path}.{key}")
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after)):
            yield from lost(old, new, f"{path}[{index}]")
    elif before != after:
        yield f"{path} became {after!r}"


register_default_plugins()
with open(sys.argv[1], encoding="utf-8") as file:
    written = json.load(file)
understood = json.loads(JSONEncoder().encode(Dashboard.from_json(written)))
faults = list(lost(written, understood, "dashboard"))
print("\n".join(faults))
sys.exit(1 if faults else 0)
