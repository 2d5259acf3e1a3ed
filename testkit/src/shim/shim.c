/* Faults and hangs of system calls, and a wall clock that is off, for a process that is started with this library preloaded.
 *
 * Rust's rustix makes system calls without libc, so that no function can stand in for them. A seccomp filter has the
 * kernel send SIGSYS for the calls below instead of making them, in every thread. The handler makes the call itself, from
 * the one address that the filter lets through, at once or when it is to hang no more, or answers EIO. The clock is a function of libc, which this one replaces.
 *
 * FAULTS_CONTROL names the file of words that the test writes and this library has mapped; FAULTS_UNDER the folder whose
 * files can fail. Pages of a mapped file are read without a call, and do not fail. Processes that the process starts
 * are not supported: they would get a second filter. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { OPENS = 1, READS = 2, WRITES = 4 };

/* The file of words, as testkit/src/shim.rs writes it. */
struct control {
    int64_t clock_offset;
    uint64_t kinds;
    uint64_t from;
    uint64_t calls;
    uint64_t hangs;
};

static volatile struct control *control;
static char folder[1024];
static size_t folder_length;

/* A system call from the address that the filter knows. Gives what the kernel does, errors as negative numbers. */
long shim_call(long number, long a, long b, long c, long d, long e, long f);
extern char shim_called[];

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
__asm__(".text\n.globl shim_call\n.hidden shim_call\n.globl shim_called\n.hidden shim_called\n"
        "shim_call:\n mov %rdi,%rax\n mov %rsi,%rdi\n mov %rdx,%rsi\n mov %rcx,%rdx\n mov %r8,%r10\n mov %r9,%r8\n"
        " mov 8(%rsp),%r9\n syscall\nshim_called:\n ret\n");
#define REGISTERS(context) (context)->uc_mcontext.gregs
#define ARGUMENT(r, at) ((long)(r)[(const int[]){REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9}[at]])
#define RESULT(r) (r)[REG_RAX]
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
__asm__(".text\n.globl shim_call\n.hidden shim_call\n.globl shim_called\n.hidden shim_called\n"
        "shim_call:\n mov x8,x0\n mov x0,x1\n mov x1,x2\n mov x2,x3\n mov x3,x4\n mov x4,x5\n mov x5,x6\n svc #0\n"
        "shim_called:\n ret\n");
#define REGISTERS(context) (context)->uc_mcontext.regs
#define ARGUMENT(r, at) ((long)(r)[at])
#define RESULT(r) (r)[0]
#else
#error "this shim knows x86_64 and aarch64"
#endif

/* A call that can fail: by which of its arguments its file is known. */
struct row {
    int number;
    int kind;
    enum { BY_FILE, BY_PATH, BY_FOLDER_AND_PATH } by;
};

