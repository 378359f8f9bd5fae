/* Memory, hashes and environment variables of DAOS's helper library (DAOS 2.6, gurt/common.h), and
 * the data that its macros for logging and fault injection use (gurt/dlog.h, gurt/fault_inject.h).
 * No faults are injected. Errors that a program logs are on standard error; other messages are not
 * written. */
#ifndef ROS2STORE_DAOS_GURT_COMMON_H
#define ROS2STORE_DAOS_GURT_COMMON_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "list.h"
#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef container_of
#define container_of(member_pointer, type, member) \
    ((type*)((char*)(member_pointer) - offsetof(type, member)))
#endif
#ifndef ARRAY_SIZE
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#endif

/* ---- memory */
void d_free(void* ptr);
void* d_calloc(size_t nmemb, size_t size);
void* d_malloc(size_t size);
void* d_realloc(void* ptr, size_t size);
void* d_aligned_alloc(size_t alignment, size_t size, bool zero);
char* d_strndup(const char* s, size_t n);
int d_asprintf(char** strp, const char* fmt, ...) __attribute__((format(printf, 2, 3)));
char* d_asprintf2(int* rc, const char* fmt, ...) __attribute__((format(printf, 2, 3)));
char* d_realpath(const char* path, char* resolved_path);

#define D_ALLOC(ptr, size) ((ptr) = (__typeof__(ptr))d_calloc(1, (size)))
#define D_ALLOC_PTR(ptr) D_ALLOC(ptr, sizeof(*(ptr)))
#define D_ALLOC_ARRAY(ptr, count) ((ptr) = (__typeof__(ptr))d_calloc((count), sizeof(*(ptr))))
#define D_STRNDUP(ptr, s, n) ((ptr) = d_strndup((s), (n)))
#define D_FREE(ptr)   \
    do {              \
        d_free(ptr);  \
        (ptr) = NULL; \
    } while (0)

/* ---- texts for messages: each is valid until the thread has asked for eight more */
char* DP_UUID(const void* uuid);

/* ---- hashes */
uint32_t d_hash_string_u32(const char* string, unsigned int len);
uint64_t d_hash_murmur64(const unsigned char* key, unsigned int key_len, unsigned int seed);
uint64_t d_hash_mix64(uint64_t key);
uint32_t d_hash_mix96(uint32_t a, uint32_t b, uint32_t c);
uint32_t d_hash_jump(uint64_t key, uint32_t num_buckets);

/* ---- the environment: a variable that is not set, or has an invalid value, leaves the caller's
 * variable unchanged. Errors: -DER_NONEXIST, -DER_INVAL. */
int d_getenv_bool(const char* name, bool* bool_val);
int d_getenv_uint(const char* name, unsigned int* uint_val);
int d_getenv_uint64_t(const char* name, uint64_t* uint64_val);

/* A copy, which d_freeenv_str() frees. */
int d_agetenv_str(char** str_val, const char* name);
void d_freeenv_str(char** str_val);
int d_setenv(const char* name, const char* value, int overwrite);
int d_unsetenv(const char* name);
bool d_isenv_def(const char* name);

/* ---- ranks */
d_rank_list_t* d_rank_list_alloc(uint32_t size);
void d_rank_list_free(d_rank_list_t* rank_list);
int d_rank_list_dup(d_rank_list_t** dst, const d_rank_list_t* src);
int d_rank_list_copy(d_rank_list_t* dst, d_rank_list_t* src);
bool d_rank_list_find(d_rank_list_t* rank_list, d_rank_t rank, int* idx);
bool d_rank_in_rank_list(d_rank_list_t* rank_list, d_rank_t rank);
int d_rank_list_del(d_rank_list_t* rank_list, d_rank_t rank);
bool d_rank_list_identical(d_rank_list_t* rank_list1, d_rank_list_t* rank_list2);
int d_rank_list_to_str(d_rank_list_t* ranks, char** ranks_str);

/* ---- times: nanoseconds since the beginning of 2021 (UTC); those of d_hlc_get() grow with each
 * call. */
uint64_t d_hlc_get(void);
uint64_t d_hlc2nsec(uint64_t hlc);
uint64_t d_nsec2hlc(uint64_t nsec);
uint64_t d_hlc2unixnsec(uint64_t hlc);
uint64_t d_unixnsec2hlc(uint64_t unixnsec);
int d_hlc2timespec(uint64_t hlc, struct timespec* ts);
int d_timespec2hlc(struct timespec ts, uint64_t* hlc);

/* ---- logging and fault injection, as the macros of DAOS's headers use them */
struct dlog_fac {
    char* fac_aname;
    char* fac_lname;
    int fac_mask;
    bool is_enabled;
};
struct d_log_xstate {
    char* tag;
    struct dlog_fac* dlog_facs;
    char* nodename;
    int fac_cnt;
};
struct d_fault_attr_t;
extern struct d_log_xstate d_log_xst;
extern int d_misc_logfac;
extern int d_misc_logfac_cache[16];
/* The bits of messages that are dropped. */
extern uint64_t DB_ALL, DB_ANY, DB_TRACE, DB_MEM, DB_NET, DB_IO, DB_TEST;
extern unsigned int d_fault_inject;
extern struct d_fault_attr_t* d_fault_attr_mem;
extern void (*d_alt_assert)(int result, const char* expression, const char* file, int line);
int d_register_alt_assert(void (*alt_assert)(const int result, const char* expression,
                                             const char* file, const int line));
void d_log_sync(void);
void d_vlog(int flags, const char* fmt, va_list ap);
bool d_should_fail(struct d_fault_attr_t* fault_attr);

#ifdef __cplusplus
}
#endif
#endif
