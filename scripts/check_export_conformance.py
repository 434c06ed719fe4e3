"""Run the conformance profiles: ``onnxproof conform`` under the name that CI calls it by.

Usage: ``python scripts/check_export_conformance.py --output conformance.json [--artifacts DIR] [--profile NAME]
[--source-revision SHA] [--force]``. It exits with 0, with 10 to 18 by the class of the first failure, with 1 on an
error and with 2 on wrong usage.
"""

from __future__ import annotations

import sys

from onnxproof.cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "conform")
    main()
