#!/usr/bin/env bash
# The tests that become an ordinary user pass in a checkout where only root may go, as below root's home.
# They run in a mount namespace in which the directory above the checkout has mode 0700.
# usage: private_home_test.sh CHECKOUT BUILD_DIR      (root)
set -euo pipefail
if [[ -z ${ROS2STORE_TEST_HOME:-} ]]; then
    ((EUID == 0)) || { echo "needs root for mount namespaces"; exit 77; }
    unshare -m true 2>/dev/null || { echo "no mount namespaces here"; exit 77; }
    [[ -c /dev/fuse ]] || { echo "there is no /dev/fuse on this machine"; exit 77; }
    ROS2STORE_TEST_HOME=$(mktemp -d) exec unshare --mount --propagation private "$0" "$@"
fi
checkout=$(realpath "$1") build=$(realpath "$2") home=$(dirname "$(realpath "$1")")
scratch=$ROS2STORE_TEST_HOME
trap 'rmdir "$scratch"' EXIT
# All other files in that directory are hidden, so neither programs nor test files may be there.
for needed in "$scratch" "$(command -v python3)"; do
    [[ $needed != "${home%/}"/* ]] || { echo "the checkout lies in $home, and so does $needed"; exit 77; }
done
[[ $build == "$checkout"/* ]] || { echo "$build is not in $checkout"; exit 77; }
mount --bind "$checkout" "$scratch"
mount -t tmpfs -o mode=0700,size=1m home "$home"
mkdir "$checkout"
mount --move "$scratch" "$checkout"
if setpriv --reuid=65534 --regid=65534 --clear-groups test -e "$build/bin/ros2store"; then
    echo "$build can be reached by an ordinary user"
    exit 1
fi
cd "$checkout"
python3 -B tests/mount/mount_test.py "$build" an_ordinary_user_mounts other_users_and_permissions \
    set_id_bits_are_kept_and_cleared_as_in_linux:ros2s+local
python3 -B tests/cli/bad_input_test.py "$build/bin" OrdinaryUser
