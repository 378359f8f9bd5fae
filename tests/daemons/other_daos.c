/* A libdfs.so of another interface: the one of plugins/daos, with another version. */
int daos_version_get(int* major, int* minor, int* fix) {
    *major = 2;
    *minor = 9;
    *fix = 1;
    return 0;
}
