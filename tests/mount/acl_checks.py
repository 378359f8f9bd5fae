#!/usr/bin/env python3
"""usage: acl_checks.py DIRECTORY [NAME…]

Sets access control lists as root and as other users, and tries what the users may then do. It runs on any file
system with such lists, as root; on ext4 it checks itself. The last line is "N passed, N failed"; the exit
status is 1 if one failed.
"""
import errno
import os
import shutil
import stat
import struct
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import runner  # noqa: E402
from mounted_pool import read, write  # noqa: E402

check = runner.Tests()
TOP = None
ACCESS, DEFAULT = "system.posix_acl_access", "system.posix_acl_default"
OWNER, NAMED, MEMBER, OTHER = 1000, 1001, 1002, 1003  # users, each with a group of the same number
GROUP = 2000
NOBODY = 0xffffffff
TAGS = {"u": (1, 2), "g": (4, 8), "m": (16, 16), "o": (32, 32)}


def list_of(text):
    """The bytes of "u::rwx,u:1001:rw-,g::r-x,m::rw-,o::r--", as the kernel has them."""
    packed = struct.pack("<I", 2)
    for entry in filter(None, text.split(",")):
        kind, name, rights = entry.split(":")
        bits = sum(bit for letter, bit in (("r", 4), ("w", 2), ("x", 1)) if letter in rights)
        packed += struct.pack("<HHI", TAGS[kind][name != ""], bits, int(name) if name else NOBODY)
    return packed


def text_of(packed):
    kinds = {tag: kind for kind, tags in TAGS.items() for tag in tags}
    texts = []
    for tag, bits, number in struct.iter_unpack("<HHI", packed[4:]):
        rights = "".join(letter if bits & bit else "-" for letter, bit in (("r", 4), ("w", 2), ("x", 1)))
        texts.append(f"{kinds[tag]}:{'' if number == NOBODY else number}:{rights}")
    return ",".join(texts)


def shown(path, name=ACCESS):
    """The list of a node as text; empty: it has none."""
    try:
        return text_of(os.getxattr(path, name))
    except OSError as error:
        assert error.errno == errno.ENODATA, error
        return ""


def grant(path, text, name=ACCESS):
    os.setxattr(path, name, list_of(text))


def mode_of(path):
    return stat.S_IMODE(os.lstat(path).st_mode)


def failure(call, *arguments, user=0, groups=(), umask=0o022):
    """The errno with which the call fails for this user; 0: it succeeds."""
    child = os.fork()
    if child == 0:
        status = 255
        try:
            os.umask(umask)
            os.setgroups(groups)
            os.setgid(user)
            os.setuid(user)
            call(*arguments)
            status = 0
        except OSError as error:
            status = error.errno
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def new(name, mode=0o600, owner=OWNER, directory=False):
    path = f"{TOP}/{name}"
    if directory:
        os.mkdir(path)
    else:
        write(path, b"contents")
    os.chown(path, owner, owner)
    os.chmod(path, mode)
    return path


def open_for(path, flags):
    os.close(os.open(path, flags))


def rights(path, user, groups=()):
    """What the user may do with a file, as "rw"."""
    reads = failure(open_for, path, os.O_RDONLY, user=user, groups=groups)
    writes = failure(open_for, path, os.O_WRONLY, user=user, groups=groups)
    assert {reads, writes} <= {0, errno.EACCES}
    return ("" if reads else "r") + ("" if writes else "w")


@check
def list_is_kept_and_shows_in_the_mode():
    path = new("file", 0o644)
    before = os.stat(path)
    assert shown(path) == "" and ACCESS not in os.listxattr(path)
    text = "u::rw-,u:1001:rw-,g::r--,g:2000:---,m::rw-,o::---"
    grant(path, text)
    after = os.stat(path)
    assert shown(path) == text and os.listxattr(path).count(ACCESS) == 1
    assert stat.S_IMODE(after.st_mode) == 0o660
    assert after.st_ctime_ns > before.st_ctime_ns and after.st_mtime_ns == before.st_mtime_ns
    grant(path, "u::rw-,g::r--,o::---")
    assert shown(path) == "" and mode_of(path) == 0o640
    grant(path, text)
    os.removexattr(path, ACCESS)
    assert shown(path) == "" and mode_of(path) == 0o660
    os.removexattr(path, ACCESS)


