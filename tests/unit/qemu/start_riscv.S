// SPDX-License-Identifier: Apache-2.0
.option norelax
.section .vectors, "ax"
.global start
start:
    la sp, __stack_top
    la a0, __bss_start
    la a1, __bss_end
1:  bgeu a0, a1, 2f
    sw zero, 0(a0)
    addi a0, a0, 4
    j 1b
2:  la a0, on_fault
    csrw mtvec, a0
    call firmware

.text
.balign 4
on_fault:
    call fault

// RISC-V knows no lockup: the guest faults again and again.
.global lock_up
lock_up:
    csrw mtvec, zero
    unimp

.global unaligned
unaligned:
    la a0, __stack_limit + 1
    lw a0, 0(a0)
    ret

// mul a0, a0, a1
.global multiply
multiply:
    .word 0x02B50533
    ret

// mstatus.FS = initial; fadd.s fa0, fa0, fa1
.global float_add
float_add:
    li a0, 0x2000
    csrs mstatus, a0
    .word 0x00B57553
    ret

.global touch_stack
touch_stack:
    la a0, __stack_top - 700
    sw a0, 0(a0)
    ret

helper:
    nop
    ret

// 4 instructions, then 2 + 2 * 100000 + 5 + 2, then 5 + 2.
.global model_invoke
.type model_invoke, @function
model_invoke:
    la a1, model_dispatch
    li a0, 1
    sw a0, 0(a1)
    li a2, 100000
1:  addi a2, a2, -1
    bnez a2, 1b
    mv t1, ra
    jal helper
    mv ra, t1
    li a0, 2
    sw a0, 0(a1)
    nop
    nop
    nop
    nop
    nop
    li a0, 0
    sw a0, 0(a1)
    ret
.size model_invoke, . - model_invoke
