"""Where setuptools puts what it writes on the way; everything else is in pyproject.toml.

By itself it leaves build/ and *.egg-info in the checkout, and ships from build/ the modules that were deleted since then.
"""

from tempfile import TemporaryDirectory

from setuptools import setup

with TemporaryDirectory(prefix="stuntbroker-build.") as folder:
    setup(options={"build": {"build_base": f"{folder}/build"}, "egg_info": {"egg_base": folder}})
