/* SPDX-License-Identifier: Apache-2.0 */
/* What the example needs of an analog-digital converter. */
#ifndef SENSOR_H
#define SENSOR_H

#include <stdint.h>

void sensor_start(void);
uint32_t sensor_read(void); /* 0..4095; returns when a conversion is done */

#endif
