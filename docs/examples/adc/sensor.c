/* SPDX-License-Identifier: Apache-2.0 */
/* Stands in for a converter: plays back three recorded digits of 14 x 14 readings. Replace both functions by your
   part's: start the converter's clock and calibration in sensor_start; start a conversion, wait for its end and return
   its data register in sensor_read. */
#include "sensor.h"

static const char recording[] =
    "00000000000000000000000000000000000000000000001bc41100000000851aa700000002c005f400000006a01ce70000"
    "000493c585000000009a30b5000000000000b4000000000001e1000000000004c0000000000005a0000000000000000000"
    "00000000000000000000000000000000000000000000000002ae8000000002aecf600000002ea6e700000000364e600000"
    "000004d4000000000009c1000000000001bb000000000001ab00000000006be4000000000be81000000000000000000000"
    "0000000000000000000000000000000000000000000000029bb2000000004ffffa00000004ff939f10000004ff87ef2000"
    "0001bfffff20000000037cfa00000000000bf500000000002ff200000000006fe100000000003d60000000000000000000";

static uint32_t next;

void sensor_start(void) { next = 0; }

uint32_t sensor_read(void)
{
    char digit = recording[next];
    next = next + 2 < sizeof recording ? next + 1 : 0;
    return 273u * (uint32_t)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}
