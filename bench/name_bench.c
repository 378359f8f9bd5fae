/* name_bench.c: creations, stats, opens and unlinks per second, in a container or in a directory.
 *
 *     name_bench URI THREADS SECONDS [OPERATION]
 *     name_bench DIRECTORY THREADS SECONDS [fsync] [OPERATION]
 *
 * Each thread has a directory of its own. It creates files for SECONDS, then stats, opens and
 * renames them, SECONDS each, then unlinks as many as it can in SECONDS. Renames stay in the
 * directory. Creations, renames and unlinks in a container are durable when they return. With
 * fsync, those in a directory are too: the file and its directory are synced. With an OPERATION
 * (create, stat, open, rename or unlink) only that one follows the creations: of 4 files per
 * thread, or for SECONDS before unlinks. Prints, for each operation: its name, how many were done
 * in how many seconds, and the median and the 99th percentile of their times in µs.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "names_in.h"

enum { THREADS_MAX = 256, TIMES_MAX = 1 << 16, PATH_MAX_BYTES = 4096 };
static const char* const names[OPERATIONS] = {"create", "stat", "open", "rename", "unlink"};

static int in_container;   /* 0: in a directory of the machine */
static const char* parent; /* the directory; "" in a container */
static int synced;
static double seconds;
static int only = OPERATIONS;                   /* the operation that is measured; else: all */
static unsigned long creations_max = ULONG_MAX; /* of each thread */
static pthread_barrier_t together;

struct worker {
    pthread_t thread;
    unsigned number;
    int directory; /* open, to be synced; in a directory only */
    unsigned long made;
    unsigned long done[OPERATIONS];
    double began[OPERATIONS], ended[OPERATIONS];
    float times[OPERATIONS][TIMES_MAX]; /* µs, of the first ones */
};

static int is_done(enum operation operation) {
    return operation == CREATE || only == OPERATIONS || (int)operation == only;
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void fail(const char* what, const char* path, int result) {
    fprintf(stderr, "name_bench: %s %s: %s\n", what, path,
            in_container ? names_why(result) : strerror(errno));
    exit(1);
}

static int in_directory(const struct worker* worker, enum operation operation, const char* path,
                        const char* to) {
    struct stat st;
    if (operation == STAT) return stat(path, &st);
    if (operation == UNLINK || operation == RENAME) {
        if ((operation == UNLINK ? unlink(path) : rename(path, to)) < 0) return -1;
        return synced ? fsync(worker->directory) : 0;
    }
    const int file = open(path, operation == CREATE ? O_RDWR | O_CREAT | O_EXCL : O_RDONLY, 0644);
    if (file < 0) return -1;
    const int sync = synced && operation == CREATE;
    if (sync && (fsync(file) < 0 || fsync(worker->directory) < 0)) return -1;
    return close(file);
}

/* Renames the files in turn, again and again. */
static void name_of(const struct worker* worker, unsigned long number, unsigned long renames,
                    char* path) {
    snprintf(path, PATH_MAX_BYTES, "%s/t%u/%s%lu", parent, worker->number, renames % 2 ? "r" : "",
             number);
}

static void one(struct worker* worker, enum operation operation, unsigned long number) {
    char path[PATH_MAX_BYTES], to[PATH_MAX_BYTES] = "";
    const unsigned long all = worker->done[RENAME];
    unsigned long renames = 0;
    if (operation >= RENAME) renames = all / worker->made + (number < all % worker->made);
    name_of(worker, number, renames, path);
    if (operation == RENAME) name_of(worker, number, renames + 1, to);
    const double start = now();
    const int rc = in_container ? names_do(operation, path + 1, to + 1)
                                : in_directory(worker, operation, path, to);
    if (rc < 0) fail(names[operation], path, rc);
    const unsigned long done = worker->done[operation]++;
    if (done < TIMES_MAX) worker->times[operation][done] = (float)((now() - start) * 1e6);
}

static void* work(void* argument) {
    struct worker* const worker = argument;
    for (enum operation operation = CREATE; operation < OPERATIONS; ++operation) {
        if (!is_done(operation)) continue;
        pthread_barrier_wait(&together);
        const double start = worker->began[operation] = now();
        unsigned long at = 0;
        for (; now() - start < seconds; ++at) {
            if (operation == UNLINK && at == worker->made) break;
            if (operation == CREATE && at == creations_max) break;
            one(worker, operation, operation == CREATE ? at : at % worker->made);
        }
        if (operation == CREATE) worker->made = at;
        worker->ended[operation] = now();
    }
    return NULL;
}

static void make_directory(struct worker* worker) {
    char path[PATH_MAX_BYTES];
    snprintf(path, sizeof path, "%s/t%u", parent, worker->number);
    const int rc = in_container ? names_mkdir(path + 1) : mkdir(path, 0755);
    if (rc < 0) fail("mkdir", path, rc);
    if (in_container) return;
    worker->directory = open(path, O_RDONLY | O_DIRECTORY);
    if (worker->directory < 0) fail("open", path, -1);
}

static int compare(const void* left, const void* right) {
    const float a = *(const float*)left, b = *(const float*)right;
    return (a > b) - (a < b);
}

static void print(struct worker* workers, unsigned count, enum operation operation) {
    unsigned long done = 0, known = 0;
    double began = workers[0].began[operation], ended = 0;
    float* const times = malloc(sizeof(float) * TIMES_MAX * count);
    if (times == NULL) fail("malloc", "", -ENOMEM);
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
    printf("%s %lu %.6f %.1f %.1f\n", names[operation], done, ended - began,
           (double)times[known / 2], (double)times[known * 99 / 100]);
    free(times);
}

int main(int count, char** arguments) {
    if (count < 4) {
        fprintf(stderr, "usage: name_bench URI|DIRECTORY THREADS SECONDS [fsync] [OPERATION]\n");
        return 2;
    }
    const unsigned threads = (unsigned)atoi(arguments[2]);
    seconds = atof(arguments[3]);
    for (int i = 4; i < count; ++i) {
        if (strcmp(arguments[i], "fsync") == 0) synced = 1;
        for (int o = CREATE; o < OPERATIONS; ++o) {
            if (strcmp(arguments[i], names[o]) == 0) only = o;
        }
    }
    if (only == STAT || only == OPEN || only == RENAME) creations_max = 4;
    if (threads < 1 || threads > THREADS_MAX || !(seconds > 0)) {
        fprintf(stderr, "name_bench: THREADS is not 1 to %d, or SECONDS is not above 0\n",
                THREADS_MAX);
        return 2;
    }
    in_container = strstr(arguments[1], "://") != NULL;
    parent = in_container ? "" : arguments[1];
    int rc = in_container ? names_open(arguments[1]) : 0;
    if (rc < 0) fail("open", arguments[1], rc);
    struct worker* const workers = calloc(threads, sizeof *workers);
    if (workers == NULL) fail("calloc", "", -ENOMEM);
    pthread_barrier_init(&together, NULL, threads);
    for (unsigned i = 0; i < threads; ++i) {
        workers[i].number = i;
        make_directory(&workers[i]);
    }
    for (unsigned i = 0; i < threads; ++i) {
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0)
            fail("thread", "", -EAGAIN);
    }
    for (unsigned i = 0; i < threads; ++i) pthread_join(workers[i].thread, NULL);
    for (enum operation o = CREATE; o < OPERATIONS; ++o) {
        if (is_done(o)) print(workers, threads, o);
    }
    free(workers);
    rc = in_container ? names_close() : 0;
    if (rc < 0) fail("close", arguments[1], rc);
    return 0;
}
