"""The servers that the benchmark can start: Stuntbroker, Stuntbroker compiled, franz-go's kfake, Apache Kafka.

A system is a shell command with the placeholders {port}, {controller_port} and {data}. Its requirements are built or
downloaded to the cache folder on demand; `Unavailable` gives the reason if that is not possible.
"""

import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from zipfile import ZipFile

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
CACHE = Path(os.environ.get("STUNTBROKER_CACHE") or Path.home() / ".cache" / "stuntbroker") / "bench"
JAVA_VERSION_MIN = 17


class Unavailable(Exception):
    """A system, or the measuring client, is not available on this machine."""


@dataclass(frozen=True, slots=True)
class System:
    name: str
    command: str

    def at(self, data: Path) -> tuple[int, str]:
        """Return a free port, and the command that serves the data folder on that port."""
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            second.bind(("127.0.0.1", 0))
            port, controller_port = first.getsockname()[1], second.getsockname()[1]
        names = {"port": port, "controller_port": controller_port, "data": quote(str(data))}
        return port, self.command.format_map(names)


def prepare(name: str, commands: dict[str, str]) -> System:
    """Build or download a system; an entry of `commands` replaces or adds a system. Raises Unavailable."""
    if name in commands:
        return System(name, commands[name])
    try:
        return System(
            name,
            {"us": _us, "compiled": _compiled, "kfake": _kfake, "kfake-disk": _kfake_disk, "kafka": _kafka}[name](),
        )
    except KeyError:
        raise Unavailable(f"no such system; give it with --command {name}='...'") from None


def measuring_client() -> Path:
    return _go_build("client")


def _us() -> str:
    try:
        spec = importlib.util.find_spec("stuntbroker.cli.__main__")
    except ModuleNotFoundError:
        spec = None
    if spec is None:
        raise Unavailable(f"stuntbroker is not installed for {sys.executable}")
    # Compile bytecode as an installation does; otherwise the first start would include it.
    packages = [str(init.parent) for init in ROOT.glob("*/__init__.py")]
    _run([sys.executable, "-m", "compileall", "-q", *packages])
    return (
        f"{quote(sys.executable)} -m stuntbroker.cli serve"
        " --host 127.0.0.1 --port {port} --data-dir {data} --durability process"
    )


def compiled_wheel() -> Path:
    """Build the compiled wheel; return the folder of its contents, which needs the dependencies of the current environment.

    Raises Unavailable.
    """
    built = _run([sys.executable, str(ROOT / "tools" / "build_wheel.py"), "--dist", str(CACHE / "dist")])
    if "(compiled)" not in built:
        raise Unavailable(built.split("\n")[-1])
    (wheel,) = (CACHE / "dist").glob("*.whl")
    folder = CACHE / "compiled"
    shutil.rmtree(folder, ignore_errors=True)
    with ZipFile(wheel) as archive:
        archive.extractall(folder)
    _run([sys.executable, "-m", "compileall", "-q", str(folder)])
    return folder


def _compiled() -> str:
    return (
        f"env PYTHONSAFEPATH=1 PYTHONPATH={quote(str(compiled_wheel()))} {quote(sys.executable)} -m stuntbroker.cli serve"
        " --host 127.0.0.1 --port {port} --data-dir {data} --durability process"
    )


def _kfake() -> str:
    return f"{quote(str(_go_build('kfake')))} {{port}}"


def _kfake_disk() -> str:
    return f"{_kfake()} {{data}}"


def _kafka() -> str:
    home = os.environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else "java"  # The same choice as in serve.sh.
    if shutil.which(java) is None:
        raise Unavailable(
            f"no JDK ({java} is not there)" if home else "no JDK (java is not on the path, JAVA_HOME is not set)"
        )
    settings = _run([java, "-XshowSettings:properties", "-version"])
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", settings)
    if version is None or int(version[1]) < JAVA_VERSION_MIN:
        raise Unavailable(f"the JDK is older than {JAVA_VERSION_MIN}")
    jars = _run([sys.executable, str(ROOT / "tools" / "jars.py")]).split("\n")[-1]
    return f"{quote(str(HERE / 'kafka' / 'serve.sh'))} {quote(jars)} {{port}} {{controller_port}} {{data}}"


def _go_build(module: str) -> Path:
    if shutil.which("go") is None:
        raise Unavailable("no Go tool chain (go is not on the path)")
    CACHE.mkdir(parents=True, exist_ok=True)
    _run(["go", "build", "-buildvcs=false", "-o", str(CACHE / module), "."], cwd=HERE / module)
    return CACHE / module


def _run(command: list[str], cwd: Path = ROOT) -> str:
    """Return the output of a command. Raises Unavailable with the last line of the output if the command fails."""
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    printed = done.stdout.strip()
    if done.returncode != 0:
        last = printed.split("\n")[-1] or f"status {done.returncode}"
        raise Unavailable(f"{Path(command[0]).name} failed: {last}")
    return printed
