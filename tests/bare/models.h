// SPDX-License-Identifier: Apache-2.0
// The models of a test program: what the generated glue.c says of them, and main.c reads.
#include <stdint.h>

struct test_port {
    uint8_t *address;
    uint32_t bytes;
};

struct test_model {
    const struct test_port *inputs, *outputs;
    uint32_t input_count, output_count, rows;
    void (*invoke)(void);
};

extern const struct test_model test_models[];
extern const uint32_t test_model_count;