@check
def what_is_no_list_is_refused():
    path, directory = new("file"), new("directory", directory=True)
    os.symlink("file", f"{TOP}/link")
    for text in ("u::rwx", "u::rwx,u:7:r--,g::r--,o::---", "g::r--,u::rwx,o::---", "u::rwx,g::r--,o::---,m::rwx"):
        assert failure(grant, path, text) == errno.EINVAL, text
        assert failure(grant, directory, text, DEFAULT) == errno.EINVAL, text
    assert failure(os.setxattr, path, ACCESS, b"text") in (errno.EINVAL, errno.EOPNOTSUPP)
    assert failure(grant, path, "u::rwx,g::r--,o::---", DEFAULT) == errno.EACCES

    def grant_link():
        os.setxattr(f"{TOP}/link", ACCESS, list_of("u::rwx,g::r--,o::---"), follow_symlinks=False)
    assert failure(grant_link) == errno.EOPNOTSUPP
    assert shown(path) == "" and mode_of(path) == 0o600


@check
def only_the_owner_sets_a_list():
    path, directory = new("file"), new("directory", directory=True)
    text = "u::rw-,u:1001:rw-,g::r--,m::rw-,o::rw-"
    grant(path, text)
    for user in (NAMED, OTHER):
        assert failure(grant, path, text, user=user) == errno.EPERM
        assert failure(os.removexattr, path, ACCESS, user=user) == errno.EPERM
        assert failure(grant, directory, text, DEFAULT, user=user) == errno.EPERM
    assert failure(grant, path, text.replace("rw-", "r--"), user=OWNER) == 0
    assert failure(grant, directory, text, DEFAULT, user=OWNER) == 0
    assert shown(path) == text.replace("rw-", "r--") and shown(directory, DEFAULT) == text


@check
def users_get_what_the_list_grants():
    path = new("file", 0o640)
    os.chown(path, OWNER, GROUP)
    for text, named, member, other in (
            ("u::rw-,g::r--,o::---", "", "r", ""),
            ("u::rw-,u:1001:rw-,g::r--,m::rw-,o::---", "rw", "r", ""),
            ("u::rw-,u:1001:rw-,g::---,m::r--,o::r--", "r", "", "r"),
            ("u::rw-,u:1001:---,g::rw-,m::rw-,o::rw-", "", "rw", "rw"),
            ("u::---,g::---,g:1001:-w-,m::rwx,o::---", "w", "", ""),
            ("u::---,u:1003:r--,g::---,g:2000:-w-,m::rwx,o::---", "", "w", "r")):
        grant(path, text)
        found = rights(path, NAMED), rights(path, MEMBER, [GROUP]), rights(path, OTHER)
        assert found == (named, member, other), f"{text}: {found}"


@check
def list_of_a_directory_counts():
    directory = new("directory", 0o700, directory=True)
    write(f"{directory}/file", b"x")
    grant(directory, "u::rwx,u:1001:rwx,u:1002:--x,g::---,m::rwx,o::---")
    for user, lists, looks, makes in ((NAMED, 0, 0, 0), (MEMBER, 13, 0, 13), (OTHER, 13, 13, 13)):
        assert failure(os.listdir, directory, user=user) == lists
        assert failure(os.stat, f"{directory}/file", user=user) == looks
        assert failure(write, f"{directory}/new{user}", b"", user=user) == makes
        assert failure(os.rename, f"{directory}/file", f"{directory}/file2", user=user) == makes
        if not makes:
            os.rename(f"{directory}/file2", f"{directory}/file")
    os.chmod(directory, 0o710)
    assert shown(directory) == "u::rwx,u:1001:rwx,u:1002:--x,g::---,m::--x,o::---"
    assert failure(os.listdir, directory, user=NAMED) == errno.EACCES
    assert failure(os.stat, f"{directory}/file", user=NAMED) == 0


