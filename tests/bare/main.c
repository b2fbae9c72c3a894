// SPDX-License-Identifier: Apache-2.0
// Runs compiled models on rows of inputs that are linked in, and writes each row's outputs to a file by semihosting.
// The smallest program that can: what the product generates is tested elsewhere.
#include "models.h"

extern const uint8_t test_inputs[]; // all models' rows one after another
extern uint32_t __bss_start[], __bss_end[], __stack_top[];

#ifdef __riscv
// The trap sequence must be uncompressed and on one page: a section of its own, aligned to 16.
__asm__(".section .text.semihost, \"ax\"\n.balign 16\n.option push\n.option norvc\n.globl semihost\n"
        "semihost: slli x0, x0, 0x1f\nebreak\nsrai x0, x0, 7\nret\n.option pop\n.text\n");
extern intptr_t semihost(intptr_t operation, const void *argument);
#else
static intptr_t semihost(intptr_t operation, const void *argument) {
    register intptr_t r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;
    __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
    return r0;
}
#endif

static void stop(intptr_t reason) {
    semihost(0x18, (const void *)reason);
    for (;;) { }
}

void test_fault(void) {
    stop(0x20023); // run-time error
}

void test_main(void) {
    for (uint32_t *p = __bss_start; p < __bss_end; p++) *p = 0;
    const intptr_t open[] = {(intptr_t)"outputs.bin", 5, 11}; // "wb"
    const intptr_t file = semihost(0x01, open);
    const uint8_t *source = test_inputs;
    for (const struct test_model *m = test_models; m < test_models + test_model_count; m++)
        for (uint32_t row = 0; row < m->rows; row++) {
            for (const struct test_port *p = m->inputs; p < m->inputs + m->input_count; p++)
                for (uint32_t b = 0; b < p->bytes; b++) p->address[b] = *source++;
            m->invoke();
            for (const struct test_port *p = m->outputs; p < m->outputs + m->output_count; p++) {
                const intptr_t write[] = {file, (intptr_t)p->address, p->bytes};
                if (semihost(0x05, write) != 0) stop(0x20023);
            }
        }
    const intptr_t close[] = {file};
    semihost(0x02, close);
    stop(0x20026); // application exit
}

#ifdef __riscv
__asm__(".section .vectors, \"ax\"\n.globl _start\n_start:\n"
        ".option push\n.option norelax\nla sp, __stack_top\n.option pop\n"
        "la t0, trap\ncsrw mtvec, t0\n"
#ifdef __riscv_flen
        "li t0, 0x2000\ncsrs mstatus, t0\n"
#endif
        "call test_main\n.balign 4\ntrap: la sp, __stack_top\ncall test_fault\n.text\n");
#else
__attribute__((naked)) void _start(void) {
#if __ARM_FP
    __asm__(".syntax unified\nldr r0, =0xE000ED88\nldr r1, [r0]\norr r1, r1, #0xF00000\nstr r1, [r0]\ndsb\nisb");
#endif
    __asm__("bl test_main");
}
__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    __stack_top, _start, test_fault, test_fault, test_fault, test_fault, test_fault, test_fault,
    test_fault, test_fault, test_fault, test_fault, test_fault, test_fault, test_fault, test_fault};
#endif
