// Runs CUDA blocks one after another, each thread of a block as a fibre, and judges every memory access they make.
//
// The kernels are compiled with -fsanitize=thread, which makes g++ call __tsan_readN and __tsan_writeN before each access;
// those functions are ours. An access must fall into an array handed to the launch, into shared memory, or onto a fibre's
// own stack. Two threads that touch the same bytes, one of them writing, must have a barrier between them.
#include "device.h"

#include <csetjmp>
#include <cstdarg>
#include <cstdio>
#include <dlfcn.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <vector>

dim3 gridDim, blockDim, blockIdx, threadIdx;

namespace {
const size_t STACK = 1 << 16;
const int MAX_THREADS = 1024;
const uint16_t MANY = 0xffff;

struct Fibre {
    ucontext_t start;
    jmp_buf where;
    char* stack = nullptr;
    bool entered = false;
    bool ready = false, done = false;
    int waiting = 0;
    unsigned mask = 0, mailbox = 0;
    const char* file = "";
    int line = 0;
    dim3 index;
};

// What is known of one granule: when (a count of block-wide barriers since the launch began; 0: never), at which warp
// barrier, and by which thread it was last written and last read.
struct Cell {
    uint32_t written = 0, read = 0;
    uint32_t write_sync = 0, read_sync = 0;
    uint16_t writer = 0, reader = 0;
    bool atomic = false;
};

struct Region {
    const char* name;
    char* base;
    size_t bytes;
    unsigned granule;
    bool writable;
    std::vector<Cell> cells;
};

std::vector<Fibre> fibres_(MAX_THREADS);
char* stacks = nullptr;
char mailboxes[2][MAX_THREADS][16];
uint32_t warp_sync[MAX_THREADS / 32];
jmp_buf scheduler;
int current, threads;
uint32_t now, block_began;
std::vector<Region> regions;
Region shared;
char *own_first, *own_last;
char message[1024];
void (*body)(void**);
void** values;

extern "C" {
extern char __bss_start[] __attribute__((visibility("hidden")));
extern char _end[] __attribute__((visibility("hidden")));
}

// Ends the launch. `site` is the return address of the access at fault, told as an offset in its library: `@+0x…`.
[[noreturn]] void fail(void* site, const char* format, ...) {
    int used = snprintf(message, sizeof message, "block (%u, %u, %u) thread (%u, %u, %u): ", blockIdx.x, blockIdx.y,
                        blockIdx.z, threadIdx.x, threadIdx.y, threadIdx.z);
    va_list more;
    va_start(more, format);
    used += vsnprintf(message + used, sizeof message - used, format, more);
    va_end(more);
    Dl_info in;
    if (site && dladdr(site, &in) && used < int(sizeof message))
        snprintf(message + used, sizeof message - used, " @+%#zx",
                 size_t(static_cast<char*>(site) - static_cast<char*>(in.dli_fbase)) - 1);
    _longjmp(scheduler, 2);
}

void enter() {
    for (;;) {
        body(values);
        Fibre& me = fibres_[current];
        me.done = true;
        me.ready = false;
        if (!_setjmp(me.where)) _longjmp(scheduler, 1);
    }
}

void resume(int number) {
    Fibre& fibre = fibres_[number];
    current = number;
    threadIdx = fibre.index;
    if (_setjmp(scheduler)) return;
    if (fibre.entered) _longjmp(fibre.where, 1);
    fibre.entered = true;
    getcontext(&fibre.start);
    fibre.stack = stacks + size_t(number) * STACK;
    fibre.start.uc_stack.ss_sp = fibre.stack;
    fibre.start.uc_stack.ss_size = STACK;
    fibre.start.uc_link = nullptr;
    makecontext(&fibre.start, enter, 0);
    setcontext(&fibre.start);
}

void describe(char* out, size_t size, const Fibre& fibre) {
    if (fibre.done)
        snprintf(out, size, "has left the kernel");
    else
        snprintf(out, size, "waits at %s:%d", fibre.file, fibre.line);
}

// Lets the lanes go on that wait together; true if any did.
bool release_lanes(int first, int last) {
    bool any = false;
    for (int i = first; i < last; i++) {
        Fibre& one = fibres_[i];
        if (one.ready || one.done || one.waiting != fibres::WARP) continue;
        char there[200];
        for (int j = first; j < last; j++) {
            if (!(one.mask >> (j - first) & 1)) continue;
            Fibre& other = fibres_[j];
            if (other.waiting == fibres::WARP && other.line == one.line && other.file == one.file && other.mask == one.mask)
                continue;
            describe(there, sizeof there, other);
            if (!message[0])
                snprintf(message, sizeof message,
                         "block (%u, %u, %u): divergent warp: lane %d waits at %s:%d for lane %d, which %s", blockIdx.x,
                         blockIdx.y, blockIdx.z, i - first, one.file, one.line, j - first, there);
            return false;
        }
        for (int j = first; j < last; j++)
            if (one.mask >> (j - first) & 1 && j != i) fibres_[j].ready = true, fibres_[j].waiting = 0;
        one.ready = true;
        one.waiting = 0;
        warp_sync[first / 32]++;
        any = true;
    }
    return any;
}

// One block from its first to its last instruction. `order` 0: threads in order, 1: the last first.
bool run_block(int order) {
    block_began = ++now;
    if (shared.bytes) memset(shared.base, 0xff, shared.bytes);
    std::fill(shared.cells.begin(), shared.cells.end(), Cell());
    for (int i = 0; i < threads; i++) {
        Fibre& fibre = fibres_[i];
        fibre.index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
        fibre.ready = true;
        fibre.done = false;
        fibre.waiting = 0;
        fibre.mailbox = 0;
    }
    int warps = (threads + 31) / 32;
    for (;;) {
        for (int k = 0; k < warps; k++) {
            int first = 32 * (order ? warps - 1 - k : k), last = std::min(threads, first + 32);
            do {
                for (int j = first; j < last; j++) {
                    int i = order ? first + last - 1 - j : j;
                    if (fibres_[i].ready) {
                        resume(i);
                        if (message[0]) return false;
                    }
                }
            } while (release_lanes(first, last));
            if (message[0]) return false;
        }
        int left = 0, at = 0;
        Fibre* waits = nullptr;
        for (int i = 0; i < threads; i++) {
            left += fibres_[i].done;
            if (!fibres_[i].done) at++, waits = &fibres_[i];
        }
        if (!at) return true;
        for (int i = 0; i < threads; i++) {
            Fibre& other = fibres_[i];
            if (!other.done && other.line == waits->line && other.file == waits->file) continue;
            char there[200];
            describe(there, sizeof there, other);
            snprintf(message, sizeof message,
                     "block (%u, %u, %u): divergent barrier: thread (%u, %u, %u) waits at %s:%d, thread (%u, %u, %u) %s",
                     blockIdx.x, blockIdx.y, blockIdx.z, waits->index.x, waits->index.y, waits->index.z, waits->file,
                     waits->line, other.index.x, other.index.y, other.index.z, there);
            return false;
        }
        now++;
        for (int i = 0; i < threads; i++) fibres_[i].ready = true, fibres_[i].waiting = 0;
    }
}

bool ordered_by_warp(uint16_t other, uint32_t sync) {
    return other != MANY && other / 32 == current / 32 && sync < warp_sync[current / 32];
}

void conflict(const Region& region, const char* address, const char* doing, const char* did, uint16_t other, bool blocks, void* site) {
    char whom[64];
    if (blocks)
        snprintf(whom, sizeof whom, "another block");
    else if (other == MANY)
        snprintf(whom, sizeof whom, "other threads");
    else
        snprintf(whom, sizeof whom, "thread number %d", other);
    fail(site, "race: %s byte %zu of %s, which %s %s with no barrier between", doing, size_t(address - region.base),
         region.name, whom, did);
}

void touch(Region& region, char* address, int bytes, bool write, bool atomic, void* site) {
    size_t offset = address - region.base;
    if (offset + bytes > region.bytes)
        fail(site, "out of bounds: %s %d bytes at byte %zu of %s, which has %zu", write ? "writes" : "reads", bytes, offset,
             region.name, region.bytes);
    if (write && !region.writable) fail(site, "writes into %s, which is an input", region.name);
    for (size_t c = offset / region.granule, end = (offset + bytes - 1) / region.granule; c <= end; c++) {
        Cell& cell = region.cells[c];
        const char* doing = atomic ? "adds to" : write ? "writes" : "reads";
        if (&region == &shared && !write && !cell.written)
            fail(site, "reads byte %zu of shared memory, which no thread of the block has written", offset);
        if (cell.written && cell.writer != current && !(atomic && cell.atomic)) {
            bool blocks = cell.written < block_began;
            if (blocks || (cell.written == now && !ordered_by_warp(cell.writer, cell.write_sync)))
                conflict(region, address, doing, cell.atomic ? "added to" : "wrote", cell.writer, blocks, site);
        } else if (cell.written && cell.written < block_began && !(atomic && cell.atomic)) {
            conflict(region, address, doing, "wrote", cell.writer, true, site);
        }
        if (write) {
            if (cell.read && !atomic) {
                bool blocks = cell.read < block_began;
                if (blocks || (cell.read == now && cell.reader != current && !ordered_by_warp(cell.reader, cell.read_sync)))
                    conflict(region, address, doing, "read", cell.reader, blocks, site);
            }
            cell.written = now;
            cell.writer = uint16_t(current);
            cell.write_sync = warp_sync[current / 32];
            cell.atomic = atomic;
        } else {
            bool again = cell.read == now && cell.reader != current;
            cell.reader = again ? MANY : uint16_t(current);
            cell.read = now;
            cell.read_sync = warp_sync[current / 32];
        }
    }
}

void access(const void* where, int bytes, bool write, bool atomic, void* site) {
    char* address = const_cast<char*>(static_cast<const char*>(where));
    char* stack = fibres_[current].stack;
    if (address >= stack && address < stack + STACK) return;
    if (address >= own_first && address < own_last) return;
    for (Region& region : regions)
        if (address >= region.base && address < region.base + region.bytes)
            return touch(region, address, bytes, write, atomic, site);
    if (address >= shared.base && address < shared.base + shared.bytes)
        return touch(shared, address, bytes, write, atomic, site);
    const Region* nearest = nullptr;
    long best = 0;
    for (Region& region : regions) {
        long away = address < region.base ? region.base - address : address - (region.base + region.bytes - 1);
        if (!nearest || away < best) nearest = &region, best = away;
    }
    if (!nearest) fail(site, "%s %d bytes at an address of no array", write ? "writes" : "reads", bytes);
    fail(site, "out of bounds: %s %d bytes at byte %ld of %s, which has %zu", write ? "writes" : "reads", bytes,
         long(address - nearest->base), nearest->name, nearest->bytes);
}
}  // namespace

