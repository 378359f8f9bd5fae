"""Runs commands, and prints each before it runs, so that a person can type it again."""

import shlex
import subprocess

import console


class Failed(Exception):
    """A command failed; its output is the message."""


def words(arguments):
    return [str(argument) for argument in arguments]


def fio(call):
    """Runs fio, up to five times: fio gives up if a job is not ready after five seconds, which only means
    that the machine is busy."""
    for _ in range(5):
        done = call()
        if "job startup hung" not in (done.stdout or "") + (done.stderr or ""):
            break
    return done


def ends_of(said):
    """Returns the beginning and the end of a long output: fio says what is wrong before its report."""
    return said if len(said) <= 3000 else f"{said[:1000]}\n…\n{said[-2000:]}"


def run(*arguments, quiet=False, check=True, timeout=600, environment=None):
    """Prints and runs a command. Returns its standard output. Raises Failed with the command's output."""
    console.command(arguments)

    def once():
        return subprocess.run(words(arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
                              timeout=timeout, env=environment)

    try:
        done = fio(once) if "fio" in arguments else once()
    except FileNotFoundError as absent:
        raise Failed(f"{absent.filename} is not there: leave --no-build out if it is a program of the build, "
                     "or install its package") from absent
    except subprocess.TimeoutExpired as late:
        raise Failed(f"{shlex.join(words(arguments))}: not done after {late.timeout:.0f} s") from late
    if check and done.returncode != 0:
        raise Failed(f"exit status {done.returncode}\n{ends_of(done.stdout)}")
    if not quiet and done.stdout.strip():
        console.note("\n".join("  " + line for line in done.stdout.strip().splitlines()[-12:]))
    return done.stdout


def shell(line, timeout=600):
    """Runs a line in the shell, for pipelines. Returns its output."""
    console.note(f"$ {line}")
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {line}"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="surrogateescape", check=False, timeout=timeout)
    if done.returncode != 0:
        raise Failed(f"exit status {done.returncode}\n{ends_of(done.stdout)}")
    return done.stdout
