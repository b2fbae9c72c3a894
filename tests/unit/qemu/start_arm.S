// SPDX-License-Identifier: Apache-2.0
.syntax unified
.thumb
.section .vectors, "a"
.word __stack_top, start
.word on_fault, on_fault, on_fault, on_fault, on_fault
.word 0, 0, 0, 0, on_fault, on_fault, 0, on_fault
.word SysTick_Handler

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
2:  ldr r0, =0xE000E010
    ldr r1, =20000
    str r1, [r0, #4]
    movs r1, #7
    str r1, [r0]
    bl firmware

// Strikes in the middle of inferences and must not be counted.
.global SysTick_Handler
.type SysTick_Handler, %function
SysTick_Handler:
    ldr r0, =ticks
    ldr r1, [r0]
    adds r1, #1
    str r1, [r0]
    bx lr
.size SysTick_Handler, . - SysTick_Handler

.type on_fault, %function
on_fault:
    ldr r0, =locking
    ldr r0, [r0]
    cmp r0, #0
    bne undefined
    bl fault

// A fault, and another one in its handler.
.global lock_up
.type lock_up, %function
lock_up:
    ldr r0, =locking
    str r0, [r0]
undefined:
    udf #0

.global unaligned
.type unaligned, %function
unaligned:
    ldr r0, =__stack_limit + 1
    ldr r0, [r0]
    bx lr

.global multiply
.type multiply, %function
multiply:
    muls r0, r1, r0
    bx lr

// vadd.f32 s0, s0, s0; nobody enabled the float unit.
.global float_add
.type float_add, %function
float_add:
    .short 0xEE30, 0x0A00
    bx lr

.global touch_stack
.type touch_stack, %function
touch_stack:
    ldr r0, =__stack_top - 700
    str r0, [r0]
    bx lr

.type helper, %function
helper:
    nop
    bx lr

// 3 instructions, then 1 + 2 * 100000 + 5 + 2, then 5 + 2.
.global model_invoke
.type model_invoke, %function
model_invoke:
    ldr r1, =model_dispatch
    movs r0, #1
    str r0, [r1]
    ldr r2, =100000
1:  subs r2, #1
    bne 1b
    mov r3, lr
    bl helper
    mov lr, r3
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

.bss
.balign 4
.global ticks
ticks: .space 4
locking: .space 4
