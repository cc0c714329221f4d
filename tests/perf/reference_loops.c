/* The bare work the emulator cannot do without, as plain C: what its speed is compared with (docs/performance.md).
 * Both loops return a checksum that depends on every step, so no compiler can drop one, and the tests know its value. */
#include <stdint.h>
#include <string.h>

enum { SETS = 64, WAYS = 8 };           /* 32 KiB of 64-byte lines: the L1 data cache of both machines */

static int64_t tags[SETS][WAYS];
static int64_t counters[SETS][WAYS];

/* Look `count` line numbers up (lines[i], i modulo the power of two `period`), all ways of the set compared without a branch, and
 * count the hit in the counter of its way. Misses fill the ways of a set in turn and then replace the last one, so that what is
 * looked up often stays. Returns the number of hits, which is what the counters add up to. */
int64_t lookup_loop(const int64_t *lines, int64_t period, int64_t count)
{
    int64_t hits = 0;
    int8_t used[SETS] = {0};
    memset(tags, 0xFF, sizeof tags);
    memset(counters, 0, sizeof counters);
    for (int64_t i = 0; i < count; i++) {
        const int64_t line = lines[i & (period - 1)];
        int64_t *tag = tags[line & (SETS - 1)];
        unsigned match = 0;
        for (int w = 0; w < WAYS; w++)
            match |= (unsigned)(tag[w] == line) << w;
        if (match == 0) {
            int8_t *way = &used[line & (SETS - 1)];
            tag[*way] = line;
            *way += *way < WAYS - 1;
            continue;
        }
        counters[line & (SETS - 1)][__builtin_ctz(match)]++;
    }
    for (int s = 0; s < SETS; s++)
        for (int w = 0; w < WAYS; w++)
            hits += counters[s][w];
    return hits;
}

struct event {                          /* as large as the core's, and ordered the same way: time, then a tie key */
    int64_t time;
    uint64_t key;
    int64_t payload;
    int32_t kind, agent, c, d;
};

static int earlier(const struct event *a, const struct event *b)
{
    return a->time < b->time || (a->time == b->time && a->key < b->key);
}

static void push(struct event *heap, int64_t n, const struct event *e)
{
    while (n > 0 && earlier(e, &heap[(n - 1) / 2])) {
        heap[n] = heap[(n - 1) / 2];
        n = (n - 1) / 2;
    }
    heap[n] = *e;
}

static struct event pop(struct event *heap, int64_t n)
{
    const struct event first = heap[0], last = heap[n - 1];
    int64_t i = 0, child;
    for (n--; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && earlier(&heap[child + 1], &heap[child]))
            child++;
        if (!earlier(&heap[child], &last))
            break;
        heap[i] = heap[child];
    }
    heap[i] = last;
    return first;
}

/* `count` times: take the earliest of 32 pending events and schedule its successor one period later. One period for all is the
 * cheapest a heap can be: the processor predicts every comparison. Returns the number of steps whose event was not earlier than
 * the one before, which is `count` for a correct heap. */
int64_t heap_loop(int64_t count)
{
    enum { PENDING = 32, PERIOD = 5000 };
    struct event heap[PENDING], e;
    int64_t now = 0, in_order = 0;
    memset(heap, 0, sizeof heap);
    for (int64_t n = 0; n < PENDING; n++) {
        e = (struct event){.time = n * 150, .key = (uint64_t)n, .agent = (int32_t)n};
        push(heap, n, &e);
    }
    for (int64_t i = 0; i < count; i++) {
        const struct event first = pop(heap, PENDING);
        in_order += first.time >= now;
        now = first.time;
        e = (struct event){now + PERIOD, (uint64_t)i, first.payload + 1, first.kind, first.agent, first.c, first.d};
        push(heap, PENDING - 1, &e);
    }
    return in_order;
}
