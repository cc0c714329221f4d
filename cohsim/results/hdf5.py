"""Result <-> HDF5. The file is readable without cohsim: every dataset says its unit, axes and meaning."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np

import cohsim
from cohsim.errors import InputError, Problem
from cohsim.results import registry
from cohsim.results.atomic import whole_file
from cohsim.results.result import Result, Value

FORMAT = "cohsim-result"


def write_result(result: Result, path: Path) -> None:
    """Write ``result`` to ``path``, whole or not at all. Raises OSError if the disk refuses."""
    with whole_file(path) as temporary, h5py.File(temporary, "w", track_order=True) as file:
        file.attrs["format"] = FORMAT
        file.attrs["schema_version"] = registry.SCHEMA_VERSION
        file.attrs["cohsim_version"] = cohsim.__version__
        for name, value in result.data.items():
            _write(file, name, value)
        for key, host_value in result.host.items():
            file["/provenance"].attrs[key] = host_value
        _attach_coordinates(file, result)


def _write(file: h5py.File, path: str, value: Value) -> None:
    declared = registry.declaration(path)
    packed = (
        {"compression": "gzip", "compression_opts": 4, "shuffle": True} if isinstance(value, np.ndarray) and value.size else {}
    )
    if declared.kind == "text":
        dataset = file.create_dataset(
            path,
            data=value,
            shape=None if isinstance(value, str) else (len(value),),  # type: ignore[arg-type]
            dtype=h5py.string_dtype(),
        )
    else:
        dataset = file.create_dataset(path, data=value, dtype="i8" if declared.kind == "int" else "f8", **packed)
    dataset.attrs["unit"] = declared.unit
    dataset.attrs["description"] = declared.description
    dataset.attrs["axes"] = list(declared.axes) if declared.axes else h5py.Empty(h5py.string_dtype())
    for dimension, axis in zip(dataset.dims, declared.axes, strict=True):
        dimension.label = axis


def _attach_coordinates(file: h5py.File, result: Result) -> None:
    """Make the dataset that names an axis an HDF5 dimension scale of it: xarray and pandas then label rows by themselves."""
    for name, axis in registry.AXES.items():
        if axis.coordinates is None or axis.coordinates not in file:
            continue
        scale = file[axis.coordinates]
        scale.make_scale(name)
        for path in result.data:
            for position, used in enumerate(registry.declaration(path).axes):
                if used == name and path != axis.coordinates:
                    file[path].dims[position].attach_scale(scale)


def read_result(path: Path) -> Result:
    """Read a result file. Raises InputError if it is missing, cut short, not a cohsim result, or of another schema version."""
    try:
        with h5py.File(path, "r") as file:
            _check_format(file, path)
            data = {name: _read(file, name) for name in _dataset_names(file)}
            host = {key: _plain(value) for key, value in file["/provenance"].attrs.items()}
        missing = [d.path for d in registry.DATASETS if "{" not in d.path and not d.optional and d.path not in data]
        if missing:
            raise InputError(
                Problem(str(path), f"dataset {missing[0]} is missing", "the file was changed; run the simulation again")
            )
        return Result(data, host)
    except FileNotFoundError as error:
        raise InputError(Problem(str(path), "no such file", "name a result written by cohsim run -o")) from error
    except (OSError, RuntimeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            Problem(
                str(path),
                f"cannot be read as HDF5 ({reason})",
                "it may be cut short or not be a result; run the simulation again",
            )
        ) from error
    except (KeyError, TypeError) as error:
        raise InputError(
            Problem(str(path), f"does not follow the result schema ({error})", "the file was changed; run again")
        ) from error


def _check_format(file: h5py.File, path: Path) -> None:
    if file.attrs.get("format") != FORMAT:
        raise InputError(Problem(str(path), "is an HDF5 file but not a cohsim result", "name a result written by cohsim run -o"))
    found = int(file.attrs["schema_version"])
    if found != registry.SCHEMA_VERSION:
        raise InputError(
            Problem(
                str(path),
                f"has result schema {found}, this cohsim reads {registry.SCHEMA_VERSION}",
                f"run again, or read it with cohsim {file.attrs.get('cohsim_version')}",
            )
        )


def _dataset_names(file: h5py.File) -> list[str]:
    names: list[str] = []

    def visit(name: str, item: h5py.HLObject) -> None:
        if isinstance(item, h5py.Dataset):
            names.append("/" + name)

    file.visititems(visit)
    return names


def _read(file: h5py.File, path: str) -> Value:
    declared, dataset = registry.declaration(path), file[path]
    if declared.kind == "text":
        return dataset.asstr()[()] if not declared.axes else dataset.asstr()[:].tolist()
    value = dataset[()]
    if declared.axes:
        return np.asarray(value)
    return int(value) if declared.kind == "int" else float(value)


def _plain(value: object) -> str | int | float:
    """An attribute as the Python value it was written from."""
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, np.floating):
        return float(value)
    return str(value)
