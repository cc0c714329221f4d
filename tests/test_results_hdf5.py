"""The HDF5 file: round trip, self-description, whole or not at all, clean errors."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
import synthetic

from cohsim.errors import InputError
from cohsim.results import hdf5, registry
from cohsim.results.atomic import check_writable, whole_file
from cohsim.results.hdf5 import read_result, write_result
from cohsim.results.reference import markdown
from cohsim.results.result import Result
from cohsim.results.summary import summarize


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "out.h5"
    write_result(synthetic.result(), path)
    return path


def test_round_trip(written):
    original, restored = synthetic.result(), read_result(written)
    assert set(original.data) == set(restored.data)
    for path, value in original.data.items():
        assert type(value) is type(restored.data[path]), path
        assert np.array_equal(value, restored.data[path]), path
    assert dict(original.host) == dict(restored.host)
    assert summarize(original) == summarize(restored)


def test_every_dataset_describes_itself(written):
    seen = 0

    def check(name, item):
        nonlocal seen
        if not isinstance(item, h5py.Dataset):
            return
        seen += 1
        declared = registry.declaration("/" + name)
        assert item.attrs["unit"] == declared.unit
        assert item.attrs["description"] == declared.description
        axes = item.attrs["axes"]
        assert (() if isinstance(axes, h5py.Empty) else tuple(axes)) == declared.axes
        assert tuple(d.label for d in item.dims) == declared.axes
        if declared.kind != "text" and item.shape and item.size:
            assert item.compression == "gzip", name

    with h5py.File(written) as file:
        file.visititems(check)
        assert file.attrs["schema_version"] == registry.SCHEMA_VERSION
        assert file["/functions/time_fs"].dims[2][0].asstr()[:].tolist()[0] == "issue"  # labelled without cohsim
    assert seen == len(synthetic.result().data)


def test_empty_tables_round_trip(tmp_path):
    run = synthetic.run_data()
    run.line_address, run.line_stats = run.line_address[:0], run.line_stats[:0]
    run.count[:] = 0
    path = tmp_path / "empty.h5"
    write_result(synthetic.result(run), path)
    assert read_result(path).array("/lines/stats").shape == (0, len(synthetic.LINE_STATS))
    assert summarize(read_result(path))["lines"] == []


def test_host_does_not_reach_the_datasets(tmp_path):
    """Same inputs on another host at another time: identical dataset for dataset."""
    run = synthetic.run_data()
    run.host_seconds = 77.0
    first, second = synthetic.result(), synthetic.result(run)
    other = Result(second.data, dict(second.host) | {"host": "elsewhere"})
    for name, result in (("a", first), ("b", other)):
        write_result(result, tmp_path / name)
    with h5py.File(tmp_path / "a") as a, h5py.File(tmp_path / "b") as b:
        for path in first.data:
            assert np.array_equal(a[path][()], b[path][()]), path
        assert a["/provenance"].attrs["host"] != b["/provenance"].attrs["host"]


def test_failed_write_leaves_the_old_file_and_no_part(written, monkeypatch):
    before = written.read_bytes()

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(hdf5, "_attach_coordinates", fail)
    with pytest.raises(OSError, match="No space left"):
        write_result(synthetic.result(), written)
    assert written.read_bytes() == before
    assert [p.name for p in written.parent.iterdir()] == ["out.h5"]


def test_interrupt_during_write_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), whole_file(tmp_path / "x") as temporary:
        temporary.write_text("half")
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


def test_damaged_files_give_one_clean_line(written, tmp_path):
    cut = tmp_path / "cut.h5"
    cut.write_bytes(written.read_bytes()[:3000])
    text = tmp_path / "text.h5"
    text.write_text("not HDF5")
    foreign = tmp_path / "foreign.h5"
    with h5py.File(foreign, "w") as file:
        file["x"] = 1
    for path, expected in (
        (cut, "cannot be read as HDF5"),
        (text, "cannot be read as HDF5"),
        (foreign, "not a cohsim result"),
        (tmp_path / "none.h5", "no such file"),
    ):
        with pytest.raises(InputError) as caught:
            read_result(path)
        assert len(caught.value.problems) == 1 and expected in str(caught.value) and str(path) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_other_schema_and_removed_dataset(written):
    with h5py.File(written, "a") as file:
        file.attrs["schema_version"] = registry.SCHEMA_VERSION + 1
    with pytest.raises(InputError, match="schema"):
        read_result(written)
    with h5py.File(written, "a") as file:
        file.attrs["schema_version"] = registry.SCHEMA_VERSION
        del file["/lines/stats"]
    with pytest.raises(InputError, match="/lines/stats is missing"):
        read_result(written)


def test_every_truncation_is_an_input_error(written, tmp_path):
    whole = written.read_bytes()
    cut = tmp_path / "cut.h5"
    for size in range(0, len(whole) - 1, max(1, len(whole) // 40)):
        cut.write_bytes(whole[:size])
        with pytest.raises(InputError):
            read_result(cut)


def test_undeclared_dataset_and_wrong_kind_are_refused():
    with pytest.raises(KeyError, match="/lines/colour is not declared"):
        Result({"/lines/colour": np.zeros(1, np.int64)})
    with pytest.raises(TypeError, match="/run/seed"):
        Result({"/run/seed": 1.5})
    with pytest.raises(TypeError, match="/threads/iterations"):
        Result({"/threads/iterations": np.zeros((1, 1), np.int64)})


def test_unwritable_outputs(tmp_path):
    for path, expected in ((tmp_path, "is a directory"), (tmp_path / "no" / "x.h5", "does not exist")):
        with pytest.raises(InputError, match=expected):
            check_writable(path, "--output")
    check_writable(tmp_path / "x.h5", "--output")
    assert list(tmp_path.iterdir()) == []


def test_reference_is_current(checkout):
    assert (checkout / "docs" / "results.md").read_text() == markdown(), "python -m cohsim.results.reference > docs/results.md"


def test_declarations_are_sound():
    paths = [d.path for d in registry.all_datasets()]
    assert len(set(paths)) == len(paths)
    for dataset in registry.all_datasets():
        assert dataset.description.endswith("."), dataset.path
        assert set(dataset.axes) <= set(registry.AXES), dataset.path
        assert (dataset.unit == "") == (dataset.kind == "text"), dataset.path
        assert not dataset.path.endswith("_fs") or dataset.unit == "fs", dataset.path
        assert not dataset.path.endswith("_bytes") or dataset.unit == "B", dataset.path
