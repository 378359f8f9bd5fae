# Takes down the link between DPU and storage server in mid-transfer.
source tools/dev/lab/guest/network
source tools/dev/lab/guest/cut_link
cut_link() {
    ip -n dpu link set to-storage down
}
mend_link() {
    ip -n dpu link set to-storage up
}
# The DPU's own files, in another session over the same listener.
unaffected() {
    local copy=$place/own/during-the-cut
    rm -rf $copy
    timeout 60 "$@" ros2store cp -r /usr/include/fmt "$(offload "own/main/${copy##*/}")" &&
        diff -r /usr/include/fmt $copy
}
check "the cable between DPU and storage drawn for 5 s: nothing is lost, and who does not need it is served" across_a_cut 5 goes-on "$(offload pool/main/cut-5)" ip netns exec host
check "and for 40 s" across_a_cut 40 may-end "$(offload pool/main/cut-40)" ip netns exec host
check "and a tree through the DPU afterwards" there_and_back
