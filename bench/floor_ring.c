// floor_ring ADDRESS PORT FILE: a server that does nothing, over io_uring (bench/floor.py).
//
// It answers whatever arrives with the bytes of FILE, as shoal-floor does, with as few system calls as the kernel allows: one accept and one
// receive for each connection that stay armed (multishot), buffers that the kernel picks from a ring, descriptors that only the ring has, sends of a whole
// turn submitted and the next turn waited for in one call, and no interrupts meanwhile (DEFER_TASKRUN).
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <liburing.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFERS = 1024, BUFFER_BYTES = 4096, CLIENTS = 4096, ENTRIES = 1024, GROUP = 0 };
enum what { ACCEPTED, RECEIVED, SENT, CLOSED };

static struct io_uring ring;
static struct io_uring_buf_ring *buffers;
static char heads[BUFFERS][BUFFER_BYTES];

static void fail(const char *what, int error) {
    fprintf(stderr, "floor_ring: %s: %s\n", what, strerror(error));
    exit(1);
}

static void need(const char *what, int outcome) {
    if (outcome < 0) fail(what, -outcome);
}

static struct io_uring_sqe *entry(void) {
    struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
    if (sqe) return sqe;
    need("submit", io_uring_submit(&ring));
    return io_uring_get_sqe(&ring);
}

static void ask(struct io_uring_sqe *sqe, enum what what, int client, unsigned flags) {
    sqe->user_data = (uint64_t)client << 8 | what;
    sqe->flags |= flags;
}

static void receive_from(int client) {
    struct io_uring_sqe *sqe = entry();
    io_uring_prep_recv_multishot(sqe, client, NULL, 0, 0);
    sqe->buf_group = GROUP;
    ask(sqe, RECEIVED, client, IOSQE_FIXED_FILE | IOSQE_BUFFER_SELECT);
}

static void answer(int client, const char *bytes, size_t length) {
    struct io_uring_sqe *sqe = entry();
    io_uring_prep_send(sqe, client, bytes, length, MSG_NOSIGNAL | MSG_WAITALL);
    ask(sqe, SENT, client, IOSQE_FIXED_FILE | IOSQE_CQE_SKIP_SUCCESS);
}

static void leave(int client) {
    struct io_uring_sqe *sqe = entry();
    io_uring_prep_close_direct(sqe, client);
    ask(sqe, CLOSED, client, 0);
}

static char *read_whole(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file) fail(path, errno);
    fseek(file, 0, SEEK_END);
    *length = ftell(file);
    rewind(file);
    char *bytes = malloc(*length);
    if (fread(bytes, 1, *length, file) != *length) fail(path, EIO);
    return bytes;
}

static int listen_on(const char *address, const char *port) {
    int one = 1, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(port))};
    if (inet_pton(AF_INET, address, &at.sin_addr) != 1) fail(address, EINVAL);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    // Who is accepted has it from here.
    setsockopt(listener, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (bind(listener, (struct sockaddr *)&at, sizeof at) || listen(listener, 511)) fail("listen", errno);
    return listener;
}

static void set_up(int listener) {
    struct io_uring_params how = {.cq_entries = CLIENTS};
    how.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_CQSIZE;
    need("io_uring", io_uring_queue_init_params(ENTRIES, &ring, &how));
    need("descriptors", io_uring_register_files_sparse(&ring, CLIENTS));
    need("the ring's descriptor", io_uring_register_ring_fd(&ring));
    if (posix_memalign((void **)&buffers, 4096, BUFFERS * sizeof(struct io_uring_buf))) fail("buffers", ENOMEM);
    struct io_uring_buf_reg where = {.ring_addr = (uintptr_t)buffers, .ring_entries = BUFFERS, .bgid = GROUP};
    need("buffers", io_uring_register_buf_ring(&ring, &where, 0));
    io_uring_buf_ring_init(buffers);
    for (int i = 0; i < BUFFERS; i++) io_uring_buf_ring_add(buffers, heads[i], BUFFER_BYTES, i, BUFFERS - 1, i);
    io_uring_buf_ring_advance(buffers, BUFFERS);
    struct io_uring_sqe *sqe = entry();
    io_uring_prep_multishot_accept_direct(sqe, listener, NULL, NULL, 0);
    ask(sqe, ACCEPTED, 0, 0);
}

int main(int count, char **arguments) {
    if (count != 4) return fprintf(stderr, "usage: floor_ring ADDRESS PORT FILE\n"), 2;
    size_t length;
    char *bytes = read_whole(arguments[3], &length);
    set_up(listen_on(arguments[1], arguments[2]));
    for (;;) {
        int outcome = io_uring_submit_and_wait(&ring, 1);
        if (outcome < 0 && outcome != -EINTR) fail("wait", -outcome);
        struct io_uring_cqe *done;
        unsigned at, seen = 0, given_back = 0;
        io_uring_for_each_cqe(&ring, at, done) {
            seen++;
            int client = done->user_data >> 8;
            if (done->flags & IORING_CQE_F_BUFFER) {
                int buffer = done->flags >> IORING_CQE_BUFFER_SHIFT;
                io_uring_buf_ring_add(buffers, heads[buffer], BUFFER_BYTES, buffer, BUFFERS - 1, given_back++);
            }
            switch ((enum what)(done->user_data & 255)) {
            case ACCEPTED:
                if (done->res >= 0) receive_from(done->res);
                break;
            case RECEIVED:
                if (done->res > 0) answer(client, bytes, length);
                if (done->res <= 0 && done->res != -ENOBUFS) leave(client);
                else if (!(done->flags & IORING_CQE_F_MORE)) receive_from(client);
                break;
            case SENT: // only of what failed: the client has left, and its receive says so
            case CLOSED:
                break;
            }
        }
        io_uring_buf_ring_advance(buffers, given_back);
        io_uring_cq_advance(&ring, seen);
    }
}
