// SPDX-License-Identifier: Apache-2.0
// Exact instruction counts of a model's dispatches, as a TCG plugin of QEMU.
//
// Arguments: start=, end= (the address range of the invoke function), variable= (address of the dispatch variable,
// which that function stores to before each dispatch and once more when it is done), stores= (how many that makes),
// skip_start=, skip_end= (the range of an interrupt handler, which is not counted), out= (a file). For each inference a
// line is written: instructions from the entry to the first store, then between the stores. With code_start=, code_end=
// and addresses= (a file) it is told too how often each instruction there ran in the first inference: a line from store to
// store with address and count, in turns.
//
// Each instruction adds one to a counter, inline. A callback before the entry instruction runs before that addition, a
// memory callback after it, so a store belongs to what it ends. The values stored are not visible to plugins of QEMU
// 7.2, so the stores are told apart by their order.
//
// Debian packages no header: what is used is declared here, from QEMU's documentation of its plugin interface. No
// header or library of the host is needed either, so that a bare compiler will do.

#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t plugin_id;
typedef uint32_t mem_info;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
enum { CB_NO_REGS = 0 };
enum { MEM_W = 2 };
enum { INLINE_ADD_U64 = 0 };

EXPORT int qemu_plugin_version = 1;

extern void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb *));
extern size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
extern struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
extern uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
extern void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, void (*)(unsigned, void *), int, void *);
extern void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *, int, void *, uint64_t);
extern void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, void (*)(unsigned, mem_info, uint64_t, void *),
                                             int, int, void *);

extern int creat(const char *path, unsigned mode);
extern ptrdiff_t write(int file, const void *data, size_t size);

enum { MAX_STORES = 65536, MAX_DIGITS = 21 };

static uint64_t start, end, variable, stores, skip_start, skip_end;
static uint64_t executed;          // instructions so far
static uint64_t marks[MAX_STORES]; // `executed` at the entry and after each store
static uint64_t seen;              // stores of this inference
static int inside;
static int file = -1;
static char line[MAX_STORES * MAX_DIGITS];

enum { MAX_CODE = 1 << 20 };                                        // bytes
static uint64_t code_start, code_end;
static uint64_t runs[MAX_CODE / 2], runs_before[MAX_CODE / 2]; // of each instruction, and at the last store
static int addresses = -1;

static char *decimal(char *at, uint64_t value) {
    char digits[MAX_DIGITS];
    int count = 0;
    do {
        digits[count++] = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    while (count) *at++ = digits[--count];
    return at;
}

static void put(int to, const char *end) {
    for (const char *from = line; from < end;) {
        ptrdiff_t written = write(to, from, (size_t)(end - from));
        if (written <= 0) return;
        from += written;
    }
}

static void report(void) {
    char *at = line;
    for (uint64_t i = 0; i < seen; i++) {
        at = decimal(at, marks[i + 1] - marks[i]);
        *at++ = i + 1 == seen ? '\n' : ' ';
    }
    put(file, at);
}

static void report_runs(void) {
    char *at = line;
    for (uint64_t i = 0; i < (code_end - code_start) / 2; i++) {
        if (runs[i] == runs_before[i]) continue;
        if (at > line + sizeof line - 3 * MAX_DIGITS) put(addresses, at), at = line;
        at = decimal(at, code_start + 2 * i);
        *at++ = ' ';
        at = decimal(at, runs[i] - runs_before[i]);
        *at++ = ' ';
        runs_before[i] = runs[i];
    }
    *at++ = '\n';
    put(addresses, at);
}

static void entered(unsigned cpu, void *data) {
    (void)cpu, (void)data;
    // An inference that did not reach its last store is reported short; the host side checks.
    if (inside && seen) report();
    inside = 1;
    seen = 0;
    marks[0] = executed;
    if (addresses >= 0)
        for (uint64_t i = 0; i < (code_end - code_start) / 2; i++) runs_before[i] = runs[i];
}

static void stored(unsigned cpu, mem_info info, uint64_t address, void *data) {
    (void)cpu, (void)info, (void)data;
    if (!inside || address != variable) return;
    marks[++seen] = executed;
    if (addresses >= 0) report_runs();
    if (seen == stores) {
        report();
        inside = 0;
        addresses = -1;
    }
}

static void translated(plugin_id id, struct qemu_plugin_tb *block) {
    (void)id;
    size_t count = qemu_plugin_tb_n_insns(block);
    for (size_t i = 0; i < count; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(block, i);
        uint64_t address = qemu_plugin_insn_vaddr(insn);
        if (address == start) qemu_plugin_register_vcpu_insn_exec_cb(insn, entered, CB_NO_REGS, NULL);
        if (address < skip_start || address >= skip_end)
            qemu_plugin_register_vcpu_insn_exec_inline(insn, INLINE_ADD_U64, &executed, 1);
        if (address >= code_start && address < code_end)
            qemu_plugin_register_vcpu_insn_exec_inline(insn, INLINE_ADD_U64, &runs[(address - code_start) / 2], 1);
        if (address >= start && address < end)
            qemu_plugin_register_vcpu_mem_cb(insn, stored, CB_NO_REGS, MEM_W, NULL);
    }
}

static uint64_t number(const char *text) {
    uint64_t value = 0;
    for (; *text >= '0' && *text <= '9'; text++) value = value * 10 + (uint64_t)(*text - '0');
    return value;
}

static const char *after(const char *argument, const char *key) {
    while (*key)
        if (*argument++ != *key++) return NULL;
    return argument;
}

EXPORT int qemu_plugin_install(plugin_id id, const void *info, int argc, char **argv) {
    (void)info;
    for (int i = 0; i < argc; i++) {
        const char *value;
        if ((value = after(argv[i], "start="))) start = number(value);
        else if ((value = after(argv[i], "end="))) end = number(value);
        else if ((value = after(argv[i], "variable="))) variable = number(value);
        else if ((value = after(argv[i], "stores="))) stores = number(value);
        else if ((value = after(argv[i], "skip_start="))) skip_start = number(value);
        else if ((value = after(argv[i], "skip_end="))) skip_end = number(value);
        else if ((value = after(argv[i], "code_start="))) code_start = number(value);
        else if ((value = after(argv[i], "code_end="))) code_end = number(value);
        else if ((value = after(argv[i], "addresses="))) addresses = creat(value, 0666);
        else if ((value = after(argv[i], "out="))) file = creat(value, 0666);
        else return -1;
    }
    if (file < 0 || start >= end || stores == 0 || stores >= MAX_STORES) return -1;
    if (code_end < code_start || code_end - code_start > MAX_CODE) return -1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return 0;
}
