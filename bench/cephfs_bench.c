/* cephfs_bench.c: what libcephfs does, with its cache off, for `./dev bench scale`, which compiles
 * it.
 *
 *     cephfs_bench CONF names THREADS SECONDS
 *     cephfs_bench CONF fill|randread|randwrite|read|write BYTES THREADS SECONDS MIB
 *
 * names: each thread creates files in a directory of its own for SECONDS, then stats, then renames
 * them, as name_bench does. The others: each thread has one request of BYTES in flight on one file
 * of MIB. Prints, for each operation: its name, how many were done in how many seconds, and the
 * median and the 99th percentile of their times in µs.
 */
#include <cephfs/libcephfs.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS_MAX = 256, TIMES_MAX = 1 << 16, PATH_BYTES = 128 };
enum { CREATE, STAT, RENAME, NAMES };
static const char* const names[NAMES] = {"create", "stat", "rename"};

static struct ceph_mount_info* mount_info;
static const char* kind;
static double seconds;
static long bytes, blocks;
static int file;
static int is_write, is_random;
static long next_block; /* of sequential requests */
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t together;

struct worker {
    pthread_t thread;
    unsigned number;
    unsigned long made;
    unsigned long done[NAMES];
    double began[NAMES], ended[NAMES];
    float times[NAMES][TIMES_MAX];
};

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void check(int rc, const char* what) {
    if (rc >= 0) return;
    fprintf(stderr, "cephfs_bench: %s: %s\n", what, strerror(-rc));
    exit(1);
}

static void name_of(const struct worker* worker, unsigned long number, unsigned long renames,
                    char* path) {
    snprintf(path, PATH_BYTES, "/names/t%u/%s%lu", worker->number, renames % 2 ? "r" : "", number);
}

static void one_name(struct worker* worker, int operation, unsigned long at) {
    char path[PATH_BYTES], to[PATH_BYTES];
    struct ceph_statx st;
    const unsigned long renames = operation == RENAME ? at / worker->made : 0;
    const unsigned long number = operation == CREATE ? at : at % worker->made;
    name_of(worker, number, renames, path);
    if (operation == CREATE) {
        const int made = ceph_open(mount_info, path, O_RDWR | O_CREAT | O_EXCL, 0644);
        check(made, "create");
        check(ceph_close(mount_info, made), "close");
    } else if (operation == STAT) {
        check(ceph_statx(mount_info, path, &st, CEPH_STATX_BASIC_STATS, 0), "stat");
    } else {
        name_of(worker, number, renames + 1, to);
        check(ceph_rename(mount_info, path, to), "rename");
    }
}

static void one_request(char* memory, unsigned* seed) {
    long block;
    if (is_random) {
        block = rand_r(seed) % blocks;
    } else {
        pthread_mutex_lock(&turn);
        block = next_block++ % blocks;
        pthread_mutex_unlock(&turn);
    }
    const int rc = is_write ? ceph_write(mount_info, file, memory, bytes, block * bytes)
                            : ceph_read(mount_info, file, memory, bytes, block * bytes);
    check(rc, kind);
    if (rc != bytes) check(-5, "short");
}

static void* work(void* argument) {
    struct worker* const worker = argument;
    const int operations = file < 0 ? NAMES : 1;
    char* const memory = file < 0 ? NULL : malloc((size_t)bytes);
    unsigned seed = worker->number + 1;
    if (memory != NULL) memset(memory, (int)worker->number + 1, (size_t)bytes);
    for (int operation = 0; operation < operations; ++operation) {
        pthread_barrier_wait(&together);
        const double start = worker->began[operation] = now();
        unsigned long at = 0;
        for (double before = start; before - start < seconds; ++at) {
            if (file < 0) {
                one_name(worker, operation, at);
            } else {
                one_request(memory, &seed);
            }
            const double after = now();
            if (at < TIMES_MAX) worker->times[operation][at] = (float)((after - before) * 1e6);
            before = after;
        }
        if (operation == CREATE) worker->made = at;
        worker->done[operation] = at;
        worker->ended[operation] = now();
    }
    free(memory);
    return NULL;
}

