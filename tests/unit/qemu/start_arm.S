// SPDX-License-Identifier: Apache-2.0
.syntax unified
.thumb
.section .vectors, "a"
.word __stack_top, start
.rept 14
.word lock_up
.endr

.text
.global start
.type start, %function
start:
    ldr r0, =__bss_start
    ldr r1, =__bss_end
    movs r2, #0
1:  cmp r0, r1
    bhs 2f
    str r2, [r0]
    adds r0, #4
    b 1b
2:  bl firmware

// Undefined, so a fault; inside the handler of faults, a lockup.
.global lock_up
.type lock_up, %function
lock_up:
    udf #0

.global touch_stack
.type touch_stack, %function
touch_stack:
    ldr r0, =__stack_top - 700
    str r0, [r0]
    bx lr

// 3 instructions, then 1 + 2 * 1000 + 2, then 5 + 2.
.global model_invoke
.type model_invoke, %function
model_invoke:
    ldr r1, =model_dispatch
    movs r0, #1
    str r0, [r1]
    ldr r2, =1000
1:  subs r2, #1
    bne 1b
    movs r0, #2
    str r0, [r1]
    nop
    nop
    nop
    nop
    nop
    movs r0, #0
    str r0, [r1]
    bx lr
.size model_invoke, . - model_invoke
