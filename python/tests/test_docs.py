"""The Python that the documentation shows runs."""
import os
import re
import subprocess
import sys

import pytest

from conftest import LONG, ROOT

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.S | re.M)
BLOCKS = [(name, number, source)
          for name in ("docs/python.md", "docs/exllamav2.md", "python/README.md")
          for number, source in enumerate(BLOCK.findall((ROOT / name).read_text(encoding="utf-8")))]


def test_there_are_blocks():
    assert len(BLOCKS) >= 7


@pytest.mark.parametrize("name, number, source", BLOCKS, ids=[f"{name}-{number}" for name, number, _ in BLOCKS])
def test_block(name, number, source):
    ran = subprocess.run([sys.executable, "-W", "error", "-c", source], cwd=ROOT, capture_output=True, text=True,
                         timeout=4 * LONG, check=False, env=dict(os.environ))
    assert ran.returncode == 0 and ran.stderr == "", ran.stderr
