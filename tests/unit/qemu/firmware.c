// SPDX-License-Identifier: Apache-2.0
// The least firmware that speaks the console, for tests of the emulator side. DRIVER chooses the UART at UART_BASE.
#include <stdint.h>

#define REG(offset) (*(volatile uint32_t *)(UART_BASE + (offset)))
#define REG8(offset) (*(volatile uint8_t *)(UART_BASE + (offset)))

#if defined(DRIVER_cmsdk_uart)
static void uart_init(void) { REG(0x10) = 217, REG(8) = 3; }
static void put(char c) { while (REG(4) & 1) {} REG(0) = (uint8_t)c; }
static uint8_t get(void) { while (!(REG(4) & 2)) {} return (uint8_t)REG(0); }
#elif defined(DRIVER_ns16550)
static void uart_init(void) { REG8(2) = 0xC1; }
static void put(char c) { while (!(REG8(5) & 0x20)) {} REG8(0) = (uint8_t)c; }
static uint8_t get(void) { while (!(REG8(5) & 1)) {} return REG8(0); }
#elif defined(DRIVER_stm32_usart_v1)
static void uart_init(void) { REG(8) = 139, REG(12) = 0x200C; }
static void put(char c) { while (!(REG(0) & 0x80)) {} REG(4) = (uint8_t)c; }
static uint8_t get(void) { while (!(REG(0) & 0x20)) {} return (uint8_t)REG(4); }
#elif defined(DRIVER_nrf_uart)
static void uart_init(void) { REG(0x500) = 4, REG(0x524) = 0x01D7E000, REG(0) = 1, REG(8) = 1; }
static void put(char c) { REG(0x11C) = 0, REG(0x51C) = (uint8_t)c; while (!REG(0x11C)) {} }
static uint8_t get(void) { while (!REG(0x108)) {} REG(0x108) = 0; return (uint8_t)REG(0x518); }
#endif

volatile uint32_t model_dispatch;
void model_invoke(void);
void lock_up(void);
void touch_stack(void);
void unaligned(void);
void multiply(void);
void float_add(void);

static uint8_t buffer[512];
static uint32_t size, filled;

static void say(const char *text) { while (*text) put(*text++); }
static void line(const char *text) { say(text), say("\r\n"); }
static void hex(uint8_t value) { put("0123456789abcdef"[value >> 4]), put("0123456789abcdef"[value & 15]); }
static int digit(char c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; }

static const char *tail(const char *text, const char *head) {
    while (*head) if (*text++ != *head++) return 0;
    return text;
}

// The start-up's handler of faults ends here.
void fault(void) {
    line("e-[Fault]");
    for (;;) {}
}

void firmware(void) {
    uart_init();
    line("m-init-done");
    line("m-ready");
    for (;;) {
        static char text[96];
        uint32_t length = 0;
        for (uint8_t c; (c = get()) != '%';) if (length < sizeof text - 1) text[length++] = (char)c;
        text[length] = 0;
        const char *rest;
        if ((rest = tail(text, "db load "))) {
            for (size = 0; *rest; rest++) size = size * 10 + (uint32_t)(*rest - '0');
            filled = 0;
        } else if ((rest = tail(text, "db "))) {
            for (; rest[0] && filled < size; rest += 2) buffer[filled++] = (uint8_t)(digit(rest[0]) << 4 | digit(rest[1]));
            if (filled == size) line("m-load-done");
        } else if (tail(text, "infer ")) {
            line("m-lap-us-4294967290");
            model_invoke();
            line("m-lap-us-4");
            line("m-results-[0.5,0.25,]");
        } else if (tail(text, "out")) {
            for (uint32_t at = 0; at < size;) {
                say("m-out-[");
                for (uint32_t i = 0; i < 32 && at < size; i++) hex(buffer[at++]);
                line("]");
            }
        } else if (tail(text, "name")) line("m-name-dut-[test]");
        else if (tail(text, "raw")) for (uint32_t i = 0; i < 256; i++) put((char)get());
        else if (tail(text, "touch")) touch_stack();
        else if (tail(text, "unaligned")) unaligned();
        else if (tail(text, "multiply")) multiply();
        else if (tail(text, "float")) float_add();
        else if (tail(text, "lockup")) lock_up();
        else if (tail(text, "hang")) for (;;) {}
        else say("e-[Unknown command: "), say(text), line("]");
        line("m-ready");
    }
}