namespace fibres {
void wait(Wait what, unsigned mask, const char* file, int line) {
    Fibre& me = fibres_[current];
    int warp = current / 32 * 32, lanes = std::min(32, threads - warp);
    if (lanes < 32) mask &= (1u << lanes) - 1;
    if (what == WARP && !(mask >> (current - warp) & 1)) 
        fail(nullptr, "%s:%d names lanes, but not the one that calls", file, line);
    me.waiting = what;
    me.mask = mask;
    me.file = file;
    me.line = line;
    me.ready = false;
    if (!_setjmp(me.where)) _longjmp(scheduler, 1);
    threadIdx = fibres_[current].index;
}
unsigned lane() { return current % 32; }
char* mailbox(unsigned lane) { return mailboxes[fibres_[current].mailbox][current / 32 * 32 + lane]; }
void next_mailbox() { fibres_[current].mailbox ^= 1; }
void atomic(const void* address, int bytes, void* site) { access(address, bytes, true, true, site); }
void trap() { fail(__builtin_return_address(0), "the kernel stops the device (__trap)"); }
}  // namespace fibres

extern "C" {
void fibres_array(const char* name, void* base, size_t bytes, unsigned granule, int writable) {
    regions.push_back({name, static_cast<char*>(base), bytes, granule, writable != 0, std::vector<Cell>(bytes / granule + 1)});
}

// nullptr, or what went wrong.
const char* fibres_launch(void (*run)(void**), void** arguments, const unsigned* grid, const unsigned* block, char* first,
                          char* last, int order) {
    message[0] = 0;
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
    uint64_t wanted = uint64_t(block[0]) * block[1] * block[2];
    if (!stacks) {
        stacks = static_cast<char*>(
            mmap(nullptr, STACK * MAX_THREADS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
        own_first = __bss_start;
        own_last = _end;
    }
    if (wanted < 1 || wanted > MAX_THREADS || block[2] > 64 || grid[1] > 65535 || grid[2] > 65535 || !grid[0] || !grid[1] || !grid[2] ||
        grid[0] > 2147483647u) {
        snprintf(message, sizeof message, "no device takes grid (%u, %u, %u), block (%u, %u, %u)", grid[0], grid[1], grid[2],
                 block[0], block[1], block[2]);
        return message;
    }
    threads = int(wanted);
    body = run;
    values = arguments;
    now = 0;
    shared.name = "shared memory";
    shared.base = first;
    shared.bytes = last - first;
    shared.granule = 1;
    shared.writable = true;
    shared.cells.assign(shared.bytes, Cell());
    for (unsigned z = 0; z < grid[2] && !message[0]; z++)
        for (unsigned y = 0; y < grid[1] && !message[0]; y++)
            for (unsigned x = 0; x < grid[0] && !message[0]; x++) {
                blockIdx = {x, y, z};
                run_block(order);
            }
    regions.clear();
    if (!message[0]) return nullptr;
    for (Fibre& fibre : fibres_) fibre.entered = false;
    return message;
}

#define CHECKED(N)                                                                                                      \
    void __tsan_read##N(void* a) { access(a, N, false, false, __builtin_return_address(0)); }                          \
    void __tsan_write##N(void* a) { access(a, N, true, false, __builtin_return_address(0)); }                          \
    void __tsan_unaligned_read##N(void* a) { access(a, N, false, false, __builtin_return_address(0)); }                \
    void __tsan_unaligned_write##N(void* a) { access(a, N, true, false, __builtin_return_address(0)); }
CHECKED(1)
CHECKED(2)
CHECKED(4)
CHECKED(8)
CHECKED(16)
void __tsan_read_range(void* a, unsigned long n) { access(a, int(n), false, false, __builtin_return_address(0)); }
void __tsan_write_range(void* a, unsigned long n) { access(a, int(n), true, false, __builtin_return_address(0)); }
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_init() {}
}
