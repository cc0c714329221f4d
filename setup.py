"""Builds the native core. Everything declarative is in pyproject.toml.

``COHSIM_BUILD`` chooses the flavour: ``release`` (default); ``checked`` (index and division checks on, internal assertions on);
``sanitize`` (address and undefined-behaviour sanitizer). A stamp file remembers flavour, flags and tool versions of each product
of a build in this checkout (the generated C, each extension file); a product whose stamp differs is made again.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import Cython
import numpy
from Cython.Build import cythonize
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
STAMPS = ROOT / ".build-stamp"
GENERATED = "cohsim/_core.c"
DATA = ("machines", "workloads")

# No -march=native and no -ffast-math: a result must not depend on the host. -ffp-contract=off for the same reason: compilers fuse
# a*b+c on some architectures only. -fno-math-errno changes no value.
COMMON = ["-fno-math-errno", "-ffp-contract=off", "-fvisibility=hidden", "-Wno-unused-function"]
FLAVOURS: dict[str, dict[str, list[str]]] = {
    "release": {"compile": ["-O3", "-DCOHSIM_CHECKED=0"], "link": []},
    "checked": {"compile": ["-O1", "-g", "-DCOHSIM_CHECKED=1"], "link": []},
    "sanitize": {
        "compile": [
            "-O1",
            "-g",
            "-DCOHSIM_CHECKED=1",
            "-fsanitize=address,undefined",
            "-fno-sanitize-recover=undefined",
            "-fno-omit-frame-pointer",
        ],
        "link": ["-fsanitize=address,undefined"],
    },
}


def flavour() -> str:
    """The flavour asked for; anything unknown stops the build."""
    name = os.environ.get("COHSIM_BUILD", "release")
    if name not in FLAVOURS:
        sys.exit(f"COHSIM_BUILD: unknown flavour {name!r}; choose one of {', '.join(FLAVOURS)}")
    return name


def directives(name: str) -> dict[str, object]:
    """Cython directives of a flavour."""
    checks = name != "release"
    return {
        "language_level": 3,
        "boundscheck": checks,
        "wraparound": checks,
        "cdivision": not checks,
        "initializedcheck": checks,
        "overflowcheck": False,
    }


def stamp(name: str) -> str:
    """What decides a product besides the sources."""
    return "\n".join(
        [
            name,
            repr(COMMON),
            repr(FLAVOURS[name]),
            repr(directives(name)),
            Cython.__version__,
            numpy.__version__,
            sys.version,
            os.environ.get("CC", ""),
            os.environ.get("CFLAGS", ""),
        ]
    )


def read_stamps() -> dict[str, str]:
    """Product -> stamp of its last build; a damaged file counts as no build."""
    try:
        return dict(json.loads(STAMPS.read_text(encoding="utf-8")))
    except (FileNotFoundError, ValueError):
        return {}


def write_stamp(product: str, text: str | None) -> None:
    """Remember (or, with None, forget) how ``product`` was built."""
    stamps = read_stamps()
    stamps.pop(product, None)
    if text is not None:
        stamps[product] = text
    STAMPS.write_text(json.dumps(stamps, indent=1) + "\n", encoding="utf-8")


def extensions(name: str) -> list[Extension]:
    """The one extension; parts included by _core.pyx are its dependencies."""
    parts = sorted(
        str(p.relative_to(ROOT)) for pattern in ("*.pxi", "*.pxd", "*.h") for p in (ROOT / "cohsim/core").glob(pattern)
    )
    core = Extension(
        "cohsim._core",
        ["cohsim/_core.pyx"],
        include_dirs=[numpy.get_include(), "cohsim/core"],
        depends=parts,
        define_macros=[("NPY_NO_DEPRECATED_API", "NPY_1_7_API_VERSION")],
        extra_compile_args=COMMON + FLAVOURS[name]["compile"],
        extra_link_args=FLAVOURS[name]["link"],
    )
    changed = read_stamps().get(GENERATED) != stamp(name)
    write_stamp(GENERATED, None)  # an interrupted build must not look finished
    made = cythonize([core], compiler_directives=directives(name), force=changed)
    write_stamp(GENERATED, stamp(name))
    return made


class BuildExtension(build_ext):
    """Compiles again when the stamp of the extension file differs."""

    def build_extension(self, ext: Extension) -> None:
        product, wanted = self.get_ext_fullpath(ext.name), stamp(flavour())
        self.force = bool(self.force) or read_stamps().get(product) != wanted
        write_stamp(product, None)
        super().build_extension(ext)
        if Path(product).resolve().is_relative_to(ROOT):  # a temporary directory of pip is gone after this build
            write_stamp(product, wanted)


class BuildPython(build_py):
    """Puts the bundled machines and workloads into the package; an editable install reads them from the checkout."""

    def run(self) -> None:
        super().run()
        if self.editable_mode:
            return
        for folder in DATA:
            target = Path(self.build_lib, "cohsim", "data", folder)
            if target.exists():
                shutil.rmtree(target)  # a file removed from the checkout must not live on in the wheel
            shutil.copytree(ROOT / folder, target, ignore=shutil.ignore_patterns("__pycache__", ".*"))


BUILDING = {"build", "build_ext", "bdist_wheel", "install", "develop", "editable_wheel"}
setup(
    ext_modules=extensions(flavour()) if BUILDING.intersection(sys.argv) else [Extension("cohsim._core", ["cohsim/_core.pyx"])],
    cmdclass={"build_ext": BuildExtension, "build_py": BuildPython},
)