@check
def list_of_a_program_counts():
    path = new("program", 0o700)
    shutil.copyfile(shutil.which("true"), path)

    def execute():
        os.execv(path, ["true"])
    for text, expected in (("u::rwx,u:1001:r-x,g::---,m::r-x,o::---", 0), ("u::rwx,u:1001:rw-,g::---,m::rwx,o::--x", 13)):
        grant(path, text)
        assert failure(execute, user=NAMED) == expected, text


@check
def change_counts_at_once():
    path = new("file", 0o600)
    file = os.open(path, os.O_RDONLY)
    for turn in range(10):
        grant(path, "u::rw-,u:1001:rw-,g::---,m::rw-,o::---")
        assert rights(path, NAMED) == "rw", turn
        assert text_of(os.getxattr(file, ACCESS)) == "u::rw-,u:1001:rw-,g::---,m::rw-,o::---"
        os.chmod(path, 0o640)
        assert rights(path, NAMED) == "r", turn
        assert text_of(os.getxattr(file, ACCESS)) == "u::rw-,u:1001:rw-,g::---,m::r--,o::---"
        os.fchmod(file, 0o600)
        assert rights(path, NAMED) == "", turn
        os.removexattr(path, ACCESS)
        os.chmod(path, 0o604)
        assert rights(path, NAMED) == "r", turn
    os.close(file)


@check
def new_nodes_inherit():
    directory = new("directory", 0o755, directory=True)
    text = "u::rwx,u:1001:rwx,g::r-x,m::rwx,o::r-x"
    grant(directory, text, DEFAULT)
    assert shown(directory) == "" and mode_of(directory) == 0o755

    def make():
        os.mkdir(f"{directory}/below", 0o770)
        os.close(os.open(f"{directory}/file", os.O_CREAT | os.O_WRONLY, 0o664))
        os.mkfifo(f"{directory}/fifo", 0o644)
        os.symlink("target", f"{directory}/link")
    assert failure(make, umask=0o077) == 0
    assert mode_of(f"{directory}/below") == 0o770
    assert shown(f"{directory}/below") == "u::rwx,u:1001:rwx,g::r-x,m::rwx,o::---"
    assert shown(f"{directory}/below", DEFAULT) == text
    assert mode_of(f"{directory}/file") == 0o664
    assert shown(f"{directory}/file") == "u::rw-,u:1001:rwx,g::r-x,m::rw-,o::r--"
    assert shown(f"{directory}/file", DEFAULT) == ""
    assert mode_of(f"{directory}/fifo") == 0o644
    write(f"{directory}/below/file", b"x")
    assert rights(f"{directory}/below/file", NAMED) == "rw"
    # A list that says no more than a mode leaves a mode.
    grant(directory, "u::rwx,g::r-x,o::---", DEFAULT)
    write(f"{directory}/plain", b"x")
    assert shown(f"{directory}/plain") == "" and mode_of(f"{directory}/plain") == 0o640


@check
def file_without_a_name_inherits():
    directory = new("directory", 0o755, directory=True)
    grant(directory, "u::rwx,u:1001:rwx,g::r-x,m::rwx,o::r-x", DEFAULT)
    try:
        file = os.open(directory, os.O_TMPFILE | os.O_RDWR, 0o640)
    except OSError as error:
        assert error.errno == errno.EOPNOTSUPP, error
        return
    into = os.open(directory, os.O_PATH)
    os.link(f"/proc/self/fd/{file}", "named", dst_dir_fd=into, follow_symlinks=True)
    os.close(into)
    os.close(file)
    assert shown(f"{directory}/named") == "u::rw-,u:1001:rwx,g::r-x,m::r--,o::---"


