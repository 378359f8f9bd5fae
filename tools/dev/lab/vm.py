"""Runs one guest: QEMU without KVM, the host's root file system, emulated hardware, and a command."""

import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

from lab.kernel import Failure, Unavailable

VIRTIOFSD = Path("/usr/lib/qemu/virtiofsd")
# Programs that the boot of a guest needs, and its suites.
NEEDED = ("qemu-system-x86_64", "busybox", "cpio", "depmod", "modprobe", "rdma", "nvme", "ndctl", "curl",
          VIRTIOFSD)
GUEST = Path(__file__).parent.absolute() / "guest"
MEMORY = "3G"
NVME_BYTES = 2 << 30
# Two small namespaces behind a second controller, which takes 128 KiB at once: of 512 B and of 4 KiB
# blocks. One behind a third controller, whose disk fails: one place cannot be read, another cannot be written.
SMALL_BYTES = 96 << 20
BAD_BYTES = 256 << 20
UNREADABLE, UNWRITABLE = (BAD_BYTES >> 9) // 2, (BAD_BYTES >> 9) // 4 * 3
# Regions of persistent memory are 16 MiB-aligned, after a label of 2 MiB.
PMEM_BYTES = 514 << 20
# Memory that is durable after a request to the hypervisor to flush it.
FLUSHED_BYTES = 128 << 20


def look():
    """Raises Unavailable if this machine lacks what a guest needs."""
    for what in NEEDED:
        if shutil.which(what) is None:
            raise Unavailable(f"there is no {what}: apt-get install the packages of "
                              "tools/packages-lab.txt")


def run(kernel, script, log, seconds, echo=False, more=()):
    """Boots a guest, runs the Bash script `script` (a path) there in the checkout's folder, and returns its
    exit status. Its output goes to the file `log`, and the kernel's messages to .console beside it. With
    `echo` the output also goes to our standard output. Raises Failure if the guest does not boot, or takes more than
    `seconds`. `more`: further words for QEMU."""
    with tempfile.TemporaryDirectory(prefix="ros2store-lab-") as folder:
        folder = Path(folder)
        files = serve_root(folder)
        try:
            return boot(kernel, script, folder, log, seconds, echo, more)
        finally:
            files.terminate()
            files.wait()
            if (folder / "console.log").exists():
                shutil.copy(folder / "console.log", log.with_suffix(".console"))


def serve_root(folder):
    with open(folder / "virtiofsd.log", "wb") as said:
        files = subprocess.Popen([VIRTIOFSD, f"--socket-path={folder}/root.sock", "-o", "source=/",
                                  "-o", "cache=always", "-o", "sandbox=chroot", "-o", "no_writeback"],
                                 stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    give_up = time.monotonic() + 30
    while not (folder / "root.sock").exists():
        if files.poll() is not None or time.monotonic() > give_up:
            files.kill()
            files.wait()
            raise Failure(f"virtiofsd did not start: {(folder / 'virtiofsd.log').read_text()}")
        time.sleep(0.05)
    return files


def wait_until(condition):
    give_up = time.monotonic() + 30
    while not condition():
        if time.monotonic() > give_up:
            raise Failure("a file or socket for the guest did not appear within 30 s")
        time.sleep(0.05)


def boot(kernel, script, folder, log, seconds, echo, more):
    output, status = socket.socketpair(), socket.socketpair()
    command = ["timeout", "-k", "5", str(seconds), "nice", "-n", "5", "qemu-system-x86_64",
               *machine(kernel, script, seconds, folder, output[1].fileno(), status[1].fileno()),
               *more]
    with open(folder / "qemu.log", "wb") as said:
        guest = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                                 pass_fds=(output[1].fileno(), status[1].fileno()))
    output[1].close()
    status[1].close()
    reader = threading.Thread(target=copy_output, args=(output[0], log, echo))
    reader.start()
    try:
        word = read_all(status[0]).strip()
        guest.wait()
    finally:
        if guest.poll() is None:
            guest.terminate()
            guest.wait()
        reader.join()
    if not word.isdigit() and not (folder / "console.log").exists():
        raise Failure(f"QEMU did not start (status {guest.returncode}):\n" + last_lines(folder))
    if not word.isdigit():
        raise Failure(f"the guest ended without an exit status (QEMU: {guest.returncode}, 124 is its "
                      f"limit of {seconds} s); the end of its console, {log.with_suffix('.console')}:\n"
                      + last_lines(folder))
    return int(word)


