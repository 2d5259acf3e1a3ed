"""The notebook prints what it shows: every cell of code is run, and its text compared with what was recorded."""

import contextlib
import io
import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "tour.ipynb"


def test_the_notebook_prints_what_it_shows():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    names: dict[str, object] = {}
    cells = json.loads(NOTEBOOK.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert len(code) >= 8
    for number, cell in enumerate(code):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)
        streams = [output for output in cell["outputs"] if output["output_type"] == "stream"]
        shown = "".join("".join(output["text"]) for output in streams if output["name"] == "stdout")
        assert printed.getvalue() == shown, f"cell {number}; run the notebook again where this is what it should be"
        assert all(output["output_type"] != "error" and output.get("name") != "stderr" for output in cell["outputs"])
    assert NOTEBOOK.stat().st_size < 300_000, "outputs are kept small"
