"""What must not be imported: a process is started once here, since only a fresh one can tell."""

import subprocess
import sys

SCRIPT = """
import sys
import weft
assert weft.methods.Bitfit().name == "bitfit"  # without importing weft.methods first
import weft.config, weft.data, weft.methods, weft.tasks
import weft.cli
weft.config.load_run("quickstart")
from weft.methods import METHODS, build_method
from weft.tasks import Task
for name in METHODS: METHODS[name]()
build_method(['lora', {'use': 'bitfit', 'biases': 'dense'}]); Task('a', labels=('x', 'y'))
assert weft.methods.Lora(rank=4).rank == 4
heavy = {'torch', 'transformers'} & set(sys.modules)
assert not heavy, heavy
"""


def test_settings_and_tasks_need_no_torch():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
