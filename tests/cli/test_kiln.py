# SPDX-License-Identifier: Apache-2.0
"""The launcher, run with nothing but recorded stand-ins on its PATH."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT

PACKAGES = (
    "python3 python3-venv gcc libc6-dev gcc-arm-none-eabi libnewlib-arm-none-eabi gcc-riscv64-unknown-elf "
    "picolibc-riscv64-unknown-elf qemu-system-arm qemu-system-misc"
)
TOOLS = ("cc", "arm-none-eabi-gcc", "riscv64-unknown-elf-gcc", "qemu-system-arm", "qemu-system-riscv32", "python3")
FOR_TESTS = ("cmake", "make")

# Does what python3 and the compilers do for the launcher, and notes each call.
STAND_IN = """#!/bin/sh
echo "${0##*/} $*" >>"$CALLS"
case "$*" in
*-print-file-name=*) echo "/found/${*#*=}" ;;
*version_info\\[*) echo 3.11 ;;
"-m venv "*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
esac
[ -z "${FAILS-}" ] || case "$*" in *"$FAILS"*) echo "no luck with $FAILS"; exit 1 ;; esac
"""


class Machine:
    """A checkout in a folder with a space in its name, on a machine that holds `tools`."""

    def __init__(self, folder: Path, user: int = 1000) -> None:
        self.root = folder / "my project"
        self.bin = folder / "bin"
        self.calls = folder / "calls"
        self.root.mkdir()
        self.bin.mkdir()
        for name in ("kiln", "requirements.lock", "requirements-dev.lock", "requirements-oracle.lock"):
            shutil.copy(ROOT / name, self.root / name)
        for name in (
            "sh",
            "dirname",
            "readlink",
            "cat",
            "cksum",
            "mkdir",
            "cp",
            "mv",
            "rm",
            "tail",
            "env",
            "true",
            "flock",
            "sleep",
        ):
            (self.bin / name).symlink_to(str(shutil.which(name)))
        self.put("id", f"#!/bin/sh\necho {user}\n")

    def put(self, name: str, script: str = STAND_IN) -> None:
        (self.bin / name).write_text(script)
        (self.bin / name).chmod(0o755)

    def put_all(self, *others: str) -> None:
        for tool in (*TOOLS, *others):
            self.put(tool)

    def kiln(self, *arguments: str, cwd: Path | None = None, fails: str = "") -> tuple[int, str, list[str]]:
        """Exit code, everything printed, and the calls of Python that matter."""
        self.calls.write_text("")
        done = subprocess.run(
            [self.root / "kiln", *arguments],
            cwd=cwd or self.root,
            env={"PATH": str(self.bin), "CALLS": str(self.calls), "FAILS": fails},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=60,
            check=False,
        )
        lines = self.calls.read_text().splitlines()
        return done.returncode, done.stdout, [line for line in lines if " -c " not in line and "-print-" not in line]


def steps(calls: list[str]) -> list[str]:
    """Calls in short: venv, the lock file installed, or the module run."""
    short = []
    for call in calls:
        words = call.split()
        modules = [words[i + 1] for i, word in enumerate(words[:-1]) if word == "-m"]
        short.append(Path(words[-1]).name if "pip" in modules else modules[0] if modules else words[0])
    return short


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_is_valid_posix_shell() -> None:
    assert subprocess.run(["sh", "-n", ROOT / "kiln"], check=False).returncode == 0


def test_without_the_right_to_install_it_prints_the_command(machine: Machine) -> None:
    machine.put("apt-get")
    code, printed, calls = machine.kiln("boards")
    assert code == 2
    assert f"\n    sudo apt-get update && sudo apt-get install -y --no-install-recommends {PACKAGES}\n" in printed
    assert calls == []
    assert not (machine.root / ".venv").exists()


def test_tests_need_more(machine: Machine) -> None:
    machine.put("apt-get")
    machine.put_all()
    code, printed, _ = machine.kiln("test")
    assert code == 2
    assert "--no-install-recommends cmake make\n" in printed
    assert machine.kiln("boards")[0] == 0


def test_only_what_is_missing_is_named(machine: Machine) -> None:
    machine.put("apt-get")
    machine.put_all()
    (machine.bin / "qemu-system-arm").unlink()
    code, printed, _ = machine.kiln()
    assert code == 2
    assert "--no-install-recommends qemu-system-arm\n" in printed


def test_a_compiler_without_its_c_library_is_noticed(machine: Machine) -> None:
    machine.put("apt-get")
    machine.put_all()
    machine.put("arm-none-eabi-gcc", '#!/bin/sh\necho "${1#*=}"\n')
    code, printed, _ = machine.kiln()
    assert code == 2
    assert "--no-install-recommends libnewlib-arm-none-eabi\n" in printed


def test_without_apt_it_says_what_is_needed(machine: Machine) -> None:
    code, printed, _ = machine.kiln()
    assert code == 2
    assert "no apt" in printed
    assert PACKAGES in printed


def test_root_installs_through_apt(tmp_path: Path) -> None:
    machine = Machine(tmp_path, user=0)
    machine.put("tool", STAND_IN)
    copies = "\n".join(f'cp "{machine.bin}/tool" "{machine.bin}/{tool}"' for tool in TOOLS)
    machine.put("apt-get", f'#!/bin/sh\necho "apt-get $*" >>"$CALLS"\n[ "$1" = update ] && exit 100\n{copies}\n')
    code, printed, calls = machine.kiln("boards")
    assert code == 0, printed
    # A failed update of some foreign source does not stop the installation.
    assert calls[0] == "apt-get update"
    assert calls[1].startswith(f"apt-get install -y --no-install-recommends {PACKAGES} ")
    assert steps(calls[2:]) == ["venv", "requirements.lock", "SCons"]


def test_sudo_without_password_installs_too(machine: Machine) -> None:
    machine.put_all()
    machine.put("tool", STAND_IN)
    (machine.bin / "cc").unlink()
    machine.put("apt-get", f'#!/bin/sh\n[ "$1" = update ] || cp "{machine.bin}/tool" "{machine.bin}/cc"\n')
    machine.put("sudo", '#!/bin/sh\necho "sudo $*" >>"$CALLS"\nshift\nexec "$@"\n')
    code, printed, calls = machine.kiln()
    assert code == 0, printed
    assert "sudo -n apt-get update" in calls


def test_a_failed_installation_shows_the_end_of_its_log(tmp_path: Path) -> None:
    machine = Machine(tmp_path, user=0)
    machine.put("apt-get")
    code, printed, _ = machine.kiln(fails="install")
    assert code == 2
    assert "no luck with install" in printed
    assert "could not install packages with apt" in printed


def test_a_python_that_stays_too_old_is_an_error(tmp_path: Path) -> None:
    machine = Machine(tmp_path, user=0)
    machine.put_all()
    machine.put("python3", "#!/bin/sh\nexit 1\n")
    machine.put("apt-get")
    code, printed, _ = machine.kiln()
    assert code == 2
    assert "still missing" in printed
    assert "python3 python3-venv" in printed


def test_a_second_run_goes_straight_to_scons(machine: Machine) -> None:
    machine.put_all()
    code, printed, calls = machine.kiln("board=ch32v", "run")
    assert code == 0, printed
    assert steps(calls) == ["venv", "requirements.lock", "SCons"]
    code, printed, calls = machine.kiln("board=ch32v", "run")
    assert (code, printed, calls) == (0, "", ["python -P -m SCons board=ch32v run"])


@pytest.mark.skipif(shutil.which("flock") is None, reason="flock (util-linux) is not installed")
@pytest.mark.parametrize("arguments", [("boards",), ("test",)])
def test_two_at_once_set_up_once(machine: Machine, arguments: tuple[str, ...]) -> None:
    machine.put_all(*FOR_TESTS)
    machine.put("python3", STAND_IN.replace("#!/bin/sh\n", "#!/bin/sh\ncase $* in *pip*) sleep 1 ;; esac\n"))
    machine.calls.write_text("")
    environment = {"PATH": str(machine.bin), "CALLS": str(machine.calls)}
    command = [str(machine.root / "kiln"), *arguments]
    both = [
        subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for _ in range(2)
    ]
    printed = [one.communicate(timeout=60)[0] for one in both]
    assert [one.returncode for one in both] == [0, 0], printed
    calls = [line for line in machine.calls.read_text().splitlines() if " -c " not in line and "-print-" not in line]
    done = steps(calls)
    assert done.count("requirements.lock") == 1 and done.count("venv") == (2 if arguments == ("test",) else 1), done
    assert done.count("SCons" if arguments == ("boards",) else "pytest") == 2


def test_from_another_folder_scons_is_sent_to_the_project(machine: Machine, tmp_path: Path) -> None:
    machine.put_all()
    _, _, calls = machine.kiln("boards", cwd=tmp_path)
    assert calls[-1] == f"python -P -m SCons -C {machine.root} boards"


def test_by_way_of_a_symbolic_link(machine: Machine, tmp_path: Path) -> None:
    machine.put_all()
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "kiln").symlink_to("../my project/kiln")
    environment = {"PATH": str(machine.bin), "CALLS": str(machine.calls)}
    subprocess.run([tmp_path / "links" / "kiln", "boards"], cwd=tmp_path, env=environment, timeout=60, check=True)
    assert machine.calls.read_text().splitlines()[-1] == f"python -P -m SCons -C {machine.root} boards"


def test_a_changed_lock_file_makes_the_environment_anew(machine: Machine) -> None:
    machine.put_all()
    machine.kiln()
    with (machine.root / "requirements.lock").open("a") as lock:
        lock.write("# changed\n")
    assert steps(machine.kiln()[2]) == ["venv", "requirements.lock", "SCons"]
    assert steps(machine.kiln()[2]) == ["SCons"]


@pytest.mark.parametrize("arguments", [(), ("test",)])
def test_an_interrupted_installation_is_made_anew(machine: Machine, arguments: tuple[str, ...]) -> None:
    machine.put_all(*FOR_TESTS)
    if arguments:
        machine.kiln()
    code, printed, _ = machine.kiln(*arguments, fails="pip install")
    assert code == 2
    assert "no luck with pip install" in printed
    assert steps(machine.kiln()[2]) == ["venv", "requirements.lock", "SCons"]


def test_development_tools_are_added_once(machine: Machine) -> None:
    machine.put_all(*FOR_TESTS)
    machine.kiln()
    code, printed, calls = machine.kiln("test", "-k", "arena")
    assert code == 0, printed
    assert steps(calls) == ["requirements-dev.lock", "venv", "requirements-oracle.lock", "ruff", "mypy", "pytest"]
    assert calls[-1] == "python -m pytest -n 2 -k arena"
    assert steps(machine.kiln("test")[2]) == ["ruff", "mypy", "pytest"]
    assert steps(machine.kiln("boards")[2]) == ["SCons"]


def test_tests_run_without_the_runtimes_that_they_compare_with(machine: Machine) -> None:
    machine.put_all(*FOR_TESTS)
    machine.kiln()
    code, printed, calls = machine.kiln("test", fails="requirements-oracle.lock")
    assert code == 0
    assert "tests that compare with other runtimes are skipped" in printed
    assert steps(calls)[-4:] == ["requirements-oracle.lock", "ruff", "mypy", "pytest"]
    assert not (machine.root / ".venv-oracle").exists()


def test_a_fault_found_by_ruff_still_runs_the_tests_and_fails(machine: Machine) -> None:
    machine.put_all(*FOR_TESTS)
    code, _, calls = machine.kiln("test", fails="ruff check")
    assert code == 1
    assert steps(calls)[-3:] == ["ruff", "mypy", "pytest"]


def test_continuous_integration_runs_the_launcher(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    kiln = tmp_path / "kiln"
    kiln.write_text('#!/bin/sh\necho "kiln $*"\nexit 3\n')
    kiln.chmod(0o755)
    done = subprocess.run([tmp_path / ".ci" / "run"], cwd=os.sep, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (3, "kiln test\n")