static int compare(const void* left, const void* right) {
    const float a = *(const float*)left, b = *(const float*)right;
    return (a > b) - (a < b);
}

static void print(const struct worker* workers, unsigned count, int operation, const char* name) {
    unsigned long done = 0, known = 0;
    double began = workers[0].began[operation], ended = 0;
    float* const times = malloc(sizeof(float) * TIMES_MAX * count);
    for (unsigned i = 0; i < count; ++i) {
        const unsigned long own = workers[i].done[operation];
        const unsigned long kept = own < TIMES_MAX ? own : TIMES_MAX;
        memcpy(times + known, workers[i].times[operation], sizeof(float) * kept);
        known += kept;
        done += own;
        if (workers[i].began[operation] < began) began = workers[i].began[operation];
        if (workers[i].ended[operation] > ended) ended = workers[i].ended[operation];
    }
    qsort(times, known, sizeof(float), compare);
    printf("%s %lu %.6f %.1f %.1f\n", name, done, ended - began, (double)times[known / 2],
           (double)times[known * 99 / 100]);
    free(times);
}

static void fill(long mib) {
    char* const memory = malloc(1 << 20);
    memset(memory, 1, 1 << 20);
    for (long i = 0; i < mib; ++i)
        check(ceph_write(mount_info, file, memory, 1 << 20, i << 20), "fill");
    check(ceph_fsync(mount_info, file, 0), "fsync");
    free(memory);
}

int main(int count, char** arguments) {
    if (count != 5 && count != 7) {
        fprintf(
            stderr,
            "usage: cephfs_bench CONF names THREADS SECONDS | KIND BYTES THREADS SECONDS MIB\n");
        return 2;
    }
    kind = arguments[2];
    const int is_names = strcmp(kind, "names") == 0;
    const unsigned threads = (unsigned)atoi(arguments[is_names ? 3 : 4]);
    seconds = atof(arguments[is_names ? 4 : 5]);
    if (threads < 1 || threads > THREADS_MAX) return 2;
    check(ceph_create(&mount_info, "admin"), "create");
    check(ceph_conf_read_file(mount_info, arguments[1]), "configuration");
    check(ceph_conf_set(mount_info, "client_oc", "false"), "client_oc");
    check(ceph_mount(mount_info, "/"), "mount");
    file = -1;
    if (!is_names) {
        const long mib = atol(arguments[6]);
        bytes = atol(arguments[3]);
        blocks = mib * (1 << 20) / bytes;
        is_write = strstr(kind, "write") != NULL;
        is_random = strncmp(kind, "rand", 4) == 0;
        file = ceph_open(mount_info, "/figures", O_RDWR | O_CREAT, 0644);
        check(file, "open");
        if (strcmp(kind, "fill") == 0) {
            fill(mib);
            return ceph_unmount(mount_info);
        }
    }
    struct worker* const workers = calloc(threads, sizeof *workers);
    pthread_barrier_init(&together, NULL, threads);
    for (unsigned i = 0; i < threads; ++i) {
        workers[i].number = (unsigned)(now() * 1000) * THREADS_MAX + i; /* new directories */
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "/names/t%u", workers[i].number);
        if (is_names) check(ceph_mkdirs(mount_info, path, 0755), "mkdir");
    }
    for (unsigned i = 0; i < threads; ++i)
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    for (unsigned i = 0; i < threads; ++i) pthread_join(workers[i].thread, NULL);
    for (int i = 0; i < (is_names ? NAMES : 1); ++i)
        print(workers, threads, i, is_names ? names[i] : kind);
    free(workers);
    if (file >= 0) check(ceph_close(mount_info, file), "close");
    return ceph_unmount(mount_info);
}