def machine(kernel, script, seconds, folder, output, status):
    for name, size in (("nvme", NVME_BYTES), ("small", SMALL_BYTES), ("large", SMALL_BYTES),
                       ("bad", BAD_BYTES), ("pmem", PMEM_BYTES), ("flushed", FLUSHED_BYTES)):
        with open(folder / name, "wb") as file:
            file.truncate(size)
    words = {"start": GUEST / "start", "modules": kernel.modules, "checkout": Path.cwd(),
             "command": script, "seconds": seconds}
    # no_timer_check: on a busy machine the first tick may come so late that the kernel panics.
    line = "console=ttyS0 loglevel=4 panic=-1 mitigations=off nokaslr random.trust_cpu=on " \
           "tsc=reliable no_timer_check "
    return [
        "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
        "-accel", "tcg,thread=multi,tb-size=256", "-cpu", "max", "-smp", "2",
        "-m", f"{MEMORY},slots=2,maxmem=8G",
        "-machine", "q35,nvdimm=on,nvdimm-persistence=cpu,memory-backend=memory",
        "-object", f"memory-backend-memfd,id=memory,size={MEMORY},share=on",
        "-kernel", kernel.image, "-initrd", kernel.initramfs,
        "-append", line + " ".join(f"lab.{name}={value}" for name, value in words.items()),
        "-chardev", f"file,id=console,path={folder}/console.log", "-serial", "chardev:console",
        "-device", "virtio-rng-pci", "-device", "virtio-serial-pci",
        "-chardev", f"socket,id=output,fd={output}", "-device",
        "virtserialport,chardev=output,name=lab.output",
        "-chardev", f"socket,id=status,fd={status}", "-device",
        "virtserialport,chardev=status,name=lab.status",
        "-chardev", f"socket,id=root,path={folder}/root.sock",
        "-device", "vhost-user-fs-pci,chardev=root,tag=host,queue-size=1024",
        "-drive", f"file={folder}/nvme,if=none,id=nvme,format=raw,cache=unsafe,discard=unmap",
        "-device", "nvme,serial=lab0,drive=nvme",
        *more_namespaces(folder),
        "-object",
        f"memory-backend-file,id=pmem,share=on,mem-path={folder}/pmem,size={PMEM_BYTES}",
        "-device", "nvdimm,id=nvdimm,memdev=pmem,label-size=2M",
        "-object",
        f"memory-backend-file,id=flushed,share=on,mem-path={folder}/flushed,size={FLUSHED_BYTES}",
        "-device", "virtio-pmem-pci,memdev=flushed,id=flushed"]


def more_namespaces(folder):
    file = "if=none,format=raw,cache=unsafe,discard=unmap"
    errors = [f"inject-error.{number}.{word}" for number, (kind, sector) in
              enumerate((("read", UNREADABLE), ("write", UNWRITABLE)))
              for word in ("event=none", f"iotype={kind}", f"sector={sector}", "errno=5")]
    return [
        "-device", "nvme,id=second,serial=lab1,mdts=5",
        "-drive", f"file={folder}/small,id=small,{file}",
        "-device", "nvme-ns,drive=small,bus=second,nsid=1",
        "-drive", f"file={folder}/large,id=large,{file}",
        "-device", "nvme-ns,drive=large,bus=second,nsid=2,logical_block_size=4096,"
                   "physical_block_size=4096",
        "-blockdev", ",".join(["driver=blkdebug,node-name=bad", "image.driver=file",
                               f"image.filename={folder}/bad", *errors]),
        "-device", "nvme,id=third,serial=lab2", "-device", "nvme-ns,drive=bad,bus=third,nsid=1"]


def copy_output(stream, log, echo):
    with open(log, "wb", buffering=0) as file:  # so that one can follow it
        while piece := stream.recv(1 << 16):
            file.write(piece)
            if echo:
                os.write(1, piece)
    stream.close()


def read_all(stream):
    """Reads until the other end is closed, or a whole line."""
    text = b""
    while not text.endswith(b"\n") and (piece := stream.recv(64)):
        text += piece
    stream.close()
    return text.decode("ascii", "replace")


def last_lines(folder):
    text = ""
    for name in ("console.log", "qemu.log"):
        if (folder / name).exists():
            text += (folder / name).read_text(encoding="utf-8", errors="replace")
    return "\n".join(text.splitlines()[-60:])
