"""Tries the package in a fresh Debian 12: installs it as a user would, and starts its programs."""

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import console

RELEASE = "bookworm"
PYTHON = "the Python package writes and reads a file"
# Each command must succeed in the chroot, which has no file of the build.
USES = (
    ("the package installs", "apt-get install -q -y --no-install-recommends /ros2store.deb"),
    ("ros2store starts", "ros2store --version"),
    ("ros2store-fuse starts", "ros2store-fuse --version"),
    ("ros2store plan finds its costs", "ros2store plan --gpus 8 --rate 100 --sample 1MiB"),
    ("the UCX that is loaded is the package's",
     "ros2store doctor / | tee /log | grep -E '^ok +UCX +.* of /usr/lib/ros2store/libucp' || "
     "{ cat /log; false; }"),
    ("a pool takes a tree and gives it back", """
        ros2store up --no-daemons /srv/p --size 256MiB
        ros2store cp -r /etc/apt 'ros2s+local:///pool/main/apt?dir=/srv/p'
        ros2store cp -r 'ros2s+local:///pool/main/apt?dir=/srv/p' /back
        diff -r /etc/apt /back
        ros2store down /srv/p"""),
    (PYTHON, """
        apt-get install -q -y --no-install-recommends python3
        ros2store up --no-daemons /srv/q --size 128MiB
        python3 -c '
import importlib.metadata, ros2store
with ros2store.open("ros2s+local:///pool/main?dir=/srv/q") as fs:
    fs.path("a").write_text("text")
    assert fs.read_many(["a"]) == [b"text"]
assert importlib.metadata.version("ros2store") == ros2store.__version__'
        ros2store down /srv/q"""),
    ("ros2store-engine serves a pool, and drains", """
        ros2store certs init /authority-storage >/dev/null
        ros2store certs init /authority-hosts >/dev/null
        ros2store certs issue /authority-storage dpu-1 >/dev/null
        ros2store certs issue /authority-hosts host-1 >/dev/null
        give() { cp $1/ca.crt $4; cp $1/$2.crt $4/$3.crt; cp $1/$2.key $4/$3.key; }
        give /authority-storage server server /etc/ros2store/engine
        give /authority-storage dpu-1 client /etc/ros2store/dpu/storage
        give /authority-hosts server server /etc/ros2store/dpu/hosts
        cp /authority-hosts/ca.crt /etc/ros2store/engine/hosts-ca.crt
        mkdir /etc/ros2store/certs
        give /authority-hosts host-1 client /etc/ros2store/certs
        ros2store up --no-daemons /var/lib/ros2store/pool --size 128MiB >/dev/null
        mkdir -p /run/ros2store/engine /run/ros2store/dpu
        echo 'administrators: CN=client' >>/etc/ros2store/engine.yaml
        echo 'capabilities: {delegates: CN=dpu-1, authority: /etc/ros2store/engine/hosts-ca.crt}' >>/etc/ros2store/engine.yaml
        ros2store-engine --config /etc/ros2store/engine.yaml 2>/log &
        for i in $(seq 600); do grep -q "info: ready" /log && break; sleep 0.1; done
        cat /log
        grep -q "data plane: shm at /run/ros2store/engine/data.sock" /log
        ! grep -q warning /log
        kill -TERM $!
        wait $!"""),
    ("ros2store-dpu serves a host by the settings in /etc, and drains", """
        trap 'kill -9 $(jobs -p) 2>/dev/null || true' EXIT
        begin() {
            $1 --config /etc/ros2store/${1#ros2store-}.yaml 2>/$1.log &
            for i in $(seq 600); do grep -q "info: ready" /$1.log && return; sleep 0.1; done
            cat /$1.log; false; }
        echo 'metrics: {listen: "127.0.0.1:7509", password_file: /password}' >>/etc/ros2store/dpu.yaml
        begin ros2store-engine; engine=$!
        begin ros2store-dpu; dpu=$!
        cat /ros2store-dpu.log
        ros2store tenant create ros2s://127.0.0.1/pool/main host-1 --certs /authority-storage --subject CN=host-1 \\
            --write '*' --root-squash no
        for i in $(seq 100); do ros2store ls ros2s+dpu://127.0.0.1/pool/main && break; sleep 0.1; done
        ros2store doctor ros2s+dpu://127.0.0.1/pool/main
        cp -r /etc/apt /tree; echo hello >/tree/a
        ros2store cp -r /tree ros2s+dpu://127.0.0.1/pool/main/tree
        ros2store cp -r ros2s+dpu://127.0.0.1/pool/main/tree /from-dpu
        diff -r /tree /from-dpu
        ros2store why ros2s+dpu://127.0.0.1/pool/main/tree/a | tee /why
        grep -q "host link over shm .*, shm to its engine" /why
        exec 3<>/dev/tcp/127.0.0.1/7509
        basic=$(printf 'any:%s' "$(cat /password)" | base64 -w0)
        printf 'GET /metrics HTTP/1.0\\r\\nAuthorization: Basic %s\\r\\n\\r\\n' "$basic" >&3
        grep -q '^ros2store_link_written_bytes_total' <&3
        kill -TERM $dpu; wait $dpu
        kill -TERM $engine; wait $engine"""),
    ("their units are sound, and their user is made", """
        apt-get install -q -y --no-install-recommends systemd
        dpkg-reconfigure ros2store
        getent passwd ros2store-engine ros2store-dpu
        test "$(stat -c %U%a /etc/ros2store/engine)" = ros2store-engine700
        test "$(stat -c %U%a /etc/ros2store/dpu/hosts)" = ros2store-dpu700
        systemd-analyze verify /usr/lib/systemd/system/ros2store-{engine,dpu}.service"""),
    ("a C program links with libros2store", """
        apt-get install -q -y --no-install-recommends gcc libc6-dev pkg-config
        printf '#include <ros2store/ros2store.h>\\nint main(void) { return 0; }\\n' >/a.c
        gcc /a.c -o /a $(pkg-config --cflags --libs ros2store)
        /a"""),
    ("the package goes without a trace", """
        apt-get purge -q -y ros2store
        ! ls -d /usr/lib/ros2store /usr/lib/python3/dist-packages/ros2store* /usr/share/doc/ros2store \\
            /usr/bin/ros2store* 2>/dev/null"""),
)
# These read a local tree with openat2, which qemu-user lacks. The package for arm64 has no Python package.
NOT_UNDER_QEMU = (PYTHON, "a pool takes a tree and gives it back",
                  "ros2store-dpu serves a host by the settings in /etc, and drains")


