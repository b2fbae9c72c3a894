/* SPDX-License-Identifier: Apache-2.0 */
/* Classifies what a sensor delivers, one sample a time, and prints the class.

   ./kiln board=netduinoplus2 model=mnist_mlp_int8 app=docs/examples/adc run */
#include <stdint.h>

#include "firmware.h"
#include "mnist_mlp_int8.h"
#include "sensor.h"

/* A reading of 0..4095 to the input's int8: real = reading / 4095, quantised = real / scale + zero point. The division
   by the scale is folded into one factor of 2^24 at build time, so there is no float at run time. */
#define FACTOR ((int32_t)(16777216.0f / (4095.0f * MNIST_MLP_INT8_INPUT_0_SCALE) + 0.5f))

static int8_t quantised(uint32_t reading)
{
    int32_t value = (int32_t)(((int64_t)reading * FACTOR + (1 << 23)) >> 24) + MNIST_MLP_INT8_INPUT_0_ZERO_POINT;
    return (int8_t)(value > 127 ? 127 : value);
}

static unsigned classify(void)
{
    int8_t *input = mnist_mlp_int8_input_0();
    for (unsigned i = 0; i < MNIST_MLP_INT8_INPUT_0_ELEMENTS; i++) {
        input[i] = quantised(sensor_read());
    }
    mnist_mlp_int8_invoke();
    const int8_t *scores = mnist_mlp_int8_output_0();
    unsigned best = 0;
    for (unsigned i = 1; i < MNIST_MLP_INT8_OUTPUT_0_ELEMENTS; i++) {
        if (scores[i] > scores[best]) {
            best = i;
        }
    }
    return best;
}

int main(void)
{
    sensor_start();
    for (unsigned sample = 0; sample < 3; sample++) {
        firmware_put_text("class ");
        firmware_put_number((int32_t)classify());
        firmware_put_text("\r\n");
        firmware_check_stack();
    }
    return 0;
}
