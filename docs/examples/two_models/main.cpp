// SPDX-License-Identifier: Apache-2.0
// Two networks in one image, asked one after the other about the same digit. They share one arena: the first one's
// outputs are read before the second one's inputs are written.
//
//   ./kiln board=netduinoplus2 model=mnist_mlp_int8,mnist_nano_int8 app=docs/examples/two_models run
#include <stdint.h>

#include "firmware.h"
#include "mnist_mlp_int8.h"
#include "mnist_nano_int8.h"
#include "recording.h"

namespace {

constexpr unsigned pixels = 14 * 14;
constexpr unsigned digits = sizeof recording / pixels;

// Templates rather than virtual functions: calls by name keep the stack's bound provable.
template <int8_t *input(), const int8_t *output(), void invoke(), int zero_point>
unsigned classify(const char *digit)
{
    for (unsigned i = 0; i < pixels; i++) {
        int value = digit[i] <= '9' ? digit[i] - '0' : digit[i] - 'a' + 10;
        input()[i] = static_cast<int8_t>(value * 17 + zero_point);  // both inputs have the scale 1 / 255
    }
    invoke();
    unsigned best = 0;
    for (unsigned i = 1; i < 10; i++) {
        if (output()[i] > output()[best]) {
            best = i;
        }
    }
    return best;
}

class Tally {
public:
    Tally() : asked(0) { agreed = 0; }
    void count(bool same)
    {
        asked++;
        agreed += same ? 1 : 0;
    }
    void print() const
    {
        firmware_put_text("agreed on ");
        firmware_put_number(agreed);
        firmware_put_text(" of ");
        firmware_put_number(asked);
        firmware_put_text("\r\n");
    }

private:
    volatile int asked;
    volatile int agreed;
};

Tally tally;  // its constructor runs before main

}  // namespace

int main()
{
    for (unsigned i = 0; i < digits; i++) {
        const char *digit = recording + i * pixels;
        unsigned first = classify<mnist_mlp_int8_input_0, mnist_mlp_int8_output_0, mnist_mlp_int8_invoke,
                                  MNIST_MLP_INT8_INPUT_0_ZERO_POINT>(digit);
        unsigned second = classify<mnist_nano_int8_input_0, mnist_nano_int8_output_0, mnist_nano_int8_invoke,
                                   MNIST_NANO_INT8_INPUT_0_ZERO_POINT>(digit);
        firmware_put_text("classes ");
        firmware_put_number(static_cast<int32_t>(first));
        firmware_put_text(" and ");
        firmware_put_number(static_cast<int32_t>(second));
        firmware_put_text("\r\n");
        tally.count(first == second);
    }
    tally.print();
}
