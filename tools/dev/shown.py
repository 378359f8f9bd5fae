"""Runs commands that a person could retype: each is printed before it runs."""

import shlex
import subprocess

import console


class Failed(Exception):
    """A command failed; its output is the message."""


def words(arguments):
    return [str(argument) for argument in arguments]


def fio(call):
    """fio gives up on a job that is not ready after five seconds, which only means that the machine
    is busy: it is tried again."""
    for _ in range(5):
        done = call()
        if "job startup hung" not in (done.stdout or "") + (done.stderr or ""):
            break
    return done


def run(*arguments, quiet=False, check=True, timeout=600, environment=None):
    """Prints and runs; returns standard output. Errors: Failed, with what the command said."""
    console.command(arguments)

    def once():
        return subprocess.run(words(arguments), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
                              timeout=timeout, env=environment)

    try:
        done = fio(once) if arguments[0] == "fio" else once()
    except subprocess.TimeoutExpired as late:
        raise Failed(f"{shlex.join(words(arguments))}: not done after {late.timeout:.0f} s") from late
    if check and done.returncode != 0:
        raise Failed(f"exit status {done.returncode}\n{done.stdout[-3000:]}")
    if not quiet and done.stdout.strip():
        console.note("\n".join("  " + line for line in done.stdout.strip().splitlines()[-12:]))
    return done.stdout


def shell(line, timeout=600):
    """A line for the shell, for pipelines; only its first lines are shown."""
    console.note(f"$ {line}")
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {line}"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="surrogateescape", check=False, timeout=timeout)
    if done.returncode != 0:
        raise Failed(f"exit status {done.returncode}\n{done.stdout[-3000:]}")
    return done.stdout