static const struct row rows[] = {
#ifdef SYS_open
    {SYS_open, OPENS, BY_PATH},
    {SYS_stat, OPENS, BY_PATH},
    {SYS_lstat, OPENS, BY_PATH},
    {SYS_mkdir, WRITES, BY_PATH},
    {SYS_rename, WRITES, BY_PATH},
    {SYS_unlink, WRITES, BY_PATH},
    {SYS_rmdir, WRITES, BY_PATH},
#endif
    {SYS_openat, OPENS, BY_FOLDER_AND_PATH},
    {SYS_openat2, OPENS, BY_FOLDER_AND_PATH},
    {SYS_newfstatat, OPENS, BY_FOLDER_AND_PATH},
    {SYS_statx, OPENS, BY_FOLDER_AND_PATH},
    {SYS_statfs, OPENS, BY_PATH},
    {SYS_fstatfs, OPENS, BY_FILE},
    {SYS_read, READS, BY_FILE},
    {SYS_readv, READS, BY_FILE},
    {SYS_pread64, READS, BY_FILE},
    {SYS_preadv, READS, BY_FILE},
    {SYS_preadv2, READS, BY_FILE},
    {SYS_getdents64, READS, BY_FILE},
    {SYS_write, WRITES, BY_FILE},
    {SYS_writev, WRITES, BY_FILE},
    {SYS_pwrite64, WRITES, BY_FILE},
    {SYS_pwritev, WRITES, BY_FILE},
    {SYS_pwritev2, WRITES, BY_FILE},
    {SYS_fsync, WRITES, BY_FILE},
    {SYS_fdatasync, WRITES, BY_FILE},
    {SYS_syncfs, WRITES, BY_FILE},
    {SYS_sync_file_range, WRITES, BY_FILE},
    {SYS_ftruncate, WRITES, BY_FILE},
    {SYS_fallocate, WRITES, BY_FILE},
    {SYS_mkdirat, WRITES, BY_FOLDER_AND_PATH},
    {SYS_renameat2, WRITES, BY_FOLDER_AND_PATH},
#ifdef SYS_renameat
    {SYS_renameat, WRITES, BY_FOLDER_AND_PATH},
#endif
    {SYS_unlinkat, WRITES, BY_FOLDER_AND_PATH},
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static int is_under(const char *path, size_t length) {
    if (length < folder_length || memcmp(path, folder, folder_length)) return 0;
    return length == folder_length || path[folder_length] == '/';
}

/* Whether an open file is in the folder; a negative number stands for the working folder. */
static int file_is_under(long file) {
    char link[40] = "/proc/self/cwd", found[sizeof folder + 64];
    if (file >= 0) {
        char *end = link + sizeof link - 1, digits[24];
        size_t count = 0;
        do digits[count++] = (char)('0' + file % 10); while ((file /= 10) > 0);
        memcpy(link, "/proc/self/fd/", 14);
        char *at = link + 14;
        while (count > 0 && at < end) *at++ = digits[--count];
        *at = 0;
    }
    long length = shim_call(SYS_readlinkat, AT_FDCWD, (long)link, (long)found, sizeof found, 0, 0);
    return length > 0 && is_under(found, (size_t)length);
}

static int path_is_under(long at, const char *path) {
    if (path && path[0] == '/') return is_under(path, strlen(path));
    return file_is_under((int)at == AT_FDCWD ? -1 : at);
}

/* Whether the call is to fail, or to hang. It is counted when its kind can fail now. */
static int fails(const struct row *row, long first, long second) {
    if (!control || !(control->kinds & (uint64_t)row->kind)) return 0;
    int is_meant = row->by == BY_FILE   ? file_is_under((int)first)
                   : row->by == BY_PATH ? path_is_under(AT_FDCWD, (const char *)first)
                                        : path_is_under(first, (const char *)second);
    return is_meant && __atomic_add_fetch(&control->calls, 1, __ATOMIC_SEQ_CST) >= control->from;
}

static void on_call(int signal, siginfo_t *info, void *context) {
    (void)signal;
    int before = errno;
    ucontext_t *at = context;
    const struct row *row = rows;
    while (row < rows + ROWS - 1 && row->number != info->si_syscall) row++;
    long a[6];
    for (int i = 0; i < 6; i++) a[i] = ARGUMENT(REGISTERS(at), i);
    long result = -EIO;
    int is_to_fail = row->number == info->si_syscall && fails(row, a[0], a[1]);
    int is_to_hang = is_to_fail && control->hangs;
    struct timespec pause = {0, 5000000};
    while (is_to_hang && control->hangs) shim_call(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
    if (!is_to_fail || is_to_hang)
        result = shim_call(info->si_syscall, a[0], a[1], a[2], a[3], a[4], a[5]);
    RESULT(REGISTERS(at)) = result;
    errno = before;
}

static int filter(void) {
    uint64_t called = (uint64_t)(uintptr_t)shim_called;
    struct sock_filter code[ROWS + 9];
    size_t count = 0;
#define LOAD(field) (struct sock_filter) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (field))
#define IF_EQUAL(value, yes, no) (struct sock_filter) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (yes), (no))
#define END(what) (struct sock_filter) BPF_STMT(BPF_RET | BPF_K, (what))
    code[count++] = LOAD(offsetof(struct seccomp_data, arch));
    code[count++] = IF_EQUAL(ARCH, 0, ROWS + 5);
    code[count++] = LOAD(offsetof(struct seccomp_data, instruction_pointer));
    code[count++] = IF_EQUAL((uint32_t)called, 0, 2);
    code[count++] = LOAD(offsetof(struct seccomp_data, instruction_pointer) + 4);
    code[count++] = IF_EQUAL((uint32_t)(called >> 32), ROWS + 1, 0);
    code[count++] = LOAD(offsetof(struct seccomp_data, nr));
    for (size_t row = 0; row < ROWS; row++) code[count++] = IF_EQUAL((uint32_t)rows[row].number, ROWS - row, 0);
    code[count++] = END(SECCOMP_RET_ALLOW);
    code[count++] = END(SECCOMP_RET_TRAP);
    struct sock_fprog program = {(unsigned short)count, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
}

static void refuse(const char *why) {
    ssize_t said = write(2, why, strlen(why));
    (void)said;
    _exit(86);
}

__attribute__((constructor)) static void begin(void) {
    const char *words = getenv("FAULTS_CONTROL"), *under = getenv("FAULTS_UNDER");
    if (!words || !under || strlen(under) >= sizeof folder) refuse("shim: it has not been told what to do\n");
    folder_length = strlen(under);
    memcpy(folder, under, folder_length + 1);
    int file = open(words, O_RDWR | O_CLOEXEC);
    void *mapped = file < 0 ? MAP_FAILED : mmap(0, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) refuse("shim: its file of words cannot be mapped\n");
    close(file);
    control = mapped;
    struct sigaction action = {.sa_sigaction = on_call, .sa_flags = SA_SIGINFO | SA_NODEFER | SA_RESTART};
    if (sigaction(SIGSYS, &action, 0) || filter()) refuse("shim: this system lets no filter be set\n");
}

static long now(clockid_t clock, struct timespec *time) {
    long result = shim_call(SYS_clock_gettime, clock, (long)time, 0, 0, 0, 0);
    int is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
    if (!result && is_wall && control) time->tv_sec += control->clock_offset;
    return result;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    long result = now(clock, time);
    if (result < 0) errno = (int)-result;
    return result < 0 ? -1 : 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    (void)zone;
    struct timespec precise;
    now(CLOCK_REALTIME, &precise);
    time->tv_sec = precise.tv_sec;
    time->tv_usec = precise.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *result) {
    struct timespec precise;
    now(CLOCK_REALTIME, &precise);
    if (result) *result = precise.tv_sec;
    return precise.tv_sec;
}