def install_and_start(package, tally, architecture=None):
    """Installs the package in a chroot and starts its programs. `architecture`: another one than the
    machine's, whose programs qemu-user runs."""
    if os.geteuid() != 0:
        tally.add("a chroot needs root: sudo ./dev package --try", False)
        return
    if architecture and not Path("/proc/sys/fs/binfmt_misc/qemu-aarch64").exists():
        tally.add("the kernel must start arm64 programs by qemu: apt-get install qemu-user-static "
                  "binfmt-support, and mount binfmt_misc", False)
        return
    with tempfile.TemporaryDirectory(prefix="ros2store-chroot-") as folder:
        os.chmod(folder, 0o755)
        root = Path(folder) / "root"
        console.step(f"a fresh {RELEASE} for the package")
        foreign = [f"--arch={architecture}"] if architecture else []
        made = subprocess.run(["debootstrap", *foreign, "--variant=minbase", RELEASE, root,
                               mirror()],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if not tally.add("debootstrap", made.returncode == 0):
            print((made.stdout + made.stderr)[-2000:])
            return
        borrow_apt(root)
        shutil.copy(package, root / "ros2store.deb")
        for name, script in USES:
            if architecture and name in NOT_UNDER_QEMU:
                continue
            if not tally.add(name, *inside(root, script)):
                return


def inside(root, script):
    # Its own mount namespace: the mounts end with it. UCX finds devices in /sys.
    command = (f'mount -t proc proc "{root}/proc" && mount --rbind /sys "{root}/sys" && '
               f'exec chroot "{root}" /bin/bash -euc "$1"')
    done = subprocess.run(["unshare", "-m", "--propagation", "private", "bash", "-c", command, "_",
                           script], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          check=False, env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/",
                                            "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"})
    if done.returncode != 0:
        print((done.stdout + done.stderr)[-3000:])
    return (done.returncode == 0,)


def borrow_apt(root):
    """Copies the machine's access to its packages: sources, keys, proxies, names."""
    for name in ("etc/apt", "etc/resolv.conf", "etc/hosts", "usr/share/keyrings"):
        there = root / name
        source = Path("/") / name
        if source.is_dir():
            shutil.copytree(source, there, dirs_exist_ok=True)
        elif source.exists():
            shutil.copy(source, there)
    inside(root, "apt-get update -q")


def mirror():
    """Returns where this machine's Debian packages come from."""
    said = subprocess.run(["apt-get", "indextargets", "--format", "$(SITE) $(RELEASE)"],
                          capture_output=True, text=True, check=True).stdout
    for site, release in re.findall(r"^(\S+) (\S+)$", said, re.MULTILINE):
        if release == RELEASE:
            return site
    return re.findall(r"^(\S+) ", said, re.MULTILINE)[0]
