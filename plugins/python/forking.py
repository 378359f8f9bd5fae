"""Starts children again and again, each of which writes a file. A child that ends in another way than it should, or a
lost file, is an error.

    forking.py URI MANNER STATE CHILDREN

STATE: what the parent does with the container: `open`, while a thread reads and writes, or `closed`, after use."""
import multiprocessing
import os
import signal
import subprocess
import sys
import threading

import ros2store

STATUS = 7
PATIENCE_SECONDS = 60  # a child that hangs is killed
WORKERS = 4


def work(where, name):
    """`where`: the parent's file system, or a URI."""
    fs = ros2store.open(where) if isinstance(where, str) else where
    with fs.open(name, "wb", 0) as file:
        file.write(name.encode())
    fs.close()


def expect(got, wanted):
    if got != wanted:
        raise AssertionError(f"{got} and not {wanted}")


def end_of(child):
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def sys_exit(where, names):
    for name in names:
        child = os.fork()
        if child == 0:
            signal.alarm(PATIENCE_SECONDS)
            work(where, name)
            sys.exit(STATUS)
        expect(end_of(child), STATUS)


def before_exec(where, names):
    """What a child has open when it starts another program is not closed, so it opens the container itself."""
    uri = where if isinstance(where, str) else where.uri
    for name in names:
        done = subprocess.run(["sh", "-c", f"exit {STATUS}"], preexec_fn=lambda name=name: work(uri, name),
                              timeout=PATIENCE_SECONDS)
        expect(done.returncode, STATUS)


def multiprocessing_by(method):
    def start(where, names):
        context = multiprocessing.get_context(method)
        for name in names:
            child = context.Process(target=work, args=(where, name))
            child.start()
            child.join(PATIENCE_SECONDS)
            expect(child.exitcode, 0)

    return start


def serve(where, name, ready):
    """A worker of a server that forks before it serves: it works until it is told to end."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(STATUS))
    signal.alarm(PATIENCE_SECONDS)
    work(where, name)
    os.write(ready, b".")
    while True:
        signal.pause()


def preforking(where, names):
    for begin in range(0, len(names), WORKERS):
        workers = []
        reading, ready = os.pipe()
        for name in names[begin:begin + WORKERS]:
            workers.append(os.fork())
            if workers[-1] == 0:
                serve(where, name, ready)
        os.close(ready)
        for _ in workers:
            expect(os.read(reading, 1), b".")
        os.close(reading)
        for worker in workers:
            os.kill(worker, signal.SIGTERM)
        for worker in workers:
            expect(end_of(worker), STATUS)


def read_and_write(fs, ended, wrong):
    with fs.open("of the thread", "w+b", 0) as file:
        turn = 0
        while not ended.is_set():
            turn += 1
            file.pwrite(turn.to_bytes(8, "little"), 0)
            if file.pread(8, 0) != turn.to_bytes(8, "little"):
                wrong.append(turn)


MANNERS = {"sys.exit": sys_exit, "exec": before_exec, "fork": multiprocessing_by("fork"),
           "spawn": multiprocessing_by("spawn"), "forkserver": multiprocessing_by("forkserver"), "preforking": preforking}


def main(uri, manner, state, children):
    names = [f"{manner}, {state}, {i}" for i in range(int(children))]
    fs, ended, wrong = ros2store.open(uri), threading.Event(), []
    # Without `with` statements, which children would end, too.
    if state == "open":
        thread = threading.Thread(target=read_and_write, args=(fs, ended, wrong), daemon=True)
        thread.start()
        MANNERS[manner](fs, names)
        ended.set()
        thread.join()
    else:
        fs.exists(names[0])
        fs.close()
        MANNERS[manner](uri, names)
        fs = ros2store.open(uri)
    expect(wrong, [])
    expect(fs.read_many(names), [name.encode() for name in names])
    fs.close()
    print("right", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