@check
def umask_counts_without_a_default_list():
    directory = new("directory", 0o777, directory=True)

    def make():
        os.mkdir(f"{directory}/below", 0o777)
        os.close(os.open(f"{directory}/file", os.O_CREAT | os.O_WRONLY, 0o666))
        os.mkfifo(f"{directory}/fifo", 0o666)
    assert failure(make, user=OTHER, umask=0o027) == 0
    assert [mode_of(f"{directory}/{name}") for name in ("below", "file", "fifo")] == [0o750, 0o640, 0o640]


@check
def list_of_another_groups_file_clears_set_gid():
    path = new("program")
    for user, groups, left in ((OWNER, [], 0), (OWNER, [GROUP], stat.S_ISGID), (0, [], stat.S_ISGID)):
        os.chown(path, OWNER, GROUP)
        os.chmod(path, 0o2755)
        assert failure(grant, path, "u::rwx,u:1001:r-x,g::r-x,m::r-x,o::---", user=user, groups=groups) == 0
        assert mode_of(path) == 0o750 | left, f"{user} {groups}: {mode_of(path):o}"


@check
def copies_and_archives_keep_lists():
    source = new("source", 0o755, directory=True)
    grant(source, "u::rwx,u:1001:rwx,g::r-x,m::rwx,o::---", DEFAULT)
    write(f"{source}/file", b"copied")
    grant(f"{source}/file", "u::rw-,u:1001:r--,g::---,m::r--,o::---")

    def tree(top):
        return [(shown(f"{top}{name}"), shown(f"{top}{name}", DEFAULT), mode_of(f"{top}{name}"))
                for name in ("", "/file")]
    subprocess.run(["cp", "-a", source, f"{TOP}/copy"], check=True)
    assert tree(f"{TOP}/copy") == tree(source)
    subprocess.run(["tar", "--acls", "-C", TOP, "-cf", f"{TOP}/archive", "source"], check=True)
    os.mkdir(f"{TOP}/out")
    subprocess.run(["tar", "--acls", "-C", f"{TOP}/out", "-xf", f"{TOP}/archive"], check=True)
    assert tree(f"{TOP}/out/source") == tree(source)
    assert read(f"{TOP}/out/source/file") == b"copied"
    os.rename(f"{TOP}/copy", f"{TOP}/out/moved")
    os.link(f"{TOP}/out/moved/file", f"{TOP}/linked")
    assert tree(f"{TOP}/out/moved") == tree(source) and shown(f"{TOP}/linked") == shown(f"{source}/file")


@check
def programs_of_the_package_acl_work():
    if shutil.which("setfacl") is None:
        raise runner.NotHere("the package acl is not installed")

    def run(*words):
        return subprocess.run(words, check=True, capture_output=True, text=True, cwd=TOP).stdout
    os.mkdir(f"{TOP}/directory")
    write(f"{TOP}/directory/file", b"x")
    run("setfacl", "-R", "-m", "u:1001:rwX,d:u:1001:rwX,g:2000:r", "directory")
    assert run("getfacl", "-cn", "directory/file") == \
        "user::rw-\nuser:1001:rw-\ngroup::r--\ngroup:2000:r--\nmask::rw-\nother::r--\n\n"
    saved = run("getfacl", "-Rn", "directory")
    run("setfacl", "-Rb", "directory")
    assert shown(f"{TOP}/directory") == shown(f"{TOP}/directory", DEFAULT) == ""
    write(f"{TOP}/saved", saved.encode())
    run("setfacl", "--restore=saved")
    assert run("getfacl", "-Rn", "directory") == saved


def run_in_new_directory(function):
    global TOP
    top = TOP
    TOP = f"{top}/acl"
    os.mkdir(TOP)
    os.chmod(TOP, 0o777)
    try:
        function()
    finally:
        shutil.rmtree(TOP)
        TOP = top


def main():
    global TOP
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    TOP = sys.argv[1]
    os.chmod(TOP, 0o755)
    return check.run(sys.argv[2:], run_in_new_directory)


if __name__ == "__main__":
    os.umask(0o022)
    sys.exit(main())
